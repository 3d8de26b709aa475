// How CUDA reads CUDA_VISIBLE_DEVICES: left to right, the list ends at the first entry that is no GPU, and a
// repeated GPU leaves nothing at all. Where NVIDIA's documentation is silent (duplicates, blanks) this
// follows PyTorch's parser, which was written against the driver; tests/device asks a real one. Plain numbers
// count in the order that CUDA_DEVICE_ORDER asks for: the caller passes the GPUs in that order.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpufence::policies {

struct MaskProblem {
  enum class Kind {
    malformed,  // neither a number nor a UUID
    repeated,   // a GPU that the list already holds: the whole list is void
    beyond,     // a number past the machine's last GPU
    unknown,    // a UUID (or MIG name) that no GPU here has
    ambiguous,  // the beginning of more than one UUID
  };
  Kind kind = Kind::malformed;
  std::string entry;         // as written, blanks stripped
  std::size_t position = 0;  // of the entry in the mask, counted from 0

  bool operator==(const MaskProblem&) const = default;
};

struct MaskReading {
  std::vector<std::size_t> gpus;        // indices into the list that was passed, in the mask's order
  std::optional<MaskProblem> ended_by;  // none if the mask was read to its end, or to the customary -1

  bool operator==(const MaskReading&) const = default;
};

// `uuids` ("GPU-…") of the whole machine, in the enumeration order that applies. An empty mask is no GPU;
// an unset variable is every GPU and not a matter of this function.
[[nodiscard]] MaskReading read_mask(std::string_view mask, std::span<const std::string> uuids);

// Whether plain numbers stand in the mask, so that the enumeration order matters.
[[nodiscard]] bool names_numbers(std::string_view mask);

// "repeats GPU 1", "asks for GPU 9, but the last one is 3": why the list ended, for people.
[[nodiscard]] std::string describe(const MaskProblem& problem, std::size_t machine_size);

}  // namespace gpufence::policies
