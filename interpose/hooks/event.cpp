// The event chapter. CUDA lets any stream and any thread wait for any event; only recording it in another
// GPU's stream, and the time between events of two GPUs, it refuses. So only those two are looked at, once
// they failed.
#include "hooks/arguments.h"
#include "hooks/choice.h"
#include "hooks/launch.h"
#include "hooks/stores.h"

namespace gpufence::hooks {
namespace {

constexpr unsigned kNeeds = dispatch::kFindings;
using observe::Kind;

CUresult recorded(CUresult result, CUevent event, CUstream stream, const char* api,
                  const void* caller) noexcept {
  observe::Owners* known = owners();
  if (result == CUDA_SUCCESS || !may_be_of_another_gpu(result) || known == nullptr) return result;
  const std::optional<observe::Owner> of = known->find(Kind::event, event);
  const StreamPlace place = place_of_stream(stream);
  if (!of || place.device < 0 || of->device == place.device) return result;
  explain({"GF204", journal::Severity::warning, observe::current(api, caller), place.device, of->device},
          [&](const Visible& seen) {
            return "an event of " + gpu_text(seen, of->device) + made_text("created", of->made) +
                   ", recorded in " + (place.is_default ? "the default stream of " : "a stream of ") +
                   gpu_text(seen, place.device) + made_text("created", place.made);
          });
  return result;
}

CUresult timed(CUresult result, CUevent start, CUevent end, const char* api, const void* caller) noexcept {
  observe::Owners* known = owners();
  if (result == CUDA_SUCCESS || !may_be_of_another_gpu(result) || known == nullptr) return result;
  const std::optional<observe::Owner> from = known->find(Kind::event, start);
  const std::optional<observe::Owner> to = known->find(Kind::event, end);
  if (!from || !to || from->device == to->device) return result;
  explain({"GF204", journal::Severity::warning, observe::current(api, caller), to->device, from->device},
          [&](const Visible& seen) {
            return "the time from an event of " + gpu_text(seen, from->device) +
                   made_text("created", from->made) + ", to an event of " + gpu_text(seen, to->device) +
                   made_text("created", to->made) + ", asked for";
          });
  return result;
}

}  // namespace

HOOK(cuEventCreate, kNeeds, (CUevent * phEvent, unsigned int Flags)) {
  const CUresult result = real<&::cuEventCreate>(phEvent, Flags);
  if (result == CUDA_SUCCESS) note_work(current_device);
  if (result == CUDA_SUCCESS && phEvent != nullptr)
    remember_made(Kind::event, *phEvent, "cuEventCreate", __builtin_return_address(0));
  return result;
}

// Another process made it, on the GPU that is current here.
HOOK(cuIpcOpenEventHandle, kNeeds, (CUevent * phEvent, CUipcEventHandle handle)) {
  const CUresult result = real<&::cuIpcOpenEventHandle>(phEvent, handle);
  if (result == CUDA_SUCCESS && phEvent != nullptr)
    remember_made(Kind::event, *phEvent, "cuIpcOpenEventHandle", __builtin_return_address(0));
  return result;
}

HOOK(cuEventDestroy, kNeeds, (CUevent hEvent)) {
  return forgotten(Kind::event, hEvent, [&] { return real<&::cuEventDestroy>(hEvent); });
}
HOOK(cuEventDestroy_v2, kNeeds, (CUevent hEvent)) {
  return forgotten(Kind::event, hEvent, [&] { return real<&::cuEventDestroy_v2>(hEvent); });
}

HOOK(cuEventRecord, kNeeds, (CUevent hEvent, CUstream hStream)) {
  return recorded(real<&::cuEventRecord>(hEvent, hStream), hEvent, hStream, "cuEventRecord",
                  __builtin_return_address(0));
}
HOOK(cuEventRecord_ptsz, kNeeds, (CUevent hEvent, CUstream hStream)) {
  return recorded(real<&::cuEventRecord_ptsz>(hEvent, hStream), hEvent, hStream, "cuEventRecord",
                  __builtin_return_address(0));
}
HOOK(cuEventRecordWithFlags, kNeeds, (CUevent hEvent, CUstream hStream, unsigned int flags)) {
  return recorded(real<&::cuEventRecordWithFlags>(hEvent, hStream, flags), hEvent, hStream,
                  "cuEventRecordWithFlags", __builtin_return_address(0));
}
HOOK(cuEventRecordWithFlags_ptsz, kNeeds, (CUevent hEvent, CUstream hStream, unsigned int flags)) {
  return recorded(real<&::cuEventRecordWithFlags_ptsz>(hEvent, hStream, flags), hEvent, hStream,
                  "cuEventRecordWithFlags", __builtin_return_address(0));
}

HOOK(cuEventElapsedTime, kNeeds, (float* pMilliseconds, CUevent hStart, CUevent hEnd)) {
  return timed(real<&::cuEventElapsedTime>(pMilliseconds, hStart, hEnd), hStart, hEnd, "cuEventElapsedTime",
               __builtin_return_address(0));
}
HOOK(cuEventElapsedTime_v2, kNeeds, (float* pMilliseconds, CUevent hStart, CUevent hEnd)) {
  return timed(real<&::cuEventElapsedTime_v2>(pMilliseconds, hStart, hEnd), hStart, hEnd,
               "cuEventElapsedTime", __builtin_return_address(0));
}

// Where the fault of an earlier launch comes out.
HOOK(cuEventSynchronize, dispatch::kPointers | dispatch::kMemory, (CUevent hEvent)) {
  const CUresult result = real<&::cuEventSynchronize>(hEvent);
  Stores::get().synchronised();
  if (result != CUDA_SUCCESS) explain_fault(result);
  return result;
}

}  // namespace gpufence::hooks
