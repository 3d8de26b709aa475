// What contexts, modules and managed memory cost, as free memory and NVML show it.
#include <dlfcn.h>
#include <nvml.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "ask.h"

namespace ask {
namespace {

// NVML, if there is one: its figures of GPU 0 (CUDA's) and of this process.
class Nvml {
 public:
  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return;
    const auto init = reinterpret_cast<nvmlReturn_t (*)()>(dlsym(library, "nvmlInit_v2"));
    const auto by_id = reinterpret_cast<nvmlReturn_t (*)(const char*, nvmlDevice_t*)>(
        dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    processes_ =
        reinterpret_cast<decltype(processes_)>(dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"));
    memory_ = reinterpret_cast<decltype(memory_)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
    char id[32] = "";
    if (init == nullptr || by_id == nullptr || processes_ == nullptr || memory_ == nullptr ||
        init() != NVML_SUCCESS)
      return;
    there_ = cuDeviceGetPCIBusId(id, sizeof id, 0) == CUDA_SUCCESS && by_id(id, &device_) == NVML_SUCCESS;
  }

  std::string text() const {
    if (!there_) return "no NVML";
    std::vector<nvmlProcessInfo_t> list(256);
    unsigned count = 256;
    std::string own = "not listed";
    if (processes_(device_, &count, list.data()) == NVML_SUCCESS)
      for (unsigned i = 0; i < count; ++i)
        if (list[i].pid == static_cast<unsigned>(getpid()))
          own = list[i].usedGpuMemory == ~0ull ? "not available" : std::to_string(list[i].usedGpuMemory);
    nvmlMemory_t m{};
    const bool told = memory_(device_, &m) == NVML_SUCCESS;
    return "NVML: this process " + own + ", card used " + (told ? std::to_string(m.used) : "unknown");
  }

 private:
  bool there_ = false;
  nvmlDevice_t device_ = nullptr;
  nvmlReturn_t (*processes_)(nvmlDevice_t, unsigned*, nvmlProcessInfo_t*) = nullptr;
  nvmlReturn_t (*memory_)(nvmlDevice_t, nvmlMemory_t*) = nullptr;
};

}  // namespace

void residue() {
  NEED(cuInit(0));
  const Nvml nvml;
  fact("after cuInit", "%s", nvml.text().c_str());
  CUcontext first = nullptr, second = nullptr;
  NEED(cuDevicePrimaryCtxRetain(&first, 0));
  NEED(cuCtxSetCurrent(first));
  const long long alone = free_bytes();
  fact("with the primary context", "free %lld, %s", alone, nvml.text().c_str());
  NEED(cuCtxCreate(&second, nullptr, 0, 0));
  fact("with a second context", "free memory fell by %lld, %s", alone - free_bytes(), nvml.text().c_str());
  NEED(cuCtxDestroy(second));
  NEED(cuCtxSetCurrent(first));
  fact("without it again", "free memory rose to %lld, %s", free_bytes(), nvml.text().c_str());
  const auto load = [&](const char* what, const char* ptx) {
    CUmodule module = nullptr;
    const long long before = free_bytes();
    NEED(cuModuleLoadData(&module, ptx));
    const long long loaded = free_bytes();
    CUfunction function = nullptr;
    NEED(cuModuleGetFunction(&function, module, "kernel"));
    NEED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    NEED(cuCtxSynchronize());
    const long long launched = free_bytes();
    NEED(cuModuleUnload(module));
    fact(what,
         "free memory fell by %lld at the load and %lld at the first launch, %lld of it stays after the "
         "unload, %s",
         before - loaded, loaded - launched, before - free_bytes(), nvml.text().c_str());
  };
  load("a small module",
       ".version 6.5\n.target sm_75\n.address_size 64\n.visible .entry kernel() { ret; }\n");
  load("another small module",
       ".version 6.5\n.target sm_75\n.address_size 64\n.visible .global .u32 g;\n.visible .entry kernel() { "
       "ret; }\n");
  load("a module with a global of 64 MiB",
       ".version 6.5\n.target sm_75\n.address_size 64\n.visible .global .align 4 .b8 g[67108864];\n"
       ".visible .entry kernel() { ret; }\n");
  load("a kernel with 16 KiB of local memory a thread",
       ".version 6.5\n.target sm_75\n.address_size 64\n.visible .entry kernel() {\n.local .align 8 .b8 "
       "stack[16384];\n"
       ".reg .b64 %rd<3>;\nmov.u64 %rd1, stack;\nst.local.u64 [%rd1], %rd1;\nld.local.u64 %rd2, [%rd1];\n"
       "st.local.u64 [%rd1+8192], %rd2;\nret; }\n");
}

void managed() {
  start();
  const Nvml nvml;
  constexpr size_t kBytes = 1024 * kMiB;
  if (free_bytes() < static_cast<long long>(2 * kBytes)) could_not("less than 2 GiB are free on GPU 0");
  const long long before = free_bytes();
  const auto say = [&](const char* when) {
    fact(when, "free memory fell by %lld since the start, %s", before - free_bytes(), nvml.text().c_str());
  };
  say("before");
  CUdeviceptr memory = 0;
  NEED(cuMemAllocManaged(&memory, kBytes, CU_MEM_ATTACH_GLOBAL));
  say("1 GiB allocated");
  memset(reinterpret_cast<void*>(memory), 1, kBytes);
  say("touched by the host");
  NEED(cuMemsetD8(memory, 2, kBytes));
  NEED(cuCtxSynchronize());
  say("touched by the GPU");
  const auto prefetch = [&](CUmemLocationType type) {
    const CUresult result = cuMemPrefetchAsync(memory, kBytes, {type, 0}, 0, nullptr);
    NEED(cuCtxSynchronize());
    return result;
  };
  if (const CUresult result = prefetch(CU_MEM_LOCATION_TYPE_HOST); result != CUDA_SUCCESS)
    fact("prefetched to the host", "%s", name_of(result).c_str());
  else
    say("prefetched to the host");
  if (const CUresult result = prefetch(CU_MEM_LOCATION_TYPE_DEVICE); result != CUDA_SUCCESS)
    fact("prefetched to the GPU", "%s", name_of(result).c_str());
  else
    say("prefetched to the GPU");
  NEED(cuMemFree(memory));
  say("freed");
  fact("oversubscribed", "not tried: it never asks for more managed memory than is free");
}

}  // namespace ask
