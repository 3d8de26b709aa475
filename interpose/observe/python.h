// The Python calls that a thread is in. Not by CPython's functions: they need the interpreter's lock, which
// ctypes gives up for the time of a call, and which a thread may hold that waits for this one; what CPython
// has for crashes (_Py_DumpTraceback) is not exported by every version. So the frames are read where they
// lie. They stand still meanwhile: this thread is in a call, and nobody else changes its frames. Two
// functions are called that take no lock (PyGILState_GetThisThreadState and Py_GetVersion); each address is
// read with care (memory.h), and what is not of the type that it should be ends it: another build, another
// thread that ends the interpreter. CPython 3.8 to 3.13 with the interpreter's lock; of others, nothing.
#pragma once

#include <cstddef>
#include <vector>

#include "journal/journal.h"

namespace gpufence::observe {

// Of the calling thread, innermost first, at most `most`; none: no interpreter that exports what is needed,
// or it does not know this thread. A thread that runs in another interpreter than it was made by shows the
// calls that led there, up to CPython 3.11.
[[nodiscard]] std::vector<journal::PythonFrame> python_stack(std::size_t most);

}  // namespace gpufence::observe
