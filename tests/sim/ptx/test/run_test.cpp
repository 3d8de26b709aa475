// Launches: their bounds, what a kernel is told about them, and how many blocks live at once.
#include "grid.h"

#include <cfenv>
#include <thread>

namespace gpufence::sim::ptx {
namespace {

const char* const kWho =
    ".visible .entry k(.param .u64 p) { .reg .b32 %r<20>; .reg .b64 %rd<6>; ld.param.u64 %rd1, [p];\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, "
    "%ntid.y; mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ctaid.y; mov.u32 %r8, %ctaid.z; mov.u32 %r9, %nctaid.x; "
    "mov.u32 %r10, %nctaid.y; mov.u32 %r11, %ntid.z;\n"
    "mad.lo.u32 %r12, %r8, %r10, %r7; mad.lo.u32 %r12, %r12, %r9, %r6; mul.lo.u32 %r13, %r4, %r5; mul.lo.u32 "
    "%r13, %r13, %r11; mad.lo.u32 %r14, %r3, %r5, %r2; mad.lo.u32 %r14, %r14, %r4, %r1; mad.lo.u32 %r12, "
    "%r12, %r13, %r14;\n"
    "mul.wide.u32 %rd2, %r12, 4; add.u64 %rd1, %rd1, %rd2; atom.global.add.u32 %r15, [%rd1], 1; ret; }\n";

TEST(Run, EveryThreadOfThreeDimensionsRunsOnce) {
  std::vector<uint32_t> out(3 * 5 * 7 * 4 * 3 * 5);
  Grid grid(kWho);
  grid.array(out);
  EXPECT_FALSE(grid.run("k", {3, 5, 7}, {4, 3, 5}));
  EXPECT_EQ(out, std::vector<uint32_t>(out.size(), 1));
}

TEST(Run, ImpossibleLaunchesAreRefused) {
  std::vector<uint32_t> out(64);
  Grid grid(kWho);
  grid.array(out);
  EXPECT_EQ(grid.run("k", {0, 1, 1}, {1, 1, 1}).kind, Fault::Kind::invalid_configuration);
  EXPECT_EQ(grid.run("k", {1, 1, 1}, {1025, 1, 1}).kind, Fault::Kind::invalid_configuration);
  EXPECT_EQ(grid.run("k", {1, 1, 1}, {32, 33, 1}).kind, Fault::Kind::invalid_configuration);
  EXPECT_EQ(grid.run("k", {1, 1, 1}, {1, 1, 0}).kind, Fault::Kind::invalid_configuration);
  grid.launch.dynamic_shared_bytes = 1 << 30;
  EXPECT_EQ(grid.run("k", 1, 1).kind, Fault::Kind::invalid_configuration);
  grid.launch.dynamic_shared_bytes = 0;
  grid.launch.cluster = {2, 1, 1};
  EXPECT_EQ(grid.run("k", 3, 1).kind, Fault::Kind::invalid_configuration);
  EXPECT_EQ(grid.run("k", 4, 1).kind, Fault::Kind::none);
  EXPECT_EQ(ptx::run(Launch{}).kind, Fault::Kind::invalid_configuration);
}

TEST(Run, ACooperativeGridMustFitTheDevice) {
  std::vector<uint32_t> out(64 * 1024);
  Grid grid(kWho);
  grid.array(out);
  grid.launch.cooperative = true;
  grid.launch.device = {2, 32, 16, 64 << 10};
  EXPECT_FALSE(grid.run("k", 2, 1024));
  EXPECT_FALSE(grid.run("k", 32, 32));
  EXPECT_EQ(grid.run("k", 33, 32).kind, Fault::Kind::invalid_configuration);
  EXPECT_EQ(grid.run("k", 3, 1024).kind, Fault::Kind::invalid_configuration);
}

TEST(Run, OccupancyIsBoundByWarpsBlocksRegistersAndSharedMemory) {
  Function function;
  const DeviceTraits device{1, 48, 16, 64 << 10};
  function.registers = 32;
  EXPECT_EQ(blocks_per_multiprocessor(function, 32, 0, device), 16U);
  EXPECT_EQ(blocks_per_multiprocessor(function, 256, 0, device), 6U);
  EXPECT_EQ(blocks_per_multiprocessor(function, 1024, 0, device), 1U);
  EXPECT_EQ(blocks_per_multiprocessor(function, 256, 15 << 10, device), 4U);
  function.static_shared_bytes = 16 << 10;
  EXPECT_EQ(blocks_per_multiprocessor(function, 256, 15 << 10, device), 2U);
  EXPECT_EQ(blocks_per_multiprocessor(function, 256, 64 << 10, device), 0U);
  function.static_shared_bytes = 0;
  function.registers = 255;
  EXPECT_EQ(blocks_per_multiprocessor(function, 256, 0, device), 1U);
  EXPECT_EQ(blocks_per_multiprocessor(function, 2048, 0, device), 0U);
}

TEST(Run, SpecialRegistersTellTheLaunch) {
  std::vector<uint64_t> out(16);
  Grid grid(
      ".extern .shared .align 4 .b8 d[];\n.visible .entry k(.param .u64 p) { .reg .b32 %r<4>; .reg .b64 "
      "%rd<6>; .shared .align 4 .b8 s[40]; ld.param.u64 %rd1, [p]; st.shared.u32 [s], 0;\n"
      "mov.u32 %r1, %dynamic_smem_size; st.global.u32 [%rd1], %r1; mov.u32 %r1, %total_smem_size; "
      "st.global.u32 [%rd1+8], %r1; mov.u64 %rd2, %gridid; st.global.u64 [%rd1+16], %rd2; mov.u32 %r1, "
      "%nsmid; st.global.u32 [%rd1+24], %r1;\n"
      "mov.u32 %r1, %cluster_nctaid.x; st.global.u32 [%rd1+32], %r1; mov.u32 %r1, %cluster_nctarank; "
      "st.global.u32 [%rd1+40], %r1; mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; or.b32 %r1, %r1, %r2; "
      "st.global.u32 [%rd1+48], %r1; mov.u32 %r1, %nwarpid; st.global.u32 [%rd1+56], %r1; ret; }");
  grid.launch.dynamic_shared_bytes = 24;
  grid.launch.grid_id = 77;
  grid.launch.cluster = {2, 1, 1};
  grid.array(out).ok("k", 2, 1);
  EXPECT_EQ(std::vector<uint64_t>(out.begin(), out.begin() + 8),
            (std::vector<uint64_t>{24, 72, 77, 4, 2, 2, 0, 64}));
}

TEST(Run, TheCallersRoundingIsNeitherUsedNorChanged) {
  std::fesetround(FE_UPWARD);
  const auto result =
      evaluate("div.rn.f32 %r0, %r1, %r2;", {{{bits(1.0F), bits(3.0F)}, 0}, {{bits(1.0F), bits(5.0F)}, 0}});
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(result[0], 0x3eaaaaabU);
  EXPECT_EQ(result[1], 0x3e4ccccdU);
}

TEST(Run, LaunchesFromManyThreadsAtOnce) {
  auto parsed = parse(std::string(".version 8.5\n.target sm_90\n.address_size 64\n") + kWho);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        std::vector<uint32_t> out(40 * 64);
        Grid grid(*parsed);
        grid.launch.cooperative = round % 5 == 0;
        grid.array(out).ok("k", 40, 64);
        ASSERT_EQ(out, std::vector<uint32_t>(out.size(), 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Access, RegionsAreFoundByAnyAddressInThem) {
  const AccessMap map({{300, 400, true}, {100, 200, false}, {200, 300, true}, {50, 50, true}});
  EXPECT_EQ(map.find(99), nullptr);
  EXPECT_EQ(map.find(100)->writable, false);
  EXPECT_EQ(map.find(199)->end, 200U);
  EXPECT_EQ(map.find(200)->begin, 200U);
  EXPECT_EQ(map.find(399)->begin, 300U);
  EXPECT_EQ(map.find(400), nullptr);
  EXPECT_EQ(map.regions().size(), 3U);
  EXPECT_EQ(AccessMap().find(0), nullptr);
}

}  // namespace
}  // namespace gpufence::sim::ptx
