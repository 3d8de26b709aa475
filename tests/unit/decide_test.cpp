// decide(): what a cap answers to one request.
#include "policies/decide.h"

#include <gtest/gtest.h>

#include <vector>

using gpufence::policies::Cap;
using gpufence::policies::decide;
using gpufence::policies::Scope;
using gpufence::policies::tightest;

TEST(Decide, WithoutACapEverythingIsAllowed) {
  EXPECT_TRUE(decide({UINT64_MAX, UINT64_MAX}, nullptr).allowed);
}

TEST(Decide, TheLastByteOfACapIsAllowedAndOneMoreIsNot) {
  const Cap cap{1000, Scope::run, "--gpu-mem"};
  EXPECT_TRUE(decide({400, 600}, &cap).allowed);
  const auto over = decide({401, 600}, &cap);
  EXPECT_FALSE(over.allowed);
  EXPECT_EQ(over.cap, &cap);
  EXPECT_EQ(over.to_free, 1u);
}

TEST(Decide, ARequestLargerThanTheCapCanNotBeHelpedByFreeing) {
  const Cap cap{1000, Scope::run, "--gpu-mem"};
  const auto verdict = decide({1001, 0}, &cap);
  EXPECT_FALSE(verdict.allowed);
  EXPECT_EQ(verdict.to_free, 0u);
}

TEST(Decide, ARequestNearTheEndOfTheNumbersDoesNotWrap) {
  const Cap cap{1000, Scope::run, "--gpu-mem"};
  EXPECT_FALSE(decide({UINT64_MAX, 999}, &cap).allowed);
  EXPECT_FALSE(decide({UINT64_MAX - 998, 999}, &cap).allowed);
}

TEST(Decide, MoreHeldThanTheCapRefusesEvenOneByte) {
  const Cap cap{1000, Scope::run, "--gpu-mem"};
  EXPECT_FALSE(decide({1, 2000}, &cap).allowed);
}

TEST(Decide, TheSmallestOfSeveralCapsRules) {
  const std::vector<Cap> caps{{3000, Scope::run, "--gpu-mem"},
                              {UINT64_MAX, Scope::run, "none"},
                              {2000, Scope::process, "--gpu-mem-per-process"}};
  ASSERT_NE(tightest(caps), nullptr);
  EXPECT_EQ(tightest(caps)->rule, "--gpu-mem-per-process");
  EXPECT_EQ(tightest(std::vector<Cap>{{UINT64_MAX, Scope::run, "unlimited"}}), nullptr);
}
