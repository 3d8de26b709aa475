// `gpufence status` outside of every fence; inside of one, tests/process asks.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/gpufence/test/spawn.h"

namespace gpufence::command {
namespace {

using testing::Ended;
using testing::gpufence;
using testing::in_tree;

TEST(Status, OutsideIsExitOne) {
  const Ended ended = gpufence({"status"});
  EXPECT_EQ(ended.out,
            "fenced         no: libgpufence.so is not loaded; start it by gpufence run -- PROGRAM\n"
            "view           none: every GPU, as without gpufence\n"
            "cap            none\n");
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.status, 1);
}

TEST(Status, OfOneThatLeftTheFenceSaysWhatItLost) {
  const Ended ended = gpufence({"status"}, {"GPUFENCE_RUN=night", "GPUFENCE_GPU_MEM=8GiB"});
  EXPECT_EQ(ended.out,
            "fenced         no: it left the fence: GPUFENCE_RUN is set, but LD_PRELOAD doesn't name "
            "libgpufence.so; keep LD_PRELOAD in the environment, or start it by gpufence run\n"
            "run            night\n"
            "view           none: every GPU, as without gpufence\n"
            "cap            8 GiB on each GPU (--gpu-mem), not in force\n");
  EXPECT_EQ(ended.status, 1);
}

TEST(Status, OfALibraryThatIsNotThere) {
  const Ended ended = gpufence({"status"}, {"LD_PRELOAD=/nonexistent/libgpufence.so"});
  EXPECT_EQ(ended.out.substr(0, ended.out.find('\n')),
            "fenced         no: LD_PRELOAD names /nonexistent/libgpufence.so, but it is not loaded; install "
            "gpufence again: there is no such file");
  EXPECT_EQ(ended.status, 1);
}

// The stand-in gate is as good as the true one for that.
TEST(Status, InsideAndTurnedOff) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the command's sanitizer would have to be preloaded before it";
#endif
  const std::string gate = in_tree("lib/libgpufence.so");
  const Ended on = gpufence({"status"}, {"LD_PRELOAD=" + gate});
  EXPECT_EQ(on.out.substr(0, on.out.find("view")),
            "fenced         yes: libgpufence.so is preloaded, by LD_PRELOAD\nlibrary        " + gate + '\n');
  EXPECT_EQ(on.status, 0);
  const Ended off = gpufence({"status"}, {"LD_PRELOAD=" + gate, "GPUFENCE=off"});
  EXPECT_EQ(off.out.substr(0, off.out.find('\n')),
            "fenced         no: GPUFENCE=off turns it off; unset GPUFENCE");
  EXPECT_EQ(off.status, 1);
}

TEST(Status, ACapThatCanNotBeReadIsANote) {
  const Ended ended = gpufence({"status"}, {"GPUFENCE_GPU_MEM=8"});
  EXPECT_NE(ended.out.find("cap            none\nnote           GPUFENCE_GPU_MEM=8: "), std::string::npos)
      << ended.out;
}

TEST(Status, AsJson) {
  const auto out =
      nlohmann::json::parse(gpufence({"status", "--json"}, {"GPUFENCE_GPU_MEM=0=8GiB,1=50%"}).out);
  EXPECT_EQ(out.at("schema"), 1);
  EXPECT_EQ(out.at("fenced"), false);
  EXPECT_EQ(out.at("state"), "not_fenced");
  EXPECT_EQ(out.at("view"), nullptr);
  EXPECT_EQ(out.at("run_id"), nullptr);
  EXPECT_EQ(out.at("caps").dump(), R"([{"option":"--gpu-mem","rules":"0=8GiB,1=50%"}])");
}

TEST(Status, HelpAndMistakes) {
  EXPECT_EQ(gpufence({"status", "-h"}).out,
            "gpufence status [--json] [PID]   exit status 0: fenced, 1: not, 2: wrong usage\n"
            "      --json                  as JSON, with stable keys\n"
            "  -h, --help                  this text\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"status", "here"}, "here: is no PID; write gpufence status [PID]"},
      {{"status", "1", "2"}, "2: status takes one PID; see gpufence status -h"},
      {{"status", "--frob"}, "--frob: this version has no such option; see gpufence status -h"}};
  for (const auto& [words, line] : wrong) {
    const Ended ended = gpufence(words);
    EXPECT_EQ(ended.err, "gpufence: " + line + '\n');
    EXPECT_EQ(ended.status, 2);
  }
}

}  // namespace
}  // namespace gpufence::command
