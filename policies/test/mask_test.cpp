// CUDA_VISIBLE_DEVICES as CUDA reads it.
#include "policies/mask.h"

#include <gtest/gtest.h>

namespace gpufence::policies {
namespace {

using Kind = MaskProblem::Kind;
using Gpus = std::vector<std::size_t>;

const std::vector<std::string> kMachine{
    "GPU-8f3a0000-1111-2222-3333-444444444444",
    "GPU-8f3b0000-1111-2222-3333-444444444444",
    "GPU-c1000000-1111-2222-3333-444444444444",
    "GPU-d2000000-1111-2222-3333-444444444444",
};

MaskReading read(std::string_view mask) {
  return read_mask(mask, kMachine);
}

TEST(Mask, NumbersAndUuidsAreGpusInTheirOrder) {
  EXPECT_EQ(read("2,0"), (MaskReading{{2, 0}, {}}));
  EXPECT_EQ(read("GPU-c1,GPU-8f3a"), (MaskReading{{2, 0}, {}}));
  EXPECT_EQ(read("3,GPU-8f3b"), (MaskReading{{3, 1}, {}}));
  EXPECT_EQ(read("GPU-d2000000-1111-2222-3333-444444444444"), (MaskReading{{3}, {}}));
}

TEST(Mask, AnEmptyMaskIsNoGpu) {
  EXPECT_EQ(read(""), MaskReading{});
  EXPECT_EQ(read("  "), MaskReading{});
}

TEST(Mask, MinusOneIsTheCustomaryEnd) {
  EXPECT_EQ(read("-1"), MaskReading{});
  EXPECT_EQ(read("0,2,-1,1"), (MaskReading{{0, 2}, {}}));
  EXPECT_EQ(read("0,-1,0"), (MaskReading{{0}, {}}));
}

TEST(Mask, BlanksDoNotCount) {
  EXPECT_EQ(read(" 0 , 1 "), (MaskReading{{0, 1}, {}}));
  EXPECT_EQ(read("\t1\n"), (MaskReading{{1}, {}}));
}

TEST(Mask, ACommaAtTheEndSaysNothing) {
  EXPECT_EQ(read("0,1,"), (MaskReading{{0, 1}, {}}));
  EXPECT_EQ(read("0,,1"), (MaskReading{{0}, MaskProblem{Kind::malformed, "", 1}}));
}

TEST(Mask, ANumberPastTheLastGpuEndsTheList) {
  EXPECT_EQ(read("1,4,0"), (MaskReading{{1}, MaskProblem{Kind::beyond, "4", 1}}));
  EXPECT_EQ(read("99999999999999999999999"),
            (MaskReading{{}, MaskProblem{Kind::beyond, "99999999999999999999999", 0}}));
}

TEST(Mask, ARepeatedGpuLeavesNone) {
  EXPECT_EQ(read("0,1,0"), (MaskReading{{}, MaskProblem{Kind::repeated, "0", 2}}));
  EXPECT_EQ(read("0,00"), (MaskReading{{}, MaskProblem{Kind::repeated, "00", 1}}));
  EXPECT_EQ(read("GPU-8f3a,GPU-8f3a0"), (MaskReading{{}, MaskProblem{Kind::repeated, "GPU-8f3a0", 1}}));
}

TEST(Mask, AUuidMustNameOneGpu) {
  EXPECT_EQ(read("2,GPU-8f"), (MaskReading{{2}, MaskProblem{Kind::ambiguous, "GPU-8f", 1}}));
  EXPECT_EQ(read("GPU-ee"), (MaskReading{{}, MaskProblem{Kind::unknown, "GPU-ee", 0}}));
  EXPECT_EQ(read("MIG-c1"), (MaskReading{{}, MaskProblem{Kind::unknown, "MIG-c1", 0}}));
}

TEST(Mask, WhatIsNeitherEndsTheList) {
  for (const char* entry : {"x", "-2", "1gpu", "+1", "0x1", "GPU-", "GPU", "gpu-c1", "1.0"})
    EXPECT_EQ(read("0," + std::string(entry)), (MaskReading{{0}, MaskProblem{Kind::malformed, entry, 1}}))
        << entry;
}

TEST(Mask, OnAMachineWithoutGpusNothingIsThere) {
  EXPECT_EQ(read_mask("0", {}), (MaskReading{{}, MaskProblem{Kind::beyond, "0", 0}}));
  EXPECT_EQ(read_mask("", {}), MaskReading{});
}

TEST(Mask, TellsWhetherTheOrderMatters) {
  EXPECT_TRUE(names_numbers("2,0"));
  EXPECT_TRUE(names_numbers("GPU-c1, 0"));
  EXPECT_FALSE(names_numbers("GPU-c1"));
  EXPECT_FALSE(names_numbers("-1,0"));
  EXPECT_FALSE(names_numbers(""));
}

TEST(Mask, SaysInWordsWhyItEnded) {
  EXPECT_EQ(describe({Kind::beyond, "9", 1}, 4), "'9' is past the last GPU, 3");
  EXPECT_EQ(describe({Kind::beyond, "0", 0}, 0), "'0' is asked for, but there is no GPU");
  EXPECT_EQ(describe({Kind::repeated, "0", 2}, 4), "'0' names a GPU again, which leaves none");
  EXPECT_EQ(describe({Kind::malformed, "x", 0}, 4), "'x' is neither a number nor a UUID");
  EXPECT_EQ(describe({Kind::unknown, "GPU-ee", 0}, 4), "'GPU-ee' is the UUID of no GPU here");
  EXPECT_EQ(describe({Kind::ambiguous, "GPU-8f", 0}, 4), "'GPU-8f' is the beginning of more than one UUID");
}

}  // namespace
}  // namespace gpufence::policies
