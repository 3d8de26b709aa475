// How a process stands to the fence: whether it is in it, why not, and what holds there. Made from what
// /proc, the environment and NVML tell; `status` and `inspect PID` print it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "policies/error.h"
#include "policies/gpu.h"
#include "policies/size.h"
#include "tools/gpufence/environment.h"
#include "tools/gpufence/process.h"

namespace gpufence::command {

struct StandingCap {
  std::string option;  // "--gpu-mem", by which it is asked for
  policies::CapSpec caps;
  std::string rules;  // as the core reads it: "1GiB,0=512MiB"
};

// `not_reached`: the fence is loaded, CUDA too, and no call has come from one to the other.
enum class Fenced { no, not_reached, yes };

struct Standing {
  Fenced fenced = Fenced::no;
  std::string why;                     // a clause, for both answers
  std::string remedy;                  // of what is not fenced
  std::string gate;                    // path of what is mapped
  std::vector<policies::Error> notes;  // what doesn't fit: another version, an unknown GPU
  std::string run, name;
  bool has_view = false;
  // What CUDA numbers 0, 1, …, if a view or mask says so and NVML tells; else the UUIDs of the view.
  std::optional<std::vector<policies::Gpu>> visible;
  std::string visible_by;
  std::vector<policies::Gpu> positions;  // what the caps' positions mean, as far as NVML tells
  std::vector<std::string> uuids;
  std::string numbering;
  std::string ledger;  // the directory of its books
  std::optional<std::string> mask, order;
  std::string remap;  // "1=0,3=1" or "wrap"; empty: ordinals are CUDA's own
  std::vector<StandingCap> caps;
  bool denies_on_error = false;
  std::string denies_because;
  std::string simulated;
  bool system_preload = false;  // /etc/ld.so.preload names the gate
  bool required = false;        // /etc/gpufence/require exists
};

// `environment` is the process's own, or what it was at its start.
[[nodiscard]] Standing standing_of(const Process& process, const Environment& environment);

// Rows "view          CUDA 0 = host GPU 2 (…)"; the first is "fenced".
[[nodiscard]] std::string text_of(const Standing& standing);
void add_to(nlohmann::ordered_json& out, const Standing& standing);

}  // namespace gpufence::command
