// The NVML chapter. NVML counts the host's GPUs and knows neither masks nor caps; these hooks make what it
// says agree with what the process may have. Numbering host: every GPU keeps its index, and a capped one
// tells the cap as its total and what counts against it as its use. Numbering view: the view's GPUs alone, in
// its order, with true names, UUIDs, PCI ids and minor numbers, and nothing can be set. Nothing of NVML's is
// kept here, since handles may change when it is shut down and initialised again; whatever has no answer in a
// view or cap is NVML's own. What the processes of a cap's scope hold stands in its books, where a program
// reads it that never initialised CUDA (nvidia-smi).
#include "abi/nvml_names.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "hooks/scopes.h"
#include "policies/tell.h"

namespace gpufence::hooks {
namespace {

using dispatch::kCap;
using dispatch::kView;

NVML_USES(nvmlDeviceGetUUID);
NVML_USES(nvmlDeviceIsMigDeviceHandle);
NVML_USES(nvmlDeviceGetDeviceHandleFromMigDeviceHandle);
NVML_USES(nvmlDeviceGetMaxMigDeviceCount);

// An NVML that is not linked -Bsymbolic would call its own functions through us: what it asks itself is not
// the program's question.
constinit thread_local bool asking = false;

// A hook's answer: NVML's own when it is NVML that asks, or when there is no memory for another one.
template <class Own, class Answer>
nvmlReturn_t answered(Own own, Answer answer) noexcept {
  if (asking) return own();
  asking = true;
  nvmlReturn_t result = NVML_ERROR_MEMORY;
  try {
    result = answer();
  } catch (...) {
  }
  asking = false;
  return result;
}

// Empty where NVML does not tell.
std::string uuid_of(nvmlDevice_t device) {
  char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
  if (real<&::nvmlDeviceGetUUID>(device, text, static_cast<unsigned>(sizeof text)) != NVML_SUCCESS) return {};
  return text;
}

// ---- The view

const std::vector<std::string>& view() {
  return *rules().view;
}
bool in_view(const std::string& uuid) {
  return std::find(view().begin(), view().end(), uuid) != view().end();
}

bool is_mig(nvmlDevice_t device) {
  unsigned mig = 0;
  return real<&::nvmlDeviceIsMigDeviceHandle>(device, &mig) == NVML_SUCCESS && mig != 0;
}
nvmlDevice_t card_of(nvmlDevice_t device) {
  nvmlDevice_t card = nullptr;
  if (!is_mig(device)) return device;
  return real<&::nvmlDeviceGetDeviceHandleFromMigDeviceHandle>(device, &card) == NVML_SUCCESS ? card : device;
}

// By the host's index first: a look-up by UUID goes through all GPUs, and may fail because one is lost that
// is none of ours.
nvmlReturn_t find(const std::string& uuid, nvmlDevice_t* device) {
  const std::vector<std::string>& host = rules().host_gpus;
  const auto at = std::find(host.begin(), host.end(), uuid);
  if (at != host.end()) {
    const auto index = static_cast<unsigned>(at - host.begin());
    if (real<&::nvmlDeviceGetHandleByIndex_v2>(index, device) == NVML_SUCCESS && uuid_of(*device) == uuid)
      return NVML_SUCCESS;
  }
  return real<&::nvmlDeviceGetHandleByUUID>(uuid.c_str(), device);
}

// One GPU as the view shows it, or why NVML does not give it.
struct Shown {
  nvmlReturn_t result = NVML_SUCCESS;
  nvmlDevice_t device = nullptr;
};

// In the view's order. NVML counts cards: the slices of one card are one.
std::vector<Shown> shown() {
  std::vector<Shown> out;
  for (const std::string& uuid : view()) {
    Shown gpu;
    gpu.result = find(uuid, &gpu.device);
    if (gpu.result == NVML_SUCCESS) {
      gpu.device = card_of(gpu.device);
      const auto same = [&](const Shown& other) { return other.device == gpu.device; };
      if (std::any_of(out.begin(), out.end(), same)) continue;
    }
    out.push_back(gpu);
  }
  return out;
}

// A slice of a card that is in the view as a whole is shown too.
bool shows(nvmlDevice_t device) {
  if (in_view(uuid_of(device))) return true;
  const nvmlDevice_t card = card_of(device);
  if (card != device) return in_view(uuid_of(card));
  const std::vector<Shown> gpus = shown();
  return std::any_of(gpus.begin(), gpus.end(), [&](const Shown& gpu) { return gpu.device == device; });
}

template <class Ask>
nvmlReturn_t count_shown(unsigned* count, Ask ask) noexcept {
  return answered([&] { return ask(count); },
                  [&] {
                    const nvmlReturn_t result = ask(count);
                    if (result == NVML_SUCCESS) *count = static_cast<unsigned>(shown().size());
                    return result;
                  });
}

template <class Ask>
nvmlReturn_t handle_at(unsigned index, nvmlDevice_t* device, Ask ask) noexcept {
  const auto own = [&] { return ask(index, device); };
  return answered(own, [&] {
    if (device == nullptr) return own();
    const std::vector<Shown> gpus = shown();
    // No such index: in NVML's own words, which knows whether it is initialised at all.
    if (index >= gpus.size()) return ask(UINT_MAX, device);
    if (gpus[index].result == NVML_SUCCESS) *device = gpus[index].device;
    return gpus[index].result;
  });
}

// By UUID, PCI id or serial number: `ask` is NVML's look-up.
template <class Ask>
nvmlReturn_t handle_by(nvmlDevice_t* device, Ask ask) noexcept {
  const auto own = [&] { return ask(device); };
  return answered(own, [&] {
    if (device == nullptr) return own();
    nvmlDevice_t found = nullptr;
    const nvmlReturn_t result = ask(&found);
    if (result != NVML_SUCCESS) return result;
    if (!shows(found)) return NVML_ERROR_NOT_FOUND;
    *device = found;
    return result;
  });
}

// The slices of a card that the view shows, in NVML's order.
std::vector<nvmlDevice_t> slices_shown(nvmlDevice_t card) {
  std::vector<nvmlDevice_t> out;
  unsigned most = 0;
  if (real<&::nvmlDeviceGetMaxMigDeviceCount>(card, &most) != NVML_SUCCESS) return out;
  for (unsigned i = 0; i < most; ++i) {
    nvmlDevice_t slice = nullptr;
    if (real<&::nvmlDeviceGetMigDeviceHandleByIndex>(card, i, &slice) == NVML_SUCCESS && shows(slice))
      out.push_back(slice);
  }
  return out;
}

nvmlReturn_t index_in_view(nvmlDevice_t device, unsigned* index) {
  const nvmlReturn_t result = real<&::nvmlDeviceGetIndex>(device, index);
  if (result != NVML_SUCCESS) return result;
  const nvmlDevice_t card = card_of(device);
  std::vector<nvmlDevice_t> numbered;
  if (card != device) {
    numbered = slices_shown(card);
  } else {
    for (const Shown& gpu : shown()) numbered.push_back(gpu.device);
  }
  const auto at = std::find(numbered.begin(), numbered.end(), device);
  if (at == numbered.end()) return NVML_ERROR_INVALID_ARGUMENT;
  *index = static_cast<unsigned>(at - numbered.begin());
  return NVML_SUCCESS;
}

// Sets of GPUs: NVML gives the size for a count of 0, else fills as much as there is room for.
template <class Ask>
nvmlReturn_t set_shown(unsigned* count, nvmlDevice_t* devices, Ask ask) noexcept {
  const auto own = [&] { return ask(count, devices); };
  return answered(own, [&] {
    if (count == nullptr || (devices == nullptr && *count != 0)) return own();
    unsigned all = 0;
    nvmlReturn_t result = ask(&all, nullptr);
    std::vector<nvmlDevice_t> set(all);
    if (result == NVML_SUCCESS && all != 0) result = ask(&all, set.data());
    if (result != NVML_SUCCESS) return result;
    set.resize(std::min<std::size_t>(all, set.size()));
    std::erase_if(set, [](nvmlDevice_t device) { return !shows(device); });
    if (*count != 0) {
      set.resize(std::min<std::size_t>(*count, set.size()));
      std::copy(set.begin(), set.end(), devices);
    }
    *count = static_cast<unsigned>(set.size());
    return NVML_SUCCESS;
  });
}

// ---- Caps

// None: this GPU has no cap, or it is none of the view's. A share is of CUDA's total where CUDA is
// initialised, so that the two agree; NVML's counts what the driver keeps for itself.
std::optional<Outside> scope_on(nvmlDevice_t device, std::uint64_t card_total) {
  const std::string uuid = uuid_of(device);
  if (uuid.empty()) return std::nullopt;
  const Rules& to = rules();
  const Visible* seen = visible();
  const observe::Device* known = nullptr;
  if (seen != nullptr)
    for (const observe::Device& one : seen->devices)
      if (one.uuid == uuid) known = &one;
  if (known == nullptr && to.view && !in_view(uuid)) return std::nullopt;
  Outside scope = from_outside(to, uuid, known != nullptr ? known->ordinal : -1,
                               known != nullptr ? known->total : card_total);
  if (scope.cap == UINT64_MAX) return std::nullopt;
  if (known != nullptr) {
    const Standing standing = standing_on(*seen, static_cast<std::uint32_t>(known->ordinal));
    scope.held = standing.held;
    scope.left = standing.left;
  }
  // Where CUDA is not initialised, what NVML says of this process is all there is.
  if (scope.own) scope.processes[::getpid()] = seen != nullptr ? scope.held : UINT64_MAX;
  return scope;
}

policies::Memory told(const policies::Memory& card, const Outside& scope) {
  return policies::tell(card, scope.cap, scope.held, scope.left);
}

// Of a capped GPU the processes of the cap's scope are listed, with what they hold.
template <class Info, class Ask>
nvmlReturn_t own_processes(nvmlDevice_t device, unsigned* count, Info* infos, Ask ask) noexcept {
  const auto own = [&] { return ask(count, infos); };
  return answered(own, [&] {
    if (count == nullptr || (infos == nullptr && *count != 0)) return own();
    nvmlMemory_t card{};
    if (real<&::nvmlDeviceGetMemoryInfo>(device, &card) != NVML_SUCCESS) return own();
    const std::optional<Outside> scope = scope_on(device, card.total);
    if (!scope) return own();
    std::vector<Info> all;
    unsigned size = 0;
    nvmlReturn_t result = ask(&size, nullptr);
    // Processes come and go between the two calls.
    for (int tries = 0; result == NVML_ERROR_INSUFFICIENT_SIZE && tries < 8; ++tries) {
      size = 2 * size + 8;
      all.assign(size, Info{});
      result = ask(&size, all.data());
    }
    if (result == NVML_ERROR_INSUFFICIENT_SIZE) *count = size;
    if (result != NVML_SUCCESS) return result;
    all.resize(std::min<std::size_t>(size, all.size()));
    std::erase_if(all,
                  [&](const Info& info) { return !scope->processes.contains(static_cast<int>(info.pid)); });
    const unsigned room = std::exchange(*count, static_cast<unsigned>(all.size()));
    if (all.size() > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (Info& info : all) {
      if (info.usedGpuMemory == static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE)) continue;
      const std::uint64_t held = scope->processes.at(static_cast<int>(info.pid));
      info.usedGpuMemory = std::min<std::uint64_t>(held != UINT64_MAX ? held : info.usedGpuMemory,
                                                   std::min<std::uint64_t>(scope->cap, card.total));
    }
    std::copy(all.begin(), all.end(), infos);
    return NVML_SUCCESS;
  });
}

// Samples of the GPU's work by process, filtered where they lie. NVML says NOT_FOUND where there is none.
template <class Sample>
nvmlReturn_t own_samples(nvmlDevice_t device, nvmlReturn_t result, unsigned* count, Sample* samples) {
  if (result != NVML_SUCCESS || count == nullptr || samples == nullptr) return result;
  const auto scope = scope_on(device, 0);
  if (!scope) return result;
  const auto foreign = [&](const Sample& sample) {
    return !scope->processes.contains(static_cast<int>(sample.pid));
  };
  *count = static_cast<unsigned>(std::remove_if(samples, samples + *count, foreign) - samples);
  return *count != 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

}  // namespace

// ---- Which GPUs there are

NVML_HOOK(nvmlDeviceGetCount_v2, kView, (unsigned* count)) {
  return count_shown(count, [](unsigned* out) { return real<&::nvmlDeviceGetCount_v2>(out); });
}
NVML_HOOK(nvmlDeviceGetCount, kView, (unsigned* count)) {
  return count_shown(count, [](unsigned* out) { return real<&::nvmlDeviceGetCount>(out); });
}
NVML_HOOK(nvmlDeviceGetHandleByIndex_v2, kView, (unsigned index, nvmlDevice_t* device)) {
  return handle_at(index, device, [](unsigned at, nvmlDevice_t* out) {
    return real<&::nvmlDeviceGetHandleByIndex_v2>(at, out);
  });
}
NVML_HOOK(nvmlDeviceGetHandleByIndex, kView, (unsigned index, nvmlDevice_t* device)) {
  return handle_at(index, device, [](unsigned at, nvmlDevice_t* out) {
    return real<&::nvmlDeviceGetHandleByIndex>(at, out);
  });
}
NVML_HOOK(nvmlDeviceGetHandleByUUID, kView, (const char* uuid, nvmlDevice_t* device)) {
  return handle_by(device, [&](nvmlDevice_t* out) { return real<&::nvmlDeviceGetHandleByUUID>(uuid, out); });
}
NVML_HOOK(nvmlDeviceGetHandleByUUIDV, kView, (const nvmlUUID_t* uuid, nvmlDevice_t* device)) {
  return handle_by(device, [&](nvmlDevice_t* out) { return real<&::nvmlDeviceGetHandleByUUIDV>(uuid, out); });
}
NVML_HOOK(nvmlDeviceGetHandleByPciBusId_v2, kView, (const char* id, nvmlDevice_t* device)) {
  return handle_by(device,
                   [&](nvmlDevice_t* out) { return real<&::nvmlDeviceGetHandleByPciBusId_v2>(id, out); });
}
NVML_HOOK(nvmlDeviceGetHandleByPciBusId, kView, (const char* id, nvmlDevice_t* device)) {
  return handle_by(device,
                   [&](nvmlDevice_t* out) { return real<&::nvmlDeviceGetHandleByPciBusId>(id, out); });
}
NVML_HOOK(nvmlDeviceGetHandleBySerial, kView, (const char* serial, nvmlDevice_t* device)) {
  return handle_by(device,
                   [&](nvmlDevice_t* out) { return real<&::nvmlDeviceGetHandleBySerial>(serial, out); });
}
NVML_HOOK(nvmlDeviceGetIndex, kView, (nvmlDevice_t device, unsigned* index)) {
  return answered([&] { return real<&::nvmlDeviceGetIndex>(device, index); },
                  [&] { return index_in_view(device, index); });
}

// A card that is in the view as a whole shows all its slices, under NVML's own numbers.
NVML_HOOK(nvmlDeviceGetMigDeviceHandleByIndex, kView,
          (nvmlDevice_t device, unsigned index, nvmlDevice_t* slice)) {
  const auto own = [&] { return real<&::nvmlDeviceGetMigDeviceHandleByIndex>(device, index, slice); };
  return answered(own, [&] {
    if (slice == nullptr || in_view(uuid_of(device))) return own();
    const std::vector<nvmlDevice_t> slices = slices_shown(device);
    if (index >= slices.size()) return NVML_ERROR_NOT_FOUND;
    *slice = slices[index];
    return NVML_SUCCESS;
  });
}

NVML_HOOK(nvmlDeviceGetTopologyNearestGpus, kView,
          (nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned* count, nvmlDevice_t* devices)) {
  return set_shown(count, devices, [&](unsigned* size, nvmlDevice_t* out) {
    return real<&::nvmlDeviceGetTopologyNearestGpus>(device, level, size, out);
  });
}
NVML_HOOK(nvmlSystemGetTopologyGpuSet, kView, (unsigned cpu, unsigned* count, nvmlDevice_t* devices)) {
  return set_shown(count, devices, [&](unsigned* size, nvmlDevice_t* out) {
    return real<&::nvmlSystemGetTopologyGpuSet>(cpu, size, out);
  });
}
// S-class boxes of 2010, the one other call that hands out GPUs; unlike the two above it has no query for 0.
NVML_HOOK(nvmlUnitGetDevices, kView, (nvmlUnit_t unit, unsigned* count, nvmlDevice_t* devices)) {
  const auto own = [&] { return real<&::nvmlUnitGetDevices>(unit, count, devices); };
  return answered(own, [&] {
    const nvmlReturn_t result = own();
    if (result != NVML_SUCCESS) return result;
    const auto hidden = [](nvmlDevice_t device) { return !shows(device); };
    *count = static_cast<unsigned>(std::remove_if(devices, devices + *count, hidden) - devices);
    return result;
  });
}
// GPUs that the kernel driver was told to leave out.
NVML_HOOK(nvmlGetExcludedDeviceCount, kView, (unsigned* count)) {
  const nvmlReturn_t result = real<&::nvmlGetExcludedDeviceCount>(count);
  if (result == NVML_SUCCESS) *count = 0;
  return result;
}
NVML_HOOK(nvmlGetExcludedDeviceInfoByIndex, kView, (unsigned, nvmlExcludedDeviceInfo_t* info)) {
  return real<&::nvmlGetExcludedDeviceInfoByIndex>(UINT_MAX, info);
}

// ---- Memory and processes

NVML_HOOK(nvmlDeviceGetMemoryInfo, kCap, (nvmlDevice_t device, nvmlMemory_t* memory)) {
  const auto own = [&] { return real<&::nvmlDeviceGetMemoryInfo>(device, memory); };
  return answered(own, [&] {
    const nvmlReturn_t result = own();
    const auto scope = result == NVML_SUCCESS ? scope_on(device, memory->total) : std::nullopt;
    if (!scope) return result;
    const policies::Memory now = told({memory->total, memory->used, memory->free}, *scope);
    *memory = {now.total, now.free, now.used};
    return result;
  });
}
// `reserved` is the driver's own, which no cap counts: it is told as far as it finds room beside the rest.
NVML_HOOK(nvmlDeviceGetMemoryInfo_v2, kCap, (nvmlDevice_t device, nvmlMemory_v2_t* memory)) {
  const auto own = [&] { return real<&::nvmlDeviceGetMemoryInfo_v2>(device, memory); };
  return answered(own, [&] {
    const nvmlReturn_t result = own();
    const auto scope = result == NVML_SUCCESS ? scope_on(device, memory->total) : std::nullopt;
    if (!scope) return result;
    const policies::Memory now = told({memory->total, memory->used, memory->free}, *scope);
    const auto reserved = std::min<unsigned long long>(memory->reserved, now.total - now.used - now.free);
    *memory = {memory->version, now.total, reserved, now.free, now.used};
    return result;
  });
}

#define PROCESSES_HOOK(function, Info)                                                                     \
  NVML_HOOK(function, kCap, (nvmlDevice_t device, unsigned* count, Info* infos)) {                         \
    return own_processes(device, count, infos,                                                             \
                         [&](unsigned* size, Info* out) { return real<&::function>(device, size, out); }); \
  }
PROCESSES_HOOK(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
PROCESSES_HOOK(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
PROCESSES_HOOK(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
PROCESSES_HOOK(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
PROCESSES_HOOK(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
PROCESSES_HOOK(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
PROCESSES_HOOK(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
PROCESSES_HOOK(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
PROCESSES_HOOK(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

NVML_HOOK(nvmlDeviceGetRunningProcessDetailList, kCap, (nvmlDevice_t device, nvmlProcessDetailList_t* list)) {
  if (list == nullptr || list->version != nvmlProcessDetailList_v1)
    return real<&::nvmlDeviceGetRunningProcessDetailList>(device, list);
  return own_processes(
      device, &list->numProcArrayEntries, list->procArray, [&](unsigned* size, nvmlProcessDetail_v1_t* out) {
        nvmlProcessDetailList_t all = *list;
        all.numProcArrayEntries = *size;
        all.procArray = out;
        const nvmlReturn_t result = real<&::nvmlDeviceGetRunningProcessDetailList>(device, &all);
        *size = all.numProcArrayEntries;
        return result;
      });
}
NVML_HOOK(nvmlDeviceGetProcessUtilization, kCap,
          (nvmlDevice_t device, nvmlProcessUtilizationSample_t* samples, unsigned* count,
           unsigned long long since)) {
  const auto own = [&] { return real<&::nvmlDeviceGetProcessUtilization>(device, samples, count, since); };
  return answered(own, [&] { return own_samples(device, own(), count, samples); });
}
NVML_HOOK(nvmlDeviceGetProcessesUtilizationInfo, kCap,
          (nvmlDevice_t device, nvmlProcessesUtilizationInfo_t* info)) {
  const auto own = [&] { return real<&::nvmlDeviceGetProcessesUtilizationInfo>(device, info); };
  return answered(own, [&] {
    const nvmlReturn_t result = own();
    if (result != NVML_SUCCESS || info->version != nvmlProcessesUtilizationInfo_v1) return result;
    return own_samples(device, result, &info->processSamplesCount, info->procUtilArray);
  });
}

// ---- What changes a GPU, the machine or a slice: in numbering view none of it is the program's to change

namespace {

template <class Function>
struct NoPermission;
template <class... Arguments>
struct NoPermission<nvmlReturn_t (*)(Arguments...)> {
  static nvmlReturn_t answer(Arguments...) noexcept { return NVML_ERROR_NO_PERMISSION; }
};
template <auto Function>
constexpr auto no_permission = &NoPermission<decltype(Function)>::answer;

}  // namespace

#define NO_PERMISSION(function) NVML_HOOK_BY(function, kView, no_permission)
NO_PERMISSION(nvmlComputeInstanceDestroy);
NO_PERMISSION(nvmlDeviceClearAccountingPids);
NO_PERMISSION(nvmlDeviceClearCpuAffinity);
NO_PERMISSION(nvmlDeviceClearEccErrorCounts);
NO_PERMISSION(nvmlDeviceClearFieldValues);
NO_PERMISSION(nvmlDeviceCreateGpuInstance);
NO_PERMISSION(nvmlDeviceCreateGpuInstanceWithPlacement);
NO_PERMISSION(nvmlDeviceDiscoverGpus);
NO_PERMISSION(nvmlDeviceFreezeNvLinkUtilizationCounter);
NO_PERMISSION(nvmlDeviceModifyDrainState);
NO_PERMISSION(nvmlDevicePowerSmoothingActivatePresetProfile);
NO_PERMISSION(nvmlDevicePowerSmoothingSetState);
NO_PERMISSION(nvmlDevicePowerSmoothingUpdatePresetProfileParam);
NO_PERMISSION(nvmlDeviceReadWritePRM_v1);
NO_PERMISSION(nvmlDeviceRemoveGpu);
NO_PERMISSION(nvmlDeviceRemoveGpu_v2);
NO_PERMISSION(nvmlDeviceResetApplicationsClocks);
NO_PERMISSION(nvmlDeviceResetGpuLockedClocks);
NO_PERMISSION(nvmlDeviceResetMemoryLockedClocks);
NO_PERMISSION(nvmlDeviceResetNvLinkErrorCounters);
NO_PERMISSION(nvmlDeviceResetNvLinkUtilizationCounter);
NO_PERMISSION(nvmlDeviceSetAPIRestriction);
NO_PERMISSION(nvmlDeviceSetAccountingMode);
NO_PERMISSION(nvmlDeviceSetApplicationsClocks);
NO_PERMISSION(nvmlDeviceSetAutoBoostedClocksEnabled);
NO_PERMISSION(nvmlDeviceSetClockOffsets);
NO_PERMISSION(nvmlDeviceSetComputeMode);
NO_PERMISSION(nvmlDeviceSetConfComputeUnprotectedMemSize);
NO_PERMISSION(nvmlDeviceSetCpuAffinity);
NO_PERMISSION(nvmlDeviceSetDefaultAutoBoostedClocksEnabled);
NO_PERMISSION(nvmlDeviceSetDefaultFanSpeed_v2);
NO_PERMISSION(nvmlDeviceSetDramEncryptionMode);
NO_PERMISSION(nvmlDeviceSetDriverModel);
NO_PERMISSION(nvmlDeviceSetEccMode);
NO_PERMISSION(nvmlDeviceSetFanControlPolicy);
NO_PERMISSION(nvmlDeviceSetFanSpeed_v2);
NO_PERMISSION(nvmlDeviceSetGpcClkVfOffset);
NO_PERMISSION(nvmlDeviceSetGpuLockedClocks);
NO_PERMISSION(nvmlDeviceSetGpuOperationMode);
NO_PERMISSION(nvmlDeviceSetHostname_v1);
NO_PERMISSION(nvmlDeviceSetMemClkVfOffset);
NO_PERMISSION(nvmlDeviceSetMemoryLockedClocks);
NO_PERMISSION(nvmlDeviceSetMigMode);
NO_PERMISSION(nvmlDeviceSetNvLinkDeviceLowPowerThreshold);
NO_PERMISSION(nvmlDeviceSetNvLinkUtilizationControl);
NO_PERMISSION(nvmlDeviceSetNvlinkBwMode);
NO_PERMISSION(nvmlDeviceSetPersistenceMode);
NO_PERMISSION(nvmlDeviceSetPowerManagementLimit);
NO_PERMISSION(nvmlDeviceSetPowerManagementLimit_v2);
NO_PERMISSION(nvmlDeviceSetPowerMizerMode_v1);
NO_PERMISSION(nvmlDeviceSetTemperatureThreshold);
NO_PERMISSION(nvmlDeviceSetVgpuCapabilities);
NO_PERMISSION(nvmlDeviceSetVgpuHeterogeneousMode);
NO_PERMISSION(nvmlDeviceSetVgpuSchedulerState);
NO_PERMISSION(nvmlDeviceSetVirtualizationMode);
NO_PERMISSION(nvmlDeviceWorkloadPowerProfileClearRequestedProfiles);
NO_PERMISSION(nvmlDeviceWorkloadPowerProfileSetRequestedProfiles);
NO_PERMISSION(nvmlGpmSetStreamingEnabled);
NO_PERMISSION(nvmlGpuInstanceCreateComputeInstance);
NO_PERMISSION(nvmlGpuInstanceCreateComputeInstanceWithPlacement);
NO_PERMISSION(nvmlGpuInstanceDestroy);
NO_PERMISSION(nvmlGpuInstanceSetVgpuHeterogeneousMode);
NO_PERMISSION(nvmlGpuInstanceSetVgpuSchedulerState);
NO_PERMISSION(nvmlSetVgpuVersion);
NO_PERMISSION(nvmlSystemSetConfComputeGpusReadyState);
NO_PERMISSION(nvmlSystemSetConfComputeKeyRotationThresholdInfo);
NO_PERMISSION(nvmlSystemSetNvlinkBwMode);
NO_PERMISSION(nvmlUnitSetLedState);
NO_PERMISSION(nvmlVgpuInstanceClearAccountingPids);
NO_PERMISSION(nvmlVgpuInstanceSetEncoderCapacity);

}  // namespace gpufence::hooks
