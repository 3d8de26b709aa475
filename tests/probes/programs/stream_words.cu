// Words of memory that streams write and wait for: stages of a pipeline on one GPU or two that hand on by
// flags in host memory, without events; and the order of a stream with the host's own writes.
#include <cuda.h>

#include <thread>

#include "check_driver.h"

__global__ void stage(int* values, int n, int times, int plus) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = values[i] * times + plus;
}

static void pipelines(int rounds) {
  constexpr int kCount = 200;
  int *values, *device;
  cuuint32_t* flags;
  cudaStream_t first, second;
  MUST(cudaHostAlloc(&values, kCount * sizeof(int), cudaHostAllocMapped));
  MUST(cudaHostAlloc(&flags, 2 * sizeof *flags, cudaHostAllocMapped | cudaHostAllocPortable));
  MUST(cudaHostGetDevicePointer(&device, values, 0));
  flags[0] = flags[1] = 0;
  std::fill_n(values, kCount, 1);
  MUST(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  const auto to_second = reinterpret_cast<CUdeviceptr>(flags),
             to_first = reinterpret_cast<CUdeviceptr>(flags + 1);
  // All of the second's work is given before the first has any.
  for (int round = 1; round <= rounds; ++round) {
    CU(cuStreamWaitValue32(second, to_second, round, CU_STREAM_WAIT_VALUE_GEQ));
    stage<<<2, 128, 0, second>>>(device, kCount, 3, 1);
    CU(cuStreamWriteValue32(second, to_first, round, CU_STREAM_WRITE_VALUE_DEFAULT));
  }
  HOLDS(cudaStreamQuery(second) == cudaErrorNotReady, "it waits");
  for (int round = 1; round <= rounds; ++round) {
    stage<<<2, 128, 0, first>>>(device, kCount, 2, 5);
    CUstreamBatchMemOpParams both[2] = {};
    both[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    both[0].writeValue.address = to_second, both[0].writeValue.value = round;
    both[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    both[1].waitValue.address = to_first, both[1].waitValue.value = round;
    both[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    CU(cuStreamBatchMemOp(first, 2, both, 0));
  }
  MUST(cudaStreamSynchronize(first));
  MUST(cudaStreamSynchronize(second));
  int wanted = 1;
  for (int round = 0; round < rounds; ++round) wanted = (wanted * 2 + 5) * 3 + 1;
  HOLDS(std::count(values, values + kCount, wanted) == kCount, "%d, %d", values[0], wanted);
  HOLDS(flags[0] == static_cast<cuuint32_t>(rounds) && flags[1] == flags[0], "%u", flags[0]);
  MUST(cudaStreamDestroy(first));
  MUST(cudaStreamDestroy(second));
  MUST(cudaFreeHost(values));
  MUST(cudaFreeHost(flags));
}

static void conditions() {
  struct {
    unsigned flags, wanted;
    cuuint32_t not_yet, then;
  } const all[] = {{CU_STREAM_WAIT_VALUE_GEQ, 10, 9, 11},
                   {CU_STREAM_WAIT_VALUE_EQ, 10, 11, 10},
                   {CU_STREAM_WAIT_VALUE_AND, 0x0f, 0x30, 0x38},
                   {CU_STREAM_WAIT_VALUE_NOR, 0xfffffff0u, 0xffffffff, 0x0000000e},
                   // "Cyclic comparison": 0xfffffff0 is behind 5.
                   {CU_STREAM_WAIT_VALUE_GEQ, 5, 0xfffffff0u, 6}};
  cuuint32_t* word;
  cudaStream_t stream;
  MUST(cudaHostAlloc(&word, sizeof *word, cudaHostAllocMapped));
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto address = reinterpret_cast<CUdeviceptr>(word);
  for (const auto& one : all) {
    *static_cast<volatile cuuint32_t*>(word) = one.not_yet;
    CU(cuStreamWaitValue32(stream, address, one.wanted, one.flags));
    HOLDS(cudaStreamQuery(stream) == cudaErrorNotReady, "flags %u: %x is not enough", one.flags, one.not_yet);
    std::thread([&] { *static_cast<volatile cuuint32_t*>(word) = one.then; }).join();
    MUST(cudaStreamSynchronize(stream));
  }
  // "address must be aligned"; and device memory takes words as well.
  CU_ANSWERS(cuStreamWriteValue32(stream, address + 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr device;
  cuuint32_t read = 0;
  CU(cuMemAlloc(&device, 8));
  CU(cuStreamWriteValue32(stream, device + 4, 0x12345678, 0));
  CU(cuStreamWaitValue32(stream, device + 4, 0x12345678, CU_STREAM_WAIT_VALUE_EQ));
  MUST(cudaStreamSynchronize(stream));
  CU(cuMemcpyDtoH(&read, device + 4, 4));
  HOLDS(read == 0x12345678, "%x", read);
  int wide = 0;
  CU(cuDeviceGetAttribute(&wide, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
  if (wide != 0) {
    cuuint64_t long_read = 0;
    CU(cuStreamWriteValue64(stream, device, 0x123456789abcdef0ull, 0));
    CU(cuStreamWaitValue64(stream, device, 0x123456789abcdef0ull, CU_STREAM_WAIT_VALUE_EQ));
    MUST(cudaStreamSynchronize(stream));
    CU(cuMemcpyDtoH(&long_read, device, 8));
    HOLDS(long_read == 0x123456789abcdef0ull, "%llx", static_cast<unsigned long long>(long_read));
  }
  CU(cuMemFree(device));
  MUST(cudaStreamDestroy(stream));
  MUST(cudaFreeHost(word));
}

int main() {
  MUST(cudaFree(nullptr));
  for (const int rounds : {1, 6}) pipelines(rounds);
  conditions();
  return verdict();
}
