// `--sim SPEC`, or GPUFENCE_SIM: where the simulated libraries are, and how a program comes to load them.
#pragma once

#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "policies/error.h"
#include "tools/gpufence/environment.h"

namespace gpufence::command {

struct Simulation {
  std::string spec;       // as the simulated libraries read it; the path of a file is absolute
  std::string directory;  // of libcuda.so.1, libnvidia-ml.so.1 and libcudart.so.13
  std::string name;       // "--sim 4", for errors
};

// Nothing if no simulation is asked for. Puts GPUFENCE_SIM into our own process as well, where the simulated
// NVML reads it. Whether the description is right, NVML tells (host.h).
[[nodiscard]] tl::expected<std::optional<Simulation>, policies::Error> open_simulation(
    const std::optional<std::string>& option, const Environment& environment);

// The simulated libraries first in LD_LIBRARY_PATH, once.
[[nodiscard]] std::string library_path(const Simulation& simulation, const Environment& environment);

}  // namespace gpufence::command
