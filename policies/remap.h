// What a hard-coded ordinal means instead, in the words of --remap: "1=0,3=2", or "wrap" for every ordinal
// modulo the number of GPUs. Pairs are looked up once, never followed: "0=1,1=0" swaps two GPUs. An ordinal
// that no pair names means itself. Negative numbers are no ordinals (cudaCpuDeviceId is -1) and mean
// themselves too.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "policies/error.h"

namespace gpufence::policies {

struct Remap {
  bool wrap = false;                       // then there are no pairs
  std::vector<std::pair<int, int>> pairs;  // what the program says → the ordinal it means; by the former

  // CUDA's ordinal of what the program calls `asked`. `gpus`: how many there are; without any, wrap changes
  // nothing.
  [[nodiscard]] int real(int asked, int gpus) const noexcept;
  // The other way: what the program calls CUDA's ordinal `real`. Of several names `last`, if it is one (what
  // was asked for last; -1: nothing), else the ordinal itself, if it is one, else the smallest. A GPU that no
  // name leads to keeps its ordinal.
  [[nodiscard]] int told(int real, int gpus, int last) const noexcept;
  // The largest ordinal that a pair leads to; -1 for wrap.
  [[nodiscard]] int highest() const noexcept;
  bool operator==(const Remap&) const = default;
};

// The error's `what` is the pair at fault.
[[nodiscard]] tl::expected<Remap, Error> parse_remap(std::string_view text);
// Reads back as the same value.
[[nodiscard]] std::string to_text(const Remap& remap);

}  // namespace gpufence::policies
