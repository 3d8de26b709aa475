// The composition root: reads the environment once, builds the rules, and makes the exit report. The only
// file that knows all layers; from below it is reached as dispatch::arm() alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "hooks/rules.h"

namespace gpufence {

using Environment = std::function<std::optional<std::string>(const char* name)>;

struct Reporting {
  bool to_stderr = false;
  std::string file;  // empty: none
};

// What the environment asks for. A bad value is a finding (GF502) and, where the fence must hold, a denial.
struct Configuration {
  std::unique_ptr<hooks::Rules> rules;
  Reporting reporting;
  std::string run_id;  // a process without a launcher has one of its own
};
[[nodiscard]] Configuration configure(const Environment& environment);

}  // namespace gpufence
