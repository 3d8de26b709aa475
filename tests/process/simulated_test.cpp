// The simulated machine by itself: what unmodified programs see and do on it without any fence. What holds
// here is what the fenced tests then change.
#include <gtest/gtest.h>

#include <signal.h>

#include "machines.h"
#include "ways.h"

namespace gpufence::harness {
namespace {

using Env = std::map<std::string, std::string>;

class EveryWay : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Simulated, EveryWay, testing::ValuesIn(ways()),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(EveryWay, SeesAllGpusCopiesRightAndRunsOutOfMemory) {
  FourGpus m;
  const Result r = m.run_unfenced(GetParam().program, {.env = {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}});
  EXPECT_EQ(r.out,
            "CUDA_VISIBLE_DEVICES is not set\n"
            "GPUs: 4\n"
            "CUDA 0: Alpha, GPU-0a0a0a0a-1111-4222-8333-444444444440, 0000:01:00.0, 4096 MiB\n"
            "CUDA 1: Beta, GPU-1b1b1b1b-1111-4222-8333-444444444441, 0000:41:00.0, 3072 MiB\n"
            "CUDA 2: Gamma, GPU-2c2c2c2c-1111-4222-8333-444444444442, 0000:81:00.0, 2048 MiB\n"
            "CUDA 3: Delta, GPU-3d3d3d3d-1111-4222-8333-444444444443, 0000:c1:00.0, 1024 MiB\n"
            "CUDA 0: 4 MiB sent and fetched, right\n"
            "CUDA 1: 4 MiB sent and fetched, right\n"
            "CUDA 2: 4 MiB sent and fetched, right\n"
            "CUDA 3: 4 MiB sent and fetched, right\n"
            "CUDA 0: held 3840 MiB, then " +
                std::string(GetParam().out_of_memory) +
                "\n"
                "CUDA 0: gave it back and got 256 MiB again\n"
                "done\n");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
}

TEST_P(EveryWay, SeesWhatTheMaskLeavesInItsOrder) {
  FourGpus m;
  std::vector<std::string> program = GetParam().program;
  program.emplace_back("512");
  const Result r = m.run_unfenced(
      program, {.env = {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}, {"CUDA_VISIBLE_DEVICES", "2,0"}}});
  EXPECT_EQ(r.out,
            "CUDA_VISIBLE_DEVICES is 2,0\n"
            "GPUs: 2\n"
            "CUDA 0: Gamma, GPU-2c2c2c2c-1111-4222-8333-444444444442, 0000:81:00.0, 2048 MiB\n"
            "CUDA 1: Alpha, GPU-0a0a0a0a-1111-4222-8333-444444444440, 0000:01:00.0, 4096 MiB\n"
            "CUDA 0: 4 MiB sent and fetched, right\n"
            "CUDA 1: 4 MiB sent and fetched, right\n"
            "CUDA 0: held 512 MiB, then stopped at the limit\n"
            "CUDA 0: gave it back and got 256 MiB again\n"
            "done\n");
  EXPECT_EQ(r.exit, 0);
}

std::string listed(const Env& env) {
  FourGpus m;
  return m.run_unfenced({probe("list_gpus")}, {.env = env}).out;
}

TEST(SimulatedOrder, IsFastestFirstUnlessPciOrderIsAskedFor) {
  const char* fastest =
      "GPUs: 4\nCUDA 0: 0000:c1:00.0 Delta\nCUDA 1: 0000:81:00.0 Gamma\nCUDA 2: 0000:41:00.0 Beta\n"
      "CUDA 3: 0000:01:00.0 Alpha\n";
  EXPECT_EQ(listed({}), fastest);
  EXPECT_EQ(listed({{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}), fastest);
  EXPECT_EQ(listed({{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}),
            "GPUs: 4\nCUDA 0: 0000:01:00.0 Alpha\nCUDA 1: 0000:41:00.0 Beta\nCUDA 2: 0000:81:00.0 Gamma\n"
            "CUDA 3: 0000:c1:00.0 Delta\n");
}

TEST(SimulatedMask, NumbersFollowTheOrderInForce) {
  EXPECT_EQ(listed({{"CUDA_VISIBLE_DEVICES", "0,3"}}),
            "GPUs: 2\nCUDA 0: 0000:c1:00.0 Delta\nCUDA 1: 0000:01:00.0 Alpha\n");
  EXPECT_EQ(listed({{"CUDA_VISIBLE_DEVICES", "0,3"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}),
            "GPUs: 2\nCUDA 0: 0000:01:00.0 Alpha\nCUDA 1: 0000:c1:00.0 Delta\n");
}

TEST(SimulatedMask, EndsAtTheFirstInvalidEntry) {
  const Env pci = {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}};
  const auto masked = [&](const char* mask) {
    Env env = pci;
    env["CUDA_VISIBLE_DEVICES"] = mask;
    return listed(env);
  };
  EXPECT_EQ(masked("0,2,-1,1"), "GPUs: 2\nCUDA 0: 0000:01:00.0 Alpha\nCUDA 1: 0000:81:00.0 Gamma\n");
  EXPECT_EQ(masked("1,9,0"), "GPUs: 1\nCUDA 0: 0000:41:00.0 Beta\n");
  EXPECT_EQ(masked("GPU-2c2c,GPU-0a0a0a0a-1111"),
            "GPUs: 2\nCUDA 0: 0000:81:00.0 Gamma\nCUDA 1: 0000:01:00.0 Alpha\n");
  EXPECT_EQ(masked(""), "cuInit(0): CUDA_ERROR_NO_DEVICE\n");
  EXPECT_EQ(masked("-1"), "cuInit(0): CUDA_ERROR_NO_DEVICE\n");
}

TEST(SimulatedMask, IsReadWhenCudaStartsNotBefore) {
  FourGpus m;
  const Result r =
      m.run_unfenced({probe("list_gpus"), "3", "PCI_BUS_ID"}, {.env = {{"CUDA_VISIBLE_DEVICES", "0"}}});
  EXPECT_EQ(r.out, "GPUs: 1\nCUDA 0: 0000:c1:00.0 Delta\n");
}

const With kPciOrder = {.env = {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}};

TEST(SimulatedMemory, IsSharedTruthBetweenProcesses) {
  FourGpus m;
  Process first = m.start_unfenced({probe("hold"), "2", "1536"}, kPciOrder);
  ASSERT_TRUE(first.says("held: free 448 of 2048 MiB\n"));
  const Result second = m.run_unfenced({probe("hold"), "2", "1024"}, kPciOrder);
  EXPECT_EQ(second.out, "CUDA_ERROR_OUT_OF_MEMORY: free 384 of 2048 MiB\n");
  const Result elsewhere = m.run_unfenced({probe("hold"), "1", "1024"}, kPciOrder);
  EXPECT_EQ(elsewhere.out, "held: free 1984 of 3072 MiB\n");
  EXPECT_EQ(first.wait().exit, 0);
  const Result third = m.run_unfenced({probe("hold"), "2", "1024"}, kPciOrder);
  EXPECT_EQ(third.out, "held: free 960 of 2048 MiB\n");
}

TEST(SimulatedMemory, OfAKilledProcessComesBack) {
  FourGpus m;
  Process first = m.start_unfenced({probe("hold"), "2", "1536"}, kPciOrder);
  ASSERT_TRUE(first.says("held: free 448 of 2048 MiB\n"));
  first.signal(SIGKILL);
  EXPECT_EQ(first.wait().signal, SIGKILL);
  EXPECT_EQ(m.run_unfenced({probe("hold"), "2", "1024"}, kPciOrder).out, "held: free 960 of 2048 MiB\n");
}

TEST(SimulatedMemory, OfTwoMachinesIsNotShared) {
  FourGpus m, other;
  Process first = m.start_unfenced({probe("hold"), "2", "1536"}, kPciOrder);
  ASSERT_TRUE(first.says("held: free 448 of 2048 MiB\n"));
  EXPECT_EQ(other.run_unfenced({probe("hold"), "2", "1536"}, kPciOrder).out, "held: free 448 of 2048 MiB\n");
}

TEST(SimulatedMemory, CostsWhatTheMachineSaysAContextCosts) {
  Machine m;
  m.add_gpu({.memory = 1_GiB, .context = 100_MiB});
  EXPECT_EQ(m.run_unfenced({probe("hold"), "0", "256"}).out, "held: free 668 of 1024 MiB\n");
}

TEST(SimulatedMemory, FailsAtTheAllocationThatTheMachineNames) {
  Machine m;
  m.add_gpu({.memory = 8_GiB, .fail_alloc_at = 4});
  const Result r = m.run_unfenced({probe("vectors_driver")});
  // The first allocation is the copied vector.
  EXPECT_TRUE(r.says("CUDA 0: held 512 MiB, then CUDA_ERROR_OUT_OF_MEMORY\n")) << r.out;
}

TEST(SimulatedMemory, HoldsUnderManyThreads) {
  FourGpus m;
  const Result r = m.run_unfenced({probe("threads")}, kPciOrder);
  EXPECT_EQ(r.out, "held 4032 MiB, 8 threads refused, 0 wrong\nthen 256 MiB: cudaSuccess, 0 wrong\n");
}

TEST(SimulatedMemory, ComesBackInEveryWay) {
  FourGpus m;
  const Result r = m.run_unfenced({probe("gives_back")}, kPciOrder);
  EXPECT_EQ(r.out,
            "at first: 64 MiB used\n"
            "cuMemAlloc of 64: 128 MiB used\n"
            "cuMemFree: 64 MiB used\n"
            "cuMemAllocPitch of 1 x 32: 96 MiB used\n"
            "cuMemFree: 64 MiB used\n"
            "cuMemAllocManaged of 64\n"
            "cuMemFree: 64 MiB used\n"
            "128 and 64 in a context of its own: 320 MiB used\n"
            "context destroyed: 64 MiB used\n"
            "256 in the primary context: 320 MiB used\n"
            "primary context reset: 64 MiB used\n"
            "256 again: 320 MiB used\n"
            "after the last release it is inactive\n"
            "retained anew: 64 MiB used\n"
            "cuMemAlloc version 1: CUDA_SUCCESS\n"
            "64 by version 1: 128 MiB used\n"
            "at last: 64 MiB used\n");
}

TEST(SimulatedDriver, AnswersMisuseAsCudaDoes) {
  FourGpus m;
  const Result r = m.run_unfenced({probe("misuses")}, kPciOrder);
  EXPECT_EQ(r.out,
            "cuDeviceGetCount(&count): CUDA_ERROR_NOT_INITIALIZED\n"
            "cuMemAlloc(&memory, kMiB): CUDA_ERROR_NOT_INITIALIZED\n"
            "cuInit(1): CUDA_ERROR_INVALID_VALUE\n"
            "cuInit(0): CUDA_SUCCESS\n"
            "cuInit(0): CUDA_SUCCESS\n"
            "cuMemAlloc(&memory, kMiB): CUDA_ERROR_INVALID_CONTEXT\n"
            "cuMemGetInfo(&free, &total): CUDA_ERROR_INVALID_CONTEXT\n"
            "cuMemFree(0x1234): CUDA_ERROR_INVALID_CONTEXT\n"
            "cuDeviceGet(&device, 99): CUDA_ERROR_INVALID_DEVICE\n"
            "cuDeviceGet(&device, -1): CUDA_ERROR_INVALID_DEVICE\n"
            "cuDeviceGet(nullptr, 0): CUDA_ERROR_INVALID_VALUE\n"
            "cuDeviceGetCount(nullptr): CUDA_ERROR_INVALID_VALUE\n"
            "cuDeviceTotalMem(nullptr, 0): CUDA_ERROR_INVALID_VALUE\n"
            "cuDeviceTotalMem(&total, 99): CUDA_ERROR_INVALID_DEVICE\n"
            "cuMemAlloc(nullptr, kMiB): CUDA_ERROR_INVALID_VALUE\n"
            "cuMemAlloc(&memory, 0): CUDA_ERROR_INVALID_VALUE\n"
            "cuMemFree(0): CUDA_SUCCESS\n"
            "cuMemFree(0x1234): CUDA_ERROR_INVALID_VALUE\n"
            "cuMemGetInfo(nullptr, &total): CUDA_SUCCESS\n"
            "cuMemGetInfo(&free, nullptr): CUDA_SUCCESS\n"
            "cuMemGetInfo(nullptr, nullptr): CUDA_SUCCESS\n"
            "cuMemAlloc(&memory, size_t{1} << 60): CUDA_ERROR_OUT_OF_MEMORY\n"
            "cuMemAlloc(&memory, kMiB): CUDA_SUCCESS\n"
            "cuMemFree(memory): CUDA_SUCCESS\n"
            "cuMemFree(memory): CUDA_ERROR_INVALID_VALUE\n"
            "cuMemAllocPitch(&memory, nullptr, 64, 64, 4): CUDA_ERROR_INVALID_VALUE\n"
            "cuMemAllocManaged(&memory, kMiB, 77): CUDA_ERROR_INVALID_VALUE\n"
            "cuGetProcAddress(nullptr, &entry, 12000, 0, nullptr): CUDA_ERROR_INVALID_VALUE\n"
            "cuGetProcAddress(\"cuInit\", nullptr, 12000, 0, nullptr): CUDA_ERROR_INVALID_VALUE\n"
            "cuCtxDestroy(context): CUDA_SUCCESS\n"
            "cuMemAlloc(&memory, kMiB): CUDA_ERROR_INVALID_CONTEXT\n");
  EXPECT_EQ(r.exit, 0);
}

TEST(SimulatedDriver, IsForkedBeforeItsFirstCallOnly) {
  FourGpus m;
  const Result before = m.run_unfenced({probe("forks"), "before"}, kPciOrder);
  EXPECT_EQ(before.out, "child: allocated\nchild ended with 0\nparent: allocated\n");
  EXPECT_EQ(before.exit, 0);
  const Result after = m.run_unfenced({probe("forks"), "after"}, kPciOrder);
  EXPECT_EQ(after.out,
            "parent: allocated\nchild: CUDA_ERROR_NOT_INITIALIZED\nchild ended with 3\nparent: goes on\n");
  EXPECT_EQ(after.exit, 0);
}

TEST(SimulatedDriver, IsFoundInEveryWay) {
  FourGpus m;
  const char* expected = "GPUs: 4, CUDA 0 is 0000:01:00.0\nheld 3840 MiB, then result 2\n";
  for (const std::string& library :
       {std::string("libcuda.so.1"), std::string("libcuda.so"), simulator("libcuda.so.1")}) {
    for (const char* scope : {"local", "global"}) {
      for (const char* how : {"names", "procaddress"}) {
        const Result r = m.run_unfenced({probe("opens"), library, scope, how}, kPciOrder);
        EXPECT_EQ(r.out, expected) << library << " " << scope << " " << how << r.err;
      }
    }
  }
}

TEST(SimulatedDriver, IsThereForThoseWhoMaySeeIt) {
  FourGpus m;
  const Result none = m.run_unfenced({probe("looks_up")});
  EXPECT_EQ(none.out,
            "weak reference cuInit: absent\nRTLD_DEFAULT cuInit: absent\nRTLD_NEXT cuInit: absent\n"
            "RTLD_DEFAULT cuMemAlloc_v2: absent\nRTLD_DEFAULT cuNoSuchThing: absent\n"
            "RTLD_DEFAULT cudaMalloc: absent\nRTLD_DEFAULT strlen: present\n");
  EXPECT_EQ(m.run_unfenced({probe("looks_up"), "libcuda.so.1", "local"}).out, none.out);
  EXPECT_EQ(m.run_unfenced({probe("looks_up"), "libcuda.so.1", "global"}).out,
            "weak reference cuInit: absent\nRTLD_DEFAULT cuInit: present\nRTLD_NEXT cuInit: present\n"
            "RTLD_DEFAULT cuMemAlloc_v2: present\nRTLD_DEFAULT cuNoSuchThing: absent\n"
            "RTLD_DEFAULT cudaMalloc: absent\nRTLD_DEFAULT strlen: present\ncuInit: 0\n");
}

// The runtime.

TEST(SimulatedRuntime, AsksTheDriverAboutEachDeviceOnceAndReleasesItsContextsAtExit) {
  FourGpus m;
  for (const char* program : {"vectors_shared", "vectors_static"}) {
    const Result r = m.run_unfenced({probe(program), "256"}, kPciOrder);
    ASSERT_FALSE(r.calls.empty());
    EXPECT_EQ(r.called("cuInit"), 1) << program;
    EXPECT_EQ(r.called("cuDeviceGetCount"), 1) << program;
    EXPECT_EQ(r.called("cuDeviceGetName"), 4) << program;
    EXPECT_EQ(r.called("cuDeviceTotalMem_v2"), 4) << program;
    EXPECT_EQ(r.called("cuDeviceGetUuid"), 4) << program;
    EXPECT_EQ(r.called("cuDevicePrimaryCtxRetain"), 4) << program;
    EXPECT_EQ(r.called("cuDevicePrimaryCtxRelease"), 4) << program;
    EXPECT_EQ(r.called("cuMemAlloc_v2"), 6) << program;  // four vectors, one step, one again
    EXPECT_EQ(r.called("cuMemFree_v2"), 6) << program;
    EXPECT_EQ(r.calls.back().name, "cuDevicePrimaryCtxRelease") << program;
  }
}

TEST(SimulatedRuntime, StartsTheDriverWithVersionInitAndCount) {
  FourGpus m;
  const Result r = m.run_unfenced({probe("set_device"), "0"}, kPciOrder);
  std::vector<std::string> start;
  for (const Call& call : r.calls) {
    // Look-ups come before anything that acts, and are many.
    if (call.name.rfind("cuGetProcAddress", 0) == 0 || call.name == "cuDeviceGetAttribute") continue;
    start.push_back(call.name);
    if (call.name == "cuDevicePrimaryCtxRetain") break;
  }
  const std::vector<std::string> device = {"cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2",
                                           "cuDeviceGetUuid"};
  std::vector<std::string> expected = {"cuDriverGetVersion", "cuInit", "cuModuleGetLoadingMode",
                                       "cuDeviceGetCount"};
  for (int gpu = 0; gpu < 4; ++gpu) expected.insert(expected.end(), device.begin(), device.end());
  expected.insert(expected.end(), {"cuGetExportTable", "cuDevicePrimaryCtxRetain"});
  EXPECT_EQ(start, expected);
}

TEST(SimulatedRuntime, RefusesAnOrdinalThatDoesNotExistItself) {
  FourGpus m;
  const Result r = m.run_unfenced({probe("set_device"), "7"}, kPciOrder);
  EXPECT_EQ(r.out,
            "cudaSetDevice(7): cudaErrorInvalidDevice\nlast error: cudaErrorInvalidDevice, then cudaSuccess\n"
            "cudaGetDevice: cudaSuccess 0\nit is 0000:01:00.0\n");
  EXPECT_EQ(r.called("cuDevicePrimaryCtxRetain"), 0);
}

TEST(SimulatedRuntime, ChoosesTheDeviceItIsToldTo) {
  FourGpus m;
  const Result r = m.run_unfenced({probe("set_device"), "2"}, kPciOrder);
  EXPECT_EQ(r.out,
            "cudaSetDevice(2): cudaSuccess\nlast error: cudaSuccess, then cudaSuccess\n"
            "cudaGetDevice: cudaSuccess 2\nit is 0000:81:00.0\n");
}

TEST(SimulatedRuntime, AgreesWithTheDriverAboutMemory) {
  FourGpus m;
  const Result r = m.run_unfenced({probe("told"), "1024"}, kPciOrder);
  EXPECT_EQ(r.out,
            "cuDeviceTotalMem: 4096 MiB\ncudaDeviceProp: 4096 MiB\n"
            "at first: cuMemGetInfo 0: free 4032 total 4096 MiB\n"
            "at first: cudaMemGetInfo 0: free 4032 total 4096 MiB\n"
            "cudaMalloc: cudaSuccess\n"
            "held: cuMemGetInfo 0: free 3008 total 4096 MiB\n"
            "held: cudaMemGetInfo 0: free 3008 total 4096 MiB\n"
            "cudaFree: cudaSuccess\n"
            "freed: cuMemGetInfo 0: free 4032 total 4096 MiB\n"
            "freed: cudaMemGetInfo 0: free 4032 total 4096 MiB\n");
}

TEST(SimulatedRuntime, NeedsADriverOfItsOwnAge) {
  FourGpus m;
  m.set_driver_version(12080);
  for (const char* program : {"vectors_shared", "vectors_static"}) {
    const Result r = m.run_unfenced({probe(program)});
    EXPECT_TRUE(r.says("cudaGetDeviceCount(&count): cudaErrorInsufficientDriver")) << r.out;
    EXPECT_EQ(r.exit, 1);
  }
}

TEST(SimulatedRuntime, FindsNoDeviceUnderAnEmptyMask) {
  FourGpus m;
  const Result r = m.run_unfenced({probe("vectors_shared")}, {.env = {{"CUDA_VISIBLE_DEVICES", ""}}});
  EXPECT_TRUE(r.says("cudaGetDeviceCount(&count): cudaErrorNoDevice")) << r.out;
}

TEST(SimulatedRuntime, SaysInsufficientDriverWhereThereIsNone) {
  FourGpus m;
  for (const char* program : {"vectors_shared", "vectors_static"}) {
    const Result r = m.run_unfenced({probe(program)}, {.driver = false});
    EXPECT_TRUE(
        r.says("cudaGetDeviceCount(&count): cudaErrorInsufficientDriver (CUDA driver version is insufficient "
               "for CUDA runtime version)"))
        << r.out;
  }
  EXPECT_EQ(m.run_unfenced({probe("vectors_driver")}, {.driver = false}).exit, 127);
}

// NVIDIA's own runtime does not take the simulated driver for a genuine one, and nothing here makes it: it
// asks for its 440 entry points, then for tables that only NVIDIA's driver has, and answers every call with
// an error.
TEST(GenuineRuntime, LooksItsEntryPointsUpAndThenRefusesTheSimulatedDriver) {
  FourGpus m;
  const Result r = m.run_unfenced({probe("vectors_genuine")});
  EXPECT_TRUE(r.says("cudaGetDeviceCount(&count): cudaError")) << r.out;
  EXPECT_FALSE(r.says("GPUs:")) << r.out;
  EXPECT_EQ(r.exit, 1);
  EXPECT_TRUE(r.complains("] GF601 warning: this program brings NVIDIA's own CUDA runtime")) << r.err;
  EXPECT_EQ(r.called("cuGetProcAddress_v2"), 440);
  EXPECT_EQ(r.called("cuInit"), 1);
  EXPECT_EQ(r.called("cuDevicePrimaryCtxRetain"), 0);
}

// ---- Before the start ----

TEST(Preflight, SaysWhatWillNotRunAndWhatWorksInstead) {
  Machine m;
  m.add_gpu({});
  const Result r = m.run({probe("beyond_shared")});
  EXPECT_EQ(r.exit, 0);
  EXPECT_TRUE(
      r.says("multiply: cudaErrorNotSupported\ncudaImportExternalMemory: cudaErrorNotSupported\nright\n"))
      << r.out;
  const std::string begin = "gpufence: " + probe("beyond_shared") + ": can't be simulated in full: ";
  const std::string kernel = begin +
                             "kernel multiply(__half const*, __half const*, float*): unsupported instruction "
                             "wmma.load.a.sync.aligned.row.m16n16k16.global.f16, line ";
  EXPECT_EQ(r.err.find(kernel), 0u) << r.err;
  const std::size_t call = r.err.find('\n') + 1;
  EXPECT_EQ(
      r.err.find(begin +
                 "the simulator has no cudaImportExternalMemory; share memory by cudaIpcGetMemHandle, events "
                 "by cudaIpcGetEventHandle\n"),
      call)
      << r.err;
  // At the launch the same again, with the process.
  EXPECT_TRUE(r.complains("] GF601 warning: the simulator cannot run kernel _Z8multiplyPK6__halfS1_Pf"))
      << r.err;
  EXPECT_TRUE(
      r.complains(": it answered CUDA_ERROR_NOT_SUPPORTED; tensor cores are not simulated: compile the path "
                  "for GPUs without them\n"))
      << r.err;
}

TEST(Preflight, IsQuietOverWhatRunsAndWhenAskedToBe) {
  Machine m;
  m.add_gpu({});
  EXPECT_EQ(m.run({probe("vectors_shared")}).err, "");
  const Result quiet = m.run({probe("beyond_shared")}, {.options = {"-q"}});
  EXPECT_EQ(quiet.err.find("gpufence: "), std::string::npos) << quiet.err;
}

TEST(Preflight, SaysThatNvidiasOwnRuntimeWillNotDo) {
  Machine m;
  m.add_gpu({});
  const Result r = m.run({probe("vectors_genuine")});
  EXPECT_EQ(r.err.find(
                "gpufence: " + probe("vectors_genuine") +
                ": can't be simulated: it has NVIDIA's own runtime inside, which refuses a simulated driver; "
                "link it with nvcc -cudart shared, or with -L" +
                std::filesystem::path(simulator("x")).parent_path().string() + '\n'),
            0u)
      << r.err;
}

struct Alteration {
  const char* what;
  const char* answer;
};

class AlteredDriver : public testing::TestWithParam<Alteration> {};
constexpr const char* kRefused = "cudaSetDevice(0): cudaErrorSoftwareValidityNotEstablished\n";
constexpr const char* kTaken = "cudaSetDevice(0): cudaSuccess\n";
INSTANTIATE_TEST_SUITE_P(SimulatedRuntime, AlteredDriver,
                         testing::Values(Alteration{"count", kRefused}, Alteration{"uuid", kRefused},
                                         Alteration{"pci", kRefused}, Alteration{"version", kRefused},
                                         Alteration{"table", kRefused}, Alteration{"total", kTaken},
                                         Alteration{"nothing", kTaken}),
                         [](const auto& a) { return std::string(a.param.what); });

TEST_P(AlteredDriver, IsRefusedForCountUuidPciIdAndVersionOnly) {
  FourGpus m;
  const Result r = m.run_unfenced(
      {probe("set_device"), "0"},
      {.env = {{"LD_LIBRARY_PATH", std::string(GPUFENCE_ALTERED_DRIVER ":").append(simulator(""))},
               {"ALTERED_DRIVER", GetParam().what},
               {"ALTERED_DRIVER_REAL", simulator("libcuda.so.1")}}});
  EXPECT_EQ(r.out.substr(0, r.out.find('\n') + 1), GetParam().answer) << r.out << r.err;
}

}  // namespace
}  // namespace gpufence::harness
