// A sanitizer is named by its soname alone: ld.so then looks for it exactly as it does for the program's own
// DT_NEEDED entry, RUNPATH included, and no search of ours can come to another file.
#include "tools/gpufence/preload.h"

#include <algorithm>
#include <vector>

namespace gpufence::command {
namespace {

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_sanitizer(std::string_view entry) {
  const std::string_view name = base_name(entry);
  for (const std::string_view runtime :
       {"libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so", "libclang_rt.asan", "libclang_rt.tsan"})
    if (name.substr(0, runtime.size()) == runtime) return true;
  return false;
}

}  // namespace

std::string preload_value(std::string_view gate, std::string_view sanitizer, std::string_view inherited) {
  std::vector<std::string_view> first, rest;
  while (!inherited.empty()) {
    const std::size_t end = std::min(inherited.find_first_of(": "), inherited.size());
    const std::string_view entry = inherited.substr(0, end);
    inherited.remove_prefix(std::min(end + 1, inherited.size()));
    // An outer run's gate, also that of another installation: two of them would hook each other.
    if (entry.empty() || base_name(entry) == base_name(gate)) continue;
    (is_sanitizer(entry) ? first : rest).push_back(entry);
  }
  const bool there = std::any_of(first.begin(), first.end(),
                                 [&](std::string_view entry) { return base_name(entry) == sanitizer; });
  if (!sanitizer.empty() && !there) first.insert(first.begin(), sanitizer);
  // Behind what the user preloads: a wrapper of CUDA calls there calls on to the next definition, which is ours.
  first.insert(first.end(), rest.begin(), rest.end());
  first.push_back(gate);
  std::string value;
  for (const std::string_view entry : first) {
    if (!value.empty()) value += ':';
    value += entry;
  }
  return value;
}

}  // namespace gpufence::command
