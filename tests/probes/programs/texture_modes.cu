// What a texture object can be told: colours that are stored as sRGB, wrapping and mirroring in three
// dimensions, levels by gradients with bias and clamps, one dimension, and what descriptors say afterwards.
#include "check.h"

__global__ void colours(cudaTextureObject_t image, float4* out) {
  out[threadIdx.x] = tex2D<float4>(image, threadIdx.x + 0.5f, 0.5f);
}
__global__ void in_space(cudaTextureObject_t volume, const float3* at, int* out, int n) {
  const int i = threadIdx.x;
  if (i < n) out[i] = tex3D<int>(volume, at[i].x, at[i].y, at[i].z);
}
__global__ void by_gradient(cudaTextureObject_t image, float* out) {
  const float scale = 1 << threadIdx.x;  // so many texels of the finest level from one to the next
  out[threadIdx.x] =
      tex2DGrad<float>(image, 0.4f, 0.4f, make_float2(scale / 16, 0), make_float2(0, scale / 16));
}
__global__ void in_line(cudaTextureObject_t line, float* out, int n) {
  const int i = threadIdx.x;
  if (i < n) out[i] = tex1D<float>(line, (i - 4) / 16.0f);
}

static cudaResourceDesc of(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  return resource;
}

static void srgb() {
  constexpr int kCount = 256;
  std::vector<uchar4> texels(kCount);
  for (int i = 0; i < kCount; ++i) texels[i] = make_uchar4(i, 255 - i, i / 2, i);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
  cudaArray_t array;
  MUST(cudaMallocArray(&array, &format, kCount, 1));
  MUST(cudaMemcpy2DToArray(array, 0, 0, texels.data(), kCount * 4, kCount * 4, 1, cudaMemcpyHostToDevice));
  cudaTextureDesc desc = {};
  desc.readMode = cudaReadModeNormalizedFloat;
  desc.sRGB = 1;
  const cudaResourceDesc resource = of(array);
  cudaTextureObject_t texture;
  MUST(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  cudaTextureDesc told = {};
  MUST(cudaGetTextureObjectTextureDesc(&told, texture));
  HOLDS(told.sRGB == 1 && told.readMode == cudaReadModeNormalizedFloat, "as made");
  float4* device;
  std::vector<float4> out(kCount);
  MUST(cudaMalloc(&device, kCount * sizeof(float4)));
  colours<<<1, kCount>>>(texture, device);
  MUST_RUN();
  MUST(cudaMemcpy(out.data(), device, kCount * sizeof(float4), cudaMemcpyDeviceToHost));
  auto linear = [](int stored) {
    const double c = stored / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  for (int i = 0; i < kCount; ++i) {
    HOLDS(std::abs(out[i].x - linear(i)) < 2e-3 && std::abs(out[i].y - linear(255 - i)) < 2e-3, "%d: %g, %g",
          i, out[i].x, linear(i));
    HOLDS(std::abs(out[i].w - i / 255.0f) < 1e-6f, "alpha is linear: %d: %g", i, out[i].w);
  }
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaFreeArray(array));
  MUST(cudaFree(device));
}

static void volumes() {
  constexpr int kX = 4, kY = 2, kZ = 8;
  std::vector<int> voxels(kX * kY * kZ);
  for (size_t i = 0; i < voxels.size(); ++i) voxels[i] = static_cast<int>(i);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  cudaArray_t array;
  MUST(cudaMalloc3DArray(&array, &format, make_cudaExtent(kX, kY, kZ)));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(voxels.data(), kX * sizeof(int), kX, kY);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(kX, kY, kZ);
  copy.kind = cudaMemcpyHostToDevice;
  MUST(cudaMemcpy3D(&copy));
  cudaTextureDesc desc = {};
  desc.addressMode[0] = cudaAddressModeWrap;
  desc.addressMode[1] = cudaAddressModeClamp;
  desc.addressMode[2] = cudaAddressModeMirror;
  desc.normalizedCoords = 1;
  const cudaResourceDesc resource = of(array);
  cudaTextureObject_t texture;
  MUST(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  constexpr int kCount = 200;
  std::vector<float3> at(kCount);
  std::vector<int> out(kCount);
  auto texel = [](int i, int of) { return (i + 0.5f) / of; };
  for (int i = 0; i < kCount; ++i)
    at[i] = make_float3(texel(i % 13 - 6, kX), texel(i % 7 - 3, kY), texel(i % 31 - 15, kZ));
  float3* device;
  int* found;
  MUST(cudaMalloc(&device, kCount * sizeof(float3)));
  MUST(cudaMalloc(&found, kCount * sizeof(int)));
  MUST(cudaMemcpy(device, at.data(), kCount * sizeof(float3), cudaMemcpyHostToDevice));
  in_space<<<1, 256>>>(texture, device, found, kCount);
  MUST_RUN();
  MUST(cudaMemcpy(out.data(), found, kCount * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) {
    const int x = ((i % 13 - 6) % kX + kX) % kX, y = std::clamp(i % 7 - 3, 0, kY - 1);
    int z = ((i % 31 - 15) % (2 * kZ) + 2 * kZ) % (2 * kZ);
    if (z >= kZ) z = 2 * kZ - 1 - z;
    HOLDS(out[i] == (z * kY + y) * kX + x, "%d: %d, %d", i, out[i], (z * kY + y) * kX + x);
  }
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaFreeArray(array));
  MUST(cudaFree(device));
  MUST(cudaFree(found));
}

static void levels() {
  constexpr int kSize = 16, kLevels = 5;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaMipmappedArray_t mipmap;
  MUST(cudaMallocMipmappedArray(&mipmap, &format, make_cudaExtent(kSize, kSize, 0), kLevels));
  for (int level = 0; level < kLevels; ++level) {
    cudaArray_t array;
    const int size = kSize >> level;
    const std::vector<float> texels(size * size, static_cast<float>(level * 10));
    MUST(cudaGetMipmappedArrayLevel(&array, mipmap, level));
    MUST(cudaMemcpy2DToArray(array, 0, 0, texels.data(), size * 4, size * 4, size, cudaMemcpyHostToDevice));
  }
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = mipmap;
  float *device, out[6];
  MUST(cudaMalloc(&device, sizeof out));
  struct {
    float bias, least, most;
  } const all[] = {{0, 0, 4}, {1, 0, 4}, {-0.5f, 0, 4}, {0, 1.5f, 3}, {0, 2, 2}};
  for (const auto& one : all) {
    cudaTextureDesc desc = {};
    desc.normalizedCoords = 1;
    desc.mipmapFilterMode = cudaFilterModeLinear;
    desc.mipmapLevelBias = one.bias;
    desc.minMipmapLevelClamp = one.least;
    desc.maxMipmapLevelClamp = one.most;
    cudaTextureObject_t texture;
    MUST(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    by_gradient<<<1, 6>>>(texture, device);
    MUST_RUN();
    MUST(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 6; ++i) {
      const float wanted = std::clamp(i + one.bias, one.least, one.most) * 10;
      HOLDS(std::abs(out[i] - wanted) < 0.1f, "bias %g, from %g to %g, %d: %g, %g", one.bias, one.least,
            one.most, i, out[i], wanted);
    }
    MUST(cudaDestroyTextureObject(texture));
  }
  MUST(cudaFree(device));
  MUST(cudaFreeMipmappedArray(mipmap));
}

static void lines() {
  constexpr int kSize = 8, kCount = 24;
  float texels[kSize], *device, out[kCount];
  for (int i = 0; i < kSize; ++i) texels[i] = static_cast<float>(i * i);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  MUST(cudaMallocArray(&array, &format, kSize));
  MUST(cudaMemcpy2DToArray(array, 0, 0, texels, sizeof texels, sizeof texels, 1, cudaMemcpyHostToDevice));
  cudaTextureDesc desc = {};
  desc.addressMode[0] = cudaAddressModeWrap;
  desc.filterMode = cudaFilterModeLinear;
  desc.normalizedCoords = 1;
  const cudaResourceDesc resource = of(array);
  cudaTextureObject_t texture;
  MUST(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  MUST(cudaMalloc(&device, sizeof out));
  in_line<<<1, 32>>>(texture, device, kCount);
  MUST_RUN();
  MUST(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) {
    const float x = (i - 4) / 16.0f * kSize - 0.5f;
    const int left = static_cast<int>(std::floor(x));
    const float part = x - left;
    auto at = [&](int k) { return texels[(k % kSize + kSize) % kSize]; };
    const float wanted = (1 - part) * at(left) + part * at(left + 1);
    HOLDS(std::abs(out[i] - wanted) < 1e-3f, "%d: %g, %g", i, out[i], wanted);
  }
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaFreeArray(array));
  MUST(cudaFree(device));
  // Integers can't be filtered.
  const cudaChannelFormatDesc integers = cudaCreateChannelDesc<int>();
  MUST(cudaMallocArray(&array, &integers, 4, 4));
  const cudaResourceDesc of_integers = of(array);
  HOLDS(cudaCreateTextureObject(&texture, &of_integers, &desc, nullptr) != cudaSuccess, "of integers");
  HOLDS(cudaGetLastError() != cudaSuccess, "it is the last error");
  MUST(cudaFreeArray(array));
}

int main() {
  srgb();
  volumes();
  levels();
  lines();
  return verdict();
}
