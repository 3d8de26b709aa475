// This process and the thread that asks, as findings name them. Asked only when there is something to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpufence::observe {

// A whole file of /proc or /etc; empty if it can't be read. By system calls alone: at a program's start C++'s
// streams would cost more than the file, since they make their locales first.
[[nodiscard]] std::string read_file(const char* path);

// A line of /proc/self/maps; `path` is empty for memory of no file.
struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  bool executable = false;
  std::string_view path{};
};
// Calls `visit` with each mapping of this process, by address, until it says true. By the kernel's word, and
// so without the loader's lock: a thread may hold that which waits for this one. Where /proc is not mounted
// there are none.
void each_mapping(bool (*visit)(const Mapping& mapping, void* data), void* data);

// What a process was started with, of /proc/PID/environ: settings that it made later do not show there, but a
// program that writes its title may overwrite them.
class InitialEnvironment {
 public:
  // `pid`: a number, or "self".
  explicit InitialEnvironment(const std::string& pid);
  InitialEnvironment(const InitialEnvironment&) = delete;
  InitialEnvironment& operator=(const InitialEnvironment&) = delete;
  [[nodiscard]] std::optional<std::string> get(std::string_view name) const;

 private:
  std::string all_;
  std::vector<std::string_view> entries_;  // of it
};

// That of this process, read once, at the first call.
[[nodiscard]] const InitialEnvironment& own_initial_environment();

// Nanoseconds since this process was started, in the kernel's resolution of 10 ms; 0 if /proc is not there.
[[nodiscard]] std::uint64_t process_age_ns();

// "+3.1 s": an age as findings write it.
[[nodiscard]] std::string age_text(std::uint64_t ns);

// The calling thread's name as the kernel knows it ("worker-2"), and its id.
[[nodiscard]] std::string thread_name();
[[nodiscard]] int thread_id();
// Another thread of this process; empty if it has ended.
[[nodiscard]] std::string thread_name(int id);

}  // namespace gpufence::observe
