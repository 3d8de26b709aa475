// What the hooks read: the rules, published once by arm(), and the machine as this process sees it, published
// once by the cuInit hook. Both are immutable and leaked on purpose: threads may still call while the process
// exits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/hook.h"
#include "journal/journal.h"
#include "ledger/ledger.h"
#include "ledger/mapped.h"
#include "observe/call.h"
#include "observe/devices.h"
#include "observe/owners.h"
#include "observe/tally.h"
#include "policies/decide.h"
#include "policies/remap.h"
#include "policies/size.h"

namespace gpufence::hooks {

using dispatch::real;

enum class Numbering { host, view };

struct CapRule {
  policies::CapSpec amounts;  // by position in the view
  policies::Scope scope = policies::Scope::run;
  std::string rule;       // "--gpu-mem"
  unsigned level = 0;     // of a run around this one: how many runs its name has; 0: this run
  bool over_all = false;  // counts what is held on all GPUs together
  std::string group{};    // whose members it counts for
};

struct Rules {
  std::atomic<const std::string*> deny{nullptr};  // set: cuInit answers CUDA_ERROR_NO_DEVICE, and this is why
  std::unique_ptr<const std::string>
      denied_from_start;  // what `deny` points to if the settings themselves are at fault
  std::optional<std::vector<std::string>> view;  // UUIDs in ordinal order; none: no view was asked for
  std::vector<std::string> host_gpus;            // UUIDs by host index; empty: not known here
  Numbering numbering = Numbering::host;
  std::optional<std::string> given_mask;  // CUDA_VISIBLE_DEVICES as the launcher set it
  std::optional<policies::Remap> remap;   // of the program's ordinals
  std::vector<CapRule> caps;
  // Whose books a cap is kept in.
  struct Books {
    std::string directory;
    std::string run;        // empty: each process is its own
    std::string job;        // empty: none
    uid_t user = 0;         // the host's number
    bool may_lack = false;  // without them each process counts for itself; else CUDA is denied
  };
  Books books;
  std::vector<std::string> positions;  // UUIDs that caps by position mean where there is no view
  std::size_t backtrace = 0;           // frames of a call stack in findings; 0: none
  unsigned needs = dispatch::kFence;
  std::unique_ptr<journal::Journal> journal;
};

// How CUDA was initialised in this process.
struct Started {
  std::optional<std::string> mask,
      order;                 // CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as the program had them
  std::uint64_t age_ns = 0;  // of the process
  observe::Call call{};
};

struct Visible {
  Started started;
  std::vector<observe::Device> devices;  // position = CUDA ordinal
  std::vector<std::vector<policies::Cap>>
      own_caps;  // of this process alone, by ordinal, in bytes of that card
  struct SharedCaps {
    const CapRule* rule = nullptr;  // one of the scope
    std::vector<policies::Cap> on;  // by ordinal
    policies::Cap total;            // on all GPUs together
  };
  std::vector<SharedCaps> shared;                     // as the ledger's scopes
  std::unique_ptr<ledger::Ledger> ledger;             // row = ordinal
  ledger::Mapped mapped;                              // memory without an address of its own
  bool counters_kept = false;                         // its rows outlive the process
  std::unique_ptr<std::atomic<bool>[]> refusal_said;  // by ordinal
  std::unique_ptr<observe::Owners> owners;            // null where one GPU is visible
  std::unique_ptr<observe::Tally> tally;              // null without report and diagnosis

  struct Chosen {
    std::atomic<const char*> api{nullptr};
    std::atomic<const void*> caller{nullptr};
    std::atomic<int> thread{0};
  };
  std::unique_ptr<Chosen[]> chosen;  // by ordinal: the first call that chose it

  [[nodiscard]] bool has(int ordinal) const {
    return ordinal >= 0 && static_cast<std::size_t>(ordinal) < devices.size();
  }
  [[nodiscard]] const policies::Cap* own_cap(std::uint32_t row) const {
    return policies::tightest(own_caps[row]);
  }
  // The smallest of all that count on this GPU.
  [[nodiscard]] const policies::Cap* cap(int ordinal) const {
    const auto row = static_cast<std::uint32_t>(ordinal);
    const policies::Cap* least = own_cap(row);
    const auto compare = [&](const policies::Cap& cap) {
      if (cap.bytes != UINT64_MAX && (least == nullptr || cap.bytes < least->bytes)) least = &cap;
    };
    for (const SharedCaps& caps : shared) {
      compare(caps.on[row]);
      compare(caps.total);
    }
    return least;
  }
};

// Set by arm() before any slot leads to a body; never null in a hook.
[[nodiscard]] Rules& rules();
// Returns the one that counts; `rules` is dropped if another thread was first.
Rules& publish_rules(std::unique_ptr<Rules> rules);
[[nodiscard]] bool have_rules();
// This process must not go on with CUDA.
[[nodiscard]] inline bool denied() {
  return rules().deny.load(std::memory_order_acquire) != nullptr;
}

// A cap on one GPU, in bytes of a card of that total. A cap by position belongs to the GPU that stood
// there when it was set: a program that narrows its mask changes ordinals, not caps. `ordinal` counts only
// where nothing says what stood where; -1: it has none.
[[nodiscard]] policies::Cap cap_on(const std::string& uuid, int ordinal, std::uint64_t card_total,
                                   const CapRule& rule, const Rules& to);

// Null until cuInit succeeded; set by its hook alone. Read on every call, so inline.
extern constinit std::atomic<Visible*> the_visible;
[[nodiscard]] inline Visible* visible() {
  return the_visible.load(std::memory_order_acquire);
}

// "CUDA 1 = host GPU 3 (H100, 0000:81:00.0)"
[[nodiscard]] std::string full_name(const observe::Device& device);

// Messages are built in here: whatever goes wrong in it (no memory), the program's call goes on.
void say(const char* code, journal::Severity severity, const std::function<std::string()>& message,
         const std::string& once = {}) noexcept;

void note_chosen(int ordinal, const observe::Call& call) noexcept;

// cuInit has found out that this process must not go on with CUDA.
void deny(std::string why, const char* code = "GF501") noexcept;

}  // namespace gpufence::hooks
