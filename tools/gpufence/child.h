// A short-lived child that is asked something: what it wrote on its stdout.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "tools/gpufence/environment.h"

namespace gpufence::command {

// Starts `path` with `words` (its own name first), stdin empty, stderr thrown away, and waits for its end, at
// most `patience`: then it is killed and its answer is empty, as is that of one that writes more than 1 MiB.
// What died has given what it had written. The error is a reason.
[[nodiscard]] tl::expected<std::string, std::string> answer_of(const std::string& path,
                                                               std::vector<std::string> words,
                                                               Environment environment,
                                                               std::chrono::milliseconds patience);

}  // namespace gpufence::command
