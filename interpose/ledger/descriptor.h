// A file descriptor that is closed at scope end, and the small files of /proc.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <string>

namespace gpufence::ledger {

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// The first 4 KiB of a file; empty where it can't be read.
[[nodiscard]] inline std::string read_small(const char* path) {
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t length = file.get() >= 0 ? ::read(file.get(), text, sizeof text) : 0;
  return {text, length > 0 ? static_cast<std::size_t>(length) : 0};
}

}  // namespace gpufence::ledger
