// The mask as CUDA reads it: once, at cuInit. What a program writes there afterwards does nothing, and what
// it hands to a child means the machine's GPUs, not positions in its own list; both are faults that pass in
// silence.
#pragma once

#include "hooks/finding.h"

extern char** environ;  // NOLINT: POSIX

namespace gpufence::hooks {

inline constexpr const char* kMask = "CUDA_VISIBLE_DEVICES";
inline constexpr const char* kOrder = "CUDA_DEVICE_ORDER";

[[nodiscard]] char** find_entry(const char* name) noexcept;
[[nodiscard]] std::optional<std::string> read_variable(const char* name);

// GF102, at calls that a program makes seldom: does the mask still read as it did at cuInit?
void check_mask(const char* api, const void* caller) noexcept;
// The same at exit, for a mask that no later call looked at. Not in a process that had children: it may have
// written the mask for them.
void check_mask_at_exit() noexcept;

// GF106: the mask that this process was started with leaves or reorders the one its parent was started with.
void compare_with_parent(const Visible& seen, const Rules& to) noexcept;

}  // namespace gpufence::hooks
