// What healthy programs do with several GPUs, one pattern a run: none of it is worth a warning.
// Usage: healthy PATTERN
//   loaders          children forked before CUDA, which never touch it, read data for the parent
//   late_loaders     the same, forked after; and children that become another program
//   launcher         a child a GPU, each shown that GPU alone (starts itself as `rank`)
//   retries          out of memory, a cache given up, and again
//   one              the first GPU alone
//   staged           copies between GPUs by way of the host
//   round_robin · threads · guards · pools · default_streams · gathers · peers
//   onlooker         a thread that asks and never works
//   exits            exit() in the midst of it, from a thread
#include <cuda_runtime.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

__global__ void touch(int* memory) {
  memory[threadIdx.x] += 1;
}
__global__ void spin(int* memory) {
  for (int i = 0; i < 2000; ++i) memory[threadIdx.x] += i;
}

#define NEED(call)                                              \
  if (const cudaError_t error = (call); error != cudaSuccess) { \
    std::printf("%s: %s\n", #call, cudaGetErrorName(error));    \
    std::exit(1);                                               \
  }

static int count_gpus() {
  int count = 0;
  NEED(cudaGetDeviceCount(&count));
  return count;
}
static int* allocate(size_t bytes = 4096) {
  int* memory = nullptr;
  NEED(cudaMalloc(&memory, bytes));
  return memory;
}
static void step(int* memory, cudaStream_t stream = nullptr) {
  touch<<<1, 32, 0, stream>>>(memory);
  NEED(cudaGetLastError());
}

// A device guard, as frameworks keep one around each operation.
class Guard {
 public:
  explicit Guard(int device) {
    NEED(cudaGetDevice(&before_));
    if (before_ != device) NEED(cudaSetDevice(device));
  }
  ~Guard() { NEED(cudaSetDevice(before_)); }

 private:
  int before_ = 0;
};

static void work(int gpu) {
  NEED(cudaSetDevice(gpu));
  int here[32] = {};
  int* memory = allocate();
  NEED(cudaMemcpy(memory, here, sizeof here, cudaMemcpyHostToDevice));
  step(memory);
  NEED(cudaMemcpy(here, memory, sizeof here, cudaMemcpyDeviceToHost));
  NEED(cudaFree(memory));
}

static void read_in_children(int to_become) {
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (i == to_become) execl("/bin/true", "true", nullptr);
      std::vector<int> data(1000, i);
      _exit(data[999] == i ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) std::exit(1);
  }
}

static void launch_ranks(char* self) {
  // As a launcher does that was given GPUs itself: each child gets one entry of its list.
  const char* given = getenv("CUDA_VISIBLE_DEVICES");
  std::string list = given != nullptr ? given : "0,1,2,3";
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  while (!list.empty()) {
    const size_t comma = list.find(',');
    setenv("CUDA_VISIBLE_DEVICES", list.substr(0, comma).c_str(), 1);
    list = comma == std::string::npos ? "" : list.substr(comma + 1);
    char word[] = "rank";
    char* argv[] = {self, word, nullptr};
    pid_t child = 0;
    int status = 1;
    if (posix_spawn(&child, self, nullptr, nullptr, argv, environ) != 0) std::exit(1);
    if (waitpid(child, &status, 0) != child || status != 0) std::exit(1);
  }
}

static void retry() {
  std::vector<int*> cache;
  for (int round = 0; round < 3; ++round) {
    int* memory = nullptr;
    while (cudaMalloc(&memory, size_t{256} << 20) == cudaSuccess) cache.push_back(memory);
    (void)cudaGetLastError();
    for (int* held : cache) NEED(cudaFree(held));
    cache.clear();
    step(allocate());
  }
  NEED(cudaDeviceSynchronize());
}

int main(int argc, char** argv) {
  const std::string pattern = argc > 1 ? argv[1] : "";
  std::atexit([] { std::printf("done\n"); });
  if (pattern == "loaders") {
    read_in_children(-1);
    work(0);
  } else if (pattern == "late_loaders") {
    work(0);
    read_in_children(1);
    work(0);
  } else if (pattern == "launcher") {
    launch_ranks(argv[0]);
  } else if (pattern == "rank") {
    work(0);
    if (count_gpus() != 1) return 1;
  } else if (pattern == "retries") {
    retry();
  } else if (pattern == "one") {
    for (int i = 0; i < 5; ++i) work(0);
  } else if (pattern == "staged") {
    std::vector<int> here(1024, 7);
    for (int gpu = 0; gpu < count_gpus(); ++gpu) {
      NEED(cudaSetDevice(gpu));
      int* memory = allocate();
      NEED(cudaMemcpy(memory, here.data(), 4096, cudaMemcpyHostToDevice));
      step(memory);
      NEED(cudaMemcpy(here.data(), memory, 4096, cudaMemcpyDeviceToHost));
    }
  } else if (pattern == "round_robin") {
    for (int round = 0; round < 3; ++round)
      for (int gpu = 0; gpu < count_gpus(); ++gpu) work(gpu);
  } else if (pattern == "threads") {
    std::vector<std::thread> threads;
    for (int gpu = 0; gpu < count_gpus(); ++gpu) {
      threads.emplace_back([gpu] {
        for (int i = 0; i < 3; ++i) work(gpu);
      });
    }
    for (std::thread& thread : threads) thread.join();
  } else if (pattern == "guards") {
    for (int i = 0; i < 3; ++i) {
      const Guard outer(1);
      int* memory = allocate();
      for (int gpu = count_gpus() - 1; gpu >= 0; --gpu) {
        const Guard inner(gpu);
        step(allocate());
      }
      step(memory);
    }
    NEED(cudaDeviceSynchronize());
  } else if (pattern == "pools") {
    std::vector<std::vector<cudaStream_t>> streams(static_cast<size_t>(count_gpus()));
    std::vector<cudaEvent_t> events(streams.size());
    for (size_t gpu = 0; gpu < streams.size(); ++gpu) {
      NEED(cudaSetDevice(static_cast<int>(gpu)));
      NEED(cudaEventCreateWithFlags(&events[gpu], cudaEventDisableTiming));
      streams[gpu].resize(3);
      for (cudaStream_t& stream : streams[gpu])
        NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    for (int round = 0; round < 3; ++round) {
      for (size_t gpu = 0; gpu < streams.size(); ++gpu) {
        NEED(cudaSetDevice(static_cast<int>(gpu)));
        // Each waits for the one before: across GPUs, which CUDA allows.
        NEED(cudaStreamWaitEvent(streams[gpu][0], events[(gpu + streams.size() - 1) % streams.size()], 0));
        int* memory = allocate();
        for (const cudaStream_t stream : streams[gpu]) step(memory, stream);
        NEED(cudaEventRecord(events[gpu], streams[gpu][0]));
      }
    }
    for (const cudaEvent_t event : events) NEED(cudaEventSynchronize(event));
  } else if (pattern == "default_streams") {
    for (int gpu = 0; gpu < count_gpus(); ++gpu) {
      NEED(cudaSetDevice(gpu));
      int* memory = allocate();
      step(memory);
      step(memory, cudaStreamLegacy);
      step(memory, cudaStreamPerThread);
      NEED(cudaMemsetAsync(memory, 0, 128, nullptr));
      NEED(cudaDeviceSynchronize());
    }
  } else if (pattern == "gathers") {
    int* sums = allocate();  // on CUDA 0, by default
    for (int gpu = 1; gpu < count_gpus(); ++gpu) {
      std::thread([&] {
        NEED(cudaSetDevice(gpu));
        int* part = allocate();
        step(part);
        NEED(cudaMemcpyPeer(sums + gpu * 32, 0, part, gpu, 128));
      }).join();
    }
    step(sums);
    NEED(cudaDeviceSynchronize());
  } else if (pattern == "peers") {
    NEED(cudaSetDevice(0));
    int* first = allocate();
    for (int gpu = 1; gpu < count_gpus(); ++gpu) {
      NEED(cudaSetDevice(gpu));
      NEED(cudaDeviceEnablePeerAccess(0, 0));
      step(first);
      NEED(cudaMemcpy(allocate(), first, 128, cudaMemcpyDefault));
      NEED(cudaDeviceSynchronize());
    }
  } else if (pattern == "onlooker") {
    NEED(cudaSetDevice(1));
    std::thread([] {
      for (int i = 0; i < 3; ++i) {
        cudaDeviceProp properties;
        int value = 0;
        const int count = count_gpus();
        NEED(cudaGetDeviceProperties(&properties, count - 1));
        NEED(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
        NEED(cudaDeviceCanAccessPeer(&value, 0, 1));
        NEED(cudaRuntimeGetVersion(&value));
        NEED(cudaGetLastError());
      }
    }).join();
    work(1);
  } else if (pattern == "exits") {
    NEED(cudaSetDevice(1));
    int* memory = allocate();
    std::atomic<bool> working{false};
    std::thread other([&] {
      NEED(cudaSetDevice(0));
      int* its = allocate();
      for (int i = 0; i < 20; ++i) spin<<<4, 32>>>(its);
      working = true;
      for (;;) usleep(1000);
    });
    for (int i = 0; i < 20; ++i) spin<<<4, 32>>>(memory);
    while (!working) usleep(100);
    std::exit(0);
  }
  return 0;
}
