// Work that is easily taken for another GPU's, or another kernel's. Usage: elsewhere kernels|mapped|arrays|fills|locked|peers
#include <cuda.h>
#include <cuda_runtime.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

__global__ void first(int* at) { *at = 1; }
__global__ void second(int* at) { *at = 2; }

// Both in a stream of the other GPU. Compiled without optimisation their launches are one place: nvcc's own.
extern "C" void launch_both() {
  cudaStream_t stream;
  int* memory;
  cudaSetDevice(0);
  cudaStreamCreate(&stream);
  cudaSetDevice(1);
  cudaMalloc(&memory, 4);
  first<<<1, 1, 0, stream>>>(memory);
  cudaGetLastError();
  second<<<1, 1, 0, stream>>>(memory);
  std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}

// One address for memory of each GPU in turn.
static void mapped() {
  CUdeviceptr at = 0;
  const size_t bytes = 2 << 20;
  std::vector<char> host(4096);
  for (int device = 0; device < 2; ++device) {
    cudaSetDevice(device);
    cudaFree(nullptr);
    CUmemAllocationProp props{};
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemGenericAllocationHandle memory;
    cuMemCreate(&memory, bytes, &props, 0);
    if (at == 0) cuMemAddressReserve(&at, bytes, 0, 0, 0);
    cuMemMap(at, bytes, 0, memory, 0);
    CUmemAccessDesc access{props.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    cuMemSetAccess(at, bytes, &access, 1);
    std::printf("%d\n", cuMemcpyHtoD(at, host.data(), host.size()));
    cuMemUnmap(at, bytes);
    cuMemRelease(memory);
  }
}

// A kernel on CUDA 0; on CUDA 1 copies into an array, or fills of pool memory.
static void other_work(bool arrays) {
  int* memory;
  cudaSetDevice(0);
  cudaMalloc(&memory, 4);
  first<<<1, 1>>>(memory);
  cudaDeviceSynchronize();
  cudaSetDevice(1);
  if (arrays) {
    cudaArray_t array;
    const cudaChannelFormatDesc format = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
    cudaMallocArray(&array, &format, 16, 16);
    char host[256] = {};
    std::printf("%d\n", cudaMemcpy2DToArray(array, 0, 0, host, 16, 16, 16, cudaMemcpyHostToDevice));
  } else {
    cudaMallocAsync(&memory, 4096, nullptr);
    std::printf("%d\n", cudaMemsetAsync(memory, 0, 4096, nullptr));
    cudaFreeAsync(memory, nullptr);
    cudaDeviceSynchronize();
  }
}

// A wrong call of a thread that somebody waits for who holds the loader's lock.
static int wait_for_thread(dl_phdr_info*, size_t, void* result) {
  std::thread([result] { *static_cast<cudaError_t*>(result) = cudaSetDevice(7); }).join();
  return 1;
}
static void locked() {
  cudaSetDevice(0);
  cudaFree(nullptr);
  cudaError_t result = cudaSuccess;
  dl_iterate_phdr(wait_for_thread, &result);
  std::printf("%s\n", cudaGetErrorName(result));
}

static void peers() {
  cudaSetDevice(0);
  std::printf("%s\n", cudaGetErrorName(cudaDeviceEnablePeerAccess(1, 0)));
}

int main(int, char** arguments) {
  const char* what = arguments[1];
  if (std::strcmp(what, "kernels") == 0) launch_both();
  if (std::strcmp(what, "mapped") == 0) mapped();
  if (std::strcmp(what, "arrays") == 0) other_work(true);
  if (std::strcmp(what, "fills") == 0) other_work(false);
  if (std::strcmp(what, "locked") == 0) locked();
  if (std::strcmp(what, "peers") == 0) peers();
}
