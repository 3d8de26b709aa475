// A mipmapped array whose levels are made by kernels, each from the one above, through surfaces; looked up
// with a level of detail that is given, also between two levels.
#include "check.h"

__global__ void halve(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0;
  for (int j = 0; j < 2; ++j)
    for (int i = 0; i < 2; ++i)
      sum += surf2Dread<float>(from, (2 * x + i) * static_cast<int>(sizeof(float)), 2 * y + j);
  surf2Dwrite(sum / 4, to, x * sizeof(float), y);
}
__global__ void look(cudaTextureObject_t image, float level, float* out, int width) {
  const int x = threadIdx.x, y = blockIdx.x;
  if (x < width)
    out[y * width + x] = tex2DLod<float>(image, (x + 0.5f) / width, (y + 0.5f) / gridDim.x, level);
}

static cudaSurfaceObject_t surface_of(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface;
  MUST(cudaCreateSurfaceObject(&surface, &resource));
  return surface;
}

int main() {
  constexpr int kSize = 32, kLevels = 6;
  std::vector<std::vector<float>> levels(1, std::vector<float>(kSize * kSize));
  for (int i = 0; i < kSize * kSize; ++i) levels[0][i] = static_cast<float>(i * 131 % 512);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaMipmappedArray_t mipmap;
  MUST(cudaMallocMipmappedArray(&mipmap, &format, make_cudaExtent(kSize, kSize, 0), kLevels,
                                cudaArraySurfaceLoadStore));
  cudaArray_t above;
  MUST(cudaGetMipmappedArrayLevel(&above, mipmap, 0));
  MUST(cudaMemcpy2DToArray(above, 0, 0, levels[0].data(), kSize * sizeof(float), kSize * sizeof(float), kSize,
                           cudaMemcpyHostToDevice));
  for (int level = 1; level < kLevels; ++level) {
    const int size = kSize >> level;
    cudaArray_t below;
    MUST(cudaGetMipmappedArrayLevel(&below, mipmap, level));
    cudaExtent extent;
    MUST(cudaArrayGetInfo(nullptr, &extent, nullptr, below));
    HOLDS(static_cast<int>(extent.width) == size && static_cast<int>(extent.height) == size, "level %d: %zu",
          level, extent.width);
    const cudaSurfaceObject_t from = surface_of(above), to = surface_of(below);
    halve<<<dim3((size + 7) / 8, (size + 7) / 8), dim3(8, 8)>>>(from, to, size, size);
    MUST_RUN();
    MUST(cudaDestroySurfaceObject(from));
    MUST(cudaDestroySurfaceObject(to));
    const std::vector<float>& last = levels.back();
    std::vector<float> made(size * size);
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; ++x) {
        const int at = 2 * y * 2 * size + 2 * x;
        made[y * size + x] = (last[at] + last[at + 1] + last[at + 2 * size] + last[at + 2 * size + 1]) / 4;
      }
    levels.push_back(made);
    above = below;
  }
  REFUSES(cudaGetMipmappedArrayLevel(&above, mipmap, kLevels), cudaErrorInvalidValue);

  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = mipmap;
  cudaTextureDesc desc = {};
  desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
  desc.normalizedCoords = 1;
  desc.maxMipmapLevelClamp = kLevels - 1;
  float* device;
  MUST(cudaMalloc(&device, kSize * kSize * sizeof(float)));
  for (const cudaTextureFilterMode between : {cudaFilterModePoint, cudaFilterModeLinear}) {
    desc.mipmapFilterMode = between;
    cudaTextureObject_t texture;
    MUST(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    for (int level = 0; level < kLevels; ++level) {
      const int size = kSize >> level;
      std::vector<float> out(size * size);
      look<<<size, 32>>>(texture, static_cast<float>(level), device, size);
      MUST(cudaMemcpy(out.data(), device, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
      for (int i = 0; i < size * size; ++i)
        HOLDS(out[i] == levels[level][i], "level %d, %d: %g, %g", level, i, out[i], levels[level][i]);
    }
    // A quarter of the way from the first level to the second; and no further than the clamp.
    std::vector<float> out(kSize * kSize);
    look<<<kSize, 32>>>(texture, 0.25f, device, kSize);
    MUST(cudaMemcpy(out.data(), device, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int y = 0; y < kSize; ++y)
      for (int x = 0; x < kSize; ++x) {
        const float near = levels[0][y * kSize + x], far = levels[1][y / 2 * (kSize / 2) + x / 2];
        const float wanted = between == cudaFilterModeLinear ? near * 0.75f + far * 0.25f : near;
        HOLDS(std::abs(out[y * kSize + x] - wanted) < 0.01f, "%d,%d: %g, %g", x, y, out[y * kSize + x],
              wanted);
      }
    look<<<1, 1>>>(texture, 100.0f, device, 1);
    MUST(cudaMemcpy(out.data(), device, sizeof(float), cudaMemcpyDeviceToHost));
    HOLDS(out[0] == levels[kLevels - 1][0], "the last level: %g", out[0]);
    MUST(cudaDestroyTextureObject(texture));
  }
  MUST(cudaFree(device));
  MUST(cudaFreeMipmappedArray(mipmap));
  return verdict();
}
