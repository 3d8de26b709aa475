// The entry-point chapter: look-ups through the driver. Routed by the address that the driver returns, since
// only it knows which version of a name it gives out; guessing from name and version is how wrong ABIs are
// handed out.
#include "dispatch/dispatch.h"
#include "hooks/rules.h"

namespace gpufence::hooks {
namespace {

CUresult handed_on(CUresult result, const char* symbol, void** pfn, int version) noexcept {
  if (result != CUDA_SUCCESS || pfn == nullptr || *pfn == nullptr) return result;
  const dispatch::Routed routed = dispatch::routed(symbol, *pfn);
  *pfn = routed.address;
  if (routed.unknown_hook) {
    say(
        "GF501", journal::Severity::warning,
        [&] {
          return "this driver has a " + std::string(symbol) + " for CUDA " + std::to_string(version / 1000) +
                 "." + std::to_string(version % 1000 / 10) +
                 " that gpufence doesn't know: calls of it are not fenced";
        },
        symbol);
  }
  return result;
}

}  // namespace

HOOK(cuGetProcAddress_v2, dispatch::kFence,
     (const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
      CUdriverProcAddressQueryResult* symbolStatus)) {
  return handed_on(real<&::cuGetProcAddress_v2>(symbol, pfn, cudaVersion, flags, symbolStatus), symbol, pfn,
                   cudaVersion);
}

HOOK(cuGetProcAddress, dispatch::kFence,
     (const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags)) {
  return handed_on(real<&::cuGetProcAddress>(symbol, pfn, cudaVersion, flags), symbol, pfn, cudaVersion);
}

}  // namespace gpufence::hooks
