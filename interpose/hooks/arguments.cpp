// See arguments.h. What parameters a kernel has the driver tells (since 12.4); structs are passed by value,
// so every word of them may be a pointer. The layout is kept with the handle, so that a handle given out
// again for another kernel never has the parameters of the first.
#include "hooks/arguments.h"

#include <cstring>
#include <mutex>

#include "hooks/reach.h"
#include "observe/stubs.h"

namespace gpufence::hooks {
namespace {

USES(cuFuncGetParamInfo);
USES(cuKernelGetParamInfo);

struct Parameter {
  std::uint32_t offset, size;  // bytes
};
constexpr std::size_t kMostParameters = 4096 / 4;

// "count, (offset, size)…" as bytes, so that equal layouts are kept once.
const char* layout_of(const void* function, bool is_function, observe::Owners& known) {
  std::string bytes(sizeof(std::uint32_t), '\0');
  std::uint32_t count = 0;
  for (; count < kMostParameters; ++count) {
    std::size_t offset = 0;
    std::size_t size = 0;
    auto* handle = const_cast<void*>(function);
    const CUresult result =
        is_function ? real<&::cuFuncGetParamInfo>(static_cast<CUfunction>(handle), count, &offset, &size)
                    : real<&::cuKernelGetParamInfo>(static_cast<CUkernel>(handle), count, &offset, &size);
    if (result != CUDA_SUCCESS) break;  // past the last one, or a driver that doesn't tell
    const Parameter parameter{static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)};
    bytes.append(reinterpret_cast<const char*>(&parameter), sizeof parameter);
  }
  std::memcpy(bytes.data(), &count, sizeof count);
  return known.interned(bytes);
}

// Device addresses of every driver lie here; small numbers, sizes and most pairs of floats do not.
bool may_be_address(std::uint64_t word) noexcept {
  return word >= std::uint64_t{1} << 30 && word < std::uint64_t{1} << 48;
}

struct Suspect {
  bool is_set = false;
  observe::Call call{};
  int device = -1, owner = -1;
  std::string words;
};
constinit std::mutex suspect_lock{};
Suspect& last_suspect() {
  static Suspect& suspect = *new Suspect;  // leaked: calls may come until the process is gone
  return suspect;
}

void say_suspect(const char* kernel, std::uint32_t number, CUdeviceptr address, int device, int owner,
                 const observe::Call& call) noexcept {
  const Visible* seen = visible();
  if (seen == nullptr) return;
  try {
    const std::string words = "argument " + std::to_string(number) + " of kernel " +
                              (kernel != nullptr ? observe::kernel_text(kernel) : std::string("(unnamed)")) +
                              " is memory of " + gpu_text(*seen, owner) + allocation_text(*seen, address) +
                              "; launched on " + gpu_text(*seen, device) + "; " + peer_text(device, owner);
    explain({.code = "GF205",
             .severity = journal::Severity::info,
             .call = call,
             .device = device,
             .other_device = owner,
             .subject = (kernel != nullptr ? kernel : std::string()) + '/' + std::to_string(number)},
            [&](const Visible&) { return words; });
    const std::lock_guard guard(suspect_lock);
    last_suspect() = {true, call, device, owner, words};
  } catch (...) {
  }
}

}  // namespace

void check_arguments(const void* function, CUstream stream, void** params, void** extra, const char* api,
                     const void* caller) noexcept {
  observe::Owners* known = owners();
  if (known == nullptr || (params == nullptr && extra == nullptr)) return;
  std::optional<observe::Owner> code = known->find(observe::Kind::function, function);
  if (!code) return;
  if (code->layout == nullptr) {
    try {
      code->layout = layout_of(function, code->device >= 0, *known);
    } catch (...) {
    }
    if (code->layout == nullptr) return;
    known->remember(observe::Kind::function, function, *code);
  }
  const StreamPlace place = place_of_stream(stream);
  const int device = code->device >= 0 ? code->device : place.device;
  if (device < 0) return;

  const char* packed = nullptr;
  for (void** at = extra; params == nullptr && at != nullptr && *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) packed = static_cast<const char*>(at[1]);
  }
  if (params == nullptr && packed == nullptr) return;
  std::uint32_t count = 0;
  std::memcpy(&count, code->layout, sizeof count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Parameter parameter{};
    std::memcpy(&parameter, code->layout + sizeof count + i * sizeof parameter, sizeof parameter);
    const char* from = params != nullptr ? static_cast<const char*>(params[i]) : packed + parameter.offset;
    if (from == nullptr) return;
    for (std::uint32_t at = 0; at + 8 <= parameter.size; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, from + at, sizeof word);
      if (!may_be_address(word)) continue;
      int owner = device_of(word);
      if (owner < 0 || owner == device || reaches(device, owner)) continue;
      owner = device_of_now(word);
      if (owner < 0 || owner == device || reaches(device, owner) || usable_here(word)) continue;
      say_suspect(
          code->name, i + 1, word, device, owner,
          observe::above_launch_stubs(observe::outside_cuda(observe::current(api, caller)), code->name));
    }
  }
}

void explain_fault(CUresult result) noexcept {
  if ((result != CUDA_ERROR_ILLEGAL_ADDRESS && result != CUDA_ERROR_LAUNCH_FAILED) ||
      (rules().needs & dispatch::kPointers) == 0)
    return;
  try {
    Suspect suspect;
    {
      const std::lock_guard guard(suspect_lock);
      std::swap(suspect, last_suspect());
    }
    if (!suspect.is_set) return;
    explain({.code = "GF205",
             .call = suspect.call,
             .device = suspect.device,
             .other_device = suspect.owner,
             .once = "failed/" + std::to_string(reinterpret_cast<std::uintptr_t>(suspect.call.caller)) + '/' +
                     suspect.words},
            [&](const Visible&) { return suspect.words + "; then CUDA met an illegal address"; });
  } catch (...) {
  }
}

}  // namespace gpufence::hooks
