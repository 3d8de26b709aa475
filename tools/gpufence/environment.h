// A program's environment as a value, so that what we read (masks, caps, PATH) and what the program gets are
// one thing and our own process's environment stays out of it. Order and odd entries are kept as they came.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpufence::command {

class Environment {
 public:
  Environment() = default;
  explicit Environment(const char* const* entries);  // NULL-terminated, as environ
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {}

  // The first entry of this name, as getenv finds it.
  [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
  // As get(), with an empty value counted as none.
  [[nodiscard]] std::optional<std::string> get_nonempty(std::string_view name) const;
  void set(std::string_view name, std::string_view value);
  void unset(std::string_view name);

  [[nodiscard]] const std::vector<std::string>& entries() const { return entries_; }
  // For execve; valid as long as this object is neither changed nor moved.
  [[nodiscard]] std::vector<char*> pointers();

 private:
  std::vector<std::string> entries_;
};

}  // namespace gpufence::command
