// A program with a runtime of its own (linked statically), for what CUPTI shows of it, and for a program that wants
// CUPTI itself. Usage: subscribes WHAT [LIBRARY]
//   ordinal        asks for a GPU that does not exist, twice from one place
//   threads        eight threads do that at once
//   before         subscribes to CUPTI before its first CUDA call, then asks for that GPU
//   after          subscribes after CUDA calls, by dlsym, then asks
//   after_linked   the same through LIBRARY, which is linked to CUPTI
//   amid           subscribes while another thread is in cudaStreamSynchronize, which then mixes up two GPUs
//   opens          opens LIBRARY first, then asks
//   destructs      asks from a destructor, when the program ends
#include <cuda_runtime.h>
#include <cupti.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#define NEED(call)                                            \
  if (const cudaError_t error = (call); error != cudaSuccess) \
    std::printf("%s: %s\n", #call, cudaGetErrorName(error));

extern "C" __attribute__((noinline)) cudaError_t choose(int device) {
  const cudaError_t error = cudaSetDevice(device);
  return error;
}
extern "C" __attribute__((noinline)) cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
  const cudaError_t error = cudaEventRecord(event, stream);
  return error;
}

static void ask() {
  for (int i = 0; i < 2; ++i) std::printf("choose(7): %s\n", cudaGetErrorName(choose(7)));
}

static std::atomic<int> told{0};
static void CUPTIAPI listen(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {
  ++told;
}

static void subscribe(void* library) {
  const auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(library, "cuptiSubscribe"));
  const auto enable = reinterpret_cast<decltype(&cuptiEnableDomain)>(dlsym(library, "cuptiEnableDomain"));
  CUpti_SubscriberHandle me = nullptr;
  const int result = subscribe(&me, listen, nullptr);
  std::printf("cuptiSubscribe: %d\n", result);
  if (result == CUPTI_SUCCESS) std::printf("enable: %d\n", enable(1, me, CUPTI_CB_DOMAIN_RUNTIME_API));
}

static void* cupti() {
  return dlopen("libcupti.so.13", RTLD_NOW);
}

static std::atomic<bool> in_callback{false}, go_on{false};
static void CUDART_CB wait(void*) {
  in_callback = true;
  while (!go_on) std::this_thread::yield();
}

static void amid() {
  cudaStream_t stream[2];
  cudaEvent_t event;
  for (int gpu = 0; gpu < 2; ++gpu) {
    NEED(choose(gpu));
    NEED(cudaStreamCreate(&stream[gpu]));
  }
  NEED(cudaEventCreate(&event));
  NEED(cudaLaunchHostFunc(stream[1], wait, nullptr));
  std::thread other([&] {
    NEED(choose(1));
    NEED(cudaStreamSynchronize(stream[1]));
    std::printf("record: %s\n", cudaGetErrorName(record(event, stream[0])));
  });
  while (!in_callback) std::this_thread::yield();
  // Long enough for the other thread to come into its call; if it does not, the test has less to see.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  subscribe(cupti());
  go_on = true;
  other.join();
}

struct AtEnd {
  bool asks = false;
  ~AtEnd() {
    if (asks) ask();
  }
} at_end;

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const char* library = argc > 2 ? argv[2] : "";
  const auto is = [&](const char* name) { return std::strcmp(what, name) == 0; };
  if (is("before")) subscribe(cupti());
  if (is("opens") && dlopen(library, RTLD_NOW) == nullptr) std::printf("%s\n", dlerror());
  if (!is("ordinal")) NEED(cudaFree(nullptr));
  if (is("after")) subscribe(cupti());
  if (is("after_linked")) {
    void* tool = dlopen(library, RTLD_NOW);
    if (tool == nullptr) std::printf("%s\n", dlerror());
    std::printf("tool_subscribe: %d\n", reinterpret_cast<int (*)()>(dlsym(tool, "tool_subscribe"))());
  }
  if (is("amid")) {
    amid();
  } else if (is("threads")) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([] {
        for (int round = 0; round < 100; ++round) choose(7);
      });
    }
    for (std::thread& thread : threads) thread.join();
  } else if (is("destructs")) {
    at_end.asks = true;
  } else {
    ask();
  }
  if (told > 0) std::printf("told\n");
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  bool loaded = false;
  for (char line[4096]; maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr;)
    loaded = loaded || std::strstr(line, "libcupti") != nullptr;
  std::printf("CUPTI is %sloaded\n", loaded ? "" : "not ");
  return 0;
}
