// What people write for sizes and caps, and what they read back.
#include "policies/size.h"

#include <gtest/gtest.h>

namespace gpufence::policies {
namespace {

constexpr std::uint64_t kGiB = 1073741824;

std::uint64_t bytes_of(std::string_view text) {
  const auto parsed = parse_size(text);
  EXPECT_TRUE(parsed) << text << ": " << (parsed ? "" : parsed.error().text());
  return parsed.value_or(1);
}

std::string size_error(std::string_view text) {
  const auto parsed = parse_size(text);
  return parsed ? "no error, " + std::to_string(*parsed) : parsed.error().text();
}

std::string caps_error(std::string_view text) {
  const auto parsed = parse_caps(text);
  return parsed ? "no error, " + to_text(*parsed) : parsed.error().text();
}

CapSpec caps(std::string_view text) {
  const auto parsed = parse_caps(text);
  EXPECT_TRUE(parsed) << text << ": " << (parsed ? "" : parsed.error().text());
  return parsed.value_or(CapSpec{});
}

TEST(Size, EverySpellingOfAGigabyteIsBinary) {
  for (const char* text : {"8G", "8g", "8GB", "8Gi", "8GiB", "8gib", " 8GiB ", "8 GiB"})
    EXPECT_EQ(bytes_of(text), 8589934592u) << text;
}

TEST(Size, UnitsGoFromBytesToTerabytes) {
  EXPECT_EQ(bytes_of("300B"), 300u);
  EXPECT_EQ(bytes_of("4K"), 4096u);
  EXPECT_EQ(bytes_of("512MiB"), 536870912u);
  EXPECT_EQ(bytes_of("2T"), 2199023255552u);
}

TEST(Size, DecimalsAreExact) {
  EXPECT_EQ(bytes_of("1.5GiB"), 1610612736u);
  EXPECT_EQ(bytes_of("0.5K"), 512u);
  EXPECT_EQ(bytes_of(".25MiB"), 262144u);
  EXPECT_EQ(bytes_of("0.001K"), 1u);
  EXPECT_EQ(bytes_of("8589934593B"), 8589934593u);
  EXPECT_EQ(bytes_of("0.99999999999999999999999999G"), 1073741823u);
}

TEST(Size, TheLargestIsAllOf64Bits) {
  EXPECT_EQ(bytes_of("18446744073709551615B"), 18446744073709551615u);
  EXPECT_EQ(size_error("18446744073709551616B"),
            "18446744073709551616B: is more than 64 bits hold; write unlimited for no cap");
  EXPECT_EQ(size_error("16777216T"), "16777216T: is more than 64 bits hold; write unlimited for no cap");
  EXPECT_EQ(bytes_of("16777215T"), 18446742974197923840u);
}

TEST(Size, ABareNumberIsRefusedWithWhatToWrite) {
  EXPECT_EQ(size_error("8"), "8: has no unit; write 8GiB if that is meant");
  EXPECT_EQ(size_error("1.5"), "1.5: has no unit; write 1.5GiB if that is meant");
}

TEST(Size, WhatIsAdvisedWorks) {
  EXPECT_EQ(size_error("0"), "0: has no unit; write a number with a unit: 8GiB, 512MiB, 1.5TiB");
  EXPECT_EQ(size_error("99999999999999999999"),
            "99999999999999999999: has no unit; write a number with a unit: 8GiB, 512MiB, 1.5TiB");
}

TEST(Size, WhatIsNoSizeIsRefused) {
  EXPECT_EQ(size_error("lots"), "lots: is no size; write a number with a unit: 8GiB, 512MiB, 1.5TiB");
  EXPECT_EQ(size_error(""), "a size: is empty; write a number with a unit: 8GiB, 512MiB, 1.5TiB");
  EXPECT_EQ(size_error("-8GiB"), "-8GiB: is negative; write a number with a unit: 8GiB, 512MiB, 1.5TiB");
  EXPECT_EQ(size_error("8XB"),
            "8XB: has the unknown unit 'XB'; units are K, M, G and T (binary), or B for bytes");
  for (const char* text :
       {"8.GiB", "8..5GiB", "1e3GiB", "GiB", "8GiBs", "8Gi8", "0x8G", "+8G", ".", "8\nGiB"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Size, PeopleReadRoundNumbersWithoutDecimals) {
  EXPECT_EQ(format_size(8 * kGiB), "8 GiB");
  EXPECT_EQ(format_size(536870912), "512 MiB");
  EXPECT_EQ(format_size(7623566950), "7.1 GiB");
  EXPECT_EQ(format_size(300), "300 bytes");
  EXPECT_EQ(format_size(1), "1 byte");
  EXPECT_EQ(format_size(0), "0 bytes");
  EXPECT_EQ(format_size(18446744073709551615u), "16777215.9 TiB");
}

TEST(Size, AlmostFullIsNeverPrintedAsFull) {
  EXPECT_EQ(format_size(8 * kGiB - 1), "7.9 GiB");
  EXPECT_EQ(format_size(1073741823), "1023.9 MiB");
}

TEST(Size, WhatIsEchoedReadsBack) {
  EXPECT_EQ(bytes_of(format_size(8 * kGiB)), 8 * kGiB);
}

TEST(Caps, OneCapCountsForEveryGpu) {
  const CapSpec spec = caps("8GiB");
  EXPECT_EQ(spec.at(0).resolve(80 * kGiB), 8 * kGiB);
  EXPECT_EQ(spec.at(7).resolve(80 * kGiB), 8 * kGiB);
  EXPECT_EQ(spec.at(0).resolve(4 * kGiB), 8 * kGiB);
}

TEST(Caps, APercentageIsOfTheCardsTotal) {
  EXPECT_EQ(caps("50%").at(0).resolve(16 * kGiB), 8 * kGiB);
  EXPECT_EQ(caps("100%").at(0).resolve(17179869185), 17179869185u);
  EXPECT_EQ(caps("12.5%").at(3).resolve(16 * kGiB), 2 * kGiB);
  EXPECT_EQ(caps("50 %").at(0).resolve(16 * kGiB), 8 * kGiB);
}

TEST(Caps, UnlimitedIsNoCap) {
  EXPECT_EQ(caps("unlimited").at(0).resolve(kGiB), 18446744073709551615u);
  EXPECT_FALSE(caps("unlimited").caps_anything());
  EXPECT_FALSE(caps("0=unlimited").caps_anything());
  EXPECT_TRUE(caps("8GiB,0=unlimited").caps_anything());
  EXPECT_TRUE(caps("1=8GiB").caps_anything());
}

TEST(Caps, ByPositionTheRestIsUncapped) {
  const CapSpec spec = caps("0=8GiB,2=50%");
  EXPECT_EQ(spec.at(0).resolve(16 * kGiB), 8 * kGiB);
  EXPECT_EQ(spec.at(1).resolve(16 * kGiB), 18446744073709551615u);
  EXPECT_EQ(spec.at(2).resolve(10 * kGiB), 5 * kGiB);
}

TEST(Caps, APositionOverridesTheCapForAll) {
  const CapSpec spec = caps("8GiB,1=4GiB");
  EXPECT_EQ(spec.at(0).resolve(16 * kGiB), 8 * kGiB);
  EXPECT_EQ(spec.at(1).resolve(16 * kGiB), 4 * kGiB);
}

TEST(Caps, ZeroIsNeverTakenForNoLimit) {
  EXPECT_EQ(caps_error("0"),
            "0: would leave nothing; write unlimited for no cap, or --devices none for no GPU");
  EXPECT_EQ(caps_error("0.00"),
            "0.00: would leave nothing; write unlimited for no cap, or --devices none for no GPU");
  EXPECT_EQ(caps_error("0.1B"),
            "0.1B: would leave nothing; write unlimited for no cap, or --devices none for no GPU");
  EXPECT_EQ(caps_error("1=8GiB,0=0"),
            "0: would leave nothing; write unlimited for no cap, or leave that GPU out of --devices");
  EXPECT_EQ(caps_error("0=0%"),
            "0%: would leave nothing; write unlimited for no cap, or leave that GPU out of --devices");
}

TEST(Caps, WhatIsNoCapIsRefused) {
  EXPECT_EQ(caps_error("lots"), "lots: is no size; write a number with a unit: 8GiB, 512MiB, 1.5TiB");
  EXPECT_EQ(caps_error("8"), "8: has no unit; write 8GiB if that is meant");
  EXPECT_EQ(caps_error("0GiB"),
            "0GiB: would leave nothing; write unlimited for no cap, or --devices none for no GPU");
  EXPECT_EQ(caps_error("0%"),
            "0%: would leave nothing; write unlimited for no cap, or --devices none for no GPU");
  EXPECT_EQ(caps_error("101%"), "101%: is more than the whole card; write at most 100%");
  EXPECT_EQ(caps_error("-5%"), "-5%: is no percentage; write 50% or 12.5%");
  EXPECT_EQ(caps_error("nan%"), "nan%: is no percentage; write 50% or 12.5%");
  EXPECT_EQ(caps_error("%"), "%: is no percentage; write 50% or 12.5%");
  EXPECT_EQ(caps_error("0=8GiB,0=4GiB"), "0=8GiB,0=4GiB: caps position 0 twice; write it once");
  EXPECT_EQ(caps_error("8GiB,4GiB"),
            "8GiB,4GiB: has two caps for every GPU; write 0=8GiB,1=4GiB for caps by position");
  EXPECT_EQ(caps_error("x=8GiB"),
            "x=8GiB: doesn't begin with a position in the view; write 0=8GiB for the first GPU, 1=4GiB for "
            "the second");
  EXPECT_EQ(caps_error("-1=8GiB"),
            "-1=8GiB: doesn't begin with a position in the view; write 0=8GiB for the first GPU, 1=4GiB for "
            "the second");
  EXPECT_EQ(caps_error("8GiB,"), "8GiB,: has an empty entry; write 8GiB or 0=8GiB,1=4GiB");
  EXPECT_EQ(caps_error(""), "a cap: is empty; write a number with a unit: 8GiB, 512MiB, 1.5TiB");
  for (const char* text : {"99999999999=8GiB", "=8GiB", "0=", "0==8GiB", "0=1=2", "8GiB&", "&", "0=8"})
    EXPECT_FALSE(parse_caps(text)) << text;
}

TEST(Caps, TheirTextIsExactAndReadsBack) {
  EXPECT_EQ(to_text(caps("8 g")), "8GiB");
  EXPECT_EQ(to_text(caps("1.5GiB")), "1536MiB");
  EXPECT_EQ(to_text(caps("8589934593B")), "8589934593B");
  EXPECT_EQ(to_text(caps("1=4G, 0=8G")), "0=8GiB,1=4GiB");
  EXPECT_EQ(to_text(caps("2=50%,8G")), "8GiB,2=50%");
  EXPECT_EQ(to_text(caps("33.3%")), "33.3%");
  EXPECT_EQ(to_text(caps("0.0000001%")), "0.0000001%");
  EXPECT_EQ(to_text(CapSpec{}), "unlimited");
  for (const char* text :
       {"8GiB", "50%", "unlimited", "0=8GiB,1=4GiB", "8GiB,0=33.3%", "8GiB&50%", "0=1TiB&12.5%", "7B"})
    EXPECT_EQ(to_text(caps(text)), text);
}

TEST(Caps, PeopleReadThemWithBlanks) {
  EXPECT_EQ(describe(caps("8G").at(0)), "8 GiB");
  EXPECT_EQ(describe(caps("12.5%").at(0)), "12.5 %");
  EXPECT_EQ(describe(caps("8GiB&50%").at(0)), "8 GiB and at most 50 %");
  EXPECT_EQ(describe(Amount{}), "unlimited");
}

TEST(Caps, OfTwoRulesTheTighterHoldsAtEachPosition) {
  EXPECT_EQ(to_text(tighter(caps("8GiB"), caps("4GiB"))), "4GiB");
  EXPECT_EQ(to_text(tighter(caps("8GiB"), CapSpec{})), "8GiB");
  EXPECT_EQ(to_text(tighter(caps("8GiB"), caps("0=4GiB"))), "8GiB,0=4GiB");
  EXPECT_EQ(to_text(tighter(caps("0=unlimited,8GiB"), caps("6GiB"))), "6GiB,0=6GiB");
  EXPECT_EQ(to_text(tighter(caps("0=8GiB"), caps("0=4GiB,1=2GiB"))), "0=4GiB,1=2GiB");
}

TEST(Caps, BytesAndAShareBothHold) {
  const CapSpec both = tighter(caps("8GiB"), caps("50%"));
  EXPECT_EQ(to_text(both), "8GiB&50%");
  EXPECT_EQ(both.at(0).resolve(80 * kGiB), 8 * kGiB);
  EXPECT_EQ(both.at(0).resolve(10 * kGiB), 5 * kGiB);
  EXPECT_EQ(to_text(tighter(both, caps("25%"))), "8GiB&25%");
}

}  // namespace
}  // namespace gpufence::policies
