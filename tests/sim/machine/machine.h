// The description of a set of simulated GPUs, as a value. The driver, NVML and tools that explain a machine
// all read it from GPUFENCE_SIM with the same function, so that they agree on UUIDs, PCI ids and order. It
// describes; what is in use at the moment is occupancy.h's affair.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace gpufence::sim {

using Uuid = std::array<unsigned char, 16>;

// A GPU, or an instance that one is split into (MIG).
struct Gpu {
  std::string name;
  uint64_t memory_bytes = 0;
  int cc_major = 0;  // compute capability
  int cc_minor = 0;
  int multiprocessors = 0;
  Uuid uuid{};
  unsigned pci_domain = 0;
  unsigned pci_bus = 0;
  unsigned pci_device = 0;
  int numa_node = 0;
  uint64_t context_bytes = 0;  // what one context costs on this GPU
  int fastest_rank = -1;       // place in CUDA's default order, 0 first; -1: from capability and size
  bool nvlink = false;         // of the model: such GPUs reach each other unless the machine says otherwise
  uint64_t peers = 0;          // whose memory it reaches, a bit for each host index
  uint64_t fail_alloc_at = 0;  // fault: the n-th allocation of a process answers out of memory; 0: none
  uint64_t lost_at = 0;        // fault: it is lost at a process's n-th call on it, and from then on; 0: never

  bool mig = false;            // of a GPU: it is split, and is no device of CUDA's itself
  std::vector<Gpu> instances;  // of such a GPU
  std::string profile;         // of an instance, "3g.40gb"
  size_t parent = 0;           // of an instance: the GPU's host index
  unsigned slices = 0;         // of an instance: of the seven that compute
  unsigned memory_slices = 0;  // the same: of the eight of memory
  unsigned gpu_instance = 0, compute_instance = 0;  // ids, as NVML tells them

  unsigned line = 0, column = 0;  // where its file describes it

  [[nodiscard]] bool is_instance() const { return slices != 0; }
};

// Fault: a call of the driver takes time.
struct Slow {
  std::string call;  // an exported name, "cuMemAlloc_v2"
  uint64_t ns = 0;
};

// Who reaches whose memory directly.
struct Peers {
  enum class Rule { by_model, all, none, groups };
  Rule rule = Rule::by_model;            // GPUs with NVLink and one major compute capability
  std::vector<std::vector<int>> groups;  // of host indices: those of a group reach each other
};

struct Machine {
  std::vector<Gpu> gpus;       // in PCI order: the index is the host index, which NVML counts by
  int driver_version = 13000;  // as cuDriverGetVersion tells it
  Peers peers;                 // what was asked for; Gpu::peers is what came of it
  std::vector<Gpu> instances;  // of all split GPUs, in their order
  std::vector<Slow> slow;
  std::string key;  // 16 hex digits over the whole description: equal machines are one machine

  // What memory is counted by: the GPUs, then the instances.
  [[nodiscard]] size_t units() const { return gpus.size() + instances.size(); }
  [[nodiscard]] const Gpu& unit(size_t index) const {
    return index < gpus.size() ? gpus[index] : instances[index - gpus.size()];
  }
};

inline constexpr size_t kMaxGpus = 64;
inline constexpr size_t kMaxUnits = 256;

// What GPUFENCE_SIM says: "4", "4x80GiB" (or "4×80GiB"), "8xh100", "h100", or the path of a TOML file.
// An error reads "why; what to do".
tl::expected<Machine, std::string> read_machine(std::string_view spec);

// The machine that GPUFENCE_SIM describes; without GPUs when it is unset, empty or wrong. Wrong is said once
// on stderr. Reads the environment at the first call and keeps the answer for the life of the process.
const Machine& this_machine();

// Host indices in CUDA's default order (CUDA_DEVICE_ORDER=FASTEST_FIRST).
std::vector<int> fastest_first(const Machine& machine);

std::string uuid_text(const Uuid& uuid);  // "GPU-51301c2f-…", as NVML prints it
std::string uuid_text(const Gpu& gpu);    // the same, "MIG-51301c2f-…" of an instance
std::string pci_text(const Gpu& gpu);     // "0000:81:00.0"

// For machine_file.cpp: the parts that a TOML file shares with the short forms.
tl::expected<uint64_t, std::string> read_size(std::string_view text);  // "80GiB" → bytes
bool apply_model(Gpu& gpu, std::string_view model);                    // "h100"; false: no such model
std::string model_names();
// Makes an instance of the GPU from the name of its profile; an error reads "why; what to do".
tl::expected<Gpu, std::string> split_off(const Gpu& gpu, std::string_view profile);
void complete(Machine& machine);  // fills PCI ids, NUMA nodes, UUIDs, peers and key where nothing was said
tl::expected<Machine, std::string> read_machine_file(const std::string& path);

}  // namespace gpufence::sim
