// Modules, libraries, kernels, links and launches through the driver's exports, with PTX written by hand:
// what is found, what is refused and how, and that each context has globals of its own.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gate.h"
#include "process.h"

namespace gpufence::sim {
namespace {

// Programs of CUDA 2 and 3 still call these.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

constexpr const char* kPtx = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 40;
.visible .const .align 4 .b8 factors[8] = {2, 0, 0, 0, 3, 0, 0, 0};
.extern .shared .align 16 .b8 dynamic[];

.visible .entry fill(.param .u64 out, .param .u32 value, .param .u8 small, .param .align 8 .b8 block[16])
{
  .reg .b64 %rd<6>;
  .reg .b32 %r<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  add.s32 %r6, %r5, %r1;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r6;
  ret;
}

.visible .entry count()
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<5>;
  mov.u64 %rd1, counter;
  ld.const.u32 %r2, [factors+4];
  atom.global.add.u32 %r1, [%rd1], %r2;
  ret;
}

.visible .entry bounded() .maxntid 128, 1, 1
{
  ret;
}
)";

struct Gpu {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
};

Gpu load(int ordinal, const void* image = kPtx) {
  Gpu gpu;
  OK(cuCtxCreate(&gpu.context, nullptr, 0, ordinal));
  OK(cuModuleLoadData(&gpu.module, image));
  return gpu;
}

CUfunction function(CUmodule module, const char* name) {
  CUfunction found = nullptr;
  OK(cuModuleGetFunction(&found, module, name));
  return found;
}

CUresult launch(CUfunction f, unsigned blocks, unsigned threads, unsigned shared = 0,
                void** params = nullptr) {
  return cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, shared, nullptr, params, nullptr);
}

unsigned value_at(CUdeviceptr address) {
  unsigned value = 0;
  OK(cuMemcpyDtoH(&value, address, sizeof value));
  return value;
}

CUdeviceptr variable(CUmodule module, const char* name) {
  CUdeviceptr address = 0;
  OK(cuModuleGetGlobal(&address, nullptr, module, name));
  return address;
}

void on_one_gpu(const std::function<void()>& body, const char* machine = "1") {
  in_child({{"GPUFENCE_SIM", machine}}, [&] {
    OK(cuInit(0));
    body();
  });
}

TEST(Module, FindsWhatItHasAndNothingElse) {
  on_one_gpu([] {
    const Gpu gpu = load(0);
    const CUfunction fill = function(gpu.module, "fill");
    EXPECT_EQ(function(gpu.module, "fill"), fill);
    CUfunction none = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&none, gpu.module, "fil"), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(cuModuleGetFunction(&none, gpu.module, "counter"), CUDA_ERROR_NOT_FOUND);
    CUdeviceptr address = 0;
    size_t bytes = 0;
    OK(cuModuleGetGlobal(&address, &bytes, gpu.module, "factors"));
    EXPECT_EQ(bytes, 8u);
    EXPECT_EQ(value_at(address + 4), 3u);
    EXPECT_EQ(cuModuleGetGlobal(&address, &bytes, gpu.module, "dynamic"), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(cuModuleGetGlobal(&address, &bytes, gpu.module, "fill"), CUDA_ERROR_NOT_FOUND);
    unsigned count = 0;
    OK(cuModuleGetFunctionCount(&count, gpu.module));
    EXPECT_EQ(count, 3u);
    CUfunction all[3] = {};
    OK(cuModuleEnumerateFunctions(all, 3, gpu.module));
    EXPECT_EQ(all[0], fill);
    const char* name = nullptr;
    OK(cuFuncGetName(&name, all[2]));
    EXPECT_STREQ(name, "bounded");
    CUmodule owner = nullptr;
    OK(cuFuncGetModule(&owner, fill));
    EXPECT_EQ(owner, gpu.module);
  });
}

TEST(Module, TellsWhatItsKernelsTake) {
  on_one_gpu([] {
    const Gpu gpu = load(0);
    const CUfunction fill = function(gpu.module, "fill");
    const size_t offsets[] = {0, 8, 12, 16}, sizes[] = {8, 4, 1, 16};
    for (size_t i = 0; i < 4; ++i) {
      size_t offset = 99, size = 99;
      OK(cuFuncGetParamInfo(fill, i, &offset, &size));
      EXPECT_EQ(offset, offsets[i]);
      EXPECT_EQ(size, sizes[i]);
    }
    size_t offset = 0;
    EXPECT_EQ(cuFuncGetParamInfo(fill, 4, &offset, nullptr), CUDA_ERROR_INVALID_VALUE);
    int value = 0;
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function(gpu.module, "bounded")));
    EXPECT_EQ(value, 128);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, fill));
    EXPECT_EQ(value, 75);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, fill));
    EXPECT_EQ(value, 90);
  });
}

TEST(Module, IsGoneWhenUnloadedOrWhenItsContextIs) {
  on_one_gpu([] {
    const Gpu gpu = load(0);
    const CUfunction fill = function(gpu.module, "fill");
    size_t before = 0, after = 0;
    OK(cuMemGetInfo(&before, nullptr));
    CUmodule second = nullptr;
    OK(cuModuleLoadData(&second, kPtx));
    OK(cuModuleUnload(second));
    OK(cuMemGetInfo(&after, nullptr));
    EXPECT_EQ(after, before);
    EXPECT_EQ(cuModuleUnload(second), CUDA_ERROR_INVALID_HANDLE);
    OK(cuModuleUnload(gpu.module));
    EXPECT_EQ(launch(fill, 1, 1), CUDA_ERROR_INVALID_HANDLE);
    CUmodule third = nullptr;
    OK(cuModuleLoadData(&third, kPtx));
    const CUfunction count = function(third, "count");
    OK(cuCtxDestroy(gpu.context));
    load(0);
    EXPECT_EQ(launch(count, 1, 1), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuModuleUnload(third), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(Module, OfNoCodeOrForNoSuchGpuIsAnError) {
  on_one_gpu([] {
    CUcontext context = nullptr;
    OK(cuCtxCreate(&context, nullptr, 0, 0));
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuModuleLoadData(&module, "no code at all"), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(cuModuleLoad(&module, "/nonexistent/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
    EXPECT_EQ(
        cuModuleLoadData(&module, ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(\n"),
        CUDA_ERROR_INVALID_PTX);
    EXPECT_EQ(cuModuleLoadData(&module, ".version 8.0\n.target sm_120\n.address_size 64\n"),
              CUDA_ERROR_INVALID_PTX);
    EXPECT_EQ(cuModuleLoadData(&module, ".version 9.9\n.target sm_75\n.address_size 64\n"),
              CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  });
}

TEST(Module, WritesItsMistakesWhereItIsAskedTo) {
  on_one_gpu([] {
    CUcontext context = nullptr;
    OK(cuCtxCreate(&context, nullptr, 0, 0));
    char log[256] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_75\n.address_size 64\n.nonsense\n", 2,
                                 options, values),
              CUDA_ERROR_INVALID_PTX);
    EXPECT_NE(std::string(log).find("line 4"), std::string::npos) << log;
    EXPECT_EQ(reinterpret_cast<size_t>(values[1]), strlen(log));
    values[1] = reinterpret_cast<void*>(sizeof log);
    EXPECT_EQ(
        cuModuleLoadDataEx(&module,
                           ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() {\n.reg .f32 "
                           "%f<3>;\nfmx.rn.f32 %f1, %f1, %f1, %f1;\nret;\n}\n",
                           2, options, values),
        CUDA_ERROR_INVALID_PTX);
    EXPECT_STREQ(log,
                 "ptxas application ptx input, line 6; error   : Not a name of any known instruction: 'fmx'\n"
                 "ptxas fatal   : Ptx assembly aborted due to errors");
    CUjit_option unknown[] = {static_cast<CUjit_option>(1000)};
    EXPECT_EQ(cuModuleLoadDataEx(&module, kPtx, 1, unknown, values), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Limits, OfHeapAndPrintfStandOnceAKernelThatUsesThemRan) {
  on_one_gpu([] {
    const Gpu gpu = load(0, R"(
.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 arguments);
.extern .func (.param .b64 r) malloc(.param .b64 bytes);
.visible .entry neither() { ret; }
.visible .entry prints(.param .u64 format)
{
  .reg .b64 %rd<3>;
  .param .b64 a; .param .b64 b; .param .b32 r;
  ld.param.u64 %rd1, [format];
  mov.u64 %rd2, 0;
  st.param.b64 [a], %rd1; st.param.b64 [b], %rd2;
  call.uni (r), vprintf, (a, b);
  ret;
}
.visible .entry takes()
{
  .reg .b64 %rd<3>;
  .param .b64 a; .param .b64 r;
  mov.u64 %rd1, 16;
  st.param.b64 [a], %rd1;
  call.uni (r), malloc, (a);
  ret;
}
)");
    OK(launch(function(gpu.module, "neither"), 1, 1));
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20));
    OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 16));
    OK(launch(function(gpu.module, "takes"), 1, 1));
    EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 << 20), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 17));
    CUdeviceptr format = 0;
    OK(cuMemAlloc(&format, 4));
    OK(cuMemsetD8(format, 0, 4));
    void* params[] = {&format};
    OK(launch(function(gpu.module, "prints"), 1, 1, 0, params));
    EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 16), CUDA_ERROR_INVALID_VALUE);
    size_t bytes = 0;
    OK(cuCtxGetLimit(&bytes, CU_LIMIT_PRINTF_FIFO_SIZE));
    EXPECT_EQ(bytes, size_t{1} << 17);
  });
}

TEST(Global, IsTheContextsOwn) {
  on_one_gpu(
      [] {
        const Gpu first = load(0), second = load(1);
        OK(launch(function(second.module, "count"), 2, 32));
        EXPECT_EQ(value_at(variable(second.module, "counter")), 40u + 64 * 3);
        OK(cuCtxSetCurrent(first.context));
        EXPECT_EQ(value_at(variable(first.module, "counter")), 40u);
        CUmodule twin = nullptr;
        OK(cuModuleLoadData(&twin, kPtx));
        OK(launch(function(twin, "count"), 1, 1));
        EXPECT_EQ(value_at(variable(twin, "counter")), 43u);
        EXPECT_EQ(value_at(variable(first.module, "counter")), 40u);
        int where = -1;
        OK(cuPointerGetAttribute(&where, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 variable(second.module, "counter")));
        EXPECT_EQ(where, 1);
      },
      "2");
}

TEST(Launch, TakesItsParametersEitherWay) {
  on_one_gpu([] {
    const Gpu gpu = load(0);
    const CUfunction fill = function(gpu.module, "fill");
    CUdeviceptr out = 0;
    OK(cuMemAlloc(&out, 64 * 4));
    unsigned value = 100;
    unsigned char small = 1;
    double block[2] = {1, 2};
    void* params[] = {&out, &value, &small, block};
    OK(launch(fill, 2, 32, 0, params));
    value = 7;  // read before the call returned
    EXPECT_EQ(value_at(out + 63 * 4), 163u);

    struct {
      CUdeviceptr out;
      unsigned value;
      unsigned char small;
      alignas(8) double block[2];
    } packed = {out, 1000, 1, {1, 2}};
    size_t bytes = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(fill, 1, 1, 1, 8, 1, 1, 0, nullptr, nullptr, extra));
    EXPECT_EQ(value_at(out + 7 * 4), 1007u);
    EXPECT_EQ(cuLaunchKernel(fill, 1, 1, 1, 8, 1, 1, 0, nullptr, params, extra), CUDA_ERROR_INVALID_VALUE);
    bytes = 8;
    EXPECT_EQ(cuLaunchKernel(fill, 1, 1, 1, 8, 1, 1, 0, nullptr, nullptr, extra), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(fill, 1, 1), CUDA_ERROR_INVALID_VALUE);

    CUlaunchConfig config = {};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 4;
    config.blockDimY = config.blockDimZ = 1;
    value = 5;
    OK(cuLaunchKernelEx(&config, fill, params, nullptr));
    EXPECT_EQ(value_at(out + 3 * 4), 8u);
  });
}

TEST(Launch, ThatCannotBeIsRefusedWithTheDocumentedCode) {
  on_one_gpu([] {
    const Gpu gpu = load(0);
    const CUfunction bounded = function(gpu.module, "bounded"), count = function(gpu.module, "count");
    EXPECT_EQ(launch(nullptr, 1, 1), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(launch(reinterpret_cast<CUfunction>(gpu.module), 1, 1), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(launch(bounded, 0, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(bounded, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(count, 1, 1025), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLaunchKernel(count, 1, 65536, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLaunchKernel(count, 1, 1, 1, 1, 1, 65, 0, nullptr, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(bounded, 1, 129), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    EXPECT_EQ(launch(bounded, 1, 1, 49153), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100'000));
    OK(launch(bounded, 1, 1, 49153));
    EXPECT_EQ(cuFuncSetAttribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300'000),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLaunchCooperativeKernel(count, 1'000'000, 1, 1, 1024, 1, 1, 0, nullptr, nullptr),
              CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    OK(cuLaunchCooperativeKernel(count, 132, 1, 1, 1024, 1, 1, 0, nullptr, nullptr));
    OK(cuCtxSynchronize());
  });
}

TEST(Launch, NeedsFunctionStreamAndContextTogether) {
  on_one_gpu(
      [] {
        const Gpu first = load(0);
        load(1);
        const CUfunction count = function(first.module, "count");
        EXPECT_EQ(launch(count, 1, 1), CUDA_ERROR_INVALID_HANDLE);
        CUstream stream = nullptr;
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuCtxSetCurrent(first.context));
        EXPECT_EQ(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr),
                  CUDA_ERROR_INVALID_HANDLE);
        OK(launch(count, 1, 1));
      },
      "2");
}

TEST(Launch, OfTheFirstInterfaceKeepsItsBlockAndParameters) {
  on_one_gpu([] {
    const Gpu gpu = load(0);
    const CUfunction fill = function(gpu.module, "fill");
    CUdeviceptr out = 0;
    OK(cuMemAlloc(&out, 64 * 4));
    OK(cuFuncSetBlockShape(fill, 16, 1, 1));
    OK(cuParamSetSize(fill, 32));
    OK(cuParamSetv(fill, 0, &out, sizeof out));
    OK(cuParamSeti(fill, 8, 500));
    OK(cuLaunchGrid(fill, 4, 1));
    EXPECT_EQ(value_at(out + 63 * 4), 563u);
  });
}

TEST(Library, IsLoadedWithoutAContextAndInstantiatedInEach) {
  on_one_gpu(
      [] {
        CUlibrary library = nullptr;
        OK(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
        CUkernel count = nullptr, none = nullptr;
        OK(cuLibraryGetKernel(&count, library, "count"));
        EXPECT_EQ(cuLibraryGetKernel(&none, library, "counts"), CUDA_ERROR_NOT_FOUND);
        unsigned kernels = 0;
        OK(cuLibraryGetKernelCount(&kernels, library));
        EXPECT_EQ(kernels, 3u);
        CUkernel all[3] = {};
        OK(cuLibraryEnumerateKernels(all, 3, library));
        EXPECT_EQ(all[1], count);
        const char* name = nullptr;
        OK(cuKernelGetName(&name, count));
        EXPECT_STREQ(name, "count");
        CUlibrary owner = nullptr;
        OK(cuKernelGetLibrary(&owner, count));
        EXPECT_EQ(owner, library);

        CUcontext first = nullptr, second = nullptr;
        OK(cuCtxCreate(&first, nullptr, 0, 0));
        OK(cuCtxCreate(&second, nullptr, 0, 1));
        OK(launch(reinterpret_cast<CUfunction>(count), 1, 10));
        CUdeviceptr counter = 0;
        OK(cuLibraryGetGlobal(&counter, nullptr, library, "counter"));
        EXPECT_EQ(value_at(counter), 70u);
        OK(cuCtxSetCurrent(first));
        OK(cuLibraryGetGlobal(&counter, nullptr, library, "counter"));
        EXPECT_EQ(value_at(counter), 40u);
        CUfunction here = nullptr, same = nullptr;
        OK(cuKernelGetFunction(&here, count));
        CUmodule module = nullptr;
        OK(cuLibraryGetModule(&module, library));
        OK(cuModuleGetFunction(&same, module, "count"));
        EXPECT_EQ(here, same);
        OK(launch(here, 1, 1));
        EXPECT_EQ(value_at(counter), 43u);

        CUkernel bounded = nullptr;
        OK(cuLibraryGetKernel(&bounded, library, "bounded"));
        OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60'000, bounded, 1));
        EXPECT_EQ(launch(reinterpret_cast<CUfunction>(bounded), 1, 1, 60'000), CUDA_ERROR_INVALID_VALUE);
        OK(cuCtxSetCurrent(second));
        OK(launch(reinterpret_cast<CUfunction>(bounded), 1, 1, 60'000));

        OK(cuLibraryUnload(library));
        EXPECT_EQ(launch(reinterpret_cast<CUfunction>(count), 1, 1), CUDA_ERROR_INVALID_HANDLE);
        EXPECT_EQ(launch(here, 1, 1), CUDA_ERROR_INVALID_HANDLE);
        EXPECT_EQ(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
      },
      "2");
}

TEST(Library, OutlivesAResetOfThePrimaryContext) {
  on_one_gpu([] {
    CUlibrary library = nullptr;
    OK(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUkernel count = nullptr;
    OK(cuLibraryGetKernel(&count, library, "count"));
    CUcontext primary = nullptr;
    for (int i = 0; i < 2; ++i) {
      OK(cuDevicePrimaryCtxRetain(&primary, 0));
      OK(cuCtxSetCurrent(primary));
      OK(launch(reinterpret_cast<CUfunction>(count), 1, 1));
      CUdeviceptr counter = 0;
      OK(cuLibraryGetGlobal(&counter, nullptr, library, "counter"));
      EXPECT_EQ(value_at(counter), 43u);  // fresh each time
      OK(cuDevicePrimaryCtxReset(0));
    }
  });
}

TEST(Loading, IsLazyUnlessEagerIsAskedFor) {
  const auto mode = [](const Environment& environment, CUmoduleLoadingMode expected, bool loaded) {
    in_child(environment, [&] {
      OK(cuInit(0));
      CUmoduleLoadingMode told;
      OK(cuModuleGetLoadingMode(&told));
      EXPECT_EQ(told, expected);
      const Gpu gpu = load(0);
      CUfunctionLoadingState state;
      OK(cuFuncIsLoaded(&state, function(gpu.module, "count")));
      EXPECT_EQ(state == CU_FUNCTION_LOADING_STATE_LOADED, loaded);
      OK(cuFuncLoad(function(gpu.module, "count")));
      OK(cuFuncIsLoaded(&state, function(gpu.module, "count")));
      EXPECT_EQ(state, CU_FUNCTION_LOADING_STATE_LOADED);

      // A library's globals take memory at once, or when it is first used.
      size_t before = 0, after = 0;
      OK(cuMemGetInfo(&before, nullptr));
      CUlibrary library = nullptr;
      OK(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
      OK(cuMemGetInfo(&after, nullptr));
      EXPECT_EQ(before != after, loaded);
    });
  };
  mode({{"GPUFENCE_SIM", "1"}}, CU_MODULE_LAZY_LOADING, false);
  mode({{"GPUFENCE_SIM", "1"}, {"CUDA_MODULE_LOADING", "EAGER"}}, CU_MODULE_EAGER_LOADING, true);
}

TEST(Library, IsUsedByManyThreadsOnManyGpusAtOnce) {
  on_one_gpu(
      [] {
        CUlibrary library = nullptr;
        OK(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
        CUkernel count = nullptr;
        OK(cuLibraryGetKernel(&count, library, "count"));
        std::vector<CUcontext> contexts(4);
        for (int i = 0; i < 4; ++i) OK(cuCtxCreate(&contexts[static_cast<size_t>(i)], nullptr, 0, i));
        constexpr unsigned kLaunches = 25;
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < 8; ++t) {
          threads.emplace_back([&, t] {
            OK(cuCtxSetCurrent(contexts[t % 4]));
            for (unsigned i = 0; i < kLaunches; ++i) {
              OK(launch(reinterpret_cast<CUfunction>(count), 1, 32));
              if (i % 8 != 0) continue;
              CUmodule own = nullptr;
              OK(cuModuleLoadData(&own, kPtx));
              OK(launch(function(own, "count"), 1, 1));
              EXPECT_EQ(value_at(variable(own, "counter")), 43u);
              OK(cuModuleUnload(own));
            }
            OK(cuCtxSynchronize());
          });
        }
        for (std::thread& thread : threads) thread.join();
        for (CUcontext context : contexts) {
          OK(cuCtxSetCurrent(context));
          CUdeviceptr counter = 0;
          OK(cuLibraryGetGlobal(&counter, nullptr, library, "counter"));
          EXPECT_EQ(value_at(counter), 40 + 2 * kLaunches * 32 * 3);
        }
      },
      "4");
}

constexpr const char* kCaller = R"(
.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 result) plus_one (.param .b32 value);
.visible .entry call(.param .u64 out)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, 41;
  {
  .param .b32 param0;
  st.param.b32 [param0+0], %r1;
  .param .b32 retval0;
  call.uni (retval0), plus_one, (param0);
  ld.param.b32 %r2, [retval0+0];
  }
  st.global.u32 [%rd2], %r2;
  ret;
}
)";
constexpr const char* kCallee = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .func (.param .b32 result) plus_one (.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [value];
  add.s32 %r2, %r1, 1;
  st.param.b32 [result+0], %r2;
  ret;
}
)";

TEST(Link, JoinsPtxIntoAnImageThatLoads) {
  on_one_gpu([] {
    CUcontext context = nullptr;
    OK(cuCtxCreate(&context, nullptr, 0, 0));
    CUlinkState state = nullptr;
    OK(cuLinkCreate(0, nullptr, nullptr, &state));
    std::string caller = kCaller, callee = kCallee;
    OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, caller.data(), caller.size(), "caller", 0, nullptr, nullptr));
    void* image = nullptr;
    size_t bytes = 0;
    EXPECT_EQ(cuLinkComplete(state, &image, &bytes), CUDA_ERROR_INVALID_PTX);  // plus_one is nowhere
    OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, callee.data(), callee.size(), "callee", 0, nullptr, nullptr));
    OK(cuLinkComplete(state, &image, &bytes));
    const std::vector<char> copy(static_cast<char*>(image), static_cast<char*>(image) + bytes);
    OK(cuLinkDestroy(state));
    EXPECT_EQ(cuLinkDestroy(state), CUDA_ERROR_INVALID_HANDLE);
    CUmodule module = nullptr;
    OK(cuModuleLoadData(&module, copy.data()));
    CUdeviceptr out = 0;
    OK(cuMemAlloc(&out, 4));
    void* params[] = {&out};
    OK(launch(function(module, "call"), 1, 1, 0, params));
    EXPECT_EQ(value_at(out), 42u);
  });
}

TEST(Occupancy, FollowsTheGpusLimits) {
  on_one_gpu([] {
    const Gpu gpu = load(0);
    const CUfunction count = function(gpu.module, "count"), bounded = function(gpu.module, "bounded");
    int blocks = 0, grid = 0, block = 0;
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count, 1024, 0));
    EXPECT_EQ(blocks, 2);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count, 32, 0));
    EXPECT_EQ(blocks, 32);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, count, 32, 100'000, 0));
    EXPECT_EQ(blocks, 2);
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, count, nullptr, 0, 0));
    EXPECT_EQ(block, 1024);
    EXPECT_EQ(grid, 264);
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, bounded, nullptr, 0, 0));
    EXPECT_EQ(block, 128);
    EXPECT_EQ(grid, 132 * 16);
    size_t bytes = 0;
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, count, 2, 128));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count, 128, bytes));
    EXPECT_EQ(blocks, 2);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count, 128, bytes + 1024));
    EXPECT_LT(blocks, 2);
  });
}

// Sources: cuda.h, cuOccupancyMaxActiveClusters and cuOccupancyMaxPotentialClusterSize; sizes: CUDA C++
// programming guide, "Thread Block Clusters" (8 blocks are portable).
TEST(Occupancy, CountsClusters) {
  in_child({{"GPUFENCE_SIM", "h100"}}, [] {
    OK(cuInit(0));
    const Gpu gpu = load(0);
    const CUfunction count = function(gpu.module, "count");
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {4, 1, 1};
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 1024;
    config.blockDimY = config.blockDimZ = 1;
    int told = 0;
    EXPECT_EQ(cuOccupancyMaxActiveClusters(&told, count, &config), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    config.attrs = &cluster;
    config.numAttrs = 1;
    OK(cuOccupancyMaxActiveClusters(&told, count, &config));
    EXPECT_EQ(told, 132 * 2 / 4);
    cluster.value.clusterDim = {4, 4, 1};
    EXPECT_EQ(cuOccupancyMaxActiveClusters(&told, count, &config), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    OK(cuOccupancyMaxPotentialClusterSize(&told, count, &config));
    EXPECT_EQ(told, 8);
    OK(cuFuncSetAttribute(count, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    OK(cuOccupancyMaxPotentialClusterSize(&told, count, &config));
    EXPECT_EQ(told, 16);
    OK(cuOccupancyMaxActiveClusters(&told, count, &config));
    EXPECT_EQ(told, 132 * 2 / 16);
    OK(cuFuncSetAttribute(count, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2));
    OK(cuOccupancyMaxPotentialClusterSize(&told, count, &config));
    EXPECT_EQ(told, 2);
    EXPECT_EQ(cuOccupancyMaxActiveClusters(&told, count, &config), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    EXPECT_EQ(cuOccupancyMaxActiveClusters(nullptr, count, &config), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuOccupancyMaxActiveClusters(&told, count, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuOccupancyMaxActiveClusters(&told, nullptr, &config), CUDA_ERROR_INVALID_HANDLE);
  });
}

// cuda.h, CUlaunchAttributeID: "may wait until A is complete", and "must disable timing".
TEST(Launch, RecordsTheEventsOfItsAttributes) {
  on_one_gpu([] {
    const Gpu gpu = load(0);
    const CUfunction count = function(gpu.module, "count");
    CUstream stream = nullptr;
    CUevent events[2] = {}, timed = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&events[0], CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&events[1], CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    CUlaunchAttribute attributes[2] = {};
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
    attributes[0].value.programmaticEvent.event = events[0];
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
    attributes[1].value.launchCompletionEvent.event = events[1];
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
    Gate gate;
    OK(gate.hold(stream));
    OK(cuLaunchKernelEx(&config, count, nullptr, nullptr));
    for (CUevent event : events) EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    gate.open();
    for (CUevent event : events) OK(cuEventSynchronize(event));
    attributes[1].value.launchCompletionEvent.event = timed;
    EXPECT_EQ(cuLaunchKernelEx(&config, count, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    attributes[1].value.launchCompletionEvent.event = nullptr;
    EXPECT_EQ(cuLaunchKernelEx(&config, count, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(Unsupported, InstructionIsSaidWithItsKernelAndOnlyStopsThat) {
  const std::string said = stderr_of({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    const std::string ptx = std::string(kPtx) + R"(
.visible .entry matrices()
{
  .reg .b32 %r<10>;
  .reg .b64 %rd<2>;
  wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1];
  ret;
}
)";
    const Gpu gpu = load(0, ptx.c_str());
    OK(launch(function(gpu.module, "count"), 1, 1));
    EXPECT_EQ(launch(function(gpu.module, "matrices"), 1, 1), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(launch(function(gpu.module, "matrices"), 1, 1), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuCtxSynchronize());
  });
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("GF601"), std::string::npos) << said;
  EXPECT_NE(said.find("matrices"), std::string::npos) << said;
  EXPECT_NE(said.find("wmma.load.a.sync"), std::string::npos) << said;
}

}  // namespace
}  // namespace gpufence::sim
