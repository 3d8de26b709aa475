// Textures of plain memory: tables looked up by tex1Dfetch, images with a pitch and filtering, arrays of one
// dimension in layers, four texels at once, and views that read other formats than were stored.
#include <cuda_fp16.h>

#include "check.h"

__global__ void look_up(cudaTextureObject_t table, const int* at, float4* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex1Dfetch<float4>(table, at[i]);
}
__global__ void zoom(cudaTextureObject_t image, float* out, int width, int height, float times) {
  const int x = threadIdx.x, y = blockIdx.x;
  if (x < width && y < height)
    out[y * width + x] = tex2D<float>(image, (x + 0.5f) / times, (y + 0.5f) / times);
}
__global__ void of_layers(cudaTextureObject_t lines, float* out, int layers) {
  const int layer = threadIdx.x;
  if (layer < layers) out[layer] = tex1DLayered<float>(lines, 2.0f, layer);
}
__global__ void four(cudaTextureObject_t image, float4* out) {
  out[threadIdx.x] = tex2Dgather<float4>(image, 1.0f + threadIdx.x, 1.0f, 0);
}
__global__ void as_bits(cudaTextureObject_t image, unsigned* out) {
  out[threadIdx.x] = tex2D<unsigned>(image, threadIdx.x + 0.5f, 0.5f);
}
__global__ void half_values(cudaTextureObject_t image, float2* out) {
  out[threadIdx.x] = tex2D<float2>(image, threadIdx.x + 0.5f, 0.5f);
}

static cudaTextureObject_t make(const cudaResourceDesc& resource, cudaTextureFilterMode filter,
                                const cudaResourceViewDesc* view = nullptr) {
  cudaTextureDesc desc = {};
  desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
  desc.filterMode = filter;
  cudaTextureObject_t texture;
  MUST(cudaCreateTextureObject(&texture, &resource, &desc, view));
  return texture;
}

static void tables() {
  constexpr int kEntries = 300, kCount = 1000;
  std::vector<float4> table(kEntries), out(kCount);
  std::vector<int> at(kCount);
  for (int i = 0; i < kEntries; ++i) table[i] = make_float4(i, i * 2, i * 3, -i);
  for (int i = 0; i < kCount; ++i) at[i] = i * 7 % (kEntries + 20) - 10;  // outside there are zeros
  float4 *device, *found;
  int* index;
  MUST(cudaMalloc(&device, kEntries * sizeof(float4)));
  MUST(cudaMalloc(&found, kCount * sizeof(float4)));
  MUST(cudaMalloc(&index, kCount * sizeof(int)));
  MUST(cudaMemcpy(device, table.data(), kEntries * sizeof(float4), cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(index, at.data(), kCount * sizeof(int), cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = device;
  resource.res.linear.desc = cudaCreateChannelDesc<float4>();
  resource.res.linear.sizeInBytes = kEntries * sizeof(float4);
  const cudaTextureObject_t texture = make(resource, cudaFilterModePoint);
  look_up<<<(kCount + 127) / 128, 128>>>(texture, index, found, kCount);
  MUST(cudaMemcpy(out.data(), found, kCount * sizeof(float4), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) {
    const bool in = at[i] >= 0 && at[i] < kEntries;
    const float4 wanted = in ? table[at[i]] : make_float4(0, 0, 0, 0);
    HOLDS(out[i].x == wanted.x && out[i].y == wanted.y && out[i].z == wanted.z && out[i].w == wanted.w,
          "%d: %g", at[i], out[i].y);
  }
  cudaResourceDesc told;
  MUST(cudaGetTextureObjectResourceDesc(&told, texture));
  HOLDS(told.resType == cudaResourceTypeLinear && told.res.linear.devPtr == device, "as made");
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaFree(device));
  MUST(cudaFree(found));
  MUST(cudaFree(index));
}

static void images() {
  constexpr int kWidth = 13, kHeight = 6, kTimes = 2;
  std::vector<float> image(kWidth * kHeight), out(kTimes * kWidth * kTimes * kHeight);
  for (int i = 0; i < kWidth * kHeight; ++i) image[i] = static_cast<float>(i * 13 % 32);
  float *pitched, *zoomed;
  size_t pitch = 0;
  MUST(cudaMallocPitch(&pitched, &pitch, kWidth * sizeof(float), kHeight));
  MUST(cudaMalloc(&zoomed, out.size() * sizeof(float)));
  MUST(cudaMemcpy2D(pitched, pitch, image.data(), kWidth * sizeof(float), kWidth * sizeof(float), kHeight,
                    cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = pitched;
  resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
  resource.res.pitch2D.width = kWidth, resource.res.pitch2D.height = kHeight;
  resource.res.pitch2D.pitchInBytes = pitch;
  const cudaTextureObject_t texture = make(resource, cudaFilterModeLinear);
  zoom<<<kTimes * kHeight, 32>>>(texture, zoomed, kTimes * kWidth, kTimes * kHeight, kTimes);
  MUST(cudaMemcpy(out.data(), zoomed, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (int y = 0; y < kTimes * kHeight; ++y)
    for (int x = 0; x < kTimes * kWidth; ++x) {
      // At quarters, which 8 bits of fraction hold exactly.
      const float u = (x + 0.5f) / kTimes - 0.5f, v = (y + 0.5f) / kTimes - 0.5f;
      const int i = static_cast<int>(std::floor(u)), j = static_cast<int>(std::floor(v));
      auto at = [&](int c, int r) {
        return image[std::clamp(r, 0, kHeight - 1) * kWidth + std::clamp(c, 0, kWidth - 1)];
      };
      const float a = u - i, b = v - j;
      const float wanted = (1 - a) * (1 - b) * at(i, j) + a * (1 - b) * at(i + 1, j) +
                           (1 - a) * b * at(i, j + 1) + a * b * at(i + 1, j + 1);
      HOLDS(std::abs(out[y * kTimes * kWidth + x] - wanted) < 1e-4f, "%d,%d: %g, %g", x, y,
            out[y * kTimes * kWidth + x], wanted);
    }
  // What is written meanwhile is seen by the next kernel.
  MUST(cudaMemset2D(pitched, pitch, 0, kWidth * sizeof(float), kHeight));
  zoom<<<1, 1>>>(texture, zoomed, 1, 1, 1);
  MUST(cudaMemcpy(out.data(), zoomed, sizeof(float), cudaMemcpyDeviceToHost));
  HOLDS(out[0] == 0, "%g", out[0]);
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaFree(pitched));
  MUST(cudaFree(zoomed));
}

static void arrays() {
  cudaArray_t lines, image, halves;
  float* out;
  float host[16];
  MUST(cudaMalloc(&out, sizeof host));
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  MUST(cudaMalloc3DArray(&lines, &format, make_cudaExtent(4, 0, 3), cudaArrayLayered));
  float texels[12];
  for (int i = 0; i < 12; ++i) texels[i] = static_cast<float>(i * i);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(texels, 4 * sizeof(float), 4, 1);
  copy.dstArray = lines;
  copy.extent = make_cudaExtent(4, 1, 3);
  copy.kind = cudaMemcpyHostToDevice;
  MUST(cudaMemcpy3D(&copy));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = lines;
  cudaTextureObject_t texture = make(resource, cudaFilterModeLinear);
  of_layers<<<1, 32>>>(texture, out, 3);
  MUST(cudaMemcpy(host, out, 3 * sizeof(float), cudaMemcpyDeviceToHost));
  for (int layer = 0; layer < 3; ++layer) {
    const float wanted = (texels[layer * 4 + 1] + texels[layer * 4 + 2]) / 2;
    HOLDS(host[layer] == wanted, "layer %d: %g, %g", layer, host[layer], wanted);
  }
  MUST(cudaDestroyTextureObject(texture));

  // The four that a bilinear lookup would filter: from the lower left one against the clock.
  MUST(cudaMallocArray(&image, &format, 4, 3, cudaArrayTextureGather));
  MUST(cudaMemcpy2DToArray(image, 0, 0, texels, 16, 16, 3, cudaMemcpyHostToDevice));
  resource.res.array.array = image;
  texture = make(resource, cudaFilterModePoint);
  four<<<1, 3>>>(texture, reinterpret_cast<float4*>(out));
  MUST(cudaMemcpy(host, out, 12 * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 3; ++i)
    HOLDS(host[4 * i] == texels[4 + i] && host[4 * i + 1] == texels[5 + i] &&
              host[4 * i + 2] == texels[1 + i] && host[4 * i + 3] == texels[i],
          "%d: %g %g %g %g", i, host[4 * i], host[4 * i + 1], host[4 * i + 2], host[4 * i + 3]);
  MUST(cudaDestroyTextureObject(texture));

  // A view reads the bits of floats as unsigned integers.
  cudaResourceViewDesc view = {};
  view.format = cudaResViewFormatUnsignedInt1;
  view.width = 4, view.height = 3;
  texture = make(resource, cudaFilterModePoint, &view);
  as_bits<<<1, 4>>>(texture, reinterpret_cast<unsigned*>(out));
  MUST(cudaMemcpy(host, out, 4 * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 4; ++i) HOLDS(host[i] == texels[i], "%d: %g", i, host[i]);
  MUST(cudaDestroyTextureObject(texture));

  // Halves are read as floats.
  const cudaChannelFormatDesc half_format = cudaCreateChannelDescHalf2();
  const __half2 stored[3] = {__floats2half2_rn(1.5f, -2), __floats2half2_rn(0.25f, 1000),
                             __floats2half2_rn(-0.5f, 3)};
  MUST(cudaMallocArray(&halves, &half_format, 3, 1));
  MUST(cudaMemcpy2DToArray(halves, 0, 0, stored, 12, 12, 1, cudaMemcpyHostToDevice));
  resource.res.array.array = halves;
  texture = make(resource, cudaFilterModePoint);
  half_values<<<1, 3>>>(texture, reinterpret_cast<float2*>(out));
  MUST(cudaMemcpy(host, out, 6 * sizeof(float), cudaMemcpyDeviceToHost));
  const float wanted[] = {1.5f, -2, 0.25f, 1000, -0.5f, 3};
  HOLDS(std::equal(wanted, wanted + 6, host), "%g %g %g", host[0], host[1], host[2]);
  MUST(cudaDestroyTextureObject(texture));
  for (const cudaArray_t array : {lines, image, halves}) MUST(cudaFreeArray(array));
  MUST(cudaFree(out));
}

int main() {
  tables();
  images();
  arrays();
  return verdict();
}
