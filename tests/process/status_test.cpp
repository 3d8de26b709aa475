// `gpufence status`, asked inside a fence: the map, the cap, the reach, and what it says when something is
// lost.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "machines.h"

namespace gpufence::harness {
namespace {

namespace fs = std::filesystem;

// Everything but the name of the run.
std::string without_run(const std::string& out) {
  const std::size_t run = out.find("run            ");
  return run == std::string::npos ? out : out.substr(0, run) + out.substr(out.find('\n', run) + 1);
}

std::string inside() {
  return "fenced         yes: libgpufence.so is preloaded, by LD_PRELOAD\n"
         "library        " +
         (fs::path(gpufence_command()).parent_path().parent_path() / "lib/libgpufence.so").string() + '\n';
}

TEST(Status, TellsMapCapAndReach) {
  FourGpus m;
  const Result r = m.run({gpufence_command(), "status"}, {.devices = "2,0", .gpu_mem = "0=512MiB,1=50%"});
  EXPECT_EQ(without_run(r.out),
            inside() +
                "view           as the run asked, numbering host\n"
                "               CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0)\n"
                "               CUDA 1 = host GPU 0 (Alpha, 0000:01:00.0)\n"
                "mask           CUDA_VISIBLE_DEVICES=2,0, CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
                "cap            512 MiB on host GPU 2 (Gamma, 0000:81:00.0), 50 % on host GPU 0 (Alpha, "
                "0000:01:00.0) (--gpu-mem)\n"
                "reach          every process of the run that shares " +
                (m.directory() / "ledger").string() + '\n' +
                "on error       CUDA is denied if the fence can't work: GPUFENCE_VIEW is set\n"
                "simulated      " +
                m.toml().string() + '\n');
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
}

// There NVML itself shows this process the view alone.
TEST(Status, InNumberingViewNamesTheHostsGpus) {
  FourGpus m;
  const Result r = m.run({gpufence_command(), "status"},
                         {.devices = "3,1", .options = {"--numbering", "view", "--name", "trial"}});
  const std::size_t view = r.out.find("view ");
  ASSERT_NE(view, std::string::npos) << r.out << r.err;
  EXPECT_NE(r.out.find(" (trial)\n"), std::string::npos);
  EXPECT_EQ(r.out.substr(view, r.out.find("cap ") - view),
            "view           as the run asked, numbering view\n"
            "               CUDA 0 = host GPU 3 (Delta, 0000:c1:00.0)\n"
            "               CUDA 1 = host GPU 1 (Beta, 0000:41:00.0)\n"
            "mask           CUDA_VISIBLE_DEVICES=0,1, CUDA_DEVICE_ORDER=PCI_BUS_ID\n");
}

TEST(Status, OfABareRunWatchesOnly) {
  FourGpus m;
  const Result r = m.run({gpufence_command(), "status"});
  EXPECT_EQ(without_run(r.out), inside() +
                                    "view           none: every GPU, as without gpufence\n"
                                    "cap            none\n"
                                    "on error       the program runs unfenced if the fence can't work\n"
                                    "simulated      " +
                                    m.toml().string() + '\n');
  EXPECT_EQ(r.exit, 0);
}

TEST(Status, OfANarrowedMaskShowsWhatIsLeft) {
  FourGpus m;
  const Result r =
      m.run({"/usr/bin/env", "CUDA_VISIBLE_DEVICES=0", gpufence_command(), "status"}, {.devices = "2,0"});
  EXPECT_NE(r.out.find("view           the run's, as CUDA_VISIBLE_DEVICES=0 narrows it, numbering host\n"
                       "               CUDA 0 = host GPU 0 (Alpha, 0000:01:00.0)\n"
                       "mask           CUDA_VISIBLE_DEVICES=0, CUDA_DEVICE_ORDER=PCI_BUS_ID\n"),
            std::string::npos)
      << r.out;
}

TEST(Status, OfAProcessThatDroppedThePreloadSaysSo) {
  FourGpus m;
  const Result r = m.run({"/bin/sh", "-c", "env -u LD_PRELOAD " + gpufence_command() + " status"},
                         {.devices = "2", .gpu_mem = "1GiB"});
  EXPECT_EQ(r.exit, 1);
  EXPECT_EQ(r.out.substr(0, r.out.find('\n')),
            "fenced         no: it left the fence: GPUFENCE_RUN is set, but LD_PRELOAD doesn't name "
            "libgpufence.so; keep LD_PRELOAD in the environment, or start it by gpufence run");
  EXPECT_NE(r.out.find("cap            1 GiB on each GPU (--gpu-mem), not in force\n"), std::string::npos)
      << r.out;
  EXPECT_EQ(r.out.find("reach "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("): which started this, is fenced itself\n"), std::string::npos) << r.out;
}

TEST(Status, OfAnotherInstallationsLibraryIsANote) {
  FourGpus m;
  const std::string copy = m.install();
  const Result r = m.run({copy, "status"}, {.devices = "2"});
  EXPECT_NE(r.out.find(" is another installation's: this command's own is " +
                       (fs::path(copy).parent_path().parent_path() / "lib/libgpufence.so").string() +
                       "; use the gpufence beside it\n"),
            std::string::npos)
      << r.out;
  EXPECT_EQ(r.exit, 0);
}

TEST(Status, OfAnotherProcessGoesByItsEnvironment) {
  FourGpus m;
  Process process = m.start({"/bin/sleep", "100"}, {.devices = "1"});
  Result r;
  for (int tries = 0; tries < 200 && r.exit != 0; ++tries)
    r = m.gpufence({"status", "--json", std::to_string(process.pid())});
  const auto out = nlohmann::json::parse(r.out);
  EXPECT_EQ(out.at("pid"), process.pid());
  EXPECT_EQ(out.at("state"), "fenced");
  EXPECT_EQ(out.at("numbering"), "host");
  EXPECT_EQ(out.at("mask"), "1");
  EXPECT_EQ(out.at("view").dump(),
            std::string(R"([{"host_index":1,"name":"Beta","ordinal":0,"pci":"0000:41:00.0",)") +
                R"("uuid":")" + kUuid1 + R"("}])");
  EXPECT_EQ(out.at("on_error"), "deny");
  EXPECT_EQ(out.at("reach"), nullptr);
}

TEST(Status, OfAnotherUsersProcessIsOneLine) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  FourGpus m;
  const std::string copy = m.install();
  const Result r = m.command({copy, "status", "1"}, {.uid = 65534});
  EXPECT_EQ(r.err,
            "gpufence: pid 1: is another user's, or guarded: its mappings can't be read; ask as the user who "
            "started it, or as root\n");
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.exit, 1);
  const std::string secret = m.directory() / "secret";
  fs::copy_file(probe("plain"), secret);
  chmod(secret.c_str(), 0711);
  EXPECT_EQ(m.command({copy, "inspect", secret}, {.uid = 65534}).err,
            "gpufence: " + secret + ": can't be read (Permission denied); make it readable\n");
}

}  // namespace
}  // namespace gpufence::harness
