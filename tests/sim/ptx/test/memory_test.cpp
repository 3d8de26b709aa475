// ld, st, atom: state spaces, widths, alignment, and what a GPU may not touch.
#include "grid.h"

namespace gpufence::sim::ptx {
namespace {

// A kernel with one pointer, %rd1, and the thread's number in %r1 and, times eight, added to the pointer in
// %rd2.
std::string kernel(const std::string& body, const std::string& before = "") {
  return before +
         "\n.visible .entry k(.param .u64 p) {\n.reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<12>; .reg "
         ".b64 %rd<12>;\n"
         "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.u64 %rd2, %rd1, "
         "%rd2;\n" +
         body + "\nret;\n}\n";
}

TEST(Memory, LoadsExtendByTheirTypeIntoWiderRegisters) {
  std::vector<uint64_t> data{0xfedcba98ffeeddcc, 0, 0, 0, 0, 0, 0, 0};
  Grid grid(
      kernel("ld.global.u8 %r2, [%rd1]; st.global.u32 [%rd1+8], %r2; ld.global.s8 %r2, [%rd1]; st.global.u32 "
             "[%rd1+12], %r2;"
             "ld.global.s8 %h1, [%rd1+1]; st.global.u16 [%rd1+16], %h1; ld.global.u16 %rd3, [%rd1]; "
             "st.global.u64 [%rd1+24], %rd3;"
             "ld.global.s16 %rd3, [%rd1]; st.global.u64 [%rd1+32], %rd3; ld.global.s32 %rd3, [%rd1+4]; "
             "st.global.u64 [%rd1+40], %rd3;"
             "ld.global.u32 %rd3, [%rd1+4]; st.global.u64 [%rd1+48], %rd3; ld.global.u64 %rd4, [%rd1]; "
             "st.global.u16 [%rd1+58], %rd4;"));
  grid.array(data).ok("k", 1, 1);
  EXPECT_EQ(data[1], 0xffffffcc000000cc);
  EXPECT_EQ(data[2], 0xffdd);
  EXPECT_EQ(data[3], 0xddcc);
  EXPECT_EQ(data[4], 0xffffffffffffddcc);
  EXPECT_EQ(data[5], 0xfffffffffedcba98);
  EXPECT_EQ(data[6], 0xfedcba98);
  EXPECT_EQ(data[7], 0xddcc0000);
}

TEST(Memory, VectorsOfTwoAndFour) {
  std::vector<uint32_t> data{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0};
  Grid grid(kernel(
      "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1]; st.global.v4.u32 [%rd1+32], {%r5, %r4, %r3, %r2};"
      "ld.global.v2.u64 {%rd3, %rd4}, [%rd1+16]; st.global.v2.u64 [%rd1+48], {%rd4, %rd3};"));
  grid.array(data).ok("k", 1, 1);
  EXPECT_EQ(std::vector<uint32_t>(data.begin() + 8, data.end()),
            (std::vector<uint32_t>{4, 3, 2, 1, 7, 8, 5, 6}));
  // An element may be left out, and the address register may be one of the results.
  Grid other(
      kernel("ld.global.v2.u32 {_, %r2}, [%rd1]; ld.global.v2.u64 {%rd2, %rd1}, [%rd1+32]; "
             "ld.param.u64 %rd5, [p]; st.global.u32 [%rd5], %r2; st.global.u64 [%rd5+8], %rd1;"));
  other.array(data).ok("k", 1, 1);
  EXPECT_EQ(data[0], 2U);
  EXPECT_EQ(data[2], 2U);
  EXPECT_EQ(data[3], 1U);
}

TEST(Memory, EachLaneStoresItsOwnAndTheHighestLaneWins) {
  std::vector<uint64_t> data(64);
  Grid grid(kernel("cvt.u64.u32 %rd3, %r1; st.global.u64 [%rd2], %rd3;"));
  grid.array(data).ok("k", 1, 64);
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(data[i], i);
  Grid same(kernel("st.global.u32 [%rd1], %r1;"));
  same.array(data).ok("k", 1, 32);
  EXPECT_EQ(data[0], 31U);
}

TEST(Memory, ScatteredAndMaskedLanes) {
  std::vector<uint64_t> data(64), want(64);
  // Lane i, when odd, moves what is at 63 - i to i.
  Grid grid(
      kernel("and.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, 0; sub.u32 %r3, 63, %r1; mul.wide.u32 %rd3, %r3, 8; "
             "add.u64 %rd3, %rd1, %rd3;"
             "@%p1 ld.global.u64 %rd4, [%rd3]; @%p1 st.global.u64 [%rd2], %rd4;"));
  for (size_t i = 0; i < 64; ++i) data[i] = want[i] = 100 + i;
  for (size_t i = 1; i < 32; i += 2) want[i] = data[63 - i];
  grid.array(data).ok("k", 1, 32);
  EXPECT_EQ(data, want);
}

TEST(Memory, AnAddressBeyondTheMemoryFaultsWithIt) {
  std::vector<uint64_t> data(32);
  Grid grid(kernel("st.global.u64 [%rd2], %rd1;"));
  grid.array(data);
  const Fault fault = grid.run("k", 1, 64);
  EXPECT_EQ(fault.kind, Fault::Kind::illegal_address);
  EXPECT_EQ(fault.address, reinterpret_cast<uint64_t>(data.data()) + 256);
  EXPECT_EQ(fault.thread, (std::array<uint32_t, 3>{32, 0, 0}));
  EXPECT_NE(fault.text.find("illegal address 0x"), std::string::npos) << fault.text;
  EXPECT_NE(fault.text.find("st.global.u64 in k, line "), std::string::npos) << fault.text;
  EXPECT_FALSE(grid.run("k", 1, 32));
}

TEST(Memory, NoByteOfALaneThatFaultsIsStored) {
  std::vector<uint64_t> data(33);
  Grid grid(kernel("st.global.u64 [%rd2], %rd1;"));
  const auto begin = reinterpret_cast<uint64_t>(data.data());
  std::vector<uint64_t> half(data.begin(), data.begin() + 16);
  grid.arg(begin);
  grid.with(half);
  EXPECT_EQ(grid.run("k", 1, 32).kind, Fault::Kind::illegal_address);
  EXPECT_EQ(data, std::vector<uint64_t>(33)) << "the memory was not the GPU's";
}

TEST(Memory, NullAndFarPointers) {
  for (const uint64_t address :
       {uint64_t{0}, uint64_t{8}, ~uint64_t{7}, uint64_t{1} << 63, kFunctionWindow + 16,
        kParamWindow + (1 << 20), kSharedWindow, kLocalWindow}) {
    for (const char* access : {"ld.u64 %rd3, [%rd1];", "st.u64 [%rd1], %rd1;", "ld.global.u64 %rd3, [%rd1];",
                               "atom.add.u64 %rd3, [%rd1], %rd1;"}) {
      Grid grid(kernel(access));
      const Fault fault = grid.arg(address).run("k", 1, 32);
      EXPECT_EQ(fault.kind, Fault::Kind::illegal_address) << std::hex << address << " " << access;
      EXPECT_EQ(fault.address, address) << access;
    }
  }
}

TEST(Memory, ReadOnlyMemoryCanBeReadOnly) {
  std::vector<uint64_t> data(32, 5);
  Grid grid(kernel("ld.global.u64 %rd3, [%rd2]; @!%p1 bra DONE; st.global.u64 [%rd2], %rd3; DONE:"));
  grid.with(data, false).arg(data);
  Grid writer(kernel("ld.global.u64 %rd3, [%rd2]; st.global.u64 [%rd2], %rd3;"));
  writer.with(data, false).arg(data);
  EXPECT_EQ(writer.run("k", 1, 32).kind, Fault::Kind::illegal_address);
  Grid reader(kernel("ld.global.u64 %rd3, [%rd2];"));
  reader.with(data, false).arg(data);
  EXPECT_FALSE(reader.run("k", 1, 32));
  Grid adder(kernel("red.global.add.u64 [%rd2], 1;"));
  adder.with(data, false).arg(data);
  EXPECT_EQ(adder.run("k", 1, 32).kind, Fault::Kind::illegal_address);
}

TEST(Memory, MisalignedAccessesFault) {
  std::vector<uint64_t> data(64);
  for (const char* access : {"ld.global.u32 %r2, [%rd1+2];", "ld.global.u64 %rd3, [%rd1+4];",
                             "st.global.u16 [%rd1+1], %h1;", "ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%rd1+8];",
                             "ld.u16 %h1, [%rd1+3];", "atom.global.add.u32 %r2, [%rd1+1], 1;"}) {
    Grid grid(kernel(access));
    const Fault fault = grid.array(data).run("k", 1, 32);
    EXPECT_EQ(fault.kind, Fault::Kind::misaligned_address) << access;
  }
  Grid shared(kernel("mov.u32 %r2, 2; ld.shared.u32 %r3, [%r2];", ".shared .align 4 .b8 s[64];"));
  EXPECT_EQ(shared.array(data).run("k", 1, 1).kind, Fault::Kind::misaligned_address);
}

TEST(Memory, SharedMemoryEndsWhereItEnds) {
  std::vector<uint64_t> data(64);
  const std::string body =
      "mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1; bar.sync 0; "
      "ld.shared.u32 %r4, [%r2]; cvt.u64.u32 %rd3, %r4; st.global.u64 [%rd2], %rd3;";
  Grid grid(kernel(body, ".shared .align 4 .b8 s[128];"));
  grid.array(data).ok("k", 1, 32);
  EXPECT_EQ(data[31], 31U);
  EXPECT_EQ(grid.module->function("k")->static_shared_bytes, 128U);
  EXPECT_EQ(grid.run("k", 1, 33).kind, Fault::Kind::illegal_address);
  // Dynamic memory lies behind the static one, and an offset is no host's address.
  Grid dynamic(
      kernel("mov.u32 %r2, d; cvt.u64.u32 %rd3, %r2; st.global.u64 [%rd2], %rd3; st.shared.u32 [%r2], %r1; "
             "st.shared.u32 [s], %r1;",
             ".shared .align 4 .b8 s[20]; .extern .shared .align 64 .b8 d[];"));
  dynamic.array(data).launch.dynamic_shared_bytes = 4;
  dynamic.ok("k", 1, 1);
  EXPECT_EQ(data[0], 64U) << "as its alignment says";
  dynamic.launch.dynamic_shared_bytes = 0;
  EXPECT_EQ(dynamic.run("k", 1, 1).kind, Fault::Kind::illegal_address);
}

TEST(Memory, GenericAddressesLeadIntoEveryWindow) {
  std::vector<uint64_t> data(8);
  Grid grid(
      kernel(".local .align 8 .b8 l[16]; mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3; st.u32 [%rd4], 7; "
             "ld.shared.u32 %r2, [s]; st.global.u32 [%rd1], %r2;"
             "mov.u64 %rd5, l; cvta.local.u64 %rd6, %rd5; st.u64 [%rd6+8], %rd4; ld.local.u64 %rd7, [l+8]; "
             "st.global.u64 [%rd1+8], %rd7;"
             "cvta.to.shared.u64 %rd8, %rd4; st.global.u64 [%rd1+16], %rd8;"
             "isspacep.shared %p1, %rd4; isspacep.local %p2, %rd6; isspacep.global %p3, %rd1; selp.u32 %r3, "
             "1, 0, %p1; @%p2 add.u32 %r3, %r3, 10; @%p3 add.u32 %r3, %r3, 100;"
             "isspacep.global %p1, %rd4; @%p1 add.u32 %r3, %r3, 1000; st.global.u32 [%rd1+24], %r3;",
             ".shared .align 4 .b8 pad[4]; .shared .align 4 .b8 s[64];"));
  grid.array(data).ok("k", 1, 1);
  EXPECT_EQ(data[0], 7U);
  EXPECT_EQ(data[1], kSharedWindow) << "the only variable that the kernel uses lies first";
  EXPECT_EQ(data[2], 0U);
  EXPECT_EQ(data[3], 111U);
}

TEST(Memory, LanesMayPointIntoDifferentWindows) {
  std::vector<uint64_t> data(64, 9);
  // Lane 0 reads shared, lane 1 local, the others global memory.
  Grid grid(
      kernel(".local .align 8 .b8 l[8]; st.shared.u64 [s], 100; mov.u64 %rd5, 200; st.local.u64 [l], %rd5; "
             "bar.sync 0;"
             "mov.u64 %rd3, %rd2; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1; mov.u64 %rd6, s; "
             "cvta.shared.u64 %rd6, %rd6; mov.u64 %rd7, l; cvta.local.u64 %rd7, %rd7;"
             "@%p1 mov.u64 %rd3, %rd6; @%p2 mov.u64 %rd3, %rd7; ld.u64 %rd4, [%rd3]; add.u64 %rd4, %rd4, 1; "
             "st.u64 [%rd3], %rd4; ld.u64 %rd4, [%rd3]; st.global.u64 [%rd2+256], %rd4;",
             ".shared .align 8 .b8 s[8];"));
  grid.array(data).ok("k", 1, 32);
  EXPECT_EQ(data[32], 101U);
  EXPECT_EQ(data[33], 201U);
  EXPECT_EQ(data[34], 10U);
  EXPECT_EQ(data[2], 10U);
  EXPECT_EQ(data[0], 9U);
}

TEST(Memory, LocalMemoryIsEachThreadsOwn) {
  std::vector<uint64_t> data(64);
  Grid grid(
      kernel(".local .align 4 .b8 l[64]; and.b32 %r2, %r1, 15; shl.b32 %r2, %r2, 2; mov.u32 %r4, l; add.u32 "
             "%r4, %r4, %r2; st.local.u32 [%r4], %r1; bar.sync 0;"
             "ld.local.u32 %r3, [%r4]; cvt.u64.u32 %rd3, %r3; st.global.u64 [%rd2], %rd3;"));
  grid.array(data).ok("k", 1, 64);
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(data[i], i);
  EXPECT_EQ(grid.module->function("k")->local_bytes, 64U);
  Grid beyond(kernel(".local .align 4 .b8 l[64]; st.local.u32 [l+64], %r1;"));
  EXPECT_EQ(beyond.array(data).run("k", 1, 1).kind, Fault::Kind::illegal_address);
}

TEST(Memory, KernelParametersMayBeIndexed) {
  struct Args {
    uint64_t out;
    uint32_t values[6];
  };
  std::vector<uint64_t> data(8);
  Grid grid(
      ".visible .entry k(.param .u64 p, .param .align 4 .b8 v[24]) {\n.reg .b32 %r<8>; .reg .b64 %rd<8>;\n"
      "ld.param.u64 %rd1, [p]; mov.b64 %rd2, v; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 "
      "%rd3, %rd2, %rd3; ld.param.u32 %r2, [%rd3];\n"
      "cvta.param.u64 %rd4, %rd3; ld.u32 %r3, [%rd4]; add.u32 %r2, %r2, %r3; mul.wide.u32 %rd5, %r1, 8; "
      "add.u64 %rd5, %rd1, %rd5; st.global.u32 [%rd5], %r2; ret; }");
  const Args args{reinterpret_cast<uint64_t>(data.data()), {1, 2, 3, 4, 5, 6}};
  grid.with(data).arg(args).ok("k", 1, 6);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(data[i], 2 * (i + 1));
  EXPECT_EQ(grid.run("k", 1, 7).kind, Fault::Kind::illegal_address) << "beyond the parameters";
}

TEST(Memory, AllocaGrowsTheFrameUntilItIsRestored) {
  // Each thread takes as many bytes as it says; what it wrote stays, and the same place comes again after a
  // restore.
  std::vector<uint64_t> data(33);
  Grid grid(
      kernel("mov.u32 %r1, %tid.x; mad.lo.u32 %r2, %r1, 8, 8; cvt.u64.u32 %rd2, %r2; stacksave.u64 %rd8; "
             "alloca.u64 %rd3, "
             "%rd2, 8; st.local.u64 [%rd3], %rd2; alloca.u64 %rd4, 8, 16; st.local.u64 [%rd4], %rd1; "
             "cvta.local.u64 %rd5, %rd3; "
             "ld.u64 %rd6, [%rd5]; and.b64 %rd7, %rd4, 15; add.u64 %rd6, %rd6, %rd7; stackrestore.u64 %rd8; "
             "alloca.u64 %rd9, "
             "%rd2; setp.ne.u64 %p1, %rd9, %rd3; @%p1 add.u64 %rd6, %rd6, 1000; sub.u64 %rd4, %rd4, %rd3; "
             "setp.lt.u64 %p1, "
             "%rd4, %rd2; @%p1 add.u64 %rd6, %rd6, 2000; mul.wide.u32 %rd3, %r1, 8; add.u64 %rd3, %rd1, "
             "%rd3; st.global.u64 "
             "[%rd3], %rd6;"));
  grid.array(data).ok("k", 1, 33);
  for (size_t i = 0; i < 33; ++i) EXPECT_EQ(data[i], 8 * i + 8);
  Grid much(kernel("mov.u64 %rd2, 1000000; alloca.u64 %rd3, %rd2;"));
  EXPECT_EQ(much.array(data).run("k", 1, 1).kind, Fault::Kind::stack_overflow);
}

TEST(Mbarrier, CompletesAPhaseWhenAllHaveArrived) {
  std::vector<uint64_t> data(8);
  const auto words = [&](const std::string& body, uint32_t threads = 1) {
    std::fill(data.begin(), data.end(), 99);
    Grid grid(kernel(body, ".shared .align 8 .b64 bar;"));
    const Fault fault = grid.array(data).run("k", 1, threads);
    EXPECT_EQ(fault.kind, Fault::Kind::none) << fault.text;
    return data;
  };
  const std::string told = " selp.u64 %rd7, 1, 0, %p1; st.global.u64 [%rd1+";
  // A count of two: one arrival is not enough, a second is; then the next phase, told by state and by parity.
  EXPECT_EQ(words("mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 %rd2, [bar]; "
                  "mbarrier.test_wait.shared.b64 "
                  "%p1, [bar], %rd2;" +
                  told +
                  "0], %rd7; mbarrier.pending_count.b64 %r1, %rd2; st.global.u32 [%rd1+8], "
                  "%r1; mbarrier.arrive.release.cta.shared::cta.b64 _, [bar]; mbarrier.try_wait.shared.b64 "
                  "%p1, [bar], "
                  "%rd2;" +
                  told + "16], %rd7; mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;" + told +
                  "24], %rd7; mbarrier.try_wait.parity.shared.b64 %p1, [bar], 1, 100;" + told + "32], %rd7;"),
            (std::vector<uint64_t>{0, 2, 1, 1, 0, 99, 99, 99}));
  // Dropped ones are not expected again; bytes hold a phase open.
  EXPECT_EQ(words("mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive_drop.shared.b64 %rd2, [bar]; "
                  "mbarrier.arrive.shared."
                  "b64 %rd3, [bar]; mbarrier.arrive.shared.b64 %rd4, [bar]; mbarrier.test_wait.shared.b64 "
                  "%p1, [bar], "
                  "%rd4;" +
                  told +
                  "0], %rd7; mbarrier.arrive.expect_tx.shared.b64 %rd5, [bar], 64; mbarrier.test_wait."
                  "shared.b64 %p1, [bar], %rd5;" +
                  told +
                  "8], %rd7; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 "
                  "[bar], 64; mbarrier.test_wait.shared.b64 %p1, [bar], %rd5;" +
                  told +
                  "16], %rd7; cp.async.mbarrier."
                  "arrive.noinc.shared.b64 [bar]; mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1;" +
                  told + "24], %rd7;"),
            (std::vector<uint64_t>{1, 0, 1, 1, 99, 99, 99, 99}));
  // Threads of several warps wait for each other in a loop.
  const auto all = words(
      "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [bar], 100; bar.sync 0; "
      "mov.u32 %r2, "
      "0; N: red.global.add.u64 [%rd1], 1; mbarrier.arrive.shared.b64 %rd2, [bar]; W: "
      "mbarrier.try_wait.shared.b64 %p2, "
      "[bar], %rd2; @!%p2 bra W; ld.volatile.global.u64 %rd3, [%rd1]; add.u32 %r2, %r2, 1; mul.wide.u32 "
      "%rd4, %r2, 100; "
      "add.u64 %rd4, %rd4, 99; setp.lt.u64 %p3, %rd3, %rd4; @%p3 st.global.u64 [%rd1+8], %rd3; setp.lt.u32 "
      "%p3, %r2, 5; "
      "@%p3 bra N;",
      100);
  EXPECT_EQ(all[0], 599U);
  EXPECT_EQ(all[1], 99U) << "nobody was let go too early";
}

TEST(Memory, ReservedSharedMemoryLiesBehindTheProgramsAndBeginsAsZeros) {
  // Each block leaves something there; the next one finds zeros.
  std::vector<uint64_t> data(8, 99);
  Grid grid(kernel(
      "mov.u32 %r1, %reserved_smem_offset_1; ld.shared.u64 %rd2, [%r1]; st.shared.u64 [%r1], %rd1; "
      "mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd3, %r2, 8; add.u64 %rd3, %rd1, %rd3; st.global.u64 [%rd3], "
      "%rd2; mov.u32 %r3, %reserved_smem_offset_begin; mov.u32 %r4, %reserved_smem_offset_end; sub.u32 %r4, "
      "%r4, %r3; mov.u32 %r5, %total_smem_size; st.global.u32 [%rd1+48], %r4; st.global.u32 [%rd1+52], %r3; "
      "st.global.u32 [%rd1+56], %r5; mov.u32 %r5, %reserved_smem_offset_cap; st.global.u32 [%rd1+60], %r5;"));
  grid.launch.dynamic_shared_bytes = 200;
  grid.array(data).ok("k", 6, 1);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(data[i], 0U);
  EXPECT_EQ(data[6] & 0xffffffff, 1024U);
  EXPECT_GE(data[6] >> 32, data[7] & 0xffffffff) << "behind what the program has";
  EXPECT_EQ(data[7] >> 32, 1024U);
}

TEST(Atomic, EachGivesWhatWasThere) {
  const auto run = [](const std::string& op, uint64_t before) {
    std::vector<uint64_t> data{before, 0};
    Grid grid(kernel(op));
    grid.array(data).ok("k", 1, 1);
    return data;
  };
  using Pair = std::vector<uint64_t>;
  EXPECT_EQ(run("atom.global.add.u32 %r2, [%rd1], 5; st.global.u32 [%rd1+8], %r2;", 7), (Pair{12, 7}));
  EXPECT_EQ(run("atom.global.min.s32 %r2, [%rd1], -5; st.global.u32 [%rd1+8], %r2;", 7),
            (Pair{0xfffffffb, 7}));
  EXPECT_EQ(run("atom.global.max.u32 %r2, [%rd1], -5; st.global.u32 [%rd1+8], %r2;", 7),
            (Pair{0xfffffffb, 7}));
  EXPECT_EQ(run("atom.global.inc.u32 %r2, [%rd1], 7; st.global.u32 [%rd1+8], %r2;", 7), (Pair{0, 7}));
  EXPECT_EQ(run("atom.global.inc.u32 %r2, [%rd1], 9; st.global.u32 [%rd1+8], %r2;", 7), (Pair{8, 7}));
  EXPECT_EQ(run("atom.global.dec.u32 %r2, [%rd1], 9; st.global.u32 [%rd1+8], %r2;", 0), (Pair{9, 0}));
  EXPECT_EQ(run("atom.global.dec.u32 %r2, [%rd1], 9; st.global.u32 [%rd1+8], %r2;", 20), (Pair{9, 20}));
  EXPECT_EQ(run("atom.global.dec.u32 %r2, [%rd1], 9; st.global.u32 [%rd1+8], %r2;", 5), (Pair{4, 5}));
  EXPECT_EQ(run("atom.global.exch.b64 %rd3, [%rd1], %rd1; st.global.u64 [%rd1+8], %rd3;", 7)[1], 7U);
  EXPECT_EQ(run("atom.global.cas.b32 %r2, [%rd1], 7, 8; st.global.u32 [%rd1+8], %r2;", 7), (Pair{8, 7}));
  EXPECT_EQ(run("atom.global.cas.b32 %r2, [%rd1], 6, 8; st.global.u32 [%rd1+8], %r2;", 7), (Pair{7, 7}));
  EXPECT_EQ(run("mov.u16 %h1, 7; mov.u16 %h2, 9; atom.global.cas.b16 %h3, [%rd1], %h1, %h2; st.global.u16 "
                "[%rd1+8], %h3;",
                7),
            (Pair{9, 7}));
  EXPECT_EQ(run("atom.global.and.b32 %r2, [%rd1], 6; st.global.u32 [%rd1+8], %r2;", 13), (Pair{4, 13}));
  EXPECT_EQ(run("atom.global.or.b64 %rd3, [%rd1], 6; st.global.u64 [%rd1+8], %rd3;", 13), (Pair{15, 13}));
  EXPECT_EQ(run("atom.acq_rel.gpu.global.xor.b32 %r2, [%rd1], 6; st.global.u32 [%rd1+8], %r2;", 13),
            (Pair{11, 13}));
  EXPECT_EQ(run("atom.global.add.f32 %r2, [%rd1], 0f3F000000; st.global.u32 [%rd1+8], %r2;", bits(1.5F)),
            (Pair{bits(2.0F), bits(1.5F)}));
  EXPECT_EQ(
      run("atom.global.add.f64 %rd3, [%rd1], 0d3FE0000000000000; st.global.u64 [%rd1+8], %rd3;", bits(1.5)),
      (Pair{bits(2.0), bits(1.5)}));
  EXPECT_EQ(run("mov.u32 %r3, 0x3c004000; atom.global.add.noftz.f16x2 %r2, [%rd1], %r3; st.global.u32 "
                "[%rd1+8], %r2;",
                0x3c003c00),
            (Pair{0x40004200, 0x3c003c00}));
  EXPECT_EQ(run("red.global.add.s32 [%rd1], -3; red.relaxed.sys.global.max.s64 [%rd1+8], 4;", 7),
            (Pair{4, 4}));
  EXPECT_EQ(run("atom.add.u32 _, [%rd1], 5;", 7), (Pair{12, 0}));
}

TEST(Atomic, VectorsAreDoneElementByElement) {
  std::vector<uint64_t> data(4);
  const auto words = [&](const std::string& body, std::vector<uint64_t> before) {
    data = std::move(before);
    Grid grid(kernel(".reg .f32 %f<9>; .reg .b16 %h<9>; " + body));
    const Fault fault = grid.array(data).run("k", 1, 1);
    EXPECT_EQ(fault.kind, Fault::Kind::none) << fault.text;
    return data;
  };
  const uint64_t one_two = bits(2.0F) << 32 | bits(1.0F);
  // The results land in the registers that the values came from.
  EXPECT_EQ(words("mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; atom.global.add.v2.f32 {%f2, %f1}, "
                  "[%rd1], {%f1, "
                  "%f2}; st.global.v2.f32 [%rd1+8], {%f2, %f1};",
                  {one_two, 0, 0, 0}),
            (std::vector<uint64_t>{bits(4.0F) << 32 | bits(2.0F), one_two, 0, 0}));
  EXPECT_EQ(words("mov.f32 %f1, 0f3F800000; red.global.add.v4.f32 [%rd1], {%f1, %f1, %f1, %f1};",
                  {one_two, 0, 0, 0}),
            (std::vector<uint64_t>{bits(3.0F) << 32 | bits(2.0F), bits(1.0F) << 32 | bits(1.0F), 0, 0}));
  EXPECT_EQ(words("mov.b32 %r1, 0x3c004000; mov.b32 %r2, 0x40003c00; red.global.add.noftz.v2.f16x2 [%rd1], "
                  "{%r1, %r2};",
                  {0x3c003c003c003c00, 0, 0, 0}),
            (std::vector<uint64_t>{0x42004000'40004200, 0, 0, 0}));
  EXPECT_EQ(
      words(
          "mov.b16 %h1, 0x4000; mov.b16 %h2, 0xc000; atom.global.max.noftz.v2.bf16 {%h3, %h4}, [%rd1], {%h1, "
          "%h2}; st.global.v2.b16 [%rd1+8], {%h3, %h4};",
          {0x3f803f80, 0, 0, 0}),
      (std::vector<uint64_t>{0x3f804000, 0x3f803f80, 0, 0}));
  EXPECT_EQ(words("mov.b16 %h1, 0x4000; red.global.min.noftz.v8.f16 [%rd1], {%h1, %h1, %h1, %h1, %h1, %h1, "
                  "%h1, %h1};",
                  {0x7fff3c00'c2004400, 0x3c003c003c003c00, 0, 0}),
            (std::vector<uint64_t>{0x40003c00'c2004000, 0x3c003c003c003c00, 0, 0}));

  Grid grid(kernel(".reg .f32 %f<9>; mov.f32 %f1, 0f3F800000; red.global.add.v2.f32 [%rd1+4], {%f1, %f1};"));
  EXPECT_EQ(grid.array(data).run("k", 1, 1).kind, Fault::Kind::misaligned_address);
}

TEST(Atomic, ManyBlocksAddUpAndSharedOnesToo) {
  std::vector<uint64_t> data(2);
  Grid grid(
      kernel("st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 %r2, [s], 1; red.global.add.u64 [%rd1], "
             "1; bar.sync 0; setp.ne.u32 %p1, %r1, 0;"
             "ld.shared.u32 %r3, [s]; cvt.u64.u32 %rd3, %r3; @!%p1 red.global.add.u64 [%rd1+8], %rd3;",
             ".shared .align 4 .b8 s[4];"));
  grid.array(data).ok("k", 200, 96);
  EXPECT_EQ(data[0], 200U * 96);
  EXPECT_EQ(data[1], 200U * 96);
}

TEST(Memory, AsynchronousCopiesAreThereWhenWaitedFor) {
  std::vector<uint64_t> data(64);
  for (size_t i = 0; i < 32; ++i) data[i] = i * i;
  Grid grid(
      kernel("mov.u32 %r2, s; shl.b32 %r3, %r1, 3; add.u32 %r2, %r2, %r3; cp.async.ca.shared.global [%r2], "
             "[%rd2], 8; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;"
             "xor.b32 %r4, %r3, 8; mov.u32 %r5, s; add.u32 %r4, %r4, %r5; ld.shared.u64 %rd3, [%r4]; "
             "st.global.u64 [%rd2+256], %rd3;",
             ".shared .align 16 .b8 s[256];"));
  grid.array(data).ok("k", 1, 32);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(data[32 + i], (i ^ 1) * (i ^ 1));
}

}  // namespace
}  // namespace gpufence::sim::ptx
