// Handles and memory that come by other ways than cuStreamCreate, cuModuleGetFunction and cuMemAlloc, used on
// the GPU that they belong to or on the other. Usage: handles_driver kernel|module|pool|mapping fault|twin ·
// remapped · reused
#include <cstring>

#include "check.h"

static const char* const kCode =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry _Z5saxpyPff(.param .u64 out, .param .f32 a) {\n"
    " .reg .u64 %rd<2>;\n .reg .f32 %f<2>;\n"
    " ld.param.u64 %rd1, [out];\n ld.param.f32 %f1, [a];\n st.global.f32 [%rd1], %f1;\n ret;\n}\n";

#define SAY(call) std::printf("%s: %s\n", #call, name_of(call))

static CUcontext context[2];

static void use(int gpu) {
  CHECK(cuCtxSetCurrent(context[gpu]));
}

extern "C" __attribute__((noinline)) CUresult step(CUfunction kernel, CUdeviceptr memory, CUstream stream) {
  float factor = 2;
  void* arguments[] = {&memory, &factor};
  const CUresult result = cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  return result;
}
extern "C" __attribute__((noinline)) CUresult load(CUlibrary* library) {
  const CUresult result = cuLibraryLoadData(library, kCode, nullptr, nullptr, 0, nullptr, nullptr, 0);
  return result;
}
// Of the current GPU.
extern "C" __attribute__((noinline)) CUfunction function_of(CUlibrary library, bool by_module) {
  CUfunction function = nullptr;
  if (by_module) {
    CUmodule module = nullptr;
    CHECK(cuLibraryGetModule(&module, library));
    CHECK(cuModuleGetFunction(&function, module, "_Z5saxpyPff"));
  } else {
    CUkernel kernel = nullptr;
    CHECK(cuLibraryGetKernel(&kernel, library, "_Z5saxpyPff"));
    CHECK(cuKernelGetFunction(&function, kernel));
  }
  return function;
}

static size_t granularity() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  size_t bytes = 0;
  CHECK(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return bytes;
}
// Memory of `gpu` at `address`, which `users` may use.
static CUmemGenericAllocationHandle map(CUdeviceptr address, int gpu, int users) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = gpu;
  CUmemGenericAllocationHandle memory = 0;
  CHECK(cuMemCreate(&memory, granularity(), &prop, 0));
  CHECK(cuMemMap(address, granularity(), 0, memory, 0));
  CUmemAccessDesc access[2]{};
  for (int i = 0; i < users; ++i) {
    access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[i].location.id = i == 0 ? gpu : 1 - gpu;
    access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CHECK(cuMemSetAccess(address, granularity(), access, static_cast<size_t>(users)));
  return memory;
}
static CUdeviceptr reserve() {
  CUdeviceptr address = 0;
  CHECK(cuMemAddressReserve(&address, granularity(), 0, 0, 0));
  return address;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const bool twin = argc > 2 && !std::strcmp(argv[2], "twin");
  CHECK(cuInit(0));
  CUlibrary library = nullptr;
  CUfunction function[2];
  for (int gpu = 0; gpu < 2; ++gpu) CHECK(cuCtxCreate(&context[gpu], nullptr, 0, gpu));
  CHECK(load(&library));
  const bool by_module = !std::strcmp(what, "module");
  for (int gpu = 0; gpu < 2; ++gpu) {
    use(gpu);
    function[gpu] = function_of(library, by_module);
  }
  CUdeviceptr memory = 0;
  if (!std::strcmp(what, "kernel") || by_module) {
    CHECK(cuMemAlloc(&memory, 4096));
    SAY(step(function[twin ? 1 : 0], memory, nullptr));  // CUDA 1 is current
  } else if (!std::strcmp(what, "pool")) {
    use(0);
    CUmemoryPool pool = nullptr;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cuMemAllocAsync(&memory, 4096, nullptr));
    CHECK(cuCtxSynchronize());
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = 1;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (twin) CHECK(cuMemPoolSetAccess(pool, &access, 1));
    use(1);
    CHECK(step(function[1], memory, nullptr));
    SAY(cuCtxSynchronize());
  } else if (!std::strcmp(what, "mapping")) {
    memory = reserve();
    map(memory, 0, twin ? 2 : 1);
    use(1);
    CHECK(step(function[1], memory, nullptr));
    SAY(cuCtxSynchronize());
  } else if (!std::strcmp(what, "remapped")) {
    // One address, now of this GPU and now of that one.
    memory = reserve();
    for (int round = 0; round < 6; ++round) {
      const int gpu = round % 2;
      const CUmemGenericAllocationHandle handle = map(memory, gpu, 1);
      use(gpu);
      CHECK(step(function[gpu], memory, nullptr));
      CHECK(cuCtxSynchronize());
      CHECK(cuMemUnmap(memory, granularity()));
      CHECK(cuMemRelease(handle));
    }
    SAY(cuCtxSynchronize());
  } else if (!std::strcmp(what, "reused")) {
    // Libraries come and go, and so do the functions that the driver gives out for them.
    for (int round = 0; round < 50; ++round) {
      const int gpu = round % 2;
      use(gpu);
      CHECK(cuLibraryUnload(library));
      CHECK(load(&library));
      CHECK(cuMemAlloc(&memory, 4096));
      CHECK(step(function_of(library, round % 3 == 0), memory, nullptr));
      CHECK(cuCtxSynchronize());
      CHECK(cuMemFree(memory));
    }
    SAY(cuCtxSynchronize());
  }
  return 0;
}
