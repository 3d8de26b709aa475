// Occupancy, by NVIDIA's name for it: how many blocks fit on a multiprocessor, and which block size fills it
// best.
#include "residency.h"

#include <algorithm>

#include "code.h"

namespace gpufence::sim {

ptx::DeviceTraits traits_of(const Device& device) {
  auto attribute = [&](CUdevice_attribute which) {
    return static_cast<uint32_t>(device_attribute(device, which));
  };
  ptx::DeviceTraits traits;
  traits.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  traits.max_warps_per_multiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / 32;
  traits.max_blocks_per_multiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  traits.shared_bytes_per_multiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  return traits;
}

uint32_t blocks_resident(const ptx::Function& code, unsigned threads, size_t dynamic_shared,
                         const Device& device) {
  if (threads == 0 || threads > 1024 || dynamic_shared > UINT32_MAX) return 0;
  return ptx::blocks_per_multiprocessor(code, threads, static_cast<uint32_t>(dynamic_shared),
                                        traits_of(device));
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

namespace {

template <class Body>
CUresult with_function(const char* name, CUfunction given, Body&& body) {
  return in_context(name, [&](Context& context) {
    std::shared_ptr<Resident> resident;
    const ptx::Function* code = nullptr;
    int most = 0;
    {
      std::lock_guard<std::mutex> held(code_table().lock);
      Function* function = nullptr;
      const CUresult result = resolve(given, context, &function);
      if (result != CUDA_SUCCESS) return result;
      resident = function->module->resident;
      code = function->code;
      function_attribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, *code, *function->settings,
                         function->module->code(), *context.device);
    }
    // Without the lock: the body may call the program back.
    return body(*code, most, *context.device);
  });
}

constexpr unsigned kFlags = CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE;

CUresult active_blocks(const char* name, int* out, CUfunction given, int threads, size_t shared,
                       unsigned flags) {
  return with_function(name, given, [&](const ptx::Function& code, int, const Device& device) {
    if (out == nullptr || threads <= 0 || (flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    *out = static_cast<int>(blocks_resident(code, static_cast<unsigned>(threads), shared, device));
    return CUDA_SUCCESS;
  });
}

CUresult best_block(const char* name, int* grid, int* block, CUfunction given, CUoccupancyB2DSize shared_of,
                    size_t shared, int limit, unsigned flags) {
  return with_function(name, given, [&](const ptx::Function& code, int most, const Device& device) {
    if (grid == nullptr || block == nullptr || limit < 0 || (flags & ~kFlags) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (limit != 0) most = std::min(most, limit);
    int best = 0, best_threads = 0, best_blocks = 0;
    // From the largest down, in warps: of equals the largest block wins.
    for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
      const size_t bytes = shared_of != nullptr ? shared_of(threads) : shared;
      const auto blocks =
          static_cast<int>(blocks_resident(code, static_cast<unsigned>(threads), bytes, device));
      if (blocks * threads <= best) continue;
      best = blocks * threads;
      best_threads = threads;
      best_blocks = blocks;
    }
    *block = best_threads;
    *grid = best_blocks * device.gpu->multiprocessors;
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction given, int threads, size_t shared) {
  return active_blocks(__func__, out, given, threads, shared, 0);
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, CUfunction given, int threads,
                                                              size_t shared, unsigned int flags) {
  return active_blocks(__func__, out, given, threads, shared, flags);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction given,
                                          CUoccupancyB2DSize shared_of, size_t shared, int limit) {
  return best_block(__func__, grid, block, given, shared_of, shared, limit, 0);
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction given,
                                                   CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                                   unsigned int flags) {
  return best_block(__func__, grid, block, given, shared_of, shared, limit, flags);
}

// The most dynamic shared memory with which `blocks` of them still fit side by side.
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* out, CUfunction given, int blocks, int threads) {
  return with_function(__func__, given, [&](const ptx::Function& code, int, const Device& device) {
    if (out == nullptr || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    const auto fits = [&](size_t bytes) {
      return blocks_resident(code, static_cast<unsigned>(threads), bytes, device) >=
             static_cast<unsigned>(blocks);
    };
    if (!fits(0)) return CUDA_ERROR_INVALID_VALUE;
    const int room = device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) -
                     static_cast<int>(code.static_shared_bytes);
    size_t low = 0, high = static_cast<size_t>(std::max(room, 0)) + 1;
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    *out = low;
    return CUDA_SUCCESS;
  });
}

// ---- Clusters ----

namespace {

constexpr unsigned kPortableCluster = 8, kMostCluster = 16;  // blocks (CUDA C++ programming guide)

struct Clustered {
  unsigned blocks = 0;    // that the device holds at once; 0: none
  unsigned required = 0;  // blocks of a cluster, as compiled or set; 0: not said
  unsigned given = 0;     // by the configuration
  unsigned most = 0;
};

unsigned volume(unsigned x, unsigned y, unsigned z) {
  return x * y * z;
}

template <class Body>
CUresult with_clusters(const char* name, CUfunction given, const CUlaunchConfig* config, Body&& body) {
  return in_context(name, [&](Context& current) {
    if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    Stream* stream = nullptr;
    if (const CUresult bad = stream_of(config->hStream, false, current, &stream, InCapture::ignored);
        bad != CUDA_SUCCESS)
      return bad;
    Context& context = *stream->context;
    Clustered found;
    std::lock_guard<std::mutex> held(code_table().lock);
    Function* function = nullptr;
    if (const CUresult bad = resolve(given, context, &function); bad != CUDA_SUCCESS) return bad;
    const auto ask = [&](CUfunction_attribute which) {
      int value = 0;
      function_attribute(&value, which, *function->code, *function->settings, function->module->code(),
                         *context.device);
      return static_cast<unsigned>(value);
    };
    // Zeros where nothing was said.
    found.required = volume(ask(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
                            std::max(1u, ask(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT)),
                            std::max(1u, ask(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)));
    found.most = context.device->gpu->cc_major < 9                               ? 1
                 : ask(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) != 0 ? kMostCluster
                                                                                 : kPortableCluster;
    for (unsigned i = 0; i < config->numAttrs; ++i)
      if (const CUlaunchAttribute& attribute = config->attrs[i];
          attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        found.given =
            volume(attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z);
    const unsigned threads = volume(config->blockDimX, config->blockDimY, config->blockDimZ);
    if (threads == 0 || threads > ask(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK))
      return CUDA_ERROR_INVALID_VALUE;
    found.blocks = blocks_resident(*function->code, threads, config->sharedMemBytes, *context.device) *
                   static_cast<unsigned>(context.device->gpu->multiprocessors);
    return body(found);
  });
}

}  // namespace

// "Returns the maximum number of clusters that could co-exist": how multiprocessors are grouped is not
// simulated, so that it is what their sum holds.
CUresult cuOccupancyMaxActiveClusters(int* out, CUfunction given, const CUlaunchConfig* config) {
  return with_clusters(__func__, given, config, [&](const Clustered& found) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const unsigned size = found.given != 0 ? found.given : found.required;
    if (size == 0 || size > found.most || (found.required != 0 && size != found.required))
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    *out = static_cast<int>(found.blocks / size);
    return CUDA_SUCCESS;
  });
}
CUresult cuOccupancyMaxPotentialClusterSize(int* out, CUfunction given, const CUlaunchConfig* config) {
  return with_clusters(__func__, given, config, [&](const Clustered& found) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = static_cast<int>(found.required != 0 ? found.required : std::min(found.most, found.blocks));
    return CUDA_SUCCESS;
  });
}
