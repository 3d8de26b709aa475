// From the gate's slots to bodies and back: which record stands behind a slot, which driver is the true one,
// and which of our bodies replaces an address that the driver hands out. Nothing here takes a lock or waits:
// a thread in a dlopen constructor and a thread in arm would wait for each other. State is built aside and
// published with one compare-and-swap; the loser throws his away.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dispatch/hook.h"

namespace gpufence::dispatch {

// What the composition root says once a process: the needs to bind for (Need bits).
// Defined in fence.cpp; idempotent and safe to call from any number of threads. `for_cuda`: the call that
// arms is CUDA's, not NVML's, which is no use of a GPU and gets no report.
unsigned arm(bool for_cuda);

// Called by arm's owner when the driver at hand can't be bound: the message of GF501. Defined in fence.cpp.
void cannot_bind(const std::string& why);

// Somebody looks CUPTI up. Defined in fence.cpp.
void tool_wanted(const char* name, const void* caller) noexcept;

// The gate that loaded this core; null in unit tests that run without one.
[[nodiscard]] const gpufence_gate* gate();

// Every record of the linked core, hooks and uses.
[[nodiscard]] std::span<Record* const> records();

// Finds the driver, fills every target<> and slot. False where there is no driver.
bool bind_driver(unsigned needs);

// Whether calls of the runtimes of this node have led to more than one library.
[[nodiscard]] bool several_runtimes(int node);
// They have: slots that lead straight into one of them go by the caller from now on.
void part_runtimes(int node);

// The same for the NVML that the process has loaded; opens none and touches no driver.
bool bind_nvml(unsigned needs);

// How the driver's answer to a look-up is handed on: ours if the address belongs to a bound hook.
struct Routed {
  void* address;
  bool unknown_hook;  // `symbol` is a hooked name, but the address is that of no record, or of two
};
[[nodiscard]] Routed routed(const char* symbol, void* address);

// Address → record, open addressing, filled once. Two hooked names at one address are an error: which body
// would be right could only be guessed.
class RouteTable {
 public:
  explicit RouteTable(std::size_t addresses);
  // False if `address` already belongs to another record.
  bool add(const void* address, int record);
  // The record, or -1.
  [[nodiscard]] int find(const void* address) const;

 private:
  struct Entry {
    const void* address = nullptr;
    int record = -1;
  };
  [[nodiscard]] std::size_t place(const void* address) const;
  std::vector<Entry> entries_;
};

}  // namespace gpufence::dispatch
