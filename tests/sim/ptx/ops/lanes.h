// Loops over the 32 lanes of a warp. Every handler computes all lanes, so that the loop has no branch and
// becomes vector instructions; lanes that take no part keep what they had. Hence an operation must be
// harmless for any values.
#pragma once
#include "exec.h"
#include "isa.h"

#ifndef GPUFENCE_PTX_ISA
#error "compiled with the name of an instruction set"
#endif

#if defined(__clang__)
#define GPUFENCE_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define GPUFENCE_LANES _Pragma("GCC ivdep")
#endif

namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA {

constexpr uint32_t kAll = 0xffffffffU;

// Lane i's bit; a table, as shifts by lane cost more than a load.
struct LaneBits {
  alignas(64) uint32_t bit[kLanes];
  constexpr LaneBits() : bit{} {
    for (unsigned i = 0; i < kLanes; ++i) bit[i] = 1U << i;
  }
};
inline constexpr LaneBits kLaneBits;

template <class T>
inline void blend(T* to, const T* from, uint32_t lanes) {
  GPUFENCE_LANES
  for (unsigned i = 0; i < kLanes; ++i) to[i] = (lanes & kLaneBits.bit[i]) != 0 ? from[i] : to[i];
}

template <class F, class D, class A>
const Op* unary(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  D* d = row<D>(warp, op->r[0]);
  const A* a = row<A>(warp, op->r[1]);
  if (lanes == kAll) {
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) d[i] = F::of(a[i]);
  } else {
    alignas(64) D t[kLanes];
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) t[i] = F::of(a[i]);
    blend(d, t, lanes);
  }
  return op + 1;
}

template <class F, class D, class A, class B>
const Op* binary(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  D* d = row<D>(warp, op->r[0]);
  const A* a = row<A>(warp, op->r[1]);
  const B* b = row<B>(warp, op->r[2]);
  if (lanes == kAll) {
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) d[i] = F::of(a[i], b[i]);
  } else {
    alignas(64) D t[kLanes];
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) t[i] = F::of(a[i], b[i]);
    blend(d, t, lanes);
  }
  return op + 1;
}

template <class F, class D, class A, class B, class C>
const Op* ternary(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  D* d = row<D>(warp, op->r[0]);
  const A* a = row<A>(warp, op->r[1]);
  const B* b = row<B>(warp, op->r[2]);
  const C* c = row<C>(warp, op->r[3]);
  if (lanes == kAll) {
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) d[i] = F::of(a[i], b[i], c[i]);
  } else {
    alignas(64) D t[kLanes];
    GPUFENCE_LANES
    for (unsigned i = 0; i < kLanes; ++i) t[i] = F::of(a[i], b[i], c[i]);
    blend(d, t, lanes);
  }
  return op + 1;
}

// The same without vectors in mind: for operations that are calls or take more than three sources. f(lane)
// gives the result and runs for taking lanes only.
template <class D, class F>
const Op* by_lane(Warp& warp, const Op* op, F f) {
  const uint32_t lanes = exec_mask(warp, op);
  D* d = row<D>(warp, op->r[0]);
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) != 0) d[i] = f(i);
  }
  return op + 1;
}

}  // namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA
