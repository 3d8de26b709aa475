// setp and set: comparisons into predicate words and into registers. Ordered comparisons are false where a
// NaN takes part, unordered ones (equ, ltu …) true.
#include "ops/lanes.h"
#include "ops/narrow.h"

namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA {
namespace {

template <Compare c, class T>
inline bool compare(T a, T b) {
  switch (c) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return a < b || a > b;  // for floats: both are numbers; the same for integers
    case Compare::lt:
      return a < b;
    case Compare::le:
      return a <= b;
    case Compare::gt:
      return a > b;
    case Compare::ge:
      return a >= b;
    case Compare::equ:
      return !(a < b || a > b);
    case Compare::neu:
      return a != b;
    case Compare::ltu:
      return !(a >= b);
    case Compare::leu:
      return !(a > b);
    case Compare::gtu:
      return !(a <= b);
    case Compare::geu:
      return !(a < b);
    case Compare::num:
      return a == a && b == b;
    case Compare::nan:
      return a != a || b != b;
  }
  return false;
}

inline float flush(float value) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  return (bits & 0x7f800000) == 0 ? __builtin_bit_cast(float, bits & 0x80000000) : value;
}
struct Plain {
  template <class T>
  static T of(T a) {
    return a;
  }
};
struct Flushed {
  static float of(float a) { return flush(a); }
};
template <class Format>
struct Widened {
  static double of(uint16_t bits) { return widen<Format>(bits); }
};

template <Compare c, class T, class Load>
uint32_t lanes_that(const T* a, const T* b) {
  uint32_t bits = 0;
  GPUFENCE_LANES
  for (unsigned i = 0; i < kLanes; ++i)
    bits |= compare<c>(Load::of(a[i]), Load::of(b[i])) ? kLaneBits.bit[i] : 0;
  return bits;
}

// r: p, q (or the sink), a, b, combined predicate. small[0]: Combine; small[1]: the combined one is negated.
template <Compare c, class T, class Load>
const Op* setp(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  uint32_t p = lanes_that<c, T, Load>(row<T>(warp, op->r[2]), row<T>(warp, op->r[3]));
  uint32_t q = ~p;
  if (op->small[0] != 0) {
    const uint32_t other = predicate(warp, op->r[4]) ^ (op->small[1] != 0 ? ~0U : 0U);
    switch (static_cast<Combine>(op->small[0])) {
      case Combine::and_:
        p &= other;
        q &= other;
        break;
      case Combine::or_:
        p |= other;
        q |= other;
        break;
      default:
        p ^= other;
        q ^= other;
        break;
    }
  }
  uint32_t& d = predicate(warp, op->r[0]);
  d = (d & ~lanes) | (p & lanes);
  uint32_t& e = predicate(warp, op->r[1]);
  e = (e & ~lanes) | (q & lanes);
  return op + 1;
}

// r: d, a, b, combined predicate. small[2]: bytes of d; small[3]: 1 for a float result, 2 bf16, 3 pairs of
// f16, 4 pairs of bf16, 5 f16.
void put(Warp& warp, const Op* op, uint32_t lanes, uint32_t is) {
  const bool real = op->small[3] != 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const bool yes = (is >> i & 1) != 0;
    switch (op->small[2]) {
      case 2:
        row<uint16_t>(warp, op->r[0])[i] = static_cast<uint16_t>(!yes                ? 0
                                                                 : op->small[3] == 5 ? 0x3c00
                                                                 : op->small[3] == 2 ? 0x3f80
                                                                                     : 0xffff);
        break;
      case 4:
        row<uint32_t>(warp, op->r[0])[i] = !yes ? 0 : real ? 0x3f800000U : ~0U;
        break;
      default:
        row<uint64_t>(warp, op->r[0])[i] = !yes ? 0 : ~uint64_t{0};
        break;
    }
  }
}

template <Compare c, class T, class Load>
const Op* set(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  uint32_t p = lanes_that<c, T, Load>(row<T>(warp, op->r[1]), row<T>(warp, op->r[2]));
  if (op->small[0] != 0) {
    const uint32_t other = predicate(warp, op->r[3]) ^ (op->small[1] != 0 ? ~0U : 0U);
    switch (static_cast<Combine>(op->small[0])) {
      case Combine::and_:
        p &= other;
        break;
      case Combine::or_:
        p |= other;
        break;
      default:
        p ^= other;
        break;
    }
  }
  put(warp, op, lanes, p);
  return op + 1;
}

// Pairs: set gives 1.0 or all ones a half (small[3]), setp a predicate a half.
template <class Format>
void halves(const uint32_t* from, unsigned shift, uint16_t* to) {
  for (unsigned i = 0; i < kLanes; ++i) to[i] = static_cast<uint16_t>(from[i] >> shift);
}
template <Compare c, class Format>
void pair_masks(Warp& warp, uint32_t a, uint32_t b, uint32_t* low, uint32_t* high) {
  alignas(64) uint16_t x[kLanes];
  alignas(64) uint16_t y[kLanes];
  for (unsigned k = 0; k < 2; ++k) {
    halves<Format>(row<uint32_t>(warp, a), 16 * k, x);
    halves<Format>(row<uint32_t>(warp, b), 16 * k, y);
    *(k == 0 ? low : high) = lanes_that<c, uint16_t, Widened<Format>>(x, y);
  }
}
template <Compare c, class Format>
const Op* set_pair(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  uint32_t low = 0, high = 0;
  pair_masks<c, Format>(warp, op->r[1], op->r[2], &low, &high);
  if (op->small[0] != 0) {
    const uint32_t other = predicate(warp, op->r[3]) ^ (op->small[1] != 0 ? ~0U : 0U);
    for (uint32_t* p : {&low, &high}) {
      switch (static_cast<Combine>(op->small[0])) {
        case Combine::and_:
          *p &= other;
          break;
        case Combine::or_:
          *p |= other;
          break;
        default:
          *p ^= other;
          break;
      }
    }
  }
  const uint32_t one = op->small[3] == 3 ? 0x3c00 : op->small[3] == 4 ? 0x3f80 : 0xffff;
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) != 0)
      d[i] = ((low >> i & 1) != 0 ? one : 0) | ((high >> i & 1) != 0 ? one << 16 : 0);
  }
  return op + 1;
}
template <Compare c, class Format>
const Op* setp_pair(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  uint32_t p = 0, q = 0;
  pair_masks<c, Format>(warp, op->r[2], op->r[3], &p, &q);
  if (op->small[0] != 0) {
    const uint32_t other = predicate(warp, op->r[4]) ^ (op->small[1] != 0 ? ~0U : 0U);
    for (uint32_t* each : {&p, &q}) {
      switch (static_cast<Combine>(op->small[0])) {
        case Combine::and_:
          *each &= other;
          break;
        case Combine::or_:
          *each |= other;
          break;
        default:
          *each ^= other;
          break;
      }
    }
  }
  uint32_t& d = predicate(warp, op->r[0]);
  d = (d & ~lanes) | (p & lanes);
  uint32_t& e = predicate(warp, op->r[1]);
  e = (e & ~lanes) | (q & lanes);
  return op + 1;
}

template <Compare c, class T, class Load = Plain>
Handler plain(Kind kind) {
  return kind == Kind::setp ? Handler{setp<c, T, Load>} : Handler{set<c, T, Load>};
}

template <Compare c>
Handler of_integer(const Key& key) {
  switch (key.from) {
    case Type::b16:
    case Type::u16:
      return plain<c, uint16_t>(key.kind);
    case Type::s16:
      return plain<c, int16_t>(key.kind);
    case Type::b32:
    case Type::u32:
      return plain<c, uint32_t>(key.kind);
    case Type::s32:
      return plain<c, int32_t>(key.kind);
    case Type::b64:
    case Type::u64:
      return plain<c, uint64_t>(key.kind);
    case Type::s64:
      return plain<c, int64_t>(key.kind);
    default:
      return nullptr;
  }
}
template <Compare c>
Handler of_float(const Key& key) {
  switch (key.from) {
    case Type::f32:
      return key.ftz ? plain<c, float, Flushed>(key.kind) : plain<c, float>(key.kind);
    case Type::f64:
      return plain<c, double>(key.kind);
    case Type::f16:
      return plain<c, uint16_t, Widened<Half>>(key.kind);
    case Type::bf16:
      return plain<c, uint16_t, Widened<Brain>>(key.kind);
    case Type::f16x2:
      return key.kind == Kind::setp ? setp_pair<c, Half> : set_pair<c, Half>;
    case Type::bf16x2:
      return key.kind == Kind::setp ? setp_pair<c, Brain> : set_pair<c, Brain>;
    default:
      return nullptr;
  }
}
template <Compare c>
Handler of_either(const Key& key) {
  return is_float(key.from) ? of_float<c>(key) : of_integer<c>(key);
}
template <Compare c>
Handler only_float(const Key& key) {
  return is_float(key.from) ? of_float<c>(key) : nullptr;
}

}  // namespace

Handler compare_handler(const Key& key) {
  switch (key.compare) {
    case Compare::eq:
      return of_either<Compare::eq>(key);
    case Compare::ne:
      return of_either<Compare::ne>(key);
    case Compare::lt:
      return of_either<Compare::lt>(key);
    case Compare::le:
      return of_either<Compare::le>(key);
    case Compare::gt:
      return of_either<Compare::gt>(key);
    case Compare::ge:
      return of_either<Compare::ge>(key);
    case Compare::equ:
      return only_float<Compare::equ>(key);
    case Compare::neu:
      return only_float<Compare::neu>(key);
    case Compare::ltu:
      return only_float<Compare::ltu>(key);
    case Compare::leu:
      return only_float<Compare::leu>(key);
    case Compare::gtu:
      return only_float<Compare::gtu>(key);
    case Compare::geu:
      return only_float<Compare::geu>(key);
    case Compare::num:
      return only_float<Compare::num>(key);
    case Compare::nan:
      return only_float<Compare::nan>(key);
  }
  return nullptr;
}

}  // namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA
