// f16 and bf16 as bits: to double and back, with every rounding. In software, as not every host has F16C, and
// none has the directed roundings.
#pragma once
#include <cstdint>

#include "isa.h"

namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA {

struct Half {
  static constexpr int kMantissa = 10, kMinExponent = -14;
  static constexpr uint32_t kInfinity = 0x7c00, kNan = 0x7fff;
};
struct Brain {
  static constexpr int kMantissa = 7, kMinExponent = -126;
  static constexpr uint32_t kInfinity = 0x7f80, kNan = 0x7fff;
};

template <class Format>
inline double widen(uint16_t bits) {
  const uint64_t sign = uint64_t{bits & 0x8000U} << 48;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= Format::kInfinity) {
    const uint64_t payload = uint64_t{magnitude - Format::kInfinity} << (52 - Format::kMantissa);
    return __builtin_bit_cast(double, sign | 0x7ff0000000000000U | payload);
  }
  const uint32_t exponent = magnitude >> Format::kMantissa,
                 mantissa = magnitude & ((1U << Format::kMantissa) - 1);
  // A subnormal is its mantissa times the smallest step; both factors are exact.
  const double step =
      __builtin_bit_cast(double, uint64_t(1023 + Format::kMinExponent - Format::kMantissa) << 52);
  if (exponent == 0) {
    const double value = static_cast<double>(mantissa) * step;
    return sign != 0 ? -value : value;
  }
  const uint64_t wide = uint64_t(static_cast<int>(exponent) - 1 + Format::kMinExponent + 1023) << 52 |
                        uint64_t{mantissa} << (52 - Format::kMantissa);
  return __builtin_bit_cast(double, sign | wide);
}

template <class Format>
inline uint16_t narrow(double value, Round round) {
  const auto bits = __builtin_bit_cast(uint64_t, value);
  const uint32_t sign = bits >> 63 != 0 ? 0x8000 : 0;
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  uint64_t mantissa = bits & 0xfffffffffffffU;
  if (exponent == 1024) return static_cast<uint16_t>(mantissa != 0 ? Format::kNan : sign | Format::kInfinity);
  if (exponent == -1023) {
    if (mantissa == 0) return static_cast<uint16_t>(sign);
  } else {
    mantissa |= uint64_t{1} << 52;
  }
  const int below = exponent < Format::kMinExponent ? Format::kMinExponent - exponent : 0;
  const int drop = 52 - Format::kMantissa + below;
  uint64_t kept = 0, rest = 0, half = 1;
  if (drop < 63) {
    kept = mantissa >> drop;
    rest = mantissa & ((uint64_t{1} << drop) - 1);
    half = uint64_t{1} << (drop - 1);
  } else {
    rest = 1;
    half = 2;  // less than half a step
  }
  bool up = false;
  switch (round) {
    case Round::nearest:
      up = rest > half || (rest == half && (kept & 1) != 0);
      break;
    case Round::down:
      up = sign != 0 && rest != 0;
      break;
    case Round::up:
      up = sign == 0 && rest != 0;
      break;
    default:
      break;
  }
  // The leading one of a normal number adds 1 to the exponent field; a carry out of the mantissa does
  // likewise.
  uint64_t result = kept + (up ? 1 : 0);
  if (below == 0) result += uint64_t(exponent - Format::kMinExponent) << Format::kMantissa;
  if (result >= Format::kInfinity) {
    const bool to_infinity =
        round == Round::nearest || (round == Round::up && sign == 0) || (round == Round::down && sign != 0);
    result = to_infinity ? Format::kInfinity : Format::kInfinity - 1;
  }
  return static_cast<uint16_t>(sign | result);
}

}  // namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA
