// cuInit: the view. It is a mask, never an altered answer, because the runtime checks count, UUIDs, PCI ids
// and driver version against what the driver signs: for the time of the call the driver reads the view's
// UUIDs in CUDA_VISIBLE_DEVICES, and afterwards the ordinals are compared with the view by UUID. A difference
// fails closed.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "hooks/mask.h"
#include "hooks/scopes.h"
#include "hooks/watch.h"
#include "observe/process.h"
#include "policies/mask.h"

namespace gpufence::hooks {

constinit std::atomic<Visible*> the_visible{nullptr};

namespace {

USES(cuDeviceGetCount);
USES(cuDeviceGetUuid_v2);
USES(cuDeviceGetName);
USES(cuDeviceGetPCIBusId);

constexpr int kMostDevices = 4096;  // more is no count but a broken driver

// The GPUs that the driver is to show, by UUID in ordinal order; none: whatever the mask that stands there
// says.
std::optional<std::vector<std::string>> asked_of_driver(const Rules& to,
                                                        const std::optional<std::string>& written,
                                                        const observe::Call& call) {
  const auto said = [&](const char* code, const std::string& message, const journal::Gpu& other = {}) {
    say_of({.code = code, .message = message, .other_device = other}, call);
  };
  const auto size = to.host_gpus.size();
  if (!to.view) return std::nullopt;

  const std::vector<std::string>& view = *to.view;
  // Untouched, or taken away: the whole view.
  if (!written || (to.given_mask && *written == *to.given_mask)) return view;

  const auto host_text = [&](const std::string& uuid) {
    for (std::size_t i = 0; i < size; ++i) {
      if (to.host_gpus[i] == uuid) return std::to_string(i);
    }
    return uuid;
  };
  const auto view_text = [&] {
    std::string text = view.size() == 1 ? "host GPU " : "host GPUs ";
    for (std::size_t i = 0; i < view.size(); ++i) text += (i > 0 ? "," : "") + host_text(view[i]);
    return view.empty() ? std::string("no GPU") : text;
  };
  const bool by_host = to.numbering == Numbering::host && !to.host_gpus.empty();
  const std::vector<std::string>& world = by_host ? to.host_gpus : view;
  if (by_host && policies::names_numbers(*written)) {
    const auto order = read_variable(kOrder);
    if (order && *order == "FASTEST_FIRST") {
      said("GF104", std::string(kMask) + "=" + *written +
                        " was set after start with CUDA_DEVICE_ORDER=FASTEST_FIRST; " +
                        "its numbers are read as nvidia-smi's (PCI order); set CUDA_DEVICE_ORDER=PCI_BUS_ID");
    }
  }
  const policies::MaskReading reading = policies::read_mask(*written, world);
  std::vector<std::string> left;
  std::string outside;
  journal::Gpu outsider;
  for (const std::size_t index : reading.gpus) {
    bool inside = false;
    for (const std::string& uuid : view) inside = inside || uuid == world[index];
    if (!inside) {
      outside = host_text(world[index]);
      outsider = record_of(to, world[index]);
      break;
    }
    left.push_back(world[index]);
  }
  const auto remains = [&] {
    if (left.empty()) return std::string("no GPU is left");
    std::string text = left.size() == 1 ? "left is host GPU " : "left are host GPUs ";
    for (std::size_t i = 0; i < left.size(); ++i) text += (i > 0 ? "," : "") + host_text(left[i]);
    return text;
  };
  const std::string lead = std::string(kMask) + "=" + *written + " was set after start; ";
  if (!outside.empty()) {
    said("GF105", lead + "this view is " + view_text() + ": " + remains(), outsider);
  } else if (reading.ended_by) {
    said("GF103",
         lead + "its entry " + policies::describe(*reading.ended_by, world.size()) + ": " + remains());
  }
  return left;
}

// Swaps one pointer of `environ` to a leaked string and back; setenv would free what another thread reads.
// Several threads may be in cuInit: the first decides and swaps, the last restores, and nobody waits for the
// driver under the lock.
class MaskForCall {
 public:
  MaskForCall(const Rules& to, const observe::Call& call) {
    const std::lock_guard guard(lock);
    if (inside++ == 0) {
      try {
        const auto uuids = asked_of_driver(to, read_variable(kMask), call);
        asked = uuids ? new std::vector<std::string>(*uuids) : nullptr;
        if (uuids) {
          std::string text = std::string(kMask) + "=";
          for (std::size_t i = 0; i < uuids->size(); ++i) text += (i > 0 ? "," : "") + (*uuids)[i];
          put(text);
        }
        undecided = false;
      } catch (...) {
        undecided = true;
      }
    }
    asked_ = asked;
    undecided_ = undecided;
  }
  ~MaskForCall() {
    const std::lock_guard guard(lock);
    if (--inside > 0) return;
    // Only what still is ours: the program may have set the variable meanwhile.
    if (entry != nullptr && *entry == ours) *entry = before;
    if (our_environ != nullptr && environ == our_environ) environ = old_environ;  // which clearenv makes null
    entry = nullptr;
    our_environ = nullptr;
  }
  MaskForCall(const MaskForCall&) = delete;
  MaskForCall& operator=(const MaskForCall&) = delete;

  // Leaked, as the strings are: other threads may still look at them. Null: no view was asked for.
  [[nodiscard]] const std::vector<std::string>* asked_uuids() const { return asked_; }
  [[nodiscard]] bool out_of_memory() const { return undecided_; }

 private:
  static void put(const std::string& text) {
    ours = new char[text.size() + 1];
    std::memcpy(ours, text.c_str(), text.size() + 1);
    entry = find_entry(kMask);
    if (entry != nullptr) {
      before = *entry;
      *entry = ours;
      return;
    }
    std::size_t count = 0;
    while (environ != nullptr && environ[count] != nullptr) ++count;
    our_environ = new char*[count + 2];
    if (count > 0) std::memcpy(our_environ, environ, count * sizeof(char*));
    our_environ[count] = ours;
    our_environ[count + 1] = nullptr;
    old_environ = environ;
    environ = our_environ;
  }

  static inline constinit std::mutex lock{};
  static inline constinit unsigned inside = 0;
  static inline constinit char** entry = nullptr;
  static inline constinit char* ours = nullptr;
  static inline constinit char* before = nullptr;
  static inline constinit char** our_environ = nullptr;
  static inline constinit char** old_environ = nullptr;
  static inline constinit const std::vector<std::string>* asked = nullptr;
  static inline constinit bool undecided = false;

  const std::vector<std::string>* asked_ = nullptr;
  bool undecided_ = false;
};

std::optional<observe::Device> describe_device(int ordinal, const Rules& to) {
  observe::Device device;
  device.ordinal = ordinal;
  CUuuid uuid{};
  if (real<&::cuDeviceGetUuid_v2>(&uuid, ordinal) != CUDA_SUCCESS) return std::nullopt;
  unsigned char bytes[16];
  std::memcpy(bytes, uuid.bytes, sizeof bytes);
  device.uuid = observe::uuid_text(bytes);
  char text[256] = "";
  if (real<&::cuDeviceGetPCIBusId>(text, static_cast<int>(sizeof text), ordinal) == CUDA_SUCCESS)
    device.pci = text;
  for (char& c : device.pci) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  text[0] = 0;
  if (real<&::cuDeviceGetName>(text, static_cast<int>(sizeof text), ordinal) == CUDA_SUCCESS)
    device.name = text;
  std::size_t total = 0;
  if (real<&::cuDeviceTotalMem_v2>(&total, ordinal) == CUDA_SUCCESS) device.total = total;
  for (std::size_t i = 0; i < to.host_gpus.size(); ++i) {
    if (to.host_gpus[i] == device.uuid) device.host_index = static_cast<int>(i);
  }
  return device;
}

// A row of the table that people need to see whose number is whose: ordinal, nvidia-smi's index, bus, UUID.
std::string row_text(const observe::Device& device) {
  return full_name(device) + " = " + device.uuid.substr(0, sizeof "GPU-01234567" - 1);
}

// Not ours to change, but a mask that ends early is worth a word. `devices`: what CUDA made of it.
void say_ended(const std::optional<std::string>& mask, const std::vector<observe::Device>& devices,
               const Rules& to, const observe::Call& call) {
  if (to.view || !mask || to.host_gpus.empty()) return;
  const policies::MaskReading reading = policies::read_mask(*mask, to.host_gpus);
  if (!reading.ended_by) return;
  // Which slices a GPU has is not known here; CUDA took it.
  if (devices.size() > reading.gpus.size() && reading.ended_by->entry.starts_with("MIG-")) return;
  std::string left = devices.empty() ? "no GPU is" : devices.size() == 1 ? "one GPU is" : "these GPUs are";
  left += " visible";
  for (std::size_t i = 0; i < devices.size(); ++i) left += (i > 0 ? ", " : ": ") + row_text(devices[i]);
  say_of({.code = "GF103",
          .message = std::string(kMask) + "=" + *mask + ": its entry " +
                     policies::describe(*reading.ended_by, to.host_gpus.size()) + ": the list ends there, " +
                     left},
         call);
}

// A mask of plain numbers that CUDA reads in another order than nvidia-smi shows: the classic wrong card.
void compare_orders(const Visible& seen, const std::string& mask, const Rules& to,
                    const observe::Call& call) {
  if (to.host_gpus.empty() || !policies::names_numbers(mask)) return;
  const policies::MaskReading meant = policies::read_mask(mask, to.host_gpus);
  std::string table;
  journal::Gpu first, first_meant;
  for (std::size_t i = 0; i < meant.gpus.size() && i < seen.devices.size(); ++i) {
    if (seen.devices[i].host_index == static_cast<int>(meant.gpus[i])) continue;
    if (table.empty()) {
      first = record_of(seen, static_cast<int>(i));
      first_meant = record_of(to, to.host_gpus[meant.gpus[i]]);
    }
    table += (table.empty() ? "" : ", ") + row_text(seen.devices[i]) + " where nvidia-smi's number is " +
             std::to_string(meant.gpus[i]);
  }
  if (table.empty()) return;
  say_of({.code = "GF104",
          .message = std::string(kMask) + "=" + mask + " counts in CUDA's order here, not in nvidia-smi's: " +
                     table + "; set CUDA_DEVICE_ORDER=PCI_BUS_ID, or use gpufence run -d",
          .device = first,
          .other_device = first_meant},
         call);
}

std::unique_ptr<Visible> look_around(const Rules& to) {
  int count = 0;
  if (real<&::cuDeviceGetCount>(&count) != CUDA_SUCCESS || count < 0 || count > kMostDevices) return nullptr;
  auto seen = std::make_unique<Visible>();
  std::vector<std::string> uuids;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const std::optional<observe::Device> device = describe_device(ordinal, to);
    if (!device) return nullptr;
    uuids.push_back(device->uuid);
    seen->devices.push_back(*device);
  }
  const std::size_t size = seen->devices.size();
  seen->own_caps.resize(size);
  if (size > 1) seen->owners = std::make_unique<observe::Owners>();
  if ((to.needs & (dispatch::kReport | dispatch::kFindings)) != 0)
    seen->tally = std::make_unique<observe::Tally>(size);
  seen->refusal_said = std::make_unique<std::atomic<bool>[]>(size);
  seen->chosen = std::make_unique<Visible::Chosen[]>(size);
  auto* counters = static_cast<ledger::Ledger::Row*>(to.journal->counters(size));
  seen->counters_kept = counters != nullptr;
  seen->ledger = std::make_unique<ledger::Ledger>(std::move(uuids), counters);
  return seen;
}

// The driver's list must be what the mask named, GPU by GPU; why it is not, or nothing.
std::string difference(const Visible& seen, const std::vector<std::string>& asked) {
  for (std::size_t i = 0; i < seen.devices.size() && i < asked.size(); ++i) {
    if (seen.devices[i].uuid != asked[i]) {
      return "the driver shows " + seen.devices[i].uuid + " as CUDA " + std::to_string(i) +
             ", the view has " + asked[i];
    }
  }
  if (seen.devices.size() == asked.size()) return {};
  return "the driver shows " + std::to_string(seen.devices.size()) + " GPUs, the view has " +
         std::to_string(asked.size());
}

CUresult fenced_init(unsigned flags, const observe::Call& call) {
  const Rules& to = rules();
  const std::vector<std::string>* asked = nullptr;
  CUresult result = CUDA_SUCCESS;
  const Started started{read_variable(kMask), read_variable(kOrder), observe::process_age_ns(),
                        observe::outside_cuda(call)};
  {
    const MaskForCall mask(to, call);
    if (mask.out_of_memory()) return CUDA_ERROR_OUT_OF_MEMORY;
    asked = mask.asked_uuids();
    result = real<&::cuInit>(flags);
  }
  if (result == CUDA_ERROR_NO_DEVICE && asked != nullptr && !asked->empty()) {
    deny("the driver shows none of the view's GPUs (" + asked->front() + (asked->size() > 1 ? ", …" : "") +
         ")");
  }
  if (result == CUDA_ERROR_NO_DEVICE) say_ended(started.mask, {}, to, call);
  if (result != CUDA_SUCCESS) return result;
  std::unique_ptr<Visible> seen = look_around(to);
  if (seen == nullptr) {
    if (to.view || !to.caps.empty()) {
      deny("the driver doesn't tell which GPUs it shows");
      return CUDA_ERROR_NO_DEVICE;
    }
    return result;
  }
  // What a cap can't do without: which GPU an allocation goes to (hooks/charge.cpp).
  CUdevice device = -1;
  CUcontext context = nullptr;
  if (!to.caps.empty() && (real<&::cuCtxGetDevice>(&device) == CUDA_ERROR_NOT_FOUND ||
                           real<&::cuCtxGetCurrent>(&context) == CUDA_ERROR_NOT_FOUND)) {
    deny("this driver lacks cuCtxGetDevice or cuCtxGetCurrent, so that memory can't be capped");
    return CUDA_ERROR_NO_DEVICE;
  }
  if (const std::optional<std::string> why = open_scopes(*seen, to)) {
    if (!to.books.may_lack) {
      deny(*why, "GF503");
      return CUDA_ERROR_NO_DEVICE;
    }
    say("GF503", journal::Severity::error, [&] { return *why + "; each process counts for itself"; });
    count_alone(*seen, to);
  }
  say_ended(started.mask, seen->devices, to, call);
  if (!to.view && started.mask) compare_orders(*seen, *started.mask, to, call);
  if (asked != nullptr) {
    const std::string why = difference(*seen, *asked);
    if (!why.empty()) {
      deny(why + "; called by " + observe::text(call));
      return CUDA_ERROR_NO_DEVICE;
    }
  }
  seen->started = started;
  if ((to.needs & dispatch::kFindings) != 0) compare_with_parent(*seen, to);
  Visible* first = nullptr;
  if (the_visible.compare_exchange_strong(first, seen.get(), std::memory_order_acq_rel))
    to.journal->refresh(seen.release()->counters_kept);
  return result;
}

}  // namespace

HOOK(cuInit, dispatch::kFence, (unsigned int flags)) {
  note_use("cuInit", __builtin_return_address(0));
  if (denied()) return CUDA_ERROR_NO_DEVICE;
  if (visible() != nullptr) return real<&::cuInit>(flags);
  try {
    const CUresult result = fenced_init(flags, observe::current("cuInit", __builtin_return_address(0)));
    // Here profilers come in too, called from within the true cuInit; for the runtime, which called us, it is
    // the same.
    if (result == CUDA_SUCCESS) watch_runtime();
    return result;
  } catch (...) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

}  // namespace gpufence::hooks
