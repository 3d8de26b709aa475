// How GPUs, sockets and processors lie to each other. GPUs of one NUMA node meet at its host bridges, others
// at the link between the sockets; whose memory a GPU reaches is the machine's word (machine.h, peers). Which
// processors belong to a node is not described: every one is near every GPU.
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "gpus.h"

using namespace gpufence::sim;

namespace {

nvmlGpuTopologyLevel_t meeting_place(const Gpu& one, const Gpu& other) {
  if (&one == &other) return NVML_TOPOLOGY_INTERNAL;
  return one.numa_node == other.numa_node ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
}

// A count of 0 asks how many there are; else as many are given as there is room for.
nvmlReturn_t give(const std::vector<nvmlDevice_t>& set, unsigned* count, nvmlDevice_t* devices) {
  if (*count == 0) {
    *count = static_cast<unsigned>(set.size());
    return NVML_SUCCESS;
  }
  *count = std::min(*count, static_cast<unsigned>(set.size()));
  std::copy_n(set.begin(), *count, devices);
  return NVML_SUCCESS;
}

bool room(const unsigned* count, nvmlDevice_t* const* devices) {
  return count != nullptr && (*count == 0 || *devices != nullptr);
}

unsigned processors() {
  return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
}

}  // namespace

nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu& gpu, size_t) {
    *out = static_cast<unsigned>(gpu.numa_node);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long* nodes,
                                         nvmlAffinityScope_t) {
  return with_gpu(device, words > 0 && nodes != nullptr, [&](const Gpu& gpu, size_t) {
    constexpr unsigned kBits = 8 * sizeof(unsigned long);
    const auto node = static_cast<unsigned>(gpu.numa_node);
    std::fill(nodes, nodes + words, 0ul);
    if (node / kBits < words) nodes[node / kBits] |= 1ul << (node % kBits);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long* set) {
  return with_gpu(device, words > 0 && set != nullptr, [&](const Gpu&, size_t) {
    constexpr unsigned kBits = 8 * sizeof(unsigned long);
    std::fill(set, set + words, 0ul);
    for (unsigned cpu = 0; cpu < std::min(processors(), words * kBits); ++cpu)
      set[cpu / kBits] |= 1ul << (cpu % kBits);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                                 nvmlGpuTopologyLevel_t* out) {
  return with_gpu(one, out != nullptr, [&](const Gpu& first, size_t) {
    return with_gpu(other, true, [&](const Gpu& second, size_t) {
      *out = meeting_place(first, second);
      return NVML_SUCCESS;
    });
  });
}
nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level,
                                              unsigned int* count, nvmlDevice_t* devices) {
  return with_gpu(device, room(count, &devices), [&](const Gpu& gpu, size_t) {
    std::vector<nvmlDevice_t> set;
    const auto& gpus = this_machine().gpus;
    for (size_t i = 0; i < gpus.size(); ++i)
      if (&gpus[i] != &gpu && meeting_place(gpu, gpus[i]) == level) set.push_back(handle_of(i));
    return give(set, count, devices);
  });
}
nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpu, unsigned int* count, nvmlDevice_t* devices) {
  return call(room(count, &devices) && cpu < processors(), [&] {
    std::vector<nvmlDevice_t> set;
    for (size_t i = 0; i < this_machine().gpus.size(); ++i) set.push_back(handle_of(i));
    return give(set, count, devices);
  });
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t what,
                                    nvmlGpuP2PStatus_t* out) {
  return with_gpu(one, out != nullptr && what < NVML_P2P_CAPS_INDEX_UNKNOWN, [&](const Gpu& first, size_t) {
    return with_gpu(other, true, [&](const Gpu& second, size_t index) {
      const bool reaches = &first == &second || (first.peers >> index & 1) != 0;
      const bool by_link = first.nvlink && second.nvlink;
      *out = reaches && (what != NVML_P2P_CAPS_INDEX_NVLINK || by_link) ? NVML_P2P_STATUS_OK
                                                                        : NVML_P2P_STATUS_NOT_SUPPORTED;
      return NVML_SUCCESS;
    });
  });
}
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t* out) {
  return with_gpu(device, out != nullptr && link < NVML_NVLINK_MAX_LINKS, [&](const Gpu& gpu, size_t) {
    if (!gpu.nvlink) return NVML_ERROR_NOT_SUPPORTED;
    *out = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  });
}

// No GPU is left out, and there are no S-class boxes.
nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int* out) {
  return call(out != nullptr, [&] {
    *out = 0;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlUnitGetCount(unsigned int* out) {
  return call(out != nullptr, [&] {
    *out = 0;
    return NVML_SUCCESS;
  });
}
