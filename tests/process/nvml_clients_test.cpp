// The programs that people watch GPUs with, unmodified from PyPI: what nvidia-ml-py, gpustat and nvitop print
// is the machine outside, the cap under a cap, and the view in numbering view.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "machines.h"

namespace gpufence::harness {
namespace {

// tools/deps installs them; without them these tests fail and say so.
class NvmlClients : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* module : {"pynvml.py", "gpustat/core.py", "nvitop/cli.py", "psutil/__init__.py"}) {
      ASSERT_TRUE(std::filesystem::exists(std::filesystem::path(GPUFENCE_PYTHON_PACKAGES) / module))
          << "no " << module << " in " << GPUFENCE_PYTHON_PACKAGES << ": run tools/deps";
    }
  }

  static With in_python(With with) {
    with.env.insert({{"PYTHONPATH", GPUFENCE_PYTHON_PACKAGES},
                     {"PYTHONDONTWRITEBYTECODE", "1"},
                     {"TERM", "dumb"},
                     {"COLUMNS", "80"},
                     {"LC_ALL", "C.UTF-8"}});
    return with;
  }

  FourGpus machine;
  With host = in_python({.devices = "2,0"});
  With capped = in_python({.devices = "2,0", .gpu_mem = "512MiB"});
  With view = in_python({.devices = "2,0", .options = {"--numbering", "view"}});
  With capped_view = in_python({.devices = "2,0", .gpu_mem = "1=512MiB", .options = {"--numbering", "view"}});
};

const std::vector<std::string> kMlPy = {"python3", probe("nvml_client.py"), "hold", "256"};
const std::vector<std::string> kGpustat = {"python3", "-m", "gpustat", "--no-header", "--no-color", "-c"};
const std::vector<std::string> kNvitop = {"python3", "-m", "nvitop", "-1", "--ascii"};

// 256 MiB and a context of 64 on the third GPU, by a program that no fence is around.
const std::vector<std::string> kHold = {probe("asks_nvml"), "hold", "256", "wait"};

// nvitop's rows of GPUs, two lines each, without rules and headings.
std::string gpus_of(const Result& nvitop) {
  std::istringstream lines(nvitop.out);
  std::string rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[ CPU")) break;
    if (line.find(" Off | ") != std::string::npos || line.find(" 70W / ") != std::string::npos)
      rows += line + "\n";
  }
  return rows;
}

// ---- nvidia-ml-py

TEST_F(NvmlClients, NvidiaMlPyTellsTheHostOutsideAndInAView) {
  const char* others =
      "4 GPUs, driver 580.65.06, CUDA 13000\n"
      "0: Alpha 00000000:01:00.0 minor 0 cc 9.0 4096 0 4096 MiB [] 31 C 70 W MIG [0, 0] peers [0, 5, 5, 5]\n"
      "1: Beta 00000000:41:00.0 minor 1 cc 9.0 3072 0 3072 MiB [] 32 C 70 W MIG [0, 0] peers [5, 0, 5, 5]\n";
  const char* answers = "beyond: Invalid Argument\nset: Not Supported\nnear the first: ['Gamma', 'Delta']\n";
  const Result outside = machine.run_unfenced(kMlPy, in_python({}));
  EXPECT_EQ(outside.err, "");
  EXPECT_EQ(outside.out,
            std::string(others) +
                "2: Gamma 00000000:81:00.0 minor 2 cc 9.0 2048 0 2048 MiB [] 33 C 70 W MIG [0, 0] "
                "peers [5, 5, 0, 5]\n"
                "3: Delta 00000000:C1:00.0 minor 3 cc 9.0 1024 320 704 MiB [self=320] 34 C 70 W "
                "MIG [0, 0] peers [5, 5, 5, 0]\n" +
                answers);
  EXPECT_EQ(machine.run(kMlPy, in_python({})).out, outside.out) << "a bare run changes nothing";
  EXPECT_EQ(
      machine.run(kMlPy, host).out,
      std::string(others) +
          "2: Gamma 00000000:81:00.0 minor 2 cc 9.0 2048 320 1728 MiB [self=320] 33 C 70 W MIG [0, 0] "
          "peers [5, 5, 0, 5]\n"
          "3: Delta 00000000:C1:00.0 minor 3 cc 9.0 1024 0 1024 MiB [] 34 C 70 W MIG [0, 0] peers [5, 5, "
          "5, 0]\n" +
          answers);
}

TEST_F(NvmlClients, NvidiaMlPyTellsTheCap) {
  EXPECT_EQ(
      machine.run(kMlPy, capped).out,
      "4 GPUs, driver 580.65.06, CUDA 13000\n"
      "0: Alpha 00000000:01:00.0 minor 0 cc 9.0 512 0 512 MiB [] 31 C 70 W MIG [0, 0] peers [0, 5, 5, 5]\n"
      "1: Beta 00000000:41:00.0 minor 1 cc 9.0 3072 0 3072 MiB [] 32 C 70 W MIG [0, 0] peers [5, 0, 5, 5]\n"
      "2: Gamma 00000000:81:00.0 minor 2 cc 9.0 512 256 256 MiB [self=256] 33 C 70 W MIG [0, 0] peers [5, 5, "
      "0, 5]\n"
      "3: Delta 00000000:C1:00.0 minor 3 cc 9.0 1024 0 1024 MiB [] 34 C 70 W MIG [0, 0] peers [5, 5, 5, 0]\n"
      "beyond: Invalid Argument\nset: Not Supported\nnear the first: ['Gamma', 'Delta']\n");
}

TEST_F(NvmlClients, NvidiaMlPyTellsTheViewInNumberingView) {
  EXPECT_EQ(machine.run(kMlPy, capped_view).out,
            "2 GPUs, driver 580.65.06, CUDA 13000\n"
            "0: Gamma 00000000:81:00.0 minor 2 cc 9.0 2048 320 1728 MiB [self=320] 33 C 70 W MIG [0, 0] "
            "peers [0, 5]\n"
            "1: Alpha 00000000:01:00.0 minor 0 cc 9.0 512 0 512 MiB [] 31 C 70 W MIG [0, 0] peers [5, 0]\n"
            "beyond: Invalid Argument\nset: Insufficient Permissions\nnear the first: ['Alpha']\n");
}

// ---- gpustat

TEST_F(NvmlClients, GpustatPrintsTheRightMachine) {
  Process other = machine.start_unfenced(kHold, {.env = {{"CUDA_VISIBLE_DEVICES", kUuid2}}});
  ASSERT_TRUE(other.says("waiting"));
  const std::string all =
      "[0] Alpha | 31°C,   0 % |     0 /  4096 MB |\n"
      "[1] Beta  | 32°C,   0 % |     0 /  3072 MB |\n"
      "[2] Gamma | 33°C,   0 % |   320 /  2048 MB | asks_nvml(320M)\n"
      "[3] Delta | 34°C,   0 % |     0 /  1024 MB |\n";
  EXPECT_EQ(machine.run_unfenced(kGpustat, in_python({})).out, all);
  EXPECT_EQ(machine.run(kGpustat, in_python({})).out, all);
  EXPECT_EQ(machine.run(kGpustat, host).out, all);
  EXPECT_EQ(machine.run(kGpustat, view).out,
            "[0] Gamma | 33°C,   0 % |   320 /  2048 MB | asks_nvml(320M)\n"
            "[1] Alpha | 31°C,   0 % |     0 /  4096 MB |\n");
  // It holds nothing itself, and the other is none of the run's.
  EXPECT_EQ(machine.run(kGpustat, capped).out,
            "[0] Alpha | 31°C,   0 % |     0 /   512 MB |\n"
            "[1] Beta  | 32°C,   0 % |     0 /  3072 MB |\n"
            "[2] Gamma | 33°C,   0 % |     0 /   512 MB |\n"
            "[3] Delta | 34°C,   0 % |     0 /  1024 MB |\n");
  EXPECT_EQ(machine.run(kGpustat, capped_view).out,
            "[0] Gamma | 33°C,   0 % |   320 /  2048 MB | asks_nvml(320M)\n"
            "[1] Alpha | 31°C,   0 % |     0 /   512 MB |\n");
}

// ---- nvitop

TEST_F(NvmlClients, NvitopPrintsTheRightMachine) {
  Process other = machine.start_unfenced(kHold, {.env = {{"CUDA_VISIBLE_DEVICES", kUuid2}}});
  ASSERT_TRUE(other.says("waiting"));
  const std::string all =
      "|   0  Alpha                 On | 00000000:01:00.0 Off | Disabled           0 |\n"
      "| N/A   31C   P0     70W / 700W |         0B / 4096MiB |      0%      Default |\n"
      "|   1  Beta                  On | 00000000:41:00.0 Off | Disabled           0 |\n"
      "| N/A   32C   P0     70W / 700W |         0B / 3072MiB |      0%      Default |\n"
      "|   2  Gamma                 On | 00000000:81:00.0 Off | Disabled           0 |\n"
      "| N/A   33C   P0     70W / 700W |   320.0MiB / 2048MiB |      0%      Default |\n"
      "|   3  Delta                 On | 00000000:C1:00.0 Off | Disabled           0 |\n"
      "| N/A   34C   P0     70W / 700W |         0B / 1024MiB |      0%      Default |\n";
  const Result outside = machine.run_unfenced(kNvitop, in_python({}));
  EXPECT_EQ(gpus_of(outside), all) << outside.err;
  EXPECT_TRUE(outside.says(" " + std::to_string(other.pid()) + " C ")) << "the process that holds memory";
  EXPECT_EQ(gpus_of(machine.run(kNvitop, host)), all);
  EXPECT_EQ(gpus_of(machine.run(kNvitop, view)),
            "|   0  Gamma                 On | 00000000:81:00.0 Off | Disabled           0 |\n"
            "| N/A   33C   P0     70W / 700W |   320.0MiB / 2048MiB |      0%      Default |\n"
            "|   1  Alpha                 On | 00000000:01:00.0 Off | Disabled           0 |\n"
            "| N/A   31C   P0     70W / 700W |         0B / 4096MiB |      0%      Default |\n");
  const Result under = machine.run(kNvitop, capped);
  EXPECT_EQ(gpus_of(under),
            "|   0  Alpha                 On | 00000000:01:00.0 Off | Disabled           0 |\n"
            "| N/A   31C   P0     70W / 700W |        0B / 512.0MiB |      0%      Default |\n"
            "|   1  Beta                  On | 00000000:41:00.0 Off | Disabled           0 |\n"
            "| N/A   32C   P0     70W / 700W |         0B / 3072MiB |      0%      Default |\n"
            "|   2  Gamma                 On | 00000000:81:00.0 Off | Disabled           0 |\n"
            "| N/A   33C   P0     70W / 700W |        0B / 512.0MiB |      0%      Default |\n"
            "|   3  Delta                 On | 00000000:C1:00.0 Off | Disabled           0 |\n"
            "| N/A   34C   P0     70W / 700W |         0B / 1024MiB |      0%      Default |\n");
  EXPECT_FALSE(under.says(" " + std::to_string(other.pid()) + " C "));
  EXPECT_TRUE(under.says("No running processes found"));
}

}  // namespace
}  // namespace gpufence::harness
