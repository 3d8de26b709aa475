// A kernel's pointer arguments (level "all"): memory of another GPU that this one can't reach. Said as info
// at the launch, since a kernel need not touch what it is given, and as a warning once the launch or the next
// synchronisation fails.
#pragma once

#include "hooks/finding.h"

namespace gpufence::hooks {

// Before the launch. `function` is a CUfunction or a CUkernel. What call it is, is asked only for a finding.
void check_arguments(const void* function, CUstream stream, void** params, void** extra, const char* api,
                     const void* caller) noexcept;

// Whatever call came back with `result`: an illegal address may have come from what check_arguments saw.
void explain_fault(CUresult result) noexcept;

}  // namespace gpufence::hooks
