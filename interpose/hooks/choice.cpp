// See choice.h. A program may well leave one thread on CUDA 0 without a word while others choose GPUs of
// their own; so nothing is said of a GPU that any thread chose or works on.
#include "hooks/choice.h"

#include <dlfcn.h>
#include <nvml.h>
#include <unistd.h>
#include <type_traits>

#include <array>
#include <bit>
#include <cstring>

#include "dispatch/dispatch.h"
#include "observe/process.h"

namespace gpufence::hooks {
namespace {

constexpr int kMostDevices = 64;  // CUDA itself knows no more in one process

struct ThisThread {
  int device = -1;               // where it chose to work, or came to
  bool settled = false;          // it chose, or it was looked at
  bool context_is_said = false;  // the context that it makes current next is a finding already
};
constinit thread_local ThisThread this_thread{};

constinit std::atomic<std::uint64_t> chosen{0};         // ordinals that a thread chose
constinit std::atomic<int> threads_at[kMostDevices]{};  // threads that work there and are no finding

// The first context, where it was made before anyone chose. Leaked: exit handlers read it.
struct Early {
  int device;
  observe::Call call;
  Thread thread;
};
constinit std::atomic<const Early*> early{nullptr};
constinit std::atomic<std::uint64_t> worked{0};       // other ordinals where something was done since
constinit std::atomic<std::uint64_t> early_bytes{0};  // what this process held there then; 0: not known

bool known(int device) noexcept {
  return device >= 0 && device < kMostDevices;
}

void settle_at(int device) noexcept {
  if (known(this_thread.device)) threads_at[this_thread.device].fetch_sub(1, std::memory_order_relaxed);
  this_thread.device = device;
  this_thread.settled = true;
  threads_at[device].fetch_add(1, std::memory_order_relaxed);
}

// The call that this thread is in comes from a runtime that shows its calls, and is none that chooses.
bool by_default(const void* caller) noexcept {
  if (observe::in_runtime_call()) return !observe::outermost.chooses;
  return observe::object_text(caller).starts_with("libcudart.so");
}

// The GPU that the process works on instead; -1 if `device` is as good as any.
int elsewhere(int device) noexcept {
  const std::uint64_t others = chosen.load(std::memory_order_relaxed);
  if (others == 0 || (others >> device & 1) != 0 || threads_at[device].load(std::memory_order_relaxed) > 0)
    return -1;
  return std::countr_zero(others);
}

std::string chosen_text(const Visible& seen, int device) {
  const Visible::Chosen& by = seen.chosen[static_cast<std::size_t>(device)];
  const char* api = by.api.load();
  if (api == nullptr) return {};
  std::string text = ", chosen by " + observe::text({api, by.caller.load()});
  // CUDA tells nobody who made a thread, nor does the kernel: where the others work is the next best.
  const std::string thread = observe::thread_name(by.thread.load());
  return thread.empty() ? text : text + " in thread \"" + thread + '"';
}

// Asks NVML of one card: ask(function, handle), where function() looks a name up. Only where there will be
// something to say.
template <class Ask>
std::optional<std::uint64_t> asked_of_nvml(const Visible& seen, int device, Ask ask) noexcept {
  const gpufence_gate* gate = dispatch::gate();
  void* library = gate != nullptr ? gate->dlopen("libnvidia-ml.so.1", RTLD_NOW) : nullptr;
  if (library == nullptr) return std::nullopt;
  // By type alone: an address taken, even unused, would have to be linked.
  const auto function = [&]<class F>(const char* name, std::type_identity<F>) {
    return reinterpret_cast<F>(gate->dlsym(library, name));
  };
  const auto init = function("nvmlInit_v2", std::type_identity<decltype(&::nvmlInit_v2)>{});
  const auto by_uuid =
      function("nvmlDeviceGetHandleByUUID", std::type_identity<decltype(&::nvmlDeviceGetHandleByUUID)>{});
  const auto shutdown = function("nvmlShutdown", std::type_identity<decltype(&::nvmlShutdown)>{});
  if (init == nullptr || by_uuid == nullptr || shutdown == nullptr) return std::nullopt;
  if (init() != NVML_SUCCESS) return std::nullopt;
  nvmlDevice_t handle{};
  std::optional<std::uint64_t> told;
  if (by_uuid(seen.devices[static_cast<std::size_t>(device)].uuid.c_str(), &handle) == NVML_SUCCESS)
    told = ask(function, handle);
  shutdown();
  return told;
}

// What the card holds now, of all processes: there is no context yet that CUDA could be asked in.
std::optional<std::uint64_t> used_of(const Visible& seen, int device) noexcept {
  return asked_of_nvml(seen, device, [](auto function, nvmlDevice_t handle) -> std::optional<std::uint64_t> {
    const auto memory_of =
        function("nvmlDeviceGetMemoryInfo", std::type_identity<decltype(&::nvmlDeviceGetMemoryInfo)>{});
    nvmlMemory_t memory{};
    if (memory_of == nullptr || memory_of(handle, &memory) != NVML_SUCCESS) return std::nullopt;
    return memory.used;
  });
}

// What this process holds of the card. In a PID namespace NVML may list nobody, or others' numbers.
std::optional<std::uint64_t> held_of(const Visible& seen, int device) noexcept {
  return asked_of_nvml(seen, device, [](auto function, nvmlDevice_t handle) -> std::optional<std::uint64_t> {
    const auto list = function("nvmlDeviceGetComputeRunningProcesses_v3",
                               std::type_identity<decltype(&::nvmlDeviceGetComputeRunningProcesses_v3)>{});
    std::array<nvmlProcessInfo_t, 256> processes{};
    auto count = static_cast<unsigned int>(processes.size());
    if (list == nullptr || list(handle, &count, processes.data()) != NVML_SUCCESS) return std::nullopt;
    for (unsigned int i = 0; i < count; ++i) {
      if (processes[i].pid == static_cast<unsigned int>(getpid()) &&
          processes[i].usedGpuMemory != static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE))
        return processes[i].usedGpuMemory;
    }
    return std::nullopt;
  });
}

}  // namespace

void note_choice(int device) noexcept {
  if (owners() == nullptr || !known(device)) return;
  if (this_thread.device == device && this_thread.settled) return;
  chosen.fetch_or(std::uint64_t{1} << device, std::memory_order_relaxed);
  settle_at(device);
}

Creation::Creation(int device, const observe::Call& call, const void* caller) noexcept
    : device_(device), call_(call), unasked_(false) {
  const Visible* seen = visible();
  if (owners() == nullptr || !known(device) || !seen->has(device) || this_thread.settled ||
      !by_default(caller))
    return;
  unasked_ = elsewhere(device) >= 0;
  // Managed memory may be meant for the GPU on which it was made, whoever uses it.
  early_ = chosen.load(std::memory_order_relaxed) == 0 && early.load(std::memory_order_relaxed) == nullptr &&
           std::strcmp(call.api, "cudaMallocManaged") != 0;
  if (!unasked_) return;
  used_before_ = used_of(*seen, device);
  held_before_ = held_of(*seen, device);
}

void Creation::done() noexcept {
  if (early_) {
    try {
      const auto* made = new Early{device_, observe::outside_cuda(call_), this_thread_named()};
      const Early* none = nullptr;
      if (early.compare_exchange_strong(none, made))
        watched.store(true);
      else
        delete made;
    } catch (...) {
      // Then it is not watched.
    }
  }
  if (!unasked_) return;
  this_thread.context_is_said = true;
  const Visible* seen = visible();
  const int other = elsewhere(device_);
  if (other < 0) return;
  Fault fault{.code = "GF202", .call = call_, .device = device_, .other_device = other};
  // What this process holds, where NVML tells it; else the card's, which others change meanwhile.
  if (const auto held = held_of(*seen, device_); held && *held > held_before_.value_or(0)) {
    fault.bytes = *held - held_before_.value_or(0);
  } else if (const auto used = used_of(*seen, device_); used && used_before_ && *used > *used_before_) {
    fault.bytes = *used - *used_before_;
  }
  explain(fault, [&](const Visible& to) {
    return "a context" + (fault.bytes ? " of " + policies::format_size(*fault.bytes) : std::string()) +
           " appeared on " + gpu_text(to, device_) +
           ", which this thread did not choose; the process works on " + gpu_text(to, other) +
           chosen_text(to, other);
  });
}

void arrived(CUcontext context, const char* api, const void* caller) noexcept {
  observe::Owners* handles = owners();
  if (handles == nullptr || this_thread.settled || context == nullptr) return;
  const std::optional<observe::Owner> owner = handles->find(observe::Kind::context, context);
  if (!owner || !known(owner->device)) return;
  if (observe::in_runtime_call() && observe::outermost.chooses) return;  // noted when it has succeeded
  if (!by_default(caller)) return note_choice(owner->device);
  const int other = elsewhere(owner->device);
  if (other < 0) return settle_at(owner->device);
  this_thread.settled = true;
  note_work([&] { return owner->device; });  // what follows there is this thread's fault
  if (this_thread.context_is_said) return;
  explain({.code = "GF201",
           .call = observe::current(api, caller),
           .device = owner->device,
           .other_device = other},
          [&](const Visible& seen) {
            return "thread \"" + observe::thread_name() +
                   "\" made its first CUDA call without choosing a device → " +
                   gpu_text(seen, owner->device) + "; the process works on " + gpu_text(seen, other) +
                   chosen_text(seen, other);
          });
}

void note_work_on(int device) noexcept {
  const Early* made = early.load();
  if (made == nullptr || !known(device)) return;
  if (device == made->device) return watched.store(false);
  const std::uint64_t bit = std::uint64_t{1} << device;
  // Now, while the context is there: runtimes give theirs back before the last exit handler.
  if ((worked.load(std::memory_order_relaxed) & bit) != 0 || worked.fetch_or(bit) != 0) return;
  const Visible* seen = visible();
  if (seen == nullptr || !seen->has(made->device)) return;
  if (const std::optional<std::uint64_t> held = held_of(*seen, made->device)) early_bytes.store(*held);
}

void note_context_gone(int device) noexcept {
  const Early* made = watched.load() ? early.load() : nullptr;
  if (made != nullptr && made->device == device && !observe::exiting()) watched.store(false);
}

void say_unused_context() noexcept {
  const Early* made = watched.load() ? early.load() : nullptr;
  if (made == nullptr || threads_at[made->device].load() > 0) return;
  const std::uint64_t chose = chosen.load();
  const std::uint64_t others = worked.load() & chose;
  if ((chose >> made->device & 1) != 0 || others == 0) return;
  const int other = std::countr_zero(others);
  Fault fault{.code = "GF202",
              .call = made->call,
              .device = made->device,
              .other_device = other,
              .thread = made->thread};
  if (const std::uint64_t held = early_bytes.load(); held != 0) fault.bytes = held;
  explain(fault, [&](const Visible& to) {
    return "a context" + (fault.bytes ? " of " + policies::format_size(*fault.bytes) : std::string()) +
           " appeared on " + gpu_text(to, made->device) +
           " before any thread had chosen a GPU, and nothing used it; the process works on " +
           gpu_text(to, other) + chosen_text(to, other);
  });
}

}  // namespace gpufence::hooks
