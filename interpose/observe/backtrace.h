// The native calls that a thread is in, as findings name them.
#pragma once

#include <cstddef>
#include <vector>

#include "journal/journal.h"

namespace gpufence::observe {

// Of the calling thread, innermost first, at most `most`: from the first outside CUDA's libraries and
// gpufence to main, or the function that the thread was started with. A place that is in no loaded object
// (code made at run time, a stack that was overwritten) has no object, its address as offset, and is the
// last. It begins at `first`, the place of the call that is told of, if that is among them: a runtime that is
// linked statically has functions of its own below it that lie in the program.
[[nodiscard]] std::vector<journal::Site> native_stack(std::size_t most, const void* first = nullptr);

}  // namespace gpufence::observe
