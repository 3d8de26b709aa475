// Handles that are destroyed while work that was given to them has not begun: streams, events, executable
// graphs and pools let it come to its end, as documented, and so do frees.
#include "check.h"

#include <atomic>
#include <thread>

constexpr int kCount = 300;

__global__ void fill(int* out, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value;
}
__global__ void copy(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

static std::atomic<bool> open_now{false};
static void until_open(void*) {
  while (!open_now) std::this_thread::yield();
}

struct Work {
  int* result;  // the host reads it
  cudaStream_t stream;
};
static Work held_back() {
  Work work;
  open_now = false;
  MUST(cudaHostAlloc(&work.result, kCount * sizeof(int), cudaHostAllocMapped));
  std::fill_n(work.result, kCount, 0);
  MUST(cudaStreamCreateWithFlags(&work.stream, cudaStreamNonBlocking));
  MUST(cudaLaunchHostFunc(work.stream, until_open, nullptr));
  return work;
}
static void expect(const Work& work, int value, const char* what) {
  HOLDS(std::count(work.result, work.result + kCount, value) == kCount, "%s: %d, %d", what, work.result[0],
        value);
  MUST(cudaFreeHost(work.result));
}

static void streams() {
  const Work work = held_back();
  fill<<<3, 128, 0, work.stream>>>(work.result, kCount, 1);
  cudaEvent_t end;
  MUST(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  MUST(cudaEventRecord(end, work.stream));
  MUST(cudaStreamDestroy(work.stream));  // returns at once: nothing has opened it
  HOLDS(cudaEventQuery(end) == cudaErrorNotReady, "its work waits");
  open_now = true;
  MUST(cudaEventSynchronize(end));
  MUST(cudaEventDestroy(end));
  expect(work, 1, "a stream");
}

static void events() {
  const Work work = held_back();
  cudaStream_t behind;
  cudaEvent_t event;
  MUST(cudaStreamCreateWithFlags(&behind, cudaStreamNonBlocking));
  MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  fill<<<3, 128, 0, work.stream>>>(work.result, kCount, 2);
  MUST(cudaEventRecord(event, work.stream));
  MUST(cudaStreamWaitEvent(behind, event, 0));
  // Recorded again: who waits already waits for the first.
  MUST(cudaEventRecord(event, behind));
  MUST(cudaEventDestroy(event));
  fill<<<3, 128, 0, behind>>>(work.result, kCount, 3);
  HOLDS(cudaStreamQuery(behind) == cudaErrorNotReady, "it waits for an event that is destroyed");
  open_now = true;
  MUST(cudaStreamSynchronize(behind));
  MUST(cudaStreamDestroy(behind));
  MUST(cudaStreamDestroy(work.stream));
  expect(work, 3, "an event");
}

static void graphs() {
  const Work work = held_back();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStream_t capturing;
  MUST(cudaStreamCreateWithFlags(&capturing, cudaStreamNonBlocking));
  MUST(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeRelaxed));
  int* own;
  MUST(cudaMallocAsync(&own, kCount * sizeof(int), capturing));
  fill<<<3, 128, 0, capturing>>>(own, kCount, 4);
  copy<<<3, 128, 0, capturing>>>(own, work.result, kCount);
  MUST(cudaFreeAsync(own, capturing));
  MUST(cudaStreamEndCapture(capturing, &graph));
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphLaunch(exec, work.stream));
  MUST(cudaGraphExecDestroy(exec));  // "freed asynchronously on completion"
  MUST(cudaGraphDestroy(graph));
  open_now = true;
  MUST(cudaStreamSynchronize(work.stream));
  MUST(cudaStreamDestroy(work.stream));
  MUST(cudaStreamDestroy(capturing));
  expect(work, 4, "a graph");
}

static void pools() {
  const Work work = held_back();
  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool;
  int* memory;
  MUST(cudaMemPoolCreate(&pool, &props));
  MUST(cudaMallocFromPoolAsync(&memory, kCount * sizeof(int), pool, work.stream));
  MUST(cudaMemPoolDestroy(pool));  // its memory stays until it is freed
  fill<<<3, 128, 0, work.stream>>>(memory, kCount, 5);
  copy<<<3, 128, 0, work.stream>>>(memory, work.result, kCount);
  MUST(cudaFreeAsync(memory, work.stream));
  open_now = true;
  MUST(cudaStreamSynchronize(work.stream));
  MUST(cudaStreamDestroy(work.stream));
  expect(work, 5, "a pool");
}

// cudaFree, cudaFreeArray and cudaFreeHost wait for what uses the memory; another thread lets it go on.
static void frees() {
  const Work work = held_back();
  int *memory, *in, *paged;
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  MUST(cudaMalloc(&memory, kCount * sizeof(int)));
  MUST(cudaMallocManaged(&paged, kCount * sizeof(int)));
  MUST(cudaMallocHost(&in, kCount * sizeof(int)));
  MUST(cudaMallocArray(&array, &format, kCount, 1));
  std::fill_n(in, kCount, 6);
  MUST(cudaMemcpyAsync(memory, in, kCount * sizeof(int), cudaMemcpyHostToDevice, work.stream));
  copy<<<3, 128, 0, work.stream>>>(memory, paged, kCount);
  MUST(cudaMemcpy2DToArrayAsync(array, 0, 0, paged, kCount * 4, kCount * 4, 1, cudaMemcpyDefault,
                                work.stream));
  MUST(cudaMemcpy2DFromArrayAsync(memory, kCount * 4, array, 0, 0, kCount * 4, 1, cudaMemcpyDeviceToDevice,
                                  work.stream));
  copy<<<3, 128, 0, work.stream>>>(memory, work.result, kCount);
  std::thread opener([] {
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    open_now = true;
  });
  MUST(cudaFree(memory));
  MUST(cudaFree(paged));
  MUST(cudaFreeArray(array));
  MUST(cudaFreeHost(in));
  opener.join();
  MUST(cudaStreamSynchronize(work.stream));
  MUST(cudaStreamDestroy(work.stream));
  expect(work, 6, "frees");
}

int main() {
  MUST(cudaFree(nullptr));
  for (int round = 0; round < 3; ++round) {
    streams();
    events();
    graphs();
    pools();
    frees();
  }
  return verdict();
}
