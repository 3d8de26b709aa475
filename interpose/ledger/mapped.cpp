// Where host memory for the tables is missing, too much is counted for the process's life, never too little.
#include "ledger/mapped.h"

#include <new>
#include <utility>

namespace gpufence::ledger {

bool Mapped::created(std::uint64_t handle, const Holding& holding) noexcept {
  try {
    auto memory = std::make_shared<Memory>();
    memory->holding = holding;
    const std::lock_guard guard(lock_);
    handles_.insert_or_assign(handle, std::move(memory));
    return true;
  } catch (...) {
    return false;
  }
}

void Mapped::retained(std::uint64_t handle, std::uint64_t address) noexcept {
  const std::lock_guard guard(lock_);
  auto place = places_.upper_bound(address);
  if (place == places_.begin()) return;
  --place;
  if (address - place->first >= place->second.bytes) return;
  ++place->second.memory->references;
  try {
    handles_.insert_or_assign(handle, place->second.memory);
  } catch (...) {
  }
}

std::shared_ptr<Mapped::Memory> Mapped::releasing(std::uint64_t handle) noexcept {
  const std::lock_guard guard(lock_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return nullptr;
  std::shared_ptr<Memory> memory = found->second;
  if (--memory->references == 0) handles_.erase(found);
  return memory;
}

void Mapped::not_released(std::uint64_t handle, std::shared_ptr<Memory> memory) noexcept {
  const std::lock_guard guard(lock_);
  ++memory->references;
  try {
    handles_.insert_or_assign(handle, std::move(memory));
  } catch (...) {
  }
}

std::optional<Holding> Mapped::released(const std::shared_ptr<Memory>& memory) noexcept {
  const std::lock_guard guard(lock_);
  if (memory->references != 0 || memory->mappings != 0) return std::nullopt;
  memory->mappings = 1;  // said once: of two threads that let the last of it go, one gives it back
  return memory->holding;
}

void Mapped::mapped(std::uint64_t handle, std::uint64_t address, std::uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return;
  ++found->second->mappings;
  try {
    places_.insert_or_assign(address, Place{address, bytes, found->second});
  } catch (...) {
  }
}

std::vector<Mapped::Place> Mapped::unmapping(std::uint64_t address, std::uint64_t bytes) noexcept {
  std::vector<Place> taken;
  try {
    const std::lock_guard guard(lock_);
    auto place = places_.lower_bound(address);
    while (place != places_.end() && place->first - address < bytes) {
      taken.push_back(place->second);
      place = places_.erase(place);
    }
  } catch (...) {
  }
  return taken;
}

void Mapped::not_unmapped(std::vector<Place> places) noexcept {
  const std::lock_guard guard(lock_);
  for (Place& place : places) {
    try {
      const std::uint64_t address = place.address;
      places_.insert_or_assign(address, std::move(place));
    } catch (...) {
    }
  }
}

std::optional<Holding> Mapped::unmapped(const Place& place) noexcept {
  {
    const std::lock_guard guard(lock_);
    --place.memory->mappings;
  }
  return released(place.memory);
}

void Mapped::kept(std::uint64_t handle) noexcept {
  const std::lock_guard guard(lock_);
  if (const auto found = handles_.find(handle); found != handles_.end()) ++found->second->mappings;
}

void Mapped::forget_after_fork() noexcept {
  new (&lock_) std::mutex;
  // Not freed: the parent's thread may have been amid a change of them.
  new (&handles_) decltype(handles_);
  new (&places_) decltype(places_);
}

}  // namespace gpufence::ledger
