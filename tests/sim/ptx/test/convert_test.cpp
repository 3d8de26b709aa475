// cvt: pairs of types, roundings, ends of ranges.
#include <cmath>

#include "grid.h"

namespace gpufence::sim::ptx {
namespace {

uint64_t s32(int32_t value) {
  return static_cast<uint32_t>(value);
}
uint64_t s64(int64_t value) {
  return static_cast<uint64_t>(value);
}

TEST(Convert, IntegersExtendAndTruncate) {
  expect("cvt.s64.s32 %rd0, %r1;", {{{s32(-5)}, s64(-5)}});
  expect("cvt.u64.u32 %rd0, %r1;", {{{0xffffffff}, 0xffffffff}});
  expect("cvt.u32.u64 %r0, %rd1;", {{{0x123456789}, 0x23456789}});
  expect("cvt.s32.s16 %r0, %h1;", {{{0xffff}, 0xffffffff}});
  expect("cvt.u32.u16 %r0, %h1;", {{{0xffff}, 0xffff}});
  expect("cvt.u16.u32 %h0, %r1;", {{{0x12345}, 0x2345}});
  expect("cvt.s32.s8 %r0, %r1;", {{{0x180}, 0xffffff80}});
  expect("cvt.u32.u8 %r0, %r1;", {{{0x180}, 0x80}});
  expect("cvt.s16.s8 %h0, %h1;", {{{0x80}, 0xff80}});
  expect("cvt.u8.u32 %r0, %r1;", {{{0x1ff}, 0xff}});
  expect("cvt.s8.s32 %r0, %r1;", {{{0x1ff}, 0xffffffff}});
  expect("cvt.s64.s8 %rd0, %rd1;", {{{0xff}, s64(-1)}});
  expect("cvt.u64.u16 %rd0, %h1;", {{{0xffff}, 0xffff}});
  expect("cvt.s64.u32 %rd0, %r1;", {{{0xffffffff}, 0xffffffff}});
}

TEST(Convert, SaturatingIntegersClamp) {
  expect("cvt.sat.u8.s32 %r0, %r1;", {{{300}, 255}, {{s32(-4)}, 0}, {{7}, 7}});
  expect("cvt.sat.s8.s32 %r0, %r1;", {{{300}, 127}, {{s32(-300)}, s32(-128)}});
  expect("cvt.sat.u32.s64 %r0, %rd1;", {{{s64(-1)}, 0}, {{1ULL << 40}, 0xffffffff}});
  expect("cvt.sat.s32.u32 %r0, %r1;", {{{0xffffffff}, 0x7fffffff}});
  expect("cvt.sat.s16.s64 %h0, %rd1;", {{{s64(-100000)}, 0x8000}});
}

TEST(Convert, FloatsToIntegersRoundAndClamp) {
  const auto f = [](float value) { return std::vector<uint64_t>{bits(value)}; };
  const auto d = [](double value) { return std::vector<uint64_t>{bits(value)}; };
  expect("cvt.rzi.s32.f32 %r0, %r1;", {{f(2.9F), 2},
                                       {f(-2.9F), s32(-2)},
                                       {f(3e9F), 0x7fffffff},
                                       {f(-3e9F), 0x80000000},
                                       {f(HUGE_VALF), 0x7fffffff}});
  expect("cvt.rni.s32.f32 %r0, %r1;", {{f(2.5F), 2}, {f(3.5F), 4}, {f(-2.5F), s32(-2)}});
  expect("cvt.rmi.s32.f32 %r0, %r1;", {{f(2.9F), 2}, {f(-2.1F), s32(-3)}});
  expect("cvt.rpi.s32.f32 %r0, %r1;", {{f(2.1F), 3}, {f(-2.9F), s32(-2)}});
  expect("cvt.rzi.u32.f32 %r0, %r1;", {{f(-1.0F), 0}, {f(5e9F), 0xffffffff}, {f(3e9F), 3000000000}});
  expect("cvt.rzi.u64.f32 %rd0, %r1;", {{f(1e19F), 9999999980506447872ULL}, {f(1e20F), ~0ULL}});
  expect("cvt.rzi.s64.f64 %rd0, %rd1;", {{d(-1e15), s64(-1000000000000000)}, {d(1e19), 0x7fffffffffffffff}});
  expect("cvt.rni.s32.f64 %r0, %rd1;", {{d(0.5), 0}, {d(1.5), 2}});
  expect("cvt.rzi.u16.f32 %h0, %r1;", {{f(70000.0F), 65535}, {f(-1.0F), 0}, {f(12.75F), 12}});
  expect("cvt.rzi.s8.f32 %r0, %r1;", {{f(-200.0F), s32(-128)}, {f(200.0F), 127}});
  expect("cvt.rzi.u8.f32 %h0, %r1;", {{f(300.0F), 255}});
}

TEST(Convert, NanBecomesZeroOrTheTopBitAlone) {
  expect("cvt.rzi.s32.f32 %r0, %r1;", {{{0x7fc00000}, 0}});
  expect("cvt.rzi.u32.f32 %r0, %r1;", {{{0x7fc00000}, 0}});
  expect("cvt.rzi.s64.f32 %rd0, %r1;", {{{0x7fc00000}, 0x8000000000000000}});
  expect("cvt.rzi.u64.f32 %rd0, %r1;", {{{0x7fc00000}, 0x8000000000000000}});
  expect("cvt.rzi.s32.f64 %r0, %rd1;", {{{0x7ff8000000000000}, 0x80000000}});
  expect("cvt.rzi.u32.f64 %r0, %rd1;", {{{0x7ff8000000000000}, 0x80000000}});
}

TEST(Convert, IntegersToFloatsInEveryRounding) {
  expect("cvt.rn.f32.s32 %r0, %r1;",
         {{{s32(-7)}, bits(-7.0F)}, {{16777217}, bits(16777216.0F)}, {{16777219}, bits(16777220.0F)}});
  expect("cvt.rz.f32.s32 %r0, %r1;",
         {{{16777219}, bits(16777218.0F)}, {{s32(-16777219)}, bits(-16777218.0F)}});
  expect("cvt.rm.f32.s32 %r0, %r1;", {{{s32(-16777217)}, bits(-16777218.0F)}});
  expect("cvt.rp.f32.u32 %r0, %r1;", {{{16777217}, bits(16777218.0F)}});
  expect("cvt.rn.f32.u32 %r0, %r1;", {{{0xffffffff}, bits(4294967296.0F)}});
  expect("cvt.rn.f64.u64 %rd0, %rd1;", {{{~0ULL}, bits(18446744073709551616.0)}});
  expect("cvt.rn.f64.s64 %rd0, %rd1;", {{{s64(-9)}, bits(-9.0)}});
  expect("cvt.rz.f64.u64 %rd0, %rd1;", {{{~0ULL}, bits(18446744073709549568.0)}});
  expect("cvt.rn.f32.u64 %r0, %rd1;", {{{(1ULL << 40) + 1}, bits(1099511627776.0F)}});
  expect("cvt.rn.f32.s64 %r0, %rd1;", {{{s64(-(1LL << 40))}, bits(-1099511627776.0F)}});
  expect("cvt.rn.f32.u16 %r0, %h1;", {{{0xffff}, bits(65535.0F)}});
  expect("cvt.rn.f32.s16 %r0, %h1;", {{{0xffff}, bits(-1.0F)}});
  expect("cvt.rn.f32.s8 %r0, %h1;", {{{0xff}, bits(-1.0F)}});
  expect("cvt.rn.f64.s32 %rd0, %r1;", {{{s32(-3)}, bits(-3.0)}});
  expect("cvt.rn.f64.u32 %rd0, %r1;", {{{0xffffffff}, bits(4294967295.0)}});
}

TEST(Convert, FloatsToFloats) {
  expect("cvt.f64.f32 %rd0, %r1;", {{{bits(1.5F)}, bits(1.5)}, {{1}, bits(0x1p-149)}});
  expect("cvt.ftz.f64.f32 %rd0, %r1;", {{{1}, 0}});
  expect("cvt.rn.f32.f64 %r0, %rd1;",
         {{{bits(0.1)}, bits(0.1F)}, {{bits(1e300)}, 0x7f800000}, {{0xfff8000000000000}, 0x7fffffff}});
  expect("cvt.rz.f32.f64 %r0, %rd1;", {{{bits(0.7)}, 0x3f333333}, {{bits(1e300)}, 0x7f7fffff}});
  expect("cvt.rp.f32.f64 %r0, %rd1;", {{{bits(0.1)}, 0x3dcccccd}});
  expect("cvt.rm.f32.f64 %r0, %rd1;", {{{bits(0.1)}, 0x3dcccccc}});
  expect("cvt.rni.f32.f32 %r0, %r1;", {{{bits(2.5F)}, bits(2.0F)}, {{bits(-0.25F)}, 0x80000000}});
  expect("cvt.rzi.f32.f32 %r0, %r1;", {{{bits(-2.75F)}, bits(-2.0F)}});
  expect("cvt.rmi.f64.f64 %rd0, %rd1;", {{{bits(-2.25)}, bits(-3.0)}});
  expect("cvt.rpi.f32.f32 %r0, %r1;", {{{bits(2.25F)}, bits(3.0F)}});
  expect("cvt.sat.f32.f32 %r0, %r1;",
         {{{bits(2.0F)}, bits(1.0F)}, {{bits(-2.0F)}, 0}, {{0x7fc00000}, 0}, {{bits(0.5F)}, bits(0.5F)}});
}

TEST(Convert, HalvesBothWays) {
  expect("cvt.f32.f16 %r0, %h1;", {{{0x3c00}, bits(1.0F)},
                                   {{0x0001}, bits(0x1p-24F)},
                                   {{0xfc00}, 0xff800000},
                                   {{0x7bff}, bits(65504.0F)}});
  expect("cvt.rn.f16.f32 %h0, %r1;", {{{bits(1.0F)}, 0x3c00},
                                      {{bits(65520.0F)}, 0x7c00},
                                      {{bits(65519.0F)}, 0x7bff},
                                      {{bits(0x1p-25F)}, 0},
                                      {{bits(0x1.8p-25F)}, 1},
                                      {{bits(1.00048828125F)}, 0x3c00},
                                      {{bits(1.00146484375F)}, 0x3c02},
                                      {{0x7fc00000}, 0x7fff}});
  expect("cvt.rz.f16.f32 %h0, %r1;", {{{bits(65520.0F)}, 0x7bff}, {{bits(1.0009F)}, 0x3c00}});
  expect("cvt.rn.f16.f64 %h0, %rd1;", {{{bits(1.0004882812500002)}, 0x3c01}});
  expect("cvt.f64.f16 %rd0, %h1;", {{{0xc000}, bits(-2.0)}});
  expect("cvt.rn.f16.s32 %h0, %r1;", {{{2049}, 0x6800}, {{2051}, 0x6802}, {{70000}, 0x7c00}});
  expect("cvt.rn.f16.u64 %h0, %rd1;", {{{(1ULL << 15) + 16}, 0x7800}, {{(1ULL << 15) + 17}, 0x7801}});
  expect("cvt.rzi.s32.f16 %r0, %h1;", {{{0xc100}, s32(-2)}, {{0x7e00}, 0}});
  expect("cvt.rni.u16.f16 %h0, %h1;", {{{0x4100}, 2}});
  expect("cvt.rni.f16.f16 %h0, %h1;", {{{0x4100}, 0x4000}});
  expect("cvt.f32.bf16 %r0, %h1;", {{{0x3f80}, bits(1.0F)}});
  expect("cvt.rn.bf16.f32 %h0, %r1;",
         {{{0x3f808000}, 0x3f80}, {{0x3f818000}, 0x3f82}, {{0x3f808001}, 0x3f81}, {{0x7f7fffff}, 0x7f80}});
  expect("cvt.rn.relu.bf16.f32 %h0, %r1;", {{{bits(-1.0F)}, 0}});
  expect("cvt.rn.f16x2.f32 %r0, %r1, %r2;", {{{bits(1.0F), bits(2.0F)}, 0x3c004000}});
  expect("cvt.rz.bf16x2.f32 %r0, %r1, %r2;", {{{0x3f80ffff, 0x4000ffff}, 0x3f804000}});
}

}  // namespace
}  // namespace gpufence::sim::ptx
