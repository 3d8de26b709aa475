// A client of NVML, linked to it as C programs are: lists what there is, or asks for what its arguments name.
// Without CUDA, unless the first is "hold MIB", which takes that much on CUDA 0 before it asks.
// Usage: asks_nvml [hold MIB] [list | index N | uuid U | pci P | serial S | near N | cpu N | null | wait]…
#include <dlfcn.h>
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr unsigned long long kMiB = 1 << 20;

template <class F>
F* driver_function(const char* name) {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<F*>(dlsym(driver, name));
}

bool hold(unsigned long long bytes) {
  void* context = nullptr;
  unsigned long long memory = 0;
  return driver_function<int(unsigned)>("cuInit")(0) == 0 &&
         driver_function<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0) == 0 &&
         driver_function<int(void*)>("cuCtxSetCurrent")(context) == 0 &&
         driver_function<int(unsigned long long*, size_t)>("cuMemAlloc_v2")(&memory, bytes) == 0;
}

template <class Info>
void processes(const char* what, nvmlReturn_t (*ask)(nvmlDevice_t, unsigned*, Info*), nvmlDevice_t device) {
  unsigned count = 0;
  const nvmlReturn_t size = ask(device, &count, nullptr);
  std::vector<Info> infos(count + 4);
  count = static_cast<unsigned>(infos.size());
  const nvmlReturn_t result = ask(device, &count, infos.data());
  std::printf(" %s %d/%d:", what, size, result);
  for (unsigned i = 0; i < count; ++i)
    std::printf(" %s=%llu", infos[i].pid == static_cast<unsigned>(getpid()) ? "self" : "other",
                infos[i].usedGpuMemory / kMiB);
}

void list() {
  unsigned count = 99, older = 99;
  nvmlReturn_t result = nvmlDeviceGetCount_v2(&count);
  std::printf("GPUs: %u (%d), by the first version %u\n", count, result, (nvmlDeviceGetCount(&older), older));
  for (unsigned i = 0; result == NVML_SUCCESS && i <= count; ++i) {
    nvmlDevice_t device = nullptr, same = nullptr;
    const nvmlReturn_t found = nvmlDeviceGetHandleByIndex_v2(i, &device);
    if (nvmlDeviceGetHandleByIndex(i, &same) != found || same != device) std::printf("versions differ\n");
    if (found != NVML_SUCCESS) {
      std::printf("%u: %s\n", i, nvmlErrorString(found));
      continue;
    }
    char name[96] = "", uuid[96] = "";
    unsigned index = 99, minor = 99;
    nvmlPciInfo_t pci{};
    nvmlMemory_t memory{};
    nvmlMemory_v2_t memory2{};
    memory2.version = nvmlMemory_v2;
    nvmlDeviceGetName(device, name, sizeof name);
    nvmlDeviceGetUUID(device, uuid, sizeof uuid);
    nvmlDeviceGetIndex(device, &index);
    nvmlDeviceGetMinorNumber(device, &minor);
    nvmlDeviceGetPciInfo_v3(device, &pci);
    nvmlDeviceGetMemoryInfo(device, &memory);
    nvmlDeviceGetMemoryInfo_v2(device, &memory2);
    std::printf("%u: index %u minor %u %s %s %s total %llu used %llu free %llu", i, index, minor, name, uuid,
                pci.busIdLegacy, memory.total / kMiB, memory.used / kMiB, memory.free / kMiB);
    if (memory.total != memory2.total || memory.used != memory2.used || memory.free != memory2.free)
      std::printf(" or total %llu used %llu free %llu", memory2.total / kMiB, memory2.used / kMiB,
                  memory2.free / kMiB);
    processes("compute", nvmlDeviceGetComputeRunningProcesses_v3, device);
    processes("v2", nvmlDeviceGetComputeRunningProcesses_v2, device);
    processes("v1", nvmlDeviceGetComputeRunningProcesses, device);
    processes("graphics", nvmlDeviceGetGraphicsRunningProcesses_v3, device);
    processes("mps", nvmlDeviceGetMPSComputeRunningProcesses_v3, device);
    std::printf("\n");
  }
}

void say(nvmlReturn_t result, nvmlDevice_t device) {
  char name[96] = "";
  if (result == NVML_SUCCESS) nvmlDeviceGetName(device, name, sizeof name);
  std::printf("%s %s\n", nvmlErrorString(result), name);
}

template <class Ask>
void set(Ask ask) {
  unsigned count = 0;
  const nvmlReturn_t result = ask(&count, nullptr);
  std::vector<nvmlDevice_t> devices(count + 1);
  std::printf("%s %u:", nvmlErrorString(result), count);
  unsigned room = count;
  if (room != 0) ask(&room, devices.data());
  for (unsigned i = 0; i < room; ++i) {
    char name[96] = "";
    nvmlDeviceGetName(devices[i], name, sizeof name);
    std::printf(" %s", name);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  int at = 1;
  if (argc > 2 && std::strcmp(argv[1], "hold") == 0) {
    if (!hold(std::strtoull(argv[2], nullptr, 10) * kMiB)) std::printf("not held\n");
    at = 3;
  }
  unsigned before = 0;
  std::printf("before nvmlInit: %s\n", nvmlErrorString(nvmlDeviceGetCount_v2(&before)));
  nvmlDevice_t device = nullptr;
  std::printf("before nvmlInit: %s\n", nvmlErrorString(nvmlDeviceGetHandleByIndex_v2(0, &device)));
  if (const nvmlReturn_t result = nvmlInit_v2(); result != NVML_SUCCESS) {
    std::printf("nvmlInit: %s\n", nvmlErrorString(result));
    return 1;
  }
  const auto named = [&](nvmlReturn_t result) { say(result, device); };
  for (; at < argc; at += 2) {
    const std::string what = argv[at];
    const char* value = at + 1 < argc ? argv[at + 1] : "";
    const unsigned number = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
    if (what == "list") list(), --at;
    if (what == "index") named(nvmlDeviceGetHandleByIndex_v2(number, &device));
    if (what == "pci") {
      nvmlDevice_t same = nullptr;
      const nvmlReturn_t older = nvmlDeviceGetHandleByPciBusId(value, &same);
      const nvmlReturn_t result = nvmlDeviceGetHandleByPciBusId_v2(value, &device);
      named(result == older && (result != NVML_SUCCESS || same == device) ? result : NVML_ERROR_UNKNOWN);
    }
    if (what == "serial") named(nvmlDeviceGetHandleBySerial(value, &device));
    if (what == "uuid") {
      named(nvmlDeviceGetHandleByUUID(value, &device));
      nvmlUUID_t uuid{};
      uuid.version = nvmlUUID_v1;
      uuid.type = NVML_UUID_TYPE_ASCII;
      std::strncpy(uuid.value.str, value, sizeof uuid.value.str - 1);
      named(nvmlDeviceGetHandleByUUIDV(&uuid, &device));
    }
    if (what == "near") {
      nvmlDeviceGetHandleByIndex_v2(number, &device);
      set([&](unsigned* count, nvmlDevice_t* devices) {
        return nvmlDeviceGetTopologyNearestGpus(device, NVML_TOPOLOGY_SYSTEM, count, devices);
      });
    }
    if (what == "cpu") {
      set([&](unsigned* count, nvmlDevice_t* devices) {
        return nvmlSystemGetTopologyGpuSet(number, count, devices);
      });
    }
    if (what == "null") {
      std::printf("%d %d %d %d %d %d\n", nvmlDeviceGetCount_v2(nullptr),
                  nvmlDeviceGetHandleByIndex_v2(0, nullptr), nvmlDeviceGetHandleByUUID(nullptr, nullptr),
                  nvmlDeviceGetIndex(nullptr, nullptr), nvmlDeviceGetMemoryInfo(nullptr, nullptr),
                  nvmlDeviceGetComputeRunningProcesses_v3(nullptr, nullptr, nullptr));
      --at;
    }
    if (what == "wait") {
      std::printf("waiting\n");
      while (getchar() != EOF) continue;
      --at;
    }
  }
  nvmlShutdown();
  return 0;
}
