// A ring all-reduce over all GPUs, a thread each: pieces go round by peer copies, ordered by events of the
// neighbours; and rows of a matrix that move between GPUs in two and three dimensions.
#include "check.h"

#include <condition_variable>
#include <mutex>
#include <thread>

__global__ void add(float* to, const float* what, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] += what[i];
}

// All threads wait until the last has come.
class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}
  void wait() {
    std::unique_lock<std::mutex> held(lock_);
    const int round = round_;
    if (++waiting_ == count_) {
      waiting_ = 0, ++round_;
      all_.notify_all();
    }
    all_.wait(held, [&] { return round_ != round; });
  }

 private:
  std::mutex lock_;
  std::condition_variable all_;
  int count_, waiting_ = 0, round_ = 0;
};

struct Rank {
  float *values, *incoming;
  cudaStream_t stream;
  cudaEvent_t sent, used;
};

static void work(int rank, std::vector<Rank>& ranks, Barrier& barrier, int piece) {
  const int size = static_cast<int>(ranks.size()), next = (rank + 1) % size, last = (rank + size - 1) % size;
  MUST(cudaSetDevice(rank));
  Rank& mine = ranks[rank];
  const size_t bytes = piece * sizeof(float);
  MUST(cudaMalloc(&mine.values, size * bytes));
  MUST(cudaMalloc(&mine.incoming, bytes));
  MUST(cudaStreamCreateWithFlags(&mine.stream, cudaStreamNonBlocking));
  MUST(cudaEventCreateWithFlags(&mine.sent, cudaEventDisableTiming));
  MUST(cudaEventCreateWithFlags(&mine.used, cudaEventDisableTiming));
  std::vector<float> host(size * piece);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>((i * (rank + 1)) % 100);
  MUST(cudaMemcpyAsync(mine.values, host.data(), size * bytes, cudaMemcpyHostToDevice, mine.stream));
  MUST(cudaEventRecord(mine.used, mine.stream));
  barrier.wait();
  // First everybody has the sum of one piece; then the sums go round.
  for (int step = 0; step < 2 * (size - 1); ++step) {
    const bool adds = step < size - 1;
    const int turn = step % (size - 1);
    const int out = (rank - turn + (adds ? 0 : 1) + 2 * size) % size;
    const int in = (last - turn + (adds ? 0 : 1) + 2 * size) % size;
    MUST(cudaStreamWaitEvent(mine.stream, ranks[next].used, 0));
    MUST(
        cudaMemcpyPeerAsync(ranks[next].incoming, next, mine.values + out * piece, rank, bytes, mine.stream));
    MUST(cudaEventRecord(mine.sent, mine.stream));
    barrier.wait();  // its event is recorded
    MUST(cudaStreamWaitEvent(mine.stream, ranks[last].sent, 0));
    if (adds)
      add<<<(piece + 127) / 128, 128, 0, mine.stream>>>(mine.values + in * piece, mine.incoming, piece);
    else
      MUST(cudaMemcpyAsync(mine.values + in * piece, mine.incoming, bytes, cudaMemcpyDeviceToDevice,
                           mine.stream));
    MUST(cudaGetLastError());
    MUST(cudaEventRecord(mine.used, mine.stream));
    barrier.wait();
  }
  MUST(cudaMemcpyAsync(host.data(), mine.values, size * bytes, cudaMemcpyDeviceToHost, mine.stream));
  MUST(cudaStreamSynchronize(mine.stream));
  for (size_t i = 0; i < host.size(); ++i) {
    float wanted = 0;
    for (int other = 0; other < size; ++other) wanted += static_cast<float>((i * (other + 1)) % 100);
    HOLDS(host[i] == wanted, "rank %d, %zu: %g, %g", rank, i, host[i], wanted);
  }
  barrier.wait();
  MUST(cudaFree(mine.values));
  MUST(cudaFree(mine.incoming));
  MUST(cudaEventDestroy(mine.sent));
  MUST(cudaEventDestroy(mine.used));
  MUST(cudaStreamDestroy(mine.stream));
}

static void blocks_of_a_volume(int from, int to) {
  constexpr int kWidth = 20, kHeight = 10, kDepth = 4;
  const cudaExtent extent = make_cudaExtent(kWidth * sizeof(int), kHeight, kDepth);
  cudaPitchedPtr there, here;
  std::vector<int> host(kWidth * kHeight * kDepth), out(host.size());
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int>(i);
  MUST(cudaSetDevice(from));
  MUST(cudaMalloc3D(&there, extent));
  cudaMemcpy3DParms up = {};
  up.srcPtr = make_cudaPitchedPtr(host.data(), kWidth * sizeof(int), kWidth, kHeight);
  up.dstPtr = there;
  up.extent = extent;
  up.kind = cudaMemcpyHostToDevice;
  MUST(cudaMemcpy3D(&up));
  MUST(cudaSetDevice(to));
  MUST(cudaMalloc3D(&here, extent));
  MUST(cudaMemset3D(here, 0, extent));
  MUST(cudaDeviceSynchronize());
  cudaMemcpy3DPeerParms across = {};
  across.srcDevice = from, across.dstDevice = to;
  across.srcPtr = there, across.dstPtr = here;
  across.srcPos = make_cudaPos(4 * sizeof(int), 2, 1);
  across.dstPos = make_cudaPos(0, 5, 2);
  across.extent = make_cudaExtent(7 * sizeof(int), 3, 2);
  MUST(cudaMemcpy3DPeer(&across));
  cudaMemcpy3DParms down = {};
  down.srcPtr = here;
  down.dstPtr = make_cudaPitchedPtr(out.data(), kWidth * sizeof(int), kWidth, kHeight);
  down.extent = extent;
  down.kind = cudaMemcpyDefault;
  MUST(cudaMemcpy3D(&down));
  for (int z = 0; z < kDepth; ++z)
    for (int y = 0; y < kHeight; ++y)
      for (int x = 0; x < kWidth; ++x) {
        const bool in = x < 7 && y >= 5 && y < 8 && z >= 2;
        const int wanted = in ? ((z - 1) * kHeight + y - 3) * kWidth + x + 4 : 0;
        HOLDS(out[(z * kHeight + y) * kWidth + x] == wanted, "%d,%d,%d", x, y, z);
      }
  MUST(cudaFree(there.ptr));
  MUST(cudaFree(here.ptr));
}

int main() {
  int count = 0;
  MUST(cudaGetDeviceCount(&count));
  // Peers copy directly; others do all the same, through the host.
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to) {
      int can = 0;
      MUST(cudaDeviceCanAccessPeer(&can, from, to));
      HOLDS(from != to || can == 0, "no GPU is its own peer");
      if (can == 0) continue;
      MUST(cudaSetDevice(from));
      MUST(cudaDeviceEnablePeerAccess(to, 0));
    }
  for (const int piece : {1, 1000}) {
    if (count < 2) break;
    std::vector<Rank> ranks(count);
    Barrier barrier(count);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count; ++rank)
      threads.emplace_back([&, rank] { work(rank, ranks, barrier, piece); });
    for (std::thread& thread : threads) thread.join();
  }
  if (count > 1) blocks_of_a_volume(1, 0);
  blocks_of_a_volume(0, 0);
  return verdict();
}
