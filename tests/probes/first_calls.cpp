// Programs whose first CUDA call comes at a bad moment. Usage:
//   first_calls threads              64 threads make it at once; each then takes 16 MiB at a time until refused
//   first_calls getenv               while other threads read the environment all the time
//   first_calls constructor LIBRARY  while another thread is in dlopen of a library whose constructor uses CUDA
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

// From nothing to a context that is current in this thread.
static void begin() {
  CHECK(cuInit(0));
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
}

static size_t take_until_refused() {
  size_t held = 0;
  CUresult result;
  for (CUdeviceptr memory; (result = cuMemAlloc(&memory, 16 * kMiB)) == CUDA_SUCCESS;) held += 16;
  if (result != CUDA_ERROR_OUT_OF_MEMORY) CHECK(result);
  return held;
}

// Lets threads go together: none is late because it was started late.
class Start {
 public:
  explicit Start(int threads) : missing_(threads) {}
  void wait() {
    --missing_;
    while (missing_ > 0) std::this_thread::yield();
  }

 private:
  std::atomic<int> missing_;
};

static int threads() {
  constexpr int kThreads = 64;
  Start start(kThreads);
  std::atomic<size_t> held{0};
  std::vector<std::thread> all;
  for (int i = 0; i < kThreads; ++i) {
    all.emplace_back([&] {
      start.wait();
      begin();
      held += take_until_refused();
    });
  }
  for (std::thread& thread : all) thread.join();
  int gpus = 0;
  CHECK(cuDeviceGetCount(&gpus));
  std::printf("GPUs: %d, held %zu MiB\n", gpus, held.load());
  return 0;
}

static int reads_environment() {
  constexpr int kReaders = 4;
  Start start(kReaders + 1);
  std::atomic<bool> over{false};
  std::atomic<long> reads{0}, missing{0};
  std::vector<std::thread> all;
  for (int i = 0; i < kReaders; ++i) {
    all.emplace_back([&] {
      start.wait();
      while (!over) {
        // Whatever is in force for the moment, a variable that is set never reads as unset.
        for (const char* name : {"CUDA_VISIBLE_DEVICES", "PATH", "STAYS"}) {
          const char* value = std::getenv(name);
          if (value == nullptr || std::strlen(value) == 0) ++missing;
        }
        ++reads;
      }
    });
  }
  start.wait();
  begin();
  while (reads < 20000) std::this_thread::yield();
  over = true;
  for (std::thread& thread : all) thread.join();
  int gpus = 0;
  CHECK(cuDeviceGetCount(&gpus));
  std::printf("GPUs: %d, mask %s, %ld reads found nothing\n", gpus, std::getenv("CUDA_VISIBLE_DEVICES"),
              missing.load());
  return 0;
}

static int constructor(const char* library) {
  Start start(2);
  std::thread opens([&] {
    start.wait();
    void* handle = dlopen(library, RTLD_NOW);
    if (handle == nullptr) {
      std::printf("%s\n", dlerror());
      std::exit(1);
    }
    const auto result = reinterpret_cast<int (*)()>(dlsym(handle, "result_of_constructor"));
    std::printf("constructor: %s\n", name_of(static_cast<CUresult>(result())));
  });
  start.wait();
  begin();
  opens.join();
  int gpus = 0;
  CHECK(cuDeviceGetCount(&gpus));
  std::printf("GPUs: %d, held %zu MiB\n", gpus, take_until_refused());
  return 0;
}

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "threads") return threads();
  if (how == "getenv") return reads_environment();
  if (how == "constructor" && argc > 2) return constructor(argv[2]);
  return 2;
}
