// Stream-ordered allocation: a merge sort whose passes take their scratch memory from pools, with what pools
// are told and tell: release thresholds, what is reserved and used, reuse between streams, and access.
#include "check.h"

__global__ void merge_pass(const int* in, int* out, int n, int width) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * 2 * width;
  if (first >= n) return;
  const int middle = min(first + width, n), end = min(first + 2 * width, n);
  int left = first, right = middle;
  for (int at = first; at < end; ++at)
    out[at] = left < middle && (right >= end || in[left] <= in[right]) ? in[left++] : in[right++];
}

static size_t told(cudaMemPool_t pool, cudaMemPoolAttr which) {
  uint64_t value = 0;
  MUST(cudaMemPoolGetAttribute(pool, which, &value));
  return value;
}

static void sort(std::vector<int> values, cudaMemPool_t pool, cudaStream_t stream) {
  const int n = static_cast<int>(values.size());
  int* now;
  MUST(cudaMallocFromPoolAsync(&now, n * sizeof(int), pool, stream));
  MUST(cudaMemcpyAsync(now, values.data(), n * sizeof(int), cudaMemcpyHostToDevice, stream));
  for (int width = 1; width < n; width *= 2) {
    int* next;
    MUST(cudaMallocFromPoolAsync(&next, n * sizeof(int), pool, stream));
    const int merges = (n + 2 * width - 1) / (2 * width);
    merge_pass<<<(merges + 63) / 64, 64, 0, stream>>>(now, next, n, width);
    MUST(cudaFreeAsync(now, stream));
    now = next;
  }
  std::vector<int> sorted(n);
  MUST(cudaMemcpyAsync(sorted.data(), now, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
  MUST(cudaFreeAsync(now, stream));
  MUST(cudaStreamSynchronize(stream));
  std::sort(values.begin(), values.end());
  HOLDS(sorted == values, "%d values", n);
}

static std::vector<int> numbers(int n) {
  std::vector<int> values(n);
  uint32_t state = 12345 + n;
  for (int& value : values)
    value = static_cast<int>((state = state * 1664525u + 1013904223u) >> 8) - (1 << 23);
  return values;
}

int main() {
  int supported = 0;
  MUST(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  if (supported == 0) return verdict();
  cudaStream_t stream, other;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));

  cudaMemPool_t usual, current, own;
  MUST(cudaDeviceGetDefaultMemPool(&usual, 0));
  MUST(cudaDeviceGetMemPool(&current, 0));
  HOLDS(usual == current, "the default pool is current at first");
  HOLDS(told(usual, cudaMemPoolAttrReleaseThreshold) == 0, "the default threshold");
  sort(numbers(5000), usual, stream);

  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 0};
  MUST(cudaMemPoolCreate(&own, &props));
  uint64_t all = UINT64_MAX, zero = 0, one = 1;
  MUST(cudaMemPoolSetAttribute(own, cudaMemPoolAttrReleaseThreshold, &all));
  HOLDS(told(own, cudaMemPoolAttrReleaseThreshold) == UINT64_MAX, "a threshold is kept");
  for (const int n : {1, 2, 777, 20000}) sort(numbers(n), own, stream);
  HOLDS(told(own, cudaMemPoolAttrUsedMemCurrent) == 0, "all is freed");
  HOLDS(told(own, cudaMemPoolAttrUsedMemHigh) >= 2 * 20000 * sizeof(int), "two buffers at a time");
  const size_t kept = told(own, cudaMemPoolAttrReservedMemCurrent);
  HOLDS(kept >= 2 * 20000 * sizeof(int), "below the threshold nothing is released: %zu", kept);
  HOLDS(told(own, cudaMemPoolAttrReservedMemHigh) >= kept, "the high mark");
  // "The value must be zero": a high mark may only be reset.
  REFUSES(cudaMemPoolSetAttribute(own, cudaMemPoolAttrUsedMemHigh, &one), cudaErrorInvalidValue);
  MUST(cudaMemPoolSetAttribute(own, cudaMemPoolAttrUsedMemHigh, &zero));
  HOLDS(told(own, cudaMemPoolAttrUsedMemHigh) == 0, "reset");
  MUST(cudaMemPoolTrimTo(own, 0));
  HOLDS(told(own, cudaMemPoolAttrReservedMemCurrent) == 0, "trimmed to nothing");

  // Made current, it is where cudaMallocAsync takes from.
  MUST(cudaDeviceSetMemPool(0, own));
  char* memory;
  MUST(cudaMallocAsync(&memory, 3 << 20, stream));
  HOLDS(told(own, cudaMemPoolAttrUsedMemCurrent) >= 3 << 20, "taken from the current pool");
  // Handed on: freed in another stream, which waited for the work of the first.
  cudaEvent_t done;
  MUST(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  MUST(cudaMemsetAsync(memory, 5, 3 << 20, stream));
  MUST(cudaEventRecord(done, stream));
  MUST(cudaStreamWaitEvent(other, done, 0));
  std::vector<char> bytes(3 << 20);
  MUST(cudaMemcpyAsync(bytes.data(), memory, bytes.size(), cudaMemcpyDeviceToHost, other));
  MUST(cudaFreeAsync(memory, other));
  MUST(cudaStreamSynchronize(other));
  HOLDS(std::count(bytes.begin(), bytes.end(), 5) == 3 << 20, "all bytes");
  MUST(cudaDeviceSynchronize());
  HOLDS(told(own, cudaMemPoolAttrUsedMemCurrent) == 0, "freed");
  MUST(cudaDeviceSetMemPool(0, usual));

  cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
  MUST(cudaMemPoolGetAccess(&flags, own, &here));
  HOLDS(flags == cudaMemAccessFlagsProtReadWrite, "its own GPU has access: %d", flags);
  // "cudaErrorInvalidValue": access of the GPU that the memory lies on can't be taken away.
  cudaMemAccessDesc none = {here, cudaMemAccessFlagsProtNone};
  REFUSES(cudaMemPoolSetAccess(own, &none, 1), cudaErrorInvalidValue);
  int follow = 0;
  MUST(cudaMemPoolSetAttribute(own, cudaMemPoolReuseAllowOpportunistic, &follow));
  follow = 7;
  MUST(cudaMemPoolGetAttribute(own, cudaMemPoolReuseAllowOpportunistic, &follow));
  HOLDS(follow == 0, "a policy of reuse is kept");
  sort(numbers(3000), own, other);
  MUST(cudaMemPoolDestroy(own));

  REFUSES(cudaMallocAsync(&memory, size_t{1} << 42, stream), cudaErrorMemoryAllocation);
  MUST(cudaStreamDestroy(stream));
  MUST(cudaStreamDestroy(other));
  return verdict();
}
