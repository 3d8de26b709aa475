// The context chapter: which call chose a GPU, and what a context held when it goes. Memory of a context ends
// with its destruction, of a primary context with its reset or last release; the holdings are released after
// the driver has done so, up to a mark, since another thread may allocate meanwhile.
#include "hooks/arguments.h"
#include "hooks/choice.h"
#include "hooks/mask.h"
#include "hooks/reach.h"
#include "hooks/stores.h"

namespace gpufence::hooks {
namespace {

USES(cuDevicePrimaryCtxGetState);

constexpr unsigned kNeeds = dispatch::kMemory | dispatch::kFindings;
// Bound always: after a denial there are no contexts to be had, also for a program that did not look at
// cuInit's answer, while the driver itself may well be initialised.
constexpr unsigned kMakes = kNeeds | dispatch::kFence;
constexpr std::size_t kMostDevices = 64;  // CUDA itself knows no more in one process

// The primary context of each ordinal, as the driver handed it out.
constinit std::atomic<CUcontext> primary[kMostDevices]{};

CUresult made_current(CUresult result, CUdevice device) noexcept {
  if (result == CUDA_SUCCESS) note_choice(device);
  return result;
}

CUresult created(CUresult result, const CUcontext* context, const char* api, CUdevice device,
                 const void* caller) noexcept {
  note_use(api, caller);
  check_mask(api, caller);
  if (result != CUDA_SUCCESS) return result;
  const observe::Call call = observe::current(api, caller);
  note_chosen(device, call);
  observe::Owners* known = owners();
  if (known == nullptr || context == nullptr) return result;
  // A primary context is handed out again and again; who asked first made it.
  const std::optional<observe::Owner> before = known->find(observe::Kind::context, *context);
  if (before && before->device == device) return result;
  observe::Owner owner;
  owner.device = device;
  owner.made = call;
  known->remember(observe::Kind::context, *context, owner);
  return result;
}

// Enabled between two contexts; told by their GPUs, since nobody enables it for one of two contexts of a GPU.
CUresult peers_changed(CUresult result, CUcontext peer, bool enabled) noexcept {
  const observe::Owners* known = owners();
  if (known == nullptr || (!enabled && result != CUDA_SUCCESS)) return result;
  const std::optional<observe::Owner> owner = known->find(observe::Kind::context, peer);
  if (owner) note_peers(current_device(), owner->device, enabled);
  note_work(current_device);
  note_work([&] { return owner ? owner->device : -1; });
  return result;
}

template <class Destroy>
CUresult destroyed(CUcontext context, Destroy destroy) noexcept {
  Visible* seen = visible();
  const std::uint64_t mark = seen != nullptr ? seen->ledger->mark() : 0;
  observe::Owners* known = owners();
  const std::uint64_t owned = known != nullptr ? known->mark() : 0;
  const CUresult result = destroy();
  if (result != CUDA_SUCCESS || context == nullptr) return result;
  if (seen != nullptr) seen->ledger->release_context(context, mark);
  Stores::get().look();
  if (known != nullptr) known->forget_context(context, owned);
  return result;
}

// `gone()` says after a success whether the context's memory went with it.
template <class Release, class Gone>
CUresult primary_released(CUdevice device, Release release, Gone gone) noexcept {
  const bool is_one = device >= 0 && static_cast<std::size_t>(device) < kMostDevices;
  CUcontext context = is_one ? primary[device].load(std::memory_order_acquire) : nullptr;
  Visible* seen = visible();
  const std::uint64_t mark = seen != nullptr ? seen->ledger->mark() : 0;
  observe::Owners* known = owners();
  const std::uint64_t owned = known != nullptr ? known->mark() : 0;
  const CUresult result = release();
  if (seen == nullptr || result != CUDA_SUCCESS || context == nullptr || !gone()) return result;
  note_context_gone(device);
  seen->ledger->release_context(context, mark);
  Stores::get().look();
  if (known != nullptr) known->forget_context(context, owned);
  return result;
}

bool inactive(CUdevice device) noexcept {
  unsigned int flags = 0;
  int active = 1;
  return real<&::cuDevicePrimaryCtxGetState>(device, &flags, &active) == CUDA_SUCCESS && active == 0;
}
bool always() noexcept {
  return true;
}

}  // namespace

HOOK(cuDevicePrimaryCtxRetain, kMakes, (CUcontext * pctx, CUdevice dev)) {
  if (denied()) return CUDA_ERROR_NOT_INITIALIZED;
  Creation creation(dev, observe::current("cuDevicePrimaryCtxRetain", __builtin_return_address(0)),
                    __builtin_return_address(0));
  const CUresult result = real<&::cuDevicePrimaryCtxRetain>(pctx, dev);
  if (result == CUDA_SUCCESS && pctx != nullptr) creation.done();
  if (result == CUDA_SUCCESS && pctx != nullptr && dev >= 0 && static_cast<std::size_t>(dev) < kMostDevices) {
    primary[dev].store(*pctx, std::memory_order_release);
  }
  return created(result, pctx, "cuDevicePrimaryCtxRetain", dev, __builtin_return_address(0));
}

HOOK(cuDevicePrimaryCtxRelease, kNeeds, (CUdevice dev)) {
  return primary_released(
      dev, [&] { return real<&::cuDevicePrimaryCtxRelease>(dev); }, [&] { return inactive(dev); });
}
HOOK(cuDevicePrimaryCtxRelease_v2, kNeeds, (CUdevice dev)) {
  return primary_released(
      dev, [&] { return real<&::cuDevicePrimaryCtxRelease_v2>(dev); }, [&] { return inactive(dev); });
}
HOOK(cuDevicePrimaryCtxReset, kNeeds, (CUdevice dev)) {
  return primary_released(
      dev, [&] { return real<&::cuDevicePrimaryCtxReset>(dev); }, always);
}
HOOK(cuDevicePrimaryCtxReset_v2, kNeeds, (CUdevice dev)) {
  return primary_released(
      dev, [&] { return real<&::cuDevicePrimaryCtxReset_v2>(dev); }, always);
}

HOOK(cuCtxCreate, kMakes, (CUcontext * pctx, unsigned int flags, CUdevice dev)) {
  if (denied()) return CUDA_ERROR_NOT_INITIALIZED;
  return made_current(
      created(real<&::cuCtxCreate>(pctx, flags, dev), pctx, "cuCtxCreate", dev, __builtin_return_address(0)),
      dev);
}
HOOK(cuCtxCreate_v2, kMakes, (CUcontext * pctx, unsigned int flags, CUdevice dev)) {
  if (denied()) return CUDA_ERROR_NOT_INITIALIZED;
  return made_current(created(real<&::cuCtxCreate_v2>(pctx, flags, dev), pctx, "cuCtxCreate", dev,
                              __builtin_return_address(0)),
                      dev);
}
HOOK(cuCtxCreate_v3, kMakes,
     (CUcontext * pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags, CUdevice dev)) {
  if (denied()) return CUDA_ERROR_NOT_INITIALIZED;
  return made_current(created(real<&::cuCtxCreate_v3>(pctx, paramsArray, numParams, flags, dev), pctx,
                              "cuCtxCreate", dev, __builtin_return_address(0)),
                      dev);
}
HOOK(cuCtxCreate_v4, kMakes,
     (CUcontext * pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev)) {
  if (denied()) return CUDA_ERROR_NOT_INITIALIZED;
  return made_current(created(real<&::cuCtxCreate_v4>(pctx, ctxCreateParams, flags, dev), pctx, "cuCtxCreate",
                              dev, __builtin_return_address(0)),
                      dev);
}

// A part of a GPU: its streams are that GPU's, whatever context is current when they are made.
HOOK(cuGreenCtxCreate, dispatch::kFindings,
     (CUgreenCtx * phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)) {
  const CUresult result = real<&::cuGreenCtxCreate>(phCtx, desc, dev, flags);
  if (result == CUDA_SUCCESS && phCtx != nullptr)
    remember_on(observe::Kind::green, *phCtx, dev,
                observe::current("cuGreenCtxCreate", __builtin_return_address(0)));
  return result;
}
HOOK(cuGreenCtxDestroy, dispatch::kFindings, (CUgreenCtx hCtx)) {
  return forgotten(observe::Kind::green, hCtx, [&] { return real<&::cuGreenCtxDestroy>(hCtx); });
}
HOOK(cuCtxFromGreenCtx, dispatch::kFindings, (CUcontext * pContext, CUgreenCtx hCtx)) {
  const CUresult result = real<&::cuCtxFromGreenCtx>(pContext, hCtx);
  const observe::Owners* known = owners();
  if (result != CUDA_SUCCESS || pContext == nullptr || known == nullptr) return result;
  if (const std::optional<observe::Owner> green = known->find(observe::Kind::green, hCtx))
    remember_on(observe::Kind::context, *pContext, green->device, green->made);
  return result;
}

HOOK(cuCtxDestroy, kNeeds, (CUcontext ctx)) {
  return destroyed(ctx, [&] { return real<&::cuCtxDestroy>(ctx); });
}
HOOK(cuCtxDestroy_v2, kNeeds, (CUcontext ctx)) {
  return destroyed(ctx, [&] { return real<&::cuCtxDestroy_v2>(ctx); });
}

// The first driver call of a runtime call: all that shows of a runtime's use in a forked child.
HOOK(cuCtxGetCurrent, dispatch::kFindings, (CUcontext * pctx)) {
  note_use("cuCtxGetCurrent", __builtin_return_address(0));
  return real<&::cuCtxGetCurrent>(pctx);
}

HOOK(cuCtxSetCurrent, dispatch::kFindings, (CUcontext ctx)) {
  note_use("cuCtxSetCurrent", __builtin_return_address(0));
  const CUresult result = real<&::cuCtxSetCurrent>(ctx);
  if (result == CUDA_SUCCESS) arrived(ctx, "cuCtxSetCurrent", __builtin_return_address(0));
  return result;
}

HOOK(cuCtxEnablePeerAccess, dispatch::kFindings, (CUcontext peerContext, unsigned int flags)) {
  const CUresult result = real<&::cuCtxEnablePeerAccess>(peerContext, flags);
  return peers_changed(result, peerContext,
                       result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
}
HOOK(cuCtxDisablePeerAccess, dispatch::kFindings, (CUcontext peerContext)) {
  const CUresult result = real<&::cuCtxDisablePeerAccess>(peerContext);
  return result == CUDA_SUCCESS ? peers_changed(result, peerContext, false) : result;
}

// Where the fault of an earlier launch comes out.
HOOK(cuCtxSynchronize, dispatch::kPointers | dispatch::kMemory, (void)) {
  const CUresult result = real<&::cuCtxSynchronize>();
  Stores::get().synchronised();
  if (result != CUDA_SUCCESS) explain_fault(result);
  return result;
}
HOOK(cuCtxSynchronize_v2, dispatch::kPointers | dispatch::kMemory, (CUcontext ctx)) {
  const CUresult result = real<&::cuCtxSynchronize_v2>(ctx);
  Stores::get().synchronised();
  if (result != CUDA_SUCCESS) explain_fault(result);
  return result;
}

}  // namespace gpufence::hooks
