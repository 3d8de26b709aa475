// The value of LD_PRELOAD for a fenced program.
#pragma once

#include <string>
#include <string_view>

namespace gpufence::command {

// `gate` first, then what the user had, each once however often runs are nested. A sanitizer's runtime
// refuses to start anywhere but at the very front, so `sanitizer` ("libasan.so.8", or nothing) and any such
// library that the user named go before the gate.
[[nodiscard]] std::string preload_value(std::string_view gate, std::string_view sanitizer,
                                        std::string_view inherited);

}  // namespace gpufence::command
