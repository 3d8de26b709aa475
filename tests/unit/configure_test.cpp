// What the environment asks of the core.
#include <gtest/gtest.h>

#include <map>

#include "fence.h"

using gpufence::Configuration;
using gpufence::configure;
namespace dispatch = gpufence::dispatch;

namespace {

Configuration with(std::map<std::string, std::string> variables) {
  variables.emplace("GPUFENCE_STDERR", "off");
  return configure([variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}
bool denied(const Configuration& configuration) {
  return configuration.rules->deny.load() != nullptr;
}

}  // namespace

TEST(Configure, NothingAskedForChangesNothing) {
  const Configuration c = with({});
  EXPECT_FALSE(c.rules->view);
  EXPECT_TRUE(c.rules->caps.empty());
  EXPECT_FALSE(denied(c));
  EXPECT_EQ(c.rules->needs & dispatch::kMemory, 0u);
  EXPECT_NE(c.rules->needs & dispatch::kFence, 0u);
}

TEST(Configure, AViewIsAListOfUuidsAndAnEmptyOneIsNoGpu) {
  EXPECT_EQ(*with({{"GPUFENCE_VIEW", "GPU-b,GPU-a"}}).rules->view,
            (std::vector<std::string>{"GPU-b", "GPU-a"}));
  ASSERT_TRUE(with({{"GPUFENCE_VIEW", ""}}).rules->view);
  EXPECT_TRUE(with({{"GPUFENCE_VIEW", ""}}).rules->view->empty());
}

TEST(Configure, ARemapBindsTheHooksOfOrdinals) {
  const Configuration c = with({{"GPUFENCE_REMAP", "1=0"}});
  ASSERT_TRUE(c.rules->remap);
  EXPECT_EQ(c.rules->remap->real(1, 1), 0);
  EXPECT_NE(c.rules->needs & dispatch::kRemap, 0u);
  EXPECT_TRUE(with({{"GPUFENCE_REMAP", "wrap"}}).rules->remap->wrap);
  for (const char* none : {"", "1=", "1=0,1=2", "wrap,1=0"}) {
    const Configuration bad = with({{"GPUFENCE_REMAP", none}});
    EXPECT_FALSE(bad.rules->remap) << none;
    EXPECT_EQ(bad.rules->needs & dispatch::kRemap, 0u) << none;
    EXPECT_FALSE(denied(bad)) << none;
  }
}

TEST(Configure, ACapBindsTheMemoryHooks) {
  const Configuration c = with({{"GPUFENCE_GPU_MEM", "1GiB"}});
  ASSERT_EQ(c.rules->caps.size(), 1u);
  EXPECT_EQ(c.rules->caps[0].amounts.at(3).resolve(16ull << 30), 1ull << 30);
  EXPECT_EQ(c.rules->caps[0].rule, "--gpu-mem");
  EXPECT_NE(c.rules->needs & dispatch::kCap, 0u);
}

TEST(Configure, ABacktraceIsANumberOfCalls) {
  EXPECT_EQ(with({}).rules->backtrace, 0u);
  EXPECT_EQ(with({{"GPUFENCE_BACKTRACE", "64"}}).rules->backtrace, 64u);
  for (const char* bad : {"0", "65", "-1", "all", "8 ", "99999999999999999999"}) {
    const Configuration c = with({{"GPUFENCE_BACKTRACE", bad}, {"GPUFENCE_VIEW", ""}});
    EXPECT_EQ(c.rules->backtrace, 0u) << bad;
    EXPECT_EQ(c.rules->journal->counts(), (std::map<std::string, std::uint64_t>{{"GF502", 1}})) << bad;
    EXPECT_FALSE(denied(c)) << bad;  // less is told; nothing is let through
  }
}

TEST(Configure, ACapThatCanNotBeReadDenies) {
  EXPECT_TRUE(denied(with({{"GPUFENCE_GPU_MEM", "lots"}})));
  EXPECT_TRUE(denied(with({{"GPUFENCE_GPU_MEM_PER_PROCESS", "8"}})));
}

TEST(Configure, OnErrorAllowLetsABadValuePass) {
  const Configuration c = with({{"GPUFENCE_GPU_MEM", "lots"}, {"GPUFENCE_ON_ERROR", "allow"}});
  EXPECT_FALSE(denied(c));
  EXPECT_TRUE(c.rules->caps.empty());
}

TEST(Configure, OffWantsNothingAtAll) {
  EXPECT_EQ(with({{"GPUFENCE", "off"}, {"GPUFENCE_GPU_MEM", "1GiB"}}).rules->needs, 0u);
  EXPECT_EQ(with({{"GPUFENCE_MODE", "off"}}).rules->needs, 0u);
}

TEST(Configure, AReportNeedsTheCountsOfMemory) {
  EXPECT_NE(with({{"GPUFENCE_REPORT", "stderr"}}).rules->needs & dispatch::kMemory, 0u);
  EXPECT_EQ(with({{"GPUFENCE_REPORT_FILE", "/tmp/r.json"}}).reporting.file, "/tmp/r.json");
}
