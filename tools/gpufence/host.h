// The GPUs of this host, as NVML tells them: by host index, without masks, in the world of nvidia-smi. NVML
// is opened at run time, because there need not be a driver, and its answers are checked before they are
// believed: they end up in the environment and in decisions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "policies/error.h"
#include "policies/gpu.h"

namespace gpufence::command {

struct Holder {
  unsigned pid = 0;
  std::optional<std::uint64_t> bytes;  // NVML does not always know
};

struct HostGpu {
  policies::Gpu gpu;       // without a UUID if it doesn't answer
  std::string unreadable;  // why it doesn't
  std::uint64_t used = 0;  // bytes
  std::uint64_t free = 0;
  std::optional<unsigned> utilization;  // percent
  std::vector<Holder> holders;          // processes with a context
};

struct Host {
  std::vector<HostGpu> gpus;  // by host index, without gaps
  std::string driver;         // "580.65.06"

  [[nodiscard]] std::vector<policies::Gpu> identities() const;
};

struct NvmlSource {
  std::string library = "libnvidia-ml.so.1";  // a path, or a name for the dynamic loader
  bool simulated = false;                     // then GPUFENCE_SIM must stand in our own environment
};

// How much to ask: identities are enough for a run.
enum class Detail { identities, occupancy };

// `why` is what the caller's message says after naming what was asked for.
struct NoHost {
  enum class Kind { no_driver, malformed } kind = Kind::no_driver;
  std::string why;
  std::string remedy;
};

[[nodiscard]] tl::expected<Host, NoHost> read_host(const NvmlSource& source, Detail detail);

}  // namespace gpufence::command
