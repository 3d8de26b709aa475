// Arithmetic in f16 and bf16, alone and in pairs: computed in double, rounded once.
#include "ops/lanes.h"
#include "ops/narrow.h"

#include <cmath>

namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA {
namespace {

template <class Format>
bool is_nan(uint16_t bits) {
  return (bits & 0x7fff) > Format::kInfinity;
}
template <class Format>
uint16_t flushed(uint16_t bits, bool ftz) {
  return ftz && (bits & 0x7fff) < (1U << Format::kMantissa) ? bits & 0x8000 : bits;
}

// a × b + c, rounded to odd: so that rounding again, to eight bits, is right.
double fused_to_odd(double a, double b, double c) {
  const double product = a * b;  // exact: 16 bits
  const double sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (c - back);
  auto bits = __builtin_bit_cast(uint64_t, sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  // Towards the exact value: away from zero when the error has the sum's sign.
  if ((error > 0) == (sum > 0))
    bits += 1;
  else
    bits -= 1;
  return __builtin_bit_cast(double, bits);
}

// small[0]: 1 .ftz, 2 .sat, 4 .relu, 8 .NaN, 16 .xorsign.abs
enum : unsigned { kFtz = 1, kSat = 2, kRelu = 4, kNan = 8, kXorsign = 16 };

template <class Format, Kind kind>
uint16_t compute(uint16_t a, uint16_t b, uint16_t c, unsigned flags) {
  const bool ftz = (flags & kFtz) != 0;
  if constexpr (kind == Kind::neg) return flushed<Format>(a, ftz) ^ 0x8000;
  if constexpr (kind == Kind::abs) return flushed<Format>(a, ftz) & 0x7fff;
  a = flushed<Format>(a, ftz);
  b = flushed<Format>(b, ftz);
  c = flushed<Format>(c, ftz);
  if constexpr (kind == Kind::min || kind == Kind::max) {
    uint16_t sign = 0;
    if ((flags & kXorsign) != 0) {
      sign = (a ^ b) & 0x8000;
      a &= 0x7fff;
      b &= 0x7fff;
    }
    const bool a_nan = is_nan<Format>(a), b_nan = is_nan<Format>(b);
    if ((a_nan && b_nan) || ((flags & kNan) != 0 && (a_nan || b_nan))) return Format::kNan;
    if (a_nan) return b | sign;
    if (b_nan) return a | sign;
    const double x = widen<Format>(a), y = widen<Format>(b);
    const bool less = x < y || (x == y && (a & 0x8000) > (b & 0x8000));
    return (less == (kind == Kind::min) ? a : b) | sign;
  }
  const double x = widen<Format>(a), y = widen<Format>(b), z = widen<Format>(c);
  double r = 0;
  if constexpr (kind == Kind::add) r = x + y;
  if constexpr (kind == Kind::sub) r = x - y;
  if constexpr (kind == Kind::mul_lo) r = x * y;
  if constexpr (kind == Kind::fma) r = fused_to_odd(x, y, z);
  if constexpr (kind == Kind::ex2) r = std::exp2(x);
  if constexpr (kind == Kind::tanh) r = std::tanh(x);
  if ((flags & kSat) != 0) r = r > 0 ? (r < 1 ? r : 1.0) : 0.0;
  if ((flags & kRelu) != 0 && r == r) r = r > 0 ? r : 0.0;
  return flushed<Format>(narrow<Format>(r, Round::nearest), ftz);
}

template <class Format, Kind kind, unsigned sources, bool pair>
const Op* half(Warp& warp, const Op* op) {
  using T = std::conditional_t<pair, uint32_t, uint16_t>;
  const T* a = row<T>(warp, op->r[1]);
  const T* b = sources > 1 ? row<T>(warp, op->r[2]) : a;
  const T* c = sources > 2 ? row<T>(warp, op->r[3]) : a;
  const unsigned flags = op->small[0];
  return by_lane<T>(warp, op, [&](unsigned i) {
    if constexpr (!pair)
      return compute<Format, kind>(a[i], b[i], c[i], flags);
    else {
      const auto low = compute<Format, kind>(static_cast<uint16_t>(a[i]), static_cast<uint16_t>(b[i]),
                                             static_cast<uint16_t>(c[i]), flags);
      const auto high =
          compute<Format, kind>(static_cast<uint16_t>(a[i] >> 16), static_cast<uint16_t>(b[i] >> 16),
                                static_cast<uint16_t>(c[i] >> 16), flags);
      return uint32_t{low} | uint32_t{high} << 16;
    }
  });
}

template <Kind kind, unsigned sources>
Handler of_type(Type type) {
  switch (type) {
    case Type::f16:
      return half<Half, kind, sources, false>;
    case Type::bf16:
      return half<Brain, kind, sources, false>;
    case Type::f16x2:
      return half<Half, kind, sources, true>;
    case Type::bf16x2:
      return half<Brain, kind, sources, true>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler half_handler(const Key& key) {
  if (key.round != Round::nearest) return nullptr;
  switch (key.kind) {
    case Kind::add:
      return of_type<Kind::add, 2>(key.type);
    case Kind::sub:
      return of_type<Kind::sub, 2>(key.type);
    case Kind::mul_lo:
      return of_type<Kind::mul_lo, 2>(key.type);
    case Kind::fma:
      return of_type<Kind::fma, 3>(key.type);
    case Kind::neg:
      return of_type<Kind::neg, 1>(key.type);
    case Kind::abs:
      return of_type<Kind::abs, 1>(key.type);
    case Kind::min:
      return of_type<Kind::min, 2>(key.type);
    case Kind::max:
      return of_type<Kind::max, 2>(key.type);
    case Kind::ex2:
      return of_type<Kind::ex2, 1>(key.type);
    case Kind::tanh:
      return of_type<Kind::tanh, 1>(key.type);
    default:
      return nullptr;
  }
}

}  // namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA
