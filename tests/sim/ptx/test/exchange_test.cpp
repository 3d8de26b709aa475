// Exchange between the lanes of a warp.
#include "grid.h"

namespace gpufence::sim::ptx {
namespace {

std::vector<uint32_t> run(const std::string& body, uint32_t threads = 32) {
  std::vector<uint32_t> out(threads, 0xcccccccc);
  Grid grid(
      ".visible .entry k(.param .u64 p) {\n.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<6>;\n"
      "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2; "
      "add.u32 %r2, %r1, 100;\n" +
      body + "\nst.global.u32 [%rd2], %r0; ret; }");
  grid.array(out).ok("k", 1, threads);
  return out;
}

TEST(Shuffle, UpDownAcrossAndByIndexWithinSegments) {
  const auto up = run("shfl.sync.up.b32 %r0|%p1, %r2, 1, 0, -1; @!%p1 add.u32 %r0, %r0, 1000;");
  EXPECT_EQ(up[0], 1100U);
  EXPECT_EQ(up[5], 104U);
  const auto down =
      run("shfl.sync.down.b32 %r0|%p1, %r2, 2, 0x1807, -1; @!%p1 add.u32 %r0, %r0, 1000;");  // segments of 8
  EXPECT_EQ(down[5], 107U);
  EXPECT_EQ(down[6], 1106U);
  EXPECT_EQ(down[8], 110U);
  const auto across = run("shfl.sync.bfly.b32 %r0, %r2, 16, 31, -1;");
  EXPECT_EQ(across[3], 119U);
  EXPECT_EQ(across[20], 104U);
  const auto index =
      run("shfl.sync.idx.b32 %r0|%p1, %r2, 3, 0x101f, -1; @!%p1 mov.u32 %r0, 0;");  // segments of 16
  EXPECT_EQ(index[10], 103U);
  EXPECT_EQ(index[20], 119U);
  const auto own = run("shfl.sync.idx.b32 %r0, %r2, %r1, 31, -1;");
  EXPECT_EQ(own[17], 117U);
}

TEST(Shuffle, LanesThatComeLaterAreWaitedFor) {
  // Half of the warp takes a longer way to the same instruction.
  const auto out =
      run("mov.u32 %r3, 5; setp.lt.u32 %p1, %r1, 16; @%p1 bra.uni S; mov.u32 %r4, 0; L: add.u32 %r4, %r4, 1; "
          "setp.lt.u32 %p2, %r4, 50; @%p2 bra L; S: shfl.sync.bfly.b32 %r0, %r2, 16, 31, -1;");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 100 + (i ^ 16));
}

// As in what nvcc -G makes of __shfl_sync: functions, called by lanes that parted before.
TEST(Exchange, LanesMeetInAFunctionThatTheyCalledFromDifferentPlaces) {
  std::vector<uint32_t> out(32, 0xcccccccc);
  Grid grid(R"(
.func (.param .b32 result) meet(.param .b32 value) {
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<2>;
  ld.param.u32 %r1, [value];
  shfl.sync.bfly.b32 %r2|%p2, %r1, 1, 31, -1;
  setp.lt.u32 %p1, %r1, 105;
  vote.sync.ballot.b32 %r3, %p1, -1;
  vote.sync.any.pred %p3, %p1, -1;
  popc.b32 %r3, %r3;
  and.b32 %r4, %r1, 2;
  cvt.u64.u32 %rd1, %r4;
  match.any.sync.b64 %r5, %rd1, -1;
  popc.b32 %r5, %r5;
  redux.sync.max.u32 %r6, %r1, -1;
  mad.lo.u32 %r7, %r3, 1000, %r2;
  mad.lo.u32 %r7, %r5, 10000, %r7;
  mad.lo.u32 %r7, %r6, 1000000, %r7;
  @!%p3 mov.u32 %r7, 0;
  @!%p2 mov.u32 %r7, 1;
  st.param.b32 [result], %r7;
  ret;
}
.visible .entry k(.param .u64 p) {
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  add.u32 %r2, %r1, 100;
  and.b32 %r3, %r1, 1;
  setp.eq.u32 %p1, %r3, 0;
  @%p1 bra EVEN;
  { .param .b32 v; .param .b32 d; st.param.b32 [v], %r2; call.uni (d), meet, (v); ld.param.b32 %r0, [d]; }
  bra.uni END;
EVEN:
  { .param .b32 v; .param .b32 d; st.param.b32 [v], %r2; call.uni (d), meet, (v); ld.param.b32 %r0, [d]; }
END:
  st.global.u32 [%rd2], %r0;
  ret;
})");
  grid.array(out).ok("k", 1, 32);
  // The largest value, how many have the same second bit, how many are below 105, the neighbour's value.
  EXPECT_EQ(out[0], 131165101U);
  EXPECT_EQ(out[1], 131165100U);
  EXPECT_EQ(out[30], 131165131U);
  EXPECT_EQ(out[31], 131165130U);
}

TEST(Shuffle, OnlyMembersTakePart) {
  const auto out = run(
      "mov.u32 %r0, 7; setp.lt.u32 %p1, %r1, 8; @!%p1 bra E; shfl.sync.down.b32 %r0, %r2, 1, 31, 0xff; E:");
  EXPECT_EQ(out[0], 101U);
  EXPECT_EQ(out[8], 7U);
}

TEST(Vote, AllAnyUniformBallot) {
  EXPECT_EQ(run("setp.lt.u32 %p1, %r1, 5; vote.sync.ballot.b32 %r0, %p1, -1;")[9], 0x1fU);
  EXPECT_EQ(run("setp.lt.u32 %p1, %r1, 5; vote.sync.ballot.b32 %r0, !%p1, 0xff; ")[9], 0xe0U);
  const char* three =
      "vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, %p1, -1; vote.sync.uni.pred %p4, %p1, -1; "
      "selp.u32 %r0, 1, 0, %p2; @%p3 add.u32 %r0, %r0, 2; @%p4 add.u32 %r0, %r0, 4;";
  EXPECT_EQ(run(std::string("setp.lt.u32 %p1, %r1, 5; ") + three)[0], 2U);
  EXPECT_EQ(run(std::string("setp.lt.u32 %p1, %r1, 32; ") + three)[0], 7U);
  EXPECT_EQ(run(std::string("setp.gt.u32 %p1, %r1, 32; ") + three)[0], 4U);
  EXPECT_EQ(run("setp.lt.u32 %p1, %r1, 5; vote.sync.all.pred %p2, %p1, 0x1f; selp.u32 %r0, 1, 0, %p2;", 8)[0],
            1U)
      << "lanes that the warp does not have";
}

TEST(Match, AnyAndAll) {
  const auto any = run("and.b32 %r3, %r1, 3; match.any.sync.b32 %r0, %r3, -1;");
  EXPECT_EQ(any[6], 0x44444444U);
  const auto all = run("and.b32 %r3, %r1, 0; match.all.sync.b32 %r0|%p1, %r3, -1; @%p1 sub.u32 %r0, %r0, 1;");
  EXPECT_EQ(all[6], 0xfffffffeU);
  const auto none = run("match.all.sync.b32 %r0|%p1, %r1, -1; @!%p1 add.u32 %r0, %r0, 5;");
  EXPECT_EQ(none[6], 5U);
  const auto wide =
      run("shr.u32 %r3, %r1, 4; cvt.u64.u32 %rd3, %r3; shl.b64 %rd3, %rd3, 40; match.any.sync.b64 %r0, %rd3, "
          "-1;");
  EXPECT_EQ(wide[20], 0xffff0000U);
}

TEST(Redux, SumsAndExtremes) {
  EXPECT_EQ(run("redux.sync.add.u32 %r0, %r1, -1;")[3], 496U);
  EXPECT_EQ(run("sub.u32 %r3, %r1, 5; redux.sync.min.s32 %r0, %r3, -1;")[3], static_cast<uint32_t>(-5));
  EXPECT_EQ(run("sub.u32 %r3, %r1, 5; redux.sync.max.u32 %r0, %r3, -1;")[3], 0xffffffffU);
  EXPECT_EQ(run("redux.sync.or.b32 %r0, %r1, 0xff;")[3], 7U);
}

// Three sets of lanes, each with its own mask, come to one instruction together: those of tid % 3.
constexpr const char* kThirds = "rem.u32 %r3, %r1, 3; mov.u32 %r4, 0x49249249; shl.b32 %r5, %r4, %r3; ";

TEST(Groups, EachVotesForItself) {
  const auto ballot =
      run(std::string(kThirds) + "setp.lt.u32 %p2, %r1, 7; vote.sync.ballot.b32 %r0, %p2, %r5;");
  EXPECT_EQ(ballot[30], 0x49U);
  EXPECT_EQ(ballot[31], 0x12U);
  EXPECT_EQ(ballot[29], 0x24U);
  const auto all = run(std::string(kThirds) +
                       "setp.ne.u32 %p2, %r3, 1; vote.sync.all.pred %p3, %p2, %r5; selp.u32 %r0, 1, 0, %p3;");
  EXPECT_EQ(all[0], 1U);
  EXPECT_EQ(all[1], 0U);
  EXPECT_EQ(all[2], 1U);
}

TEST(Groups, EachReducesItsOwn) {
  const auto sum = run(std::string(kThirds) + "redux.sync.add.u32 %r0, 1, %r5;");
  EXPECT_EQ(sum[0], 11U);
  EXPECT_EQ(sum[31], 11U);
  EXPECT_EQ(sum[29], 10U);
  const auto top = run(std::string(kThirds) + "mov.u32 %r0, %r1; redux.sync.max.u32 %r0, %r0, %r5;");
  EXPECT_EQ(top[0], 30U);
  EXPECT_EQ(top[1], 31U);
  EXPECT_EQ(top[2], 29U);
}

TEST(Groups, EachMatchesAndElectsWithinItself) {
  const auto any = run(std::string(kThirds) + "shr.u32 %r7, %r1, 4; match.any.sync.b32 %r0, %r7, %r5;");
  EXPECT_EQ(any[0], 0x9249U);
  EXPECT_EQ(any[16], 0x92490000U & 0x92492492U);
  const auto all = run(std::string(kThirds) + "match.all.sync.b32 %r0|%p2, %r3, %r5;");
  EXPECT_EQ(all[2], 0x24924924U);
  const auto leader = run(std::string(kThirds) + "elect.sync %r0|%p2, %r5; @%p2 add.u32 %r0, %r0, 100;");
  EXPECT_EQ(leader[2], 102U);
  EXPECT_EQ(leader[5], 2U);
  EXPECT_EQ(leader[31], 1U);
}

TEST(Groups, WaitForTheirOwnOnly) {
  // The first half waits for the second, which exchanges among itself three times before it comes.
  const auto out =
      run("setp.lt.u32 %p1, %r1, 16; mov.u32 %r3, 0xffff0000; mov.u32 %r4, 0; @%p1 mov.u32 %r3, -1; @%p1 "
          "mov.u32 %r4, 3; "
          "mov.u32 %r0, 0; L: mov.u32 %r5, 0; redux.sync.add.u32 %r5, 1, %r3; add.u32 %r0, %r0, %r5; add.u32 "
          "%r4, %r4, "
          "1; "
          "setp.eq.u32 %p2, %r4, 3; @%p2 mov.u32 %r3, -1; setp.lt.u32 %p2, %r4, 4; @%p2 bra L;");
  EXPECT_EQ(out[3], 32U);
  EXPECT_EQ(out[20], 3 * 16 + 32U);
}

TEST(Warp, SpecialRegistersOfLanes) {
  EXPECT_EQ(run("mov.u32 %r0, %laneid;", 64)[37], 5U);
  EXPECT_EQ(run("mov.u32 %r0, %warpid;", 64)[37], 1U);
  EXPECT_EQ(run("mov.u32 %r0, %lanemask_lt;")[5], 0x1fU);
  EXPECT_EQ(run("mov.u32 %r0, %lanemask_le;")[5], 0x3fU);
  EXPECT_EQ(run("mov.u32 %r0, %lanemask_eq;")[5], 0x20U);
  EXPECT_EQ(run("mov.u32 %r0, %lanemask_gt;")[5], 0xffffffc0U);
  EXPECT_EQ(run("mov.u32 %r0, %lanemask_ge;")[5], 0xffffffe0U);
  EXPECT_EQ(run("add.u32 %r0, %laneid, 1;")[5], 6U) << "not only in mov";
}

TEST(Warp, SyncAndActivemask) {
  const auto out =
      run("setp.lt.u32 %p1, %r1, 4; mov.u32 %r0, 0; @!%p1 bra E; activemask.b32 %r0; E: bar.warp.sync -1;");
  EXPECT_EQ(out[2], 0xfU);
  EXPECT_EQ(out[9], 0U);
  EXPECT_EQ(run("elect.sync %r0|%p1, 0xf0;", 8)[4], 4U);
}

}  // namespace
}  // namespace gpufence::sim::ptx
