// What GPUFENCE_SIM can say, and what comes of it.
#include "machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

namespace gpufence::sim {
namespace {

constexpr uint64_t kGiB = 1073741824;

Machine good(std::string_view spec) {
  auto machine = read_machine(spec);
  EXPECT_TRUE(machine.has_value()) << spec << ": " << (machine ? "" : machine.error());
  return machine ? *machine : Machine{};
}

std::string error(std::string_view spec) {
  auto machine = read_machine(spec);
  EXPECT_FALSE(machine.has_value()) << spec;
  return machine ? "" : machine.error();
}

class File {
 public:
  explicit File(const std::string& text) : path("machine-test-" + std::to_string(getpid()) + ".toml") {
    std::ofstream(path) << text;
  }
  ~File() { remove(path.c_str()); }
  const std::string path;
};

TEST(ShortForm, ANumberIsThatManyGpusOf16GiB) {
  const Machine m = good("4");
  ASSERT_EQ(m.gpus.size(), 4u);
  EXPECT_EQ(m.gpus[3].memory_bytes, 17179869184u);
  EXPECT_EQ(m.gpus[3].context_bytes, 268435456u);
  EXPECT_EQ(m.driver_version, 13000);
}

TEST(ShortForm, NumberTimesSizeWithEitherSign) {
  for (const char* spec : {"4x80GiB",
                           "4\xc3\x97"
                           "80GiB",
                           "4x80G", "4X80gb"}) {
    const Machine m = good(spec);
    ASSERT_EQ(m.gpus.size(), 4u) << spec;
    EXPECT_EQ(m.gpus[0].memory_bytes, 80 * kGiB) << spec;
  }
}

TEST(ShortForm, AModelBringsNameMemoryAndCapability) {
  const Machine m = good("8xh100");
  ASSERT_EQ(m.gpus.size(), 8u);
  EXPECT_EQ(m.gpus[0].name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(m.gpus[0].cc_major, 9);
  EXPECT_EQ(m.gpus[0].multiprocessors, 132);
  EXPECT_EQ(good("t4").gpus.size(), 1u);
}

TEST(ShortForm, SmallGpusHaveSmallContexts) {
  EXPECT_EQ(good("1x64MiB").gpus[0].context_bytes, 4194304u);
}

TEST(ShortForm, PciIdsAscendAndCountNine) {
  const Machine m = good("9");
  EXPECT_EQ(pci_text(m.gpus[0]), "0000:01:00.0");
  EXPECT_EQ(pci_text(m.gpus[3]), "0000:81:00.0");
  EXPECT_EQ(pci_text(m.gpus[8]), "0001:01:00.0");
}

TEST(ShortForm, NonsenseSaysWhyAndWhatToDo) {
  EXPECT_EQ(error("0"), "\"0\" asks for too few or too many GPUs; use 1 to 64");
  EXPECT_EQ(error("999"), "\"999\" asks for too few or too many GPUs; use 1 to 64");
  EXPECT_EQ(error("4x80"), "\"80\" has no unit; write 80GiB");
  EXPECT_NE(error("4 GPUs").find("use 4, 4x80GiB, 8xh100"), std::string::npos);
  EXPECT_NE(error("8xh999").find("models: sim, b200"), std::string::npos);
  EXPECT_NE(error("/nowhere/machine.toml").find("can't be read"), std::string::npos);
}

TEST(Identity, EqualDescriptionsAreOneMachineAndOthersShareNoUuid) {
  EXPECT_EQ(good("4").key, good("4x16GiB").key);
  EXPECT_EQ(good("4").gpus[2].uuid, good("4x16GiB").gpus[2].uuid);
  std::set<std::string> seen;
  for (const char* spec : {"4", "5", "4x8GiB", "4xh100", "4xa100"})
    for (const Gpu& gpu : good(spec).gpus) EXPECT_TRUE(seen.insert(uuid_text(gpu.uuid)).second) << spec;
}

TEST(Identity, UuidsShowThatTheyAreSimulatedAndWhichGpu) {
  const Machine m = good("4");
  EXPECT_EQ(uuid_text(m.gpus[0].uuid).substr(0, 8), "GPU-5130");
  EXPECT_EQ(uuid_text(m.gpus[3].uuid).substr(0, 8), "GPU-5133");
  EXPECT_EQ(uuid_text(m.gpus[0].uuid).size(), 40u);
}

TEST(File, AllKeys) {
  const File file(R"(driver_version = 12080
[[gpu]]
model = "a100"
pci = "0000:c1:00.0"
[[gpu]]
name = "Small"
memory = "8GiB"
compute_capability = "7.5"
multiprocessors = 40
uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef"
pci = "0000:02:00.0"
numa = 1
context = "100MiB"
fastest_rank = 0
fail_alloc_at = 3
)");
  const Machine m = good(file.path);
  EXPECT_EQ(m.driver_version, 12080);
  ASSERT_EQ(m.gpus.size(), 2u);
  // In PCI order, whatever the file's.
  EXPECT_EQ(m.gpus[0].name, "Small");
  EXPECT_EQ(m.gpus[0].memory_bytes, 8 * kGiB);
  EXPECT_EQ(m.gpus[0].cc_major, 7);
  EXPECT_EQ(m.gpus[0].cc_minor, 5);
  EXPECT_EQ(uuid_text(m.gpus[0].uuid), "GPU-01234567-89ab-cdef-0123-456789abcdef");
  EXPECT_EQ(m.gpus[0].numa_node, 1);
  EXPECT_EQ(m.gpus[0].context_bytes, 104857600u);
  EXPECT_EQ(m.gpus[0].fail_alloc_at, 3u);
  EXPECT_EQ(m.gpus[1].name, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(fastest_first(m), (std::vector<int>{0, 1}));
}

TEST(File, PeersAreGroupsOfHostIndices) {
  const File file("peers = [[2, 0]]\n[[gpu]]\ncount = 3\n");
  const Machine m = good(file.path);
  EXPECT_EQ(m.gpus[0].peers, 4u);
  EXPECT_EQ(m.gpus[1].peers, 0u);
  EXPECT_EQ(m.gpus[2].peers, 1u);
  // Other links make another machine.
  EXPECT_NE(m.key, good(File("[[gpu]]\ncount = 3\n").path).key);
  EXPECT_EQ(good("3xh100").gpus[1].peers, 5u);
}

TEST(File, CountRepeatsAndFastestFirstGoesByCapability) {
  const File file("[[gpu]]\nmodel = \"t4\"\n[[gpu]]\nmodel = \"h100\"\ncount = 2\n");
  EXPECT_EQ(fastest_first(good(file.path)), (std::vector<int>{1, 2, 0}));
}

TEST(File, ErrorsNameFileLineAndColumn) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"[[gpu]]\nmemroy = \"8GiB\"\n", ":2:1: unknown key memroy; known are model, count"},
      {"[[gpu]]\nmemory = \"8\"\n", ":2:10: \"8\" has no unit; write 8GiB"},
      {"[[gpu]]\nmemory = 8\n", ":2:10: memory is not a size in quotes"},
      {"[[gpu]]\npci = \"01.0\"\n", ":2:7: \"01.0\" is no PCI id"},
      {"[[gpu]]\nuuid = \"GPU-1\"\n", ":2:8: \"GPU-1\" is no UUID"},
      {"[[gpu]]\ncount = 2\nuuid = \"GPU-01234567-89ab-cdef-0123-456789abcdef\"\n",
       ":1:1: count with uuid or pci"},
      {"peers = \"some\"\n[[gpu]]\n",
       ":1:9: peers is no list of groups; write \"all\", \"none\" or host indices"},
      {"peers = [[0, -1]]\n[[gpu]]\n", ":1:9: peers is no list of groups"},
      {"peers = [[0, 2]]\n[[gpu]]\ncount = 2\n", ":1:9: peers names GPU 2; the last one is 1"},
      {"[[gpu]]\ncount = 0\n", ":2:9: count is out of range; use 1 to 64"},
      {"[[gpu]]\ncount = -1\n", ":2:9: count is out of range; use 1 to 64"},
      {"[[gpu]]\ncount = 40000000\n", ":2:9: count is out of range; use 1 to 64"},
      {"[[gpu]]\nmultiprocessors = -1\n", ":2:19: multiprocessors is out of range; use 1 to 1024"},
      {"[[gpu]]\npci = \"0000:-1:00.0\"\n", ":2:7: \"0000:-1:00.0\" is no PCI id"},
      {"[[gpu]]\npci = \"-001:81:00.0\"\n", ":2:7: \"-001:81:00.0\" is no PCI id"},
      {"gpu = 3\n", ":1:7: gpu is not a list of tables"},
      {"[[gpu]\n", ":1:"},
      {"", ":1:1: 0 GPUs"},
      {"[[gpu]]\npci = \"0000:02:00.0\"\n[[gpu]]\npci = \"0000:02:00.0\"\n",
       ":3:1: two GPUs at PCI id 0000:02:00.0; give every GPU its own"},
  };
  for (const auto& c : cases) {
    const File file(c.text);
    const std::string said = error(file.path);
    EXPECT_EQ(said.find(file.path + ":"), 0u) << said;
    EXPECT_NE(said.find(c.error), std::string::npos) << said;
  }
}

TEST(Split, GpusHaveTheInstancesOfTheirProfiles) {
  const File file(R"([[gpu]]
model = "h100"
[[gpu.mig]]
profile = "3g.40gb"
[[gpu.mig]]
profile = "1g.10gb"
count = 2
multiprocessors = 15
[[gpu]]
model = "h100"
)");
  const Machine m = good(file.path);
  ASSERT_EQ(m.gpus.size(), 2u);
  ASSERT_EQ(m.instances.size(), 3u);
  EXPECT_EQ(m.units(), 5u);
  EXPECT_TRUE(m.gpus[0].mig);
  EXPECT_FALSE(m.gpus[1].mig);
  const Gpu& first = m.unit(2);
  EXPECT_EQ(first.name, "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
  EXPECT_EQ(first.memory_bytes, 40 * kGiB);
  EXPECT_EQ(first.multiprocessors, 60);
  EXPECT_EQ(first.parent, 0u);
  EXPECT_EQ(first.gpu_instance, 1u);
  EXPECT_EQ(uuid_text(first).substr(0, 8), "MIG-5130");
  EXPECT_EQ(m.unit(3).memory_bytes, 10 * kGiB);
  EXPECT_EQ(m.unit(3).multiprocessors, 15);
  EXPECT_EQ(m.unit(4).gpu_instance, 8u);
  EXPECT_NE(m.unit(3).uuid, m.unit(4).uuid);
  // "P2P is not supported" with MIG.
  EXPECT_EQ(m.gpus[0].peers, 0u);
  EXPECT_EQ(m.gpus[1].peers, 0u);
  // Split otherwise it is another machine.
  EXPECT_NE(m.key, good("2xh100").key);
}

TEST(Split, SizesFollowTheGpu) {
  // As nvidia-smi lists them (NVIDIA's MIG user guide).
  const struct {
    const char *model, *profile;
    uint64_t bytes;
    int multiprocessors;
  } cases[] = {{"a100-40", "1g.5gb", 5 * kGiB, 14},     {"a100-40", "3g.20gb", 20 * kGiB, 42},
               {"a100", "7g.80gb", 80 * kGiB, 98},      {"a100", "4g.40gb", 40 * kGiB, 56},
               {"h100", "2g.20gb", 20 * kGiB, 32},      {"h100", "1g.20gb", 20 * kGiB, 26},
               {"h100", "7g.80gb", 80 * kGiB, 132},     {"h200", "1g.18gb", 141 * kGiB / 8, 16},
               {"h200", "3g.71gb", 141 * kGiB / 2, 60}, {"b200", "1g.23gb", 180 * kGiB / 8, 18}};
  for (const auto& c : cases) {
    const File file("[[gpu]]\nmodel = \"" + std::string(c.model) + "\"\n[[gpu.mig]]\nprofile = \"" +
                    c.profile + "\"\n");
    const Machine m = good(file.path);
    ASSERT_EQ(m.instances.size(), 1u) << c.profile;
    EXPECT_EQ(m.instances[0].memory_bytes, c.bytes) << c.profile;
    EXPECT_EQ(m.instances[0].multiprocessors, c.multiprocessors) << c.profile;
  }
}

TEST(File, FaultsAreOfTheGpuOrOfTheCall) {
  const File file("[[slow]]\ncall = \"cuMemAlloc_v2\"\nms = 20\n[[gpu]]\nlost_at = 7\n");
  const Machine m = good(file.path);
  EXPECT_EQ(m.gpus[0].lost_at, 7u);
  ASSERT_EQ(m.slow.size(), 1u);
  EXPECT_EQ(m.slow[0].call, "cuMemAlloc_v2");
  EXPECT_EQ(m.slow[0].ns, 20'000'000u);
  EXPECT_NE(m.key, good("1").key);
}

TEST(File, DriversMayBeOlderAndNewer) {
  for (int version : {11080, 12040, 14000}) {
    const File file("driver_version = " + std::to_string(version) + "\n[[gpu]]\n");
    EXPECT_EQ(good(file.path).driver_version, version);
  }
}

TEST(File, ErrorsOfSplitGpusAndFaultsSayWhatToDo) {
  const std::string split = "[[gpu]]\nmodel = \"a100\"\n[[gpu.mig]]\n";
  const struct {
    std::string text;
    const char* error;
  } cases[] = {
      {split + "count = 2\n", ":3:1: an instance has no profile; write profile = \"3g.40gb\""},
      {split + "profile = \"1g.10gb\"\ncount = -1\n", ":5:9: count is out of range; use 1 to 7"},
      {split + "profile = \"1g.10gb\"\ncount = 40000000\n", ":5:9: count is out of range; use 1 to 7"},
      {split + "profile = \"half\"\n", ":4:11: \"half\" is no profile; write for example \"3g.40gb\""},
      {split + "profile = \"5g.50gb\"\n", ":4:11: \"5g.50gb\" is no profile; a GPU is split into parts of"},
      {split + "profile = \"3g.20gb\"\n",
       ":4:11: \"3g.20gb\" is no profile of this GPU; it has 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb and "
       "7g.80gb"},
      {"[[gpu]]\nmodel = \"t4\"\n[[gpu.mig]]\nprofile = \"1g.2gb\"\n",
       ":4:11: a GPU of compute capability 7.5 has no MIG; take a100"},
      {split + "profile = \"4g.40gb\"\ncount = 2\n",
       ":3:1: the instances of this GPU take 8 of 7 slices and 8 of 8 parts of its memory; leave this one "
       "out"},
      {split + "profile = \"1g.10gb\"\nuuid = \"GPU-01234567-89ab-cdef-0123-456789abcdef\"\n",
       ":5:8: \"GPU-01234567-89ab-cdef-0123-456789abcdef\" is no UUID; write MIG-"},
      {split + "profile = \"1g.10gb\"\nsize = 3\n", ":5:1: unknown key size; known are profile, count"},
      {"[[gpu]]\nmodel = \"a100\"\nmig = true\n", ":3:7: mig is not a list of tables; write [[gpu.mig]]"},
      {"peers = [[0, 1]]\n[[gpu]]\nmodel = \"a100\"\ncount = 2\n[[gpu.mig]]\nprofile = \"7g.80gb\"\n",
       ":1:9: peers names GPU 0, which is split (mig) and has none; leave it out"},
      {"[[slow]]\ncall = \"cuMemAlloc_v2\"\nms = -1\n[[gpu]]\n", ":3:6: ms is out of range; use 1 to 600000"},
      {"[[gpu]]\nlost_at = 0\n", ":2:11: lost_at is out of range; use 1 to"},
      {"[[slow]]\nms = 5\n[[gpu]]\n", ":1:1: a slow call needs both; write call = "},
      {"[[slow]]\ncall = \"cudaMalloc\"\nms = 5\n[[gpu]]\n",
       ":2:8: \"cudaMalloc\" is no call of the driver; write for example \"cuMemAlloc_v2\""},
      {"driver_version = 13\n[[gpu]]\n", ":1:18: driver_version is out of range; use 10000 to 99990"},
      {"[[gpu]]\nmemory = \"1GiB\"\ncontext = \"2GiB\"\n",
       ":3:11: a context costs more than the GPU's whole memory; write a smaller one"},
      {"[[gpu]]\nnuma = -1\n", ":2:8: numa is out of range; use 0 to 1023"},
      {"[[gpu]]\ncompute_capability = \"nine\"\n", ":2:22: \"nine\" is no compute capability"},
  };
  for (const auto& c : cases) {
    const File file(c.text);
    const std::string said = error(file.path);
    EXPECT_EQ(said.find(file.path + ":"), 0u) << said;
    EXPECT_NE(said.find(c.error), std::string::npos) << said << "\nfor\n" << c.text;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

TEST(Examples, AreMachines) {
  const Machine eight = good(EXAMPLES "eight-h100.toml");
  ASSERT_EQ(eight.gpus.size(), 8u);
  EXPECT_EQ(eight.gpus[0].peers, 0xfeu);
  EXPECT_EQ(eight.gpus[3].numa_node, 0);
  EXPECT_EQ(eight.gpus[4].numa_node, 1);

  const Machine mixed = good(EXAMPLES "mixed.toml");
  ASSERT_EQ(mixed.gpus.size(), 3u);
  EXPECT_EQ(mixed.gpus[0].name, "Tesla K80");
  EXPECT_EQ(mixed.gpus[2].name, "NVIDIA GeForce RTX 3090");
  EXPECT_EQ(fastest_first(mixed), (std::vector<int>{2, 1, 0}));

  const Machine split = good(EXAMPLES "mig-a100.toml");
  EXPECT_EQ(split.gpus.size(), 2u);
  ASSERT_EQ(split.instances.size(), 4u);
  EXPECT_EQ(uuid_text(split.instances[0]), "MIG-a1000000-0000-4000-8000-000000000001");

  const Machine laptop = good(EXAMPLES "laptop.toml");
  EXPECT_EQ(laptop.driver_version, 12040);
  EXPECT_EQ(laptop.gpus.at(0).context_bytes, 125829120u);

  const Machine failing = good(EXAMPLES "failing.toml");
  EXPECT_EQ(failing.gpus.at(0).lost_at, 1000u);
  EXPECT_EQ(failing.gpus.at(1).fail_alloc_at, 100u);
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EXAMPLES)) {
    good(entry.path().string());
    ++read;
  }
  EXPECT_EQ(read, 5);
}

}  // namespace
}  // namespace gpufence::sim
