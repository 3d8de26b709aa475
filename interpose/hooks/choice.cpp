// See choice.h. A program may well leave one thread on CUDA 0 without a word while others choose GPUs of
// their own; so nothing is said of a GPU that any thread chose or works on.
#include "hooks/choice.h"

#include <dlfcn.h>
#include <nvml.h>
#include <type_traits>

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

bool known(int device) noexcept {
  return device >= 0 && device < kMostDevices;
}

void settle_at(int device) noexcept {
  if (known(this_thread.device)) threads_at[this_thread.device].fetch_sub(1, std::memory_order_relaxed);
  this_thread.device = device;
  this_thread.settled = true;
  threads_at[device].fetch_add(1, std::memory_order_relaxed);
}

// The call that this thread is in comes from a shared runtime, and is none that chooses.
bool by_default(const void* caller) noexcept {
  if (observe::outermost.call.caller != nullptr) return !observe::outermost.chooses;
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

// What the card holds now, of all processes, as NVML tells: there is no context yet that CUDA could be asked
// in. Asked only where there will be something to say.
std::optional<std::uint64_t> used_of(const Visible& seen, int device) noexcept {
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
  const auto memory_of =
      function("nvmlDeviceGetMemoryInfo", std::type_identity<decltype(&::nvmlDeviceGetMemoryInfo)>{});
  const auto shutdown = function("nvmlShutdown", std::type_identity<decltype(&::nvmlShutdown)>{});
  if (init == nullptr || by_uuid == nullptr || memory_of == nullptr || shutdown == nullptr)
    return std::nullopt;
  if (init() != NVML_SUCCESS) return std::nullopt;
  nvmlDevice_t handle{};
  nvmlMemory_t memory{};
  const bool told =
      by_uuid(seen.devices[static_cast<std::size_t>(device)].uuid.c_str(), &handle) == NVML_SUCCESS &&
      memory_of(handle, &memory) == NVML_SUCCESS;
  shutdown();
  if (!told) return std::nullopt;
  return memory.used;
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
  if (unasked_) used_before_ = used_of(*seen, device);
}

void Creation::done() noexcept {
  if (!unasked_) return;
  this_thread.context_is_said = true;
  const Visible* seen = visible();
  const int other = elsewhere(device_);
  if (other < 0) return;
  const std::optional<std::uint64_t> used = used_of(*seen, device_);
  Fault fault{.code = "GF202", .call = call_, .device = device_, .other_device = other};
  if (used && used_before_ && *used > *used_before_) fault.bytes = *used - *used_before_;
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
  if (observe::outermost.chooses) return;  // noted when it has succeeded
  if (!by_default(caller)) return note_choice(owner->device);
  const int other = elsewhere(owner->device);
  if (other < 0) return settle_at(owner->device);
  this_thread.settled = true;
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

}  // namespace gpufence::hooks
