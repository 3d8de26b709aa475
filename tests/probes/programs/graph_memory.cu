// Memory that graphs allocate and free: nodes, captured cudaMallocAsync, what outlives a launch, and the
// GPU's account of it.
#include "check.h"

__global__ void fill(int* data, int count, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = value + i;
}
__global__ void sum(const int* data, int count, long long* out) {
  long long mine = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) mine += data[i];
  atomicAdd(reinterpret_cast<unsigned long long*>(out), static_cast<unsigned long long>(mine));
}

static unsigned long long told(cudaGraphMemAttributeType which) {
  int device = 0;
  MUST(cudaGetDevice(&device));
  unsigned long long value = 0;
  MUST(cudaDeviceGetGraphMemAttribute(device, which, &value));
  return value;
}

static cudaMemAllocNodeParams on_this_device(size_t bytes) {
  cudaMemAllocNodeParams params{};
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location.type = cudaMemLocationTypeDevice;
  MUST(cudaGetDevice(&params.poolProps.location.id));
  params.bytesize = bytes;
  return params;
}

static void nodes() {
  constexpr int kCount = 3000;
  long long* out;
  MUST(cudaMalloc(&out, sizeof *out));
  MUST(cudaMemset(out, 0, sizeof *out));
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t alloc, work[2], freed;
  cudaMemAllocNodeParams params = on_this_device(kCount * sizeof(int));
  MUST(cudaGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &params));
  HOLDS(params.dptr != nullptr, "no address");
  int *data = static_cast<int*>(params.dptr), count = kCount, value = 7;
  void *first[] = {&data, &count, &value}, *second[] = {&data, &count, &out};
  cudaKernelNodeParams kernel{};
  kernel.func = (void*)fill;
  kernel.gridDim = dim3(12);
  kernel.blockDim = dim3(256);
  kernel.kernelParams = first;
  MUST(cudaGraphAddKernelNode(&work[0], graph, &alloc, 1, &kernel));
  kernel.func = (void*)sum;
  kernel.gridDim = dim3(1);
  kernel.kernelParams = second;
  MUST(cudaGraphAddKernelNode(&work[1], graph, &work[0], 1, &kernel));
  MUST(cudaGraphAddMemFreeNode(&freed, graph, &work[1], 1, params.dptr));
  cudaMemAllocNodeParams again{};
  MUST(cudaGraphMemAllocNodeGetParams(alloc, &again));
  HOLDS(again.dptr == params.dptr && again.bytesize == params.bytesize, "%zu", again.bytesize);
  cudaGraph_t clone;
  REFUSES(cudaGraphClone(&clone, graph), cudaErrorInvalidValue);
  cudaGraphExec_t exec, other;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  REFUSES(cudaGraphInstantiate(&other, graph, 0), cudaErrorInvalidValue);
  for (int i = 0; i < 3; ++i) MUST(cudaGraphLaunch(exec, 0));
  long long got = 0, wanted = 0;
  for (int i = 0; i < kCount; ++i) wanted += 7 + i;
  MUST(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
  HOLDS(got == 3 * wanted, "%lld", got);
  HOLDS(told(cudaGraphMemAttrUsedMemCurrent) >= kCount * sizeof(int), "nothing used");
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFree(out));
}

static void captured() {
  size_t before = 0, now = 0, all = 0;
  int device = 0;
  MUST(cudaGetDevice(&device));
  MUST(cudaDeviceGraphMemTrim(device));
  MUST(cudaMemGetInfo(&before, &all));
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  int *scratch = nullptr, *kept = nullptr;
  constexpr int kCount = 1 << 20;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  MUST(cudaMallocAsync((void**)&scratch, kCount * sizeof(int), stream));
  MUST(cudaMallocAsync((void**)&kept, kCount * sizeof(int), stream));
  fill<<<kCount / 256, 256, 0, stream>>>(scratch, kCount, 1);
  MUST(cudaMemcpyAsync(kept, scratch, kCount * sizeof(int), cudaMemcpyDeviceToDevice, stream));
  MUST(cudaFreeAsync(scratch, stream));
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaMemGetInfo(&now, &all));
  HOLDS(now == before, "an address took memory");
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphLaunch(exec, stream));
  int last = 0;
  MUST(cudaMemcpyAsync(&last, kept + kCount - 1, sizeof last, cudaMemcpyDeviceToHost, stream));
  MUST(cudaStreamSynchronize(stream));
  HOLDS(last == kCount, "%d", last);
  MUST(cudaMemGetInfo(&now, &all));
  HOLDS(before - now >= 2 * kCount * sizeof(int), "%zu", before - now);
  // What it left is to be freed before it runs again.
  REFUSES(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);
  MUST(cudaFreeAsync(kept, stream));
  MUST(cudaGraphLaunch(exec, stream));
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaFree(kept));
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaDeviceGraphMemTrim(device));
  MUST(cudaMemGetInfo(&now, &all));
  HOLDS(now == before, "%zu bytes are gone", before - now);
  HOLDS(told(cudaGraphMemAttrReservedMemCurrent) == 0, "still reserved");
  HOLDS(told(cudaGraphMemAttrUsedMemHigh) >= 2 * kCount * sizeof(int), "no high mark");
  unsigned long long zero = 0;
  MUST(cudaDeviceSetGraphMemAttribute(device, cudaGraphMemAttrUsedMemHigh, &zero));
  HOLDS(told(cudaGraphMemAttrUsedMemHigh) == 0, "the mark stayed");
  MUST(cudaStreamDestroy(stream));
}

static void freed_by_each_launch() {
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  int* left = nullptr;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  MUST(cudaMallocAsync((void**)&left, 1024, stream));
  MUST(cudaMemsetAsync(left, 1, 1024, stream));
  MUST(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  for (int i = 0; i < 5; ++i) MUST(cudaGraphLaunch(exec, stream));
  int got = 0;
  MUST(cudaMemcpyAsync(&got, left, sizeof got, cudaMemcpyDeviceToHost, stream));
  MUST(cudaStreamSynchronize(stream));
  HOLDS(got == 0x01010101, "%x", got);
  MUST(cudaFreeAsync(left, stream));
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamDestroy(stream));
}

int main() {
  nodes();
  captured();
  freed_by_each_launch();
  return verdict();
}
