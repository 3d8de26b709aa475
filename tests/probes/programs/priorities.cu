// Streams with priorities and what streams, events and callbacks promise of order: urgent pieces of work
// overtake none that they depend on.
#include "check.h"

#include <atomic>
#include <mutex>
#include <thread>

__global__ void mix(uint32_t* state, int rounds, uint32_t key) {
  uint32_t value = state[threadIdx.x];
  for (int i = 0; i < rounds; ++i) value = (value ^ key) * 2654435761u + i;
  state[threadIdx.x] = value;
}
static uint32_t mixed(uint32_t value, int rounds, uint32_t key) {
  for (int i = 0; i < rounds; ++i) value = (value ^ key) * 2654435761u + i;
  return value;
}

struct Journal {
  std::mutex lock;
  std::vector<int> entries;
};
struct Entry {
  Journal* journal;
  int number;
};
static void note(void* data) {
  const Entry& entry = *static_cast<Entry*>(data);
  std::lock_guard<std::mutex> held(entry.journal->lock);
  entry.journal->entries.push_back(entry.number);
}
static void note_status(cudaStream_t, cudaError_t status, void* data) {
  if (status == cudaSuccess) note(data);
}

static void of_streams(int least, int greatest) {
  for (int wanted = greatest; wanted <= least; ++wanted) {
    cudaStream_t stream;
    int told = 99;
    unsigned flags = 99;
    MUST(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, wanted));
    MUST(cudaStreamGetPriority(stream, &told));
    MUST(cudaStreamGetFlags(stream, &flags));
    HOLDS(told == wanted && flags == cudaStreamNonBlocking, "priority %d: %d, flags %u", wanted, told, flags);
    MUST(cudaStreamDestroy(stream));
  }
  // "Numerical values outside this range are automatically clamped."
  for (const int beyond : {greatest - 100, least + 100}) {
    cudaStream_t stream;
    int told = 99;
    MUST(cudaStreamCreateWithPriority(&stream, cudaStreamDefault, beyond));
    MUST(cudaStreamGetPriority(stream, &told));
    HOLDS(told == std::clamp(beyond, greatest, least), "%d is clamped to %d", beyond, told);
    MUST(cudaStreamDestroy(stream));
  }
  cudaStream_t plain;
  int told = 99;
  MUST(cudaStreamCreate(&plain));
  MUST(cudaStreamGetPriority(plain, &told));
  HOLDS(told == 0, "the default: %d", told);
  MUST(cudaStreamDestroy(plain));
}

int main() {
  int least = -99, greatest = 99;
  MUST(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  HOLDS(least == 0 && greatest <= 0, "from %d to %d", least, greatest);
  of_streams(least, greatest);

  constexpr int kThreads = 64, kSteps = 12;
  cudaStream_t background, urgent;
  cudaEvent_t step, answer;
  MUST(cudaStreamCreateWithPriority(&background, cudaStreamNonBlocking, least));
  MUST(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest));
  MUST(cudaEventCreateWithFlags(&step, cudaEventDisableTiming));
  MUST(cudaEventCreateWithFlags(&answer, cudaEventDisableTiming));
  uint32_t* state;
  MUST(cudaMalloc(&state, 2 * kThreads * sizeof(uint32_t)));
  MUST(cudaMemset(state, 1, 2 * kThreads * sizeof(uint32_t)));
  MUST(cudaDeviceSynchronize());
  Journal journal;
  std::vector<Entry> entries;
  entries.reserve(2 * kSteps);
  // The streams take turns on the first half, each behind the other's event; the background has its own half
  // too.
  for (int i = 0; i < kSteps; ++i) {
    mix<<<1, kThreads, 0, background>>>(state + kThreads, 400, i);
    mix<<<1, kThreads, 0, background>>>(state, 10, 2 * i);
    entries.push_back({&journal, 2 * i});
    MUST(cudaLaunchHostFunc(background, note, &entries.back()));
    MUST(cudaEventRecord(step, background));
    MUST(cudaStreamWaitEvent(urgent, step, 0));
    mix<<<1, kThreads, 0, urgent>>>(state, 10, 2 * i + 1);
    entries.push_back({&journal, 2 * i + 1});
    MUST(cudaStreamAddCallback(urgent, note_status, &entries.back(), 0));
    MUST(cudaEventRecord(answer, urgent));
    MUST(cudaStreamWaitEvent(background, answer, 0));
  }
  MUST(cudaStreamSynchronize(urgent));
  MUST(cudaStreamSynchronize(background));
  HOLDS(cudaStreamQuery(urgent) == cudaSuccess && cudaEventQuery(answer) == cudaSuccess, "all is done");
  HOLDS(journal.entries.size() == 2 * kSteps, "%zu entries", journal.entries.size());
  for (size_t i = 0; i < journal.entries.size(); ++i)
    HOLDS(journal.entries[i] == static_cast<int>(i), "entry %zu: %d", i, journal.entries[i]);
  std::vector<uint32_t> host(2 * kThreads);
  MUST(cudaMemcpy(host.data(), state, host.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  uint32_t turns = 0x01010101, own = 0x01010101;
  for (int i = 0; i < 2 * kSteps; ++i) turns = mixed(turns, 10, i);
  for (int i = 0; i < kSteps; ++i) own = mixed(own, 400, i);
  for (int i = 0; i < kThreads; ++i)
    HOLDS(host[i] == turns && host[kThreads + i] == own, "thread %d: %x, %x", i, host[i], host[kThreads + i]);
  MUST(cudaFree(state));
  MUST(cudaEventDestroy(step));
  MUST(cudaEventDestroy(answer));
  MUST(cudaStreamDestroy(background));
  MUST(cudaStreamDestroy(urgent));
  return verdict();
}
