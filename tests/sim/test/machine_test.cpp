// What GPUFENCE_SIM can say, and what comes of it.
#include "machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
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
      {"peers = [[0, 2]]\n[[gpu]]\ncount = 2\n", ":1:1: peers names GPU 2; the last one is 1"},
      {"[[gpu]]\ncount = 0\n", ":2:9: count is out of range; use 1 to 64"},
      {"gpu = 3\n", ":1:7: gpu is not a list of tables"},
      {"[[gpu]\n", ":1:"},
      {"", ":1:1: 0 GPUs"},
      {"[[gpu]]\npci = \"0000:02:00.0\"\n[[gpu]]\npci = \"0000:02:00.0\"\n",
       "two GPUs at PCI id 0000:02:00.0"},
  };
  for (const auto& c : cases) {
    const File file(c.text);
    const std::string said = error(file.path);
    EXPECT_EQ(said.find(file.path + ":"), 0u) << said;
    EXPECT_NE(said.find(c.error), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace gpufence::sim
