// `gpufence hooks` beside a core that has no records; what it shows of the real one, tests/process asks.
#include <gtest/gtest.h>

#include "tools/gpufence/test/spawn.h"

namespace gpufence::command {
namespace {

using testing::Ended;
using testing::gpufence;
using testing::in_tree;

TEST(Hooks, OfACoreWithoutRecordsSaysSo) {
  const Ended ended = gpufence({"hooks"});
  EXPECT_EQ(ended.err, "gpufence: " + in_tree("lib/libgpufence-core.so") +
                           ": holds no hook records; install gpufence again\n");
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.status, 1);
}

TEST(Hooks, HelpAndMistakes) {
  const Ended help = gpufence({"hooks", "-h"});
  EXPECT_EQ(help.out,
            "gpufence hooks [--json] [NAME…]   names may hold * and ?: 'cuMem*'\n"
            "      --json                  as JSON, with stable keys\n"
            "  -h, --help                  this text\n");
  EXPECT_EQ(help.status, 0);
  const Ended wrong = gpufence({"hooks", "--frob"});
  EXPECT_EQ(wrong.err, "gpufence: --frob: this version has no such option; see gpufence hooks -h\n");
  EXPECT_EQ(wrong.status, 2);
}

}  // namespace
}  // namespace gpufence::command
