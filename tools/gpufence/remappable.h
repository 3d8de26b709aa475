// Whether --remap can do anything in a program: it acts in the shared runtime alone, and what a program has
// of CUDA can be told from its file.
#pragma once

#include <optional>

#include "tools/gpufence/environment.h"
#include "tools/gpufence/program.h"

namespace gpufence::command {

// Why no ordinal of the program itself would ever be remapped. Nothing if one may be: also for a program that
// shows no sign of CUDA (Python, a shell) and comes to it later; of what it meets then the library speaks
// (GF107).
[[nodiscard]] std::optional<Unfenceable> why_not_remappable(const Program& program,
                                                            const Environment& environment);

}  // namespace gpufence::command
