// LIST: what each way of naming GPUs means, and that nothing is ever left out in silence.
#include "policies/selector.h"

#include <gtest/gtest.h>

namespace gpufence::policies {
namespace {

using Gpus = std::vector<std::size_t>;

constexpr std::uint64_t kGiB = 1073741824;

const std::vector<Gpu> kMachine{
    {0, "GPU-8f3a0000-0000-0000-0000-000000000000", "0000:01:00.0", "NVIDIA H100 80GB HBM3", 80 * kGiB, 9, 0,
     0},
    {1, "GPU-8f3b0000-0000-0000-0000-000000000000", "0000:25:00.0", "NVIDIA A100-SXM4-40GB", 40 * kGiB, 8, 0,
     0},
    {2, "GPU-c1000000-0000-0000-0000-000000000000", "0000:81:00.0", "NVIDIA H100 80GB HBM3", 80 * kGiB, 9, 0,
     1},
    {3, "GPU-d2000000-0000-0000-0000-000000000000", "0001:01:00.0", "Tesla T4", 16 * kGiB, 7, 5, -1},
};

Gpus gpus(std::string_view list, const Ceiling* ceiling = nullptr) {
  const auto selected = select_gpus(list, kMachine, ceiling);
  EXPECT_TRUE(selected) << (selected ? "" : selected.error().text());
  return selected.value_or(Gpus{99});
}

std::string error(std::string_view list, const Ceiling* ceiling = nullptr) {
  const auto selected = select_gpus(list, kMachine, ceiling);
  return selected ? "no error, " + std::to_string(selected->size()) + " GPUs" : selected.error().text();
}

constexpr const char* kThereIs =
    "there are host GPUs 0 (H100, 0000:01:00.0), 1 (A100, 0000:25:00.0), 2 (H100, 0000:81:00.0), 3 (T4, "
    "0001:01:00.0)";

TEST(Selector, NumbersAreHostIndicesInTheOrderWritten) {
  EXPECT_EQ(gpus("2,0"), (Gpus{2, 0}));
  EXPECT_EQ(gpus(" 2 , 0 "), (Gpus{2, 0}));
  EXPECT_EQ(gpus("host:3"), (Gpus{3}));
}

TEST(Selector, RangesGoBothWays) {
  EXPECT_EQ(gpus("0-3"), (Gpus{0, 1, 2, 3}));
  EXPECT_EQ(gpus("3-0"), (Gpus{3, 2, 1, 0}));
  EXPECT_EQ(gpus("2-2"), (Gpus{2}));
  EXPECT_EQ(gpus("host:1-2,0"), (Gpus{1, 2, 0}));
}

TEST(Selector, AUuidMayBeCutShortAndWrittenInCapitals) {
  EXPECT_EQ(gpus("GPU-8f3a"), (Gpus{0}));
  EXPECT_EQ(gpus("gpu-C1"), (Gpus{2}));
  EXPECT_EQ(gpus("GPU-8F3B0000-0000-0000-0000-000000000000,GPU-d"), (Gpus{1, 3}));
}

TEST(Selector, APciIdMayBeShortOrLong) {
  EXPECT_EQ(gpus("0000:81:00.0"), (Gpus{2}));
  EXPECT_EQ(gpus("00000000:81:00.0"), (Gpus{2}));
  EXPECT_EQ(gpus("81:00.0"), (Gpus{2}));
  EXPECT_EQ(gpus("81:00"), (Gpus{2}));
  EXPECT_EQ(gpus("0001:01:00.0"), (Gpus{3}));
  EXPECT_EQ(error("01:00.0"),
            "--devices 01:00.0: '01:00.0' is the PCI id of more than one GPU; there are host GPUs 0 "
            "(0000:01:00.0), "
            "1 (0000:25:00.0), 2 (0000:81:00.0), 3 (0001:01:00.0)");
}

TEST(Selector, AllAndNone) {
  EXPECT_EQ(gpus("all"), (Gpus{0, 1, 2, 3}));
  EXPECT_EQ(gpus("none"), Gpus{});
  EXPECT_EQ(error("0,none"), "--devices 0,none: 'none' stands alone; write --devices none for no GPU");
  EXPECT_EQ(error("-none"), "--devices -none: 'none' stands alone; write --devices none for no GPU");
}

TEST(Selector, AMinusTakesAwayWhereverItStands) {
  EXPECT_EQ(gpus("all,-3"), (Gpus{0, 1, 2}));
  EXPECT_EQ(gpus("-3,all"), (Gpus{0, 1, 2}));
  EXPECT_EQ(gpus("-3"), (Gpus{0, 1, 2}));
  EXPECT_EQ(gpus("-0-1"), (Gpus{2, 3}));
  EXPECT_EQ(gpus("-GPU-c1,-25:00.0"), (Gpus{0, 3}));
  EXPECT_EQ(gpus("name:H100,-2"), (Gpus{0}));
  EXPECT_EQ(gpus("-name:H100"), (Gpus{1, 3}));
  EXPECT_EQ(gpus("0,1,-3"), (Gpus{0, 1}));
}

TEST(Selector, TakingEverythingAwayIsAnError) {
  EXPECT_EQ(error("-0-3"), "--devices -0-3: this leaves no GPU; write none if no GPU is meant");
  EXPECT_EQ(error("all,-all"), "--devices all,-all: this leaves no GPU; write none if no GPU is meant");
  EXPECT_EQ(error("2,-2"), "--devices 2,-2: host GPU 2 is both named and taken away; write one of the two");
}

TEST(Selector, ConditionsMeanEveryGpuThatMeetsThem) {
  EXPECT_EQ(gpus("name:h100"), (Gpus{0, 2}));
  EXPECT_EQ(gpus("cc:8.0+"), (Gpus{0, 1, 2}));
  EXPECT_EQ(gpus("cc:8.0"), (Gpus{1}));
  EXPECT_EQ(gpus("cc:7"), (Gpus{3}));
  EXPECT_EQ(gpus("cc:7.0+"), (Gpus{0, 1, 2, 3}));
  EXPECT_EQ(gpus("mem:40GiB+"), (Gpus{0, 1, 2}));
  EXPECT_EQ(gpus("numa:1"), (Gpus{2}));
  EXPECT_EQ(gpus("numa:0"), (Gpus{0, 1}));
}

TEST(Selector, ConditionsThatNothingMeetsAreErrors) {
  EXPECT_EQ(error("name:B200"),
            "--devices name:B200: no GPU meets 'name:B200'; there are host GPUs 0 (NVIDIA H100 80GB HBM3), "
            "1 (NVIDIA A100-SXM4-40GB), 2 (NVIDIA H100 80GB HBM3), 3 (Tesla T4)");
  EXPECT_EQ(error("mem:100GiB+"),
            "--devices mem:100GiB+: no GPU meets 'mem:100GiB+'; there are host GPUs 0 (80 GiB), 1 (40 GiB), "
            "2 (80 GiB), 3 (16 GiB)");
  EXPECT_EQ(error("mem:40GiB"),
            "--devices mem:40GiB: 'mem:40GiB' would be an exact size, which no card has; write mem:40GiB+ "
            "for at least that much");
  EXPECT_EQ(error("cc:new"),
            "--devices cc:new: 'cc:new' is no compute capability; write it as cc:8.0 or cc:8.0+");
  EXPECT_EQ(error("numa:x"), "--devices numa:x: 'numa:x' is no NUMA node; write it as numa:0");
  EXPECT_EQ(error("name:"), "--devices name:: 'name:' asks for nothing; write it as name:A100");
}

TEST(Selector, WhatAllAddsAgainKeepsItsFirstPlace) {
  EXPECT_EQ(gpus("2,all"), (Gpus{2, 0, 1, 3}));
  EXPECT_EQ(gpus("all,2"), (Gpus{0, 1, 2, 3}));
  EXPECT_EQ(gpus("3,name:H100,all"), (Gpus{3, 0, 2, 1}));
}

TEST(Selector, OneGpuNamedTwiceIsAnErrorHoweverItIsNamed) {
  EXPECT_EQ(error("0,0"), "--devices 0,0: host GPU 0 is named twice, by '0' and '0'; name it once");
  EXPECT_EQ(error("2,GPU-c1"),
            "--devices 2,GPU-c1: host GPU 2 is named twice, by '2' and 'GPU-c1'; name it once");
  EXPECT_EQ(error("81:00.0,0-3"),
            "--devices 81:00.0,0-3: host GPU 2 is named twice, by '81:00.0' and '0-3'; name it once");
}

TEST(Selector, WhatDoesNotExistIsAnErrorThatListsWhatThereIs) {
  EXPECT_EQ(error("9"), std::string("--devices 9: host GPU 9 doesn't exist; ") + kThereIs);
  EXPECT_EQ(error("2-5"), std::string("--devices 2-5: host GPU 4 doesn't exist; ") + kThereIs);
  EXPECT_EQ(error("-9"), std::string("--devices -9: host GPU 9 doesn't exist; ") + kThereIs);
  EXPECT_EQ(error("99999999999999999999"),
            std::string("--devices 99999999999999999999: a GPU of that number doesn't exist; ") + kThereIs);
  EXPECT_EQ(error("gpu0"), std::string("--devices gpu0: 'gpu0' is no GPU, range or condition; ") + kThereIs);
  EXPECT_EQ(error("GPU-8f"),
            "--devices GPU-8f: 'GPU-8f' is the beginning of more than one UUID; there are host GPUs "
            "0 (GPU-8f3a0000-0000-0000-0000-000000000000), 1 (GPU-8f3b0000-0000-0000-0000-000000000000), "
            "2 (GPU-c1000000-0000-0000-0000-000000000000), 3 (GPU-d2000000-0000-0000-0000-000000000000)");
  EXPECT_EQ(error("82:00.0").substr(0, 64),
            "--devices 82:00.0: no GPU has the PCI id '82:00.0'; there are ho");
  EXPECT_EQ(error("GPU-ee").substr(0, 57), "--devices GPU-ee: no GPU has the UUID 'GPU-ee'; there are");
  const auto nowhere = select_gpus("0", {});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().text(), "--devices 0: host GPU 0 doesn't exist; this machine has no GPU");
}

TEST(Selector, GarbageIsAnError) {
  for (const char* list :
       {"",    " ",    ",",      "0,",    ",0",     "0,,1", "-", "--3",     "0-", "-0-", "0-1-2", "1..3",
        "0x1", "GPU-", "GPU-zz", "host:", "host:x", "81:0", ":", "81:00.1", "\n", "0;1", "*"})
    EXPECT_FALSE(select_gpus(list, kMachine)) << list;
}

TEST(Selector, WhatThisVersionDoesNotKnowIsSaidToBeSo) {
  EXPECT_EQ(
      error("free:20GiB+"),
      "--devices free:20GiB+: this version doesn't know 'free:' yet; name GPUs by number, UUID or PCI id");
  EXPECT_EQ(error("rank"),
            "--devices rank: this version doesn't know 'rank' yet; name GPUs by number, UUID or PCI id");
  EXPECT_EQ(error("0:1"),
            "--devices 0:1: this version doesn't know MIG slices yet, which '0:1' names; name whole GPUs by "
            "number, UUID or PCI id");
}

TEST(Selector, AllIsAllOfTheCeilingInItsOrder) {
  const Ceiling ceiling{.source = "CUDA_VISIBLE_DEVICES=2,1", .gpus = {2, 1}};
  EXPECT_EQ(gpus("all", &ceiling), (Gpus{2, 1}));
  EXPECT_EQ(gpus("-1", &ceiling), (Gpus{2}));
  EXPECT_EQ(gpus("all,-3", &ceiling), (Gpus{2, 1}));
  EXPECT_EQ(gpus("1,2", &ceiling), (Gpus{1, 2}));
  EXPECT_EQ(gpus("name:H100", &ceiling), (Gpus{2}));
}

TEST(Selector, AnEntryOutsideTheCeilingNamesVariableAndValue) {
  const Ceiling ceiling{.source = "CUDA_VISIBLE_DEVICES=1,2", .gpus = {1, 2}, .way_out = "--ignore-mask"};
  EXPECT_EQ(error("0", &ceiling),
            "--devices 0: host GPU 0 is outside CUDA_VISIBLE_DEVICES=1,2, which was inherited; choose among "
            "host GPUs "
            "1,2, or leave it with --ignore-mask");
  EXPECT_FALSE(select_gpus("1,3", kMachine, &ceiling));
  EXPECT_FALSE(select_gpus("0-2", kMachine, &ceiling));
  const Ceiling empty{.source = "CUDA_VISIBLE_DEVICES=", .gpus = {}};
  EXPECT_EQ(error("0", &empty),
            "--devices 0: host GPU 0 is outside CUDA_VISIBLE_DEVICES=, which was inherited; no GPU is left "
            "to choose from");
  EXPECT_EQ(error("all", &empty),
            "--devices all: CUDA_VISIBLE_DEVICES=, which was inherited, leaves no GPU; write none if no GPU "
            "is meant");
  EXPECT_EQ(gpus("none", &empty), Gpus{});
}

TEST(Selector, InsideAViewNumberingNumbersArePositions) {
  const Ceiling ceiling{.source = "the outer run's view", .gpus = {2, 0}, .positions = Gpus{2, 0}};
  EXPECT_EQ(gpus("0", &ceiling), (Gpus{2}));
  EXPECT_EQ(gpus("1-0", &ceiling), (Gpus{0, 2}));
  EXPECT_EQ(gpus("host:0", &ceiling), (Gpus{0}));
  EXPECT_EQ(gpus("-0", &ceiling), (Gpus{0}));
  EXPECT_EQ(error("2", &ceiling),
            "--devices 2: position 2 doesn't exist in this view of 2 GPUs (numbering view); write host:N for "
            "the host's index");
  EXPECT_EQ(error("0,host:2", &ceiling),
            "--devices 0,host:2: host GPU 2 is named twice, by '0' and 'host:2'; name it once");
}

}  // namespace
}  // namespace gpufence::policies
