// Surfaces of every shape: lines, layers of lines, planes, cubes and layers of cubes, written and read with
// vectors of several sizes, and what there is beyond their edges.
#include "check.h"

__global__ void line(cudaSurfaceObject_t s, int n) {
  const int i = threadIdx.x;
  if (i < n) surf1Dwrite(static_cast<short>(i * 3 - 7), s, i * static_cast<int>(sizeof(short)));
}
__global__ void mirror_line(cudaSurfaceObject_t s, short* out, int n) {
  const int i = threadIdx.x;
  short value = 0;
  if (i < n) value = surf1Dread<short>(s, (n - 1 - i) * static_cast<int>(sizeof(short)));
  if (i < n) out[i] = value;
}
__global__ void layered_lines(cudaSurfaceObject_t s, int n) {
  const int i = threadIdx.x, layer = blockIdx.x;
  if (i < n) {
    int2 value = make_int2(layer, i);
    surf1DLayeredwrite(value, s, i * static_cast<int>(sizeof(int2)), layer);
    value = surf1DLayeredread<int2>(s, i * static_cast<int>(sizeof(int2)), layer);
    surf1DLayeredwrite(make_int2(value.y, value.x + 100), s, i * static_cast<int>(sizeof(int2)), layer);
  }
}
// Each texel takes the largest of its row's neighbours; beyond the edge by the mode.
template <cudaSurfaceBoundaryMode mode>
__global__ void dilate(cudaSurfaceObject_t from, uchar4* out, int width) {
  const int x = threadIdx.x, y = blockIdx.x;
  if (x >= width) return;
  uchar4 best = make_uchar4(0, 0, 0, 0);
  for (int dx = -2; dx <= 2; ++dx) {
    uchar4 at;
    surf2Dread(&at, from, (x + dx) * static_cast<int>(sizeof(uchar4)), y, mode);
    best = make_uchar4(max(best.x, at.x), max(best.y, at.y), max(best.z, at.z), best.w + at.w);
  }
  out[y * width + x] = best;
}
__global__ void beyond(cudaSurfaceObject_t s, int width) {
  // "Ignored": a store beyond the edge with a mode of zero or clamp does not trap.
  surf2Dwrite(make_uchar4(9, 9, 9, 9), s, (width + static_cast<int>(threadIdx.x)) * 4, 0,
              cudaBoundaryModeZero);
}
__global__ void faces(cudaSurfaceObject_t s, int size) {
  const int x = threadIdx.x, y = blockIdx.x, face = blockIdx.y;
  if (x < size)
    surfCubemapwrite(make_float4(face, y, x, 1), s, x * static_cast<int>(sizeof(float4)), y, face);
}
__global__ void layers_of_faces(cudaSurfaceObject_t s, int size) {
  const int x = threadIdx.x, y = blockIdx.x, layer_face = blockIdx.y;
  if (x >= size) return;
  const unsigned value = layer_face * 10000u + y * 100 + x;
  surfCubemapLayeredwrite(value, s, x * static_cast<int>(sizeof(unsigned)), y, layer_face);
  if (surfCubemapLayeredread<unsigned>(s, x * static_cast<int>(sizeof(unsigned)), y, layer_face) != value)
    __trap();
}

struct Surface {
  cudaArray_t array;
  cudaSurfaceObject_t object;
  cudaExtent extent;
  template <class T>
  static Surface of(cudaExtent extent, unsigned flags) {
    Surface made{nullptr, 0, extent};
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<T>();
    MUST(cudaMalloc3DArray(&made.array, &format, extent, flags | cudaArraySurfaceLoadStore));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = made.array;
    MUST(cudaCreateSurfaceObject(&made.object, &resource));
    return made;
  }
  template <class T>
  std::vector<T> read() const {
    const cudaExtent all =
        make_cudaExtent(extent.width, std::max<size_t>(extent.height, 1), std::max<size_t>(extent.depth, 1));
    std::vector<T> out(all.width * all.height * all.depth);
    cudaMemcpy3DParms copy = {};
    copy.srcArray = array;
    copy.dstPtr = make_cudaPitchedPtr(out.data(), all.width * sizeof(T), all.width, all.height);
    copy.extent = all;
    copy.kind = cudaMemcpyDeviceToHost;
    MUST(cudaMemcpy3D(&copy));
    return out;
  }
  void free() const {
    MUST(cudaDestroySurfaceObject(object));
    MUST(cudaFreeArray(array));
  }
};

static void lines() {
  constexpr int kCount = 45;
  const Surface s = Surface::of<short>(make_cudaExtent(kCount, 0, 0), 0);
  short *device, out[kCount];
  MUST(cudaMalloc(&device, sizeof out));
  line<<<1, 64>>>(s.object, kCount);
  mirror_line<<<1, 64>>>(s.object, device, kCount);
  MUST(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
  const std::vector<short> stored = s.read<short>();
  for (int i = 0; i < kCount; ++i)
    HOLDS(stored[i] == i * 3 - 7 && out[i] == (kCount - 1 - i) * 3 - 7, "%d: %d, %d", i, stored[i], out[i]);
  MUST(cudaFree(device));
  s.free();
  constexpr int kLayers = 3;
  const Surface layered = Surface::of<int2>(make_cudaExtent(20, 0, kLayers), cudaArrayLayered);
  layered_lines<<<kLayers, 32>>>(layered.object, 20);
  MUST_RUN();
  const std::vector<int2> all = layered.read<int2>();
  for (int layer = 0; layer < kLayers; ++layer)
    for (int i = 0; i < 20; ++i)
      HOLDS(all[layer * 20 + i].x == i && all[layer * 20 + i].y == layer + 100, "%d, %d", layer, i);
  layered.free();
}

static void planes() {
  constexpr int kWidth = 30, kHeight = 4;
  const Surface s = Surface::of<uchar4>(make_cudaExtent(kWidth, kHeight, 0), 0);
  std::vector<uchar4> texels(kWidth * kHeight), out(texels.size());
  for (size_t i = 0; i < texels.size(); ++i) texels[i] = make_uchar4(i * 7, i * 11, i * 13, 1);
  MUST(cudaMemcpy2DToArray(s.array, 0, 0, texels.data(), kWidth * 4, kWidth * 4, kHeight,
                           cudaMemcpyHostToDevice));
  uchar4* device;
  MUST(cudaMalloc(&device, out.size() * 4));
  for (const bool clamps : {false, true}) {
    if (clamps)
      dilate<cudaBoundaryModeClamp><<<kHeight, 32>>>(s.object, device, kWidth);
    else
      dilate<cudaBoundaryModeZero><<<kHeight, 32>>>(s.object, device, kWidth);
    MUST(cudaMemcpy(out.data(), device, out.size() * 4, cudaMemcpyDeviceToHost));
    for (int y = 0; y < kHeight; ++y)
      for (int x = 0; x < kWidth; ++x) {
        uchar4 best = make_uchar4(0, 0, 0, 0);
        for (int at = x - 2; at <= x + 2; ++at) {
          if (!clamps && (at < 0 || at >= kWidth)) continue;
          const uchar4 texel = texels[y * kWidth + std::clamp(at, 0, kWidth - 1)];
          best = make_uchar4(std::max(best.x, texel.x), std::max(best.y, texel.y), std::max(best.z, texel.z),
                             best.w + texel.w);
        }
        const uchar4 is = out[y * kWidth + x];
        HOLDS(is.x == best.x && is.y == best.y && is.z == best.z && is.w == best.w, "%d: %d,%d: %d, %d",
              clamps, x, y, is.w, best.w);
      }
  }
  beyond<<<1, 32>>>(s.object, kWidth);
  MUST_RUN();
  const std::vector<uchar4> after = s.read<uchar4>();
  HOLDS(memcmp(after.data(), texels.data(), texels.size() * 4) == 0, "nothing was stored");
  MUST(cudaFree(device));
  s.free();
  // Without the flag an array is no surface.
  cudaArray_t plain;
  cudaSurfaceObject_t none;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
  MUST(cudaMallocArray(&plain, &format, 8, 8));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = plain;
  REFUSES(cudaCreateSurfaceObject(&none, &resource), cudaErrorInvalidValue);
  MUST(cudaFreeArray(plain));
}

static void cubes() {
  constexpr int kSize = 6;
  const Surface cube = Surface::of<float4>(make_cudaExtent(kSize, kSize, 6), cudaArrayCubemap);
  faces<<<dim3(kSize, 6), 32>>>(cube.object, kSize);
  MUST_RUN();
  const std::vector<float4> all = cube.read<float4>();
  for (int i = 0; i < kSize * kSize * 6; ++i)
    HOLDS(all[i].x == i / (kSize * kSize) && all[i].y == i / kSize % kSize && all[i].z == i % kSize &&
              all[i].w == 1,
          "%d: %g", i, all[i].x);
  cube.free();
  const Surface layered =
      Surface::of<unsigned>(make_cudaExtent(kSize, kSize, 12), cudaArrayCubemap | cudaArrayLayered);
  layers_of_faces<<<dim3(kSize, 12), 32>>>(layered.object, kSize);
  MUST_RUN();
  const std::vector<unsigned> values = layered.read<unsigned>();
  for (int i = 0; i < kSize * kSize * 12; ++i)
    HOLDS(values[i] == i / 36 * 10000u + i / kSize % kSize * 100 + i % kSize, "%d: %u", i, values[i]);
  layered.free();
}

int main() {
  lines();
  planes();
  cubes();
  return verdict();
}
