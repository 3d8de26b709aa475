// Volumes: heat spreads through a 3D surface, step by step between two arrays; slices are taken through 3D
// textures, also between the voxels.
#include "check.h"

__global__ void spread(cudaSurfaceObject_t in, cudaSurfaceObject_t out, int nx, int ny, int nz) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
            z = blockIdx.z;
  if (x >= nx || y >= ny) return;
  auto at = [&](int i, int j, int k) {  // beyond the edge there are zeros
    float value;
    surf3Dread(&value, in, i * static_cast<int>(sizeof(float)), j, k, cudaBoundaryModeZero);
    return value;
  };
  const float sum = at(x - 1, y, z) + at(x + 1, y, z) + at(x, y - 1, z) + at(x, y + 1, z) + at(x, y, z - 1) +
                    at(x, y, z + 1);
  surf3Dwrite(at(x, y, z) * 0.5f + sum * 0.0625f, out, x * sizeof(float), y, z);
}
__global__ void slice(cudaTextureObject_t volume, float depth, float* out, int nx, int ny) {
  const int x = threadIdx.x, y = blockIdx.x;
  if (x < nx) out[y * nx + x] = tex3D<float>(volume, x + 0.5f, y + 0.5f, depth);
}

static cudaSurfaceObject_t surface_of(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface;
  MUST(cudaCreateSurfaceObject(&surface, &resource));
  return surface;
}

static void run(int nx, int ny, int nz, int steps) {
  const cudaExtent extent = make_cudaExtent(nx, ny, nz);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  std::vector<float> now(nx * ny * nz), next(now.size());
  for (size_t i = 0; i < now.size(); ++i) now[i] = static_cast<float>(i * 7919 % 256);
  cudaArray_t arrays[2];
  cudaSurfaceObject_t surfaces[2];
  for (int i = 0; i < 2; ++i) {
    MUST(cudaMalloc3DArray(&arrays[i], &format, extent, cudaArraySurfaceLoadStore));
    surfaces[i] = surface_of(arrays[i]);
  }
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(now.data(), nx * sizeof(float), nx, ny);
  copy.dstArray = arrays[0];
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  MUST(cudaMemcpy3D(&copy));
  for (int step = 0; step < steps; ++step) {
    spread<<<dim3((nx + 7) / 8, (ny + 7) / 8, nz), dim3(8, 8)>>>(surfaces[step % 2], surfaces[(step + 1) % 2],
                                                                 nx, ny, nz);
    auto at = [&](int x, int y, int z) {
      const bool in = x >= 0 && y >= 0 && z >= 0 && x < nx && y < ny && z < nz;
      return in ? now[(z * ny + y) * nx + x] : 0.0f;
    };
    for (int z = 0; z < nz; ++z)
      for (int y = 0; y < ny; ++y)
        for (int x = 0; x < nx; ++x)
          next[(z * ny + y) * nx + x] =
              at(x, y, z) * 0.5f + (at(x - 1, y, z) + at(x + 1, y, z) + at(x, y - 1, z) + at(x, y + 1, z) +
                                    at(x, y, z - 1) + at(x, y, z + 1)) *
                                       0.0625f;
    now.swap(next);
  }
  MUST_RUN();
  const cudaArray_t result = arrays[steps % 2];
  std::vector<float> out(now.size());
  copy = {};
  copy.srcArray = result;
  copy.dstPtr = make_cudaPitchedPtr(out.data(), nx * sizeof(float), nx, ny);
  copy.extent = extent;
  copy.kind = cudaMemcpyDeviceToHost;
  MUST(cudaMemcpy3D(&copy));
  for (size_t i = 0; i < now.size(); ++i)
    HOLDS(std::abs(out[i] - now[i]) <= 1e-4f * (1 + now[i]), "voxel %zu: %g, %g", i, out[i], now[i]);

  // Half way between two slices is their mean.
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = result;
  cudaTextureDesc desc = {};
  desc.addressMode[0] = desc.addressMode[1] = desc.addressMode[2] = cudaAddressModeClamp;
  desc.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t texture;
  MUST(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  float* device;
  std::vector<float> plane(nx * ny);
  MUST(cudaMalloc(&device, plane.size() * sizeof(float)));
  for (int z = 0; z + 1 < nz; ++z) {
    slice<<<ny, 32>>>(texture, z + 1.0f, device, nx, ny);
    MUST(cudaMemcpy(plane.data(), device, plane.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < nx * ny; ++i) {
      const float wanted = (out[z * ny * nx + i] + out[(z + 1) * ny * nx + i]) / 2;
      HOLDS(std::abs(plane[i] - wanted) <= 1e-4f * (1 + wanted), "slice %d, %d: %g, %g", z, i, plane[i],
            wanted);
    }
  }
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaFree(device));
  for (int i = 0; i < 2; ++i) {
    MUST(cudaDestroySurfaceObject(surfaces[i]));
    MUST(cudaFreeArray(arrays[i]));
  }
}

int main() {
  run(1, 1, 1, 2);
  run(5, 3, 4, 3);
  run(28, 20, 10, 4);
  return verdict();
}
