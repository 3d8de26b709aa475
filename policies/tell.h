// What a program is told about the memory of a capped GPU: total is the cap or the card, used is what counts
// against the cap, free the least that the cap or the card has left. Pure. used + free never exceeds total,
// whatever the card says meanwhile.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpufence::policies {

// Bytes of one GPU.
struct Memory {
  std::uint64_t total = 0, used = 0, free = 0;
  bool operator==(const Memory&) const = default;
};

// `cap` is UINT64_MAX where nothing caps; `held` is what its scope holds under it; `left` the least that any
// cap has left.
[[nodiscard]] inline Memory tell(const Memory& card, std::uint64_t cap, std::uint64_t held,
                                 std::uint64_t left = UINT64_MAX) {
  Memory told;
  told.total = std::min(card.total, cap);
  told.used = std::min(held, told.total);
  told.free = std::min({card.free, told.total - told.used, left});
  return told;
}

}  // namespace gpufence::policies
