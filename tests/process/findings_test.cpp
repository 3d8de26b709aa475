// Every finding by a program that has the fault, and none by its twin that has not: both GPUs, the call, the
// place and the count, as a person reads them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "said.h"

namespace gpufence::harness {
namespace {

// ---- GF203, GF204

TEST(StreamOfAnotherGpu, IsNamedWithBothGpusWhereTheRuntimeIsShared) {
  FourGpus m;
  const Said said = run(m, {probe("mixes_shared"), "launch"});
  EXPECT_EQ(said.result.out, "step(memory[1], stream[0]): cudaErrorInvalidResourceHandle\n");
  EXPECT_TRUE(is_line(
      said, zero_and_one("GF203 warning: kernel saxpy launched on #1 with a stream of #0, created at @ "
                         "(make_stream); cudaLaunchKernel at @ (step), thread \"mixes_shared\"")));
  EXPECT_EQ(said.counts, (Counts{{"GF203", 1}}));
}

TEST(StreamOfAnotherGpu, IsNamedForAKernelInChevrons) {
  FourGpus m;
  const Said said = run(m, {probe("mixes_shared"), "chevrons"});
  EXPECT_EQ(said.result.out, "cudaGetLastError(): cudaErrorInvalidResourceHandle\n");
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains(
      zero_and_one("] GF203 warning: kernel saxpy launched on #1 with a stream of #0, created at "
                   "mixes_shared+0x")))
      << said.result.err;
  EXPECT_TRUE(said.result.complains("; cudaLaunchKernel at mixes_shared+0x")) << said.result.err;
}

TEST(StreamOfAnotherGpu, IsSaidOnceAPlaceAndCounted) {
  FourGpus m;
  const Said said = run(m, {probe("mixes_shared"), "launch_twice"});
  EXPECT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_EQ(said.counts, (Counts{{"GF203", 2}}));
}

TEST(StreamOfAnotherGpu, IsNamedWithBothGpusThroughTheDriver) {
  FourGpus m;
  const Said said = run(m, {probe("mixes_driver"), "launch"});
  EXPECT_EQ(said.result.out, "step(kernel[1], memory[1], stream[0]): CUDA_ERROR_INVALID_HANDLE\n");
  EXPECT_TRUE(is_line(
      said, zero_and_one("GF203 warning: kernel saxpy launched on #1 with a stream of #0, created at @ "
                         "(make_stream); cuLaunchKernel at @ (step), thread \"mixes_driver\"")));
  EXPECT_EQ(said.counts, (Counts{{"GF203", 1}}));
}

TEST(KernelOfAnotherGpu, IsNamedWithItsModule) {
  FourGpus m;
  const Said said = run(m, {probe("mixes_driver"), "kernel"});
  EXPECT_TRUE(is_line(
      said,
      zero_and_one("GF203 warning: kernel saxpy of #0, loaded at @ (load), launched in the default stream "
                   "of #1; cuLaunchKernel at @ (step), thread \"mixes_driver\"")));
  EXPECT_EQ(said.counts, (Counts{{"GF203", 1}}));
}

struct Mix {
  const char* program;
  const char* record;  // calls as their programmers wrote them
  const char* elapsed;
  bool symbols;  // whether the place is the program's function, not the runtime's inside of it
};

class EventOfAnotherGpu : public testing::TestWithParam<Mix> {};
INSTANTIATE_TEST_SUITE_P(EveryWay, EventOfAnotherGpu,
                         testing::Values(Mix{"mixes_shared", "cudaEventRecord", "cudaEventElapsedTime", true},
                                         Mix{"mixes_static", "cuEventRecord", "cuEventElapsedTime", false},
                                         Mix{"mixes_driver", "cuEventRecord", "cuEventElapsedTime", true}),
                         [](const auto& mix) { return std::string(mix.param.program); });

// A runtime that is linked statically makes the driver's calls from within the program: its functions have no
// exported names.
std::string place(const Mix& mix, const char* function) {
  return mix.symbols ? std::string("@ (") + function + ")" : "@";
}

TEST_P(EventOfAnotherGpu, RecordedInAStreamIsNamed) {
  FourGpus m;
  const Mix& mix = GetParam();
  const Said said = run(m, {probe(mix.program), "record"});
  EXPECT_TRUE(is_line(
      said, zero_and_one("GF204 warning: an event of #1, created at " + place(mix, "make_event") +
                         ", recorded in a stream of #0, created at " + place(mix, "make_stream") + "; " +
                         mix.record + " at " + place(mix, "record") + ", thread \"" + mix.program + "\"")));
  EXPECT_EQ(said.counts, (Counts{{"GF204", 1}}));
}

TEST_P(EventOfAnotherGpu, TimedAgainstIsNamed) {
  FourGpus m;
  const Mix& mix = GetParam();
  const Said said = run(m, {probe(mix.program), "elapsed"});
  EXPECT_TRUE(is_line(said, zero_and_one("GF204 warning: the time from an event of #0, created at " +
                                         place(mix, "make_event") + ", to an event of #1, created at " +
                                         place(mix, "make_event") + ", asked for; " + mix.elapsed + " at " +
                                         place(mix, "elapsed") + ", thread \"" + mix.program + "\"")));
  EXPECT_EQ(said.counts, (Counts{{"GF204", 1}}));
}

TEST(StreamsAndEvents, OfTwoGpusAreSilentWhereCudaAllowsIt) {
  FourGpus m;
  for (const char* program : {"mixes_shared", "mixes_static", "mixes_driver"}) {
    const Said said = run(m, {probe(program), "allowed"});
    EXPECT_TRUE(said.result.says(": cudaSuccess\n") || said.result.says(": CUDA_SUCCESS\n"))
        << said.result.out;
    EXPECT_EQ(said.result.err, "") << program;
    EXPECT_EQ(said.counts, (Counts{{"GF206", 1}})) << program;  // info: the copy goes through the host
  }
}

TEST(StreamsAndEvents, ThatTheDriverGivesOutAgainBelongToTheLast) {
  FourGpus m;
  for (const char* program : {"mixes_shared", "mixes_static"}) {
    const Said said = run(m, {probe(program), "reused"});
    EXPECT_TRUE(said.result.says("cudaDeviceSynchronize(): cudaSuccess\n")) << said.result.out;
    EXPECT_EQ(said.result.err, "") << program;
    EXPECT_EQ(said.counts, Counts{}) << program;
  }
}

TEST(FunctionOfALibrary, IsOfTheGpuForWhichItWasGot) {
  FourGpus m;
  for (const auto& [what, place] : {std::pair{"kernel", "function_of"}, std::pair{"module", "function_of"}}) {
    const Said said = run(m, {probe("handles_driver"), what, "fault"});
    EXPECT_TRUE(
        is_line(said, zero_and_one("GF203 warning: kernel saxpy of #0, loaded at @ (" + std::string(place) +
                                   "), launched in the default stream of #1; cuLaunchKernel at @ (step), "
                                   "thread \"handles_driver\"")));
    EXPECT_EQ(said.counts, (Counts{{"GF203", 1}})) << what;
    EXPECT_EQ(run(m, {probe("handles_driver"), what, "twin"}).counts, Counts{}) << what;
  }
}

TEST(Handles, OfLibrariesAndMappingsThatTheDriverGivesOutAgainBelongToTheLast) {
  FourGpus m;
  for (const char* what : {"remapped", "reused"}) {
    for (const char* level : {"default", "all"}) {
      const Said said =
          run(m, {probe("handles_driver"), what}, {.devices = "2,0", .options = {"--diagnose", level}});
      EXPECT_EQ(said.result.out, "cuCtxSynchronize(): CUDA_SUCCESS\n") << what;
      EXPECT_EQ(said.result.err, "") << what;
      EXPECT_EQ(said.counts, Counts{}) << what << ' ' << level;
    }
  }
}

// ---- GF102, GF106

class LateMask : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(EveryWay, LateMask, testing::Values("masks_shared", "masks_static"),
                         [](const auto& program) { return std::string(program.param); });

TEST_P(LateMask, IsNamedWithWhatWasReadAndWhoReadIt) {
  FourGpus m;
  const std::string program = GetParam();
  const Said said = run(m, {probe(program), "late"}, {.unset = {"CUDA_VISIBLE_DEVICES"}});
  EXPECT_EQ(said.result.out, "went on\n");
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(std::regex_search(
      said.lines[0], std::regex("\\] GF102 warning: CUDA_VISIBLE_DEVICES changed \\(unset → \"1\"\\) at "
                                "\\+[0-9]+\\.[0-9] s, after cuInit at "
                                "\\+[0-9]+\\.[0-9] s \\(called from " +
                                program + "\\): the driver ignores it(; .* at " + program + "\\+0x.*)?$")))
      << said.lines[0];
  EXPECT_TRUE(program != "masks_shared" || said.result.complains("; cudaSetDevice at masks_shared+0x"))
      << said.lines[0];
}

TEST_P(LateMask, IsNamedAtTheEndWhereNoCallLookedAtIt) {
  FourGpus m;
  const Said said = run(m, {probe(GetParam()), "late_and_no_more"}, {.devices = "2,0"});
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains("] GF102 warning: CUDA_VISIBLE_DEVICES changed (\"2,0\" → \"1\") at +"))
      << said.lines[0];
  EXPECT_EQ(said.counts, (Counts{{"GF102", 1}}));
}

TEST_P(LateMask, OfTheOrderIsNamedToo) {
  FourGpus m;
  const Said said = run(m, {probe(GetParam()), "order"}, {.devices = "2,0"});
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains(
      "] GF102 warning: CUDA_DEVICE_ORDER changed (\"PCI_BUS_ID\" → \"FASTEST_FIRST\") at +"))
      << said.lines[0];
}

TEST_P(LateMask, IsSilentWhereItIsEarlyOrPutBackOrForChildren) {
  FourGpus m;
  for (const char* what : {"early", "restored", "launcher"}) {
    const Said said = run(m, {probe(GetParam()), what});
    EXPECT_EQ(said.result.exit, 0) << said.result.out;
    EXPECT_EQ(said.result.err, "") << what;
    EXPECT_EQ(said.counts, Counts{}) << what;
  }
}

TEST(MaskOfAChild, ThatLeavesOrReordersItsParentsIsNamed) {
  FourGpus m;
  const auto child_of = [&](const char* outer, const char* inner) {
    return m.run({probe("masks_shared"), "parent", inner},
                 {.env = {{"CUDA_VISIBLE_DEVICES", outer}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}});
  };
  const Result leaves = child_of("2,3", "0");
  EXPECT_EQ(leaves.out, "child: 1 GPUs\n");
  EXPECT_TRUE(leaves.complains(
      "] GF106 warning: CUDA_VISIBLE_DEVICES=\"0\" leaves that of the parent, \"2,3\" (pid "))
      << leaves.err;
  EXPECT_TRUE(leaves.complains("; here 1 GPU visible: CUDA 0 = host GPU 0\n")) << leaves.err;
  const Result reorders = child_of("2,3", "3,2");
  EXPECT_TRUE(reorders.complains(
      "] GF106 warning: CUDA_VISIBLE_DEVICES=\"3,2\" reorders that of the parent, \"2,3\" (pid "))
      << reorders.err;
  // Narrower, the same in other words, and one GPU for each rank.
  for (const char* inner : {"3", "2", "2,3", "GPU-2c,3"}) EXPECT_EQ(child_of("2,3", inner).err, "") << inner;
  EXPECT_EQ(child_of("0,1,2,3", "1,3").err, "");
}

// ---- Records of what is wrong before the first call of a kernel

TEST(Records, OfMasksAndOrdinalsHaveThePlaceAndTheGpus) {
  struct Fault {
    const char* code;
    std::vector<std::string> program;
    With with;
    const char *api, *object;
    const char *uuid, *other;  // null: none
  };
  const std::string masks = probe("masks_shared"), list = probe("list_gpus"), set = probe("set_device");
  const With bus{.env = {{"CUDA_VISIBLE_DEVICES", "1"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}};
  for (const Fault& fault :
       {Fault{"GF101", {set, "1"}, bus, "cudaSetDevice", "set_device", kUuid1, nullptr},
        Fault{"GF101", {set, "7"}, bus, "cudaSetDevice", "set_device", nullptr, nullptr},
        Fault{"GF103",
              {list},
              {.env = {{"CUDA_VISIBLE_DEVICES", "GPU-2c,9"}}},
              "cuInit",
              "list_gpus",
              nullptr,
              nullptr},
        Fault{
            "GF104", {list}, {.env = {{"CUDA_VISIBLE_DEVICES", "0"}}}, "cuInit", "list_gpus", kUuid3, kUuid0},
        Fault{"GF105", {list, "1"}, {.devices = "2,0"}, "cuInit", "list_gpus", nullptr, kUuid1},
        Fault{
            "GF106", {masks, "parent", "0"}, bus, "cudaGetDeviceCount", "masks_shared", nullptr, nullptr}}) {
    FourGpus m;
    m.run(fault.program, fault.with);
    const std::vector<nlohmann::json> found = records(m, fault.code);
    ASSERT_EQ(found.size(), 1u) << fault.code;
    const nlohmann::json& record = found[0];
    EXPECT_EQ(record.at("api"), fault.api) << fault.code;
    ASSERT_TRUE(record.at("site").is_object()) << fault.code;
    EXPECT_EQ(record.at("site").at("object"), fault.object) << fault.code;
    EXPECT_GT(record.at("site").at("offset"), 0) << fault.code;
    EXPECT_GT(record.at("tid"), 0) << fault.code;
    EXPECT_EQ(record.at("thread"), fault.object) << fault.code;
    for (const auto& [key, uuid] :
         {std::pair{"device", fault.uuid}, std::pair{"other_device", fault.other}}) {
      if (uuid == nullptr)
        EXPECT_EQ(record.at(key), nullptr) << fault.code << ' ' << key;
      else
        EXPECT_EQ(record.at(key).at("uuid"), uuid) << fault.code << ' ' << key;
    }
  }
}

// ---- GF301, GF302

class ForkedChild : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(EveryWay, ForkedChild, testing::Values("forks_shared", "forks_static"),
                         [](const auto& program) { return std::string(program.param); });

TEST_P(ForkedChild, ThatUsesCudaIsNamedWithWhoInitialisedIt) {
  FourGpus m;
  const std::string program = GetParam();
  const Said said = run(m, {probe(program), "uses"});
  EXPECT_TRUE(said.result.says("child: cudaErrorInitializationError\n")) << said.result.out;
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(std::regex_search(
      said.lines[0],
      std::regex(
          "\\] GF302 warning: CUDA used in a forked child \\(pid [0-9]+\\) of a process that had CUDA live "
          "since its cuInit at \\+[0-9]+\\.[0-9] s \\(called from " +
          program + "\\): it can't work here;")))
      << said.lines[0];
  EXPECT_TRUE(program != "forks_shared" ||
              std::regex_search(said.lines[0],
                                std::regex("; cudaMalloc at forks_shared\\+0x[0-9a-f]+ \\(use\\), thread")))
      << said.lines[0];
  EXPECT_EQ(said.counts, (Counts{{"GF301", 1}}));  // of the parent
}

TEST_P(ForkedChild, ThatDoesNotUseCudaIsNoWarning) {
  FourGpus m;
  for (const char* what : {"idles", "execs"}) {
    const Said said = run(m, {probe(GetParam()), what});
    EXPECT_EQ(said.result.err, "") << what;
    EXPECT_EQ(said.counts, (Counts{{"GF301", 1}})) << what;
  }
  const Said before = run(m, {probe(GetParam()), "before"});
  EXPECT_TRUE(before.result.says("child: cudaSuccess\nparent: cudaSuccess\n")) << before.result.out;
  EXPECT_EQ(before.result.err, "");
  EXPECT_EQ(before.counts, Counts{});
}

TEST(ForkedChildOfADriverProgram, ThatUsesCudaIsNamed) {
  FourGpus m;
  const Said said = run(m, {probe("forks"), "after"});
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains("] GF302 warning: CUDA used in a forked child (pid ")) << said.lines[0];
  EXPECT_TRUE(said.result.complains("; cuInit at forks+0x")) << said.lines[0];
}

TEST(Fork, WithCudaLiveIsSaidWhereInfoIsAskedFor) {
  FourGpus m;
  const Said said =
      run(m, {probe("forks_shared"), "idles"}, {.devices = "2,0", .env = {{"GPUFENCE_STDERR", "info"}}});
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(std::regex_search(
      said.lines[0],
      std::regex(
          "\\] GF301 info: forked with CUDA live since cuInit at \\+[0-9]+\\.[0-9] s "
          "\\(called from forks_shared\\): a child that does not run another program can't use CUDA; fork "
          "at forks_shared\\+0x[0-9a-f]+ \\(split\\), thread \"forks_shared\"$")))
      << said.lines[0];
}

// ---- GF201, GF202

TEST(ThreadWithoutAChoice, OnAGpuThatTheProcessLeftIsNamed) {
  FourGpus m;
  const Said said = run(m, {probe("chooses_shared"), "helper"});
  EXPECT_EQ(said.result.out, "done\n");
  EXPECT_TRUE(is_line(
      said, zero_and_one(
                "GF201 warning: thread \"pin_memory\" made its first CUDA call without choosing a device → "
                "#0; the process works on #1, chosen by cudaSetDevice at @ (choose) in thread "
                "\"chooses_shared\"; cudaMallocHost at @ (work), thread \"pin_memory\"")));
  EXPECT_EQ(said.counts, (Counts{{"GF201", 1}}));
}

TEST(ThreadWithoutAChoice, ThatLeavesAContextIsNamedWithItsPrice) {
  FourGpus m;
  const Said said = run(m, {probe("chooses_shared"), "context"});
  EXPECT_TRUE(is_line(
      said,
      zero_and_one("GF202 warning: a context of 64 MiB appeared on #0, which this thread did not choose; the "
                   "process works on #1, chosen by cudaSetDevice at @ (choose) in thread \"chooses_shared\"; "
                   "cudaMallocHost at @ (work), "
                   "thread \"pin_memory\"")));
  EXPECT_EQ(said.counts, (Counts{{"GF202", 1}}));
}

TEST(ThreadWithoutAChoice, IsNoFaultWhereTheProcessWorksThereOrItChooses) {
  FourGpus m;
  for (const char* program : {"chooses_shared", "chooses_static"}) {
    for (const char* what : {"chosen", "one_stays", "ranks"}) {
      const Said said = run(m, {probe(program), what});
      EXPECT_EQ(said.result.out, "done\n");
      EXPECT_EQ(said.result.err, "") << program << ' ' << what;
      EXPECT_EQ(said.counts, Counts{}) << program << ' ' << what;
    }
  }
}

// What driver calls show is the same for a thread that chose CUDA 0 and for one that said nothing: no guess.
TEST(ThreadWithoutAChoice, OfAStaticRuntimeIsNotGuessedAt) {
  FourGpus m;
  for (const char* what : {"helper", "context"}) {
    const Said said = run(m, {probe("chooses_static"), what});
    EXPECT_EQ(said.result.err, "") << what;
    EXPECT_EQ(said.counts, Counts{}) << what;
  }
}

TEST(ContextBeforeAChoice, ThatNothingUsesIsNamedAtTheEndWithItsPrice) {
  for (const auto& [how, call, place, price] : {std::tuple{"initialises", "cudaFree", "start", "64"},
                                                std::tuple{"allocates", "cudaMalloc", "allocate", "64"},
                                                std::tuple{"pins", "cudaMallocHost", "pin", "64"},
                                                std::tuple{"asks", "cudaMemGetInfo", "ask", "64"}}) {
    FourGpus m;
    const Said said = run(m, {probe("early_shared"), how});
    EXPECT_TRUE(said.result.says("done\n")) << said.result.out;
    EXPECT_TRUE(is_line(
        said, zero_and_one(
                  "GF202 warning: a context of " + std::string(price) +
                  " MiB appeared on #0 before any thread had chosen a GPU, and nothing used it; the process "
                  "works on #1, chosen by cudaSetDevice at @ (choose) in thread \"early_shared\"; " +
                  call + " at @ (" + place + "), thread \"early_shared\"")));
    EXPECT_EQ(said.counts, (Counts{{"GF202", 1}})) << how;
    const std::vector<nlohmann::json> found = records(m, "GF202");
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].at("bytes"), 67108864);
    EXPECT_EQ(found[0].at("device").at("uuid"), kUuid2);
    EXPECT_EQ(found[0].at("other_device").at("uuid"), kUuid0);
    // Launches and copies are looked at for this, also where nobody asked for a report.
    EXPECT_TRUE(m.run({probe("early_shared"), how}, {.devices = "2,0"})
                    .complains("] GF202 warning: a context of 64 MiB"))
        << how;
  }
}

TEST(ContextBeforeAChoice, IsNoFaultWhereItIsUsedOrGone) {
  FourGpus m;
  m.set_peers("all");
  for (const char* program : {"early_shared", "early_static"}) {
    for (const char* how : {"launches", "copies", "fills", "streams", "receives", "peers", "returns", "stays",
                            "resets", "idles", "managed"}) {
      const Said said = run(m, {probe(program), how});
      EXPECT_EQ(said.result.out, "done\n") << how;
      EXPECT_EQ(said.result.err, "") << program << ' ' << how;
      Counts counts = said.counts;
      counts.erase("GF206");  // the copy is one between GPUs
      EXPECT_EQ(counts, Counts{}) << program << ' ' << how;
      EXPECT_EQ(m.run({probe(program), how}, {.devices = "2,0"}).err, "") << program << ' ' << how;
    }
  }
}

TEST(ContextBeforeAChoice, OfAStaticRuntimeIsNotGuessedAt) {
  FourGpus m;
  for (const char* how : {"initialises", "allocates", "pins", "asks"})
    EXPECT_EQ(run(m, {probe("early_static"), how}).counts, Counts{}) << how;
}

// ---- GF205, GF206

struct Reach {
  const char* program;
  const char *memset, *copy, *launch;  // calls as their programmers wrote them
  bool symbols;
};
class MemoryOfAnotherGpu : public testing::TestWithParam<Reach> {};
INSTANTIATE_TEST_SUITE_P(
    EveryWay, MemoryOfAnotherGpu,
    testing::Values(Reach{"reaches_shared", "cudaMemset", "cudaMemcpy", "cudaLaunchKernel", true},
                    Reach{"reaches_static", "cuMemsetD8", "cuMemcpy", "cuLaunchKernel", false}),
    [](const auto& reach) { return std::string(reach.param.program); });

std::string place(const Reach& reach, const char* function) {
  return reach.symbols ? std::string("@ (") + function + ")" : "@";
}

const With kAll{.devices = "2,0", .options = {"--diagnose", "all"}, .env = {{"GPUFENCE_STDERR", "info"}}};

TEST_P(MemoryOfAnotherGpu, FilledIsNamed) {
  FourGpus m;
  const Reach& reach = GetParam();
  for (const char* peers : {"none", "all"}) {
    m.set_peers(peers);
    const Said said = run(m, {probe(reach.program), "memset"});
    EXPECT_TRUE(said.result.says("fill(other): cudaErrorInvalidValue\n")) << said.result.out;
    EXPECT_TRUE(is_line(
        said, zero_and_one("GF205 warning: memory of #0, allocated at " + place(reach, "allocate") +
                           ", filled on #1; peer access 1→0 not enabled (" +
                           (std::string(peers) == "all" ? "possible" : "impossible") + "); " + reach.memset +
                           " at " + place(reach, "fill") + ", thread \"" + reach.program + "\"")));
    EXPECT_EQ(said.counts, (Counts{{"GF205", 1}}));
  }
}

TEST_P(MemoryOfAnotherGpu, AsAnArgumentIsInfoAndAWarningOnceItFailed) {
  FourGpus m;
  Reach reach = GetParam();
#ifdef GPUFENCE_HAS_CUPTI  // which shows the calls of every runtime at this level
  reach.launch = "cudaLaunchKernel";
#endif
  const Said said = run(m, {probe(reach.program), "kernel"}, kAll);
  EXPECT_TRUE(said.result.says("cudaDeviceSynchronize(): cudaErrorIllegalAddress\n")) << said.result.out;
  ASSERT_EQ(said.lines.size(), 2u) << said.result.err;
  const std::string words = zero_and_one("argument 2 of kernel scale is memory of #0, allocated at ");
  const std::string rest = zero_and_one("; launched on #1; peer access 1→0 not enabled (impossible)");
  EXPECT_TRUE(said.lines[0].find("] GF205 info: " + words) != std::string::npos) << said.lines[0];
  EXPECT_TRUE(said.lines[0].find(rest + "; " + reach.launch + " at ") != std::string::npos) << said.lines[0];
  EXPECT_TRUE(said.lines[1].find("] GF205 warning: " + words) != std::string::npos) << said.lines[1];
  EXPECT_TRUE(said.lines[1].find(rest + "; then CUDA met an illegal address; " + reach.launch + " at ") !=
              std::string::npos)
      << said.lines[1];
  EXPECT_EQ(said.counts, (Counts{{"GF205", 2}}));
}

TEST_P(MemoryOfAnotherGpu, InAStructByValueIsFound) {
  FourGpus m;
  const Said said = run(m, {probe(GetParam().program), "kernel_struct"}, kAll);
  ASSERT_EQ(said.lines.size(), 2u) << said.result.err;
  EXPECT_TRUE(said.lines[1].find(zero_and_one(
                  "] GF205 warning: argument 1 of kernel move is memory of #0")) != std::string::npos)
      << said.lines[1];
}

TEST_P(MemoryOfAnotherGpu, ThatAKernelDoesNotTouchIsInfoAlone) {
  FourGpus m;
  const Said said = run(m, {probe(GetParam().program), "kernel_unused"}, kAll);
  EXPECT_TRUE(said.result.says("cudaDeviceSynchronize(): cudaSuccess\n")) << said.result.out;
  EXPECT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains("] GF205 info: argument 2 of kernel scale is memory of "))
      << said.result.err;
}

TEST_P(MemoryOfAnotherGpu, AsAnArgumentIsLeftAloneUnlessAskedFor) {
  FourGpus m;
  const Said said = run(m, {probe(GetParam().program), "kernel"});
  EXPECT_EQ(said.result.err, "");
  EXPECT_EQ(said.counts, Counts{});
}

TEST_P(MemoryOfAnotherGpu, CopiedThroughTheHostIsInfo) {
  FourGpus m;
  const Reach& reach = GetParam();
  const Said said =
      run(m, {probe(reach.program), "copy"}, {.devices = "2,0", .env = {{"GPUFENCE_STDERR", "info"}}});
  EXPECT_TRUE(is_line(
      said,
      zero_and_one("GF206 info: a copy from #0 to #1 goes through the host: peer access 1→0 not enabled "
                   "(impossible); " +
                   std::string(reach.copy) + " at " + place(reach, "copy") + ", thread \"" + reach.program +
                   "\"")));
  EXPECT_EQ(said.counts, (Counts{{"GF206", 3}}));
  EXPECT_EQ(run(m, {probe(reach.program), "copy"}).result.err, "");  // no warning
}

TEST_P(MemoryOfAnotherGpu, IsNoFaultWithPeerAccess) {
  FourGpus m;
  m.set_peers("all");
  for (const char* what : {"memset", "copy", "kernel", "kernel_struct"}) {
    const Said said = run(m, {probe(GetParam().program), what, "peers"}, kAll);
    EXPECT_TRUE(said.result.says("cudaDeviceSynchronize(): cudaSuccess\n") ||
                said.result.says("fill(other): cudaSuccess\n"))
        << said.result.out;
    EXPECT_EQ(said.result.err, "") << what;
    EXPECT_EQ(said.counts, Counts{}) << what;
  }
}

// Memory of pools and mappings is opened to GPUs one by one, without peer access between contexts.
TEST(MemoryOfAPoolOrMapping, IsOfAnotherGpuUnlessItWasOpened) {
  FourGpus m;
  m.set_peers("all");
  for (const char* what : {"pool", "mapping"}) {
    const Said fault = run(m, {probe("handles_driver"), what, "fault"}, kAll);
    EXPECT_EQ(fault.result.out, "cuCtxSynchronize(): CUDA_ERROR_ILLEGAL_ADDRESS\n") << what;
    EXPECT_EQ(fault.counts, (Counts{{"GF205", 2}})) << what;
    EXPECT_TRUE(
        fault.result.complains(zero_and_one("] GF205 warning: argument 1 of kernel saxpy is memory of #0")))
        << fault.result.err;
    EXPECT_TRUE(fault.result.complains(zero_and_one(
        "; launched on #1; peer access 1→0 not enabled (possible); then CUDA met an illegal address; "
        "cuLaunchKernel at ")))
        << fault.result.err;
    EXPECT_EQ(fault.result.complains(", allocated at handles_driver+"), std::string(what) == "pool");
    const Said twin = run(m, {probe("handles_driver"), what, "twin"}, kAll);
    EXPECT_EQ(twin.result.out, "cuCtxSynchronize(): CUDA_SUCCESS\n") << what;
    EXPECT_EQ(twin.result.err, "") << what;
    EXPECT_EQ(twin.counts, Counts{}) << what;
  }
}

TEST_P(MemoryOfAnotherGpu, IsNotWhatIsManagedOrTheHostsOrOnesOwn) {
  FourGpus m;
  const Said said = run(m, {probe(GetParam().program), "allowed"}, kAll);
  EXPECT_TRUE(said.result.says("cudaDeviceSynchronize(): cudaSuccess\n")) << said.result.out;
  EXPECT_EQ(said.result.err, "");
  EXPECT_EQ(said.counts, Counts{});
}

// All launches of a program that is compiled without optimisation come from one place, nvcc's own.
TEST(StreamOfAnotherGpu, IsNamedForEachKernelThoughTheyAreLaunchedAtOnePlace) {
  FourGpus m;
  const Said said = run(m, {probe("elsewhere_shared"), "kernels"});
  EXPECT_EQ(said.result.out, "cudaErrorInvalidResourceHandle\n");
  EXPECT_EQ(said.lines.size(), 2u) << said.result.err;
  for (const char* kernel : {"first", "second"})
    EXPECT_TRUE(
        std::regex_search(said.result.err, std::regex("GF203 warning: kernel " + std::string(kernel) +
                                                      " launched on .*; cudaLaunchKernel at "
                                                      "elsewhere_shared\\+0x[0-9a-f]+ \\(launch_both\\)")))
        << said.result.err;
  const Result last = m.gpufence({"last"});
  for (const char* kernel : {"first", "second"})
    EXPECT_NE(last.out.find("kernel " + std::string(kernel) + " launched on "), std::string::npos)
        << last.out;
}

// A thread waits, holding the loader's lock, for one that comes upon a fault: nothing that is said may need
// that lock.
TEST(Findings, AreMadeWhileAnotherThreadHoldsTheLoadersLock) {
  for (const char* options : {"", "--backtrace", "--report"}) {
    FourGpus m;
    With with{.devices = "2,0"};
    if (*options != 0) with.options = {options};
    const Result r = m.run({"timeout", "60", probe("elsewhere_shared"), "locked"}, with);
    EXPECT_EQ(r.out, "cudaErrorInvalidDevice\n") << options << r.exit;
    EXPECT_TRUE(r.complains("GF101 warning: ordinal 7 asked for")) << options << r.err;
  }
}

TEST(Findings, AreNoneWhereAGpuExistsAndIsNoPeer) {
  FourGpus m;
  const Result r =
      m.run({probe("elsewhere_shared"), "peers"}, {.devices = "2,0", .options = {"--remap", "5=1"}});
  EXPECT_EQ(r.out, "cudaErrorInvalidDevice\n");
  EXPECT_FALSE(r.complains("GF101")) << r.err;
}

TEST(Settings, ThatAreEmptyAreNone) {
  for (const char* name : {"GPUFENCE_DEVICES", "GPUFENCE_NUMBERING", "GPUFENCE_GPU_MEM",
                           "GPUFENCE_GPU_MEM_PER_PROCESS", "GPUFENCE_REMAP", "GPUFENCE_BACKTRACE"}) {
    FourGpus m;
    const Result r = m.run({probe("list_gpus")}, {.env = {{name, ""}}});
    EXPECT_TRUE(r.says("GPUs: 4\n")) << name << r.out;
    EXPECT_EQ(r.err, "") << name;
  }
}

// ---- GF208 and the report

TEST(Report, CountsACopyForTheGpuWhoseMemoryIsMappedThereNow) {
  FourGpus m;
  const Result r = m.run({probe("elsewhere_shared"), "mapped"}, {.devices = "2,0", .options = {"--report"}});
  EXPECT_EQ(r.out, "0\n0\n");
  EXPECT_FALSE(r.complains("GF208")) << r.err;
  EXPECT_TRUE(r.complains("share of work: CUDA 0 50 %, CUDA 1 50 %")) << r.err;
}

TEST(Report, TakesCopiesOfArraysAndFillsForWork) {
  for (const char* what : {"arrays", "fills"}) {
    FourGpus m;
    const Result r = m.run({probe("elsewhere_shared"), what}, {.devices = "2,0", .options = {"--report"}});
    EXPECT_EQ(r.out, "0\n") << what;
    EXPECT_FALSE(r.complains("GF208")) << what << r.err;
  }
}

TEST(Report, CountsLaunchesCopiesAndThreadsOfEachGpu) {
  FourGpus m;
  for (const char* program : {"reaches_shared", "reaches_static"}) {
    const Said said = run(m, {probe(program), "allowed"});
    ASSERT_EQ(said.gpus.size(), 2u);
    EXPECT_EQ(said.gpus[0].at("launches"), 0) << program;
    EXPECT_EQ(said.gpus[0].at("copies"), 1) << program;  // to the host
    EXPECT_EQ(said.gpus[0].at("threads"), 1) << program;
    EXPECT_EQ(said.gpus[1].at("launches"), 4) << program;
    EXPECT_EQ(said.gpus[1].at("copies"), 2) << program;  // within, and from the host
    EXPECT_EQ(said.gpus[1].at("threads"), 1) << program;
    EXPECT_EQ(said.notes, std::vector<std::string>{}) << program;
  }
}

TEST(Report, SaysWhichGpusDidNothing) {
  FourGpus m;
  const Said said = run(m, {probe("kernel_shared")}, {.devices = "2,0,1"});
  EXPECT_EQ(said.result.err, "");
  EXPECT_TRUE(said.one_worked);
  EXPECT_EQ(said.notes,
            std::vector<std::string>{"GF208: all work was on " + std::string(kZero) + "; " + kOne +
                                     ", CUDA 2 = host GPU 1 (Beta, 0000:41:00.0) did nothing"});
}

TEST(Report, HasEveryColumnAndTheSharesOfMemoryAndWork) {
  FourGpus m;
  const Result r =
      m.run({probe("leaves_shared"), "exit", "healthy"}, {.devices = "2,0", .options = {"--report"}});
  const std::string number = "[0-9]+";
  const std::regex whole(
      R"(gpufence\[[0-9]+\] report: [^ ]*/leaves_shared exit healthy, [0-9.]+ s, run [^ ]+\n)"
      R"(  fenced since the first CUDA call at \+[0-9.]+ s: driver calls and the shared runtime \(libcudart.so.13\); )"
      R"(reach: this process\n)"
      R"(  GPU +peak held +cap +allocations +refusals +launches +copies +threads +first chosen by\n)"
      R"(  CUDA 0 = host GPU 2 \(Gamma, 0000:81:00.0\) +12 KiB +– +3 +0 +9 +3 +2  cudaSetDevice at leaves_shared\+0x.*\n)"
      R"(  CUDA 1 = host GPU 0 \(Alpha, 0000:01:00.0\) +4 KiB +– +1 +0 +5 +0 +1  cudaSetDevice at leaves_shared\+0x.*\n)"
      R"(  share of memory: CUDA 0 75 %, CUDA 1 25 %\n)"
      R"(  share of work: CUDA 0 71 %, CUDA 1 29 %\n)"
      R"(  findings: none\n)");
  EXPECT_TRUE(std::regex_match(r.err, whole)) << r.err;
}

// What `last` says of a program, however it ended, with a report asked for and without.
TEST(Report, OfAProgramThatWasKilledHasTheWorkThatItDid) {
  for (const char* program : {"leaves_shared", "leaves_static"}) {
    for (const char* how : {"exit", "_exit", "abort", "kill", "term"}) {
      for (const bool asked : {true, false}) {
        FourGpus m;
        // A static runtime keeps the fault to itself: then nothing is left behind unless it was asked for.
        const bool silent = !asked && std::string(program) == "leaves_static";
        With with{.devices = "2,0"};
        if (asked) with.options = {"--report-file", (m.directory() / "report.json").string()};
        EXPECT_TRUE(m.run({probe(program), how}, with).says("worked\n"));
        const Result told = m.gpufence({"last", "--json"});
        ASSERT_EQ(told.exit, silent ? 1 : 0) << program << ' ' << how;
        if (silent) continue;
        const nlohmann::json report = nlohmann::json::parse(told.out).at("processes").at(0);
        EXPECT_EQ(report.at("state"), std::string(how) == "exit" ? "ended" : "cut off") << how;
        const nlohmann::json& zero = report.at("gpus").at(0);
        const nlohmann::json& one = report.at("gpus").at(1);
        EXPECT_EQ(zero.at("launches"), 9) << program << ' ' << how << ' ' << asked;
        EXPECT_EQ(one.at("launches"), 5) << how;
        EXPECT_EQ(zero.at("copies"), 3) << how;
        EXPECT_EQ(one.at("copies"), 0) << how;
        EXPECT_EQ(zero.at("threads"), 2) << how;
        EXPECT_EQ(one.at("threads"), 1) << how;
        EXPECT_EQ(zero.at("allocations"), asked ? nlohmann::json(3) : nlohmann::json(nullptr)) << how;
        EXPECT_EQ(zero.at("peak_bytes"), asked ? nlohmann::json(3 * 4096) : nlohmann::json(nullptr)) << how;
        EXPECT_NEAR(zero.at("work_share").get<double>(), 12.0 / 17, 1e-9);
      }
    }
  }
}

// ---- All at once

// A short run; the target `stress` asks for ten million launches and copies.
std::string rounds() {
  const char* asked = std::getenv("GPUFENCE_STRESS_OPERATIONS");
  constexpr unsigned long kOperationsARound = 40;  // of eight threads, on average
  return std::to_string(asked != nullptr ? std::strtoul(asked, nullptr, 10) / kOperationsARound : 200);
}

TEST(EightThreadsOnFourGpus, GiveTheFindingsThatWerePlantedAndNoOther) {
  FourGpus m;
  for (const char* level : {"default", "all"}) {
    const Said said = run(m, {probe("stresses_shared"), rounds()},
                          {.devices = "2,0,3,1", .options = {"--diagnose", level}});
    unsigned long launches = 0, records = 0, copies = 0, wrong = 1;
    long grown = 1 << 20;
    ASSERT_EQ(std::sscanf(said.result.out.c_str(), "launches %lu records %lu copies %lu wrong %lu grown %ld",
                          &launches, &records, &copies, &wrong, &grown),
              5)
        << said.result.out << said.result.err;
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(launches, 1000u);
    EXPECT_EQ(said.counts, (Counts{{"GF203", launches}, {"GF204", records}, {"GF206", copies}})) << level;
#ifndef __SANITIZE_ADDRESS__          // which keeps what was freed for a while
    EXPECT_LT(grown, 4096) << level;  // KiB; a leak of 100 bytes a handle or launch would be more
#endif
    EXPECT_EQ(said.gpus.size(), 4u);
  }
}

}  // namespace
}  // namespace gpufence::harness
