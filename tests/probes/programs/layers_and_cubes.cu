// Layered arrays that a kernel fills layer by layer, and environment maps: the six faces of a cube looked up
// by direction.
#include "check.h"

__global__ void fill_layers(cudaSurfaceObject_t out, int width, int height) {
  const int x = threadIdx.x, y = blockIdx.x, layer = blockIdx.y;
  if (x < width && y < height)
    surf2DLayeredwrite(make_float2(layer * 1000.0f + y * 32 + x, -layer), out, x * sizeof(float2), y, layer);
}
__global__ void sum_layers(cudaTextureObject_t in, float* out, int width, int layers) {
  const int x = threadIdx.x, y = blockIdx.x;
  if (x >= width) return;
  float sum = 0;
  for (int layer = 0; layer < layers; ++layer) {
    const float2 at = tex2DLayered<float2>(in, x + 0.5f, y + 0.5f, layer);
    sum += at.x * 0.5f + at.y;
  }
  out[y * width + x] = sum;
}
__global__ void look(cudaTextureObject_t cube, const float3* directions, int* faces, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) faces[i] = texCubemap<int>(cube, directions[i].x, directions[i].y, directions[i].z);
}
__global__ void look_layered(cudaTextureObject_t cubes, float3 direction, int* out) {
  out[threadIdx.x] = texCubemapLayered<int>(cubes, direction.x, direction.y, direction.z, threadIdx.x);
}

static void layers() {
  constexpr int kWidth = 30, kHeight = 9, kLayers = 5;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float2>();
  cudaArray_t array;
  MUST(cudaMalloc3DArray(&array, &format, make_cudaExtent(kWidth, kHeight, kLayers),
                         cudaArrayLayered | cudaArraySurfaceLoadStore));
  cudaChannelFormatDesc told;
  cudaExtent extent;
  unsigned flags = 0;
  MUST(cudaArrayGetInfo(&told, &extent, &flags, array));
  HOLDS(told.x == 32 && told.y == 32 && told.z == 0 && told.f == cudaChannelFormatKindFloat, "the format");
  HOLDS(extent.width == kWidth && extent.height == kHeight && extent.depth == kLayers, "the extent");
  HOLDS(flags == (cudaArrayLayered | cudaArraySurfaceLoadStore), "flags %x", flags);
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc desc = {};
  desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
  cudaSurfaceObject_t surface;
  cudaTextureObject_t texture;
  MUST(cudaCreateSurfaceObject(&surface, &resource));
  MUST(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  float* sums;
  MUST(cudaMalloc(&sums, kWidth * kHeight * sizeof(float)));
  fill_layers<<<dim3(kHeight, kLayers), 32>>>(surface, kWidth, kHeight);
  sum_layers<<<kHeight, 32>>>(texture, sums, kWidth, kLayers);
  MUST_RUN();
  std::vector<float> host(kWidth * kHeight);
  MUST(cudaMemcpy(host.data(), sums, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x) {
      float wanted = 0;
      for (int layer = 0; layer < kLayers; ++layer) wanted += (layer * 1000.0f + y * 32 + x) * 0.5f - layer;
      HOLDS(host[y * kWidth + x] == wanted, "%d,%d: %g, %g", x, y, host[y * kWidth + x], wanted);
    }
  // One layer alone, by a copy out of the array.
  std::vector<float2> layer(kWidth * kHeight);
  cudaMemcpy3DParms copy = {};
  copy.srcArray = array;
  copy.srcPos = make_cudaPos(0, 0, 3);
  copy.dstPtr = make_cudaPitchedPtr(layer.data(), kWidth * sizeof(float2), kWidth, kHeight);
  copy.extent = make_cudaExtent(kWidth, kHeight, 1);
  copy.kind = cudaMemcpyDeviceToHost;
  MUST(cudaMemcpy3D(&copy));
  HOLDS(layer[8 * kWidth + 29].x == 3000 + 8 * 32 + 29 && layer[0].y == -3, "the third layer");
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaDestroySurfaceObject(surface));
  MUST(cudaFree(sums));
  MUST(cudaFreeArray(array));
}

// "Cubemap Textures" of the Programming Guide: the face, and where on it.
static int face_of(float3 d, int* s_at, int* t_at, int size) {
  const float ax = std::abs(d.x), ay = std::abs(d.y), az = std::abs(d.z);
  int face;
  float m, s, t;
  if (ax > ay && ax > az) {
    face = d.x >= 0 ? 0 : 1, m = ax, s = d.x >= 0 ? -d.z : d.z, t = -d.y;
  } else if (ay > az) {
    face = d.y >= 0 ? 2 : 3, m = ay, s = d.x, t = d.y >= 0 ? d.z : -d.z;
  } else {
    face = d.z >= 0 ? 4 : 5, m = az, s = d.z >= 0 ? d.x : -d.x, t = -d.y;
  }
  *s_at = std::clamp(static_cast<int>((s / m + 1) / 2 * size), 0, size - 1);
  *t_at = std::clamp(static_cast<int>((t / m + 1) / 2 * size), 0, size - 1);
  return face;
}

static void cubes() {
  constexpr int kSize = 8, kLayers = 3;
  std::vector<int> texels(kSize * kSize * 6 * kLayers);
  for (size_t i = 0; i < texels.size(); ++i) texels[i] = static_cast<int>(i);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  for (const int layers : {0, kLayers}) {
    cudaArray_t array;
    const int faces = 6 * std::max(layers, 1);
    MUST(cudaMalloc3DArray(&array, &format, make_cudaExtent(kSize, kSize, faces),
                           cudaArrayCubemap | (layers != 0 ? cudaArrayLayered : 0)));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(texels.data(), kSize * sizeof(int), kSize, kSize);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(kSize, kSize, faces);
    copy.kind = cudaMemcpyHostToDevice;
    MUST(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc desc = {};
    desc.addressMode[0] = desc.addressMode[1] = desc.addressMode[2] = cudaAddressModeClamp;
    desc.normalizedCoords = 1;
    cudaTextureObject_t texture;
    MUST(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    std::vector<float3> directions;
    for (int i = 0; i < 500; ++i)  // none near an edge between texels
      directions.push_back(
          make_float3((i * 29 % 41) - 20.37f, (i * 31 % 43) - 21.29f, (i * 37 % 47) - 23.41f));
    int s = 0, t = 0;
    if (layers == 0) {
      float3* device;
      int* found;
      MUST(cudaMalloc(&device, directions.size() * sizeof(float3)));
      MUST(cudaMalloc(&found, directions.size() * sizeof(int)));
      MUST(cudaMemcpy(device, directions.data(), directions.size() * sizeof(float3), cudaMemcpyHostToDevice));
      look<<<4, 128>>>(texture, device, found, static_cast<int>(directions.size()));
      MUST_RUN();
      std::vector<int> host(directions.size());
      MUST(cudaMemcpy(host.data(), found, host.size() * sizeof(int), cudaMemcpyDeviceToHost));
      for (size_t i = 0; i < host.size(); ++i) {
        const int face = face_of(directions[i], &s, &t, kSize);
        HOLDS(host[i] == (face * kSize + t) * kSize + s, "direction %zu: %d", i, host[i]);
      }
      MUST(cudaFree(device));
      MUST(cudaFree(found));
    } else {
      int *found, host[kLayers];
      MUST(cudaMalloc(&found, sizeof host));
      look_layered<<<1, kLayers>>>(texture, directions[7], found);
      MUST(cudaMemcpy(host, found, sizeof host, cudaMemcpyDeviceToHost));
      const int face = face_of(directions[7], &s, &t, kSize);
      for (int layer = 0; layer < kLayers; ++layer)
        HOLDS(host[layer] == ((layer * 6 + face) * kSize + t) * kSize + s, "layer %d: %d", layer,
              host[layer]);
      MUST(cudaFree(found));
    }
    MUST(cudaDestroyTextureObject(texture));
    MUST(cudaFreeArray(array));
  }
  // A cube's faces are square, and six.
  cudaArray_t none;
  REFUSES(cudaMalloc3DArray(&none, &format, make_cudaExtent(8, 4, 6), cudaArrayCubemap),
          cudaErrorInvalidValue);
  REFUSES(cudaMalloc3DArray(&none, &format, make_cudaExtent(8, 8, 5), cudaArrayCubemap),
          cudaErrorInvalidValue);
}

int main() {
  layers();
  cubes();
  return verdict();
}
