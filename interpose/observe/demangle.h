// C++ names as their authors wrote them. The C++ runtime's reader lays out on the stack what a name consists
// of, hundreds of kilobytes for a kernel of a template library; threads that call CUDA may have 16 KiB. So it
// is given a stack of its own.
#pragma once

#include <string>

namespace gpufence::observe {

// "scale<float>(float*)" of "_Z5scaleIfEvPT_"; as it is if it is no such name.
[[nodiscard]] std::string demangled(const char* symbol);

}  // namespace gpufence::observe
