// In which order CUDA itself numbers the GPUs. NVML can't tell, NVIDIA doesn't document what "fastest" means,
// and cuInit in this process would leave the program a used-up driver: so a short-lived child is asked, and
// only when the answer matters.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "tools/gpufence/environment.h"

namespace gpufence::command {

enum class Order { pci, fastest };

// The value of CUDA_DEVICE_ORDER.
[[nodiscard]] const char* name_of(Order order);

// UUIDs by CUDA ordinal, with no mask in force. `driver` is a path, or a name for the dynamic loader. The
// error is a reason, "cuInit: no CUDA-capable device is detected".
[[nodiscard]] tl::expected<std::vector<std::string>, std::string> ask_cuda_order(
    Order order, const Environment& environment, const std::string& driver);

// The child's side: the hidden subcommand, with the driver as its argument.
inline constexpr const char* kCudaOrderCommand = "--internal-cuda-order";
int answer_cuda_order(std::span<const std::string> words);

}  // namespace gpufence::command
