// Branches, calls, barriers: lanes that part and meet, frames, and what never ends.
#include "grid.h"

#include <thread>

namespace gpufence::sim::ptx {
namespace {

const char* const kHead =
    ".visible .entry k(.param .u64 p) {\n.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<12>;\n"
    "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ntid.x; mad.lo.u32 "
    "%r12, %r10, %r11, %r1; mul.wide.u32 %rd2, %r12, 4; add.u64 %rd2, %rd1, %rd2;\n";
std::string kernel(const std::string& body, const std::string& before = "") {
  return before + "\n" + kHead + body + "\n}\n";
}

std::vector<uint32_t> run(const std::string& text, uint32_t blocks, uint32_t threads) {
  std::vector<uint32_t> out(size_t{blocks} * threads + 32, 0xcccccccc);
  Grid grid(text);
  grid.array(out).ok("k", blocks, threads);
  return out;
}

TEST(Flow, BothSidesOfABranchMeetBehindIt) {
  // The vote behind the branch sees all lanes.
  const auto out =
      run(kernel("setp.lt.u32 %p1, %r1, 7; @%p1 bra LESS; mov.u32 %r2, 200; bra JOIN; LESS: mov.u32 %r2, "
                 "100; JOIN: activemask.b32 %r3; add.u32 %r2, %r2, %r3; st.global.u32 [%rd2], %r2; ret;"),
          1, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], (i < 7 ? 100 : 200) + 0xffffffffU);
}

TEST(Flow, ALoopsLanesMeetAtItsEnd) {
  const auto out = run(kernel("mov.u32 %r2, 0; LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 "
                              "bra LOOP; activemask.b32 %r3; popc.b32 %r3, %r3; shl.b32 %r3, %r3, 8; add.u32 "
                              "%r2, %r2, %r3; st.global.u32 [%rd2], %r2; ret;"),
                       1, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], (i == 0 ? 1 : i) + (32 << 8));
}

TEST(Flow, LanesLeaveBeforeTheOthers) {
  const auto out =
      run(kernel("st.global.u32 [%rd2], 1; and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0; @%p1 ret; "
                 "setp.eq.u32 %p2, %r2, 1; @%p2 exit; activemask.b32 %r3; st.global.u32 [%rd2], %r3; ret;"),
          1, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i % 4 < 2 ? 1U : 0xccccccccU);
}

TEST(Flow, TablesOfBranches) {
  const auto out =
      run(kernel("and.b32 %r2, %r1, 3; TS: .branchtargets L0, L1, L2, L1; brx.idx %r2, TS; L0: mov.u32 %r3, "
                 "10; bra.uni J; L1: mov.u32 %r3, 11; bra.uni J; L2: mov.u32 %r3, 12;"
                 "J: activemask.b32 %r4; popc.b32 %r4, %r4; mad.lo.u32 %r3, %r4, 100, %r3; st.global.u32 "
                 "[%rd2], %r3; ret;"),
          1, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 3200 + (i % 4 == 0 ? 10 : i % 4 == 2 ? 12 : 11));
  std::vector<uint32_t> data(64);
  Grid grid(kernel("TS: .branchtargets L0; brx.idx %r1, TS; L0: ret;"));
  EXPECT_EQ(grid.array(data).run("k", 1, 2).kind, Fault::Kind::illegal_instruction);
}

TEST(Flow, FunctionsHaveParametersResultsAndFramesOfTheirOwn) {
  const std::string add =
      ".func (.param .b32 r) add(.param .b32 a, .param .b64 b) { .reg .b32 %r<4>; .reg .b64 %rd<4>; .local "
      ".align 8 .b8 l[8];\n"
      "ld.param.u32 %r1, [a]; ld.param.u64 %rd1, [b]; st.local.u64 [l], %rd1; cvt.u32.u64 %r2, %rd1; add.u32 "
      "%r1, %r1, %r2; ld.local.u32 %r3, [l]; add.u32 %r1, %r1, %r3; st.param.b32 [r], %r1; ret; }\n";
  const std::string call =
      "{ .param .b32 x; .param .b64 y; .param .b32 z; st.param.b32 [x], %r1; st.param.b64 [y], %rd3; call "
      "(z), add, (x, y); ld.param.b32 %r5, [z]; }";
  const auto out = run(
      kernel(".local .align 8 .b8 mine[8]; st.local.u32 [mine], 5; mov.u64 %rd3, 1000; mov.u32 %r5, 1; "
             "setp.gt.u32 %p1, %r1, 9; @%p1 bra SKIP; " +
                 call +
                 " SKIP: ld.local.u32 %r6, [mine]; add.u32 %r5, %r5, %r6; st.global.u32 [%rd2], %r5; ret;",
             add),
      1, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], (i > 9 ? 1 : i + 2000) + 5);
  // A guard on the call itself.
  const auto guarded =
      run(kernel(".param .b32 x; .param .b64 y; .param .b32 z; mov.u64 %rd3, 1000; st.param.b32 [x], %r1; "
                 "st.param.b64 [y], %rd3; st.param.b32 [z], 3; setp.gt.u32 %p1, %r1, 9; @!%p1 call (z), add, "
                 "(x, y); ld.param.b32 %r5, [z]; st.global.u32 [%rd2], %r5; ret;",
                 add),
          1, 32);
  EXPECT_EQ(guarded[9], 2009U);
}

TEST(Flow, ReturnsInsideDivergedCodeOfAFunction) {
  const std::string f =
      ".func (.param .b32 r) f(.param .b32 a) { .reg .pred %p<4>; .reg .b32 %r<4>; ld.param.u32 %r1, [a]; "
      "setp.lt.u32 %p1, %r1, 5; @!%p1 bra BIG; st.param.b32 [r], 1; ret; BIG: setp.lt.u32 %p2, %r1, 20; @%p2 "
      "bra MID; st.param.b32 [r], 3; ret; MID: st.param.b32 [r], 2; ret; }\n";
  const auto out = run(kernel("{ .param .b32 x; .param .b32 z; st.param.b32 [x], %r1; call.uni (z), f, (x); "
                              "ld.param.b32 %r5, [z]; } activemask.b32 %r6; popc.b32 %r6, %r6; mad.lo.u32 "
                              "%r5, %r6, 10, %r5; st.global.u32 [%rd2], %r5; ret;",
                              f),
                       1, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 320U + (i < 5 ? 1 : i < 20 ? 2 : 3));
}

TEST(Flow, CallsThroughPointersThatDifferByLane) {
  const std::string functions =
      ".func (.param .b32 r) one(.param .b32 a) { .reg .b32 %r<2>; ld.param.u32 %r1, [a]; add.u32 %r1, %r1, "
      "1; st.param.b32 [r], %r1; ret; }\n"
      ".func (.param .b32 r) two(.param .b32 a) { .reg .b32 %r<2>; ld.param.u32 %r1, [a]; mul.lo.u32 %r1, "
      "%r1, 2; st.param.b32 [r], %r1; ret; }\n"
      ".global .u64 table[2] = {one, two};\n";
  const std::string body =
      "and.b32 %r2, %r1, 1; mul.wide.u32 %rd3, %r2, 8; mov.u64 %rd4, table; add.u64 %rd4, %rd4, %rd3; "
      "ld.global.u64 %rd5, [%rd4];"
      "{ .param .b32 x; .param .b32 z; st.param.b32 [x], %r1; P: .callprototype (.param .b32 _) _ (.param "
      ".b32 _); call (z), %rd5, (x), P; ld.param.b32 %r5, [z]; } activemask.b32 %r6; popc.b32 %r6, %r6; "
      "mad.lo.u32 %r5, %r6, 100, %r5; st.global.u32 [%rd2], %r5; ret;";
  const auto out = run(kernel(body, functions), 1, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 3200 + (i % 2 == 0 ? i + 1 : 2 * i));
  std::vector<uint32_t> data(64);
  for (const char* wrong :
       {"mov.u64 %rd5, 0;", "mov.u64 %rd5, %rd1;", "add.u64 %rd5, %rd5, 8;", "add.u64 %rd5, %rd5, 16000;"}) {
    Grid grid(kernel("mov.u64 %rd5, one; " + std::string(wrong) +
                         "{ .param .b32 x; .param .b32 z; P: .callprototype (.param .b32 _) _ (.param .b32 "
                         "_); call (z), %rd5, (x), P; } ret;",
                     functions));
    EXPECT_EQ(grid.array(data).run("k", 1, 32).kind, Fault::Kind::invalid_pc) << wrong;
  }
}

TEST(Flow, EndlessRecursionOverflowsTheStack) {
  std::vector<uint32_t> data(64);
  Grid grid(kernel("call f; ret;", ".func f() { .local .align 8 .b8 l[400]; call f; ret; }\n"));
  EXPECT_EQ(grid.array(data).run("k", 1, 32).kind, Fault::Kind::stack_overflow);
  Grid small(kernel("call f; ret;", ".func f() { call f; ret; }\n"));
  EXPECT_EQ(small.array(data).run("k", 1, 32).kind, Fault::Kind::stack_overflow);
}

TEST(Flow, BarriersHoldAWholeBlockOrACount) {
  // Warp 1 writes, warp 0 reads behind the barrier; warp 2 does not come to it.
  const auto out = run(
      kernel("shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 2; @%p1 bra END; setp.eq.u32 %p2, %r2, 1; shl.b32 "
             "%r3, %r1, 2; mov.u32 %r4, s; add.u32 %r3, %r3, %r4; @%p2 st.shared.u32 [%r3], %r1; bar.sync 1, "
             "64; @%p2 bra END; ld.shared.u32 %r5, [%r3+128]; st.global.u32 [%rd2], %r5; END: ret;",
             ".shared .align 4 .b8 s[512];"),
      1, 96);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i + 32);
  // bar.arrive does not wait; whoever waits comes after it.
  const auto producer = run(
      kernel("shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT; st.shared.u32 [s], 9; bar.arrive "
             "3, 64; ret; WAIT: bar.sync 3, 64; ld.shared.u32 %r5, [s]; st.global.u32 [%rd2], %r5; ret;",
             ".shared .align 4 .b8 s[4];"),
      1, 64);
  EXPECT_EQ(producer[0], 9U);
}

TEST(Flow, BarriersReduce) {
  const auto out = run(kernel("setp.lt.u32 %p1, %r1, 40; bar.red.popc.u32 %r2, 0, %p1; bar.red.and.pred %p2, "
                              "0, %p1; bar.red.or.pred %p3, 0, !%p1; selp.u32 %r3, 1, 0, %p2; @%p3 add.u32 "
                              "%r3, %r3, 2; mad.lo.u32 %r2, %r2, 10, %r3; st.global.u32 [%rd2], %r2; ret;"),
                       1, 50);
  for (uint32_t i = 0; i < 50; ++i) EXPECT_EQ(out[i], 402U);
}

TEST(Flow, ThreadsThatExitedAreNotWaitedFor) {
  const auto out =
      run(kernel("setp.gt.u32 %p1, %r1, 20; @%p1 exit; bar.sync 0; st.global.u32 [%rd2], 1; ret;"), 1, 96);
  EXPECT_EQ(out[20], 1U);
  EXPECT_EQ(out[21], 0xccccccccU);
}

TEST(Flow, BarriersInDivergedCode) {
  // Each half of a warp comes to a barrier of its own in the text: the same barrier.
  const auto out = run(kernel("setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; mov.u32 %r2, 2; bra J; A: "
                              "barrier.sync 0; mov.u32 %r2, 1; J: st.global.u32 [%rd2], %r2; ret;"),
                       1, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < 16 ? 1U : 2U);
}

TEST(Flow, ABarrierThatNobodyElseComesToIsADeadlock) {
  std::vector<uint32_t> data(200);
  Grid grid(kernel(
      "shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 1; @%p1 bra B; bar.sync 0; ret; B: bar.sync 1; ret;"));
  const Fault fault = grid.array(data).run("k", 1, 64);
  EXPECT_EQ(fault.kind, Fault::Kind::deadlock);
  EXPECT_NE(fault.text.find("bar.sync"), std::string::npos) << fault.text;
}

TEST(Flow, AnEndlessKernelCanBeCancelled) {
  std::vector<uint32_t> data(64);
  Grid grid(kernel("L: bra L;"));
  std::atomic<bool> cancel{false};
  grid.launch.cancel = &cancel;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancel = true;
  });
  EXPECT_EQ(grid.array(data).run("k", 4, 64).kind, Fault::Kind::cancelled);
  later.join();
}

TEST(Flow, TrapAndBreakpoint) {
  std::vector<uint32_t> data(64);
  for (const char* text : {"trap;", "brkpt;", "setp.eq.u32 %p1, %r1, 3; @%p1 trap; ret;"}) {
    Grid grid(kernel(text));
    EXPECT_EQ(grid.array(data).run("k", 1, 32).kind, Fault::Kind::trap) << text;
  }
  Grid none(kernel("setp.eq.u32 %p1, %r1, 99; @%p1 trap; ret;"));
  EXPECT_FALSE(none.array(data).run("k", 1, 32));
}

TEST(Flow, AFaultOfOneBlockEndsTheOthers) {
  std::vector<uint32_t> data(64);
  Grid grid(kernel("setp.eq.u32 %p1, %r10, 5; @%p1 trap; L: setp.eq.u32 %p2, %r10, 1; @%p2 bra L; ret;"));
  const Fault fault = grid.array(data).run("k", 10, 32);
  EXPECT_EQ(fault.kind, Fault::Kind::trap);
  EXPECT_EQ(fault.block[0], 5U);
}

TEST(Flow, ManyRegistersKeepTheirValuesWhileTheyShareRows) {
  // A tree of sums in single assignments: each register lives for two instructions, all inputs to the end.
  std::string body;
  for (int i = 0; i < 64; ++i)
    body += "add.u32 %a" + std::to_string(i) + ", %r1, " + std::to_string(i) + ";\n";
  int next = 64;
  for (int from = 0; from + 1 < next && next < 127; from += 2) {
    body += "add.u32 %a" + std::to_string(next) + ", %a" + std::to_string(from) + ", %a" +
            std::to_string(from + 1) + ";\n";
    ++next;
  }
  for (int i = 0; i < 64; ++i) body += "add.u32 %a126, %a126, %a" + std::to_string(i) + ";\n";
  const auto out = run(kernel(".reg .b32 %a<127>;\n" + body + "st.global.u32 [%rd2], %a126; ret;"), 1, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 2 * (64 * i + 2016));
}

}  // namespace
}  // namespace gpufence::sim::ptx
