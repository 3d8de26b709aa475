// For whom a cap counts beside this process: the run and the runs around it, the user, the group, the job.
// Each has books of its own, shared by all its processes (ledger/scope_book.h).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "hooks/rules.h"

namespace gpufence::hooks {

// Opens the books of every scope that a rule caps and gives them to the ledger; before anything is allocated.
// What is wrong, as a line, or nothing.
[[nodiscard]] std::optional<std::string> open_scopes(Visible& seen, const Rules& to);

// Where books can't be kept and need not: every cap on a GPU counts for this process alone.
void count_alone(Visible& seen, const Rules& to);

// "this run", "user 1000", "job 4711", "group students", "this process"
[[nodiscard]] std::string whose(const CapRule& rule, const Rules& to);
[[nodiscard]] const char* name_of(policies::Scope scope);

// What the caps make of a GPU now, the dead looked for.
struct Standing {
  const policies::Cap* cap = nullptr;  // the smallest; null: there is none
  std::uint64_t held = 0;              // by its scope. Bytes
  std::uint64_t left = UINT64_MAX;     // the least that any cap has left
};
[[nodiscard]] Standing standing_on(const Visible& seen, std::uint32_t row) noexcept;

// The same by the scopes' files, for who asks of a GPU by its UUID and may not have initialised CUDA.
// `ordinal`: -1 where it is not known.
struct Outside {
  std::uint64_t cap = UINT64_MAX;   // the smallest; UINT64_MAX: there is none
  std::uint64_t held = 0;           // by its scope. Bytes
  std::uint64_t left = UINT64_MAX;  // the least that any cap has left
  bool own = false;                 // the smallest cap counts for this process alone
  std::map<int, std::uint64_t>
      processes;  // of its scope, by number in this PID namespace: what each holds on the GPU
};
[[nodiscard]] Outside from_outside(const Rules& to, const std::string& uuid, int ordinal,
                                   std::uint64_t card_total);

}  // namespace gpufence::hooks
