// Events as timers, and what is refused of them; host functions and callbacks that feed a consumer.
#include "check.h"

#include <condition_variable>
#include <mutex>
#include <queue>
#include <thread>

__global__ void collatz(const unsigned* from, unsigned* steps, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long at = from[i];
  unsigned count = 0;
  for (; at != 1; ++count) at = at % 2 == 0 ? at / 2 : 3 * at + 1;
  steps[i] = count;
}

static void times() {
  cudaEvent_t start, middle, end, untimed, never;
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  for (cudaEvent_t* event : {&start, &middle, &end, &never}) MUST(cudaEventCreate(event));
  MUST(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  constexpr int kCount = 500;
  unsigned *from, *steps;
  MUST(cudaMallocManaged(&from, kCount * sizeof(unsigned)));
  MUST(cudaMallocManaged(&steps, kCount * sizeof(unsigned)));
  for (int i = 0; i < kCount; ++i) from[i] = i + 1;
  MUST(cudaEventRecord(start, stream));
  collatz<<<4, 128, 0, stream>>>(from, steps, kCount);
  MUST(cudaEventRecord(middle, stream));
  collatz<<<4, 128, 0, stream>>>(from, steps, kCount);
  MUST(cudaEventRecordWithFlags(end, stream, cudaEventRecordDefault));
  MUST(cudaEventRecord(untimed, stream));
  MUST(cudaEventSynchronize(untimed));
  HOLDS(cudaEventQuery(start) == cudaSuccess && cudaEventQuery(end) == cudaSuccess,
        "what is before is done too");
  float first = -1, second = -1, whole = -1, back = 1;
  MUST(cudaEventElapsedTime(&first, start, middle));
  MUST(cudaEventElapsedTime(&second, middle, end));
  MUST(cudaEventElapsedTime(&whole, start, end));
  MUST(cudaEventElapsedTime(&back, end, start));
  HOLDS(first >= 0 && second >= 0 && whole >= 0, "%g + %g = %g ms", first, second, whole);
  HOLDS(std::abs(first + second - whole) <= 0.01f + whole * 1e-3f, "%g + %g = %g ms", first, second, whole);
  HOLDS(back <= 0, "backwards: %g ms", back);
  MUST(cudaEventElapsedTime(&first, start, start));
  HOLDS(first == 0, "%g", first);
  // "cudaErrorInvalidResourceHandle" for one that was not recorded, or keeps no time.
  REFUSES(cudaEventElapsedTime(&first, start, never), cudaErrorInvalidResourceHandle);
  REFUSES(cudaEventElapsedTime(&first, start, untimed), cudaErrorInvalidResourceHandle);
  REFUSES(cudaEventElapsedTime(nullptr, start, end), cudaErrorInvalidValue);
  HOLDS(cudaEventQuery(never) == cudaSuccess, "an event that was never recorded is done");
  MUST(cudaEventSynchronize(never));
  REFUSES(cudaEventCreateWithFlags(&never, 0x80), cudaErrorInvalidValue);
  for (int i = 0; i < kCount; ++i) {
    unsigned count = 0;
    for (unsigned long long at = i + 1; at != 1; ++count) at = at % 2 == 0 ? at / 2 : 3 * at + 1;
    HOLDS(steps[i] == count, "%d: %u, %u", i + 1, steps[i], count);
  }
  for (const cudaEvent_t event : {start, middle, end, untimed}) MUST(cudaEventDestroy(event));
  MUST(cudaFree(from));
  MUST(cudaFree(steps));
  MUST(cudaStreamDestroy(stream));
}

// Batches that the GPU has done wait in a queue until a thread of the host takes them.
struct Line {
  std::mutex lock;
  std::condition_variable more;
  std::queue<int> ready;
};
struct Batch {
  Line* line;
  int number;
  unsigned *from, *steps;
};
static void put(void* data) {
  auto* batch = static_cast<Batch*>(data);
  std::lock_guard<std::mutex> held(batch->line->lock);
  batch->line->ready.push(batch->number);
  batch->line->more.notify_one();
}

static void feeds_a_consumer() {
  constexpr int kBatches = 10, kCount = 64;
  Line line;
  std::vector<Batch> batches(kBatches);
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  unsigned long long sum = 0;
  std::vector<int> order;
  std::thread consumer([&] {
    for (int taken = 0; taken < kBatches; ++taken) {
      std::unique_lock<std::mutex> held(line.lock);
      line.more.wait(held, [&] { return !line.ready.empty(); });
      const Batch& batch = batches[line.ready.front()];
      order.push_back(batch.number);
      line.ready.pop();
      held.unlock();
      for (int i = 0; i < kCount; ++i) sum += batch.steps[i];
    }
  });
  for (int i = 0; i < kBatches; ++i) {
    batches[i] = {&line, i, nullptr, nullptr};
    MUST(cudaMallocHost(&batches[i].from, 2 * kCount * sizeof(unsigned)));
    batches[i].steps = batches[i].from + kCount;
    for (int k = 0; k < kCount; ++k) batches[i].from[k] = i * kCount + k + 1;
    collatz<<<1, kCount, 0, streams[i % 2]>>>(batches[i].from, batches[i].steps, kCount);
    MUST(cudaLaunchHostFunc(streams[i % 2], put, &batches[i]));
  }
  consumer.join();
  MUST(cudaDeviceSynchronize());
  unsigned long long wanted = 0;
  for (unsigned long long from = 1; from <= kBatches * kCount; ++from)
    for (unsigned long long at = from; at != 1; ++wanted) at = at % 2 == 0 ? at / 2 : 3 * at + 1;
  HOLDS(sum == wanted, "%llu, %llu", sum, wanted);
  for (int parity = 0; parity < 2; ++parity) {
    int before = -1;
    for (const int number : order) {
      if (number % 2 != parity) continue;
      HOLDS(number > before, "of one stream in order: %d after %d", number, before);
      before = number;
    }
  }
  for (const Batch& batch : batches) MUST(cudaFreeHost(batch.from));
  for (const cudaStream_t stream : streams) MUST(cudaStreamDestroy(stream));
}

int main() {
  times();
  feeds_a_consumer();
  return verdict();
}
