// See charge.h. A refusal names the cap, who said so and how much must go; "the card is full" is the
// driver's.
#include "hooks/charge.h"

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

CUresult refuse(const Place& place, std::uint64_t bytes, const observe::Call& call) noexcept {
  const Visible& seen = *place.seen;
  const observe::Device& device = seen.devices[place.row];
  if (seen.refusal_said[place.row].exchange(true, std::memory_order_relaxed)) {
    try {
      rules().journal->count("GF401", device.uuid);
    } catch (...) {
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  say(
      "GF401", journal::Severity::warning,
      [&] {
        const std::uint64_t held = seen.ledger->balance(place.row).held;
        const policies::Cap* cap = seen.cap(device.ordinal);
        const policies::Verdict verdict = policies::decide({bytes, held}, cap);
        std::string message = observe::api_text(call) + " of " + policies::format_size(bytes) + " on " +
                              full_name(device) + " refused";
        if (cap == nullptr) return message;
        message += std::string(": ") + "this process holds " + policies::format_size(held) + " of its " +
                   policies::format_size(cap->bytes) + " (" + cap->rule + ")";
        if (verdict.to_free > 0)
          message += "; freeing " + policies::format_size(verdict.to_free) + " is enough";
        if (!verdict.allowed && verdict.to_free == 0) message += "; it alone is more than the cap";
        std::size_t free = 0;
        std::size_t total = 0;
        if (real<&::cuMemGetInfo_v2>(&free, &total) == CUDA_SUCCESS) {
          message += "; the card has " + policies::format_size(free) + " free";
        }
        message += "; at " + observe::site_text(call.caller);
        return message;
      },
      device.uuid);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace gpufence::hooks
