// What nvcc puts between a program's kernel<<<…>>> and the runtime: functions of its own in the program,
// which optimisation leaves out or not.
#pragma once

#include "observe/call.h"

namespace gpufence::observe {

// The launch as the programmer wrote it: the first frame above __cudaLaunchKernel_helper, __device_stub__…
// and the host function that is named as the kernel (`kernel`: its mangled name, or null). The same call
// where there are none, or where the program has no names left (strip). Reads the program's file, once a
// place; for calls that went wrong.
[[nodiscard]] Call above_launch_stubs(Call call, const char* kernel) noexcept;

}  // namespace gpufence::observe
