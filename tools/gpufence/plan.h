// What a run will be: the view, the caps, what decides each, and the environment that says so to the core. A
// value made of values: the options, the environment, what NVML told. Nothing is asked, started or changed
// here, so that
// --dry-run and the run itself cannot differ.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "policies/error.h"
#include "policies/gpu.h"
#include "policies/remap.h"
#include "policies/selector.h"
#include "policies/size.h"
#include "tools/gpufence/cuda_order.h"
#include "tools/gpufence/environment.h"
#include "tools/gpufence/host.h"
#include "tools/gpufence/run_options.h"

namespace gpufence::command {

// CUDA's own order, as UUIDs; asked only if the answer matters.
using AskOrder = std::function<tl::expected<std::vector<std::string>, std::string>(Order)>;

// One kind of cap: what this command line asks and what it came into.
struct Cap {
  std::string option;    // "--gpu-mem"
  std::string variable;  // "GPUFENCE_GPU_MEM"
  std::optional<policies::CapSpec> own;
  std::optional<policies::CapSpec> inherited;  // positions already those of this run's view
  policies::CapSpec rules;                     // both together
  std::string inherited_from{};                // "inherited GPUFENCE_GPU_MEM", "--env GPUFENCE_GPU_MEM"

  // The option or variable that the cap at this position comes from.
  [[nodiscard]] std::string decided_by(int position, std::uint64_t card_total) const;
};

struct Plan {
  std::optional<NoHost> no_host;  // why there are no GPUs to speak of
  std::vector<policies::Gpu> machine;
  std::optional<std::vector<std::size_t>> view;  // asked for here; indices into machine
  std::optional<policies::Ceiling> ceiling;
  // What CUDA will number 0, 1, …, as far as it could be told, and what decides it.
  std::optional<std::vector<std::size_t>> visible;
  std::string visible_by;
  std::string numbering = "host";
  Cap run_cap{"--gpu-mem", "GPUFENCE_GPU_MEM", {}, {}, {}};
  Cap process_cap{"--gpu-mem-per-process", "GPUFENCE_GPU_MEM_PER_PROCESS", {}, {}, {}};
  std::optional<policies::Remap> remap;
  std::string remap_by;  // "--remap", "GPUFENCE_REMAP"
  // In this order; no value: the variable is removed.
  std::vector<std::pair<std::string, std::optional<std::string>>> settings;
  std::string needs_fence;  // the option or variable that can't do without; empty: nothing
  std::vector<policies::Error> warnings;
};

// Every error ends the run with 125.
[[nodiscard]] tl::expected<Plan, policies::Error> make_plan(const RunOptions& options,
                                                            const Environment& environment,
                                                            const tl::expected<Host, NoHost>& host,
                                                            const AskOrder& ask_order);

// The GPUs that may be chosen from, if the environment limits them: an outer run's view, or a mask, read in
// the order that CUDA_DEVICE_ORDER says. `warning` is set if the mask ends before its last entry.
[[nodiscard]] tl::expected<std::optional<policies::Ceiling>, policies::Error> read_ceiling(
    const Environment& environment, const std::vector<policies::Gpu>& machine, const AskOrder& ask_order,
    bool ignore_mask, std::optional<policies::Error>& warning);

}  // namespace gpufence::command
