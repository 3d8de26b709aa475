// What a call costs, in nanoseconds, as a program of the driver API pays it: started by cost.py with and
// without the fence, in turns, so that both see the same machine. Prints "name median-ns" a line. Usage:
// calls LIVE [SHARE] (allocations that stay live meanwhile; a SHAREth of the calls, for drivers that cost
// more)
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: CUresult %d\n", call, static_cast<int>(result));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

// The median over rounds of the mean over `calls`: a round is short enough to fit between two interruptions.
// `rest()` is not timed.
static int share = 1;

template <class F, class Rest = void (*)()>
static void measure(
    const char* name, int most, F call, Rest rest = [] {}) {
  const int calls = most / share;
  std::vector<double> rounds;
  for (int round = 0; round < 41; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    rounds.push_back(took.count() / calls);
    rest();
  }
  std::nth_element(rounds.begin(), rounds.begin() + 20, rounds.end());
  std::printf("%s %.1f\n", name, rounds[20]);
}

int main(int argc, char** argv) {
  const long live = argc > 1 ? std::atol(argv[1]) : 0;
  if (argc > 2) share = std::max(std::atoi(argv[2]), 1);
  CHECK(cuInit(0));
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUdeviceptr kept[8] = {};
  for (long i = 0; i < live; ++i) CHECK(cuMemAlloc(&kept[i % 8], 512));
  measure("alloc_free", 2000, [] {
    CUdeviceptr pointer;
    CHECK(cuMemAlloc(&pointer, 4096));
    CHECK(cuMemFree(pointer));
  });
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  measure(
      "alloc_free_async", 500,
      [stream] {
        CUdeviceptr pointer;
        CHECK(cuMemAllocAsync(&pointer, 4096, stream));
        CHECK(cuMemFreeAsync(pointer, stream));
      },
      [stream] { CHECK(cuStreamSynchronize(stream)); });
  measure("mem_get_info", 5000, [] {
    size_t free, total;
    CHECK(cuMemGetInfo(&free, &total));
  });
  measure("ctx_set_current", 20000, [context] { CHECK(cuCtxSetCurrent(context)); });
  CUmodule module;
  CHECK(cuModuleLoadData(
      &module, ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry empty() { ret; }\n"));
  CUfunction empty;
  CHECK(cuModuleGetFunction(&empty, module, "empty"));
  measure(
      "launch", 100,
      [empty] { CHECK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr)); },
      [] { CHECK(cuCtxSynchronize()); });
  CHECK(cuModuleLoadData(
      &module,
      ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry takes(.param .u64 a, .param .u64 b, "
      ".param .u64 c, .param .u64 d, .param .u64 e, .param .u64 f, .param .u64 g, .param .u64 h) { ret; "
      "}\n"));
  CUfunction takes;
  CHECK(cuModuleGetFunction(&takes, module, "takes"));
  void* arguments[8];
  for (int i = 0; i < 8; ++i) arguments[i] = &kept[i];
  measure(
      "launch_pointers", 100,
      [&] { CHECK(cuLaunchKernel(takes, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr)); },
      [] { CHECK(cuCtxSynchronize()); });
}
