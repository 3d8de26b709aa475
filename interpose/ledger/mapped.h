// Physical memory of cuMemCreate: held by its handles and by its mappings, whichever goes last. Handles are
// the driver's numbers and come back for other memory; what a mapping holds is the memory, not the number. As
// in a free, what goes is taken out before the driver is asked, since another thread may get the same number
// or address at once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ledger/ledger.h"

namespace gpufence::ledger {

class Mapped {
 public:
  struct Memory {
    Holding holding;
    std::uint64_t references = 1, mappings = 0;
  };
  struct Place {
    std::uint64_t address = 0, bytes = 0;
    std::shared_ptr<Memory> memory;
  };

  // False: out of host memory; the caller gives the memory back.
  [[nodiscard]] bool created(std::uint64_t handle, const Holding& holding) noexcept;
  // The memory that is mapped at this address got one more reference by this handle.
  void retained(std::uint64_t handle, std::uint64_t address) noexcept;
  // A reference by this handle is about to go. Null: it is not known here (imported, or of the host).
  [[nodiscard]] std::shared_ptr<Memory> releasing(std::uint64_t handle) noexcept;
  void not_released(std::uint64_t handle, std::shared_ptr<Memory> memory) noexcept;
  // It went: what is held no more, if that was the last of it.
  [[nodiscard]] std::optional<Holding> released(const std::shared_ptr<Memory>& memory) noexcept;

  void mapped(std::uint64_t handle, std::uint64_t address, std::uint64_t bytes) noexcept;
  // Everything that is mapped in this range is about to go.
  [[nodiscard]] std::vector<Place> unmapping(std::uint64_t address, std::uint64_t bytes) noexcept;
  void not_unmapped(std::vector<Place> places) noexcept;
  [[nodiscard]] std::optional<Holding> unmapped(const Place& place) noexcept;

  // Nothing gives it back before the process ends: it is mapped where no address says it, into an array.
  void kept(std::uint64_t handle) noexcept;

  void forget_after_fork() noexcept;

 private:
  std::mutex lock_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Memory>> handles_;  // of those with references
  std::map<std::uint64_t, Place> places_;
};

}  // namespace gpufence::ledger
