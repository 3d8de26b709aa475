// What NVML tells a program: everything outside, the cap's figures under a cap, the view's GPUs alone in
// numbering view. The program is linked to NVML and most of these never load a driver.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "machines.h"

namespace gpufence::harness {
namespace {

const std::vector<std::string> kSetters = {"python3", probe("nvml_setters.py"), probe("nvml_exports.inc")};
const std::vector<std::string> kList = {probe("asks_nvml"), "list"};
const std::vector<std::string> kHoldAndList = {probe("asks_nvml"), "hold", "256", "list"};

std::vector<std::string> asks(std::vector<std::string> words) {
  words.insert(words.begin(), probe("asks_nvml"));
  return words;
}

// "0: index 0 minor 0 Alpha <uuid> <pci>": who a GPU is.
std::string identity(int position, int minor, const char* name, const char* uuid, const char* pci) {
  return std::to_string(position) + ": index " + std::to_string(position) + " minor " +
         std::to_string(minor) + " " + name + " " + uuid + " " + pci + " ";
}

const std::string kHostIdentities[] = {
    identity(0, 0, "Alpha", kUuid0, "0000:01:00.0"), identity(1, 1, "Beta", kUuid1, "0000:41:00.0"),
    identity(2, 2, "Gamma", kUuid2, "0000:81:00.0"), identity(3, 3, "Delta", kUuid3, "0000:C1:00.0")};

testing::AssertionResult ran(const Result& result) {
  if (result.exit == 0 && result.err.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "exit " << result.exit << ": " << result.err;
}

// What stands behind the identity of the GPU at a position.
std::string told(const Result& result, int position) {
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t total = line.find(" total ");
    if (line.starts_with(std::to_string(position) + ": index ") && total != std::string::npos)
      return line.substr(total + 1);
  }
  return "not told";
}

constexpr const char* kNoProcesses = " compute 0/0: v2 0/0: v1 0/0: graphics 0/0: mps 0/0:";
std::string self(int mib) {
  const std::string entry = " self=" + std::to_string(mib);
  return " compute 7/0:" + entry + " v2 7/0:" + entry + " v1 7/0:" + entry + " graphics 0/0: mps 0/0:";
}

TEST(NvmlHost, KeepsIndicesAndAllGpusWhateverTheViewIs) {
  FourGpus m;
  for (const With& with : {With{}, With{.devices = "2,0"}, With{.devices = "3", .gpu_mem = "512MiB"}}) {
    const Result r = m.run(kList, with);
    EXPECT_TRUE(ran(r));
    EXPECT_TRUE(r.says("GPUs: 4 (0), by the first version 4\n"));
    for (const std::string& gpu : kHostIdentities) EXPECT_TRUE(r.says(gpu)) << gpu;
    EXPECT_TRUE(r.says("4: Invalid Argument\n"));
    EXPECT_TRUE(r.calls.empty()) << "NVML alone needs no driver";
  }
}

TEST(NvmlHost, WithoutACapMemoryAndProcessesAreNvmlsOwn) {
  FourGpus m;
  const Result r = m.run(kHoldAndList, {.devices = "2,0"});
  EXPECT_TRUE(ran(r));
  EXPECT_EQ(told(r, 2), "total 2048 used 320 free 1728" + self(320));
  EXPECT_EQ(told(r, 0), std::string("total 4096 used 0 free 4096") + kNoProcesses);
}

TEST(NvmlHost, ACappedGpuTellsTheCapAndWhatCountsAgainstIt) {
  FourGpus m;
  const Result r = m.run(kHoldAndList, {.devices = "2,0", .gpu_mem = "512MiB"});
  EXPECT_TRUE(ran(r));
  EXPECT_EQ(told(r, 2), "total 512 used 256 free 256" + self(256));
  EXPECT_EQ(told(r, 0), std::string("total 512 used 0 free 512") + kNoProcesses);
  EXPECT_EQ(told(r, 1), std::string("total 3072 used 0 free 3072") + kNoProcesses) << "not in the view";
  EXPECT_EQ(told(r, 3), std::string("total 1024 used 0 free 1024") + kNoProcesses) << "not in the view";
}

TEST(NvmlHost, ACapByPositionStaysWithItsGpu) {
  FourGpus m;
  const Result by_view = m.run(kList, {.devices = "2,0", .gpu_mem = "0=50%,1=1GiB"});
  EXPECT_EQ(told(by_view, 2), std::string("total 1024 used 0 free 1024") + kNoProcesses);
  EXPECT_EQ(told(by_view, 0), std::string("total 1024 used 0 free 1024") + kNoProcesses);
  // Without a view, positions are CUDA's: its first GPU here is the host's last.
  const Result by_cuda = m.run(kList, {.gpu_mem = "0=128MiB"});
  EXPECT_EQ(told(by_cuda, 3), std::string("total 128 used 0 free 128") + kNoProcesses);
  EXPECT_EQ(told(by_cuda, 0), std::string("total 4096 used 0 free 4096") + kNoProcesses);
}

TEST(NvmlHost, ACapLargerThanTheCardTellsTheCard) {
  FourGpus m;
  const Result r = m.run(kHoldAndList, {.devices = "3", .gpu_mem = "64GiB"});
  EXPECT_EQ(told(r, 3), "total 1024 used 256 free 704" + self(256));
}

// The card's room counts too, and another process is not shown where the scope is this one.
TEST(NvmlHost, UnderACapTheFreeMemoryIsWhatCapAndCardHaveLeft) {
  FourGpus m;
  Process other =
      m.start_unfenced(asks({"hold", "640", "list", "wait"}), {.env = {{"CUDA_VISIBLE_DEVICES", kUuid3}}});
  ASSERT_TRUE(other.says("waiting"));
  const Result capped = m.run(kHoldAndList, {.devices = "3", .gpu_mem = "512MiB"});
  EXPECT_EQ(told(capped, 3), "total 512 used 256 free 0" + self(256)) << "and the other's 704, and a context";
  const Result asks_only = m.run(kList, {.devices = "3", .gpu_mem = "512MiB"});
  EXPECT_EQ(told(asks_only, 3), std::string("total 512 used 0 free 320") + kNoProcesses);
  const Result uncapped = m.run(kList, {.devices = "3"});
  EXPECT_EQ(told(uncapped, 3),
            "total 1024 used 704 free 320 compute 7/0: other=704 v2 7/0: other=704 v1 7/0: other=704 "
            "graphics 0/0: mps 0/0:");
}

TEST(NvmlHost, TheSwitchShowsTheTruth) {
  FourGpus m;
  const Result r = m.run({"env", "GPUFENCE=off", probe("asks_nvml"), "list"},
                         {.devices = "2,0", .gpu_mem = "512MiB", .options = {"--numbering", "view"}});
  EXPECT_TRUE(r.says("GPUs: 4 (0), by the first version 4\n"));
  EXPECT_EQ(told(r, 0), std::string("total 4096 used 0 free 4096") + kNoProcesses);
}

TEST(NvmlView, ShowsTheViewAloneInItsOrderWithTrueIdentities) {
  FourGpus m;
  const Result r = m.run(kHoldAndList, {.devices = "2,0", .options = {"--numbering", "view"}});
  EXPECT_TRUE(ran(r));
  EXPECT_TRUE(r.says("before nvmlInit: Uninitialized\nbefore nvmlInit: Uninitialized\n"));
  EXPECT_TRUE(r.says("GPUs: 2 (0), by the first version 2\n"));
  EXPECT_TRUE(r.says(identity(0, 2, "Gamma", kUuid2, "0000:81:00.0")));
  EXPECT_TRUE(r.says(identity(1, 0, "Alpha", kUuid0, "0000:01:00.0")));
  EXPECT_TRUE(r.says("2: Invalid Argument\n"));
  EXPECT_EQ(told(r, 0), "total 2048 used 320 free 1728" + self(320));
  EXPECT_FALSE(r.says("Beta"));
  EXPECT_FALSE(r.says("Delta"));
}

TEST(NvmlView, UnderACapTellsTheCap) {
  FourGpus m;
  const Result r =
      m.run(kHoldAndList, {.devices = "2,0", .gpu_mem = "0=512MiB", .options = {"--numbering", "view"}});
  EXPECT_EQ(told(r, 0), "total 512 used 256 free 256" + self(256));
  EXPECT_EQ(told(r, 1), std::string("total 4096 used 0 free 4096") + kNoProcesses);
}

TEST(NvmlView, OfNoGpuShowsNone) {
  FourGpus m;
  const Result r = m.run(kList, {.devices = "none", .options = {"--numbering", "view"}});
  EXPECT_TRUE(ran(r));
  EXPECT_TRUE(r.says("GPUs: 0 (0), by the first version 0\n0: Invalid Argument\n"));
}

TEST(NvmlView, HandlesOfOtherGpusAreNotFound) {
  FourGpus m;
  const std::vector<std::string> program =
      asks({"index", "1", "index", "2", "uuid", kUuid0, "uuid", kUuid1, "pci", "00000000:81:00.0", "pci",
            "00000000:41:00.0", "serial", "4310632999434", "serial", "4310919330587"});
  const Result inside = m.run(program, {.devices = "2,0", .options = {"--numbering", "view"}});
  EXPECT_TRUE(
      inside.says("Success Alpha\nInvalid Argument \nSuccess Alpha\nSuccess Alpha\nNot Found \n"
                  "Not Found \nSuccess Gamma\nNot Found \nSuccess Alpha\nNot Found \n"));
  const Result outside = m.run(program, {.devices = "2,0"});
  EXPECT_TRUE(
      outside.says("Success Beta\nSuccess Gamma\nSuccess Alpha\nSuccess Alpha\nSuccess Beta\n"
                   "Success Beta\nSuccess Gamma\nSuccess Beta\nSuccess Alpha\nSuccess Beta\n"));
}

// By default the first two GPUs lie on one node, the others on a second.
TEST(NvmlView, SetsOfGpusHoldThoseOfTheViewAlone) {
  FourGpus m;
  const std::vector<std::string> program = asks({"near", "0", "cpu", "0"});
  EXPECT_TRUE(m.run(program, {.devices = "0,3", .options = {"--numbering", "view"}})
                  .says("Success 1: Delta\nSuccess 2: Alpha Delta\n"));
  EXPECT_TRUE(m.run(program, {.devices = "1", .options = {"--numbering", "view"}})
                  .says("Success 0:\nSuccess 1: Beta\n"));
  EXPECT_TRUE(
      m.run(program, {.devices = "0,3"}).says("Success 2: Gamma Delta\nSuccess 4: Alpha Beta Gamma Delta\n"));
}

TEST(NvmlView, NullPointersAreAnsweredByNvml) {
  FourGpus m;
  const With view{.devices = "2,0", .gpu_mem = "512MiB", .options = {"--numbering", "view"}};
  EXPECT_TRUE(m.run(asks({"null"}), view).says("2 2 2 2 2 2\n"));
  EXPECT_TRUE(m.run_unfenced(asks({"null"})).says("2 2 2 2 2 2\n"));
}

// Every function that changes something, by the ABI's own list of names: "name answer" a line.
TEST(NvmlView, SettersAndResetsHaveNoPermission) {
  FourGpus m;
  const auto answers = [](const Result& result) {
    std::map<std::string, int> made;
    std::istringstream lines(result.out);
    int answer = 0;
    for (std::string name; lines >> name >> answer;) made[name] = answer;
    return made;
  };
  const Result inside = m.run(kSetters, {.devices = "2,0", .options = {"--numbering", "view"}});
  EXPECT_TRUE(ran(inside));
  EXPECT_EQ(answers(inside).size(), 70u);
  for (const auto& [name, answer] : answers(inside)) EXPECT_EQ(answer, 4) << name;
  for (const With& with : {With{}, With{.devices = "2,0", .gpu_mem = "1GiB"}}) {
    const Result outside = m.run(kSetters, with);
    EXPECT_EQ(answers(outside).size(), 70u);
    for (const auto& [name, answer] : answers(outside)) EXPECT_EQ(answer, 3) << name;
  }
}

// A run inside a run narrows the view; the command itself must see the host.
TEST(NvmlView, ARunInsideARunShowsTheInnerView) {
  FourGpus m;
  const Result r = m.run({gpufence_command(), "run", "-d", "1", "--", probe("asks_nvml"), "list"},
                         {.devices = "2,0", .options = {"--numbering", "view"}});
  EXPECT_TRUE(ran(r));
  EXPECT_TRUE(r.says("GPUs: 1 (0), by the first version 1\n"));
  EXPECT_TRUE(r.says(identity(0, 0, "Alpha", kUuid0, "0000:01:00.0")));
}

// Our export is there before the library is: it says so in NVML's own word, and is not bound before there is
// one.
TEST(NvmlAlone, IsFoundWhenTheProgramOpensIt) {
  FourGpus m;
  const Result r = m.run({probe("looks_up_nvml"), "libnvidia-ml.so.1"},
                         {.devices = "2,0,3", .options = {"--numbering", "view"}});
  EXPECT_TRUE(ran(r));
  EXPECT_EQ(r.out,
            "before: RTLD_DEFAULT absent, answer 13, 99 GPUs\n"
            "opened: RTLD_DEFAULT present, answer 0, 3 GPUs\n");
}

// A report is about CUDA; a program that only asks NVML has made no use of a GPU.
TEST(NvmlAlone, MakesNoReport) {
  FourGpus m;
  const Result r = m.run(kList, {.devices = "2", .gpu_mem = "1GiB", .options = {"--report"}});
  EXPECT_EQ(r.exit, 0);
  EXPECT_EQ(r.err, "");
  const Result with_cuda = m.run(kHoldAndList, {.devices = "2", .options = {"--report"}});
  EXPECT_TRUE(with_cuda.complains("report: "));
}

}  // namespace
}  // namespace gpufence::harness
