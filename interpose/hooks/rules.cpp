// See rules.h.
#include "hooks/rules.h"

#include <algorithm>

#include "observe/process.h"
#include "policies/gpu.h"

namespace gpufence::hooks {
namespace {

constinit std::atomic<Rules*> the_rules{nullptr};

// A GPU that stood nowhere gets the tightest.
policies::Amount amount_on(const std::string& uuid, int ordinal, const CapRule& rule, const Rules& to) {
  if (rule.amounts.by_position.empty()) return rule.amounts.at(ordinal);
  const std::vector<std::string>& positions = to.view ? *to.view : to.positions;
  if (positions.empty() && ordinal >= 0) return rule.amounts.at(ordinal);
  const auto found = std::find(positions.begin(), positions.end(), uuid);
  if (found != positions.end()) return rule.amounts.at(static_cast<int>(found - positions.begin()));
  policies::Amount least = rule.amounts.every.value_or(policies::Amount{});
  for (const auto& [position, amount] : rule.amounts.by_position) least = policies::tighter(least, amount);
  return least;
}

}  // namespace

Rules& rules() {
  return *the_rules.load(std::memory_order_acquire);
}
bool have_rules() {
  return the_rules.load(std::memory_order_acquire) != nullptr;
}

Rules& publish_rules(std::unique_ptr<Rules> rules) {
  Rules* first = nullptr;
  if (the_rules.compare_exchange_strong(first, rules.get(), std::memory_order_acq_rel))
    first = rules.release();
  return *first;
}

policies::Cap cap_on(const std::string& uuid, int ordinal, std::uint64_t card_total, const CapRule& rule,
                     const Rules& to) {
  return {amount_on(uuid, ordinal, rule, to).resolve(card_total), rule.scope, rule.rule};
}

std::string full_name(const observe::Device& device) {
  policies::Gpu gpu;
  gpu.host_index = device.host_index;
  gpu.uuid = device.uuid;
  gpu.pci = device.pci;
  gpu.name = device.name;
  if (device.host_index >= 0) return policies::full_name(device.ordinal, gpu);
  return "CUDA " + std::to_string(device.ordinal) + " (" + policies::short_name(device.name) + ", " +
         device.pci + ")";
}

void say(const char* code, journal::Severity severity, const std::function<std::string()>& message,
         const std::string& once) noexcept {
  try {
    rules().journal->say({code, severity, message(), once});
  } catch (...) {
    // A finding that can't be worded is lost; the program is not.
  }
}

void note_chosen(int ordinal, const observe::Call& call) noexcept {
  Visible* seen = visible();
  if (seen == nullptr || !seen->has(ordinal)) return;
  Visible::Chosen& chosen = seen->chosen[static_cast<std::size_t>(ordinal)];
  const char* none = nullptr;
  if (chosen.api.load(std::memory_order_relaxed) == nullptr &&
      chosen.api.compare_exchange_strong(none, call.api)) {
    chosen.caller.store(call.caller, std::memory_order_release);
    chosen.thread.store(observe::thread_id(), std::memory_order_release);
    rules().journal->chosen_by(static_cast<std::size_t>(ordinal), [&] { return observe::text(call); });
  }
}

void deny(std::string why, const char* code) noexcept {
  say(code, journal::Severity::error, [&] { return "CUDA is denied: " + why; });
  const std::string* kept = new (std::nothrow) std::string(std::move(why));
  const std::string* none = nullptr;
  static const std::string no_memory = "out of host memory";
  if (!rules().deny.compare_exchange_strong(none, kept != nullptr ? kept : &no_memory)) delete kept;
}

}  // namespace gpufence::hooks
