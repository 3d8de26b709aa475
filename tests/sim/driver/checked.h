// Arithmetic on sizes that a program gives: a result beyond 2^64 is beyond every limit, where plain
// arithmetic would wrap and pass for a small one. A product with 0 does not mend it.
#pragma once
#include <cstdint>

namespace gpufence::sim {

class Checked {
 public:
  constexpr Checked(uint64_t value) : value_(value) {}

  [[nodiscard]] constexpr bool within(uint64_t most) const { return fits_ && value_ <= most; }
  [[nodiscard]] constexpr bool fits() const { return fits_; }
  // Wrapped unless fits().
  [[nodiscard]] constexpr uint64_t value() const { return value_; }

  friend constexpr Checked operator+(Checked a, Checked b) {
    a.fits_ &= b.fits_ && !__builtin_add_overflow(a.value_, b.value_, &a.value_);
    return a;
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    a.fits_ &= b.fits_ && !__builtin_mul_overflow(a.value_, b.value_, &a.value_);
    return a;
  }

 private:
  uint64_t value_;
  bool fits_ = true;
};

}  // namespace gpufence::sim
