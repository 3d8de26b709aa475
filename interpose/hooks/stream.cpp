// The stream chapter: whose a stream is, and where it was made. What work in it may cross GPUs is CUDA's to
// say: copies may go into any stream, and a stream may wait for any event.
#include "hooks/arguments.h"
#include "hooks/choice.h"
#include "hooks/mask.h"

namespace gpufence::hooks {
namespace {

constexpr unsigned kNeeds = dispatch::kFindings;
using observe::Kind;

CUresult made(CUresult result, const CUstream* stream, const char* api, const void* caller) noexcept {
  check_mask(api, caller);
  if (result == CUDA_SUCCESS && stream != nullptr) remember_made(Kind::stream, *stream, api, caller);
  if (result == CUDA_SUCCESS) note_work(current_device);
  return result;
}

}  // namespace

HOOK(cuStreamCreate, kNeeds, (CUstream * phStream, unsigned int Flags)) {
  return made(real<&::cuStreamCreate>(phStream, Flags), phStream, "cuStreamCreate",
              __builtin_return_address(0));
}
HOOK(cuStreamCreateWithPriority, kNeeds, (CUstream * phStream, unsigned int flags, int priority)) {
  return made(real<&::cuStreamCreateWithPriority>(phStream, flags, priority), phStream,
              "cuStreamCreateWithPriority", __builtin_return_address(0));
}

HOOK(cuStreamDestroy, kNeeds, (CUstream hStream)) {
  return forgotten(Kind::stream, hStream, [&] { return real<&::cuStreamDestroy>(hStream); });
}
HOOK(cuStreamDestroy_v2, kNeeds, (CUstream hStream)) {
  return forgotten(Kind::stream, hStream, [&] { return real<&::cuStreamDestroy_v2>(hStream); });
}

// Where the fault of an earlier launch comes out.
HOOK(cuStreamSynchronize, dispatch::kPointers, (CUstream hStream)) {
  const CUresult result = real<&::cuStreamSynchronize>(hStream);
  if (result != CUDA_SUCCESS) explain_fault(result);
  return result;
}
HOOK(cuStreamSynchronize_ptsz, dispatch::kPointers, (CUstream hStream)) {
  const CUresult result = real<&::cuStreamSynchronize_ptsz>(hStream);
  if (result != CUDA_SUCCESS) explain_fault(result);
  return result;
}

}  // namespace gpufence::hooks
