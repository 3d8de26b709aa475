// atom and red. Lanes go one after the other, in order; between host threads the host's atomics are used. A
// block's shared memory belongs to one host thread, so that plain operations do there. Like ops/memory.cpp
// never instrumented for races.
#include <type_traits>

#include "control.h"
#define GPUFENCE_PTX_ISA base  // the half formats of narrow.h, as any host runs them
#include "ops/narrow.h"

namespace gpufence::sim::ptx {
namespace {

template <class T>
using BitsOf =
    std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

struct HalfPair {
  uint32_t bits;
};
struct BrainPair {
  uint32_t bits;
};
struct HalfOne {
  uint16_t bits;
};
struct BrainOne {
  uint16_t bits;
};

template <AtomicKind kind, class Format>
uint16_t half(uint16_t a, uint16_t b) {
  const double x = base::widen<Format>(a), y = base::widen<Format>(b);
  if constexpr (kind == AtomicKind::add) return base::narrow<Format>(x + y, Round::nearest);
  // Of a number and a NaN the number; -0 is less than +0.
  if (x != x || y != y) return x == x ? a : y == y ? b : Format::kNan;
  const bool first = x < y || (x == y && (a >> 15) > (b >> 15));
  return first == (kind == AtomicKind::min) ? a : b;
}
template <AtomicKind kind, class Format>
uint32_t halves(uint32_t a, uint32_t b) {
  return uint32_t{half<kind, Format>(static_cast<uint16_t>(a), static_cast<uint16_t>(b))} |
         uint32_t{half<kind, Format>(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16))} << 16;
}

template <AtomicKind kind, class T>
T combine(T old, T b, T c) {
  if constexpr (std::is_same_v<T, HalfOne>)
    return {half<kind, base::Half>(old.bits, b.bits)};
  else if constexpr (std::is_same_v<T, BrainOne>)
    return {half<kind, base::Brain>(old.bits, b.bits)};
  else if constexpr (std::is_same_v<T, HalfPair>) {
    return {halves<kind, base::Half>(old.bits, b.bits)};
  } else if constexpr (std::is_same_v<T, BrainPair>) {
    return {halves<kind, base::Brain>(old.bits, b.bits)};
  } else {
    switch (kind) {
      case AtomicKind::add:
        if constexpr (std::is_integral_v<T>)
          return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) +
                                static_cast<std::make_unsigned_t<T>>(b));
        else
          return old + b;
      case AtomicKind::min:
        return b < old ? b : old;
      case AtomicKind::max:
        return b > old ? b : old;
      case AtomicKind::inc:
        return old >= b ? T{0} : static_cast<T>(old + 1);
      case AtomicKind::dec:
        return old == 0 || old > b ? b : static_cast<T>(old - 1);
      case AtomicKind::exch:
        return b;
      case AtomicKind::cas:
        return old == b ? c : old;
      default:
        break;
    }
    if constexpr (std::is_integral_v<T>) {
      switch (kind) {
        case AtomicKind::and_:
          return old & b;
        case AtomicKind::or_:
          return old | b;
        default:
          return old ^ b;
      }
    }
    return old;
  }
}

template <class T>
T as_value(BitsOf<T> bits) {
  return __builtin_bit_cast(T, bits);
}
template <class T>
BitsOf<T> as_bits(T value) {
  return __builtin_bit_cast(BitsOf<T>, value);
}

template <AtomicKind kind, class T>
BitsOf<T> plain(BitsOf<T>* at, BitsOf<T> b, BitsOf<T> c) {
  const BitsOf<T> old = *at;
  *at = as_bits<T>(combine<kind, T>(as_value<T>(old), as_value<T>(b), as_value<T>(c)));
  return old;
}
template <AtomicKind kind, class T>
BitsOf<T> atomic(BitsOf<T>* at, BitsOf<T> b, BitsOf<T> c) {
  if constexpr (kind == AtomicKind::add && std::is_integral_v<T>)
    return __atomic_fetch_add(at, b, __ATOMIC_SEQ_CST);
  else if constexpr (kind == AtomicKind::exch)
    return __atomic_exchange_n(at, b, __ATOMIC_SEQ_CST);
  else if constexpr (kind == AtomicKind::cas) {
    BitsOf<T> expected = b;
    __atomic_compare_exchange_n(at, &expected, c, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
  } else if constexpr (kind == AtomicKind::and_)
    return __atomic_fetch_and(at, b, __ATOMIC_SEQ_CST);
  else if constexpr (kind == AtomicKind::or_)
    return __atomic_fetch_or(at, b, __ATOMIC_SEQ_CST);
  else if constexpr (kind == AtomicKind::xor_)
    return __atomic_fetch_xor(at, b, __ATOMIC_SEQ_CST);
  else {
    BitsOf<T> old = __atomic_load_n(at, __ATOMIC_RELAXED);
    for (;;) {
      const BitsOf<T> wanted = as_bits<T>(combine<kind, T>(as_value<T>(old), as_value<T>(b), as_value<T>(c)));
      if (__atomic_compare_exchange_n(at, &old, wanted, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) return old;
    }
  }
}

template <AtomicKind kind, class T, Where where, bool wide>
const Op* run(Warp& warp, const Op* op) {
  using Bits = BitsOf<T>;
  const uint32_t lanes = exec_mask(warp, op);
  warp.fuel -= kPollCost;
  ++warp.polls;
  const Bits* b = row<Bits>(warp, op->r[1]);
  const Bits* c = row<Bits>(warp, op->r[2]);
  Bits* d = op->r[0] != 0 ? row<Bits>(warp, op->r[0]) : nullptr;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(rest));
    uint64_t address = (wide ? row<uint64_t>(warp, op->r[4])[i] : row<uint32_t>(warp, op->r[4])[i]) +
                       static_cast<uint64_t>(op->imm);
    if (where == Where::shared) address |= kSharedWindow;
    if ((address & ((sizeof(Bits) - 1) | op->small[3])) != 0)
      return fault(warp, op, Fault::Kind::misaligned_address, i, address);
    Bits old = 0;
    if (where != Where::global && (address & kWindowMask) == kSharedWindow) {
      const uint64_t at = address & ~kWindowMask;
      if (at >= warp.shared_bytes || sizeof(Bits) > warp.shared_bytes - at)
        return fault(warp, op, Fault::Kind::illegal_address, i, address);
      old = plain<kind, T>(reinterpret_cast<Bits*>(warp.shared + at), b[i], c[i]);
    } else {
      uint64_t at = address - warp.region_begin;
      if (at >= warp.region_size || sizeof(Bits) > warp.region_size - at) {
        if ((address & kWindowMask) != 0 || find_region(warp, address) == nullptr)
          return fault(warp, op, Fault::Kind::illegal_address, i, address);
        at = address - warp.region_begin;
        if (sizeof(Bits) > warp.region_size - at)
          return fault(warp, op, Fault::Kind::illegal_address, i, address);
      }
      if (!warp.region_writable) return fault(warp, op, Fault::Kind::illegal_address, i, address);
      old = atomic<kind, T>(reinterpret_cast<Bits*>(address), b[i], c[i]);
    }
    if (d != nullptr) d[i] = old;
  }
  return op + 1;
}

template <AtomicKind kind, class T>
Handler of_space(Where where, bool wide) {
  switch (where) {
    case Where::generic:
      return wide ? run<kind, T, Where::generic, true> : run<kind, T, Where::generic, false>;
    case Where::global:
      return wide ? run<kind, T, Where::global, true> : run<kind, T, Where::global, false>;
    case Where::shared:
      return wide ? run<kind, T, Where::shared, true> : run<kind, T, Where::shared, false>;
    default:
      return nullptr;
  }
}
template <AtomicKind kind>
Handler of_bits(Type type, Where where, bool wide) {
  if (is_float(type)) return nullptr;
  switch (bytes_of(type)) {
    case 2:
      return kind == AtomicKind::cas ? of_space<kind, uint16_t>(where, wide) : nullptr;
    case 4:
      return of_space<kind, uint32_t>(where, wide);
    case 8:
      return of_space<kind, uint64_t>(where, wide);
    default:
      return nullptr;
  }
}
template <AtomicKind kind>
Handler of_halves(Type type, Where where, bool wide) {
  switch (type) {
    case Type::f16:
      return of_space<kind, HalfOne>(where, wide);
    case Type::bf16:
      return of_space<kind, BrainOne>(where, wide);
    case Type::f16x2:
      return of_space<kind, HalfPair>(where, wide);
    case Type::bf16x2:
      return of_space<kind, BrainPair>(where, wide);
    default:
      return nullptr;
  }
}
template <AtomicKind kind>
Handler of_order(Type type, Where where, bool wide) {
  switch (type) {
    case Type::u32:
      return of_space<kind, uint32_t>(where, wide);
    case Type::s32:
      return of_space<kind, int32_t>(where, wide);
    case Type::u64:
      return of_space<kind, uint64_t>(where, wide);
    case Type::s64:
      return of_space<kind, int64_t>(where, wide);
    default:
      return of_halves<kind>(type, where, wide);
  }
}

}  // namespace

const Op* op_fence(Warp&, const Op* op) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return op + 1;
}

void reduce(AtomicKind kind, Type type, uint64_t address, uint64_t value) {
  const auto of = [&]<class T>(T) {
    auto* at = reinterpret_cast<BitsOf<T>*>(address);
    const auto b = static_cast<BitsOf<T>>(value);
    switch (kind) {
      case AtomicKind::add:
        return void(atomic<AtomicKind::add, T>(at, b, b));
      case AtomicKind::min:
        return void(atomic<AtomicKind::min, T>(at, b, b));
      case AtomicKind::max:
        return void(atomic<AtomicKind::max, T>(at, b, b));
      case AtomicKind::and_:
        return void(atomic<AtomicKind::and_, T>(at, b, b));
      default:
        return void(atomic<AtomicKind::or_, T>(at, b, b));
    }
  };
  switch (type) {
    case Type::s32:
      return of(int32_t{});
    case Type::u64:
      return of(uint64_t{});
    case Type::s64:
      return of(int64_t{});
    default:
      return of(uint32_t{});
  }
}

Handler atomic_handler(AtomicKind kind, Type type, Where where, bool wide) {
  switch (kind) {
    case AtomicKind::add:
      switch (type) {
        case Type::u32:
        case Type::s32:
          return of_space<AtomicKind::add, uint32_t>(where, wide);
        case Type::u64:
        case Type::s64:
          return of_space<AtomicKind::add, uint64_t>(where, wide);
        case Type::f32:
          return of_space<AtomicKind::add, float>(where, wide);
        case Type::f64:
          return of_space<AtomicKind::add, double>(where, wide);
        default:
          return of_halves<AtomicKind::add>(type, where, wide);
      }
    case AtomicKind::min:
      return of_order<AtomicKind::min>(type, where, wide);
    case AtomicKind::max:
      return of_order<AtomicKind::max>(type, where, wide);
    case AtomicKind::inc:
      return type == Type::u32 ? of_space<AtomicKind::inc, uint32_t>(where, wide) : nullptr;
    case AtomicKind::dec:
      return type == Type::u32 ? of_space<AtomicKind::dec, uint32_t>(where, wide) : nullptr;
    case AtomicKind::exch:
      return of_bits<AtomicKind::exch>(type, where, wide);
    case AtomicKind::cas:
      return of_bits<AtomicKind::cas>(type, where, wide);
    case AtomicKind::and_:
      return of_bits<AtomicKind::and_>(type, where, wide);
    case AtomicKind::or_:
      return of_bits<AtomicKind::or_>(type, where, wide);
    case AtomicKind::xor_:
      return of_bits<AtomicKind::xor_>(type, where, wide);
  }
  return nullptr;
}

}  // namespace gpufence::sim::ptx
