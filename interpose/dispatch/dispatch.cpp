// See dispatch.h. The driver is looked up with the C library's own dlsym, which the gate hands over; through
// the exported dlsym we would find ourselves.
#include "dispatch/dispatch.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

// The linker's bounds of the section that HOOK and USES fill.
extern "C" {
extern gpufence::dispatch::Record* const __start_gpufence_hooks[]
    __attribute__((visibility("hidden")));  // NOLINT
extern gpufence::dispatch::Record* const __stop_gpufence_hooks[]
    __attribute__((visibility("hidden")));  // NOLINT
}

namespace gpufence::dispatch {
namespace {

constinit std::atomic<const gpufence_gate*> loaded_gate{nullptr};

using GetProcAddress1 = decltype(&::cuGetProcAddress);
using GetProcAddress2 = decltype(&::cuGetProcAddress_v2);

// What is known of the driver once it is bound. Leaked on purpose: threads may still call during exit.
struct Driver {
  void* handle = nullptr;
  std::vector<void*> targets;           // by record; null for other libraries' hooks
  RouteTable routes{records().size()};  // what is exported; what look-ups give may lie elsewhere: `named`
  std::string conflict;                 // not empty: two hooks at one address
  GetProcAddress2 v2 = nullptr;
  GetProcAddress1 v1 = nullptr;
  // A hook as look-ups name it, sorted by that name. The driver is asked for its address only when it gave
  // out one that is no export's: a hundred questions at each start would be for nothing where the two are
  // the same.
  struct Named {
    const Asked* asked;
    int record;
  };
  std::vector<Named> named;
};
constinit std::atomic<const Driver*> driver{nullptr};

void* find_driver_handle(const gpufence_gate& gate) {
  // By soname first: that is the copy the program opened, from wherever. RTLD_NODELETE: our slots point into
  // it.
  void* handle = gate.dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  return handle != nullptr ? handle : gate.dlopen("libcuda.so.1", RTLD_NOW | RTLD_NODELETE);
}

// The address that a look-up through the driver gives for one export; null if it has none.
void* ask_driver(const Driver& bound, const Asked& entry) {
  void* address = nullptr;
  const cuuint64_t flags =
      entry.per_thread_default ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
  CUdriverProcAddressQueryResult status{};
  CUresult result = CUDA_ERROR_NOT_FOUND;
  if (bound.v2 != nullptr) {
    result = bound.v2(entry.base, &address, entry.version, flags, &status);
  } else if (bound.v1 != nullptr) {
    result = bound.v1(entry.base, &address, entry.version, flags);
  }
  return result == CUDA_SUCCESS ? address : nullptr;
}

bool by_base(const Driver::Named& one, const Driver::Named& other) {
  return std::strcmp(one.asked->base, other.asked->base) < 0;
}

std::unique_ptr<Driver> build(const gpufence_gate& gate) {
  void* handle = find_driver_handle(gate);
  if (handle == nullptr) return nullptr;
  auto built = std::make_unique<Driver>();
  built->handle = handle;
  const auto all = records();
  built->targets.resize(all.size(), nullptr);
  built->v2 = reinterpret_cast<GetProcAddress2>(gate.dlsym(handle, "cuGetProcAddress_v2"));
  built->v1 = reinterpret_cast<GetProcAddress1>(gate.dlsym(handle, "cuGetProcAddress"));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Record& record = *all[i];
    if (record.node != GPUFENCE_NODE_DRIVER) continue;
    void* exported = gate.dlsym(handle, record.name);
    built->targets[i] = exported != nullptr ? exported : gate.missing(GPUFENCE_NODE_DRIVER);
    // An older driver, asked for a version that it lacks, answers with its newest: that is another record's.
    if (record.body == nullptr || exported == nullptr) continue;
    if (!built->routes.add(exported, static_cast<int>(i))) {
      built->conflict = std::string(record.name) + " and " + all[built->routes.find(exported)]->name +
                        " are one address in this driver";
    }
    if (record.asked.base != nullptr) built->named.push_back({&record.asked, static_cast<int>(i)});
  }
  std::sort(built->named.begin(), built->named.end(), by_base);
  return built;
}

bool wanted(const Record& record, unsigned needs) {
  return record.body != nullptr && (record.needs & needs) != 0;
}

// The constinit order in which every thread may read: targets, then needs, then slots.
constinit std::atomic<unsigned> bound_needs{0};

// The gate's table is sorted by name, then node.
int slot_of(const gpufence_gate& to, const Record& record) {
  std::uint32_t low = 0;
  std::uint32_t high = to.hooks;
  while (low < high) {
    const std::uint32_t middle = (low + high) / 2;
    int order = std::strcmp(to.hook_name(middle), record.name);
    if (order == 0) order = to.hook_node(middle) - record.node;
    if (order == 0) return static_cast<int>(middle);
    (order < 0 ? low : high) = order < 0 ? middle + 1 : middle;
  }
  return -1;
}

void store_slot(const gpufence_gate& to, const Record& record, void* address) {
  const int slot = slot_of(to, record);
  if (slot >= 0) std::atomic_ref<void*>(to.slots[slot]).store(address, std::memory_order_release);
}

// Every thread that comes through here writes the same values, so the winner need not be waited for.
void install(const Driver& bound, unsigned needs) {
  const auto all = records();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (bound.targets[i] != nullptr) all[i]->target->store(bound.targets[i], std::memory_order_release);
  }
  bound_needs.store(needs, std::memory_order_release);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]->body == nullptr || all[i]->node != GPUFENCE_NODE_DRIVER) continue;
    store_slot(*gate(), *all[i], wanted(*all[i], needs) ? all[i]->body : bound.targets[i]);
  }
}

const Record* record_of(const gpufence_gate& to, std::uint32_t index) {
  for (const Record* record : records()) {
    if (record->body != nullptr && record->node == to.hook_node(index) &&
        std::strcmp(record->name, to.hook_name(index)) == 0)
      return record;
  }
  return nullptr;
}

// A runtime's function that no policy wants: its slot leads straight to it. A process that holds two runtimes
// of one version must not: there the call goes by its caller.
void* straight_to_runtime(const gpufence_gate& to, const Record& record, const void* caller) {
  void* found = runtime_symbol({&record, caller}, record.name);
  if (found == nullptr) return record.plain;  // which answers as a missing function does; one may come yet
  store_slot(to, record, found);
  // Another thread may have met the second runtime meanwhile.
  if (!several_runtimes(record.node)) return found;
  store_slot(to, record, record.plain);
  return record.plain;
}

// The first call of a hook, from the gate.
void* resolve(std::uint32_t index, void* caller) noexcept {
  const gpufence_gate& to = *gate();
  const int node = to.hook_node(index);
  const unsigned needs = arm(node != GPUFENCE_NODE_NVML);
  if (node == GPUFENCE_NODE_NVML) {
    // A process may use NVML and never load a driver. Null: not loaded by its name; the gate looks further.
    if (!bind_nvml(needs)) return nullptr;
  } else if (node == GPUFENCE_NODE_DRIVER) {
    if (!bind_driver(needs)) return to.missing(node);  // stays unbound: a driver may be opened later
  } else {
    // A runtime opens the driver at its first call, which this is; bound now, its look-ups get our answers.
    const Record* called = record_of(to, index);
    if (called == nullptr) return nullptr;
    const bool plain = called->plain != nullptr && !wanted(*called, needs);
    if (!plain || driver.load(std::memory_order_acquire) == nullptr) {
      bind_driver(needs);
      for (const Record* record : records()) {
        if (record->body != nullptr && record->node == node &&
            (record->plain == nullptr || wanted(*record, needs)))
          store_slot(to, *record, record->body);
      }
    }
    if (plain) return straight_to_runtime(to, *called, caller);
  }
  return std::atomic_ref<void*>(to.slots[index]).load(std::memory_order_acquire);
}

int route(const void* address) noexcept {
  const Driver* bound = driver.load(std::memory_order_acquire);
  const int record = bound != nullptr ? bound->routes.find(address) : -1;
  if (record < 0) return -1;
  return slot_of(*gate(), *records()[record]);
}

constexpr gpufence_core kCore{GPUFENCE_GATE_VERSION, resolve, route, tool_wanted};

}  // namespace

const gpufence_gate* gate() {
  return loaded_gate.load(std::memory_order_acquire);
}

std::span<Record* const> records() {
  return {__start_gpufence_hooks, static_cast<std::size_t>(__stop_gpufence_hooks - __start_gpufence_hooks)};
}

void part_runtimes(int node) {
  const gpufence_gate& to = *gate();
  const unsigned needs = arm(true);
  for (const Record* record : records()) {
    if (record->plain != nullptr && record->node == node && !wanted(*record, needs))
      store_slot(to, *record, record->plain);
  }
}

bool bind_driver(unsigned needs) {
  const Driver* bound = driver.load(std::memory_order_acquire);
  if (bound == nullptr) {
    std::unique_ptr<Driver> built = build(*gate());
    if (built == nullptr) return false;
    if (driver.compare_exchange_strong(bound, built.get(), std::memory_order_acq_rel)) {
      bound = built.release();
      if (!bound->conflict.empty()) cannot_bind(bound->conflict);
    }
  }
  // A driver that can't be routed is not half-fenced: only cuInit and the look-ups stay ours, to deny or let
  // through.
  install(*bound, bound->conflict.empty() ? needs : (needs & kFence));
  return true;
}

// Not aside and then published: nothing here is asked of NVML, so every thread stores the same addresses.
bool bind_nvml(unsigned needs) {
  const gpufence_gate& to = *gate();
  void* handle = to.dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  if (handle == nullptr) return false;
  for (const Record* record : records()) {
    if (record->node != GPUFENCE_NODE_NVML) continue;
    void* exported = to.dlsym(handle, record->name);
    record->target->store(exported != nullptr ? exported : to.missing(GPUFENCE_NODE_NVML),
                          std::memory_order_release);
  }
  for (const Record* record : records()) {
    if (record->body == nullptr || record->node != GPUFENCE_NODE_NVML) continue;
    store_slot(to, *record,
               wanted(*record, needs) ? record->body : record->target->load(std::memory_order_relaxed));
  }
  return true;
}

Routed routed(const char* symbol, void* address) {
  const Driver* bound = driver.load(std::memory_order_acquire);
  if (bound == nullptr) return {address, false};
  const auto all = records();
  const int record = bound->routes.find(address);
  if (record >= 0) {
    const bool ours = wanted(*all[record], bound_needs.load(std::memory_order_acquire));
    return {ours ? all[record]->body : address, false};
  }
  if (symbol == nullptr) return {address, false};
  auto named = std::lower_bound(
      bound->named.begin(), bound->named.end(), symbol,
      [](const Driver::Named& one, const char* name) { return std::strcmp(one.asked->base, name) < 0; });
  int found = -1;
  bool known = false;
  for (; named != bound->named.end() && std::strcmp(named->asked->base, symbol) == 0; ++named) {
    known = true;
    if (ask_driver(*bound, *named->asked) != address) continue;
    if (found >= 0) return {address, true};  // which of the two is meant could only be guessed
    found = named->record;
  }
  if (found < 0) return {address, known};
  const bool ours = wanted(*all[found], bound_needs.load(std::memory_order_acquire));
  return {ours ? all[found]->body : address, false};
}

RouteTable::RouteTable(std::size_t addresses) {
  std::size_t size = 16;
  while (size < 2 * addresses) size *= 2;
  entries_.resize(size);
}

std::size_t RouteTable::place(const void* address) const {
  auto key = reinterpret_cast<std::uintptr_t>(address);
  key = (key >> 4) * 0x9E3779B97F4A7C15ULL;  // Fibonacci hashing: functions are 16 bytes apart
  std::size_t at = (key >> 32) & (entries_.size() - 1);
  while (entries_[at].address != nullptr && entries_[at].address != address)
    at = (at + 1) & (entries_.size() - 1);
  return at;
}

bool RouteTable::add(const void* address, int record) {
  Entry& entry = entries_[place(address)];
  if (entry.address == address) return entry.record == record;
  entry = {address, record};
  return true;
}

int RouteTable::find(const void* address) const {
  return entries_[place(address)].record;
}

}  // namespace gpufence::dispatch

extern "C" [[gnu::visibility("default")]] const struct gpufence_core* gpufence_core_entry_point(
    const gpufence_gate* gate) __asm__("gpufence_core");

const struct gpufence_core* gpufence_core_entry_point(const gpufence_gate* gate) {
  if (gate == nullptr || gate->version != GPUFENCE_GATE_VERSION) return nullptr;
  gpufence::dispatch::loaded_gate.store(gate, std::memory_order_release);
  return &gpufence::dispatch::kCore;
}
