// See charge.h. A refusal names the cap, who said so and how much must go; "the card is full" is the
// driver's.
#include "hooks/charge.h"

#include "hooks/finding.h"
#include "journal/write.h"
#include "observe/process.h"

namespace gpufence::hooks {

USES(cuCtxGetDevice);

std::optional<Place> gpu_of_current_context() noexcept {
  Visible* seen = visible();
  if (seen == nullptr) return std::nullopt;
  if (seen->devices.size() == 1) return Place{seen, 0, nullptr};  // every context is there
  CUdevice device = -1;
  if (real<&::cuCtxGetDevice>(&device) != CUDA_SUCCESS || !seen->has(device)) return std::nullopt;
  return Place{seen, static_cast<std::uint32_t>(device), nullptr};
}

std::optional<Place> place_of_current_context() noexcept {
  std::optional<Place> place = gpu_of_current_context();
  CUcontext context = nullptr;
  if (!place || real<&::cuCtxGetCurrent>(&context) != CUDA_SUCCESS || context == nullptr) return std::nullopt;
  place->context = context;
  return place;
}

bool reserve(const Place& place, std::uint64_t bytes) noexcept {
  if (reserve_unseen(place, bytes)) return true;
  place.seen->ledger->count_refusal(place.row);
  return false;
}

bool reserve_unseen(const Place& place, std::uint64_t bytes) noexcept {
  const policies::Cap* cap = place.seen->cap(static_cast<int>(place.row));
  return place.seen->ledger->reserve(place.row, bytes, [&](std::uint64_t held) {
    return policies::decide({bytes, held}, cap).allowed;
  });
}

CUresult refuse(const Place& place, std::uint64_t bytes, const observe::Call& made) noexcept {
  const Visible& seen = *place.seen;
  const observe::Device& device = seen.devices[place.row];
  const journal::WithoutCancellation whole;
  try {
    journal::Journal& journal = *rules().journal;
    if (seen.refusal_said[place.row].exchange(true, std::memory_order_relaxed)) {
      journal.count("GF401", device.uuid);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const observe::Call call = observe::outside_cuda(made);
    journal::Finding finding;
    finding.code = "GF401";
    finding.once = device.uuid;
    finding.api = observe::api_text(call);
    finding.site = observe::site_of(call.caller);
    finding.tid = observe::thread_id();
    finding.thread = observe::thread_name();
    add_stacks(finding, call.caller);
    finding.device = {device.ordinal, device.host_index, device.uuid, device.pci, device.name};
    finding.bytes = bytes;
    std::string& message = finding.message;
    message = finding.api + " of " + policies::format_size(bytes) + " on " + full_name(device) + " refused";
    if (const policies::Cap* cap = seen.cap(device.ordinal); cap != nullptr) {
      const std::uint64_t held = seen.ledger->balance(place.row).held;
      const policies::Verdict verdict = policies::decide({bytes, held}, cap);
      finding.held = held;
      finding.cap = cap->bytes;
      finding.scope = "process";  // whatever the cap was meant for: the ledger is this process's
      finding.rule = cap->rule;
      message += ": this process holds " + policies::format_size(held) + " of its " +
                 policies::format_size(cap->bytes) + " (" + cap->rule + ")";
      if (verdict.to_free > 0)
        message += "; freeing " + policies::format_size(verdict.to_free) + " is enough";
      if (!verdict.allowed && verdict.to_free == 0) message += "; it alone is more than the cap";
      std::size_t free = 0;
      std::size_t total = 0;
      if (real<&::cuMemGetInfo_v2>(&free, &total) == CUDA_SUCCESS)
        message += "; the card has " + policies::format_size(free) + " free";
      message += "; at " + place_text(call.caller, finding.python);
    }
    journal.say(finding);
  } catch (...) {
    // A refusal that can't be worded is one all the same.
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace gpufence::hooks
