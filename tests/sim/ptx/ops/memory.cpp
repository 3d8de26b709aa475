// ld and st. All lanes are checked before any memory is touched; consecutive lanes are copied as one piece,
// and lanes within one region cost one comparison together. This file is never instrumented for races: what a
// simulated program races on is its own.
#include "ops/lanes.h"

#include <cstring>

namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA {
namespace {

enum : unsigned { kAcquire = 1, kRelease = 2, kPolls = 4 };

// Addresses of all lanes, those of idle lanes replaced by an active one's.
template <bool wide>
inline void addresses(const Warp& warp, const Op* op, uint32_t lanes, uint64_t* a) {
  const auto add = static_cast<uint64_t>(op->imm);
  if constexpr (wide) {
    const uint64_t* from = row<uint64_t>(warp, op->r[4]);
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) a[i] = from[i] + add;
  } else {
    const uint32_t* from = row<uint32_t>(warp, op->r[4]);
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) a[i] = uint64_t{from[i]} + add;
  }
  if (lanes != kAll) {
    const uint64_t some = a[__builtin_ctz(lanes)];
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) a[i] = (lanes & kLaneBits.bit[i]) != 0 ? a[i] : some;
  }
}

inline bool consecutive(const uint64_t* a, uint64_t step) {
  uint64_t differ = 0;
  const uint64_t base = a[0];
  for (unsigned i = 0; i < kLanes; ++i) differ |= a[i] ^ (base + i * step);
  return differ == 0;
}

struct Span {
  uint64_t low, high, bits;  // bits: those set in any address
};
inline Span span_of(const uint64_t* a) {
  Span span{a[0], a[0], 0};
  for (unsigned i = 0; i < kLanes; ++i) {
    span.low = a[i] < span.low ? a[i] : span.low;
    span.high = a[i] > span.high ? a[i] : span.high;
    span.bits |= a[i];
  }
  return span;
}

unsigned misaligned_lane(const uint64_t* a, uint64_t mask) {
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((a[i] & mask) != 0) return i;
  }
  return 0;
}

// Every lane's piece lies in memory that this GPU may use, or the fault is told.
bool check_global(Warp& warp, const Op* op, const uint64_t* a, uint64_t bytes, bool write) {
  const Span span = span_of(a);
  if ((span.bits & (bytes - 1)) != 0) {
    const unsigned lane = misaligned_lane(a, bytes - 1);
    fault(warp, op, Fault::Kind::misaligned_address, lane, a[lane]);
    return false;
  }
  if (span.high - span.low < (uint64_t{1} << 56) &&
      reach(warp, span.low, span.high - span.low + bytes, write))
    return true;
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!reach(warp, a[i], bytes, write)) {
      fault(warp, op, Fault::Kind::illegal_address, i, a[i]);
      return false;
    }
  }
  return true;
}
bool check_window(Warp& warp, const Op* op, const uint64_t* a, uint64_t bytes, uint64_t size,
                  uint64_t window = 0) {
  const Span span = span_of(a);
  if ((span.bits & (bytes - 1)) != 0) {
    const unsigned lane = misaligned_lane(a, bytes - 1);
    fault(warp, op, Fault::Kind::misaligned_address, lane, a[lane] + window);
    return false;
  }
  if (span.high < size && bytes <= size - span.high) return true;
  for (unsigned i = 0; i < kLanes; ++i) {
    if (a[i] >= size || bytes > size - a[i]) {
      fault(warp, op, Fault::Kind::illegal_address, i, a[i] + window);
      return false;
    }
  }
  return true;
}

// --- pieces: one component of one lane
// ---------------------------------------------------------------------------------

// Linear memory: global (base nullptr) and shared.
template <class M, class D>
void load_lanes(const Warp& warp, const Op* op, uint32_t lanes, const uint64_t* a, const std::byte* base,
                bool run) {
  const unsigned vec = op->small[0];
  const auto origin = reinterpret_cast<uint64_t>(base);
  for (unsigned v = 0; v < vec; ++v) {
    D* d = row<D>(warp, op->r[v]);
    if (run && vec == 1) {
      const M* from = reinterpret_cast<const M*>(origin + a[0]);
      GPUFENCE_LANES
      for (unsigned i = 0; i < kLanes; ++i) d[i] = static_cast<D>(from[i]);
    } else if (lanes == kAll) {
      for (unsigned i = 0; i < kLanes; ++i)
        d[i] = static_cast<D>(reinterpret_cast<const M*>(origin + a[i])[v]);
    } else {
      for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const auto i = static_cast<unsigned>(__builtin_ctz(rest));
        d[i] = static_cast<D>(reinterpret_cast<const M*>(origin + a[i])[v]);
      }
    }
  }
}
template <class M, class D>
void store_lanes(const Warp& warp, const Op* op, uint32_t lanes, const uint64_t* a, std::byte* base,
                 bool run) {
  const unsigned vec = op->small[0];
  const auto origin = reinterpret_cast<uint64_t>(base);
  for (unsigned v = 0; v < vec; ++v) {
    const D* s = row<D>(warp, op->r[v]);
    if (run && vec == 1) {
      M* to = reinterpret_cast<M*>(origin + a[0]);
      GPUFENCE_LANES
      for (unsigned i = 0; i < kLanes; ++i) to[i] = static_cast<M>(s[i]);
    } else if (lanes == kAll) {
      for (unsigned i = 0; i < kLanes; ++i) reinterpret_cast<M*>(origin + a[i])[v] = static_cast<M>(s[i]);
    } else {
      for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const auto i = static_cast<unsigned>(__builtin_ctz(rest));
        reinterpret_cast<M*>(origin + a[i])[v] = static_cast<M>(s[i]);
      }
    }
  }
}

// Interleaved memory: local, and parameter areas. Word w of lane i is at (w × 32 + i) × 4.
inline std::byte* word_at(std::byte* base, uint64_t offset, unsigned lane) {
  return base + (offset >> 2) * (4 * kLanes) + lane * 4 + (offset & 3);
}
template <class M>
inline M load_word(std::byte* base, uint64_t offset, unsigned lane) {
  if constexpr (sizeof(M) == 8) {
    const uint64_t low = *reinterpret_cast<uint32_t*>(word_at(base, offset, lane));
    const uint64_t high = *reinterpret_cast<uint32_t*>(word_at(base, offset + 4, lane));
    return static_cast<M>(high << 32 | low);
  } else {
    return *reinterpret_cast<M*>(word_at(base, offset, lane));
  }
}
template <class M>
inline void store_word(std::byte* base, uint64_t offset, unsigned lane, M value) {
  if constexpr (sizeof(M) == 8) {
    *reinterpret_cast<uint32_t*>(word_at(base, offset, lane)) = static_cast<uint32_t>(value);
    *reinterpret_cast<uint32_t*>(word_at(base, offset + 4, lane)) =
        static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32);
  } else {
    *reinterpret_cast<M*>(word_at(base, offset, lane)) = value;
  }
}
template <class M, class D>
void load_words(const Warp& warp, const Op* op, uint32_t lanes, const uint64_t* a, std::byte* base) {
  for (unsigned v = 0; v < op->small[0]; ++v) {
    D* d = row<D>(warp, op->r[v]);
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<unsigned>(__builtin_ctz(rest));
      d[i] = static_cast<D>(load_word<M>(base, a[i] + v * sizeof(M), i));
    }
  }
}
template <class M, class D>
void store_words(const Warp& warp, const Op* op, uint32_t lanes, const uint64_t* a, std::byte* base) {
  for (unsigned v = 0; v < op->small[0]; ++v) {
    const D* s = row<D>(warp, op->r[v]);
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<unsigned>(__builtin_ctz(rest));
      store_word<M>(base, a[i] + v * sizeof(M), i, static_cast<M>(s[i]));
    }
  }
}
// The same place for every lane: whole rows.
template <class M, class D>
void load_rows(const Warp& warp, const Op* op, uint32_t lanes, uint64_t offset, std::byte* base) {
  for (unsigned v = 0; v < op->small[0]; ++v, offset += sizeof(M)) {
    alignas(64) D t[kLanes];
    if constexpr (sizeof(M) == 8) {
      const auto* low = reinterpret_cast<const uint32_t*>(word_at(base, offset, 0));
      const uint32_t* high = low + kLanes;
      GPUFENCE_LANES
      for (unsigned i = 0; i < kLanes; ++i) t[i] = static_cast<D>(uint64_t{high[i]} << 32 | low[i]);
    } else {
      for (unsigned i = 0; i < kLanes; ++i) t[i] = static_cast<D>(load_word<M>(base, offset, i));
    }
    blend(row<D>(warp, op->r[v]), t, lanes);
  }
}
template <class M, class D>
void store_rows(const Warp& warp, const Op* op, uint32_t lanes, uint64_t offset, std::byte* base) {
  if (lanes != kAll) {
    alignas(64) uint64_t a[kLanes];
    for (uint64_t& each : a) each = offset;
    return store_words<M, D>(warp, op, lanes, a, base);
  }
  for (unsigned v = 0; v < op->small[0]; ++v, offset += sizeof(M)) {
    const D* s = row<D>(warp, op->r[v]);
    if constexpr (sizeof(M) == 8) {
      auto* low = reinterpret_cast<uint32_t*>(word_at(base, offset, 0));
      uint32_t* high = low + kLanes;
      GPUFENCE_LANES
      for (unsigned i = 0; i < kLanes; ++i) {
        low[i] = static_cast<uint32_t>(s[i]);
        high[i] = static_cast<uint32_t>(static_cast<uint64_t>(s[i]) >> 32);
      }
    } else {
      for (unsigned i = 0; i < kLanes; ++i) store_word<M>(base, offset, i, static_cast<M>(s[i]));
    }
  }
}

// --- one handler a state space
// ----------------------------------------------------------------------------------------

template <bool store, class M, class D>
inline void linear(const Warp& warp, const Op* op, uint32_t lanes, const uint64_t* a, std::byte* base,
                   bool run) {
  if constexpr (store)
    store_lanes<M, D>(warp, op, lanes, a, base, run);
  else
    load_lanes<M, D>(warp, op, lanes, a, base, run);
}
template <bool store, class M, class D>
inline void interleaved(const Warp& warp, const Op* op, uint32_t lanes, const uint64_t* a, std::byte* base) {
  const Span span = span_of(a);
  if (span.low == span.high) {
    if constexpr (store)
      store_rows<M, D>(warp, op, lanes, a[0], base);
    else
      load_rows<M, D>(warp, op, lanes, a[0], base);
  } else {
    if constexpr (store)
      store_words<M, D>(warp, op, lanes, a, base);
    else
      load_words<M, D>(warp, op, lanes, a, base);
  }
}

template <bool store, class M, class D>
const Op* global_at(Warp& warp, const Op* op, uint32_t lanes, const uint64_t* a) {
  const uint64_t bytes = sizeof(M) * op->small[0];
  if (op->small[1] != 0) {
    if (store && (op->small[1] & kRelease) != 0) __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!store && (op->small[1] & kPolls) != 0) {
      warp.fuel -= kPollCost;
      ++warp.polls;
    }
  }
  const bool run = lanes == kAll && consecutive(a, bytes);
  if (!(run && (a[0] & (bytes - 1)) == 0 && reach(warp, a[0], bytes * kLanes, store))) {
    if (!check_global(warp, op, a, bytes, store)) return nullptr;
  }
  linear<store, M, D>(warp, op, lanes, a, nullptr, run);
  if (!store && (op->small[1] & kAcquire) != 0) __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return op + 1;
}
template <bool store, bool wide, class M, class D>
const Op* global(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  if (lanes == 0) return op + 1;
  alignas(64) uint64_t a[kLanes];
  addresses<wide>(warp, op, lanes, a);
  return global_at<store, M, D>(warp, op, lanes, a);
}

template <bool store, class M, class D>
const Op* shared_at(Warp& warp, const Op* op, uint32_t lanes, const uint64_t* a, uint64_t window) {
  const uint64_t bytes = sizeof(M) * op->small[0];
  if (!check_window(warp, op, a, bytes, warp.shared_bytes, window)) return nullptr;
  linear<store, M, D>(warp, op, lanes, a, warp.shared, lanes == kAll && consecutive(a, bytes));
  return op + 1;
}
// The loads that kernels with tiles live on: one value a lane, 32-bit addresses. Checked with a maximum and
// an or over 32 bits, then gathered; whatever is wrong is left to the general one to tell.
template <class M, class D>
bool shared_gather(Warp& warp, const Op* op, uint32_t lanes) {
  alignas(64) uint32_t a[kLanes];
  const uint32_t* from = row<uint32_t>(warp, op->r[4]);
  const auto add = static_cast<uint32_t>(op->imm);
  if (lanes == kAll) {
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) a[i] = from[i] + add;
  } else {
    const uint32_t some = from[__builtin_ctz(lanes)] + add;
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) a[i] = (lanes & kLaneBits.bit[i]) != 0 ? from[i] + add : some;
  }
  uint32_t high = 0, bits = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    high = a[i] > high ? a[i] : high;
    bits |= a[i];
  }
  if ((bits & (sizeof(M) - 1)) != 0 || high >= warp.shared_bytes || sizeof(M) > warp.shared_bytes - high)
    return false;
  D* d = row<D>(warp, op->r[0]);
  const std::byte* base = warp.shared;
  if (lanes == kAll) {
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) d[i] = static_cast<D>(*reinterpret_cast<const M*>(base + a[i]));
  } else {
    alignas(64) D t[kLanes];
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) t[i] = static_cast<D>(*reinterpret_cast<const M*>(base + a[i]));
    blend(d, t, lanes);
  }
  return true;
}

template <bool store, bool wide, class M, class D>
const Op* shared(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  if (lanes == 0) return op + 1;
  if (!store && (op->small[1] & kPolls) != 0) {
    warp.fuel -= kPollCost;
    ++warp.polls;
  }
  if constexpr (!store && !wide) {
    if (op->small[0] == 1 && shared_gather<M, D>(warp, op, lanes)) return op + 1;
  }
  alignas(64) uint64_t a[kLanes];
  addresses<wide>(warp, op, lanes, a);
  return shared_at<store, M, D>(warp, op, lanes, a, 0);
}

template <bool store, bool wide, class M, class D>
const Op* local(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  if (lanes == 0) return op + 1;
  alignas(64) uint64_t a[kLanes];
  addresses<wide>(warp, op, lanes, a);
  if (!check_window(warp, op, a, sizeof(M) * op->small[0], warp.local_bytes)) return nullptr;
  interleaved<store, M, D>(warp, op, lanes, a, warp.local);
  return op + 1;
}

// Of a .func or a call: the place is known.
template <bool store, class M, class D>
const Op* frame_param(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  if (lanes == 0) return op + 1;
  std::byte* base = warp.registers + warp.frame->code->param_area;
  if constexpr (store)
    store_rows<M, D>(warp, op, lanes, static_cast<uint64_t>(op->imm), base);
  else
    load_rows<M, D>(warp, op, lanes, static_cast<uint64_t>(op->imm), base);
  return op + 1;
}

template <bool store, bool wide, class M, class D>
const Op* kernel_param(Warp& warp, const Op* op) {
  if constexpr (store) return fault(warp, op, Fault::Kind::illegal_address, 0, kParamWindow);
  const uint32_t lanes = exec_mask(warp, op);
  if (lanes == 0) return op + 1;
  alignas(64) uint64_t a[kLanes];
  if (op->r[4] == 0) {  // checked when decoded
    for (unsigned v = 0; v < op->small[0]; ++v) {
      M value;
      std::memcpy(&value, warp.params + op->imm + v * sizeof(M), sizeof value);
      D* d = row<D>(warp, op->r[v]);
      if (lanes == kAll) {
        for (unsigned i = 0; i < kLanes; ++i) d[i] = static_cast<D>(value);
      } else {
        for (unsigned i = 0; i < kLanes; ++i)
          d[i] = (lanes & kLaneBits.bit[i]) != 0 ? static_cast<D>(value) : d[i];
      }
    }
    return op + 1;
  }
  addresses<wide>(warp, op, lanes, a);
  if (!check_window(warp, op, a, sizeof(M) * op->small[0], warp.param_bytes)) return nullptr;
  load_lanes<M, D>(warp, op, lanes, a, warp.params, false);
  return op + 1;
}

// Where lanes point into different windows.
template <bool store, class M, class D>
const Op* mixed(Warp& warp, const Op* op, uint32_t lanes, const uint64_t* a) {
  const uint64_t bytes = sizeof(M) * op->small[0];
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(rest));
    const uint64_t window = a[i] & kWindowMask, at = a[i] & ~kWindowMask;
    if ((a[i] & (bytes - 1)) != 0) return fault(warp, op, Fault::Kind::misaligned_address, i, a[i]);
    bool inside = false;
    if (window == 0) inside = reach(warp, a[i], bytes, store);
    if (window == kSharedWindow) inside = at < warp.shared_bytes && bytes <= warp.shared_bytes - at;
    if (window == kLocalWindow) inside = at < warp.local_bytes && bytes <= warp.local_bytes - at;
    if (window == kParamWindow) inside = !store && at < warp.param_bytes && bytes <= warp.param_bytes - at;
    if (!inside) return fault(warp, op, Fault::Kind::illegal_address, i, a[i]);
    alignas(64) uint64_t one[kLanes];
    for (uint64_t& each : one) each = window == 0 ? a[i] : at;
    const uint32_t lane = 1U << i;
    if (window == kLocalWindow) {
      if constexpr (store)
        store_words<M, D>(warp, op, lane, one, warp.local);
      else
        load_words<M, D>(warp, op, lane, one, warp.local);
    } else {
      std::byte* base = window == kSharedWindow  ? warp.shared
                        : window == kParamWindow ? const_cast<std::byte*>(warp.params)
                                                 : nullptr;
      linear<store, M, D>(warp, op, lane, one, base, false);
    }
  }
  return op + 1;
}

template <bool store, bool wide, class M, class D>
const Op* generic(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  if (lanes == 0) return op + 1;
  alignas(64) uint64_t a[kLanes];
  addresses<wide>(warp, op, lanes, a);
  uint64_t any = 0, all = ~uint64_t{0};
  for (unsigned i = 0; i < kLanes; ++i) {
    any |= a[i];
    all &= a[i];
  }
  if ((any & kWindowMask) == 0) return global_at<store, M, D>(warp, op, lanes, a);
  if (((any ^ all) & kWindowMask) == 0) {
    const uint64_t window = all & kWindowMask;
    for (unsigned i = 0; i < kLanes; ++i) a[i] &= ~kWindowMask;
    if (window == kSharedWindow) return shared_at<store, M, D>(warp, op, lanes, a, window);
    if (window == kLocalWindow) {
      if (!check_window(warp, op, a, sizeof(M) * op->small[0], warp.local_bytes, window)) return nullptr;
      interleaved<store, M, D>(warp, op, lanes, a, warp.local);
      return op + 1;
    }
    for (unsigned i = 0; i < kLanes; ++i) a[i] |= window;
  }
  return mixed<store, M, D>(warp, op, lanes, a);
}

template <bool store, bool wide, class M, class D>
Handler of_space(Where where) {
  switch (where) {
    case Where::generic:
      return generic<store, wide, M, D>;
    case Where::global:
      return global<store, wide, M, D>;
    case Where::shared:
      return shared<store, wide, M, D>;
    case Where::local:
      return local<store, wide, M, D>;
    case Where::frame_param:
      return frame_param<store, M, D>;
    default:
      return kernel_param<store, wide, M, D>;
  }
}
template <bool store, class M, class D>
Handler of_width(const Key& key) {
  return key.wide_address ? of_space<store, true, M, D>(key.where) : of_space<store, false, M, D>(key.where);
}
// A register may be wider than what is loaded or stored.
template <class M>
Handler loading(const Key& key) {
  switch (key.register_bytes) {
    case 2:
      if constexpr (sizeof(M) <= 2)
        return of_width<false, M, uint16_t>(key);
      else
        return nullptr;
    case 4:
      if constexpr (sizeof(M) <= 4)
        return of_width<false, M, uint32_t>(key);
      else
        return nullptr;
    case 8:
      return of_width<false, M, uint64_t>(key);
    default:
      return nullptr;
  }
}
template <class M>
Handler storing(const Key& key) {
  switch (key.register_bytes) {
    case 2:
      if constexpr (sizeof(M) <= 2)
        return of_width<true, M, uint16_t>(key);
      else
        return nullptr;
    case 4:
      if constexpr (sizeof(M) <= 4)
        return of_width<true, M, uint32_t>(key);
      else
        return nullptr;
    case 8:
      return of_width<true, M, uint64_t>(key);
    default:
      return nullptr;
  }
}

}  // namespace

Handler memory_handler(const Key& key) {
  if (key.kind == Kind::st) {
    switch (bytes_of(key.type)) {
      case 1:
        return storing<uint8_t>(key);
      case 2:
        return storing<uint16_t>(key);
      case 4:
        return storing<uint32_t>(key);
      case 8:
        return storing<uint64_t>(key);
      default:
        return nullptr;
    }
  }
  switch (bytes_of(key.type)) {
    case 1:
      return is_signed(key.type) ? loading<int8_t>(key) : loading<uint8_t>(key);
    case 2:
      return is_signed(key.type) ? loading<int16_t>(key) : loading<uint16_t>(key);
    case 4:
      return is_signed(key.type) ? loading<int32_t>(key) : loading<uint32_t>(key);
    case 8:
      return loading<uint64_t>(key);
    default:
      return nullptr;
  }
}

}  // namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA
