// Integer arithmetic, logic, shifts and bit fields, as PTX defines them: two's complement, shifts beyond the
// width clamp, division by zero gives all ones as the hardware does.
#include "ops/lanes.h"

#include <type_traits>

namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
constexpr unsigned kBits = sizeof(T) * 8;

// Twice as wide.
template <class T>
struct Wider;
template <>
struct Wider<uint16_t> {
  using type = uint32_t;
};
template <>
struct Wider<int16_t> {
  using type = int32_t;
};
template <>
struct Wider<uint32_t> {
  using type = uint64_t;
};
template <>
struct Wider<int32_t> {
  using type = int64_t;
};
template <>
struct Wider<uint64_t> {
  using type = unsigned __int128;
};
template <>
struct Wider<int64_t> {
  using type = __int128;
};
template <class T>
using Wide = typename Wider<T>::type;

// All of these wrap: arithmetic is done unsigned, as wide as int at least.
template <class T>
struct Add {
  static T of(T a, T b) { return static_cast<T>(uint64_t(a) + uint64_t(b)); }
};
template <>
struct Add<uint32_t> {
  static uint32_t of(uint32_t a, uint32_t b) { return a + b; }
};
template <class T>
struct Sub {
  static T of(T a, T b) { return static_cast<T>(uint64_t(a) - uint64_t(b)); }
};
template <>
struct Sub<uint32_t> {
  static uint32_t of(uint32_t a, uint32_t b) { return a - b; }
};
template <class T>
struct MulLo {
  static T of(T a, T b) { return static_cast<T>(Unsigned<Wide<T>>(a) * Unsigned<Wide<T>>(b)); }
};
template <>
struct MulLo<uint32_t> {
  static uint32_t of(uint32_t a, uint32_t b) { return a * b; }
};
template <>
struct MulLo<uint64_t> {
  static uint64_t of(uint64_t a, uint64_t b) { return a * b; }
};
template <>
struct MulLo<int64_t> {
  static int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
template <class T>
struct MulHi {
  static T of(T a, T b) {
    return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> kBits<T>);
  }
};
template <class T>
struct MulWide {
  static Wide<T> of(T a, T b) { return static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b); }
};
template <class T>
struct MadLo {
  static T of(T a, T b, T c) { return Add<T>::of(MulLo<T>::of(a, b), c); }
};
template <class T>
struct MadHi {
  static T of(T a, T b, T c) { return Add<T>::of(MulHi<T>::of(a, b), c); }
};
template <class T>
struct MadWide {
  static Wide<T> of(T a, T b, Wide<T> c) {
    return static_cast<Wide<T>>(static_cast<Unsigned<Wide<T>>>(MulWide<T>::of(a, b)) +
                                static_cast<Unsigned<Wide<T>>>(c));
  }
};
struct MadHiSat {
  static int32_t of(int32_t a, int32_t b, int32_t c) {
    const int64_t sum = int64_t{MulHi<int32_t>::of(a, b)} + c;
    return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : static_cast<int32_t>(sum);
  }
};
struct AddSat {
  static int32_t of(int32_t a, int32_t b) {
    const int64_t sum = int64_t{a} + b;
    return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : static_cast<int32_t>(sum);
  }
};
struct SubSat {
  static int32_t of(int32_t a, int32_t b) {
    const int64_t sum = int64_t{a} - b;
    return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : static_cast<int32_t>(sum);
  }
};

template <class T>
T low24(T a) {
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(static_cast<T>(static_cast<uint32_t>(a) << 8) >> 8);
  return a & 0xffffff;
}
template <class T>
struct Mul24Lo {
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(low24(a)) * static_cast<Wide<T>>(low24(b)));
  }
};
template <class T>
struct Mul24Hi {  // bits 16 to 47 of the 48-bit product
  static T of(T a, T b) {
    return static_cast<T>((static_cast<Wide<T>>(low24(a)) * static_cast<Wide<T>>(low24(b))) >> 16);
  }
};
template <class T>
struct Mad24Lo {
  static T of(T a, T b, T c) { return Add<T>::of(Mul24Lo<T>::of(a, b), c); }
};
template <class T>
struct Mad24Hi {
  static T of(T a, T b, T c) { return Add<T>::of(Mul24Hi<T>::of(a, b), c); }
};
template <class T>
struct Sad {
  static T of(T a, T b, T c) { return Add<T>::of(a < b ? Sub<T>::of(b, a) : Sub<T>::of(a, b), c); }
};

template <class T>
struct Div {
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(0 - static_cast<Unsigned<T>>(a));
    }
    return static_cast<T>(a / b);
  }
};
template <class T>
struct Rem {
  static T of(T a, T b) {
    if (b == 0)
      return a;  // hardware: a - (a / b) * b with a / b unspecified; the dividend is what drivers give
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
template <class T>
struct Abs {
  static T of(T a) { return a < 0 ? static_cast<T>(0 - static_cast<Unsigned<T>>(a)) : a; }
};
template <class T>
struct Neg {
  static T of(T a) { return static_cast<T>(0 - static_cast<Unsigned<T>>(a)); }
};
template <class T>
struct Min {
  static T of(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max {
  static T of(T a, T b) { return a > b ? a : b; }
};
template <class T>
struct MinRelu {
  static T of(T a, T b) {
    const T m = a < b ? a : b;
    return m < 0 ? T{0} : m;
  }
};
template <class T>
struct MaxRelu {
  static T of(T a, T b) {
    const T m = a > b ? a : b;
    return m < 0 ? T{0} : m;
  }
};
template <class T>
struct And {
  static T of(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T of(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T of(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  static T of(T a) { return static_cast<T>(~a); }
};
template <class T>
struct Cnot {
  static T of(T a) { return a == 0 ? T{1} : T{0}; }
};
template <class T>
struct Mov {
  static T of(T a) { return a; }
};
template <class T>
struct Shl {
  static T of(T a, uint32_t b) { return b >= kBits<T> ? T{0} : static_cast<T>(a << (b & (kBits<T> - 1))); }
};
template <class T>
struct Shr {
  static T of(T a, uint32_t b) {
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (b >= kBits<T> ? kBits<T> - 1 : b));
    return b >= kBits<T> ? T{0} : static_cast<T>(a >> (b & (kBits<T> - 1)));
  }
};
template <bool wrap>
struct ShfL {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = wrap ? c & 31 : c > 32 ? 32 : c;
    return static_cast<uint32_t>(((uint64_t{b} << 32 | a) << n) >> 32);
  }
};
template <bool wrap>
struct ShfR {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = wrap ? c & 31 : c > 32 ? 32 : c;
    return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> n);
  }
};

template <class T>
struct Popc {
  static uint32_t of(T a) { return static_cast<uint32_t>(__builtin_popcountll(a)); }
};
template <class T>
struct Clz {
  static uint32_t of(T a) {
    return a == 0 ? kBits<T> : static_cast<uint32_t>(__builtin_clzll(a)) - (64 - kBits<T>);
  }
};
template <class T, bool amount>
struct Bfind {
  static uint32_t of(T a) {
    auto bits = static_cast<Unsigned<T>>(a);
    if constexpr (std::is_signed_v<T>) bits = a < 0 ? static_cast<Unsigned<T>>(~bits) : bits;
    if (bits == 0) return 0xffffffffU;
    const auto place = 63 - static_cast<uint32_t>(__builtin_clzll(bits));
    return amount ? kBits<T> - 1 - place : place;
  }
};
template <class T>
struct Brev {
  static T of(T a) {
    uint64_t v = a;
    v = (v >> 1 & 0x5555555555555555U) | (v & 0x5555555555555555U) << 1;
    v = (v >> 2 & 0x3333333333333333U) | (v & 0x3333333333333333U) << 2;
    v = (v >> 4 & 0x0f0f0f0f0f0f0f0fU) | (v & 0x0f0f0f0f0f0f0f0fU) << 4;
    return static_cast<T>(__builtin_bswap64(v) >> (64 - kBits<T>));
  }
};
template <class T>
struct Bfe {
  static T of(T a, uint32_t b, uint32_t c) {
    const uint32_t pos = b & 0xff, len = c & 0xff, msb = kBits<T> - 1;
    const auto bits = static_cast<uint64_t>(static_cast<Unsigned<T>>(a));
    uint64_t sign = 0;
    if constexpr (std::is_signed_v<T>) {
      const uint32_t at = pos + len - 1 < msb ? pos + len - 1 : msb;
      sign = len == 0 ? 0 : bits >> at & 1;
    }
    uint64_t field = pos > msb ? 0 : bits >> pos;
    // Bits of the field beyond the source's end, and above the field, are copies of the sign.
    const uint32_t valid = pos > msb ? 0 : (len < msb + 1 - pos ? len : msb + 1 - pos);
    const uint64_t mask = valid >= 64 ? ~uint64_t{0} : (uint64_t{1} << valid) - 1;
    field &= mask;
    return static_cast<T>(sign != 0 ? field | ~mask : field);
  }
};
struct Bmsk {
  template <bool wrap>
  static uint32_t make(uint32_t a, uint32_t b) {
    const uint32_t pos = wrap ? a & 31 : a > 32 ? 32 : a, width = wrap ? b & 31 : b > 32 ? 32 : b;
    return static_cast<uint32_t>(((uint64_t{1} << width) - 1) << pos);
  }
};
template <class T, bool wrap>
struct Szext {
  static uint32_t of(uint32_t a, uint32_t b) {
    if (!wrap && b >= 32) return a;
    const uint32_t width = b & 31, above = ~uint32_t{0} << width;
    const bool sign = std::is_signed_v<T> && width != 0 && (a >> ((width - 1) & 31) & 1) != 0;
    return sign ? a | above : a & ~above;
  }
};
template <bool wrap>
struct BmskOf {
  static uint32_t of(uint32_t a, uint32_t b) { return Bmsk::make<wrap>(a, b); }
};

template <class T>
const Op* bfi(Warp& warp, const Op* op) {
  const T* a = row<T>(warp, op->r[1]);
  const T* b = row<T>(warp, op->r[2]);
  const uint32_t* c = row<uint32_t>(warp, op->r[3]);
  const uint32_t* d = row<uint32_t>(warp, op->r[4]);
  return by_lane<T>(warp, op, [&](unsigned i) {
    const uint32_t pos = c[i] & 0xff, len = d[i] & 0xff;
    if (pos >= kBits<T>) return b[i];
    const uint64_t mask = (len >= 64 ? ~uint64_t{0} : (uint64_t{1} << len) - 1) << pos;
    return static_cast<T>((uint64_t{b[i]} & ~mask) | ((uint64_t{a[i]} << pos) & mask));
  });
}

const Op* lop3(Warp& warp, const Op* op) {
  const uint32_t* a = row<uint32_t>(warp, op->r[1]);
  const uint32_t* b = row<uint32_t>(warp, op->r[2]);
  const uint32_t* c = row<uint32_t>(warp, op->r[3]);
  const auto table = static_cast<uint32_t>(op->imm);
  alignas(64) uint32_t t[kLanes];
  uint32_t on[8];
  for (unsigned k = 0; k < 8; ++k) on[k] = (table >> k & 1) != 0 ? ~0U : 0U;
  GPUFENCE_LANES
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint32_t x = a[i], y = b[i], z = c[i];
    t[i] = (on[0] & ~x & ~y & ~z) | (on[1] & ~x & ~y & z) | (on[2] & ~x & y & ~z) | (on[3] & ~x & y & z) |
           (on[4] & x & ~y & ~z) | (on[5] & x & ~y & z) | (on[6] & x & y & ~z) | (on[7] & x & y & z);
  }
  blend(row<uint32_t>(warp, op->r[0]), t, exec_mask(warp, op));
  return op + 1;
}

// The |offset|-th set bit from `base` on, upwards or downwards.
const Op* fns(Warp& warp, const Op* op) {
  const uint32_t* mask = row<uint32_t>(warp, op->r[1]);
  const uint32_t* base = row<uint32_t>(warp, op->r[2]);
  const auto* offset = row<int32_t>(warp, op->r[3]);
  return by_lane<uint32_t>(warp, op, [&](unsigned i) {
    const int64_t by = offset[i];
    int64_t left = by == 0 ? 0 : (by > 0 ? by : -by) - 1;
    for (int64_t at = base[i]; at >= 0 && at < 32; at += by < 0 ? -1 : 1) {
      if ((mask[i] >> at & 1) != 0 && left-- == 0) return static_cast<uint32_t>(at);
      if (by == 0) break;
    }
    return ~uint32_t{0};
  });
}

// small[0]: 0 the default mode, else f4e, b4e, rc8, ecl, ecr, rc16 in this order.
const Op* prmt(Warp& warp, const Op* op) {
  const uint32_t* a = row<uint32_t>(warp, op->r[1]);
  const uint32_t* b = row<uint32_t>(warp, op->r[2]);
  const uint32_t* c = row<uint32_t>(warp, op->r[3]);
  const unsigned mode = op->small[0];
  return by_lane<uint32_t>(warp, op, [&](unsigned i) {
    const uint64_t bytes = uint64_t{b[i]} << 32 | a[i];
    const uint32_t n = c[i] & 3;
    uint32_t result = 0;
    for (uint32_t k = 0; k < 4; ++k) {
      uint32_t pick = 0;
      switch (mode) {
        case 0:
          pick = c[i] >> 4 * k & 15;
          break;
        case 1:
          pick = (n + k) & 7;
          break;  // f4e
        case 2:
          pick = (n + 8 - k) & 7;
          break;  // b4e
        case 3:
          pick = n;
          break;  // rc8
        case 4:
          pick = k < n ? n : k;
          break;  // ecl
        case 5:
          pick = k > n ? n : k;
          break;  // ecr
        default:
          pick = (n & 1) * 2 + (k & 1);
          break;  // rc16
      }
      uint32_t byte = static_cast<uint32_t>(bytes >> 8 * (pick & 7)) & 0xff;
      if (mode == 0 && (pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;  // the sign, all over the byte
      result |= byte << 8 * k;
    }
    return result;
  });
}

int32_t byte_of(uint32_t word, unsigned k, bool sign) {
  const uint32_t byte = word >> 8 * k & 0xff;
  return sign ? static_cast<int8_t>(byte) : static_cast<int32_t>(byte);
}
// small[0]: a is signed; small[1]: b is; small[2]: of dp2a, 1 for .hi.
const Op* dp4a(Warp& warp, const Op* op) {
  const uint32_t* a = row<uint32_t>(warp, op->r[1]);
  const uint32_t* b = row<uint32_t>(warp, op->r[2]);
  const uint32_t* c = row<uint32_t>(warp, op->r[3]);
  return by_lane<uint32_t>(warp, op, [&](unsigned i) {
    uint32_t sum = c[i];
    for (unsigned k = 0; k < 4; ++k) {
      sum += static_cast<uint32_t>(byte_of(a[i], k, op->small[0] != 0) * byte_of(b[i], k, op->small[1] != 0));
    }
    return sum;
  });
}
const Op* dp2a(Warp& warp, const Op* op) {
  const uint32_t* a = row<uint32_t>(warp, op->r[1]);
  const uint32_t* b = row<uint32_t>(warp, op->r[2]);
  const uint32_t* c = row<uint32_t>(warp, op->r[3]);
  return by_lane<uint32_t>(warp, op, [&](unsigned i) {
    uint32_t sum = c[i];
    for (unsigned k = 0; k < 2; ++k) {
      const uint32_t half = a[i] >> 16 * k & 0xffff;
      const int32_t x = op->small[0] != 0 ? static_cast<int16_t>(half) : static_cast<int32_t>(half);
      sum += static_cast<uint32_t>(x) *
             static_cast<uint32_t>(byte_of(b[i], k + 2U * op->small[2], op->small[1] != 0));
    }
    return sum;
  });
}

template <class T>
const Op* selp(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  T* d = row<T>(warp, op->r[0]);
  const T* a = row<T>(warp, op->r[1]);
  const T* b = row<T>(warp, op->r[2]);
  const uint32_t p = predicate(warp, op->r[3]) ^ static_cast<uint32_t>(op->imm);
  if (lanes == kAll) {
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) d[i] = (p & kLaneBits.bit[i]) != 0 ? a[i] : b[i];
  } else {
    alignas(64) T t[kLanes];
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) t[i] = (p & kLaneBits.bit[i]) != 0 ? a[i] : b[i];
    blend(d, t, lanes);
  }
  return op + 1;
}

template <class T>
struct SlctInt {
  static T of(T a, T b, int32_t c) { return c >= 0 ? a : b; }
};
template <class T, bool ftz>
struct SlctFloat {
  static T of(T a, T b, float c) {
    // A NaN chooses b; with .ftz a negative subnormal is -0, hence not below 0.
    if (ftz && __builtin_fabsf(c) < 0x1p-126F) c = 0;
    return c >= 0 ? a : b;
  }
};

// Predicates as logic operands: words of 32 lanes.
template <int what>
const Op* logic_pred(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const uint32_t a = predicate(warp, op->r[1]) ^ static_cast<uint32_t>(op->imm);
  const uint32_t b = predicate(warp, op->r[2]) ^ static_cast<uint32_t>(op->imm >> 32);
  const uint32_t value = what == 0 ? a & b : what == 1 ? a | b : what == 2 ? a ^ b : what == 3 ? ~a : a;
  uint32_t& d = predicate(warp, op->r[0]);
  d = (d & ~lanes) | (value & lanes);
  return op + 1;
}

// Carry chains: the flag is a word of the frame. small[0]: the flag is written. A subtraction is an addition
// of the complement and leaves that one's carry, so 1 where nothing was borrowed: chains that go on with
// addc, as the 128-bit division that nvcc emits, tell.
template <class T, bool subtract, bool carry_in>
const Op* carry(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  T* d = row<T>(warp, op->r[0]);
  const T* a = row<T>(warp, op->r[1]);
  const T* b = row<T>(warp, op->r[2]);
  uint32_t& flags = predicate(warp, kCarry);
  uint32_t out = flags;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const T in = carry_in ? static_cast<T>(flags >> i & 1) : T{0};
    bool over = false;
    T result = 0;
    if (subtract) {
      const bool one = __builtin_sub_overflow(a[i], b[i], &result);
      over = !(__builtin_sub_overflow(result, static_cast<T>(carry_in ? 1 - in : 0), &result) || one);
    } else {
      const bool one = __builtin_add_overflow(a[i], b[i], &result);
      over = __builtin_add_overflow(result, in, &result) || one;
    }
    d[i] = result;
    out = (out & ~(1U << i)) | static_cast<uint32_t>(over) << i;
  }
  if (op->small[0] != 0) flags = out;
  return op + 1;
}
template <class T, bool high, bool carry_in>
const Op* mad_carry(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  Unsigned<T>* d = row<Unsigned<T>>(warp, op->r[0]);
  const T* a = row<T>(warp, op->r[1]);
  const T* b = row<T>(warp, op->r[2]);
  const Unsigned<T>* c = row<Unsigned<T>>(warp, op->r[3]);
  uint32_t& flags = predicate(warp, kCarry);
  uint32_t out = flags;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const auto product = static_cast<Unsigned<T>>(high ? MulHi<T>::of(a[i], b[i]) : MulLo<T>::of(a[i], b[i]));
    Unsigned<T> result = 0;
    const bool one = __builtin_add_overflow(product, c[i], &result);
    const bool over =
        __builtin_add_overflow(result, static_cast<Unsigned<T>>(carry_in ? flags >> i & 1 : 0), &result) ||
        one;
    d[i] = result;
    out = (out & ~(1U << i)) | static_cast<uint32_t>(over) << i;
  }
  if (op->small[0] != 0) flags = out;
  return op + 1;
}

template <template <class> class F>
Handler any_sign(Type type) {  // the sign does not matter
  switch (bytes_of(type)) {
    case 2:
      return binary<F<uint16_t>, uint16_t, uint16_t, uint16_t>;
    case 4:
      return binary<F<uint32_t>, uint32_t, uint32_t, uint32_t>;
    case 8:
      return binary<F<uint64_t>, uint64_t, uint64_t, uint64_t>;
    default:
      return nullptr;
  }
}
template <template <class> class F>
Handler by_sign(Type type) {
  switch (type) {
    case Type::u16:
      return binary<F<uint16_t>, uint16_t, uint16_t, uint16_t>;
    case Type::s16:
      return binary<F<int16_t>, int16_t, int16_t, int16_t>;
    case Type::u32:
      return binary<F<uint32_t>, uint32_t, uint32_t, uint32_t>;
    case Type::s32:
      return binary<F<int32_t>, int32_t, int32_t, int32_t>;
    case Type::u64:
      return binary<F<uint64_t>, uint64_t, uint64_t, uint64_t>;
    case Type::s64:
      return binary<F<int64_t>, int64_t, int64_t, int64_t>;
    default:
      return nullptr;
  }
}
template <template <class> class F>
Handler mad_by_sign(Type type) {
  switch (type) {
    case Type::u16:
      return ternary<F<uint16_t>, uint16_t, uint16_t, uint16_t, uint16_t>;
    case Type::s16:
      return ternary<F<int16_t>, int16_t, int16_t, int16_t, int16_t>;
    case Type::u32:
      return ternary<F<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t>;
    case Type::s32:
      return ternary<F<int32_t>, int32_t, int32_t, int32_t, int32_t>;
    case Type::u64:
      return ternary<F<uint64_t>, uint64_t, uint64_t, uint64_t, uint64_t>;
    case Type::s64:
      return ternary<F<int64_t>, int64_t, int64_t, int64_t, int64_t>;
    default:
      return nullptr;
  }
}
template <template <class> class F>
Handler one(Type type) {
  switch (bytes_of(type)) {
    case 2:
      return unary<F<uint16_t>, uint16_t, uint16_t>;
    case 4:
      return unary<F<uint32_t>, uint32_t, uint32_t>;
    case 8:
      return unary<F<uint64_t>, uint64_t, uint64_t>;
    default:
      return nullptr;
  }
}
template <template <class> class F>
Handler one_signed(Type type) {
  switch (type) {
    case Type::s16:
      return unary<F<int16_t>, int16_t, int16_t>;
    case Type::s32:
      return unary<F<int32_t>, int32_t, int32_t>;
    case Type::s64:
      return unary<F<int64_t>, int64_t, int64_t>;
    default:
      return nullptr;
  }
}
template <template <class> class F>
Handler only32(Type type) {
  switch (type) {
    case Type::u32:
      return binary<F<uint32_t>, uint32_t, uint32_t, uint32_t>;
    case Type::s32:
      return binary<F<int32_t>, int32_t, int32_t, int32_t>;
    default:
      return nullptr;
  }
}
template <template <class> class F>
Handler mad_only32(Type type) {
  switch (type) {
    case Type::u32:
      return ternary<F<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t>;
    case Type::s32:
      return ternary<F<int32_t>, int32_t, int32_t, int32_t, int32_t>;
    default:
      return nullptr;
  }
}
template <template <class> class F>
Handler shift(Type type) {
  switch (type) {
    case Type::b16:
    case Type::u16:
      return binary<F<uint16_t>, uint16_t, uint16_t, uint32_t>;
    case Type::s16:
      return binary<F<int16_t>, int16_t, int16_t, uint32_t>;
    case Type::b32:
    case Type::u32:
      return binary<F<uint32_t>, uint32_t, uint32_t, uint32_t>;
    case Type::s32:
      return binary<F<int32_t>, int32_t, int32_t, uint32_t>;
    case Type::b64:
    case Type::u64:
      return binary<F<uint64_t>, uint64_t, uint64_t, uint32_t>;
    case Type::s64:
      return binary<F<int64_t>, int64_t, int64_t, uint32_t>;
    default:
      return nullptr;
  }
}
template <bool subtract, bool carry_in>
Handler carry_of(Type type) {
  return bytes_of(type) == 4   ? carry<uint32_t, subtract, carry_in>
         : bytes_of(type) == 8 ? carry<uint64_t, subtract, carry_in>
                               : nullptr;
}
template <bool high, bool carry_in>
Handler mad_carry_of(Type type) {
  switch (type) {
    case Type::u32:
    case Type::b32:
      return mad_carry<uint32_t, high, carry_in>;
    case Type::s32:
      return mad_carry<int32_t, high, carry_in>;
    case Type::u64:
    case Type::b64:
      return mad_carry<uint64_t, high, carry_in>;
    case Type::s64:
      return mad_carry<int64_t, high, carry_in>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler integer_handler(const Key& key) {
  const Type t = key.type;
  if (t == Type::pred) {
    switch (key.kind) {
      case Kind::and_:
        return logic_pred<0>;
      case Kind::or_:
        return logic_pred<1>;
      case Kind::xor_:
        return logic_pred<2>;
      case Kind::not_:
        return logic_pred<3>;
      case Kind::mov:
        return logic_pred<4>;
      default:
        return nullptr;
    }
  }
  switch (key.kind) {
    case Kind::add:
      return key.sat ? (t == Type::s32 ? Handler{binary<AddSat, int32_t, int32_t, int32_t>} : nullptr)
                     : any_sign<Add>(t);
    case Kind::sub:
      return key.sat ? (t == Type::s32 ? Handler{binary<SubSat, int32_t, int32_t, int32_t>} : nullptr)
                     : any_sign<Sub>(t);
    case Kind::mul_lo:
      return any_sign<MulLo>(t);
    case Kind::mul_hi:
      return by_sign<MulHi>(t);
    case Kind::mul_wide:
      switch (t) {
        case Type::u16:
          return binary<MulWide<uint16_t>, uint32_t, uint16_t, uint16_t>;
        case Type::s16:
          return binary<MulWide<int16_t>, int32_t, int16_t, int16_t>;
        case Type::u32:
          return binary<MulWide<uint32_t>, uint64_t, uint32_t, uint32_t>;
        case Type::s32:
          return binary<MulWide<int32_t>, int64_t, int32_t, int32_t>;
        default:
          return nullptr;
      }
    case Kind::mad_lo:
      return mad_by_sign<MadLo>(t);
    case Kind::mad_hi:
      if (key.sat)
        return t == Type::s32 ? Handler{ternary<MadHiSat, int32_t, int32_t, int32_t, int32_t>} : nullptr;
      return mad_by_sign<MadHi>(t);
    case Kind::mad_wide:
      switch (t) {
        case Type::u16:
          return ternary<MadWide<uint16_t>, uint32_t, uint16_t, uint16_t, uint32_t>;
        case Type::s16:
          return ternary<MadWide<int16_t>, int32_t, int16_t, int16_t, int32_t>;
        case Type::u32:
          return ternary<MadWide<uint32_t>, uint64_t, uint32_t, uint32_t, uint64_t>;
        case Type::s32:
          return ternary<MadWide<int32_t>, int64_t, int32_t, int32_t, int64_t>;
        default:
          return nullptr;
      }
    case Kind::mul24_lo:
      return only32<Mul24Lo>(t);
    case Kind::mul24_hi:
      return only32<Mul24Hi>(t);
    case Kind::mad24_lo:
      return mad_only32<Mad24Lo>(t);
    case Kind::mad24_hi:
      return mad_only32<Mad24Hi>(t);
    case Kind::sad:
      return mad_by_sign<Sad>(t);
    case Kind::div:
      return by_sign<Div>(t);
    case Kind::rem:
      return by_sign<Rem>(t);
    case Kind::abs:
      return one_signed<Abs>(t);
    case Kind::neg:
      return one_signed<Neg>(t);
    case Kind::min:
      if (key.relu)
        return t == Type::s32 ? Handler{binary<MinRelu<int32_t>, int32_t, int32_t, int32_t>} : nullptr;
      return by_sign<Min>(t);
    case Kind::max:
      if (key.relu)
        return t == Type::s32 ? Handler{binary<MaxRelu<int32_t>, int32_t, int32_t, int32_t>} : nullptr;
      return by_sign<Max>(t);
    case Kind::and_:
      return any_sign<And>(t);
    case Kind::or_:
      return any_sign<Or>(t);
    case Kind::xor_:
      return any_sign<Xor>(t);
    case Kind::not_:
      return one<Not>(t);
    case Kind::cnot:
      return one<Cnot>(t);
    case Kind::mov:
      return one<Mov>(t);
    case Kind::shl:
      return shift<Shl>(t);
    case Kind::shr:
      return shift<Shr>(t);
    case Kind::shf_l:
      return key.sat ? ternary<ShfL<false>, uint32_t, uint32_t, uint32_t, uint32_t>
                     : ternary<ShfL<true>, uint32_t, uint32_t, uint32_t, uint32_t>;
    case Kind::shf_r:
      return key.sat ? ternary<ShfR<false>, uint32_t, uint32_t, uint32_t, uint32_t>
                     : ternary<ShfR<true>, uint32_t, uint32_t, uint32_t, uint32_t>;
    case Kind::popc:
      return bytes_of(t) == 4   ? Handler{unary<Popc<uint32_t>, uint32_t, uint32_t>}
             : bytes_of(t) == 8 ? Handler{unary<Popc<uint64_t>, uint32_t, uint64_t>}
                                : nullptr;
    case Kind::clz:
      return bytes_of(t) == 4   ? Handler{unary<Clz<uint32_t>, uint32_t, uint32_t>}
             : bytes_of(t) == 8 ? Handler{unary<Clz<uint64_t>, uint32_t, uint64_t>}
                                : nullptr;
    case Kind::brev:
      return bytes_of(t) == 4   ? Handler{unary<Brev<uint32_t>, uint32_t, uint32_t>}
             : bytes_of(t) == 8 ? Handler{unary<Brev<uint64_t>, uint64_t, uint64_t>}
                                : nullptr;
    case Kind::bfind:
      switch (t) {
        case Type::u32:
          return unary<Bfind<uint32_t, false>, uint32_t, uint32_t>;
        case Type::s32:
          return unary<Bfind<int32_t, false>, uint32_t, int32_t>;
        case Type::u64:
          return unary<Bfind<uint64_t, false>, uint32_t, uint64_t>;
        case Type::s64:
          return unary<Bfind<int64_t, false>, uint32_t, int64_t>;
        default:
          return nullptr;
      }
    case Kind::bfind_amount:
      switch (t) {
        case Type::u32:
          return unary<Bfind<uint32_t, true>, uint32_t, uint32_t>;
        case Type::s32:
          return unary<Bfind<int32_t, true>, uint32_t, int32_t>;
        case Type::u64:
          return unary<Bfind<uint64_t, true>, uint32_t, uint64_t>;
        case Type::s64:
          return unary<Bfind<int64_t, true>, uint32_t, int64_t>;
        default:
          return nullptr;
      }
    case Kind::bfe:
      switch (t) {
        case Type::u32:
          return ternary<Bfe<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t>;
        case Type::s32:
          return ternary<Bfe<int32_t>, int32_t, int32_t, uint32_t, uint32_t>;
        case Type::u64:
          return ternary<Bfe<uint64_t>, uint64_t, uint64_t, uint32_t, uint32_t>;
        case Type::s64:
          return ternary<Bfe<int64_t>, int64_t, int64_t, uint32_t, uint32_t>;
        default:
          return nullptr;
      }
    case Kind::bfi:
      return bytes_of(t) == 4 ? Handler{bfi<uint32_t>} : bytes_of(t) == 8 ? Handler{bfi<uint64_t>} : nullptr;
    case Kind::bmsk:
      return key.sat ? binary<BmskOf<false>, uint32_t, uint32_t, uint32_t>
                     : binary<BmskOf<true>, uint32_t, uint32_t, uint32_t>;
    case Kind::lop3:
      return lop3;
    case Kind::prmt:
      return prmt;
    case Kind::szext:
      if (t == Type::s32)
        return key.sat ? binary<Szext<int32_t, false>, uint32_t, uint32_t, uint32_t>
                       : binary<Szext<int32_t, true>, uint32_t, uint32_t, uint32_t>;
      if (t != Type::u32) return nullptr;
      return key.sat ? binary<Szext<uint32_t, false>, uint32_t, uint32_t, uint32_t>
                     : binary<Szext<uint32_t, true>, uint32_t, uint32_t, uint32_t>;
    case Kind::fns:
      return t == Type::b32 ? fns : nullptr;
    case Kind::dp4a:
      return dp4a;
    case Kind::dp2a:
      return dp2a;
    case Kind::selp:
      switch (bytes_of(t)) {
        case 2:
          return selp<uint16_t>;
        case 4:
          return selp<uint32_t>;
        case 8:
          return selp<uint64_t>;
        default:
          return nullptr;
      }
    case Kind::slct: {
      const bool f = key.from == Type::f32;
      switch (bytes_of(t)) {
        case 2:
          return !f        ? Handler{ternary<SlctInt<uint16_t>, uint16_t, uint16_t, uint16_t, int32_t>}
                 : key.ftz ? ternary<SlctFloat<uint16_t, true>, uint16_t, uint16_t, uint16_t, float>
                           : ternary<SlctFloat<uint16_t, false>, uint16_t, uint16_t, uint16_t, float>;
        case 4:
          return !f        ? Handler{ternary<SlctInt<uint32_t>, uint32_t, uint32_t, uint32_t, int32_t>}
                 : key.ftz ? ternary<SlctFloat<uint32_t, true>, uint32_t, uint32_t, uint32_t, float>
                           : ternary<SlctFloat<uint32_t, false>, uint32_t, uint32_t, uint32_t, float>;
        case 8:
          return !f        ? Handler{ternary<SlctInt<uint64_t>, uint64_t, uint64_t, uint64_t, int32_t>}
                 : key.ftz ? ternary<SlctFloat<uint64_t, true>, uint64_t, uint64_t, uint64_t, float>
                           : ternary<SlctFloat<uint64_t, false>, uint64_t, uint64_t, uint64_t, float>;
        default:
          return nullptr;
      }
    }
    case Kind::add_cc:
      return carry_of<false, false>(t);
    case Kind::addc:
      return carry_of<false, true>(t);
    case Kind::sub_cc:
      return carry_of<true, false>(t);
    case Kind::subc:
      return carry_of<true, true>(t);
    case Kind::mad_cc_lo:
      return mad_carry_of<false, false>(t);
    case Kind::mad_cc_hi:
      return mad_carry_of<true, false>(t);
    case Kind::madc_lo:
      return mad_carry_of<false, true>(t);
    case Kind::madc_hi:
      return mad_carry_of<true, true>(t);
    default:
      return nullptr;
  }
}

}  // namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA
