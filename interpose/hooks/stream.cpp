// The stream chapter: whose a stream is, and where it was made. What work in it may cross GPUs is CUDA's to
// say: copies may go into any stream, and a stream may wait for any event.
#include "hooks/arguments.h"
#include "hooks/choice.h"
#include "hooks/mask.h"
#include "hooks/stores.h"

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

// Tells of streams that were made where nobody saw it.
CUresult told(CUresult result, CUstream stream, const CUcontext* context) noexcept {
  const observe::Owners* known = owners();
  if (result != CUDA_SUCCESS || context == nullptr || known == nullptr || stream == nullptr ||
      stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || known->find(Kind::stream, stream))
    return result;
  if (const std::optional<observe::Owner> of = known->find(Kind::context, *context))
    remember_on(Kind::stream, stream, of->device, {});
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

HOOK(cuGreenCtxStreamCreate, kNeeds,
     (CUstream * phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)) {
  const CUresult result = real<&::cuGreenCtxStreamCreate>(phStream, greenCtx, flags, priority);
  const observe::Owners* known = owners();
  if (result != CUDA_SUCCESS || phStream == nullptr || known == nullptr) return result;
  if (const std::optional<observe::Owner> green = known->find(Kind::green, greenCtx)) {
    note_work([&] { return green->device; });
    remember_on(Kind::stream, *phStream, green->device,
                observe::current("cuGreenCtxStreamCreate", __builtin_return_address(0)));
  }
  return result;
}

HOOK(cuStreamGetCtx, kNeeds, (CUstream hStream, CUcontext* pctx)) {
  return told(real<&::cuStreamGetCtx>(hStream, pctx), hStream, pctx);
}
HOOK(cuStreamGetCtx_ptsz, kNeeds, (CUstream hStream, CUcontext* pctx)) {
  return told(real<&::cuStreamGetCtx_ptsz>(hStream, pctx), hStream, pctx);
}
HOOK(cuStreamGetCtx_v2, kNeeds, (CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx)) {
  return told(real<&::cuStreamGetCtx_v2>(hStream, pCtx, pGreenCtx), hStream, pCtx);
}
HOOK(cuStreamGetCtx_v2_ptsz, kNeeds, (CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx)) {
  return told(real<&::cuStreamGetCtx_v2_ptsz>(hStream, pCtx, pGreenCtx), hStream, pCtx);
}

HOOK(cuStreamDestroy, kNeeds, (CUstream hStream)) {
  return forgotten(Kind::stream, hStream, [&] { return real<&::cuStreamDestroy>(hStream); });
}
HOOK(cuStreamDestroy_v2, kNeeds, (CUstream hStream)) {
  return forgotten(Kind::stream, hStream, [&] { return real<&::cuStreamDestroy_v2>(hStream); });
}

// Where the fault of an earlier launch comes out.
HOOK(cuStreamSynchronize, dispatch::kPointers | dispatch::kMemory, (CUstream hStream)) {
  const CUresult result = real<&::cuStreamSynchronize>(hStream);
  Stores::get().synchronised();
  if (result != CUDA_SUCCESS) explain_fault(result);
  return result;
}
HOOK(cuStreamSynchronize_ptsz, dispatch::kPointers | dispatch::kMemory, (CUstream hStream)) {
  const CUresult result = real<&::cuStreamSynchronize_ptsz>(hStream);
  Stores::get().synchronised();
  if (result != CUDA_SUCCESS) explain_fault(result);
  return result;
}

}  // namespace gpufence::hooks
