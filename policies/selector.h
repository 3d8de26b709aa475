// LIST, the way to name GPUs: `2,0` `0-3` `3-0` `host:3` `GPU-8f3a` `0000:81:00.0` `name:A100` `cc:8.0+`
// `mem:40GiB+` `numa:0` `all` `none`, and a leading `-` that takes away. The order of the list is the order
// of the CUDA ordinals. Whatever can't be honoured to the letter is an error that lists what there is: a GPU
// left out in silence is how jobs end up on the wrong card.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "policies/error.h"
#include "policies/gpu.h"

namespace gpufence::policies {

// GPUs that were allotted before: no entry may name one outside, and `all` means all of it.
struct Ceiling {
  std::string source;             // "CUDA_VISIBLE_DEVICES=1,2", for the error
  std::vector<std::size_t> gpus;  // indices into the machine, in the order in which it was written
  // Inside a view numbering: the GPUs of that view, in which plain numbers are positions.
  std::optional<std::vector<std::size_t>> positions{};
  std::string origin = "which was inherited";
  std::string way_out{};  // what leaves the ceiling, "--ignore-mask"; empty if nothing does
};

// Indices into `machine` (every GPU of the host, by host index) in the order of the view. `option` names the
// option or variable in errors.
[[nodiscard]] tl::expected<std::vector<std::size_t>, Error> select_gpus(
    std::string_view list, std::span<const Gpu> machine, const Ceiling* ceiling = nullptr,
    std::string_view option = "--devices");

}  // namespace gpufence::policies
