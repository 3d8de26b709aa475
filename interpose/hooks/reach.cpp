// See reach.h.
#include "hooks/reach.h"

#include <array>

namespace gpufence::hooks {
namespace {

USES(cuPointerGetAttributes);
USES(cuDeviceCanAccessPeer);

constexpr int kMostDevices = 64;  // CUDA itself knows no more in one process
constexpr unsigned kBlock = 21;   // 2 MiB

// Block number and answer in one word: tag << 8 | (device + 2), 1 for host memory, 0 for nothing known.
constinit std::array<std::atomic<std::uint64_t>, 1024> blocks{};
constinit std::atomic<std::uint64_t> reach[kMostDevices]{};  // bit: owner

struct Told {
  int device = -1;
  bool host = false;
};

Told ask(CUdeviceptr address) noexcept {
  unsigned int type = 0;
  unsigned int managed = 0;
  int ordinal = -1;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &managed, &ordinal};
  if (real<&::cuPointerGetAttributes>(3, which, values, address) != CUDA_SUCCESS) return {-1, true};
  if (managed != 0) return {-1, false};
  return type == CU_MEMORYTYPE_DEVICE ? Told{ordinal, false} : Told{-1, true};
}

}  // namespace

int device_of(CUdeviceptr address) noexcept {
  const std::uint64_t tag = address >> kBlock;
  std::atomic<std::uint64_t>& place = blocks[(tag ^ tag >> 10) % blocks.size()];
  const std::uint64_t known = place.load(std::memory_order_relaxed);
  if (known != 0 && known >> 8 == tag) return static_cast<int>(known & 0xff) - 2;
  const Told told = ask(address);
  if (told.device >= 0 && told.device < kMostDevices)
    place.store(tag << 8 | static_cast<std::uint64_t>(told.device + 2), std::memory_order_relaxed);
  else if (told.host)
    place.store(tag << 8 | 1, std::memory_order_relaxed);
  return told.device;
}

int device_of_now(CUdeviceptr address) noexcept {
  const Told told = ask(address);
  if (told.device >= 0 && told.device < kMostDevices) {
    const std::uint64_t tag = address >> kBlock;
    blocks[(tag ^ tag >> 10) % blocks.size()].store(tag << 8 | static_cast<std::uint64_t>(told.device + 2),
                                                    std::memory_order_relaxed);
  }
  return told.device;
}

void forget_owners_of(CUdeviceptr address, std::size_t bytes) noexcept {
  const std::uint64_t first = address >> kBlock, last = (address + bytes) >> kBlock;
  if (last - first >= blocks.size()) {
    for (auto& place : blocks) place.store(0, std::memory_order_relaxed);
    return;
  }
  for (std::uint64_t tag = first; tag <= last; ++tag)
    blocks[(tag ^ tag >> 10) % blocks.size()].store(0, std::memory_order_relaxed);
}

bool reaches(int device, int owner) noexcept {
  if (device == owner || device < 0 || owner < 0 || device >= kMostDevices || owner >= kMostDevices)
    return true;
  return (reach[device].load(std::memory_order_relaxed) >> owner & 1) != 0;
}

bool usable_here(CUdeviceptr address) noexcept {
  CUdeviceptr here = 0;
  return real<&::cuPointerGetAttribute>(&here, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address) == CUDA_SUCCESS;
}

void note_peers(int device, int owner, bool enabled) noexcept {
  if (device < 0 || owner < 0 || device >= kMostDevices || owner >= kMostDevices) return;
  const std::uint64_t bit = std::uint64_t{1} << owner;
  if (enabled)
    reach[device].fetch_or(bit, std::memory_order_relaxed);
  else
    reach[device].fetch_and(~bit, std::memory_order_relaxed);
}

std::string peer_text(int device, int owner) {
  int can = 0;
  const bool possible = real<&::cuDeviceCanAccessPeer>(&can, device, owner) == CUDA_SUCCESS && can != 0;
  return "peer access " + std::to_string(device) + "→" + std::to_string(owner) + " not enabled (" +
         (possible ? "possible" : "impossible") + ")";
}

std::string allocation_text(const Visible& seen, CUdeviceptr address) {
  CUdeviceptr base = 0;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  void* values[] = {&base};
  if (real<&::cuPointerGetAttributes>(1, which, values, address) != CUDA_SUCCESS) return {};
  const std::optional<ledger::Holding> holding = seen.ledger->find(base);
  if (!holding || holding->site == nullptr) return {};
  return ", allocated at " + observe::site_text(holding->site);
}

}  // namespace gpufence::hooks
