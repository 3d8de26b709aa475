// What a GPU may touch, from the driver's own truth: a context reaches its own memory, that of the contexts
// that it enabled peer access to, managed memory, and page-locked host memory. Addresses of other GPUs, freed
// memory and plain host memory are illegal.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "driver.h"
#include "ptx/run.h"

namespace gpufence::sim {

// True if the address is memory that the context may touch now.
bool may_touch(Context& context, uintptr_t address);

// All of it, unsorted. Device memory ends where its granule does (Heap::kGranule), as a card protects pages
// and not bytes: a read a little past the end of an array is no fault there either.
std::vector<ptx::Region> regions_of(Context& context);

// Changes whenever regions_of() may.
AccessVersion access_version(Context& context);

// For a launch: made anew only after something was allocated, freed, registered or enabled. What comes later
// does not show in it.
inline std::shared_ptr<const ptx::AccessMap> access_of(Context& context) {
  std::lock_guard<std::mutex> held(context.access_lock);
  const AccessVersion now = access_version(context);
  if (context.access == nullptr || now != context.access_made_at) {
    context.access = std::make_shared<const ptx::AccessMap>(regions_of(context));
    context.access_made_at = now;
  }
  return context.access;
}

}  // namespace gpufence::sim
