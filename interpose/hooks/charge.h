// How every allocating hook reads: request → verdict → reserve → the driver → commit. One body for the
// families.
#pragma once

#include "hooks/rules.h"

namespace gpufence::hooks {

// Where an allocation of this thread lies now; none: no current context, or CUDA not initialised through us.
struct Place {
  Visible* seen = nullptr;
  std::uint32_t row = 0;
  const void* context = nullptr;
};
[[nodiscard]] std::optional<Place> place_of_current_context() noexcept;
// The same without asking whether there is a context: for after a call that needs one.
[[nodiscard]] std::optional<Place> gpu_of_current_context() noexcept;

// Says GF401 (once a GPU; later ones count), or GF503 where the books could not be had, and gives CUDA's own
// out-of-memory. `taken`: what the driver would take for it, where that is more.
CUresult refuse(const Place& place, std::uint64_t bytes, const ledger::Booked& why, const observe::Call& call,
                std::uint64_t taken = 0) noexcept;

// Whether the row may hold `bytes` more: decide() at the instant of the reservation.
[[nodiscard]] ledger::Booked reserve(const Place& place, std::uint64_t bytes) noexcept;
// The same for an allocation of our own, which is no refusal in anybody's report.
[[nodiscard]] ledger::Booked reserve_unseen(const Place& place, std::uint64_t bytes) noexcept;

// Books `bytes` before the driver is asked. `allocate()` is the driver's call; `keep(caller)` remembers what
// it gave, `free()` gives that back where there is no host memory to remember it by.
template <class Allocate, class Keep, class Free>
CUresult charged_at(const Place& place, std::uint64_t bytes, const char* api, const void* caller,
                    Allocate allocate, Keep keep, Free free) noexcept {
  if (const ledger::Booked booked = reserve(place, bytes); !booked.ok())
    return refuse(place, bytes, booked, observe::current(api, caller));
  const CUresult result = allocate();
  if (result != CUDA_SUCCESS) {
    place.seen->ledger->cancel(place.row, bytes);
    return result;
  }
  if (!keep(observe::current(api, caller).caller)) {
    free();
    place.seen->ledger->cancel(place.row, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return result;
}

// The same where the current context's memory is allocated; `address()` reads where, or by which key it is
// known.
template <class Allocate, class Address>
CUresult charged(std::uint64_t bytes, const char* api, const void* caller, Allocate allocate, Address address,
                 CUresult (*free)(std::uint64_t)) noexcept {
  const std::optional<Place> place = place_of_current_context();
  if (!place) return allocate();  // the driver's own answer
  return charged_at(
      *place, bytes, api, caller, allocate,
      [&](const void* site) {
        return place->seen->ledger->commit(address(), {place->row, bytes, place->context, 0, site});
      },
      [&] { free(address()); });
}

// A holding is gone: if it was of a pool, the pool has one allocation less (stores.h).
void note_freed(const ledger::Holding& holding) noexcept;

// `free()` is the driver's call.
template <class Free>
CUresult freed(std::uint64_t address, Free free) noexcept {
  Visible* seen = visible();
  const std::optional<ledger::Holding> holding =
      seen != nullptr && address != 0 ? seen->ledger->take(address) : std::nullopt;
  const CUresult result = free();
  if (!holding) return result;
  if (result == CUDA_SUCCESS) {
    seen->ledger->release(*holding);
    note_freed(*holding);
  } else {
    seen->ledger->put_back(address, *holding);
  }
  return result;
}

}  // namespace gpufence::hooks
