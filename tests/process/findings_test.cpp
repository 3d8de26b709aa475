// Every finding by a program that has the fault, and none by its twin that has not: both GPUs, the call, the
// place and the count, as a person reads them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <regex>

#include <nlohmann/json.hpp>

#include "machines.h"

namespace gpufence::harness {
namespace {

namespace fs = std::filesystem;

constexpr const char* kZero = "CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0)";
constexpr const char* kOne = "CUDA 1 = host GPU 0 (Alpha, 0000:01:00.0)";

struct Said {
  Result result;
  std::vector<std::string> lines;               // of stderr, without the report
  std::map<std::string, std::uint64_t> counts;  // by code
  nlohmann::json gpus;
  std::vector<std::string> notes;
};

// Runs a probe as CUDA 0 and 1 = host GPUs 2 and 0, or on what `with` says.
Said run(Machine& m, const std::vector<std::string>& program, With with = {.devices = "2,0"}) {
  const fs::path report = m.directory() / "report.json";
  fs::remove(report);
  with.options.insert(with.options.end(), {"--report-file", report.string()});
  Said said;
  said.result = m.run(program, with);
  std::string line;
  for (const char c : said.result.err) {
    if (c != '\n') {
      line += c;
      continue;
    }
    said.lines.push_back(std::exchange(line, {}));
  }
  if (!line.empty()) said.lines.push_back(line);
  if (!fs::exists(report)) return said;
  const auto told = nlohmann::json::parse(read_file(report));
  said.counts = told.at("findings").get<std::map<std::string, std::uint64_t>>();
  said.gpus = told.at("gpus");
  said.notes = told.at("notes").get<std::vector<std::string>>();
  return said;
}

using Counts = std::map<std::string, std::uint64_t>;

// One line, which is the pattern: in it "@" stands for a place in the program, "%s" for what `parts` say.
testing::AssertionResult is_line(const Said& said, std::string pattern) {
  std::string escaped;
  for (const char c : "gpufence[@pid] " + pattern) {
    if (std::strchr("[](){}.*+?^$|\\", c) != nullptr) escaped += '\\';
    escaped += c;
  }
  for (const auto& [mark, meant] : {std::pair{"@pid", "[0-9]+"}, std::pair{"@", "[^ ]+\\+0x[0-9a-f]+"}}) {
    for (std::size_t at; (at = escaped.find(mark)) != std::string::npos;)
      escaped.replace(at, std::strlen(mark), meant);
  }
  if (said.lines.size() == 1 && std::regex_match(said.lines[0], std::regex(escaped)))
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "stdout \"" << said.result.out << "\", stderr \"" << said.result.err
                                     << "\", wanted \"" << pattern << "\"";
}

std::string zero_and_one(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "#0") == 0 || text.compare(i, 2, "#1") == 0)
      out += text[++i] == '0' ? kZero : kOne;
    else
      out += text[i];
  }
  return out;
}

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
    EXPECT_EQ(said.counts, Counts{}) << program;
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

}  // namespace
}  // namespace gpufence::harness
