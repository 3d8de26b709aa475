// Programs of every usual kind, written from NVIDIA's documentation alone, behind a view that turns the order
// of the GPUs round. Each holds its results against the host's, and CUDA's answers against what is
// documented.
#include <gtest/gtest.h>

#include "machines.h"

namespace gpufence::harness {
namespace {

void expect_right(const Result& r) {
  EXPECT_EQ(r.exit, 0);
  EXPECT_EQ(r.out.size() < 6 ? r.out : r.out.substr(r.out.size() - 6), "right\n") << r.out;
  EXPECT_FALSE(r.complains("GF601")) << r.err;
}

class EveryProgram : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, EveryProgram,
                         testing::Values("reductions", "scans", "transposes", "histograms", "n_body",
                                         "monte_carlo", "heat_over_gpus", "overlapping_streams",
                                         "cooperative_grid", "device_output", "objects", "lambdas",
                                         "hash_table", "sorts", "life", "fractals", "digests",
                                         "factorizations", "transforms", "graph_search", "graphs", "captures",
                                         "graph_memory", "graph_updates", "graph_conditions", "graph_replays",
                                         "faults", "half_precision", "training", "miscellany"),
                         [](const auto& program) { return std::string(program.param); });

TEST_P(EveryProgram, IsRightOnGpusInAnotherOrder) {
  FourGpus m;
  expect_right(m.run({probe(std::string("program_") + GetParam())}, {.devices = "2,0"}));
}

class EveryProgramOfFourGpus : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, EveryProgramOfFourGpus, testing::Values("host_threads", "kinds_of_memory"),
                         [](const auto& program) { return std::string(program.param); });

TEST_P(EveryProgramOfFourGpus, IsRightOnGpusInAnotherOrder) {
  FourGpus m;
  expect_right(m.run({probe(std::string("program_") + GetParam())}, {.devices = "1,3,2,0"}));
}

TEST(Programs, ExchangeBetweenPeersToo) {
  FourGpus m;
  expect_right(m.gpufence({"run", "--sim", "4xh100", "-d", "2,0", "--", probe("program_heat_over_gpus")}));
}

}  // namespace
}  // namespace gpufence::harness
