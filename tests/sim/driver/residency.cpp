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
