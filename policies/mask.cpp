// See the header for what is documented and what is taken from PyTorch's parser.
#include "policies/mask.h"

#include <algorithm>

namespace gpufence::policies {
namespace {

std::string_view strip(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

// The index of the GPU that one entry names, or why it names none.
struct Named {
  std::size_t gpu = 0;
  std::optional<MaskProblem::Kind> problem{};
};

Named look_up(std::string_view entry, std::span<const std::string> uuids) {
  if (is_number(entry)) {
    std::size_t index = 0;
    for (const char digit : entry) {
      index = index * 10 + static_cast<std::size_t>(digit - '0');
      if (index >= uuids.size()) return {.problem = MaskProblem::Kind::beyond};
    }
    return {.gpu = index};
  }
  if (begins(entry, "MIG-")) return {.problem = MaskProblem::Kind::unknown};
  // A bare "GPU-" is the beginning of every UUID, but names nothing.
  if (!begins(entry, "GPU-") || entry.size() == 4) return {.problem = MaskProblem::Kind::malformed};
  Named found{.problem = MaskProblem::Kind::unknown};
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    if (!begins(uuids[i], entry)) continue;
    if (!found.problem) return {.problem = MaskProblem::Kind::ambiguous};
    found = {.gpu = i};
  }
  return found;
}

}  // namespace

MaskReading read_mask(std::string_view mask, std::span<const std::string> uuids) {
  MaskReading reading;
  if (strip(mask).empty()) return reading;
  for (std::size_t position = 0;; ++position) {
    const std::size_t comma = mask.find(',');
    const std::string_view entry = strip(mask.substr(0, comma));
    if (entry == "-1") return reading;
    // "0,1," says all it has to say before the last comma.
    if (entry.empty() && comma == std::string_view::npos && position > 0) return reading;
    const Named named = look_up(entry, uuids);
    if (named.problem) {
      reading.ended_by = MaskProblem{*named.problem, std::string(entry), position};
      return reading;
    }
    if (std::find(reading.gpus.begin(), reading.gpus.end(), named.gpu) != reading.gpus.end()) {
      reading.gpus.clear();
      reading.ended_by = MaskProblem{MaskProblem::Kind::repeated, std::string(entry), position};
      return reading;
    }
    reading.gpus.push_back(named.gpu);
    if (comma == std::string_view::npos) return reading;
    mask.remove_prefix(comma + 1);
  }
}

bool names_numbers(std::string_view mask) {
  while (true) {
    const std::size_t comma = mask.find(',');
    const std::string_view entry = strip(mask.substr(0, comma));
    if (entry == "-1") return false;
    if (is_number(entry)) return true;
    if (comma == std::string_view::npos) return false;
    mask.remove_prefix(comma + 1);
  }
}

std::string describe(const MaskProblem& problem, std::size_t machine_size) {
  const std::string entry = "'" + problem.entry + "'";
  switch (problem.kind) {
    case MaskProblem::Kind::malformed:
      return entry + " is neither a number nor a UUID";
    case MaskProblem::Kind::repeated:
      return entry + " names a GPU again, which leaves none";
    case MaskProblem::Kind::beyond:
      return machine_size == 0 ? entry + " is asked for, but there is no GPU"
                               : entry + " is past the last GPU, " + std::to_string(machine_size - 1);
    case MaskProblem::Kind::unknown:
      return entry + " is the UUID of no GPU here";
    case MaskProblem::Kind::ambiguous:
      return entry + " is the beginning of more than one UUID";
  }
  return entry + " is invalid";
}

}  // namespace gpufence::policies
