// A client of NVML that needs its header only. Functions are looked up by exported name; of those that came
// later, or that a simulated NVML may lack, the answer is simply missing.
#include "tools/gpufence/host.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <nvml.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <string_view>

namespace gpufence::command {
namespace {

constexpr unsigned kMostGpus = 1024;
constexpr unsigned kMostProcesses = 65536;
constexpr std::string_view kSimulatorSays = "gpufence: GPUFENCE_SIM: ";

template <typename Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

// The declarations of nvml.h under their plain names are macros for the newest version, so the exported name
// is given beside each.
struct Nvml {
  explicit Nvml(void* library)
      : init(find<decltype(::nvmlInit_v2)>(library, "nvmlInit_v2")),
        shutdown(find<decltype(::nvmlShutdown)>(library, "nvmlShutdown")),
        error_string(find<decltype(::nvmlErrorString)>(library, "nvmlErrorString")),
        driver_version(find<decltype(::nvmlSystemGetDriverVersion)>(library, "nvmlSystemGetDriverVersion")),
        count(find<decltype(::nvmlDeviceGetCount_v2)>(library, "nvmlDeviceGetCount_v2")),
        handle(find<decltype(::nvmlDeviceGetHandleByIndex_v2)>(library, "nvmlDeviceGetHandleByIndex_v2")),
        uuid(find<decltype(::nvmlDeviceGetUUID)>(library, "nvmlDeviceGetUUID")),
        name(find<decltype(::nvmlDeviceGetName)>(library, "nvmlDeviceGetName")),
        pci(find<decltype(::nvmlDeviceGetPciInfo_v3)>(library, "nvmlDeviceGetPciInfo_v3")),
        memory(find<decltype(::nvmlDeviceGetMemoryInfo)>(library, "nvmlDeviceGetMemoryInfo")),
        capability(find<decltype(::nvmlDeviceGetCudaComputeCapability)>(
            library, "nvmlDeviceGetCudaComputeCapability")),
        numa(find<decltype(::nvmlDeviceGetNumaNodeId)>(library, "nvmlDeviceGetNumaNodeId")),
        utilization(
            find<decltype(::nvmlDeviceGetUtilizationRates)>(library, "nvmlDeviceGetUtilizationRates")),
        processes(find<decltype(::nvmlDeviceGetComputeRunningProcesses_v3)>(
            library, "nvmlDeviceGetComputeRunningProcesses_v3")) {}

  [[nodiscard]] bool usable() const { return init && shutdown && count && handle && uuid && name && pci; }
  [[nodiscard]] std::string text(nvmlReturn_t status) const {
    const char* words = error_string != nullptr ? error_string(status) : nullptr;
    return words != nullptr ? words : "NVML error " + std::to_string(static_cast<int>(status));
  }

  decltype(::nvmlInit_v2)* init;
  decltype(::nvmlShutdown)* shutdown;
  decltype(::nvmlErrorString)* error_string;
  decltype(::nvmlSystemGetDriverVersion)* driver_version;
  decltype(::nvmlDeviceGetCount_v2)* count;
  decltype(::nvmlDeviceGetHandleByIndex_v2)* handle;
  decltype(::nvmlDeviceGetUUID)* uuid;
  decltype(::nvmlDeviceGetName)* name;
  decltype(::nvmlDeviceGetPciInfo_v3)* pci;
  decltype(::nvmlDeviceGetMemoryInfo)* memory;
  decltype(::nvmlDeviceGetCudaComputeCapability)* capability;
  decltype(::nvmlDeviceGetNumaNodeId)* numa;
  decltype(::nvmlDeviceGetUtilizationRates)* utilization;
  decltype(::nvmlDeviceGetComputeRunningProcesses_v3)* processes;
};

// Text of a fixed buffer, which need not be terminated; printable ASCII only, since it goes into an
// environment and onto a terminal.
template <std::size_t N>
std::string text_of(const std::array<char, N>& buffer) {
  std::string text(buffer.data(), ::strnlen(buffer.data(), N));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

bool is_uuid(const std::string& text) {
  return text.size() > 4 && text.compare(0, 4, "GPU-") == 0 &&
         text.find_first_not_of("0123456789abcdefABCDEF-", 4) == std::string::npos;
}

// The simulated NVML says on stderr what is wrong with a machine description. That is the error to report,
// but as our one line, so it is caught for as long as its initialisation takes.
class CaughtStderr {
 public:
  explicit CaughtStderr(bool catching) {
    if (!catching) return;
    memory_ = ::memfd_create("stderr", MFD_CLOEXEC);
    kept_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (memory_ >= 0 && kept_ >= 0) ::dup2(memory_, STDERR_FILENO);
  }
  CaughtStderr(const CaughtStderr&) = delete;
  CaughtStderr& operator=(const CaughtStderr&) = delete;
  ~CaughtStderr() { (void)text(); }

  // Puts stderr back; the first line that was caught.
  std::string text() {
    std::string line;
    if (memory_ >= 0 && kept_ >= 0) {
      ::dup2(kept_, STDERR_FILENO);
      std::array<char, 4096> buffer{};
      const ssize_t length = ::pread(memory_, buffer.data(), buffer.size(), 0);
      if (length > 0) line.assign(buffer.data(), static_cast<std::size_t>(length));
      line = line.substr(0, line.find('\n'));
    }
    if (memory_ >= 0) ::close(memory_);
    if (kept_ >= 0) ::close(kept_);
    memory_ = kept_ = -1;
    return line;
  }

 private:
  int memory_ = -1;
  int kept_ = -1;
};

int numa_from_sysfs(const std::string& pci) {
  std::ifstream file("/sys/bus/pci/devices/" + pci + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

void read_occupancy(const Nvml& nvml, nvmlDevice_t device, HostGpu& gpu) {
  nvmlUtilization_t utilization{};
  if (nvml.utilization != nullptr && nvml.utilization(device, &utilization) == NVML_SUCCESS)
    gpu.utilization = std::min(utilization.gpu, 100u);
  if (nvml.processes == nullptr) return;
  // The list may grow between the two calls; a few spare places, and once more, are enough in practice.
  std::vector<nvmlProcessInfo_t> processes(64);
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto count = static_cast<unsigned>(processes.size());
    const nvmlReturn_t status = nvml.processes(device, &count, processes.data());
    if (status == NVML_ERROR_INSUFFICIENT_SIZE && count <= kMostProcesses) {
      processes.resize(count + 16);
      continue;
    }
    if (status != NVML_SUCCESS || count > processes.size()) return;
    for (unsigned i = 0; i < count; ++i) {
      Holder holder{.pid = processes[i].pid, .bytes = std::nullopt};
      // NVML_VALUE_NOT_AVAILABLE is all ones.
      if (processes[i].usedGpuMemory != ~0ULL) holder.bytes = processes[i].usedGpuMemory;
      gpu.holders.push_back(holder);
    }
    return;
  }
}

// Why this GPU can't be used; empty if it can.
std::string read_gpu(const Nvml& nvml, unsigned index, bool simulated, Detail detail, HostGpu& gpu) {
  nvmlDevice_t device{};
  if (const auto status = nvml.handle(index, &device); status != NVML_SUCCESS) return nvml.text(status);

  std::array<char, NVML_DEVICE_UUID_V2_BUFFER_SIZE> uuid{};
  if (const auto status = nvml.uuid(device, uuid.data(), uuid.size()); status != NVML_SUCCESS)
    return nvml.text(status);
  std::array<char, NVML_DEVICE_NAME_V2_BUFFER_SIZE> name{};
  if (const auto status = nvml.name(device, name.data(), name.size()); status != NVML_SUCCESS)
    return nvml.text(status);
  nvmlPciInfo_t pci{};
  if (const auto status = nvml.pci(device, &pci); status != NVML_SUCCESS) return nvml.text(status);
  gpu.gpu.uuid = text_of(uuid);
  gpu.gpu.name = text_of(name);
  std::array<char, 32> address{};
  std::snprintf(address.data(), address.size(), "%04x:%02x:%02x.0", pci.domain, pci.bus & 0xff,
                pci.device & 0xff);
  gpu.gpu.pci = text_of(address);

  // Cards that share the host's memory have no total of their own.
  nvmlMemory_t memory{};
  if (nvml.memory != nullptr && nvml.memory(device, &memory) == NVML_SUCCESS) {
    gpu.gpu.memory = memory.total;
    gpu.used = std::min(memory.used, memory.total);
    gpu.free = std::min(memory.free, memory.total);
  }
  if (nvml.capability != nullptr) nvml.capability(device, &gpu.gpu.cc_major, &gpu.gpu.cc_minor);
  unsigned node = 0;
  if (nvml.numa != nullptr && nvml.numa(device, &node) == NVML_SUCCESS && node < 65536)
    gpu.gpu.numa = static_cast<int>(node);
  else if (!simulated)
    gpu.gpu.numa = numa_from_sysfs(gpu.gpu.pci);
  if (detail == Detail::occupancy) read_occupancy(nvml, device, gpu);
  return {};
}

}  // namespace

std::vector<policies::Gpu> Host::identities() const {
  std::vector<policies::Gpu> result;
  for (const HostGpu& gpu : gpus) result.push_back(gpu.gpu);
  return result;
}

tl::expected<Host, NoHost> read_host(const NvmlSource& source, Detail detail) {
  const auto none = [](NoHost::Kind kind, std::string why, std::string remedy) {
    return tl::unexpected(NoHost{kind, std::move(why), std::move(remedy)});
  };
  const std::string install = source.simulated ? "install gpufence again"
                                               : "install NVIDIA's driver, or try --sim 4 for simulated GPUs";
  CaughtStderr caught(source.simulated);
  // Never closed: NVML keeps threads and descriptors of its own, and this process is about to become another.
  void* library = ::dlopen(source.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return none(
        NoHost::Kind::no_driver,
        "no NVIDIA driver is there (" + std::string(reason != nullptr ? reason : source.library) + ")",
        install);
  }
  const Nvml nvml(library);
  if (!nvml.usable())
    return none(NoHost::Kind::malformed, source.library + " lacks functions of NVML",
                "look whether another library of that name is in the way");

  const auto started = nvml.init();
  unsigned count = 0;
  const auto counted = started == NVML_SUCCESS ? nvml.count(&count) : started;
  if (std::string said = caught.text(); said.compare(0, kSimulatorSays.size(), kSimulatorSays) == 0) {
    said.erase(0, kSimulatorSays.size());
    const std::size_t remedy = said.rfind("; ");
    return none(NoHost::Kind::malformed, said.substr(0, remedy),
                remedy == std::string::npos ? "" : said.substr(remedy + 2));
  }
  if (started != NVML_SUCCESS)
    return none(NoHost::Kind::no_driver, "NVIDIA's driver doesn't answer (NVML: " + nvml.text(started) + ")",
                "look at nvidia-smi and the kernel's log");
  struct Shutdown {
    const Nvml& nvml;
    ~Shutdown() { nvml.shutdown(); }
  } shutdown{nvml};

  if (counted != NVML_SUCCESS)
    return none(NoHost::Kind::no_driver,
                "NVML doesn't tell how many GPUs there are (" + nvml.text(counted) + ")",
                "look at nvidia-smi");
  if (count > kMostGpus)
    return none(NoHost::Kind::malformed, "NVML tells of " + std::to_string(count) + " GPUs, which can't be",
                "look at nvidia-smi -L");

  Host host;
  std::set<std::string> uuids;
  for (unsigned index = 0; index < count; ++index) {
    HostGpu gpu;
    gpu.gpu.host_index = static_cast<int>(index);
    gpu.unreadable = read_gpu(nvml, index, source.simulated, detail, gpu);
    if (!gpu.unreadable.empty()) {
      // One lost card must not hide the others, but nothing half-read may be used either.
      gpu.gpu = {};
      gpu.gpu.host_index = static_cast<int>(index);
    } else if (!is_uuid(gpu.gpu.uuid)) {
      return none(
          NoHost::Kind::malformed,
          "NVML gives GPU " + std::to_string(index) + " the UUID '" + gpu.gpu.uuid + "', which is none",
          "look at nvidia-smi -L");
    } else if (!uuids.insert(gpu.gpu.uuid).second) {
      return none(NoHost::Kind::malformed, "NVML gives two GPUs the UUID " + gpu.gpu.uuid,
                  "look at nvidia-smi -L");
    }
    host.gpus.push_back(std::move(gpu));
  }
  std::array<char, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE> driver{};
  if (nvml.driver_version != nullptr && nvml.driver_version(driver.data(), driver.size()) == NVML_SUCCESS)
    host.driver = text_of(driver);
  return host;
}

}  // namespace gpufence::command
