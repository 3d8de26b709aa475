// Plain text handling; see the header.
#include "tools/gpufence/environment.h"

#include <algorithm>

namespace gpufence::command {
namespace {

bool is_entry_of(const std::string& entry, std::string_view name) {
  return entry.size() > name.size() && entry[name.size()] == '=' && entry.compare(0, name.size(), name) == 0;
}

}  // namespace

Environment::Environment(const char* const* entries) {
  for (; entries != nullptr && *entries != nullptr; ++entries) entries_.emplace_back(*entries);
}

std::optional<std::string> Environment::get(std::string_view name) const {
  for (const std::string& entry : entries_)
    if (is_entry_of(entry, name)) return entry.substr(name.size() + 1);
  return std::nullopt;
}

std::optional<std::string> Environment::get_nonempty(std::string_view name) const {
  auto value = get(name);
  return value && !value->empty() ? value : std::nullopt;
}

void Environment::set(std::string_view name, std::string_view value) {
  std::string entry = std::string(name) + '=' + std::string(value);
  const auto first = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const std::string& candidate) { return is_entry_of(candidate, name); });
  if (first == entries_.end()) {
    entries_.push_back(std::move(entry));
    return;
  }
  *first = std::move(entry);
  entries_.erase(std::remove_if(first + 1, entries_.end(),
                                [&](const std::string& candidate) { return is_entry_of(candidate, name); }),
                 entries_.end());
}

void Environment::unset(std::string_view name) {
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [&](const std::string& candidate) { return is_entry_of(candidate, name); }),
                 entries_.end());
}

std::vector<char*> Environment::pointers() {
  std::vector<char*> result;
  for (std::string& entry : entries_) result.push_back(entry.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace gpufence::command
