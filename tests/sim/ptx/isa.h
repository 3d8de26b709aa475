// Which handler an instruction gets. The handlers of ops/ are compiled twice, for any x86-64 and for AVX2,
// each in its own namespace; isa() is the set that this host can run.
#pragma once
#include "decode.h"

namespace gpufence::sim::ptx {

enum class Kind : uint8_t {
  // integer.cpp
  add,
  sub,
  mul_lo,
  mul_hi,
  mul_wide,
  mad_lo,
  mad_hi,
  mad_wide,
  mul24_lo,
  mul24_hi,
  mad24_lo,
  mad24_hi,
  sad,
  div,
  rem,
  abs,
  neg,
  min,
  max,
  and_,
  or_,
  xor_,
  not_,
  cnot,
  shl,
  shr,
  shf_l,
  shf_r,
  popc,
  clz,
  bfind,
  bfind_amount,
  brev,
  bfe,
  bfi,
  bmsk,
  szext,
  fns,
  lop3,
  prmt,
  dp4a,
  dp2a,
  selp,
  slct,
  mov,
  add_cc,
  addc,
  sub_cc,
  subc,
  mad_cc_lo,
  mad_cc_hi,
  madc_lo,
  madc_hi,
  // floating.cpp, half.cpp; the arithmetic above too
  fma,
  rcp,
  sqrt,
  rsqrt,
  sin,
  cos,
  ex2,
  lg2,
  tanh,
  copysign,
  testp,
  // compare.cpp
  setp,
  set,
  // convert.cpp
  cvt,
  cvt_pack,
  // memory.cpp
  ld,
  st,
};

enum class Round : uint8_t {
  nearest,
  zero,
  down,
  up,
  integer_nearest,
  integer_zero,
  integer_down,
  integer_up
};
enum class Combine : uint8_t { none, and_, or_, xor_ };
enum class Where : uint8_t { generic, global, shared, local, kernel_param, frame_param };

struct Key {
  Kind kind{};
  Type type = Type::none;  // of the result, or the operation
  Type from = Type::none;  // of the source, where it differs
  Round round = Round::nearest;
  Compare compare = Compare::eq;
  Where where = Where::generic;
  unsigned register_bytes = 0;  // of ld and st: a register's width, which may exceed the type's
  bool ftz = false, sat = false, approximate = false, nan = false, relu = false, xorsign = false;
  bool wide_address = true;  // 64-bit address register
};

// nullptr: there is none.
struct Isa {
  Handler (*integer)(const Key&);
  Handler (*floating)(const Key&);
  Handler (*half)(const Key&);
  Handler (*compare)(const Key&);
  Handler (*convert)(const Key&);
  Handler (*memory)(const Key&);
};

const Isa& isa();
// Modules that are parsed from now on run as they would on a host without AVX2: for tests.
void use_only_base(bool yes);

}  // namespace gpufence::sim::ptx
