// Programs and settings at the edge: what must hold when a program narrows its mask, throws its environment
// away, asks for rows that the driver makes many times longer, or when a setting makes no sense.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "machines.h"

namespace gpufence::harness {
namespace {

std::string gate() {
  return simulator("../lib/libgpufence.so");
}

// The gate without the command, as an image or ld.so.preload would have it.
Result preloaded(Machine& m, const std::vector<std::string>& program,
                 std::map<std::string, std::string> env) {
  env["LD_PRELOAD"] = gate();
  return m.run_unfenced(program, {.env = std::move(env)});
}

TEST(ACapByPosition, StaysWithItsGpuWhenTheProgramNarrowsItsMask) {
  FourGpus m;
  const Result r = m.run({"/usr/bin/env", "CUDA_VISIBLE_DEVICES=0", probe("vectors_driver")},
                         {.devices = "2,0", .gpu_mem = "0=512MiB,1=1GiB"});
  EXPECT_TRUE(r.says("GPUs: 1\n")) << r.out;
  EXPECT_TRUE(r.says("0000:01:00.0, 1024 MiB")) << r.out;  // host GPU 0, which was position 1
  EXPECT_TRUE(r.says("CUDA 0: held 1024 MiB, then CUDA_ERROR_OUT_OF_MEMORY\n")) << r.out;
}

TEST(ACapByPosition, StaysWithItsGpuWhenTheProgramTurnsTheOrder) {
  FourGpus m;
  const Result r = m.run({"/usr/bin/env", "CUDA_VISIBLE_DEVICES=0,2", probe("vectors_driver")},
                         {.devices = "2,0", .gpu_mem = "0=512MiB"});
  EXPECT_TRUE(r.says("0000:01:00.0, 4096 MiB")) << r.out;  // not capped
  EXPECT_TRUE(r.says("0000:81:00.0, 512 MiB")) << r.out;
}

TEST(ACap, IsNotLostWithTheEnvironment) {
  FourGpus m;
  EXPECT_EQ(m.run({probe("odd"), "clears"}, {.devices = "2,0", .gpu_mem = "512MiB"}).out,
            "GPUs: 2, 800 MiB: CUDA_ERROR_OUT_OF_MEMORY\n");
  EXPECT_EQ(m.run_unfenced({probe("odd"), "clears"}).out, "GPUs: 4, 800 MiB: CUDA_SUCCESS\n");
}

TEST(ACap, RefusesRowsBeforeTheDriverTakesThem) {
  FourGpus m;
  const Result r = m.run({probe("odd"), "pitch"}, {.devices = "0", .gpu_mem = "64MiB"});
  EXPECT_TRUE(r.says("1 x 1 Mi: CUDA_ERROR_OUT_OF_MEMORY, pointer 42, pitch 43\n")) << r.out;
  EXPECT_TRUE(r.says("1 x 16: pitch ")) << r.out;
  // One to learn the driver's step, three that fit: the large one never reached the driver.
  EXPECT_EQ(r.called("cuMemAllocPitch_v2"), 4);
}

TEST(ASecondNamespace, KeepsTheDriverThatItOpened) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the simulated driver's AddressSanitizer cannot be loaded a second time";
#endif
  FourGpus m;
  const Result alone = m.run_unfenced({probe("odd"), "dlmopen"}), fenced = m.run({probe("odd"), "dlmopen"});
  EXPECT_EQ(fenced.out, "cuInit 0, cuDeviceGetCount 0, GPUs: 4\n");
  EXPECT_EQ(fenced.out, alone.out);
  EXPECT_EQ(fenced.signal, alone.signal);
  EXPECT_EQ(fenced.exit, alone.exit);
}

TEST(AMaskOfNumbers, ThatCudaReadsInAnotherOrderThanNvidiaSmiIsExplained) {
  FourGpus m;  // CUDA's own order is the reverse of the bus
  const Result r = m.run({probe("list_gpus")}, {.env = {{"CUDA_VISIBLE_DEVICES", "0"}}});
  EXPECT_TRUE(
      r.complains("] GF104 warning: CUDA_VISIBLE_DEVICES=0 counts in CUDA's order here, not in nvidia-smi's: "
                  "CUDA 0 = host GPU 3 (Delta, 0000:c1:00.0) = GPU-3d3d3d3d where nvidia-smi's number is 0"))
      << r.err;
  EXPECT_EQ(m.run({probe("list_gpus")},
                  {.env = {{"CUDA_VISIBLE_DEVICES", "0"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}})
                .err,
            "");
}

TEST(ARefusal, IsOneLineAGpuAndTheRestIsCounted) {
  FourGpus m;
  const Result r =
      m.run({probe("refusals")}, {.devices = "2,0", .gpu_mem = "64MiB", .options = {"--report"}});
  EXPECT_EQ(r.exit, 0) << r.out;
  EXPECT_TRUE(r.complains("on CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0) refused")) << r.err;
  EXPECT_TRUE(r.complains("on CUDA 1 = host GPU 0 (Alpha, 0000:01:00.0) refused")) << r.err;
  EXPECT_TRUE(r.complains("findings: GF401 ×6\n")) << r.err;
}

TEST(TheGateAlone, SaysWhyNoGpuIsThere) {
  FourGpus m;
  const Result r =
      preloaded(m, {probe("list_gpus")}, {{"GPUFENCE_VIEW", "GPU-99999999-0000-0000-0000-000000000000"}});
  EXPECT_TRUE(
      r.complains("] GF501 error: CUDA is denied: the driver shows none of the view's GPUs (GPU-99999999-"))
      << r.err;
  EXPECT_NE(r.exit, 0);
}

TEST(TheGateAlone, SaysThatASettingIsIgnored) {
  FourGpus m;
  const Result r = preloaded(m, {probe("list_gpus")}, {{"GPUFENCE_MODE", "sometimes"}});
  EXPECT_TRUE(
      r.complains("] GF502 warning: GPUFENCE_MODE=sometimes is ignored: this version knows enforce off\n"))
      << r.err;
  EXPECT_EQ(r.exit, 0);
}

TEST(TheReport, DoesNotWaitForAReader) {
  FourGpus m;
  const std::string fifo = m.directory() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const Result r = preloaded(m, {probe("list_gpus")}, {{"GPUFENCE_REPORT_FILE", fifo}});
  EXPECT_EQ(r.exit, 0);
  EXPECT_TRUE(r.complains("GF502 error: the report could not be written to " + fifo)) << r.err;
}

TEST(TheReport, ThatDoesNotFitIsSaid) {
  FourGpus m;
  const Result r = preloaded(m, {probe("list_gpus")}, {{"GPUFENCE_REPORT_FILE", "/dev/full"}});
  EXPECT_EQ(r.exit, 0);
  EXPECT_TRUE(
      r.complains("GF502 error: the report could not be written to /dev/full: No space left on device\n"))
      << r.err;
}

}  // namespace
}  // namespace gpufence::harness
