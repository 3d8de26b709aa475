// Level "all" with CUPTI: programs with a runtime of their own get the findings that programs with a shared
// one get, in the runtime's words; and CUPTI goes to whoever else wants it.
#include <gtest/gtest.h>

#include <fstream>

#include "said.h"

namespace gpufence::harness {
namespace {

namespace fs = std::filesystem;

// The call and the place of what CUPTI tells are the program's, as where the runtime is shared.
const With kAll{.devices = "2,0", .options = {"--diagnose", "all"}, .env = {{"GPUFENCE_STDERR", "info"}}};

With all_with(const std::string& name, const std::string& value) {
  With with = kAll;
  with.env[name] = value;
  return with;
}

// Runs it where the loader finds the simulated driver in `libraries`, not beside the stand-in CUPTI.
Said run_at(Machine& m, const fs::path& libraries, std::vector<std::string> program,
            const With& with = kAll) {
  for (const char* library : {"libcuda.so.1", "libnvidia-ml.so.1"})
    fs::create_symlink(simulator(library), libraries / library);
  program.insert(program.begin(), {"/usr/bin/env", "LD_LIBRARY_PATH=" + libraries.string()});
  return run(m, program, with);
}

constexpr const char* kOrdinal =
    "GF101 warning: ordinal 7 asked for, 2 GPUs visible: CUDA 0 = host GPU 2, CUDA 1 = host GPU 0 "
    "(CUDA_VISIBLE_DEVICES=\"2,0\"); cudaSetDevice at @ (choose), thread \"subscribes\"";
constexpr const char* kAsked = "choose(7): cudaErrorInvalidDevice\nchoose(7): cudaErrorInvalidDevice\n";
constexpr const char* kNoNames =
    "] GF501 info: calls of a runtime that is linked statically have no names in findings, and an ordinal "
    "that it "
    "refuses is not seen: ";

// ---- What static runtimes show then

TEST(StaticRuntime, ShowsAnOrdinalThatItRefuses) {
  FourGpus m;
  const Said said = run(m, {probe("subscribes"), "ordinal"}, kAll);
  EXPECT_EQ(said.result.out, std::string(kAsked) + "CUPTI is loaded\n");
  EXPECT_TRUE(is_line(said, kOrdinal));
  EXPECT_EQ(said.counts, (Counts{{"GF101", 2}}));
}

TEST(StaticRuntime, ShowsWhatEveryThreadAsksFor) {
  FourGpus m;
  const Said said = run(m, {probe("subscribes"), "threads"}, kAll);
  EXPECT_EQ(said.counts, (Counts{{"GF101", 800}}));
  EXPECT_EQ(said.lines.size(), 1u) << said.result.err;
}

TEST(StaticRuntime, ShowsALaunchThatItRefuses) {
  FourGpus m;
  const Said said = run(m, {probe("mixes_static"), "launch"}, kAll);
  EXPECT_EQ(said.result.out, "step(memory[1], stream[0]): cudaErrorInvalidResourceHandle\n");
  EXPECT_TRUE(is_line(
      said, zero_and_one("GF203 warning: kernel saxpy launched on #1 with a stream of #0, created at @ "
                         "(make_stream); cudaLaunchKernel at @ (step), thread \"mixes_static\"")));
  EXPECT_EQ(said.counts, (Counts{{"GF203", 1}}));
}

TEST(StaticRuntime, ShowsAKernelInChevrons) {
  FourGpus m;
  const Said said = run(m, {probe("mixes_static"), "chevrons"}, kAll);
  EXPECT_EQ(said.result.out, "cudaGetLastError(): cudaErrorInvalidResourceHandle\n");
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains(zero_and_one(
      "] GF203 warning: kernel saxpy launched on #1 with a stream of #0, created at mixes_static+0x")))
      << said.result.err;
  EXPECT_TRUE(said.result.complains("; cudaLaunchKernel at mixes_static+0x")) << said.result.err;
}

TEST(StaticRuntime, ShowsTwoLaunchesFromOnePlaceAsOneWithItsCount) {
  FourGpus m;
  const Said said = run(m, {probe("mixes_static"), "launch_twice"}, kAll);
  EXPECT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_EQ(said.counts, (Counts{{"GF203", 2}}));
}

TEST(StaticRuntime, ShowsItsEvents) {
  FourGpus m;
  const Said recorded = run(m, {probe("mixes_static"), "record"}, kAll);
  EXPECT_TRUE(is_line(
      recorded,
      zero_and_one("GF204 warning: an event of #1, created at @ (make_event), recorded in a stream of #0, "
                   "created at @ (make_stream); cudaEventRecord at @ (record), thread \"mixes_static\"")));
  EXPECT_EQ(recorded.counts, (Counts{{"GF204", 1}}));
  const Said timed = run(m, {probe("mixes_static"), "elapsed"}, kAll);
  EXPECT_TRUE(is_line(
      timed,
      zero_and_one("GF204 warning: the time from an event of #0, created at @ (make_event), to an event of "
                   "#1, created at @ (make_event), asked for; cudaEventElapsedTime at @ (elapsed), thread "
                   "\"mixes_static\"")));
  EXPECT_EQ(timed.counts, (Counts{{"GF204", 1}}));
}

TEST(StaticRuntime, ShowsAThreadThatChoseNothing) {
  FourGpus m;
  const Said said = run(m, {probe("chooses_static"), "helper"}, kAll);
  EXPECT_EQ(said.result.out, "done\n");
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains(zero_and_one(
      "] GF201 warning: thread \"pin_memory\" made its first CUDA call without choosing a device → "
      "#0; the process works on #1, chosen by cudaSetDevice at chooses_static+0x")))
      << said.result.err;
  EXPECT_TRUE(std::regex_search(said.lines[0], std::regex("; cudaMallocHost at chooses_static\\+0x[0-9a-f]+ "
                                                          "\\(work\\), thread \"pin_memory\"$")))
      << said.lines[0];
  EXPECT_EQ(said.counts, (Counts{{"GF201", 1}}));
}

TEST(StaticRuntime, HasAContextNamedThatAKernelMadeWhereNobodyChose) {
  for (const char* program : {"chooses_static", "chooses_shared"}) {
    FourGpus m;
    const Said said = run(m, {probe(program), "launches"}, kAll);
    EXPECT_EQ(said.result.out, "done\n");
    EXPECT_TRUE(
        said.result.complains(zero_and_one("] GF202 warning: a context of 64 MiB appeared on #0, which this "
                                           "thread did not choose; the process works on #1")))
        << program << said.result.err;
    EXPECT_EQ(said.counts, (Counts{{"GF202", 1}})) << program;
  }
}

TEST(StaticRuntime, ShowsAContextThatNobodyChose) {
  FourGpus m;
  const Said said = run(m, {probe("chooses_static"), "context"}, kAll);
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains(zero_and_one(
      "] GF202 warning: a context of 64 MiB appeared on #0, which this thread did not choose; the "
      "process works on #1, chosen by cudaSetDevice at chooses_static+0x")))
      << said.result.err;
  EXPECT_EQ(said.counts, (Counts{{"GF202", 1}}));
}

TEST(StaticRuntime, ShowsMemoryOfAnotherGpu) {
  FourGpus m;
  const Said filled = run(m, {probe("reaches_static"), "memset"}, kAll);
  EXPECT_TRUE(is_line(
      filled, zero_and_one(
                  "GF205 warning: memory of #0, allocated at @ (allocate), filled on #1; peer access 1→0 not "
                  "enabled (impossible); cudaMemset at @ (fill), thread \"reaches_static\"")));
  EXPECT_EQ(filled.counts, (Counts{{"GF205", 1}}));
  const Said copied = run(m, {probe("reaches_static"), "copy"}, kAll);
  EXPECT_TRUE(is_line(
      copied,
      zero_and_one("GF206 info: a copy from #0 to #1 goes through the host: peer access 1→0 not enabled "
                   "(impossible); cudaMemcpy at @ (copy), thread \"reaches_static\"")));
  EXPECT_EQ(copied.counts, (Counts{{"GF206", 3}}));
}

TEST(StaticRuntime, ShowsAMaskThatIsSetTooLate) {
  FourGpus m;
  const Said said = run(m, {probe("masks_static"), "late"}, kAll);
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains("] GF102 warning: CUDA_VISIBLE_DEVICES changed ")) << said.result.err;
  EXPECT_TRUE(said.result.complains("; cudaSetDevice at masks_static+0x")) << said.result.err;
}

TEST(StaticRuntime, ShowsWhatAForkedChildCalls) {
  FourGpus m;
  const Said said = run(m, {probe("forks_static"), "uses"}, all_with("GPUFENCE_STDERR", "warning"));
  EXPECT_TRUE(said.result.says("child: cudaErrorInitializationError\n")) << said.result.out;
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(std::regex_search(
      said.lines[0],
      std::regex("\\] GF302 warning: .*; cudaMalloc at forks_static\\+0x[0-9a-f]+ \\(use\\), thread")))
      << said.lines[0];
  EXPECT_EQ(said.result.exit, 0);
}

TEST(StaticRuntime, IsSilentWhereThereIsNoFault) {
  FourGpus m;
  for (const char* what : {"chosen", "one_stays", "ranks"}) {
    const Said said = run(m, {probe("chooses_static"), what}, kAll);
    EXPECT_EQ(said.result.out, "done\n");
    EXPECT_EQ(said.result.err, "") << what;
    EXPECT_EQ(said.counts, Counts{}) << what;
  }
  const Said reused = run(m, {probe("mixes_static"), "reused"}, kAll);
  EXPECT_TRUE(reused.result.says("cudaDeviceSynchronize(): cudaSuccess\n")) << reused.result.out;
  EXPECT_EQ(reused.result.err, "");
  EXPECT_EQ(reused.counts, Counts{});
  const Said before = run(m, {probe("forks_static"), "before"}, kAll);
  EXPECT_TRUE(before.result.says("child: cudaSuccess\nparent: cudaSuccess\n")) << before.result.out;
  EXPECT_EQ(before.result.err, "");
}

TEST(SharedRuntime, IsToldOfOnceWhereCuptiTellsToo) {
  FourGpus m;
  const Said launched = run(m, {probe("mixes_shared"), "launch_twice"}, kAll);
  EXPECT_EQ(launched.lines.size(), 1u) << launched.result.err;
  EXPECT_EQ(launched.counts, (Counts{{"GF203", 2}}));
  const Said helper = run(m, {probe("chooses_shared"), "helper"}, kAll);
  EXPECT_EQ(helper.lines.size(), 1u) << helper.result.err;
  EXPECT_EQ(helper.counts, (Counts{{"GF201", 1}}));
  const Said ordinal = run(m, {probe("set_device"), "7"}, kAll);
  EXPECT_EQ(ordinal.lines.size(), 1u) << ordinal.result.err;
  EXPECT_EQ(ordinal.counts, (Counts{{"GF101", 1}}));
}

TEST(StaticRuntime, MayCallWhenTheProgramEnds) {
  FourGpus m;
  const Said said = run(m, {probe("subscribes"), "destructs"}, kAll);
  EXPECT_EQ(said.result.exit, 0);
  EXPECT_TRUE(said.result.says(kAsked)) << said.result.out;
}

// ---- Whom CUPTI goes to

TEST(Cupti, IsNotOpenedUnlessAskedFor) {
  FourGpus m;
  for (const char* level : {"off", "default"}) {
    const Said said =
        run(m, {probe("subscribes"), "ordinal"},
            {.devices = "2,0", .options = {"--diagnose", level}, .env = {{"GPUFENCE_STDERR", "info"}}});
    EXPECT_EQ(said.result.out, std::string(kAsked) + "CUPTI is not loaded\n") << level;
    EXPECT_EQ(said.result.err, "") << level;
  }
}

TEST(Cupti, IsNotOpenedWhereAProfilerIsToCome) {
  FourGpus m;
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}) {
    const Said said = run(m, {probe("subscribes"), "ordinal"}, all_with(name, "/opt/tool.so"));
    EXPECT_EQ(said.result.out, std::string(kAsked) + "CUPTI is not loaded\n") << name;
    ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
    EXPECT_TRUE(said.result.complains(kNoNames + std::string(name) + " is set, so a profiler has CUPTI\n"))
        << said.result.err;
  }
}

TEST(Cupti, IsNotOpenedWhereAProfilerIs) {
  FourGpus m;
  const fs::path tool = m.directory() / "libToolsInjection64.so";
  fs::create_symlink(simulator("libnvidia-ml.so.1"), tool);
  const Said said = run(m, {probe("subscribes"), "opens", tool.string()}, kAll);
  EXPECT_EQ(said.result.out, std::string(kAsked) + "CUPTI is not loaded\n");
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains(kNoNames + std::string("libToolsInjection64.so is loaded")))
      << said.result.err;
}

TEST(Cupti, IsLeftToAProgramThatSubscribedBefore) {
  FourGpus m;
  const Said said = run(m, {probe("subscribes"), "before"}, kAll);
  EXPECT_EQ(said.result.out,
            "cuptiSubscribe: 0\nenable: 0\n" + std::string(kAsked) + "told\nCUPTI is loaded\n");
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains(kNoNames + std::string("libcupti.so.13 is loaded"))) << said.result.err;
}

TEST(Cupti, IsGivenUpForAProgramThatLooksItUp) {
  FourGpus m;
  const Said said = run(m, {probe("subscribes"), "after"}, kAll);
  EXPECT_EQ(said.result.out,
            "cuptiSubscribe: 0\nenable: 0\n" + std::string(kAsked) + "told\nCUPTI is loaded\n");
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(
      said.result.complains("] GF501 info: CUPTI is left to the program (cuptiSubscribe at subscribes+0x"))
      << said.result.err;
}

TEST(Cupti, IsGivenUpForALibraryThatIsLinkedToIt) {
  FourGpus m;
  const Said said = run(m, {probe("subscribes"), "after_linked", probe("libtool.so")}, kAll);
  EXPECT_EQ(said.result.out, "tool_subscribe: 0\n" + std::string(kAsked) + "CUPTI is loaded\n");
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(
      said.result.complains("] GF501 info: CUPTI is left to the program (cuptiSubscribe at libtool.so+0x"))
      << said.result.err;
}

// The end of that call is told to nobody: it must not give its name to what comes after.
TEST(Cupti, IsGivenUpAmidACallOfAnotherThread) {
  FourGpus m;
  const Said said = run(m, {probe("subscribes"), "amid"}, all_with("GPUFENCE_STDERR", "warning"));
  EXPECT_EQ(said.result.out,
            "cuptiSubscribe: 0\nenable: 0\nrecord: cudaErrorInvalidResourceHandle\ntold\nCUPTI is loaded\n");
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(said.result.complains("; cuEventRecord at subscribes+0x")) << said.result.err;
}

// ---- Where it can't be had

TEST(Cupti, ThatIsNotThereIsOneLine) {
  FourGpus m;
  const fs::path libraries = m.directory() / "libraries";
  fs::create_directory(libraries);
  // Whatever this machine has: a file that is none hides it from the loader.
  for (const char* release :
       {"13", "12", "11.8", "11.7", "11.6", "11.5", "11.4", "11.3", "11.2", "11.1", "11.0"})
    std::ofstream(libraries / ("libcupti.so." + std::string(release)));
  const Said said = run_at(m, libraries, {probe("subscribes"), "ordinal"});
  EXPECT_EQ(said.result.out, std::string(kAsked) + "CUPTI is not loaded\n");
  EXPECT_EQ(said.result.exit, 0);
  ASSERT_EQ(said.lines.size(), 1u) << said.result.err;
  EXPECT_TRUE(
      said.result.complains(kNoNames + std::string("libcupti.so.13 can't be opened; it comes with the CUDA "
                                                   "toolkit (extras/CUPTI/lib64, ")))
      << said.result.err;
  EXPECT_EQ(said.counts, (Counts{{"GF501", 1}}));
}

TEST(Cupti, ThatDoesNotGoWithTheDriverIsOneLine) {
  FourGpus m;
  m.set_driver_version(12040);
  const fs::path libraries = m.directory() / "libraries";
  fs::create_directory(libraries);
  fs::create_symlink(simulator("libcupti.so.13"), libraries / "libcupti.so.12");
  const Said said = run_at(m, libraries, {probe("mixes_driver"), "record"});
  ASSERT_EQ(said.lines.size(), 2u) << said.result.err;
  EXPECT_TRUE(
      said.result.complains(kNoNames + std::string("libcupti.so.12 answers CUPTI_ERROR_NOT_INITIALIZED: it "
                                                   "does not go with this driver\n")))
      << said.result.err;
  EXPECT_TRUE(said.result.complains("; cuEventRecord at mixes_driver+0x")) << said.result.err;
}

}  // namespace
}  // namespace gpufence::harness
