// Arithmetic in f32 and f64. Round to nearest is the host's; the other directions set the host's rounding
// mode around each operation, slowly. An f32 result that is a NaN is the one NaN of the hardware, 0x7fffffff:
// the host's own would print as "-nan". Approximate functions are computed exactly rounded or by libm, well
// within PTX's error bounds.
#include "ops/lanes.h"

#include <cfenv>
#include <cmath>

namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA {
namespace {

inline float from_bits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
inline uint32_t to_bits(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

inline float canonical(float value) {
  return value == value ? value : from_bits(0x7fffffff);
}
inline double canonical(double value) {
  return value;
}

inline float flush(float value) {
  const uint32_t bits = to_bits(value);
  return (bits & 0x7f800000) == 0 ? from_bits(bits & 0x80000000) : value;
}
template <bool ftz>
inline float in(float value) {
  return ftz ? flush(value) : value;
}
template <bool ftz>
inline double in(double value) {
  return value;
}
template <bool ftz, bool sat>
inline float out(float value) {
  if (sat) return value > 0 ? (value < 1 ? (ftz ? flush(value) : value) : 1.0F) : 0.0F;  // NaN and -0 give +0
  value = canonical(value);
  return ftz ? flush(value) : value;
}
template <bool ftz, bool sat>
inline double out(double value) {
  if (sat) return value > 0 ? (value < 1 ? value : 1.0) : 0.0;
  return value;
}

template <class T, bool ftz, bool sat>
struct Add {
  static T of(T a, T b) { return out<ftz, sat>(in<ftz>(a) + in<ftz>(b)); }
};
template <class T, bool ftz, bool sat>
struct Sub {
  static T of(T a, T b) { return out<ftz, sat>(in<ftz>(a) - in<ftz>(b)); }
};
template <class T, bool ftz, bool sat>
struct Mul {
  static T of(T a, T b) { return out<ftz, sat>(in<ftz>(a) * in<ftz>(b)); }
};
template <class T, bool ftz, bool sat>
struct Div {
  static T of(T a, T b) { return out<ftz, sat>(in<ftz>(a) / in<ftz>(b)); }
};
inline float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline double fused(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
template <class T, bool ftz, bool sat>
struct Fma {
  static T of(T a, T b, T c) { return out<ftz, sat>(fused(in<ftz>(a), in<ftz>(b), in<ftz>(c))); }
};
inline float root(float a) {
  return __builtin_sqrtf(a);
}
inline double root(double a) {
  return __builtin_sqrt(a);
}
template <class T, bool ftz, bool sat>
struct Sqrt {
  static T of(T a) { return out<ftz, sat>(root(in<ftz>(a))); }
};
template <class T, bool ftz, bool sat>
struct Rcp {
  static T of(T a) { return out<ftz, sat>(T{1} / in<ftz>(a)); }
};
template <class T, bool ftz, bool sat>
struct Rsqrt {
  // Through double for f32: 1/sqrt rounds twice, below the bound of 2^-22.9.
  static T of(T a) {
    return out<ftz, sat>(static_cast<T>(1.0 / __builtin_sqrt(static_cast<double>(in<ftz>(a)))));
  }
};

// The sign bit alone: also of a NaN, as hardware does for neg and abs; f32's NaN stays what it is.
template <class T, bool ftz>
struct Neg {
  static T of(T a) { return -in<ftz>(a); }
};
template <bool ftz>
inline float magnitude(float a) {
  return __builtin_fabsf(in<ftz>(a));
}
template <bool ftz>
inline double magnitude(double a) {
  return __builtin_fabs(a);
}
template <class T, bool ftz>
struct Abs {
  static T of(T a) { return magnitude<ftz>(a); }
};

template <class T>
inline bool negative(T a) {
  return __builtin_signbit(a) != 0;
}
// -0 is below +0; a NaN gives way to a number unless .NaN says otherwise.
template <class T, bool ftz, bool keep_nan, bool maximum>
struct MinMax {
  static T of(T a, T b) {
    a = in<ftz>(a);
    b = in<ftz>(b);
    const bool a_nan = a != a, b_nan = b != b;
    const T equal = negative(a) == maximum ? b : a;  // of two zeros
    T r = a == b ? equal : ((a < b) != maximum ? a : b);
    if (keep_nan) {
      r = a_nan ? a : b_nan ? b : r;
    } else {
      r = a_nan ? b : b_nan ? a : r;
    }
    return canonical(r);
  }
};
template <bool ftz, bool keep_nan, bool maximum>
struct MinMaxXorsign {
  static float of(float a, float b) {
    const uint32_t sign = (to_bits(a) ^ to_bits(b)) & 0x80000000;
    const float r = MinMax<float, ftz, keep_nan, maximum>::of(__builtin_fabsf(a), __builtin_fabsf(b));
    return r == r ? from_bits((to_bits(r) & 0x7fffffff) | sign) : r;
  }
};

inline float sign_of(float a, float b) {
  return __builtin_copysignf(b, a);
}
inline double sign_of(double a, double b) {
  return __builtin_copysign(b, a);
}
template <class T>
struct Copysign {
  static T of(T a, T b) { return sign_of(a, b); }
};

// libm, a lane at a time.
template <float (*function)(float), bool ftz>
const Op* libm(Warp& warp, const Op* op) {
  const float* a = row<float>(warp, op->r[1]);
  return by_lane<float>(warp, op, [&](unsigned i) { return out<ftz, false>(function(in<ftz>(a[i]))); });
}
float sine(float a) {
  return sinf(a);
}
float cosine(float a) {
  return cosf(a);
}
float power(float a) {
  return exp2f(a);
}
float logarithm(float a) {
  return log2f(a);
}
float tangent(float a) {
  return tanhf(a);
}

// Rounding other than to nearest. The operands pass through volatile, so that no compiler moves the operation
// out of the lines in which the mode holds.
template <class T, Kind kind, int mode, bool ftz, bool sat>
const Op* directed(Warp& warp, const Op* op) {
  const T* a = row<T>(warp, op->r[1]);
  const T* b = row<T>(warp, op->r[2]);
  const T* c = row<T>(warp, op->r[3]);
  std::fesetround(mode);
  by_lane<T>(warp, op, [&](unsigned i) {
    volatile T x = in<ftz>(a[i]);
    volatile T y = kind == Kind::rcp || kind == Kind::sqrt ? T{1} : in<ftz>(b[i]);
    volatile T r = 0;
    if constexpr (kind == Kind::add) r = x + y;
    if constexpr (kind == Kind::sub) r = x - y;
    if constexpr (kind == Kind::mul_lo) r = x * y;
    if constexpr (kind == Kind::div) r = x / y;
    if constexpr (kind == Kind::rcp) r = y / x;
    if constexpr (kind == Kind::sqrt) r = std::sqrt(static_cast<T>(x));
    if constexpr (kind == Kind::fma) {
      volatile T z = in<ftz>(c[i]);
      r = std::fma(static_cast<T>(x), static_cast<T>(y), static_cast<T>(z));
    }
    return out<ftz, sat>(static_cast<T>(r));
  });
  std::fesetround(FE_TONEAREST);
  return op + 1;
}

// small[0]: finite, infinite, number, notanumber, normal, subnormal in this order.
template <class T>
const Op* testp(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const T* a = row<T>(warp, op->r[1]);
  uint32_t bits = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    const int kind = std::fpclassify(a[i]);
    bool is = false;
    switch (op->small[0]) {
      case 0:
        is = kind != FP_INFINITE && kind != FP_NAN;
        break;
      case 1:
        is = kind == FP_INFINITE;
        break;
      case 2:
        is = kind != FP_NAN;
        break;
      case 3:
        is = kind == FP_NAN;
        break;
      case 4:
        is = kind == FP_NORMAL;
        break;
      default:
        is = kind == FP_SUBNORMAL;
        break;
    }
    bits |= static_cast<uint32_t>(is) << i;
  }
  uint32_t& d = predicate(warp, op->r[0]);
  d = (d & ~lanes) | (bits & lanes);
  return op + 1;
}

template <template <class, bool, bool> class F>
Handler two(const Key& key) {
  if (key.type == Type::f64)
    return key.sat || key.ftz ? nullptr : Handler{binary<F<double, false, false>, double, double, double>};
  if (key.ftz)
    return key.sat ? binary<F<float, true, true>, float, float, float>
                   : binary<F<float, true, false>, float, float, float>;
  return key.sat ? binary<F<float, false, true>, float, float, float>
                 : binary<F<float, false, false>, float, float, float>;
}
template <template <class, bool, bool> class F>
Handler one(const Key& key) {
  if (key.type == Type::f64)
    return key.sat ? nullptr : Handler{unary<F<double, false, false>, double, double>};
  if (key.sat) return nullptr;
  return key.ftz ? unary<F<float, true, false>, float, float> : unary<F<float, false, false>, float, float>;
}
Handler three(const Key& key) {
  if (key.type == Type::f64)
    return key.sat || key.ftz ? nullptr
                              : Handler{ternary<Fma<double, false, false>, double, double, double, double>};
  if (key.ftz) {
    return key.sat ? ternary<Fma<float, true, true>, float, float, float, float>
                   : ternary<Fma<float, true, false>, float, float, float, float>;
  }
  return key.sat ? ternary<Fma<float, false, true>, float, float, float, float>
                 : ternary<Fma<float, false, false>, float, float, float, float>;
}

template <class T, Kind kind, int mode>
Handler directed_of(const Key& key) {
  if (key.ftz) return key.sat ? directed<T, kind, mode, true, true> : directed<T, kind, mode, true, false>;
  return key.sat ? directed<T, kind, mode, false, true> : directed<T, kind, mode, false, false>;
}
template <Kind kind, int mode>
Handler directed_type(const Key& key) {
  return key.type == Type::f64
             ? (key.ftz || key.sat ? nullptr : Handler{directed<double, kind, mode, false, false>})
             : directed_of<float, kind, mode>(key);
}
template <Kind kind>
Handler directed_any(const Key& key) {
  switch (key.round) {
    case Round::zero:
      return directed_type<kind, FE_TOWARDZERO>(key);
    case Round::down:
      return directed_type<kind, FE_DOWNWARD>(key);
    case Round::up:
      return directed_type<kind, FE_UPWARD>(key);
    default:
      return nullptr;
  }
}

template <class T, bool ftz>
Handler min_max(const Key& key) {
  if (key.kind == Kind::max) {
    return key.nan ? binary<MinMax<T, ftz, true, true>, T, T, T>
                   : binary<MinMax<T, ftz, false, true>, T, T, T>;
  }
  return key.nan ? binary<MinMax<T, ftz, true, false>, T, T, T>
                 : binary<MinMax<T, ftz, false, false>, T, T, T>;
}
template <bool ftz>
Handler min_max_xorsign(const Key& key) {
  if (key.kind == Kind::max) {
    return key.nan ? binary<MinMaxXorsign<ftz, true, true>, float, float, float>
                   : binary<MinMaxXorsign<ftz, false, true>, float, float, float>;
  }
  return key.nan ? binary<MinMaxXorsign<ftz, true, false>, float, float, float>
                 : binary<MinMaxXorsign<ftz, false, false>, float, float, float>;
}

template <float (*function)(float)>
Handler by_libm(const Key& key) {
  if (key.type != Type::f32) return nullptr;
  return key.ftz ? libm<function, true> : libm<function, false>;
}

}  // namespace

Handler floating_handler(const Key& key) {
  if (key.type != Type::f32 && key.type != Type::f64) return nullptr;
  const bool directed = key.round != Round::nearest;
  switch (key.kind) {
    case Kind::add:
      return directed ? directed_any<Kind::add>(key) : two<Add>(key);
    case Kind::sub:
      return directed ? directed_any<Kind::sub>(key) : two<Sub>(key);
    case Kind::mul_lo:
      return directed ? directed_any<Kind::mul_lo>(key) : two<Mul>(key);
    case Kind::div:
      return directed ? directed_any<Kind::div>(key) : two<Div>(key);
    case Kind::fma:
      return directed ? directed_any<Kind::fma>(key) : three(key);
    case Kind::rcp:
      return directed ? directed_any<Kind::rcp>(key) : one<Rcp>(key);
    case Kind::sqrt:
      return directed ? directed_any<Kind::sqrt>(key) : one<Sqrt>(key);
    case Kind::rsqrt:
      return one<Rsqrt>(key);
    case Kind::sin:
      return by_libm<sine>(key);
    case Kind::cos:
      return by_libm<cosine>(key);
    case Kind::ex2:
      return by_libm<power>(key);
    case Kind::lg2:
      return by_libm<logarithm>(key);
    case Kind::tanh:
      return by_libm<tangent>(key);
    case Kind::neg:
      if (key.type == Type::f64) return unary<Neg<double, false>, double, double>;
      return key.ftz ? unary<Neg<float, true>, float, float> : unary<Neg<float, false>, float, float>;
    case Kind::abs:
      if (key.type == Type::f64) return unary<Abs<double, false>, double, double>;
      return key.ftz ? unary<Abs<float, true>, float, float> : unary<Abs<float, false>, float, float>;
    case Kind::min:
    case Kind::max:
      if (key.xorsign)
        return key.type != Type::f32 ? nullptr
               : key.ftz             ? min_max_xorsign<true>(key)
                                     : min_max_xorsign<false>(key);
      if (key.type == Type::f64) return min_max<double, false>(key);
      return key.ftz ? min_max<float, true>(key) : min_max<float, false>(key);
    case Kind::copysign:
      return key.type == Type::f64 ? binary<Copysign<double>, double, double, double>
                                   : binary<Copysign<float>, float, float, float>;
    case Kind::testp:
      return key.type == Type::f64 ? testp<double> : testp<float>;
    default:
      return nullptr;
  }
}

}  // namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA
