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
INSTANTIATE_TEST_SUITE_P(
    Programs, EveryProgram,
    testing::Values("reductions", "scans", "transposes", "histograms", "n_body", "monte_carlo",
                    "heat_over_gpus", "overlapping_streams", "cooperative_grid", "device_output", "objects",
                    "lambdas", "hash_table", "sorts", "life", "fractals", "digests", "factorizations",
                    "transforms", "graph_search", "graphs", "captures", "graph_memory", "graph_updates",
                    "graph_conditions", "graph_replays", "faults", "half_precision", "training", "miscellany",
                    "pools", "image_filters", "layers_and_cubes", "volumes", "mipmaps", "shared_processes",
                    "shared_pools", "staged_pipeline", "thread_streams", "occupancy", "conjugate_gradients",
                    "priorities", "work_crew", "timers", "refusals_and_faults", "batched_copies",
                    "just_in_time", "code_libraries", "device_facts", "graph_pipeline", "mixed_apis",
                    "block_pipelines", "driver_copies", "textures_of_memory", "stream_words", "surfaces",
                    "graph_edits", "busy_pools", "protections", "early_ends", "capture_rules",
                    "texture_modes"),
    [](const auto& program) { return std::string(program.param); });

TEST_P(EveryProgram, IsRightOnGpusInAnotherOrder) {
  FourGpus m;
  expect_right(m.run({probe(std::string("program_") + GetParam())}, {.devices = "2,0"}));
}

class EveryProgramOfFourGpus : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, EveryProgramOfFourGpus,
                         testing::Values("host_threads", "kinds_of_memory", "all_reduce", "growing_vector",
                                         "prefetching", "symbols"),
                         [](const auto& program) { return std::string(program.param); });

TEST_P(EveryProgramOfFourGpus, IsRightOnGpusInAnotherOrder) {
  FourGpus m;
  expect_right(m.run({probe(std::string("program_") + GetParam())}, {.devices = "1,3,2,0"}));
}

class EveryProgramOfPeers : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, EveryProgramOfPeers,
                         testing::Values("heat_over_gpus", "all_reduce", "growing_vector", "prefetching",
                                         "staged_pipeline"),
                         [](const auto& program) { return std::string(program.param); });

TEST_P(EveryProgramOfPeers, IsRightBetweenPeersToo) {
  FourGpus m;
  expect_right(
      m.gpufence({"run", "--sim", "4xh100", "-d", "2,0", "--", probe(std::string("program_") + GetParam())}));
}

// What asks for what there is not, on purpose, is warned of; the others are not.
class EveryCorrectProgram : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, EveryCorrectProgram,
                         testing::Values("growing_vector", "image_filters", "layers_and_cubes", "volumes",
                                         "mipmaps", "shared_processes", "shared_pools", "prefetching",
                                         "staged_pipeline", "thread_streams", "occupancy",
                                         "conjugate_gradients", "priorities", "all_reduce", "timers",
                                         "symbols", "batched_copies", "just_in_time", "code_libraries",
                                         "graph_pipeline", "mixed_apis", "block_pipelines", "driver_copies",
                                         "textures_of_memory", "stream_words", "surfaces", "graph_edits",
                                         "busy_pools", "protections", "early_ends", "capture_rules",
                                         "texture_modes"),
                         [](const auto& program) { return std::string(program.param); });

TEST_P(EveryCorrectProgram, IsNotWarnedOfAnythingByAFenceThatLooksForAll) {
  FourGpus m;
  const Result r = m.run({probe(std::string("program_") + GetParam())},
                         {.devices = "1,3,2,0", .options = {"--diagnose", "all"}});
  expect_right(r);
  EXPECT_FALSE(r.complains("warning")) << r.err;
  EXPECT_FALSE(r.complains("error")) << r.err;
}

}  // namespace
}  // namespace gpufence::harness
