// No warning over a healthy program: patterns of frameworks and launchers, as they are and under a view that
// turns the order of the GPUs round, at the default level and with everything looked at.
#include <gtest/gtest.h>

#include "said.h"

namespace gpufence::harness {
namespace {

class Healthy : public testing::TestWithParam<std::tuple<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Patterns, Healthy,
                         testing::Combine(testing::Values("healthy_shared", "healthy_static"),
                                          testing::Values("loaders", "late_loaders", "launcher", "one",
                                                          "staged", "round_robin", "threads", "guards",
                                                          "pools", "default_streams", "gathers", "peers",
                                                          "onlooker", "exits")),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param)).substr(sizeof "healthy") + '_' +
                                  std::get<1>(tested.param);
                         });

// What is info is no warning: a copy by way of the host, a fork with CUDA live.
Counts warnings(Counts counts) {
  counts.erase("GF206");
  counts.erase("GF301");
  return counts;
}

TEST_P(Healthy, PatternIsNoWarning) {
  const auto& [program, pattern] = GetParam();
  FourGpus m;
  m.set_peers("all");
  const std::vector<std::string> argv = {probe(program), pattern};
  for (const With& with : {With{}, With{.devices = "3,1,0,2"}}) {
    const Result plain = m.run(argv, with);
    EXPECT_EQ(plain.exit, 0);
    EXPECT_TRUE(plain.says("done\n")) << plain.out;
    EXPECT_EQ(plain.err, "") << with.devices;
    With all = with;
    all.options = {"--diagnose", "all"};
    const Said said = run(m, argv, all);
    EXPECT_EQ(said.result.exit, 0);
    EXPECT_EQ(said.result.err, "") << with.devices;
    EXPECT_EQ(warnings(said.counts), Counts{}) << with.devices;
    EXPECT_EQ(said.one_worked,
              std::set<std::string>({"loaders", "late_loaders", "one", "onlooker"}).contains(pattern) &&
                  !said.gpus.empty());
  }
}

// The first refusal of a run on a GPU is a line, however often and from wherever it is asked again.
TEST(HealthyOutOfMemory, IsOneLineARun) {
  FourGpus m;
  const std::string twice = probe("healthy_shared") + " retries; " + probe("healthy_static") + " retries";
  for (const char* devices : {"0,1", "1,0"}) {
    const Result r = m.run({"/bin/sh", "-c", twice}, {.devices = devices, .gpu_mem = "1GiB"});
    EXPECT_EQ(r.exit, 0);
    EXPECT_EQ(r.out, "done\ndone\n");
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_TRUE(r.complains("] GF401 warning: cudaMalloc of 256 MiB on CUDA 0 = host GPU ")) << r.err;
  }
  // What the card itself refuses is the driver's to say.
  EXPECT_EQ(m.run({probe("healthy_shared"), "retries"}, {.devices = "0,1"}).err, "");
}

TEST(HealthyProgram, MayUseOneGpuOfEight) {
  Machine m;
  for (int i = 0; i < 8; ++i) m.add_gpu({.name = "Card", .memory = 1_GiB});
  for (const char* devices : {"", "7-0"}) {
    for (const char* program : {"healthy_shared", "healthy_static"}) {
      const Said said = run(m, {probe(program), "one"}, {.devices = devices});
      EXPECT_EQ(said.result.err, "");
      EXPECT_EQ(said.counts, Counts{});
      EXPECT_TRUE(said.one_worked);
    }
  }
}

}  // namespace
}  // namespace gpufence::harness
