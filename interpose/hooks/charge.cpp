// See charge.h. A refusal names the cap, who said so and how much must go; "the card is full" is the
// driver's.
#include "hooks/charge.h"

#include <unistd.h>

#include <algorithm>

#include "hooks/finding.h"
#include "hooks/scopes.h"
#include "hooks/stores.h"
#include "journal/write.h"
#include "ledger/scope_path.h"
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

ledger::Booked reserve(const Place& place, std::uint64_t bytes) noexcept {
  ledger::Booked booked = reserve_unseen(place, bytes);
  // Nobody is refused for memory that lies unused in this process's own pools.
  if (!booked.ok() && Stores::get().reclaim(place.row)) booked = reserve_unseen(place, bytes);
  if (!booked.ok()) place.seen->ledger->count_refusal(place.row);
  return booked;
}

ledger::Booked reserve_unseen(const Place& place, std::uint64_t bytes) noexcept {
  const policies::Cap* cap = place.seen->own_cap(place.row);
  return place.seen->ledger->book(place.row, bytes, [&](std::uint64_t held) {
    return policies::decide({bytes, held}, cap).allowed;
  });
}

namespace {

// pid 4711 "python notebook"
std::string text_of(const ledger::Holder& holder) {
  std::string text = "pid " + std::to_string(holder.pid);
  if (!holder.name.empty()) text += " \"" + holder.name + '"';
  if (holder.pid_namespace != ledger::pid_namespace()) text += " of another container";
  return text;
}

// The one who holds the most beside this process, the rest together, and this process.
std::string who_holds(const std::vector<ledger::Holder>& holders) {
  std::string text;
  std::uint64_t rest = 0, own = 0;
  std::size_t count = 0;
  for (const ledger::Holder& holder : holders) {
    if (holder.pid == ::getpid() && holder.pid_namespace == ledger::pid_namespace()) {
      own += holder.bytes;
    } else if (text.empty()) {
      text = "; " + text_of(holder) + " holds " + policies::format_size(holder.bytes);
    } else {
      rest += holder.bytes;
      ++count;
    }
  }
  if (text.empty()) return text;
  if (count > 0) text += ", " + std::to_string(count) + " more " + policies::format_size(rest);
  if (own > 0) text += ", this process " + policies::format_size(own);
  return text;
}

// The cap that refused, what its scope holds under it, and who holds the most of that beside this process.
struct Refusing {
  const policies::Cap* cap = nullptr;
  const CapRule* rule = nullptr;  // null: of this process alone
  std::uint64_t held = 0;
  bool over_all = false;
  std::string who;  // "; pid 4711 "python notebook" holds 5 GiB, 3 more 1 GiB, this process 2 GiB"
};

Refusing refusing(const Visible& seen, std::uint32_t row, std::uint64_t bytes, const ledger::Booked& why) {
  if (why.answer == ledger::Booked::Answer::over_own)
    return {seen.own_cap(row), nullptr, seen.ledger->held(row), false, {}};
  ledger::ScopeBook& book = seen.ledger->scope(why.scope);
  const Visible::SharedCaps& caps = seen.shared[why.scope];
  Refusing found{&caps.on[row], caps.rule, book.held(row), false, {}};
  if (policies::decide({bytes, found.held}, found.cap).allowed && caps.total.bytes != UINT64_MAX) {
    found.cap = &caps.total;
    found.held = book.held_in_total();
    found.over_all = true;
  }
  found.who = who_holds(book.holders(row));
  return found;
}

// Nothing is lost, and nobody is let through: the answer is out of memory until the holder goes on.
CUresult say_unavailable(const Place& place, const ledger::Booked& why) noexcept {
  ledger::ScopeBook& book = place.seen->ledger->scope(why.scope);
  say(
      "GF503", journal::Severity::error,
      [&] {
        return book.path() + ": " + text_of(book.holder()) +
               " holds its lock and does not go on: allocations are refused until it does, or ends";
      },
      book.path());
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

CUresult refuse(const Place& place, std::uint64_t bytes, const ledger::Booked& why, const observe::Call& made,
                std::uint64_t taken) noexcept {
  if (why.answer == ledger::Booked::Answer::no_answer) return say_unavailable(place, why);
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
    const std::uint64_t wanted = std::max(bytes, taken);
    const Refusing by = refusing(seen, place.row, wanted, why);
    if (by.cap != nullptr) {
      const policies::Verdict verdict = policies::decide({wanted, by.held}, by.cap);
      finding.held = by.held;
      finding.cap = by.cap->bytes;
      finding.scope = by.rule != nullptr ? name_of(by.rule->scope) : "process";
      finding.rule = by.cap->rule;
      message += ": " + (by.rule != nullptr ? whose(*by.rule, rules()) : "this process") + " holds " +
                 policies::format_size(by.held) + " of its " + policies::format_size(by.cap->bytes) +
                 (by.over_all ? " on all GPUs (" : " (") + by.cap->rule + ")";
      message += by.who;
      if (wanted > bytes) message += "; its pool takes " + policies::format_size(wanted) + " for it";
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
