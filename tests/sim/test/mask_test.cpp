// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
#include "mask.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace gpufence::sim {
namespace {

using Indices = std::vector<size_t>;

Machine four() {
  return *read_machine("4");
}

TEST(Mask, UnsetIsAllAndEmptyIsNone) {
  EXPECT_EQ(visible_gpus(four(), nullptr, nullptr), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(visible_gpus(four(), "", nullptr), Indices{});
}

TEST(Mask, TheOrderOfTheListIsTheOrderOfTheOrdinals) {
  EXPECT_EQ(visible_gpus(four(), "2,0", nullptr), (Indices{2, 0}));
}

TEST(Mask, TheFirstInvalidEntryEndsTheList) {
  EXPECT_EQ(visible_gpus(four(), "0,2,-1,1", nullptr), (Indices{0, 2}));
  EXPECT_EQ(visible_gpus(four(), "1,4,0", nullptr), Indices{1});
  EXPECT_EQ(visible_gpus(four(), "1,,0", nullptr), Indices{1});
  EXPECT_EQ(visible_gpus(four(), "1x", nullptr), Indices{});
  EXPECT_EQ(visible_gpus(four(), "-1", nullptr), Indices{});
  EXPECT_EQ(visible_gpus(four(), "NoDevFiles", nullptr), Indices{});
}

TEST(Mask, TheSameGpuTwiceEmptiesTheList) {
  const std::string uuid = uuid_text(four().gpus[1].uuid);
  EXPECT_EQ(visible_gpus(four(), "0,0", nullptr), Indices{});
  EXPECT_EQ(visible_gpus(four(), ("1," + uuid).c_str(), nullptr), Indices{});
}

TEST(Mask, BlanksRoundEntriesDoNotMatter) {
  EXPECT_EQ(visible_gpus(four(), " 0 ,\t1", nullptr), (Indices{0, 1}));
}

TEST(Mask, UuidsMayBeShortenedWhileTheyAreUnique) {
  const std::string uuid = uuid_text(four().gpus[2].uuid);
  EXPECT_EQ(visible_gpus(four(), uuid.c_str(), nullptr), Indices{2});
  EXPECT_EQ(visible_gpus(four(), "GPU-5132,GPU-5130", nullptr), (Indices{2, 0}));
  EXPECT_EQ(visible_gpus(four(), "0,GPU-513", nullptr), Indices{0});
  EXPECT_EQ(visible_gpus(four(), (uuid + "0").c_str(), nullptr), Indices{});
}

TEST(Mask, NumbersFollowTheDeviceOrder) {
  Machine m = *read_machine("3");
  m.gpus[2].fastest_rank = 0;
  m.gpus[0].fastest_rank = 1;
  EXPECT_EQ(visible_gpus(m, nullptr, nullptr), (Indices{2, 0, 1}));
  EXPECT_EQ(visible_gpus(m, "0,2", "FASTEST_FIRST"), (Indices{2, 1}));
  EXPECT_EQ(visible_gpus(m, "0,2", "PCI_BUS_ID"), (Indices{0, 2}));
  EXPECT_EQ(visible_gpus(m, "0", "nonsense"), Indices{2});
}

// Two GPUs, of which the second in PCI order is split in two: units 2 and 3.
Machine with_instances() {
  const std::string path = "mask-test-" + std::to_string(getpid()) + ".toml";
  std::ofstream(path) << "[[gpu]]\nmodel = \"a100\"\n[[gpu]]\nmodel = \"a100\"\n"
                         "[[gpu.mig]]\nprofile = \"3g.40gb\"\ncount = 2\n";
  auto machine = read_machine(path);
  remove(path.c_str());
  EXPECT_TRUE(machine.has_value());
  return *machine;
}

// NVIDIA's MIG user guide, "CUDA Device Enumeration".
TEST(Mask, ShowsOneInstanceAndNoOtherGpuBesideIt) {
  const Machine m = with_instances();
  const std::string first = uuid_text(m.unit(2)), second = uuid_text(m.unit(3)), gpu = uuid_text(m.gpus[1]),
                    whole = uuid_text(m.gpus[0]);
  EXPECT_EQ(visible_gpus(m, nullptr, nullptr), Indices{2});
  EXPECT_EQ(visible_gpus(m, second.c_str(), nullptr), Indices{3});
  EXPECT_EQ(visible_gpus(m, (second + "," + first).c_str(), nullptr), Indices{3});
  EXPECT_EQ(visible_gpus(m, ("0," + second).c_str(), nullptr), Indices{3});
  EXPECT_EQ(visible_gpus(m, "0", nullptr), Indices{0});
  EXPECT_EQ(visible_gpus(m, "0,1", nullptr), Indices{2});
  EXPECT_EQ(visible_gpus(m, gpu.c_str(), nullptr), Indices{2});
  EXPECT_EQ(visible_gpus(m, whole.c_str(), nullptr), Indices{0});
  EXPECT_EQ(visible_gpus(m, second.substr(0, 8).c_str(), nullptr), Indices{3});
  EXPECT_EQ(visible_gpus(m, "MIG-513", nullptr), Indices{});  // of both
  // Drivers before R470: GPU, GPU instance, compute instance.
  EXPECT_EQ(visible_gpus(m, ("MIG-" + gpu + "/2/0").c_str(), nullptr), Indices{3});
  EXPECT_EQ(visible_gpus(m, ("MIG-" + gpu + "/3/0").c_str(), nullptr), Indices{});
}

}  // namespace
}  // namespace gpufence::sim
