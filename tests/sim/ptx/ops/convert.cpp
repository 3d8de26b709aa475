// cvt: every pair of types. The common pairs have loops of their own; one general handler does the rest a
// lane at a time: roundings, saturation, half formats, and registers wider than the type.
#include "ops/lanes.h"
#include "ops/narrow.h"

#include <cfenv>
#include <cmath>

namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA {
namespace {

inline float canonical(float value) {
  return value == value ? value : __builtin_bit_cast(float, 0x7fffffffU);
}
inline float flush(float value) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  return (bits & 0x7f800000) == 0 ? __builtin_bit_cast(float, bits & 0x80000000) : value;
}

template <class D, class S>
struct Cast {
  static D of(S a) { return static_cast<D>(a); }
};
struct Narrow32 {
  static float of(double a) { return canonical(static_cast<float>(a)); }
};

inline double to_integer(double a, Round round) {
  switch (round) {
    case Round::integer_nearest:
      return __builtin_nearbyint(a);
    case Round::integer_down:
      return __builtin_floor(a);
    case Round::integer_up:
      return __builtin_ceil(a);
    default:
      return __builtin_trunc(a);
  }
}

// A float that is an integer already, or not finite: out of range is clamped; a NaN is 0, or the top bit
// alone where either side has 64 bits.
template <class D>
inline D clamped(double a, bool nan_is_top) {
  constexpr unsigned kBits = sizeof(D) * 8;
  constexpr bool kSigned = D(-1) < D(0);
  const D lowest = kSigned ? static_cast<D>(uint64_t{1} << (kBits - 1)) : D{0};
  const D highest = static_cast<D>(kSigned ? ~(uint64_t{1} << (kBits - 1)) : ~uint64_t{0});
  const double limit = kSigned ? __builtin_ldexp(1.0, kBits - 1) : __builtin_ldexp(1.0, kBits);
  if (a != a) return nan_is_top ? static_cast<D>(uint64_t{1} << (kBits - 1)) : D{0};
  if (a >= limit) return highest;
  if (a < static_cast<double>(lowest)) return lowest;
  return static_cast<D>(a);
}
template <class D, class S, Round round>
struct ToInteger {
  static D of(S a) { return clamped<D>(to_integer(a, round), sizeof(D) == 8 || sizeof(S) == 8); }
};

// --- the general one
// --------------------------------------------------------------------------------------------------

uint64_t load(const Warp& warp, uint32_t at, unsigned bytes, unsigned lane) {
  switch (bytes) {
    case 2:
      return row<uint16_t>(warp, at)[lane];
    case 4:
      return row<uint32_t>(warp, at)[lane];
    default:
      return row<uint64_t>(warp, at)[lane];
  }
}
void store(const Warp& warp, uint32_t at, unsigned bytes, unsigned lane, uint64_t value) {
  switch (bytes) {
    case 2:
      row<uint16_t>(warp, at)[lane] = static_cast<uint16_t>(value);
      break;
    case 4:
      row<uint32_t>(warp, at)[lane] = static_cast<uint32_t>(value);
      break;
    default:
      row<uint64_t>(warp, at)[lane] = value;
      break;
  }
}
uint64_t extended(uint64_t value, Type type) {
  const unsigned shift = 64 - 8 * bytes_of(type);
  return is_signed(type) ? static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift)
                         : value << shift >> shift;
}
double real(uint64_t bits, Type type) {
  switch (type) {
    case Type::f16:
      return widen<Half>(static_cast<uint16_t>(bits));
    case Type::bf16:
      return widen<Brain>(static_cast<uint16_t>(bits));
    case Type::f32:
      return __builtin_bit_cast(float, static_cast<uint32_t>(bits));
    default:
      return __builtin_bit_cast(double, bits);
  }
}

int host_mode(Round round) {
  switch (round) {
    case Round::zero:
      return FE_TOWARDZERO;
    case Round::down:
      return FE_DOWNWARD;
    case Round::up:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}
template <class D, class S>
D cast_in_mode(S value, Round round) {
  volatile S in = value;
  std::fesetround(host_mode(round));
  volatile D result = static_cast<D>(in);
  std::fesetround(FE_TONEAREST);
  return result;
}

// Exact but for the last bit, which tells that something was lost: safe to round again to a half format.
double odd_double(uint64_t value, bool sign) {
  const bool minus = sign && static_cast<int64_t>(value) < 0;
  uint64_t magnitude = minus ? 0 - value : value;
  if (magnitude >> 53 != 0) {
    const int extra = 11 - __builtin_clzll(magnitude);
    const uint64_t lost = magnitude & ((uint64_t{1} << extra) - 1);
    magnitude = (magnitude >> extra | (lost != 0 ? 1 : 0)) << extra;
  }
  const auto result = static_cast<double>(magnitude);
  return minus ? -result : result;
}

enum : unsigned { kFtz = 1, kSat = 2, kRelu = 4 };

uint64_t from_real(double value, Type to, Round round, unsigned flags) {
  if ((flags & kSat) != 0) value = value > 0 ? (value < 1 ? value : 1.0) : 0.0;
  if ((flags & kRelu) != 0 && value == value) value = value > 0 ? value : 0.0;
  switch (to) {
    case Type::f16:
      return narrow<Half>(value, round);
    case Type::bf16:
      return narrow<Brain>(value, round);
    case Type::f32: {
      float result = canonical(cast_in_mode<float>(value, round));
      if ((flags & kFtz) != 0) result = flush(result);
      return __builtin_bit_cast(uint32_t, result);
    }
    default:
      return __builtin_bit_cast(uint64_t, value);
  }
}

uint64_t convert_one(uint64_t bits, Type to, Type from, Round round, unsigned flags) {
  if (!is_float(from)) {
    const uint64_t value = extended(bits, from);
    if (!is_float(to)) {
      if ((flags & kSat) == 0) return extended(value, to);
      const unsigned width = 8 * bytes_of(to);
      if (is_signed(to)) {
        const auto high = static_cast<int64_t>((uint64_t{1} << (width - 1)) - 1);
        if (!is_signed(from))
          return value > static_cast<uint64_t>(high) ? static_cast<uint64_t>(high) : value;
        const auto v = static_cast<int64_t>(value);
        return static_cast<uint64_t>(v > high ? high : v < -high - 1 ? -high - 1 : v);
      }
      const uint64_t high = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
      if (is_signed(from) && static_cast<int64_t>(value) < 0) return 0;
      return value > high ? high : value;
    }
    if (to == Type::f16) return from_real(odd_double(value, is_signed(from)), to, round, flags);
    if (to == Type::bf16) return from_real(odd_double(value, is_signed(from)), to, round, flags);
    if (to == Type::f32) {
      float result = is_signed(from) ? cast_in_mode<float>(static_cast<int64_t>(value), round)
                                     : cast_in_mode<float>(value, round);
      if ((flags & kSat) != 0) result = result > 0 ? (result < 1 ? result : 1.0F) : 0.0F;
      return __builtin_bit_cast(uint32_t, result);
    }
    double result = is_signed(from) ? cast_in_mode<double>(static_cast<int64_t>(value), round)
                                    : cast_in_mode<double>(value, round);
    if ((flags & kSat) != 0) result = result > 0 ? (result < 1 ? result : 1.0) : 0.0;
    return __builtin_bit_cast(uint64_t, result);
  }
  double value = real(bits, from);
  if ((flags & kFtz) != 0 && from == Type::f32) value = flush(static_cast<float>(value));
  if (is_float(to)) {
    if (round >= Round::integer_nearest)
      return from_real(to_integer(value, round), to, Round::nearest, flags);
    // A NaN keeps its bits between equal types, and becomes the one NaN of f32 and the halves otherwise.
    return from_real(value, to, round, flags);
  }
  value = to_integer(value, round);
  const bool top = bytes_of(to) == 8 || from == Type::f64;
  switch (to) {
    case Type::u8:
      return clamped<uint8_t>(value, top);
    case Type::s8:
      return static_cast<uint64_t>(static_cast<int64_t>(clamped<int8_t>(value, top)));
    case Type::u16:
      return clamped<uint16_t>(value, top);
    case Type::s16:
      return static_cast<uint64_t>(static_cast<int64_t>(clamped<int16_t>(value, top)));
    case Type::u32:
      return clamped<uint32_t>(value, top);
    case Type::s32:
      return static_cast<uint64_t>(static_cast<int64_t>(clamped<int32_t>(value, top)));
    case Type::u64:
      return clamped<uint64_t>(value, top);
    default:
      return static_cast<uint64_t>(clamped<int64_t>(value, top));
  }
}

// small: to, from, Round, flags; imm: register widths of d and a.
const Op* convert(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const auto to_bytes = static_cast<unsigned>(op->imm & 0xff),
             from_bytes = static_cast<unsigned>(op->imm >> 8 & 0xff);
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const uint64_t bits = load(warp, op->r[1], from_bytes, i);
    store(warp, op->r[0], to_bytes, i,
          convert_one(bits, static_cast<Type>(op->small[0]), static_cast<Type>(op->small[1]),
                      static_cast<Round>(op->small[2]), op->small[3]));
  }
  return op + 1;
}

// Two f32 to a pair: the first source is the upper half.
const Op* convert_pair(Warp& warp, const Op* op) {
  const uint32_t* a = row<uint32_t>(warp, op->r[1]);
  const uint32_t* b = row<uint32_t>(warp, op->r[2]);
  const Type to = static_cast<Type>(op->small[0]) == Type::f16x2 ? Type::f16 : Type::bf16;
  const auto round = static_cast<Round>(op->small[2]);
  const unsigned flags = op->small[3];
  return by_lane<uint32_t>(warp, op, [&](unsigned i) {
    return static_cast<uint32_t>(convert_one(a[i], to, Type::f32, round, flags) << 16 |
                                 convert_one(b[i], to, Type::f32, round, flags));
  });
}

template <class D, class S>
Handler rounded(Round round) {
  switch (round) {
    case Round::integer_nearest:
      return unary<ToInteger<D, S, Round::integer_nearest>, D, S>;
    case Round::integer_zero:
      return unary<ToInteger<D, S, Round::integer_zero>, D, S>;
    case Round::integer_down:
      return unary<ToInteger<D, S, Round::integer_down>, D, S>;
    case Round::integer_up:
      return unary<ToInteger<D, S, Round::integer_up>, D, S>;
    default:
      return nullptr;
  }
}
template <class S>
Handler integer_to(Type to) {
  switch (to) {
    case Type::u16:
    case Type::s16:
      return unary<Cast<uint16_t, S>, uint16_t, S>;
    case Type::u32:
    case Type::s32:
      return unary<Cast<uint32_t, S>, uint32_t, S>;
    case Type::u64:
    case Type::s64:
      return unary<Cast<uint64_t, S>, uint64_t, S>;
    case Type::f32:
      return unary<Cast<float, S>, float, S>;
    case Type::f64:
      return unary<Cast<double, S>, double, S>;
    default:
      return nullptr;
  }
}

}  // namespace

// key.register_bytes: of the result's register; small bits of the source's are the caller's (decode_alu.cpp):
// a fast handler is only asked for where both registers have their types' widths.
Handler convert_handler(const Key& key) {
  if (key.kind == Kind::cvt_pack) return convert_pair;
  if (key.register_bytes != 0 || key.ftz || key.sat || key.relu) return convert;
  const bool integer_rounding = key.round >= Round::integer_nearest;
  Handler fast = nullptr;
  if (!is_float(key.from)) {
    if (is_float(key.type) && key.round != Round::nearest) return convert;
    switch (key.from) {
      case Type::u16:
        fast = integer_to<uint16_t>(key.type);
        break;
      case Type::s16:
        fast = integer_to<int16_t>(key.type);
        break;
      case Type::u32:
        fast = integer_to<uint32_t>(key.type);
        break;
      case Type::s32:
        fast = integer_to<int32_t>(key.type);
        break;
      case Type::u64:
        fast = integer_to<uint64_t>(key.type);
        break;
      case Type::s64:
        fast = integer_to<int64_t>(key.type);
        break;
      default:
        break;
    }
  } else if (key.from == Type::f32 || key.from == Type::f64) {
    const bool single = key.from == Type::f32;
    if (key.type == Type::s32)
      fast = single ? rounded<int32_t, float>(key.round) : rounded<int32_t, double>(key.round);
    if (key.type == Type::u32)
      fast = single ? rounded<uint32_t, float>(key.round) : rounded<uint32_t, double>(key.round);
    if (key.type == Type::s64)
      fast = single ? rounded<int64_t, float>(key.round) : rounded<int64_t, double>(key.round);
    if (key.type == Type::u64)
      fast = single ? rounded<uint64_t, float>(key.round) : rounded<uint64_t, double>(key.round);
    if (key.type == Type::f64 && single && !integer_rounding)
      fast = unary<Cast<double, float>, double, float>;
    if (key.type == Type::f32 && !single && key.round == Round::nearest)
      fast = unary<Narrow32, float, double>;
  }
  return fast != nullptr ? fast : convert;
}

}  // namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA
