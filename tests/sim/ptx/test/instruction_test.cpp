// One rule of the PTX manual a line: instruction, sources, what it says the result is.
#include <cmath>

#include "grid.h"

namespace gpufence::sim::ptx {
namespace {

constexpr uint64_t kNan32 = 0x7fffffff, kQuiet = 0x7fc00001, kInf32 = 0x7f800000, kNegInf32 = 0xff800000;
constexpr uint64_t kMinus = 0x80000000;

uint64_t s32(int32_t value) {
  return static_cast<uint32_t>(value);
}
uint64_t s64(int64_t value) {
  return static_cast<uint64_t>(value);
}
uint64_t s16(int value) {
  return static_cast<uint16_t>(value);
}

TEST(Integer, AdditionAndSubtractionWrap) {
  expect("add.s32 %r0, %r1, %r2;", {{{1, 2}, 3}, {{0x7fffffff, 1}, 0x80000000}, {{0xffffffff, 1}, 0}});
  expect("add.u16 %h0, %h1, %h2;", {{{0xffff, 2}, 1}, {{0x7fff, 1}, 0x8000}});
  expect("add.s64 %rd0, %rd1, %rd2;", {{{s64(-1), 1}, 0}, {{0xffffffff, 1}, 0x100000000}});
  expect("sub.s32 %r0, %r1, %r2;", {{{1, 2}, s32(-1)}, {{kMinus, 1}, 0x7fffffff}});
  expect("sub.u64 %rd0, %rd1, %rd2;", {{{0, 1}, s64(-1)}});
  expect("add.s32 %r0, %r1, -5;", {{{3}, s32(-2)}});
}

TEST(Integer, SaturatingAdditionClampsToTheTypesEnds) {
  expect("add.sat.s32 %r0, %r1, %r2;",
         {{{0x7fffffff, 1}, 0x7fffffff}, {{kMinus, s32(-1)}, kMinus}, {{5, 6}, 11}});
  expect("sub.sat.s32 %r0, %r1, %r2;", {{{kMinus, 1}, kMinus}, {{0x7fffffff, s32(-1)}, 0x7fffffff}});
}

TEST(Integer, CarriesGoFromWordToWord) {
  expect("add.cc.u32 %r5, %r1, %r2; addc.u32 %r0, %r3, %r4;",
         {{{0xffffffff, 1, 10, 20}, 31}, {{1, 1, 10, 20}, 30}});
  expect("sub.cc.u32 %r5, %r1, %r2; subc.u32 %r0, %r3, %r4;", {{{0, 1, 10, 3}, 6}, {{1, 1, 10, 3}, 7}});
  expect("mad.lo.cc.u32 %r5, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, %r4;",
         {{{0xffffffff, 0xffffffff, 0xffffffff, 7}, 0xfffffffe + 7ULL + 1 - 0x100000000}, {{2, 3, 4, 7}, 7}});
  expect("add.cc.u64 %rd5, %rd1, %rd2; addc.u64 %rd0, %rd3, %rd4;", {{{~0ULL, 1, 5, 6}, 12}});
  expect("add.cc.u32 %r5, %r1, %r2; addc.cc.u32 %r6, %r3, %r4; addc.u32 %r0, 0, 0;",
         {{{0xffffffff, 1, 0xffffffff, 0}, 1}, {{1, 1, 0xffffffff, 0}, 0}});
}

TEST(Integer, ASubtractionLeavesTheCarryOfItsComplement) {
  // What nvcc's 128-bit division relies on: 1 where nothing was borrowed, read by addc.
  expect("sub.cc.u32 %r5, %r1, %r2; addc.u32 %r0, 0, 0;", {{{5, 3}, 1}, {{3, 3}, 1}, {{3, 5}, 0}});
  expect("sub.cc.u32 %r5, %r1, %r2; subc.cc.u32 %r6, %r3, %r4; subc.u32 %r0, 0, 0;",
         {{{0, 1, 0, 0}, 0xffffffff}, {{0, 1, 1, 0}, 0}, {{9, 1, 5, 5}, 0}, {{0, 0, 0, 1}, 0xffffffff}});
  expect("add.cc.u32 %r5, %r1, %r2; subc.u32 %r0, 10, 3;", {{{0xffffffff, 1}, 7}, {{1, 1}, 6}});
}

TEST(Integer, ProductsHaveLowHighAndWideParts) {
  expect("mul.lo.s32 %r0, %r1, %r2;", {{{0x10000, 0x10000}, 0}, {{s32(-3), 5}, s32(-15)}});
  expect("mul.hi.s32 %r0, %r1, %r2;", {{{s32(-1), 2}, s32(-1)}, {{0x40000000, 8}, 2}});
  expect("mul.hi.u32 %r0, %r1, %r2;", {{{0xffffffff, 2}, 1}});
  expect("mul.wide.s32 %rd0, %r1, %r2;", {{{s32(-2), 3}, s64(-6)}});
  expect("mul.wide.u32 %rd0, %r1, %r2;", {{{0xffffffff, 0xffffffff}, 0xfffffffe00000001}});
  expect("mul.wide.u16 %r0, %h1, %h2;", {{{0xffff, 0xffff}, 0xfffe0001}});
  expect("mul.wide.s16 %r0, %h1, %h2;", {{{0xffff, 2}, s32(-2)}});
  expect("mul.hi.u64 %rd0, %rd1, %rd2;", {{{~0ULL, ~0ULL}, 0xfffffffffffffffe}});
  expect("mul.hi.s64 %rd0, %rd1, %rd2;", {{{s64(-1), 1}, s64(-1)}});
  expect("mul.lo.s64 %rd0, %rd1, %rd2;", {{{s64(-7), 6}, s64(-42)}});
  expect("mul.lo.u16 %h0, %h1, %h2;", {{{300, 300}, 90000 & 0xffff}});
  expect("mul.hi.u16 %h0, %h1, %h2;", {{{0xffff, 0xffff}, 0xfffe}});
  expect("mul24.lo.u32 %r0, %r1, %r2;", {{{0xff000003, 0xaa000004}, 12}});
  expect("mul24.hi.s32 %r0, %r1, %r2;", {{{0x00ffffff, 0x00010000}, s32(-1)}});
  expect("mad24.lo.s32 %r0, %r1, %r2, %r3;", {{{0xffffff, 3, 10}, 7}});
  expect("mad.lo.s32 %r0, %r1, %r2, %r3;", {{{s32(-3), 5, 20}, 5}});
  expect("mad.hi.u32 %r0, %r1, %r2, %r3;", {{{0x80000000, 4, 1}, 3}});
  expect("mad.hi.sat.s32 %r0, %r1, %r2, %r3;", {{{0x7fffffff, 0x7fffffff, 0x7fffffff}, 0x7fffffff}});
  expect("mad.wide.s32 %rd0, %r1, %r2, %rd3;", {{{s32(-2), 3, 100}, 94}});
  expect("mad.wide.u16 %r0, %h1, %h2, %r3;", {{{0xffff, 2, 1}, 0x1ffff}});
  expect("mad.lo.u64 %rd0, %rd1, %rd2, %rd3;", {{{3, 4, 5}, 17}});
  expect("mad.lo.s16 %h0, %h1, %h2, %h3;", {{{300, 300, 5}, (90000 + 5) & 0xffff}});
}

TEST(Integer, DivisionByZeroGivesAllOnesAndTheSmallestByMinusOneWraps) {
  expect("div.s32 %r0, %r1, %r2;",
         {{{s32(-7), 2}, s32(-3)}, {{7, 0}, 0xffffffff}, {{kMinus, s32(-1)}, kMinus}});
  expect("div.u32 %r0, %r1, %r2;", {{{0xffffffff, 2}, 0x7fffffff}, {{7, 0}, 0xffffffff}});
  expect("div.s64 %rd0, %rd1, %rd2;",
         {{{s64(-9), 4}, s64(-2)}, {{1, 0}, ~0ULL}, {{1ULL << 63, s64(-1)}, 1ULL << 63}});
  expect("div.u64 %rd0, %rd1, %rd2;", {{{~0ULL, 3}, 0x5555555555555555}});
  expect("div.s16 %h0, %h1, %h2;", {{{s16(-7), 2}, s16(-3)}, {{5, 0}, 0xffff}});
  expect("rem.s32 %r0, %r1, %r2;", {{{s32(-7), 3}, s32(-1)}, {{kMinus, s32(-1)}, 0}});
  expect("rem.u32 %r0, %r1, %r2;", {{{0xffffffff, 10}, 5}});
  expect("rem.s64 %rd0, %rd1, %rd2;", {{{s64(-7), 3}, s64(-1)}});
}

TEST(Integer, MinimumMaximumAbsoluteNegative) {
  expect("min.s32 %r0, %r1, %r2;", {{{s32(-1), 1}, s32(-1)}});
  expect("min.u32 %r0, %r1, %r2;", {{{s32(-1), 1}, 1}});
  expect("max.s64 %rd0, %rd1, %rd2;", {{{s64(-1), 1}, 1}});
  expect("max.u16 %h0, %h1, %h2;", {{{0xffff, 1}, 0xffff}});
  expect("min.s16 %h0, %h1, %h2;", {{{0xffff, 1}, 0xffff}});
  expect("max.relu.s32 %r0, %r1, %r2;", {{{s32(-5), s32(-3)}, 0}, {{s32(-5), 3}, 3}});
  expect("abs.s32 %r0, %r1;", {{{s32(-5)}, 5}, {{kMinus}, kMinus}});
  expect("abs.s64 %rd0, %rd1;", {{{s64(-5)}, 5}});
  expect("neg.s32 %r0, %r1;", {{{5}, s32(-5)}, {{kMinus}, kMinus}});
  expect("neg.s16 %h0, %h1;", {{{5}, s16(-5)}});
  expect("sad.u32 %r0, %r1, %r2, %r3;", {{{3, 10, 5}, 12}});
  expect("sad.s32 %r0, %r1, %r2, %r3;", {{{s32(-3), 10, 5}, 18}});
}

TEST(Integer, ShiftsBeyondTheWidthClamp) {
  expect("shl.b32 %r0, %r1, %r2;", {{{1, 31}, kMinus}, {{1, 32}, 0}, {{1, 0xffffffff}, 0}, {{3, 0}, 3}});
  expect("shr.u32 %r0, %r1, %r2;", {{{kMinus, 31}, 1}, {{kMinus, 32}, 0}, {{kMinus, 100}, 0}});
  expect("shr.s32 %r0, %r1, %r2;", {{{kMinus, 31}, 0xffffffff},
                                    {{kMinus, 32}, 0xffffffff},
                                    {{kMinus, 1000}, 0xffffffff},
                                    {{0x7fffffff, 40}, 0}});
  expect("shr.b32 %r0, %r1, %r2;", {{{kMinus, 4}, 0x08000000}});
  expect("shl.b64 %rd0, %rd1, %r2;", {{{1, 63}, 1ULL << 63}, {{1, 64}, 0}, {{1, 32}, 1ULL << 32}});
  expect("shr.s64 %rd0, %rd1, %r2;", {{{1ULL << 63, 64}, ~0ULL}, {{1ULL << 63, 60}, s64(-8)}});
  expect("shr.u64 %rd0, %rd1, %r2;", {{{1ULL << 63, 63}, 1}, {{1ULL << 63, 64}, 0}});
  expect("shl.b16 %h0, %h1, %r2;", {{{1, 15}, 0x8000}, {{1, 16}, 0}});
  expect("shr.s16 %h0, %h1, %r2;", {{{0x8000, 20}, 0xffff}});
}

TEST(Integer, FieldsExtendBySignOrZero) {
  expect("szext.clamp.s32 %r0, %r1, %r2;", {{{0xf8, 4}, 0xfffffff8},
                                            {{0xf7, 4}, 7},
                                            {{0xff, 0}, 0},
                                            {{0x80000001, 32}, 0x80000001},
                                            {{5, 99}, 5}});
  expect("szext.wrap.s32 %r0, %r1, %r2;", {{{0xf8, 36}, 0xfffffff8}, {{0xff, 32}, 0}});
  expect("szext.clamp.u32 %r0, %r1, %r2;",
         {{{0xf8, 4}, 8}, {{0xffffffff, 31}, 0x7fffffff}, {{0xffffffff, 40}, ~0U}});
  expect("szext.wrap.u32 %r0, %r1, %r2;", {{{0xffffffff, 33}, 1}});
}

TEST(Integer, TheNthSetBitIsFound) {
  expect("fns.b32 %r0, %r1, %r2, %r3;", {{{0xb2, 0, 1}, 1},
                                         {{0xb2, 0, 3}, 5},
                                         {{0xb2, 2, 1}, 4},
                                         {{0xb2, 7, s32(-2)}, 5},
                                         {{0xb2, 4, 0}, 4},
                                         {{0xb2, 3, 0}, 0xffffffff},
                                         {{0xb2, 0, 5}, 0xffffffff}});
}

TEST(Integer, PairsOfSixteenBits) {
  expect("add.u16x2 %r0, %r1, %r2;", {{{0x0001ffff, 0x00020001}, 0x00030000}});
  expect("add.s16x2 %r0, %r1, %r2;", {{{0x7fff8000, 0x00018000}, 0x80000000}});
  expect("min.s16x2 %r0, %r1, %r2;", {{{0xffff0003, 0x00010002}, 0xffff0002}});
  expect("min.u16x2 %r0, %r1, %r2;", {{{0xffff0003, 0x00010002}, 0x00010002}});
  expect("max.u16x2 %r0, %r1, %r2;", {{{0xffff0003, 0x00010002}, 0xffff0003}});
  expect("max.relu.s16x2 %r0, %r1, %r2;", {{{0xfffffffd, 0xfffe0002}, 0x00000002}});
  expect("min.s16x2.relu %r0, %r1, %r2;", {{{0x0005fffd, 0x00040002}, 0x00040000}});
}

TEST(Video, HalvesAddSubtractAverageAndDiffer) {
  expect("vadd2.u32.u32.u32 %r0, %r1, %r2, %r3;", {{{0x0001ffff, 0x00020001, 0}, 0x00030000}});
  expect("vadd2.u32.u32.u32.sat %r0, %r1, %r2, %r3;", {{{0x0001ffff, 0x00020001, 0}, 0x0003ffff}});
  expect("vadd2.s32.s32.s32.sat %r0, %r1, %r2, %r3;", {{{0x7fff8000, 0x0001ffff, 0}, 0x7fff8000}});
  expect("vsub2.u32.u32.u32 %r0, %r1, %r2, %r3;", {{{0x00050001, 0x00030002, 0}, 0x0002ffff}});
  expect("vsub2.u32.u32.u32.sat %r0, %r1, %r2, %r3;", {{{0x00050001, 0x00030002, 0}, 0x00020000}});
  expect("vavrg2.s32.s32.s32 %r0, %r1, %r2, %r3;", {{{0x0001fffe, 0x0002ffff, 0}, 0x0002fffe}});
  expect("vavrg2.u32.u32.u32 %r0, %r1, %r2, %r3;", {{{0xffff0001, 0xffff0000, 0}, 0xffff0001}});
  expect("vabsdiff2.u32.s32.s32 %r0, %r1, %r2, %r3;", {{{0x80000003, 0x7fff0005, 0}, 0xffff0002}});
  expect("vmin2.s32.s32.s32 %r0, %r1, %r2, %r3;", {{{0xffff0003, 0x00010002, 0}, 0xffff0002}});
  expect("vmax2.u32.u32.u32 %r0, %r1, %r2, %r3;", {{{0xffff0003, 0x00010002, 0}, 0xffff0003}});
  expect("vmax2.s32.u32.s32 %r0, %r1, %r2, %r3;", {{{0x0001ffff, 0xffff8000, 0}, 0x0001ffff}});
}

TEST(Video, QuartersDoLikewise) {
  expect("vadd4.u32.u32.u32 %r0, %r1, %r2, %r3;", {{{0x01ff7f80, 0x02018001, 0}, 0x0300ff81}});
  expect("vadd4.s32.s32.s32.sat %r0, %r1, %r2, %r3;", {{{0x7f80ff01, 0x01ff0102, 0}, 0x7f800003}});
  expect("vsub4.u32.u32.u32.sat %r0, %r1, %r2, %r3;", {{{0x05010203, 0x01020304, 0}, 0x04000000}});
  expect("vavrg4.u32.u32.u32 %r0, %r1, %r2, %r3;", {{{0xff010203, 0xff020306, 0}, 0xff020305}});
  expect("vabsdiff4.u32.u32.u32 %r0, %r1, %r2, %r3;", {{{0x00ff1020, 0xff002010, 0}, 0xffff1010}});
  expect("vabsdiff4.s32.s32.s32.sat %r0, %r1, %r2, %r3;", {{{0x807f00ff, 0x7f80fe00, 0}, 0x7f7f0201}});
  expect("vmin4.u32.u32.u32 %r0, %r1, %r2, %r3;", {{{0x80010203, 0x7f020104, 0}, 0x7f010103}});
  expect("vmax4.s32.s32.s32 %r0, %r1, %r2, %r3;", {{{0x80010203, 0x7f02ff04, 0}, 0x7f020204}});
}

TEST(Video, SimdResultsAreAddedUpOrMergedThroughAMask) {
  expect("vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3;",
         {{{0x00ff1020, 0xff002010, 1000}, 1542}, {{0x01020304, 0x01020304, 7}, 7}});
  expect("vabsdiff2.u32.u32.u32.add %r0, %r1, %r2, %r3;", {{{0xffff0000, 0x0000ffff, 5}, 0x20003}});
  expect("vsub2.s32.s32.s32.add %r0, %r1, %r2, %r3;", {{{0x00010002, 0x00050003, 100}, 95}});
  expect("vadd4.u32.u32.u32.add %r0.b20, %r1, %r2, %r3;", {{{0x01020304, 0x10203040, 1}, 0x22 + 0x44 + 1}});
  expect("vadd4.u32.u32.u32 %r0.b31, %r1, %r2, %r3;", {{{0x01020304, 0x10203040, 0xaabbccdd}, 0x11bb33dd}});
  expect("vadd2.u32.u32.u32 %r0.h1, %r1, %r2, %r3;", {{{0x00010002, 0x00100020, 0xaabbccdd}, 0x0011ccdd}});
}

TEST(Video, SelectorsChooseFromBothWords) {
  expect("vadd2.u32.u32.u32 %r0, %r1.h01, %r2.h32, 0;", {{{0x00010002, 0x00100020}, 0x00120021}});
  expect("vadd2.u32.u32.u32 %r0, %r1.h20, %r2.h13, 0;", {{{0x00010002, 0x00100020}, 0x00210012}});
  expect("vsub4.u32.u32.u32 %r0, %r1.b7531, %r2.b6420, 0;", {{{0x04010503, 0x09020807}, 0x07010302}});
}

TEST(Video, ComparisonsGiveOneOrNothing) {
  expect("vset4.u32.u32.lt %r0, %r1, %r2, %r3;", {{{0x01020304, 0x02020205, 0}, 0x01000001}});
  expect("vset2.s32.s32.ge %r0, %r1, %r2, %r3;", {{{0xffff0001, 0x00000001, 0}, 0x00000001}});
  expect("vset4.u32.u32.ne.add %r0, %r1, %r2, %r3;", {{{0x01020304, 0x02020205, 10}, 13}});
  expect("vset2.u32.u32.eq %r0.h0, %r1, %r2, %r3;", {{{0x00010002, 0x00050002, 0xabcd0000}, 0xabcd0001}});
}

TEST(Video, ScalarOnesTakePartsAndHaveASecondOperation) {
  expect("vadd.s32.s32.s32 %r0, %r1.b0, %r2.h1;", {{{0x80, 0xfffe0000}, s32(-130)}});
  expect("vadd.u32.u32.u32.sat %r0, %r1, %r2;", {{{0xffffffff, 2}, 0xffffffff}});
  expect("vsub.s32.u32.u32 %r0, %r1, %r2;", {{{1, 3}, s32(-2)}});
  expect("vsub.u32.u32.u32.sat %r0, %r1, %r2;", {{{1, 3}, 0}});
  expect("vabsdiff.u32.s32.s32.add %r0, %r1, %r2, %r3;", {{{s32(-3), 4, 10}, 17}});
  expect("vmin.s32.s32.s32.max %r0, %r1, %r2, %r3;", {{{s32(-3), 4, s32(-1)}, s32(-1)}});
  expect("vmax.u32.u32.u32.min %r0, %r1, %r2, %r3;", {{{3, 4, 0xffffffff}, 4}});
  expect("vadd.s32.s32.s32.sat %r0.b2, %r1, %r2, %r3;", {{{100, 100, 0x11223344}, 0x117f3344}});
  expect("vadd.u32.u32.u32 %r0.h1, %r1, %r2, %r3;", {{{0xffff, 2, 0x11223344}, 0x00013344}});
  expect("vshl.u32.u32.u32.clamp %r0, %r1, %r2;", {{{1, 31}, kMinus}, {{1, 32}, 0}, {{1, 100}, 0}});
  expect("vshl.u32.u32.u32.sat.wrap %r0, %r1, %r2;", {{{3, 31}, 0xffffffff}, {{3, 33}, 6}});
  expect("vshr.s32.s32.u32.clamp %r0, %r1, %r2;", {{{kMinus, 40}, 0xffffffff}, {{s32(-8), 1}, s32(-4)}});
  expect("vset.u32.s32.lt %r0, %r1, %r2;", {{{5, s32(-1)}, 0}, {{5, 6}, 1}});
  expect("vset.s32.s32.gt.add %r0, %r1.b1, %r2.b0, %r3;", {{{0x0100, 0xff, 41}, 42}});
}

TEST(Integer, FunnelShiftsTakeTwoWords) {
  expect("shf.l.wrap.b32 %r0, %r1, %r2, %r3;", {{{0x80000000, 1, 1}, 3}, {{0x80000000, 1, 33}, 3}});
  expect("shf.l.clamp.b32 %r0, %r1, %r2, %r3;",
         {{{0xabcdef01, 1, 32}, 0xabcdef01}, {{0xabcdef01, 1, 99}, 0xabcdef01}, {{0, 5, 0}, 5}});
  expect("shf.r.wrap.b32 %r0, %r1, %r2, %r3;", {{{2, 1, 1}, 0x80000001}, {{2, 1, 33}, 0x80000001}});
  expect("shf.r.clamp.b32 %r0, %r1, %r2, %r3;",
         {{{2, 0x12345678, 32}, 0x12345678}, {{2, 0x12345678, 77}, 0x12345678}});
}

TEST(Integer, LogicOfEveryWidth) {
  expect("and.b32 %r0, %r1, %r2;", {{{0xf0f0, 0xff00}, 0xf000}});
  expect("or.b64 %rd0, %rd1, %rd2;", {{{1ULL << 40, 1}, (1ULL << 40) | 1}});
  expect("xor.b16 %h0, %h1, %h2;", {{{0xffff, 0x0f0f}, 0xf0f0}});
  expect("not.b32 %r0, %r1;", {{{0}, 0xffffffff}});
  expect("not.b16 %h0, %h1;", {{{0x00ff}, 0xff00}});
  expect("cnot.b32 %r0, %r1;", {{{0}, 1}, {{17}, 0}});
  expect("and.pred %p0, %p1, %p2;", {{{1, 1}, 1}, {{1, 0}, 0}});
  expect("or.pred %p0, %p1, !%p2;", {{{0, 0}, 1}, {{0, 1}, 0}});
  expect("xor.pred %p0, %p1, %p2;", {{{1, 1}, 0}, {{1, 0}, 1}});
  expect("not.pred %p0, %p1;", {{{1}, 0}, {{0}, 1}});
  expect("mov.pred %p0, %p1;", {{{1}, 1}, {{0}, 0}});
  expect("lop3.b32 %r0, %r1, %r2, %r3, 0xe8;",
         {{{0xff00ff00, 0xffff0000, 0xf0f0f0f0}, 0xfff0f000}});  // majority
  expect("lop3.b32 %r0, %r1, %r2, %r3, 0x96;",
         {{{0xff00ff00, 0xffff0000, 0xf0f0f0f0}, 0xff00ff00U ^ 0xffff0000U ^ 0xf0f0f0f0U}});
  expect("lop3.b32 %r0, %r1, %r2, %r3, 0x40;", {{{0xff, 0x0f, 0x03}, 0x0c}});  // a & b & ~c
}

TEST(Integer, CountsAndPlacesOfBits) {
  expect("popc.b32 %r0, %r1;", {{{0xf0f00001}, 9}, {{0}, 0}});
  expect("popc.b64 %r0, %rd1;", {{{~0ULL}, 64}});
  expect("clz.b32 %r0, %r1;", {{{0}, 32}, {{1}, 31}, {{kMinus}, 0}});
  expect("clz.b64 %r0, %rd1;", {{{0}, 64}, {{1}, 63}});
  expect("bfind.u32 %r0, %r1;", {{{0}, 0xffffffff}, {{1}, 0}, {{kMinus}, 31}});
  expect("bfind.s32 %r0, %r1;",
         {{{s32(-1)}, 0xffffffff}, {{s32(-2)}, 0}, {{0x40000000}, 30}, {{kMinus}, 30}});
  expect("bfind.shiftamt.u32 %r0, %r1;", {{{0}, 0xffffffff}, {{1}, 31}, {{kMinus}, 0}});
  expect("bfind.u64 %r0, %rd1;", {{{1ULL << 40}, 40}});
  expect("bfind.shiftamt.s64 %r0, %rd1;", {{{1ULL << 40}, 23}});
  expect("brev.b32 %r0, %r1;", {{{1}, kMinus}, {{0x12345678}, 0x1e6a2c48}});
  expect("brev.b64 %rd0, %rd1;", {{{1}, 1ULL << 63}});
}

TEST(Integer, BitFields) {
  expect("bfe.u32 %r0, %r1, %r2, %r3;", {{{0x12345678, 8, 8}, 0x56},
                                         {{0x12345678, 28, 8}, 1},
                                         {{0xffffffff, 0, 0}, 0},
                                         {{0xffffffff, 40, 8}, 0}});
  expect("bfe.s32 %r0, %r1, %r2, %r3;", {{{0x0000f000, 12, 4}, 0xffffffff},
                                         {{0x00007000, 12, 4}, 7},
                                         {{kMinus, 28, 8}, 0xfffffff8},
                                         {{kMinus, 40, 8}, 0xffffffff},
                                         {{kMinus, 4, 0}, 0}});
  expect("bfe.u64 %rd0, %rd1, %r2, %r3;", {{{0x123456789abcdef0, 32, 16}, 0x5678}, {{~0ULL, 0, 64}, ~0ULL}});
  expect("bfe.s64 %rd0, %rd1, %r2, %r3;", {{{1ULL << 63, 63, 1}, ~0ULL}});
  expect("bfi.b32 %r0, %r1, %r2, %r3, %r4;", {{{0xab, 0xffffffff, 8, 8}, 0xffffabff},
                                              {{0xab, 0x12345678, 32, 8}, 0x12345678},
                                              {{0xff, 0, 28, 8}, 0xf0000000},
                                              {{0xff, 7, 3, 0}, 7}});
  expect("bfi.b64 %rd0, %rd1, %rd2, %r3, %r4;",
         {{{0xdead, 0xbeef, 32, 32}, 0x0000dead0000beef}, {{~0ULL, 0, 0, 64}, ~0ULL}});
  expect("bmsk.clamp.b32 %r0, %r1, %r2;", {{{4, 8}, 0xff0}, {{0, 32}, 0xffffffff}, {{32, 5}, 0}});
}

TEST(Integer, BytesArePermuted) {
  expect("prmt.b32 %r0, %r1, %r2, %r3;", {{{0x33221100, 0x77665544, 0x3210}, 0x33221100},
                                          {{0x33221100, 0x77665544, 0x7654}, 0x77665544},
                                          {{0x33221180, 0x77665544, 0x0008}, 0x808080ff}});
  expect("prmt.b32.f4e %r0, %r1, %r2, %r3;",
         {{{0x33221100, 0x77665544, 1}, 0x44332211}, {{0x33221100, 0x77665544, 3}, 0x66554433}});
  expect("prmt.b32.b4e %r0, %r1, %r2, %r3;",
         {{{0x33221100, 0x77665544, 0}, 0x55667700}, {{0x33221100, 0x77665544, 3}, 0x00112233}});
  expect("prmt.b32.rc8 %r0, %r1, %r2, %r3;", {{{0x33221100, 0, 2}, 0x22222222}});
  expect("prmt.b32.ecl %r0, %r1, %r2, %r3;",
         {{{0x33221100, 0, 1}, 0x33221111}, {{0x33221100, 0, 3}, 0x33333333}});
  expect("prmt.b32.ecr %r0, %r1, %r2, %r3;", {{{0x33221100, 0, 1}, 0x11111100}, {{0x33221100, 0, 0}, 0}});
  expect("prmt.b32.rc16 %r0, %r1, %r2, %r3;",
         {{{0x33221100, 0, 1}, 0x33223322}, {{0x33221100, 0, 2}, 0x11001100}});
}

TEST(Integer, DotProductsOfBytes) {
  expect("dp4a.u32.u32 %r0, %r1, %r2, %r3;",
         {{{0x04030201, 0x01010101, 100}, 110}, {{0xff000000, 0xff000000, 0}, 65025}});
  expect("dp4a.s32.s32 %r0, %r1, %r2, %r3;", {{{0xff000000, 0x02000000, 0}, s32(-2)}});
  expect("dp4a.s32.u32 %r0, %r1, %r2, %r3;", {{{0xff000000, 0xff000000, 0}, s32(-255)}});
  expect("dp2a.lo.s32.u32 %r0, %r1, %r2, %r3;", {{{0xffff0002, 0x00000304, 1}, s32(2 * 4 - 3 + 1)}});
  expect("dp2a.hi.u32.u32 %r0, %r1, %r2, %r3;", {{{0x00010002, 0x03040000, 0}, 2 * 4 + 3}});
}

TEST(Integer, Selections) {
  expect("selp.b32 %r0, %r1, %r2, %p3;", {{{10, 20, 1}, 10}, {{10, 20, 0}, 20}});
  expect("selp.b64 %rd0, %rd1, %rd2, !%p3;", {{{10, 20, 1}, 20}});
  expect("selp.b16 %h0, %h1, %h2, %p3;", {{{10, 20, 0}, 20}});
  expect("slct.u32.s32 %r0, %r1, %r2, %r3;", {{{10, 20, 0}, 10}, {{10, 20, s32(-1)}, 20}});
  expect("slct.b64.f32 %rd0, %rd1, %rd2, %r3;", {{{10, 20, bits(-0.0F)}, 10},
                                                 {{10, 20, bits(-1.0F)}, 20},
                                                 {{10, 20, kQuiet}, 20},
                                                 {{10, 20, 0x80000001}, 20}});
  expect("slct.ftz.u32.f32 %r0, %r1, %r2, %r3;", {{{10, 20, 0x80000001}, 10}});
}

// --- comparison
// -------------------------------------------------------------------------------------------------------

TEST(Comparison, SignedAndUnsignedDiffer) {
  expect("setp.lt.s32 %p0, %r1, %r2;", {{{s32(-1), 1}, 1}, {{1, 1}, 0}});
  expect("setp.lt.u32 %p0, %r1, %r2;", {{{s32(-1), 1}, 0}});
  expect("setp.lo.u32 %p0, %r1, %r2;", {{{1, s32(-1)}, 1}});
  expect("setp.hs.u32 %p0, %r1, %r2;", {{{1, 1}, 1}, {{0, 1}, 0}});
  expect("setp.ge.s64 %p0, %rd1, %rd2;", {{{s64(-1), 1}, 0}, {{5, 5}, 1}});
  expect("setp.gt.u64 %p0, %rd1, %rd2;", {{{s64(-1), 1}, 1}});
  expect("setp.le.s16 %p0, %h1, %h2;", {{{0xffff, 0}, 1}});
  expect("setp.le.u16 %p0, %h1, %h2;", {{{0xffff, 0}, 0}});
  expect("setp.ne.b32 %p0, %r1, %r2;", {{{1, 2}, 1}, {{2, 2}, 0}});
  expect("setp.eq.b64 %p0, %rd1, %rd2;", {{{1ULL << 40, 0}, 0}, {{7, 7}, 1}});
}

TEST(Comparison, OrderedIsFalseAndUnorderedTrueForNan) {
  const std::vector<uint64_t> nan{kQuiet, bits(1.0F)}, less{bits(1.0F), bits(2.0F)},
      equal{bits(0.0F), bits(-0.0F)};
  for (const char* ordered : {"eq", "ne", "lt", "le", "gt", "ge", "num"})
    expect(std::string("setp.") + ordered + ".f32 %p0, %r1, %r2;", {{nan, 0}});
  for (const char* unordered : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"})
    expect(std::string("setp.") + unordered + ".f32 %p0, %r1, %r2;", {{nan, 1}});
  expect("setp.lt.f32 %p0, %r1, %r2;", {{less, 1}, {equal, 0}});
  expect("setp.ltu.f32 %p0, %r1, %r2;", {{less, 1}, {equal, 0}});
  expect("setp.eq.f32 %p0, %r1, %r2;", {{less, 0}, {equal, 1}});
  expect("setp.ne.f32 %p0, %r1, %r2;", {{less, 1}, {equal, 0}});
  expect("setp.neu.f32 %p0, %r1, %r2;", {{less, 1}, {equal, 0}});
  expect("setp.ge.f32 %p0, %r1, %r2;", {{less, 0}, {equal, 1}});
  expect("setp.num.f32 %p0, %r1, %r2;", {{less, 1}});
  expect("setp.nan.f32 %p0, %r1, %r2;", {{less, 0}});
  expect("setp.gt.f64 %p0, %rd1, %rd2;", {{{bits(2.0), bits(1.0)}, 1}, {{0x7ff8000000000000, 0}, 0}});
  expect("setp.gtu.f64 %p0, %rd1, %rd2;", {{{0x7ff8000000000000, 0}, 1}});
  expect("setp.gt.ftz.f32 %p0, %r1, %r2;", {{{1, 0}, 0}});  // a subnormal
  expect("setp.gt.f32 %p0, %r1, %r2;", {{{1, 0}, 1}});
  expect("setp.lt.f16 %p0, %h1, %h2;", {{{0x3c00, 0x4000}, 1}, {{0x7e00, 0x4000}, 0}, {{0x8000, 0x0000}, 0}});
  expect("setp.eq.bf16 %p0, %h1, %h2;", {{{0x3f80, 0x3f80}, 1}, {{0x7fc0, 0x7fc0}, 0}});
}

TEST(Comparison, CombinesWithAThirdPredicateAndGivesTheOppositeToo) {
  expect("setp.lt.and.s32 %p0, %r1, %r2, %p3;", {{{1, 2, 1}, 1}, {{1, 2, 0}, 0}});
  expect("setp.lt.or.s32 %p0, %r1, %r2, !%p3;", {{{3, 2, 0}, 1}, {{3, 2, 1}, 0}});
  expect("setp.lt.xor.s32 %p0, %r1, %r2, %p3;", {{{1, 2, 1}, 0}, {{1, 2, 0}, 1}});
  expect("setp.lt.and.s32 %p5|%p0, %r1, %r2, %p3;", {{{3, 2, 1}, 1}, {{3, 2, 0}, 0}, {{1, 2, 1}, 0}});
  expect("setp.lt.s32 %p5|%p0, %r1, %r2;", {{{3, 2}, 1}, {{1, 2}, 0}});
}

TEST(Comparison, SetGivesAllOnesOrOne) {
  expect("set.lt.u32.s32 %r0, %r1, %r2;", {{{s32(-1), 0}, 0xffffffff}, {{0, 0}, 0}});
  expect("set.lt.f32.f32 %r0, %r1, %r2;",
         {{{bits(1.0F), bits(2.0F)}, bits(1.0F)}, {{bits(2.0F), bits(1.0F)}, 0}});
  expect("set.eq.and.s32.u32 %r0, %r1, %r2, %p3;", {{{4, 4, 1}, 0xffffffff}, {{4, 4, 0}, 0}});
  expect("set.gt.f16x2.f16x2 %r0, %r1, %r2;", {{{0x3c004000, 0x40003c00}, 0x00003c00}});
  expect("set.gt.u32.f16x2 %r0, %r1, %r2;", {{{0x3c004000, 0x40003c00}, 0x0000ffff}});
}

// --- floating point
// ---------------------------------------------------------------------------------------------------

TEST(Float, NearestIsExactlyRounded) {
  expect("add.f32 %r0, %r1, %r2;", {{{bits(0.1F), bits(0.2F)}, 0x3e99999a},
                                    {{bits(1.0F), bits(-1.0F)}, 0},
                                    {{kInf32, kNegInf32}, kNan32}});
  expect("sub.f32 %r0, %r1, %r2;", {{{bits(0.3F), bits(0.1F)}, bits(0.3F - 0.1F)}});
  expect(
      "mul.f32 %r0, %r1, %r2;",
      {{{bits(0.1F), bits(0.1F)}, bits(0.1F * 0.1F)}, {{0, kInf32}, kNan32}, {{kMinus, bits(2.0F)}, kMinus}});
  expect("fma.rn.f32 %r0, %r1, %r2, %r3;", {{{0x3f800001, 0x3f800001, 0xbf800002}, 0x28800000},
                                            {{bits(2.0F), bits(3.0F), bits(4.0F)}, bits(10.0F)}});
  expect("mad.rn.f32 %r0, %r1, %r2, %r3;", {{{bits(2.0F), bits(3.0F), bits(4.0F)}, bits(10.0F)}});
  expect("add.f64 %rd0, %rd1, %rd2;", {{{bits(0.1), bits(0.2)}, 0x3fd3333333333334}});
  expect("sub.f64 %rd0, %rd1, %rd2;", {{{bits(0.3), bits(0.1)}, bits(0.3 - 0.1)}});
  expect("mul.f64 %rd0, %rd1, %rd2;", {{{bits(0.1), bits(0.1)}, bits(0.1 * 0.1)}});
  expect("fma.rn.f64 %rd0, %rd1, %rd2, %rd3;",
         {{{0x3ff0000000000001, 0x3ff0000000000001, 0xbff0000000000002}, 0x3970000000000000}});
}

TEST(Float, ANanResultIsTheOneNanOfTheHardware) {
  expect("add.f32 %r0, %r1, %r2;", {{{kQuiet, bits(1.0F)}, kNan32}, {{0xffc12345, bits(1.0F)}, kNan32}});
  expect("mul.f32 %r0, %r1, %r2;", {{{0xffc12345, bits(1.0F)}, kNan32}});
  expect("div.rn.f32 %r0, %r1, %r2;", {{{0, 0}, kNan32}});
  expect("sqrt.rn.f32 %r0, %r1;", {{{bits(-1.0F)}, kNan32}});
  expect("min.f32 %r0, %r1, %r2;", {{{kQuiet, kQuiet}, kNan32}});
  expect("mov.f32 %r0, %r1;", {{{kQuiet}, kQuiet}});
}

TEST(Float, OtherRoundings) {
  const std::vector<uint64_t> third{bits(1.0F), bits(3.0F)}, minus{bits(-1.0F), bits(3.0F)};
  expect("div.rn.f32 %r0, %r1, %r2;", {{third, 0x3eaaaaab}});
  expect("div.rz.f32 %r0, %r1, %r2;", {{third, 0x3eaaaaaa}, {minus, 0xbeaaaaaa}});
  expect("div.rm.f32 %r0, %r1, %r2;", {{third, 0x3eaaaaaa}, {minus, 0xbeaaaaab}});
  expect("div.rp.f32 %r0, %r1, %r2;", {{third, 0x3eaaaaab}, {minus, 0xbeaaaaaa}});
  const std::vector<uint64_t> tiny{bits(1.0F), bits(0x1p-30F)};
  expect("add.rz.f32 %r0, %r1, %r2;", {{tiny, 0x3f800000}});
  expect("add.rp.f32 %r0, %r1, %r2;", {{tiny, 0x3f800001}});
  expect("sub.rm.f32 %r0, %r1, %r2;", {{tiny, 0x3f7fffff}});
  expect("mul.rp.f32 %r0, %r1, %r2;", {{{0x3f800001, 0x3f800001}, 0x3f800003}});
  expect("mul.rz.f32 %r0, %r1, %r2;", {{{0x3f800001, 0x3f800001}, 0x3f800002}});
  expect("fma.rp.f32 %r0, %r1, %r2, %r3;", {{{bits(1.0F), bits(1.0F), bits(0x1p-40F)}, 0x3f800001}});
  expect("fma.rz.f64 %rd0, %rd1, %rd2, %rd3;",
         {{{bits(1.0), bits(1.0), bits(-0x1p-80)}, 0x3fefffffffffffff}});
  expect("add.rp.f64 %rd0, %rd1, %rd2;", {{{bits(1.0), bits(0x1p-80)}, 0x3ff0000000000001}});
  expect("div.rz.f64 %rd0, %rd1, %rd2;", {{{bits(2.0), bits(3.0)}, 0x3fe5555555555555}});
  expect("rcp.rz.f32 %r0, %r1;", {{{bits(3.0F)}, 0x3eaaaaaa}});
  expect("sqrt.rp.f32 %r0, %r1;", {{{bits(2.0F)}, 0x3fb504f4}});
  expect("sqrt.rm.f64 %rd0, %rd1;", {{{bits(2.0)}, 0x3ff6a09e667f3bcc}});
  // And the mode does not stay.
  expect("add.rz.f32 %r5, %r1, %r2; add.rn.f32 %r0, %r3, %r4;",
         {{{bits(1.0F), bits(0x1p-30F), bits(1.0F), bits(0x1.8p-24F)}, 0x3f800001}});
}

TEST(Float, FlushesSubnormalsOnlyWhenAsked) {
  expect("add.f32 %r0, %r1, %r2;", {{{1, 1}, 2}});
  expect("add.ftz.f32 %r0, %r1, %r2;", {{{1, 1}, 0}, {{0x80000001, 0x80000001}, kMinus}});
  expect("mul.ftz.f32 %r0, %r1, %r2;",
         {{{bits(0x1p-100F), bits(0x1p-40F)}, 0}, {{bits(-0x1p-100F), bits(0x1p-40F)}, kMinus}});
  expect("mul.f32 %r0, %r1, %r2;", {{{bits(0x1p-100F), bits(0x1p-40F)}, bits(0x1p-140F)}});
  expect("fma.rn.ftz.f32 %r0, %r1, %r2, %r3;", {{{bits(1.0F), 1, 0}, 0}});
  expect("neg.ftz.f32 %r0, %r1;", {{{1}, kMinus}});
  expect("abs.ftz.f32 %r0, %r1;", {{{0x80000001}, 0}});
  expect("sqrt.rn.ftz.f32 %r0, %r1;", {{{0x80000001}, kMinus}});
}

TEST(Float, SaturatesToTheUnitInterval) {
  expect("add.sat.f32 %r0, %r1, %r2;", {{{bits(0.75F), bits(0.75F)}, bits(1.0F)},
                                        {{bits(-0.75F), bits(0.25F)}, 0},
                                        {{kQuiet, 0}, 0},
                                        {{bits(0.25F), bits(0.25F)}, bits(0.5F)}});
  expect("fma.rn.sat.f32 %r0, %r1, %r2, %r3;", {{{bits(2.0F), bits(2.0F), 0}, bits(1.0F)}});
  expect("mul.sat.f32 %r0, %r1, %r2;", {{{bits(-1.0F), bits(0.0F)}, 0}});
}

TEST(Float, MinimumAndMaximumPreferNumbers) {
  expect("min.f32 %r0, %r1, %r2;", {{{kQuiet, bits(1.0F)}, bits(1.0F)},
                                    {{bits(1.0F), kQuiet}, bits(1.0F)},
                                    {{kMinus, 0}, kMinus},
                                    {{0, kMinus}, kMinus},
                                    {{bits(-1.0F), bits(2.0F)}, bits(-1.0F)}});
  expect("max.f32 %r0, %r1, %r2;", {{{kQuiet, bits(1.0F)}, bits(1.0F)},
                                    {{kMinus, 0}, 0},
                                    {{0, kMinus}, 0},
                                    {{bits(-1.0F), bits(2.0F)}, bits(2.0F)}});
  expect("min.NaN.f32 %r0, %r1, %r2;",
         {{{kQuiet, bits(1.0F)}, kNan32}, {{bits(3.0F), bits(1.0F)}, bits(1.0F)}});
  expect("max.xorsign.abs.f32 %r0, %r1, %r2;",
         {{{bits(-3.0F), bits(2.0F)}, bits(-3.0F)}, {{bits(-3.0F), bits(-2.0F)}, bits(3.0F)}});
  expect("min.ftz.f32 %r0, %r1, %r2;", {{{1, 2}, 0}});
  expect("max.f64 %rd0, %rd1, %rd2;",
         {{{0x7ff8000000000000, bits(1.0)}, bits(1.0)}, {{bits(-0.0), bits(0.0)}, 0}});
  expect("min.f64 %rd0, %rd1, %rd2;", {{{bits(0.0), bits(-0.0)}, bits(-0.0)}});
}

// IEEE 754: a sum that cancels is +0, -0 only rounding down; products and quotients have the sign of both
// factors; what rounds to zero keeps its sign.
TEST(Float, ZerosHaveTheSignOfTheirOperation) {
  constexpr uint64_t minus64 = 0x8000000000000000;
  for (const char* mode : {"rn", "rz", "rp"})
    expect("add." + std::string(mode) + ".f32 %r0, %r1, %r2;",
           {{{kMinus, 0}, 0}, {{0, kMinus}, 0}, {{kMinus, kMinus}, kMinus}, {{bits(2.0F), bits(-2.0F)}, 0}});
  expect("add.rm.f32 %r0, %r1, %r2;",
         {{{kMinus, 0}, kMinus}, {{0, kMinus}, kMinus}, {{0, 0}, 0}, {{bits(2.0F), bits(-2.0F)}, kMinus}});
  expect("sub.f32 %r0, %r1, %r2;", {{{kMinus, 0}, kMinus}, {{0, kMinus}, 0}, {{kMinus, kMinus}, 0}});
  expect("sub.rm.f32 %r0, %r1, %r2;", {{{kMinus, kMinus}, kMinus}, {{0, kMinus}, 0}});
  expect("add.f64 %rd0, %rd1, %rd2;", {{{minus64, 0}, 0}, {{minus64, minus64}, minus64}});
  expect("add.rm.f64 %rd0, %rd1, %rd2;", {{{minus64, 0}, minus64}});
  expect("mul.f32 %r0, %r1, %r2;",
         {{{kMinus, bits(5.0F)}, kMinus}, {{kMinus, kMinus}, 0}, {{kMinus, 0}, kMinus}});
  expect("mul.f64 %rd0, %rd1, %rd2;", {{{minus64, bits(5.0)}, minus64}, {{minus64, minus64}, 0}});
  expect("fma.rn.f32 %r0, %r1, %r2, %r3;", {{{kMinus, bits(1.0F), 0}, 0},
                                            {{kMinus, bits(1.0F), kMinus}, kMinus},
                                            {{bits(2.0F), bits(3.0F), bits(-6.0F)}, 0}});
  expect("fma.rm.f32 %r0, %r1, %r2, %r3;",
         {{{kMinus, bits(1.0F), 0}, kMinus}, {{bits(2.0F), bits(3.0F), bits(-6.0F)}, kMinus}});
  expect("fma.rm.f64 %rd0, %rd1, %rd2, %rd3;", {{{minus64, bits(1.0), 0}, minus64}});
  expect("div.rn.f32 %r0, %r1, %r2;",
         {{{kMinus, bits(3.0F)}, kMinus}, {{0, bits(-3.0F)}, kMinus}, {{bits(3.0F), kNegInf32}, kMinus}});
  expect("rcp.rn.f32 %r0, %r1;", {{{kMinus}, kNegInf32}, {{kNegInf32}, kMinus}});
  expect("sqrt.rn.f32 %r0, %r1;", {{{kMinus}, kMinus}});
  expect("min.f16 %h0, %h1, %h2;", {{{0x8000, 0}, 0x8000}, {{0, 0x8000}, 0x8000}});
  expect("max.f16 %h0, %h1, %h2;", {{{0x8000, 0}, 0}, {{0, 0x8000}, 0}});
  expect("add.f16 %h0, %h1, %h2;", {{{0x8000, 0}, 0}, {{0x8000, 0x8000}, 0x8000}});
  expect("copysign.f32 %r0, %r1, %r2;", {{{kMinus, 0}, kMinus}, {{0, kMinus}, 0}});
  expect("selp.f32 %r0, %r1, %r2, 1;", {{{kMinus, 0}, kMinus}, {{0, kMinus}, 0}});
}

TEST(Float, ZerosKeepTheirSignInConversionsBetweenFloatsAndLoseItToIntegers) {
  for (const char* mode : {"rni", "rzi", "rpi"})
    expect("cvt." + std::string(mode) + ".f32.f32 %r0, %r1;",
           {{{kMinus}, kMinus}, {{0}, 0}, {{bits(-0.25F)}, kMinus}});
  expect("cvt.rmi.f32.f32 %r0, %r1;", {{{kMinus}, kMinus}, {{bits(0.25F)}, 0}});
  expect("cvt.rpi.f64.f64 %rd0, %rd1;", {{{bits(-0.25)}, 0x8000000000000000}});
  expect("cvt.f64.f32 %rd0, %r1;", {{{kMinus}, 0x8000000000000000}});
  expect("cvt.rn.f32.f64 %r0, %rd1;", {{{bits(-1e-300)}, kMinus}});
  expect("cvt.rn.f16.f32 %h0, %r1;", {{{kMinus}, 0x8000}});
  expect("cvt.rni.s32.f32 %r0, %r1;", {{{kMinus}, 0}, {{bits(-0.25F)}, 0}});
  expect("cvt.rn.f64.s32 %rd0, %r1;", {{{0}, 0}});
}

TEST(Float, SignsAndTests) {
  expect("neg.f32 %r0, %r1;", {{{bits(1.5F)}, bits(-1.5F)}, {{0}, kMinus}});
  expect("abs.f32 %r0, %r1;", {{{bits(-1.5F)}, bits(1.5F)}, {{kMinus}, 0}});
  expect("neg.f64 %rd0, %rd1;", {{{bits(1.5)}, bits(-1.5)}});
  expect("abs.f64 %rd0, %rd1;", {{{bits(-1.5)}, bits(1.5)}});
  expect("copysign.f32 %r0, %r1, %r2;",
         {{{bits(-1.0F), bits(2.0F)}, bits(-2.0F)}, {{bits(1.0F), bits(-2.0F)}, bits(2.0F)}});
  expect("copysign.f64 %rd0, %rd1, %rd2;", {{{bits(-1.0), bits(2.0)}, bits(-2.0)}});
  expect("testp.finite.f32 %p0, %r1;", {{{bits(1.0F)}, 1}, {{kInf32}, 0}, {{kQuiet}, 0}});
  expect("testp.infinite.f32 %p0, %r1;", {{{kNegInf32}, 1}, {{kQuiet}, 0}});
  expect("testp.number.f64 %p0, %rd1;", {{{bits(1.0)}, 1}, {{0x7ff8000000000000}, 0}});
  expect("testp.notanumber.f32 %p0, %r1;", {{{kQuiet}, 1}, {{0}, 0}});
  expect("testp.normal.f32 %p0, %r1;", {{{bits(1.0F)}, 1}, {{1}, 0}, {{0}, 0}});
  expect("testp.subnormal.f32 %p0, %r1;", {{{1}, 1}, {{0}, 0}});
}

TEST(Float, RootsAndReciprocals) {
  expect("sqrt.rn.f32 %r0, %r1;",
         {{{bits(2.0F)}, bits(std::sqrt(2.0F))}, {{kMinus}, kMinus}, {{kInf32}, kInf32}});
  expect("sqrt.rn.f64 %rd0, %rd1;", {{{bits(2.0)}, bits(std::sqrt(2.0))}});
  expect("rcp.rn.f32 %r0, %r1;", {{{bits(3.0F)}, 0x3eaaaaab}, {{0}, kInf32}, {{kMinus}, kNegInf32}});
  expect("rcp.rn.f64 %rd0, %rd1;", {{{bits(3.0)}, bits(1.0 / 3.0)}});
  expect("div.rn.f64 %rd0, %rd1, %rd2;",
         {{{bits(1.0), bits(3.0)}, bits(1.0 / 3.0)}, {{bits(1.0), 0}, bits(HUGE_VAL)}});
  expect_near("div.full.f32 %r0, %r1, %r2;", {{{7.0F, 3.0F}, 7.0 / 3.0}, {{1.0F, 1e30F}, 1e-30}}, 0x1p-21);
  expect_near("div.approx.f32 %r0, %r1, %r2;", {{{7.0F, 3.0F}, 7.0 / 3.0}}, 0x1p-21);
  expect_near("rcp.approx.ftz.f32 %r0, %r1;", {{{3.0F}, 1.0 / 3.0}, {{-1e10F}, -1e-10}}, 0x1p-22);
  expect_near("rsqrt.approx.f32 %r0, %r1;", {{{2.0F}, 1 / std::sqrt(2.0)}, {{1e-20F}, 1e10}}, 0x1p-22);
  expect_near("sqrt.approx.f32 %r0, %r1;", {{{2.0F}, std::sqrt(2.0)}}, 0x1p-22);
  expect("rsqrt.approx.f32 %r0, %r1;",
         {{{0}, kInf32}, {{kMinus}, kNegInf32}, {{kInf32}, 0}, {{bits(-1.0F)}, kNan32}});
  expect("rsqrt.approx.f64 %rd0, %rd1;", {{{bits(4.0)}, bits(0.5)}});
}

TEST(Float, Transcendentals) {
  expect_near("sin.approx.f32 %r0, %r1;", {{{1.0F}, std::sin(1.0)}, {{-2.5F}, std::sin(-2.5)}}, 1e-6);
  expect_near("cos.approx.f32 %r0, %r1;", {{{1.0F}, std::cos(1.0)}, {{0.0F}, 1.0}}, 1e-6);
  expect_near("ex2.approx.f32 %r0, %r1;", {{{3.5F}, std::exp2(3.5)}, {{-20.25F}, std::exp2(-20.25)}},
              0x1p-22);
  expect_near("lg2.approx.f32 %r0, %r1;", {{{10.0F}, std::log2(10.0)}, {{0.25F}, -2.0}}, 0x1p-22);
  expect_near("tanh.approx.f32 %r0, %r1;", {{{0.5F}, std::tanh(0.5)}}, 0x1p-11);
  expect("ex2.approx.f32 %r0, %r1;", {{{kNegInf32}, 0}, {{kInf32}, kInf32}, {{0}, bits(1.0F)}});
  expect("lg2.approx.f32 %r0, %r1;",
         {{{0}, kNegInf32}, {{kInf32}, kInf32}, {{bits(-1.0F)}, kNan32}, {{bits(8.0F)}, bits(3.0F)}});
  expect("ex2.approx.ftz.f32 %r0, %r1;", {{{bits(-130.0F)}, 0}});
  expect("sin.approx.f32 %r0, %r1;", {{{kMinus}, kMinus}, {{kInf32}, kNan32}});
}

TEST(Half, ArithmeticRoundsOnce) {
  expect("add.f16 %h0, %h1, %h2;", {{{0x3c00, 0x3c00}, 0x4000},
                                    {{0x3c00, 0x1000}, 0x3c00},
                                    {{0x3c01, 0x1000}, 0x3c02},
                                    {{0x7bff, 0x7bff}, 0x7c00},
                                    {{0x7c00, 0xfc00}, 0x7fff}});
  expect("sub.f16 %h0, %h1, %h2;", {{{0x3c00, 0x4000}, 0xbc00}});
  expect("mul.f16 %h0, %h1, %h2;",
         {{{0x3e00, 0x3e00}, 0x4080}, {{0x0001, 0x3800}, 0}, {{0x0003, 0x3800}, 2}});
  expect("fma.rn.f16 %h0, %h1, %h2, %h3;",
         {{{0x3c01, 0x3c01, 0xbc02}, 0x0010}, {{0x4000, 0x4200, 0x3c00}, 0x4700}});
  expect("fma.rn.relu.f16 %h0, %h1, %h2, %h3;", {{{0x4000, 0xc200, 0x3c00}, 0}});
  expect("fma.rn.f16x2 %r0, %r1, %r2, %r3;", {{{0x40003c00, 0x42003c00, 0x3c003c00}, 0x47004000}});
  expect("add.f16x2 %r0, %r1, %r2;", {{{0x3c004000, 0x3c003c00}, 0x40004200}});
  expect("add.sat.f16 %h0, %h1, %h2;", {{{0x3c00, 0x3c00}, 0x3c00}});
  expect("neg.f16 %h0, %h1;", {{{0x3c00}, 0xbc00}});
  expect("abs.f16x2 %r0, %r1;", {{{0xbc003c00}, 0x3c003c00}});
  expect("min.f16 %h0, %h1, %h2;", {{{0x7e00, 0x3c00}, 0x3c00}, {{0x8000, 0}, 0x8000}});
  expect("max.NaN.f16 %h0, %h1, %h2;", {{{0x7e00, 0x3c00}, 0x7fff}});
  expect("add.rn.bf16 %h0, %h1, %h2;", {{{0x3f80, 0x3f80}, 0x4000}});
  expect("fma.rn.bf16 %h0, %h1, %h2, %h3;", {{{0x4000, 0x4040, 0x3f80}, 0x40e0}});
  expect("fma.rn.bf16x2 %r0, %r1, %r2, %r3;", {{{0x40003f80, 0x40403f80, 0x3f803f80}, 0x40e04000}});
  expect("max.bf16x2 %r0, %r1, %r2;", {{{0x3f804000, 0x40003f80}, 0x40004000}});
  // Half a step of bf16 plus almost nothing: up, where rounding twice would go to even.
  expect("fma.rn.bf16 %h0, %h1, %h2, %h3;",
         {{{0x3f81, 0x3fc0, 0x0080}, 0x3fc2}, {{0x3f81, 0x3fc0, 0x8080}, 0x3fc1}});
}

TEST(Move, VectorsAndScalars) {
  expect("mov.b32 %r0, {%h1, %h2};", {{{0x1234, 0x5678}, 0x56781234}});
  expect("mov.b64 %rd0, {%r1, %r2};", {{{0x11111111, 0x22222222}, 0x2222222211111111}});
  expect("mov.b64 %rd0, {%h1, %h2, %h3, %h4};", {{{1, 2, 3, 4}, 0x0004000300020001}});
  expect("mov.b64 {%r5, %r0}, %rd1;", {{{0x2222222211111111}, 0x22222222}});
  expect("mov.b64 {%r0, _}, %rd1;", {{{0x2222222211111111}, 0x11111111}});
  expect("mov.b32 {%h5, %h0}, %r1;", {{{0x56781234}, 0x5678}});
  expect("mov.u32 %r0, 0xffffffff;", {{{0}, 0xffffffff}});
  expect("mov.s64 %rd0, -2;", {{{0}, s64(-2)}});
  expect("mov.f32 %r0, 0f3F800000;", {{{0}, bits(1.0F)}});
  expect("mov.f64 %rd0, 0d3FF0000000000000;", {{{0}, bits(1.0)}});
  expect("mov.f32 %r0, 1.5;", {{{0}, bits(1.5F)}});
  expect("mov.u32 %r0, WARP_SZ;", {{{0}, 32}});
}

TEST(Guard, OnlyGuardedLanesWrite) {
  expect("mov.u32 %r0, 7; @%p1 mov.u32 %r0, 9;", {{{1}, 9}, {{0}, 7}});
  expect("mov.u32 %r0, 7; @!%p1 mov.u32 %r0, 9;", {{{1}, 7}, {{0}, 9}});
  expect("mov.u64 %rd0, 7; @%p1 add.u64 %rd0, %rd0, 1;", {{{1}, 8}, {{0}, 7}});
  expect("mov.u16 %h0, 7; @%p1 mov.b16 %h0, %h1;", {{{5}, 5}, {{0}, 7}});
  expect("setp.ne.u32 %p0, %r2, 0; @%p1 setp.eq.u32 %p0, %r2, 0;",
         {{{1, 0}, 1}, {{0, 0}, 0}, {{1, 3}, 0}, {{0, 3}, 1}});
  expect("@%p1 add.rz.f32 %r0, %r2, %r2;", {{{1, bits(1.0F)}, bits(2.0F)}, {{0, bits(1.0F)}, 0}});
  expect("mov.u32 %r0, 3; @%p1 ex2.approx.f32 %r0, %r2;", {{{1, 0}, bits(1.0F)}, {{0, 0}, 3}});
}

}  // namespace
}  // namespace gpufence::sim::ptx
