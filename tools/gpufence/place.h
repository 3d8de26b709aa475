// Where the pieces of this installation are. Everything is found from the executable's own place, so that a
// build tree, an installed tree and a copy of either work without any path being compiled in.
#pragma once

#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "tools/gpufence/command.h"

namespace gpufence::command {

// The directory in which `gpufence` lies, links resolved; empty when /proc is not there.
[[nodiscard]] std::string own_directory();

// libgpufence.so, the gate, with its core beside it, both such that ld.so will load them. Status 126: they
// are not there or not sound, so nothing can be fenced; 125: they lie where ld.so can't take them from.
[[nodiscard]] tl::expected<std::string, Refusal> find_gate(const std::string& bin);

// The directory of the simulated driver, runtime and NVML.
[[nodiscard]] std::optional<std::string> find_simulation(const std::string& bin);

}  // namespace gpufence::command
