// The ten kinds of wrong-device report that users of frameworks file, each as a small program of the shape
// that they describe: a framework's library under a Python program, threads, ranks, masks and forks. The line
// that is said holds what was asked for there.
#include <gtest/gtest.h>

#include "said.h"

namespace gpufence::harness {
namespace {

std::vector<std::string> python(std::vector<std::string> words, const char* library = "libframework.so") {
  std::vector<std::string> argv = {"python3", probe("reports.py"), probe(library)};
  argv.insert(argv.end(), words.begin(), words.end());
  return argv;
}

// A framework brings the runtime inside of itself, or beside itself.
class Framework : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(EveryWay, Framework, testing::Values("libframework.so", "libframework_static.so"),
                         [](const auto& library) {
                           return std::string(library.param) == "libframework.so" ? "shared" : "static";
                         });

testing::AssertionResult matches(const Said& said, const std::string& pattern) {
  if (said.lines.size() == 1 && std::regex_search(said.lines[0], std::regex(pattern)))
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "stdout \"" << said.result.out << "\", stderr \"" << said.result.err
                                     << "\", wanted \"" << pattern << "\"";
}

// 1. os.environ after torch.cuda.is_available().
TEST_P(Framework, MaskSetTooLate) {
  FourGpus m;
  const std::string library = GetParam();
  const Said said = run(m, python({"late_mask"}, GetParam()), {.unset = {"CUDA_VISIBLE_DEVICES"}});
  EXPECT_TRUE(said.result.says("step 0 0\n")) << said.result.out << said.result.err;
  std::string pattern =
      R"(GF102 warning: CUDA_VISIBLE_DEVICES changed \(unset → "2"\) at \+[0-9.]+ s, after cuInit )"
      R"(at \+[0-9.]+ s \(called from )" +
      library + R"(\): the driver ignores it; )";
  if (library == "libframework.so")
    pattern += R"(cudaSetDevice at libframework.so\+0x[0-9a-f]+ \(framework_set_device\), thread "python3")";
  EXPECT_TRUE(matches(said, pattern));
  EXPECT_EQ(said.counts.size(), 1u);
}

// 2. nvidia-smi -i 0 and CUDA_VISIBLE_DEVICES=0 are two cards.
TEST_P(Framework, OrderOfAnotherTool) {
  FourGpus m;
  const With mask{.env = {{"CUDA_VISIBLE_DEVICES", "0,1"}}};
  const Said said = run(m, python({"ordinal", "0"}, GetParam()), mask);
  EXPECT_TRUE(
      is_line(said,
              "GF104 warning: CUDA_VISIBLE_DEVICES=0,1 counts in CUDA's order here, not in nvidia-smi's: "
              "CUDA 0 = host GPU 3 (Delta, 0000:c1:00.0) = GPU-3d3d3d3d where nvidia-smi's number is 0, "
              "CUDA 1 = host GPU 2 (Gamma, 0000:81:00.0) = GPU-2c2c2c2c where nvidia-smi's number is 1; "
              "set CUDA_DEVICE_ORDER=PCI_BUS_ID, or use gpufence run -d"));
  EXPECT_EQ(said.counts, (Counts{{"GF104", 1}}));
  With ordered = mask;
  ordered.env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  EXPECT_EQ(run(m, python({"ordinal", "0"}, GetParam()), ordered).counts, Counts{});
}

// 3. set_device(local_rank) under a mask of fewer GPUs: an ordinal that never reaches the driver.
TEST(Reported, OrdinalThatIsNotVisible) {
  FourGpus m;
  const With mask{.env = {{"CUDA_VISIBLE_DEVICES", "1"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}};
  const Said said = run(m, python({"ordinal", "1"}), mask);
  EXPECT_EQ(said.result.out, "set_device 101\n");
  EXPECT_TRUE(is_line(said,
                      "GF101 warning: ordinal 1 asked for, 1 GPU visible: CUDA 0 = host GPU 1 "
                      "(CUDA_VISIBLE_DEVICES=\"1\"); host GPU 1 is ordinal 0 here; cudaSetDevice at @ "
                      "(framework_set_device), thread \"python3\""));
  EXPECT_EQ(said.counts, (Counts{{"GF101", 1}}));
  EXPECT_EQ(run(m, python({"ordinal", "0"}), mask).counts, Counts{});
}

// 4. A UUID, or a MIG name that is none here.
TEST_P(Framework, MaskOfNamesThatEndsEarly) {
  FourGpus m;
  const auto under = [&](const char* mask) {
    return run(m, python({"ordinal", "0"}, GetParam()), {.env = {{"CUDA_VISIBLE_DEVICES", mask}}});
  };
  EXPECT_TRUE(
      is_line(under("GPU-2c2c,MIG-6cbf2b5f-1b2c-5d1c-a7f5-7d0f6a1c9f11,GPU-1b1b"),
              "GF103 warning: "
              "CUDA_VISIBLE_DEVICES=GPU-2c2c,MIG-6cbf2b5f-1b2c-5d1c-a7f5-7d0f6a1c9f11,GPU-1b1b: its entry "
              "'MIG-6cbf2b5f-1b2c-5d1c-a7f5-7d0f6a1c9f11' is the UUID of no GPU here: the list ends there, "
              "one GPU is visible: CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0) = GPU-2c2c2c2c"));
  EXPECT_TRUE(is_line(
      under("MIG-GPU-2c2c/0/0"),
      "GF103 warning: CUDA_VISIBLE_DEVICES=MIG-GPU-2c2c/0/0: its entry 'MIG-GPU-2c2c/0/0' is the UUID "
      "of no GPU here: the list ends there, no GPU is visible"));
  EXPECT_EQ(under("GPU-2c2c,GPU-1b1b").counts, Counts{});
}

// 5. nvidia-smi shows every rank on GPU 0: their loaders' threads pin memory there, or they made a context
// before they chose. Said by the first of them; the rest is in the run's records.
TEST(Reported, ContextOfEveryRankOnOneGpu) {
  const std::string place = R"(at libframework.so\+0x[0-9a-f]+ )";
  const std::string works =
      R"(; the process works on CUDA [123] = host GPU [013] \(.*\), chosen by cudaSetDevice )" + place +
      R"(\(framework_set_device\) in thread "python3"; )";
  const std::string context =
      R"(GF202 warning: a context of 64 MiB appeared on CUDA 0 = host GPU 2 \(Gamma, 0000:81:00.0\))";
  struct Job {
    const char *what, *thread;
    std::string line;
  };
  for (const Job& job : {Job{"rank", "pin_memory",
                             context + ", which this thread did not choose" + works + "cudaMallocHost " +
                                 place + R"(\(framework_pin\), thread "pin_memory"$)"},
                         Job{"rank_first", "python3",
                             context + " before any thread had chosen a GPU, and nothing used it" + works +
                                 "cudaFree " + place + R"(\(framework_init\), thread "python3"$)"}}) {
    FourGpus m;
    const Said said = run(m, python({"ranks", job.what, "4"}), {.devices = "2,0,1,3"});
    EXPECT_EQ(said.result.exit, 0);
    EXPECT_TRUE(matches(said, job.line));
    EXPECT_EQ(said.counts, (Counts{{"GF202", 3}}));  // rank 0 works there
    const Result told = m.gpufence({"last"});
    EXPECT_TRUE(told.says(" (×3, in 3 processes, 192 MiB together)\n")) << told.out;
    const auto json = nlohmann::json::parse(m.gpufence({"last", "--json"}).out);
    ASSERT_EQ(json.at("findings").size(), 1u);
    EXPECT_EQ(json.at("findings")[0].at("bytes_together"), 3 * 67108864);
    EXPECT_EQ(json.at("findings")[0].at("thread"), job.thread);
  }
}

// 6. The pinning thread of a loader, in a process that had left GPU 0.
TEST(Reported, HelperThreadOnTheDefaultGpu) {
  FourGpus m;
  const Said said = run(m, python({"pin_memory"}));
  EXPECT_TRUE(is_line(
      said, zero_and_one(
                "GF201 warning: thread \"pin_memory\" made its first CUDA call without choosing a device → "
                "#0; the process works on #1, chosen by cudaSetDevice at @ (framework_set_device) in thread "
                "\"python3\"; cudaMallocHost at @ (framework_pin), thread \"pin_memory\"")));
  EXPECT_EQ(said.counts, (Counts{{"GF201", 1}}));
}

// 7. "invalid resource handle". A runtime inside of the framework refuses the launch before the driver sees
// it.
TEST(Reported, StreamOfAnotherGpu) {
  FourGpus m;
  const Said said = run(m, python({"stream"}));
  EXPECT_EQ(said.result.out, "add 400\n");
  EXPECT_TRUE(matches(
      said,
      R"(GF203 warning: kernel .*::add_kernel launched on CUDA 1 = host GPU 0 \(.*\) with a stream of CUDA 0 = )"
      R"(host GPU 2 \(.*\), created at libframework.so\+0x[0-9a-f]+ \(framework_stream\); cudaLaunchKernel at )"
      R"(libframework.so\+0x[0-9a-f]+ \(framework_add\), thread "python3"$)"));
  EXPECT_EQ(said.counts, (Counts{{"GF203", 1}}));
}

TEST_P(Framework, EventOfAnotherGpu) {
  FourGpus m;
  const Said said = run(m, python({"event"}, GetParam()));
  EXPECT_EQ(said.result.out, "record 400\n");
  EXPECT_TRUE(matches(
      said, "GF204 warning: an event of CUDA 0 = host GPU 2 .*, created at " + std::string(GetParam()) +
                ".*, recorded in a stream of CUDA 1 = host GPU 0 .*, created at " + GetParam()));
  EXPECT_EQ(said.counts, (Counts{{"GF204", 1}}));
}

// 8. "an illegal memory access was encountered"; "cannot be accessed from Triton (cpu tensor?)".
TEST_P(Framework, PointerOfAnotherGpu) {
  FourGpus m;
  m.set_peers("all");
  const Said said =
      run(m, python({"pointer"}, GetParam()), {.devices = "2,0", .options = {"--diagnose", "all"}});
  EXPECT_EQ(said.result.out, "add 0 700\n");
  EXPECT_TRUE(
      matches(said, R"(GF205 warning: argument 2 of kernel .*::add_kernel is memory of CUDA 0 = host GPU 2 )"
                    R"(.*, allocated at .*; launched on CUDA 1 = host GPU 0 .*; peer access 1→0 not enabled )"
                    R"(\(possible\); then CUDA met an illegal address; cu[da]*LaunchKernel at )"));
  EXPECT_EQ(said.counts, (Counts{{"GF205", 2}}));  // info at the launch
}

TEST_P(Framework, PointerThatTritonCannotUse) {
  FourGpus m;
  const Said said = run(m, python({"triton"}, GetParam()));
  EXPECT_EQ(said.result.out, "cannot be accessed (cpu tensor?)\n");
  EXPECT_TRUE(
      matches(said, R"(GF205 warning: memory of CUDA 0 = host GPU 2 .*, meant for a kernel on CUDA 1 = host )"
                    R"(GPU 0 .*; peer access 1→0 not enabled \(impossible\); cuPointerGetAttribute at )"));
  EXPECT_EQ(said.counts, (Counts{{"GF205", 1}}));
}

// 9. A worker that was forked after CUDA had started.
TEST_P(Framework, ForkWithCudaLive) {
  FourGpus m;
  const Said said = run(m, python({"fork"}, GetParam()));
  EXPECT_EQ(said.result.out, "child no memory\n");
  EXPECT_TRUE(
      matches(said, R"(GF302 warning: CUDA used in a forked child \(pid [0-9]+\) of a process that had CUDA )"
                    R"(live since its cuInit at \+[0-9.]+ s \(called from )" +
                        std::string(GetParam()) + R"(\): it can't work here;.*; cu.* at )" + GetParam()));
}

// 10. Four GPUs were given, and nvidia-smi shows one at work.
TEST_P(Framework, AllWorkOnOneOfSeveral) {
  FourGpus m;
  const Said said = run(m, python({"one_of_many"}, GetParam()), {.devices = "2,0,1,3"});
  EXPECT_EQ(said.result.err, "");
  EXPECT_EQ(said.counts, Counts{});
  EXPECT_EQ(said.notes,
            std::vector<std::string>{
                "GF208: all work was on CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0); CUDA 1 = host GPU 0 "
                "(Alpha, 0000:01:00.0), CUDA 2 = host GPU 1 (Beta, 0000:41:00.0), CUDA 3 = host GPU 3 "
                "(Delta, 0000:c1:00.0) did nothing"});
  ASSERT_EQ(said.gpus.size(), 4u);
  EXPECT_EQ(said.gpus[0].at("launches"), 9);
  EXPECT_EQ(said.gpus[1].at("launches"), 0);
}

}  // namespace
}  // namespace gpufence::harness
