// What a hard-coded ordinal means, and what comes back.
#include "policies/remap.h"

#include <gtest/gtest.h>

namespace gpufence::policies {
namespace {

Remap read(std::string_view text) {
  const auto remap = parse_remap(text);
  EXPECT_TRUE(remap) << (remap ? "" : remap.error().text());
  return remap.value_or(Remap{});
}

std::string error(std::string_view text) {
  const auto remap = parse_remap(text);
  return remap ? "no error" : remap.error().what + ": " + remap.error().why;
}

TEST(Remap, PairsAreLookedUpOnceAndOthersMeanThemselves) {
  const Remap remap = read("3=2,1=0");
  EXPECT_EQ(remap.real(0, 3), 0);
  EXPECT_EQ(remap.real(1, 3), 0);
  EXPECT_EQ(remap.real(2, 3), 2);
  EXPECT_EQ(remap.real(3, 3), 2);
  EXPECT_EQ(remap.real(4, 3), 4);  // out of the view: CUDA refuses it
  EXPECT_EQ(remap.highest(), 2);
  const Remap swap = read("0=1,1=0");
  EXPECT_EQ(swap.real(0, 2), 1);
  EXPECT_EQ(swap.real(1, 2), 0);
}

TEST(Remap, WrapIsModuloTheView) {
  const Remap remap = read("wrap");
  EXPECT_EQ(remap.real(0, 2), 0);
  EXPECT_EQ(remap.real(1, 2), 1);
  EXPECT_EQ(remap.real(2, 2), 0);
  EXPECT_EQ(remap.real(7, 2), 1);
  EXPECT_EQ(remap.real(7, 1), 0);
  EXPECT_EQ(remap.real(7, 0), 7);  // no GPU: CUDA says so
  EXPECT_EQ(remap.highest(), -1);
}

TEST(Remap, TheHostIsNoOrdinal) {
  for (const char* text : {"wrap", "1=0"}) {
    EXPECT_EQ(read(text).real(-1, 2), -1);
    EXPECT_EQ(read(text).real(-2, 2), -2);
    EXPECT_EQ(read(text).told(-1, 2, 3), -1);
  }
}

TEST(Remap, WhatWasAskedForLastComesBack) {
  const Remap pairs = read("1=0,5=0");
  EXPECT_EQ(pairs.told(0, 1, 1), 1);
  EXPECT_EQ(pairs.told(0, 1, 5), 5);
  EXPECT_EQ(pairs.told(0, 1, 0), 0);
  const Remap wrap = read("wrap");
  for (int asked = 0; asked < 9; ++asked) EXPECT_EQ(wrap.told(wrap.real(asked, 2), 2, asked), asked);
}

TEST(Remap, WithoutAnAskTheOrdinalItselfElseTheSmallestNameComesBack) {
  EXPECT_EQ(read("1=0,5=0").told(0, 1, -1), 0);
  EXPECT_EQ(read("0=1,5=0,3=0").told(0, 2, -1), 3);
  EXPECT_EQ(read("0=1,1=0").told(0, 2, -1), 1);
  EXPECT_EQ(read("wrap").told(1, 2, -1), 1);
}

TEST(Remap, ANameOfAnotherGpuDoesNotComeBack) {
  EXPECT_EQ(read("1=0").told(0, 2, 2), 0);
  EXPECT_EQ(read("wrap").told(1, 2, 2), 1);
}

TEST(Remap, AGpuThatNoNameLeadsToKeepsItsOrdinal) {
  EXPECT_EQ(read("1=0").told(1, 2, -1), 1);
  EXPECT_EQ(read("0=1").told(0, 2, -1), 0);
}

TEST(Remap, WhatIsNoMapIsAnError) {
  EXPECT_EQ(error(""), ": is empty");
  EXPECT_EQ(error("1=0,"), ": is empty");
  EXPECT_EQ(error("1"), "1: is no pair");
  EXPECT_EQ(error("1=x"), "1=x: has 'x' where an ordinal belongs");
  EXPECT_EQ(error("=0"), "=0: has '' where an ordinal belongs");
  EXPECT_EQ(error("1="), "1=: has '' where an ordinal belongs");
  EXPECT_EQ(error("-1=0"), "-1=0: has '-1' where an ordinal belongs");
  EXPECT_EQ(error("1=-1"), "1=-1: has '-1' where an ordinal belongs");
  EXPECT_EQ(error("1=0=2"), "1=0=2: has '0=2' where an ordinal belongs");
  EXPECT_EQ(error("1= 0"), "1= 0: has ' 0' where an ordinal belongs");
  EXPECT_EQ(error("99999999999=0"), "99999999999=0: has '99999999999' where an ordinal belongs");
  EXPECT_EQ(error("1=0,1=2"), "1=2: gives 1 a second meaning");
  EXPECT_EQ(error("1=0,1=0"), "1=0: gives 1 a second meaning");
  EXPECT_EQ(error("wrap,1=0"), "wrap: stands beside pairs, and means every ordinal");
  EXPECT_EQ(error("1=0,wrap"), "wrap: stands beside pairs, and means every ordinal");
  EXPECT_EQ(error("Wrap"), "Wrap: is no pair");
}

TEST(Remap, TextReadsBackAsTheSame) {
  EXPECT_EQ(to_text(read("3=2,1=0")), "1=0,3=2");
  EXPECT_EQ(to_text(read("wrap")), "wrap");
  for (const char* text : {"0=1,1=0", "7=0", "wrap"}) EXPECT_EQ(read(to_text(read(text))), read(text));
}

}  // namespace
}  // namespace gpufence::policies
