// Unmodified programs under `gpufence run`, on simulated GPUs: what they see, what they may hold, what is
// said of it, and what happens where a program can't be fenced. The words are those of the interface.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "machines.h"
#include "ways.h"

namespace gpufence::harness {
namespace {

namespace fs = std::filesystem;

size_t lines(std::string_view text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Every error is one line that starts so.
testing::AssertionResult refused(const Result& r, int exit, std::string_view line) {
  if (r.exit == exit && r.out.empty() && r.err == std::string(line) + "\n")
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "exit " << r.exit << ", stdout \"" << r.out << "\", stderr \""
                                     << r.err << "\"";
}

class Fenced : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(EveryWay, Fenced, testing::ValuesIn(ways()),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(Fenced, SeesItsViewHoldsItsCapAndGoesOn) {
  FourGpus m;
  const fs::path report = m.directory() / "report.json";
  const Result r =
      m.run(GetParam().program,
            {.devices = "2,0", .gpu_mem = "1GiB", .options = {"--report", "--report-file", report.string()}});
  // CUDA 0 is host GPU 2, by UUID and PCI id; the total that it is told is the cap.
  EXPECT_EQ(r.out,
            "CUDA_VISIBLE_DEVICES is 2,0\n"
            "GPUs: 2\n"
            "CUDA 0: Gamma, GPU-2c2c2c2c-1111-4222-8333-444444444442, 0000:81:00.0, 1024 MiB\n"
            "CUDA 1: Alpha, GPU-0a0a0a0a-1111-4222-8333-444444444440, 0000:01:00.0, 1024 MiB\n"
            "CUDA 0: 4 MiB sent and fetched, right\n"
            "CUDA 1: 4 MiB sent and fetched, right\n"
            "CUDA 0: held 1024 MiB, then " +
                std::string(GetParam().out_of_memory) +
                "\n"
                "CUDA 0: gave it back and got 256 MiB again\n"
                "done\n");
  EXPECT_EQ(r.exit, 0);

  EXPECT_TRUE(r.complains("] GF401 warning: " + std::string(GetParam().allocation) + " ")) << r.err;
  EXPECT_TRUE(r.complains("256 MiB on CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0) refused: ")) << r.err;
  EXPECT_TRUE(r.complains(" holds 1 GiB of its 1 GiB (--gpu-mem)")) << r.err;
  EXPECT_TRUE(r.complains("findings: GF401 ×1\n")) << r.err;

  const auto told = nlohmann::json::parse(read_file(report));
  EXPECT_EQ(told.at("findings"), nlohmann::json({{"GF401", 1}}));
  const auto& gpus = told.at("gpus");
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].at("ordinal"), 0);
  EXPECT_EQ(gpus[0].at("host_index"), 2);
  EXPECT_EQ(gpus[0].at("uuid"), kUuid2);
  EXPECT_EQ(gpus[0].at("pci"), "0000:81:00.0");
  EXPECT_EQ(gpus[0].at("name"), "Gamma");
  EXPECT_EQ(gpus[0].at("cap_bytes"), 1073741824);
  EXPECT_EQ(gpus[0].at("peak_bytes"), 1073741824);
  EXPECT_EQ(gpus[0].at("allocations"), 6);
  EXPECT_EQ(gpus[0].at("refusals"), 1);
  EXPECT_EQ(gpus[1].at("host_index"), 0);
  EXPECT_EQ(gpus[1].at("uuid"), kUuid0);
  EXPECT_EQ(gpus[1].at("peak_bytes"), 4194304);
  EXPECT_EQ(gpus[1].at("refusals"), 0);
}

TEST_P(Fenced, IsUntouchedByABareRun) {
  FourGpus m;
  std::vector<std::string> program = GetParam().program;
  program.emplace_back("256");
  const Result bare = m.run(program);
  const Result alone = m.run_unfenced(program);
  EXPECT_EQ(bare.out, alone.out);
  EXPECT_EQ(bare.err, "");
  EXPECT_EQ(bare.exit, 0);
}

TEST_P(Fenced, IsNotWarnedWhenHealthy) {
  FourGpus m;
  std::vector<std::string> program = GetParam().program;
  program.emplace_back("512");
  const Result r = m.run(program, {.devices = "3,1", .gpu_mem = "800MiB"});
  EXPECT_TRUE(r.says("CUDA 0: Delta, GPU-3d3d3d3d-1111-4222-8333-444444444443, 0000:c1:00.0, 800 MiB\n"))
      << r.out;
  EXPECT_TRUE(r.says("CUDA 1: Beta, GPU-1b1b1b1b-1111-4222-8333-444444444441, 0000:41:00.0, 800 MiB\n"))
      << r.out;
  EXPECT_TRUE(r.says("CUDA 0: held 512 MiB, then stopped at the limit\n")) << r.out;
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
}

TEST_P(Fenced, RunsIntoTheCardWhereTheCapIsLarger) {
  FourGpus m;
  const Result r = m.run(GetParam().program, {.devices = "3", .gpu_mem = "8GiB"});
  // 1 GiB less 64 MiB of context. The card's own out-of-memory is no refusal of ours.
  EXPECT_TRUE(r.says("0000:c1:00.0, 1024 MiB\n")) << r.out;
  EXPECT_TRUE(r.says("CUDA 0: held 768 MiB, then " + std::string(GetParam().out_of_memory) + "\n")) << r.out;
  EXPECT_FALSE(r.complains("GF401")) << r.err;
  EXPECT_EQ(r.exit, 0);
}

TEST(FencedView, IsCheckedWhereverTheDriverComesFrom) {
  FourGpus m;
  for (const std::string& library :
       {std::string("libcuda.so.1"), std::string("libcuda.so"), simulator("libcuda.so.1")}) {
    for (const char* scope : {"local", "global"}) {
      for (const char* how : {"names", "procaddress"}) {
        const Result r = m.run({probe("opens"), library, scope, how}, {.devices = "2,0", .gpu_mem = "1GiB"});
        EXPECT_EQ(r.out, "GPUs: 2, CUDA 0 is 0000:81:00.0\nheld 1024 MiB, then result 2\n")
            << library << " " << scope << " " << how << r.err;
      }
    }
  }
}

TEST(FencedView, LeavesLookUpsAsTheyWere) {
  FourGpus m;
  const With fence = {.devices = "2", .gpu_mem = "1GiB"};
  // A weak reference binds to the preloaded export when the program is loaded; calling it says there is no
  // driver.
  const char* absent =
      "RTLD_DEFAULT cuInit: absent\nRTLD_NEXT cuInit: absent\nRTLD_DEFAULT cuMemAlloc_v2: absent\n"
      "RTLD_DEFAULT cuNoSuchThing: absent\nRTLD_DEFAULT cudaMalloc: absent\nRTLD_DEFAULT strlen: present\n";
  const Result none = m.run({probe("looks_up")}, fence);
  EXPECT_TRUE(none.says(absent)) << none.out;
  EXPECT_TRUE(m.run({probe("looks_up"), "libcuda.so.1", "local"}, fence).says(absent));
  const Result global = m.run({probe("looks_up"), "libcuda.so.1", "global"}, fence);
  EXPECT_TRUE(
      global.says("RTLD_DEFAULT cuInit: present\nRTLD_NEXT cuInit: present\n"
                  "RTLD_DEFAULT cuMemAlloc_v2: present\nRTLD_DEFAULT cuNoSuchThing: absent\n"
                  "RTLD_DEFAULT cudaMalloc: absent\nRTLD_DEFAULT strlen: present\ncuInit: 0\n"))
      << global.out;
}

TEST(FencedView, IsReadByProgramsInTheHostsNumbersOrItsOwn) {
  FourGpus m;
  EXPECT_EQ(m.run({probe("show_mask")}, {.devices = "2,0"}).out,
            "CUDA_VISIBLE_DEVICES=2,0\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n");
  EXPECT_EQ(m.run({probe("show_mask")}, {.devices = "2,0", .options = {"--numbering", "view"}}).out,
            "CUDA_VISIBLE_DEVICES=0,1\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n");
  EXPECT_EQ(m.run({probe("show_mask")}, {.gpu_mem = "1GiB"}).out,
            "CUDA_VISIBLE_DEVICES=(not set)\nCUDA_DEVICE_ORDER=(not set)\n");
}

TEST(FencedView, IsTheSameInBothNumberings) {
  FourGpus m;
  const char* two = "GPUs: 2\nCUDA 0: 0000:81:00.0 Gamma\nCUDA 1: 0000:01:00.0 Alpha\n";
  EXPECT_EQ(m.run({probe("list_gpus")}, {.devices = "2,0"}).out, two);
  EXPECT_EQ(m.run({probe("list_gpus")}, {.devices = "2,0", .options = {"--numbering", "view"}}).out, two);
  EXPECT_EQ(m.run({probe("list_gpus")}, {.devices = "GPU-2c,0000:01:00.0"}).out, two);
}

TEST(FencedView, HoldsForAChildThatLostThePreload) {
  FourGpus m;
  const Result r = m.run({"env", "-u", "LD_PRELOAD", probe("list_gpus")}, {.devices = "2,0"});
  EXPECT_EQ(r.out, "GPUs: 2\nCUDA 0: 0000:81:00.0 Gamma\nCUDA 1: 0000:01:00.0 Alpha\n");
}

TEST(FencedView, NarrowsByTheProgramsOwnMask) {
  FourGpus m;
  EXPECT_EQ(m.run({probe("list_gpus"), "0"}, {.devices = "2,0"}).out,
            "GPUs: 1\nCUDA 0: 0000:01:00.0 Alpha\n");
  EXPECT_EQ(m.run({probe("list_gpus"), "0,2"}, {.devices = "2,0"}).out,
            "GPUs: 2\nCUDA 0: 0000:01:00.0 Alpha\nCUDA 1: 0000:81:00.0 Gamma\n");
  EXPECT_EQ(m.run({probe("list_gpus"), "1"}, {.devices = "2,0", .options = {"--numbering", "view"}}).out,
            "GPUs: 1\nCUDA 0: 0000:01:00.0 Alpha\n");
  const Result outside = m.run({probe("list_gpus"), "1"}, {.devices = "2,0"});
  EXPECT_EQ(outside.out, "cuInit(0): CUDA_ERROR_NO_DEVICE\n");
  EXPECT_TRUE(
      outside.complains("] GF105 warning: CUDA_VISIBLE_DEVICES=1 was set after start; this view is host GPUs "
                        "2,0: no GPU is left\n"))
      << outside.err;
}

TEST(FencedView, ExplainsAnOrdinalThatIsNotInIt) {
  FourGpus m;
  const Result r = m.run({probe("set_device"), "2"}, {.devices = "2,0"});
  EXPECT_EQ(r.out,
            "cudaSetDevice(2): cudaErrorInvalidDevice\nlast error: cudaErrorInvalidDevice, then cudaSuccess\n"
            "cudaGetDevice: cudaSuccess 0\nit is 0000:81:00.0\n");
  EXPECT_EQ(lines(r.err), 1u) << r.err;
  EXPECT_TRUE(r.complains("] GF101 warning: ")) << r.err;
  EXPECT_TRUE(r.complains("host GPU 2 is ordinal 0 here")) << r.err;
}

TEST(FencedView, CanBeEmpty) {
  FourGpus m;
  const Result runtime = m.run({probe("vectors_shared")}, {.devices = "none"});
  EXPECT_TRUE(runtime.says("cudaGetDeviceCount(&count): cudaErrorNoDevice")) << runtime.out;
  const Result driver = m.run({probe("vectors_driver")}, {.devices = "none"});
  EXPECT_TRUE(driver.says("cuInit(0): CUDA_ERROR_NO_DEVICE")) << driver.out;
}

TEST(FencedView, DoesNotMakeTheGenuineRuntimeAnswerOtherwise) {
  FourGpus m;
  const Result alone = m.run_unfenced({probe("vectors_genuine")}, {.env = {{"CUDA_VISIBLE_DEVICES", "2"}}});
  const Result fenced = m.run({probe("vectors_genuine")}, {.devices = "2", .gpu_mem = "1GiB"});
  EXPECT_EQ(fenced.out, alone.out);
  EXPECT_EQ(fenced.exit, alone.exit);
}

TEST(FencedCap, IsWhatEveryInterfaceTells) {
  FourGpus m;
  EXPECT_EQ(m.run({probe("told"), "512"}, {.devices = "2", .gpu_mem = "1GiB"}).out,
            "cuDeviceTotalMem: 1024 MiB\ncudaDeviceProp: 1024 MiB\n"
            "at first: cuMemGetInfo 0: free 1024 total 1024 MiB\n"
            "at first: cudaMemGetInfo 0: free 1024 total 1024 MiB\n"
            "cudaMalloc: cudaSuccess\n"
            "held: cuMemGetInfo 0: free 512 total 1024 MiB\n"
            "held: cudaMemGetInfo 0: free 512 total 1024 MiB\n"
            "cudaFree: cudaSuccess\n"
            "freed: cuMemGetInfo 0: free 1024 total 1024 MiB\n"
            "freed: cudaMemGetInfo 0: free 1024 total 1024 MiB\n");
}

TEST(FencedCap, TellsNoMoreThanTheCardHasLeft) {
  FourGpus m;
  Process other = m.start_unfenced({probe("hold"), "1", "1536"});  // CUDA 1 in CUDA's own order is host GPU 2
  ASSERT_TRUE(other.says("held: free 448 of 2048 MiB\n"));
  const Result r = m.run({probe("told"), "256"}, {.devices = "2", .gpu_mem = "1GiB"});
  EXPECT_TRUE(r.says("at first: cuMemGetInfo 0: free 384 total 1024 MiB\n")) << r.out;
  EXPECT_TRUE(r.says("held: cuMemGetInfo 0: free 128 total 1024 MiB\n")) << r.out;
}

TEST(FencedCap, IsGivenBackInEveryWay) {
  FourGpus m;
  const Result r = m.run({probe("gives_back")}, {.devices = "0", .gpu_mem = "512MiB"});
  EXPECT_EQ(r.out,
            "at first: 0 MiB used\n"
            "cuMemAlloc of 64: 64 MiB used\n"
            "cuMemFree: 0 MiB used\n"
            "cuMemAllocPitch of 1 x 32: 32 MiB used\n"
            "cuMemFree: 0 MiB used\n"
            "cuMemAllocManaged of 64\n"
            "cuMemFree: 0 MiB used\n"
            "128 and 64 in a context of its own: 192 MiB used\n"
            "context destroyed: 0 MiB used\n"
            "256 in the primary context: 256 MiB used\n"
            "primary context reset: 0 MiB used\n"
            "256 again: 256 MiB used\n"
            "after the last release it is inactive\n"
            "retained anew: 0 MiB used\n"
            "cuMemAlloc version 1: CUDA_SUCCESS\n"
            "64 by version 1: 64 MiB used\n"
            "at last: 0 MiB used\n");
  EXPECT_EQ(r.err, "");
}

TEST(FencedCap, HoldsUnderManyThreads) {
  FourGpus m;
  const Result r = m.run({probe("threads")}, {.devices = "0", .gpu_mem = "1GiB"});
  EXPECT_EQ(r.out, "held 1024 MiB, 8 threads refused, 0 wrong\nthen 256 MiB: cudaSuccess, 0 wrong\n");
}

TEST(FencedCap, IsAPartOfTheCardWhereAskedSo) {
  FourGpus m;
  const Result r = m.run({probe("vectors_shared")}, {.devices = "0,2", .gpu_mem = "50%"});
  EXPECT_TRUE(r.says("CUDA 0: Alpha, GPU-0a0a0a0a-1111-4222-8333-444444444440, 0000:01:00.0, 2048 MiB\n"))
      << r.out;
  EXPECT_TRUE(r.says("CUDA 1: Gamma, GPU-2c2c2c2c-1111-4222-8333-444444444442, 0000:81:00.0, 1024 MiB\n"))
      << r.out;
  EXPECT_TRUE(r.says("CUDA 0: held 2048 MiB, then cudaErrorMemoryAllocation\n")) << r.out;
}

TEST(FencedCap, CanDifferByPosition) {
  FourGpus m;
  const Result r = m.run({probe("vectors_driver")}, {.devices = "0,2", .gpu_mem = "0=512MiB"});
  EXPECT_TRUE(r.says("0000:01:00.0, 512 MiB\n")) << r.out;
  EXPECT_TRUE(r.says("0000:81:00.0, 2048 MiB\n")) << r.out;
  EXPECT_TRUE(r.says("CUDA 0: held 512 MiB, then CUDA_ERROR_OUT_OF_MEMORY\n")) << r.out;
}

TEST(FencedProgram, GetsTheDriversAnswersWhenItMisusesCuda) {
  FourGpus m;
  const Result alone = m.run_unfenced({probe("misuses")});
  const Result fenced = m.run({probe("misuses")}, {.devices = "0", .gpu_mem = "1GiB"});
  ASSERT_TRUE(alone.says("cuMemFree(0x1234): CUDA_ERROR_INVALID_VALUE\n"));
  EXPECT_EQ(fenced.out, alone.out);
  EXPECT_EQ(fenced.exit, 0);
}

TEST(FencedProgram, ForksAsItDidAlone) {
  FourGpus m;
  for (const char* when : {"before", "after"}) {
    const Result alone = m.run_unfenced({probe("forks"), when});
    const Result fenced = m.run({probe("forks"), when}, {.devices = "0", .gpu_mem = "1GiB"});
    EXPECT_EQ(fenced.out, alone.out);
    EXPECT_EQ(fenced.exit, 0);
  }
}

TEST(FencedProgram, ThatMakesNoCudaCallIsLeftAlone) {
  FourGpus m;
  const Result r = m.run({probe("linked_only")}, {.devices = "0", .gpu_mem = "1GiB"});
  EXPECT_EQ(r.out, "no CUDA call was made\n");
  EXPECT_EQ(r.err, "");
  EXPECT_TRUE(r.calls.empty());

  const Result nothing = m.run({"/bin/true"}, {.devices = "0"});
  EXPECT_EQ(nothing.out + nothing.err, "");
  EXPECT_EQ(nothing.exit, 0);
  EXPECT_TRUE(nothing.calls.empty());
}

TEST(FencedProgram, OfShellPartsKeepsItsOutput) {
  FourGpus m;
  fs::create_directory(m.directory() / "five");
  for (const char* name : {"a", "b", "c", "d", "e"}) fs::create_directory(m.directory() / "five" / name);
  const Result r = m.run({"bash", "-c", "ls five | wc -l"}, {.devices = "2,0", .gpu_mem = "1GiB"});
  EXPECT_EQ(r.out, "5\n");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
}

TEST(FencedProgram, KeepsItsExitStatusAndItsSignals) {
  FourGpus m;
  EXPECT_EQ(m.run({"sh", "-c", "exit 42"}, {.devices = "0"}).exit, 42);
  EXPECT_EQ(m.run({"sh", "-c", "kill -TERM $$"}, {.devices = "0"}).signal, 15);
}

TEST(FencedProgram, KeepsItsPid) {
  FourGpus m;
  Process running = m.start({"sh", "-c", "echo $$"}, {.devices = "0"});
  const std::string pid = std::to_string(running.pid()) + "\n";
  EXPECT_EQ(running.wait().out, pid);
}

TEST(FencedProgram, OwnsWhatFollowsItsName) {
  FourGpus m;
  // Without "--": the second -d is the program's, which makes 0 of it.
  const Result r = m.gpufence({"run", "--sim", m.toml().string(), "-d", "1", probe("set_device"), "-d", "4"});
  EXPECT_TRUE(r.says("cudaSetDevice(0): cudaSuccess\n")) << r.out << r.err;
  EXPECT_TRUE(r.says("it is 0000:41:00.0\n")) << r.out;
  EXPECT_EQ(r.exit, 0);
}

TEST(FencedProgram, ThatIsMissingIs127) {
  FourGpus m;
  const Result named = m.run({"/no/such/program"}, {.devices = "0"});
  EXPECT_EQ(named.exit, 127);
  EXPECT_EQ(named.err.rfind("gpufence: /no/such/program: ", 0), 0u) << named.err;
  EXPECT_EQ(lines(named.err), 1u) << named.err;
  EXPECT_EQ(m.run({"no-such-program-anywhere"}, {.devices = "0"}).exit, 127);
}

TEST(FencedProgram, ThatCannotBeExecutedIs126) {
  FourGpus m;
  EXPECT_EQ(m.run({m.toml().string()}, {.devices = "0"}).exit, 126);
}

TEST(BadRequest, ForAGpuThatDoesNotExistListsThoseThatDo) {
  FourGpus m;
  EXPECT_TRUE(
      refused(m.run({"/bin/true"}, {.devices = "9"}), 125,
              "gpufence: --devices 9: host GPU 9 doesn't exist; there are host GPUs 0 (Alpha, 0000:01:00.0), "
              "1 (Beta, 0000:41:00.0), 2 (Gamma, 0000:81:00.0), 3 (Delta, 0000:c1:00.0)"));
}

TEST(BadRequest, ForACapThatIsNoSizeIs125) {
  FourGpus m;
  const Result lots = m.run({"/bin/true"}, {.gpu_mem = "lots"});
  EXPECT_EQ(lots.exit, 125);
  EXPECT_EQ(lots.err.rfind("gpufence: --gpu-mem lots: ", 0), 0u) << lots.err;
  EXPECT_EQ(lines(lots.err), 1u) << lots.err;
  const Result bare = m.run({"/bin/true"}, {.gpu_mem = "8"});
  EXPECT_EQ(bare.exit, 125);
  EXPECT_EQ(bare.err.rfind("gpufence: --gpu-mem 8: ", 0), 0u) << bare.err;
  EXPECT_TRUE(bare.complains("write 8GiB")) << bare.err;
  EXPECT_EQ(lines(bare.err), 1u) << bare.err;
}

TEST(BadRequest, OutsideTheInheritedMaskNamesIt) {
  FourGpus m;
  for (const char* order : {"PCI_BUS_ID", "FASTEST_FIRST"}) {
    const Result r =
        m.run({"/bin/true"},
              {.devices = "0", .env = {{"CUDA_VISIBLE_DEVICES", "1,2"}, {"CUDA_DEVICE_ORDER", order}}});
    EXPECT_EQ(r.exit, 125) << order;
    EXPECT_EQ(r.err.rfind("gpufence: --devices 0: ", 0), 0u) << r.err;
    EXPECT_TRUE(r.complains("CUDA_VISIBLE_DEVICES=1,2")) << r.err;
    EXPECT_EQ(lines(r.err), 1u) << r.err;
  }
  // Inside it is fine, and all of it is all of the mask: in CUDA's own order 0 is host GPU 3 and 3 host GPU
  // 0.
  const With all = {.devices = "all", .env = {{"CUDA_VISIBLE_DEVICES", "0,3"}}};
  EXPECT_EQ(m.run({probe("list_gpus")}, all).out,
            "GPUs: 2\nCUDA 0: 0000:c1:00.0 Delta\nCUDA 1: 0000:01:00.0 Alpha\n");
}

TEST(Unfenceable, StaticProgramRunsWithAWarningUnlessAFenceWasAskedFor) {
  Machine m;
  const Result bare = m.run({probe("plain_static")}, {.driver = false});
  EXPECT_EQ(bare.out, "ran\n");
  EXPECT_EQ(bare.exit, 0);
  EXPECT_EQ(
      bare.err.rfind("gpufence: " + probe("plain_static") + ": runs unfenced: it is statically linked", 0),
      0u)
      << bare.err;
  EXPECT_EQ(lines(bare.err), 1u) << bare.err;

  const Result capped = m.run({probe("plain_static")}, {.gpu_mem = "1GiB", .driver = false});
  EXPECT_EQ(capped.out, "");
  EXPECT_EQ(capped.exit, 126);
  EXPECT_EQ(capped.err.rfind(
                "gpufence: " + probe("plain_static") + ": can't be fenced, which --gpu-mem needs: ", 0),
            0u)
      << capped.err;
  EXPECT_EQ(lines(capped.err), 1u) << capped.err;

  FourGpus simulated;
  EXPECT_EQ(simulated.run({probe("plain_static")}).exit, 126);
  EXPECT_EQ(simulated.run({probe("plain_static")}, {.devices = "0"}).exit, 126);
}

// A setuid program drops LD_PRELOAD when an unprivileged user runs it. Everything is copied to where that
// user can read it; a clone in somebody's home often can't be.
TEST(Unfenceable, SetuidProgramOfAnUnprivilegedUserRunsWithAWarningUnlessAFenceWasAskedFor) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a setuid program of another user";
  Machine m;
  const fs::path program = m.directory() / "setuid";
  fs::copy_file(probe("plain"), program);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  const std::string command = m.install();

  With user = {.uid = 65534, .driver = false};
  const Result bare = m.command({command, "run", "--", program}, user);
  EXPECT_EQ(bare.out, "ran\n");
  EXPECT_EQ(bare.exit, 0);
  EXPECT_EQ(bare.err.rfind("gpufence: " + program.string() + ": runs unfenced: ", 0), 0u) << bare.err;
  EXPECT_EQ(lines(bare.err), 1u) << bare.err;

  const Result capped = m.command({command, "run", "-m", "1GiB", "--", program}, user);
  EXPECT_EQ(capped.out, "");
  EXPECT_EQ(capped.exit, 126);
  EXPECT_TRUE(capped.complains("can't be fenced, which --gpu-mem needs: ")) << capped.err;
  EXPECT_EQ(lines(capped.err), 1u) << capped.err;

  // The same program without the bit is fenced for the same user.
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  const Result plain = m.command({command, "run", "-m", "1GiB", "--", program}, user);
  EXPECT_EQ(plain.out, "ran\n");
  EXPECT_EQ(plain.err, "");
}

TEST(WithoutADriver, GpusCannotBeAskedForAndProgramsRunAllTheSame) {
  Machine m;
  const With none = {.driver = false};
  const Result asked = m.run({"/bin/true"}, {.devices = "0", .driver = false});
  EXPECT_EQ(asked.exit, 125);
  EXPECT_EQ(asked.err.rfind("gpufence: --devices 0: no NVIDIA driver is there", 0), 0u) << asked.err;
  EXPECT_EQ(lines(asked.err), 1u) << asked.err;

  for (const With& with :
       {none, With{.devices = "none", .driver = false}, With{.gpu_mem = "1GiB", .driver = false}}) {
    for (const char* program : {"vectors_shared", "vectors_static"}) {
      const Result r = m.run({probe(program)}, with);
      EXPECT_TRUE(r.says("cudaGetDeviceCount(&count): cudaErrorInsufficientDriver (")) << r.out << r.err;
      EXPECT_EQ(r.err, "");
      EXPECT_EQ(r.exit, 1);
    }
    const Result lookups = m.run({probe("looks_up")}, with);
    EXPECT_TRUE(lookups.says("RTLD_DEFAULT cuInit: absent\n")) << lookups.out;
    // A weak reference can't read absent: it binds to the preloaded export when the program is loaded.
    // Called, it says that there is nothing.
    if (with.devices.empty()) {
      EXPECT_TRUE(lookups.says("cuInit by the weak reference: 500\n")) << lookups.out;
    }
    const Result echoed = m.run({"echo", "fine"}, with);
    EXPECT_EQ(echoed.out, "fine\n");
    EXPECT_EQ(echoed.err, "");
  }
}

TEST(DryRun, RunsNothing) {
  FourGpus m;
  const fs::path trace = m.directory() / "touched";
  const Result r =
      m.run({"touch", trace.string()}, {.devices = "2,0", .gpu_mem = "1GiB", .options = {"--dry-run"}});
  EXPECT_EQ(r.exit, 0);
  EXPECT_TRUE(r.says("CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0)")) << r.out;
  EXPECT_FALSE(fs::exists(trace));
  EXPECT_EQ(m.run({"touch", trace.string()}, {.devices = "2,0", .gpu_mem = "1GiB"}).exit, 0);
  EXPECT_TRUE(fs::exists(trace));
}

}  // namespace
}  // namespace gpufence::harness
