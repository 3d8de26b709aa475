// Reading what may not be there: a stack that was overwritten, an interpreter that another thread takes down.
// The kernel is asked before each piece is read, by a call that every program makes and no filter of system
// calls refuses (process_vm_readv is refused in some containers, and kills in some services).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace gpufence::observe {

class Memory {
 public:
  // False if any of it can't be read; then what `to` holds is undefined.
  [[nodiscard]] bool read(std::uintptr_t at, void* to, std::size_t bytes) noexcept;

  template <class T>
  [[nodiscard]] std::optional<T> get(std::uintptr_t at) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    if (!read(at, &value, sizeof value)) return std::nullopt;
    return value;
  }

 private:
  // What was read lately: neither a stack that is walked nor the tables for it change meanwhile.
  static constexpr std::size_t kLine = 128;  // bytes; no line lies on two pages
  struct Line {
    std::uintptr_t at = 1;  // aligned to kLine, so 1 is none
    std::array<unsigned char, kLine> bytes;
  };
  [[nodiscard]] const Line* line_of(std::uintptr_t at) noexcept;

  std::array<Line, 8> lines_{};
};

}  // namespace gpufence::observe
