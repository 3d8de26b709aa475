// Call stacks as findings say them: in the same line, so that a record stays a line, and no longer than a
// pipe takes at once. What is between the program and the driver is folded: nobody looks for a fault there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "journal/journal.h"

namespace gpufence::journal {

// Whether a file of this name is one of NVIDIA's toolkit or driver, or gpufence's own.
[[nodiscard]] bool is_cuda_library(std::string_view file) noexcept;
// Whether calls of Python's ctypes come out of it: then a place in it says nothing.
[[nodiscard]] bool is_foreign_call_library(std::string_view file) noexcept;

// "train.py:41 (step)"
[[nodiscard]] std::string text(const PythonFrame& frame);

// "; stack: app+0x4c10 (step) < app+0x5000 (main); python: train.py:41 (step) < train.py:88 (<module>)"; each
// part only if there is something in it.
[[nodiscard]] std::string stack_text(const std::vector<Site>& stack, const std::vector<PythonFrame>& python);

}  // namespace gpufence::journal
