// The native calls that a thread is in, as findings name them.
#pragma once

#include <cstddef>
#include <vector>

#include "journal/journal.h"

namespace gpufence::observe {

// Of the calling thread, innermost first, at most `most`: from the first outside CUDA's libraries and
// gpufence to main, or the function that the thread was started with. A place that is in no loaded object
// (code made at run time, a stack that was overwritten) has no object, its address as offset, and is the
// last.
[[nodiscard]] std::vector<journal::Site> native_stack(std::size_t most);

}  // namespace gpufence::observe
