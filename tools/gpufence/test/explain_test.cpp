// What the command says of findings: all of them, in one form.
#include <gtest/gtest.h>

#include "tools/gpufence/test/spawn.h"

namespace gpufence::command::testing {
namespace {

TEST(Explain, ListsEveryCodeOfTheDesign) {
  const Ended list = gpufence({"explain"});
  EXPECT_EQ(list.status, 0);
  std::string codes;
  for (std::size_t at = 0; at < list.out.size(); at = list.out.find('\n', at) + 1)
    codes += list.out.substr(at, 5) + ' ';
  EXPECT_EQ(codes,
            "GF101 GF102 GF103 GF104 GF105 GF106 GF107 GF201 GF202 GF203 GF204 GF205 GF206 GF208 GF301 GF302 "
            "GF401 GF402 GF403 GF501 GF502 GF503 GF601 ");
}

TEST(Explain, TellsMeaningProgramRemedyAndWhenItIsHarmless) {
  EXPECT_EQ(
      gpufence({"explain", "GF103"}).out,
      "GF103 warning: CUDA_VISIBLE_DEVICES ends early\n"
      "\n"
      "  CUDA reads the list up to the first entry that is invalid, repeated or ambiguous, and stops there\n"
      "  without a word. What comes behind it is not visible; if it is the first entry, no GPU is.\n"
      "\n"
      "A program that shows it:\n"
      "    CUDA_VISIBLE_DEVICES=0,7,1 ./app    # four GPUs: 7 is none, so GPU 1 is not visible either\n"
      "\n"
      "What to do:\n"
      "  Correct the entry that the line names. gpufence run -d takes such a list as an error that lists\n"
      "  what there is.\n"
      "\n"
      "When it is harmless:\n"
      "  Never; an ending -1, the customary end of a list, is no such finding.\n");
}

TEST(Explain, TakesACodeInSmallLettersOrItsNumber) {
  const std::string text = gpufence({"explain", "GF203"}).out;
  EXPECT_TRUE(text.starts_with("GF203 warning: work with a stream of another GPU\n"));
  EXPECT_EQ(gpufence({"explain", "gf203"}).out, text);
  EXPECT_EQ(gpufence({"explain", "203"}).out, text);
}

TEST(Explain, DoesNotKnowOtherCodes) {
  const Ended none = gpufence({"explain", "GF999"});
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.err, "gpufence: GF999: is no code of a finding; see the list: gpufence explain\n");
}

}  // namespace
}  // namespace gpufence::command::testing
