// --remap on programs with ordinals written into them: which GPU they come to, and that each call gives back
// what was asked for. The host's GPUs 2 and 0 are CUDA 0 and 1 where nothing else is said.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include <nlohmann/json.hpp>

#include "machines.h"

namespace gpufence::harness {
namespace {

constexpr const char* kZero = "CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0)";
constexpr const char* kOne = "CUDA 1 = host GPU 0 (Alpha, 0000:01:00.0)";

With remapped(const std::string& map, std::vector<std::string> options = {},
              const std::string& devices = "2,0") {
  options.insert(options.end(), {"--remap", map});
  return {.devices = devices, .options = std::move(options)};
}

TEST(Remap, AHardCodedOrdinalMeansAnother) {
  FourGpus m;
  const Result r = m.run({probe("remaps_shared"), "choose", "3", "1", "0"}, remapped("1=0,3=1"));
  EXPECT_EQ(r.out,
            "cudaSetDevice(3): cudaSuccess, Alpha, cudaGetDevice 3\n"
            "cudaSetDevice(1): cudaSuccess, Gamma, cudaGetDevice 1\n"
            "cudaSetDevice(0): cudaSuccess, Gamma, cudaGetDevice 0\n");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
}

TEST(Remap, OfASingleGpuServesAProgramForTheSecond) {
  FourGpus m;
  EXPECT_EQ(m.run({probe("remaps_shared"), "choose", "1"}, remapped("1=0", {}, "3")).out,
            "cudaSetDevice(1): cudaSuccess, Delta, cudaGetDevice 1\n");
}

TEST(Remap, OfTwoOrdinalsEachForTheOtherSwapsThem) {
  FourGpus m;
  const Result r = m.run({probe("remaps_shared"), "choose", "0", "1"}, remapped("0=1,1=0"));
  EXPECT_EQ(r.out,
            "cudaSetDevice(0): cudaSuccess, Alpha, cudaGetDevice 0\n"
            "cudaSetDevice(1): cudaSuccess, Gamma, cudaGetDevice 1\n");
}

TEST(Remap, WrapIsModuloTheView) {
  FourGpus m;
  const Result r = m.run({probe("remaps_shared"), "choose", "0", "1", "2", "7"}, remapped("wrap"));
  EXPECT_EQ(r.out,
            "cudaSetDevice(0): cudaSuccess, Gamma, cudaGetDevice 0\n"
            "cudaSetDevice(1): cudaSuccess, Alpha, cudaGetDevice 1\n"
            "cudaSetDevice(2): cudaSuccess, Gamma, cudaGetDevice 2\n"
            "cudaSetDevice(7): cudaSuccess, Alpha, cudaGetDevice 7\n");
  EXPECT_EQ(r.err, "");
}

TEST(Remap, WrapWithoutAViewIsModuloWhatCudaShows) {
  FourGpus m;
  EXPECT_EQ(
      m.run({probe("remaps_shared"), "choose", "4"}, {.options = {"--order", "pci", "--remap", "wrap"}}).out,
      "cudaSetDevice(4): cudaSuccess, Alpha, cudaGetDevice 4\n");
  const With masked{.options = {"--remap", "wrap"}, .env = {{"CUDA_VISIBLE_DEVICES", kUuid3}}};
  EXPECT_EQ(m.run({probe("remaps_shared"), "choose", "4"}, masked).out,
            "cudaSetDevice(4): cudaSuccess, Delta, cudaGetDevice 4\n");
}

TEST(Remap, OfNoGpuChangesNothing) {
  FourGpus m;
  const Result r = m.run({probe("remaps_shared"), "choose", "1"}, remapped("wrap", {}, "none"));
  EXPECT_EQ(r.out, "cudaSetDevice(1): cudaErrorNoDevice\n");
}

// Each call of the runtime that the simulated machine has, there and back.
TEST(Remap, EveryCallGivesBackWhatWasAskedFor) {
  FourGpus m;
  m.set_peers("all");
  const auto all = [](const char* device, const char* name, const char* pci, const char* other,
                      const char* others) {
    const std::string one = device, peer = other;
    return "device " + one + " is " + name + "\nproperties " + name + ", attribute agrees, " + pci +
           ", found by it " + one + ", chosen for its properties " + one + "\nmemory of " + one +
           ", stream of " + one + "\npreferred " + one + ", accessed by " + one + " -2, prefetched to " +
           one + ", accessed by " + one + " -2\nprefetched to the host: -1\npeer's memory of " + peer +
           ", on " + others + "\n4096 bytes came from the peer; its parameters say " + peer + " to " + one +
           " still\npool: one, the peer's gives memory of " + peer +
           ", access 3\npeers: 1 1, cudaSuccess cudaSuccess\n";
  };
  for (const char* map : {"1=0,3=1", "1=0,5=0,3=1,7=1"}) {
    const Result r = m.run({probe("remaps_shared"), "round", "1", "3"}, remapped(map));
    EXPECT_EQ(r.out, all("1", "Gamma", "0000:81:00.0", "3", "Alpha")) << map;
    EXPECT_EQ(r.err, "") << map;
    EXPECT_EQ(r.exit, 0) << map;
  }
  EXPECT_EQ(m.run({probe("remaps_shared"), "round", "1", "2"}, remapped("wrap")).out,
            all("1", "Alpha", "0000:01:00.0", "2", "Gamma"));
  EXPECT_EQ(m.run({probe("remaps_shared"), "round", "0", "1"}, remapped("0=1,1=0")).out,
            all("0", "Alpha", "0000:01:00.0", "1", "Gamma"));
  // And the probe itself, where nothing is remapped.
  EXPECT_EQ(m.run({probe("remaps_shared"), "round", "0", "1"}, {.devices = "2,0"}).out,
            all("0", "Gamma", "0000:81:00.0", "1", "Alpha"));
}

TEST(Remap, EveryThreadHasItsOwnNames) {
  FourGpus m;
  for (const char* map : {"wrap", "2=0,3=1"}) {
    const Result r = m.run({probe("remaps_shared"), "threads"}, remapped(map));
    EXPECT_EQ(r.out, "0 wrong: Gamma Alpha Gamma Alpha; without a choice 0, Gamma\n") << map;
    EXPECT_EQ(r.exit, 0);
  }
}

// A program that asks how many there are needs no remap, and gets none.
TEST(Remap, TheNumberOfGpusStaysTrue) {
  FourGpus m;
  EXPECT_EQ(m.run({probe("remaps_shared"), "list"}, remapped("wrap")).out, "2 Gamma Alpha\n");
  EXPECT_EQ(m.run({probe("remaps_shared"), "list"}, remapped("0=1,1=0")).out, "2 Alpha Gamma\n");
}

TEST(Remap, IsANoteOnceAPlaceWithBothGpus) {
  FourGpus m;
  const Result r = m.run({probe("remaps_shared"), "choose", "1", "1", "3", "0"}, remapped("1=0,3=1", {"-v"}));
  const std::string place =
      "; cudaSetDevice at remaps_shared\\+0x[0-9a-f]+ \\(main\\), thread \"remaps_shared\"\n";
  std::string pattern = std::string("gpufence\\[[0-9]+\\] GF107 info: ordinal 1 asked for, which means ") +
                        kZero + " (--remap 1=0,3=1); it does not mean " + kOne + place +
                        "gpufence\\[[0-9]+\\] GF107 info: ordinal 3 asked for, which means " + kOne +
                        " (--remap 1=0,3=1); there is no CUDA 3 here" + place;
  for (const char bracket : {'(', ')'})
    for (std::size_t at = 0; (at = pattern.find(bracket, at)) != std::string::npos; at += 2)
      if (at == 0 || pattern[at - 1] != '\\')
        pattern.insert(at, "\\");
      else
        --at;
  EXPECT_TRUE(std::regex_match(r.err, std::regex(pattern))) << r.err << "\n" << pattern;
  const auto report = m.directory() / "report.json";
  m.run({probe("remaps_shared"), "choose", "1", "1", "3", "0"},
        remapped("1=0,3=1", {"--report-file", report.string()}));
  const auto told = nlohmann::json::parse(read_file(report));
  EXPECT_EQ(told.at("findings").at("GF107"), 3);
}

TEST(Remap, AnOrdinalThatIsNeitherInTheMapNorInTheViewIsSaid) {
  FourGpus m;
  const Result r = m.run({probe("remaps_shared"), "choose", "2"}, remapped("1=0"));
  EXPECT_EQ(r.out, "cudaSetDevice(2): cudaErrorInvalidDevice\n");
  EXPECT_TRUE(
      r.complains("GF101 warning: ordinal 2 asked for, 2 GPUs visible: CUDA 0 = host GPU 2, "
                  "CUDA 1 = host GPU 0"))
      << r.err;
  EXPECT_TRUE(r.complains("; host GPU 2 is ordinal 0 here; cudaSetDevice at remaps_shared+0x")) << r.err;
}

// The report's rows, and who chose a GPU, go by CUDA's ordinals.
TEST(Remap, TheReportSpeaksOfTheTrueGpus) {
  FourGpus m;
  const auto report = m.directory() / "report.json";
  m.run({probe("remaps_shared"), "choose", "3"}, remapped("3=1", {"--report-file", report.string()}));
  const auto gpus = nlohmann::json::parse(read_file(report)).at("gpus");
  EXPECT_TRUE(gpus[0].at("chosen_by").is_null()) << gpus;
  EXPECT_TRUE(gpus[1].at("chosen_by").is_string()) << gpus;
  const auto notes = nlohmann::json::parse(read_file(report)).at("notes");
  EXPECT_EQ(notes.dump(), R"(["the program's ordinals are remapped (3=1); GPUs are named by CUDA's own"])");
}

// As the same faults are without a remap: findings see the true GPUs.
TEST(Remap, FindingsNameTheTrueGpus) {
  FourGpus m;
  const Result r = m.run({probe("chooses_shared"), "helper"}, remapped("1=0", {}, "2,0"));
  EXPECT_EQ(r.err, "");  // both threads are on CUDA 0
  const Result swapped = m.run({probe("chooses_shared"), "helper"}, remapped("1=2,2=1", {}, "2,0,3"));
  EXPECT_TRUE(
      swapped.complains("GF201 warning: thread \"pin_memory\" made its first CUDA call without choosing a "
                        "device → CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0); the process works on CUDA 2 = "
                        "host GPU 3 (Delta, 0000:c1:00.0)"))
      << swapped.err;
}

TEST(Remap, ReachesPythonThroughTheSharedRuntime) {
  FourGpus m;
  const char* script =
      "import ctypes\n"
      "rt = ctypes.CDLL('libcudart.so.13')\n"
      "now, memory = ctypes.c_int(-1), ctypes.c_void_p()\n"
      "pci = ctypes.create_string_buffer(32)\n"
      "print(rt.cudaSetDevice(1), rt.cudaGetDevice(ctypes.byref(now)), now.value)\n"
      "print(rt.cudaDeviceGetPCIBusId(pci, 32, 1), pci.value.decode())\n"
      "print(rt.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(64)))\n"
      "attributes = (ctypes.c_int * 64)()\n"
      "print(rt.cudaPointerGetAttributes(attributes, memory), attributes[1])\n";
  const Result r = m.run({"python3", "-c", script}, remapped("1=0", {}, "3"));
  EXPECT_EQ(r.out, "0 0 1\n0 0000:c1:00.0\n0\n0 1\n");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
}

// ---- Every call, of every release

// What the runtime of a release gets, and what the program gets back, where 1 means 0 and 3 means 2: a line
// for each call that the program makes with 1, or with 1 and 3; behind an arrow what it was told.
constexpr const char* kTo11 = R"(cudaGetDevice → 0
cudaGLSetGLDevice 0
cudaVDPAUSetVDPAUDevice 0
cudaSetDevice 0
cudaGetDevice → 1
cudaGetDeviceProperties 0
cudaDeviceGetAttribute 0
cudaDeviceGetPCIBusId 0
cudaDeviceGetDefaultMemPool 0
cudaDeviceGetMemPool 0
cudaDeviceSetMemPool 0
cudaDeviceGetGraphMemAttribute 0
cudaDeviceSetGraphMemAttribute 0
cudaDeviceGraphMemTrim 0
cudaDeviceGetNvSciSyncAttributes 0
cudaDeviceGetTexture1DLinearMaxWidth 0
cudaArrayGetMemoryRequirements 0
cudaMipmappedArrayGetMemoryRequirements 0
cudaDeviceEnablePeerAccess 2
cudaDeviceDisablePeerAccess 2
cudaDeviceCanAccessPeer 0 2
cudaDeviceGetP2PAttribute 0 2
cudaMemcpyPeer 0 2
cudaMemcpyPeerAsync 0 2
cudaSetValidDevices 2 0
cudaChooseDevice → 1
cudaDeviceGetByPCIBusId → 1
cudaVDPAUGetDevice → 1
cudaGLGetDevices → 1 1
cudaPointerGetAttributes → 1
cudaMemAdvise 0
cudaMemAdvise -1
cudaMemPrefetchAsync 0
cudaMemPrefetchAsync_ptsz -1
accessed by 1 2 -1 -2 -2, preferred 1 1, prefetched to node 0
cudaMemPoolCreate 0 77
cudaMemPoolSetAccess 10 0 2
cudaMemPoolGetAccess 0
cudaMemPoolGetAttribute → 1
cudaMemcpy3DPeer 2 0
cudaMemcpy3DPeer_ptds 2 0
cudaMemcpy3DPeerAsync 2 0
cudaMemcpy3DPeerAsync_ptsz 2 0
cudaGraphAddMemAllocNode 0 0 2
cudaGraphAddMemAllocNode: memory at 0x1000
cudaGraphMemAllocNodeGetParams → 1, 1 3
cudaGraphMemAllocNodeGetParams → 1, 1 3
cudaGraphMemAllocNodeGetParams → 1, 1 3
)";

constexpr const char* kTo12 = R"(cudaGetDevice → 0
cudaGLSetGLDevice 0
cudaVDPAUSetVDPAUDevice 0
cudaSetDevice 0
cudaGetDevice → 1
cudaGetDeviceProperties 0
cudaGetDeviceProperties_v2 0
cudaDeviceGetAttribute 0
cudaDeviceGetPCIBusId 0
cudaDeviceGetDefaultMemPool 0
cudaDeviceGetMemPool 0
cudaDeviceSetMemPool 0
cudaDeviceGetGraphMemAttribute 0
cudaDeviceSetGraphMemAttribute 0
cudaDeviceGraphMemTrim 0
cudaDeviceGetNvSciSyncAttributes 0
cudaDeviceGetTexture1DLinearMaxWidth 0
cudaArrayGetMemoryRequirements 0
cudaMipmappedArrayGetMemoryRequirements 0
cudaDeviceEnablePeerAccess 2
cudaDeviceDisablePeerAccess 2
cudaDeviceCanAccessPeer 0 2
cudaDeviceGetP2PAttribute 0 2
cudaMemcpyPeer 0 2
cudaMemcpyPeerAsync 0 2
cudaSetValidDevices 2 0
cudaChooseDevice → 1
cudaDeviceGetByPCIBusId → 1
cudaVDPAUGetDevice → 1
cudaGLGetDevices → 1 1
cudaPointerGetAttributes → 1
cudaMemAdvise 0
cudaMemAdvise -1
cudaMemPrefetchAsync 0
cudaMemPrefetchAsync_ptsz -1
cudaMemAdvise_v2 0
cudaMemAdvise_v2 1
cudaMemPrefetchAsync_v2 0
cudaMemPrefetchAsync_v2_ptsz 0
accessed by 1 2 -1 -2 -2, preferred 1 1, prefetched to node 0
cudaMemPoolCreate 0 77
cudaMemPoolSetAccess 10 0 2
cudaMemPoolGetAccess 0
cudaMemPoolGetAttribute → 1
cudaMemcpy3DPeer 2 0
cudaMemcpy3DPeer_ptds 2 0
cudaMemcpy3DPeerAsync 2 0
cudaMemcpy3DPeerAsync_ptsz 2 0
cudaMemcpyBatchAsync 2 0 9
cudaMemcpyBatchAsync_ptsz 2 0 9
cudaMemcpy3DBatchAsync 2 0 9
cudaMemcpy3DBatchAsync_ptsz 2 0 9
cudaGraphAddMemAllocNode 0 0 2
cudaGraphAddMemAllocNode: memory at 0x1000
cudaGraphMemAllocNodeGetParams → 1, 1 3
cudaGraphMemAllocNodeGetParams → 1, 1 3
cudaGraphMemAllocNodeGetParams → 1, 1 3
cudaGraphAddNode 0 0 2
cudaGraphAddNode: memory at 0x1000
cudaGraphAddNode of another kind
cudaGraphAddNode_v2 0 0 2
cudaGraphAddNode_v2: memory at 0x1000
cudaGraphAddNode_v2 of another kind
cudaGraphNodeSetParams 0 0 2
cudaGraphNodeSetParams: memory at 0x1000
cudaGraphNodeSetParams of another kind
cudaGraphExecNodeSetParams 0 0 2
cudaGraphExecNodeSetParams: memory at 0x1000
cudaGraphExecNodeSetParams of another kind
cudaInitDevice 0
cudaDeviceRegisterAsyncNotification 0
cudaDeviceUnregisterAsyncNotification 0
cudaKernelSetAttributeForDevice 0
cudaStreamGetDevice → 1
cudaStreamGetDevice_ptsz → 1
)";

constexpr const char* kTo13 = R"(cudaGetDevice → 0
cudaGLSetGLDevice 0
cudaVDPAUSetVDPAUDevice 0
cudaSetDevice 0
cudaGetDevice → 1
cudaGetDeviceProperties 0
cudaDeviceGetAttribute 0
cudaDeviceGetPCIBusId 0
cudaDeviceGetDefaultMemPool 0
cudaDeviceGetMemPool 0
cudaDeviceSetMemPool 0
cudaDeviceGetGraphMemAttribute 0
cudaDeviceSetGraphMemAttribute 0
cudaDeviceGraphMemTrim 0
cudaDeviceGetNvSciSyncAttributes 0
cudaDeviceGetTexture1DLinearMaxWidth 0
cudaArrayGetMemoryRequirements 0
cudaMipmappedArrayGetMemoryRequirements 0
cudaDeviceEnablePeerAccess 2
cudaDeviceDisablePeerAccess 2
cudaDeviceCanAccessPeer 0 2
cudaDeviceGetP2PAttribute 0 2
cudaMemcpyPeer 0 2
cudaMemcpyPeerAsync 0 2
cudaSetValidDevices 2 0
cudaChooseDevice → 1
cudaDeviceGetByPCIBusId → 1
cudaVDPAUGetDevice → 1
cudaGLGetDevices → 1 1
cudaPointerGetAttributes → 1
cudaMemAdvise 0
cudaMemAdvise 1
cudaMemPrefetchAsync 0
cudaMemPrefetchAsync_ptsz 0
cudaMemPrefetchBatchAsync 0 2
cudaMemPrefetchBatchAsync_ptsz 0 2
cudaMemDiscardAndPrefetchBatchAsync 0 2
cudaMemDiscardAndPrefetchBatchAsync_ptsz 0 2
cudaMemGetDefaultMemPool 0
cudaMemGetMemPool 0
cudaMemSetMemPool 0
cudaMemGetLocationInfo → 1 0 0
accessed by 1 3 -1 -2 -2, preferred 1 1, prefetched to node 0
cudaMemPoolCreate 0 77
cudaMemPoolSetAccess 10 0 2
cudaMemPoolGetAccess 0
cudaMemPoolGetAttribute → 1
cudaMemcpy3DPeer 2 0
cudaMemcpy3DPeer_ptds 2 0
cudaMemcpy3DPeerAsync 2 0
cudaMemcpy3DPeerAsync_ptsz 2 0
cudaMemcpyBatchAsync 2 0
cudaMemcpyBatchAsync 2 1
cudaMemcpyBatchAsync_ptsz 2 0
cudaMemcpyBatchAsync_ptsz 2 1
cudaMemcpy3DBatchAsync 2 0
cudaMemcpy3DBatchAsync_ptsz 2 0
cudaMemcpyWithAttributesAsync 2 0
cudaMemcpyWithAttributesAsync_ptsz 2 0
cudaMemcpy3DWithAttributesAsync 2 0
cudaMemcpy3DWithAttributesAsync_ptsz 2 0
cudaGraphAddMemAllocNode 0 0 2
cudaGraphAddMemAllocNode: memory at 0x1000
cudaGraphMemAllocNodeGetParams → 1, 1 3
cudaGraphMemAllocNodeGetParams → 1, 1 3
cudaGraphMemAllocNodeGetParams → 1, 1 3
cudaGraphAddNode 0 0 2
cudaGraphAddNode: memory at 0x1000
cudaGraphAddNode of another kind
cudaGraphNodeSetParams 0 0 2
cudaGraphNodeSetParams: memory at 0x1000
cudaGraphNodeSetParams of another kind
cudaGraphExecNodeSetParams 0 0 2
cudaGraphExecNodeSetParams: memory at 0x1000
cudaGraphExecNodeSetParams of another kind
cudaGraphNodeGetParams → 1, 1 3
cudaInitDevice 0
cudaDeviceRegisterAsyncNotification 0
cudaDeviceUnregisterAsyncNotification 0
cudaKernelSetAttributeForDevice 0
cudaStreamGetDevice → 1
cudaStreamGetDevice_ptsz → 1
cudaDeviceGetHostAtomicCapabilities 0
cudaDeviceGetP2PAtomicCapabilities 0 2
cudaDeviceGetExecutionCtx 0
cudaDeviceGetDevResource 0
cudaGreenCtxCreate 0
cudaExecutionCtxGetDevice → 1
)";

std::vector<std::string> echoes(int major) {
  return {probe("echoes"), probe("libecho_runtime_" + std::to_string(major) + ".so"), std::to_string(major)};
}

TEST(RemapOfEveryCall, OrdinalsGoByTheMapAndComeBack) {
  FourGpus m;
  for (const auto& [major, expected] : {std::pair{11, kTo11}, std::pair{12, kTo12}, std::pair{13, kTo13}}) {
    const Result r = m.run(echoes(major), {.options = {"--remap", "1=0,3=2"}});
    EXPECT_EQ(r.out, expected) << major;
    EXPECT_EQ(r.err, "") << major;
    EXPECT_EQ(r.exit, 0) << major;
  }
}

TEST(RemapOfEveryCall, WithoutOneTheyPassUntouched) {
  FourGpus m;
  for (const int major : {11, 12, 13}) {
    const Result alone = m.run_unfenced(echoes(major)), fenced = m.run(echoes(major));
    EXPECT_TRUE(alone.says("\ncudaDeviceCanAccessPeer 1 3\n")) << alone.out;
    EXPECT_EQ(fenced.out, alone.out) << major;
    EXPECT_EQ(fenced.err, "") << major;
  }
}

// A slot has one address; what no policy wants leads straight to the runtime while there is one, and goes by
// its caller once there are two.
TEST(RemapOfEveryCall, WithoutOneEachCallComesToItsCallersRuntime) {
  FourGpus m;
  const std::vector<std::string> program{probe("two_echoes"), probe("libruntime_one.so"),
                                         probe("libplugin_one.so"), probe("libruntime_other.so"),
                                         probe("libplugin_other.so")};
  const std::string expected =
      "one: cudaDeviceSetMemPool 0\n"
      "one: cudaSetDevice 0\none: cudaDeviceSetMemPool 0\none: cudaDeviceSetMemPool 0\n"
      "other: cudaSetDevice 0\none: cudaDeviceSetMemPool 0\nother: cudaDeviceSetMemPool 0\n"
      "one: cudaDeviceSetMemPool 0\none: cudaSetDevice 0\n";
  EXPECT_EQ(m.run_unfenced(program).out, expected);
  EXPECT_EQ(m.run(program).out, expected);
  EXPECT_EQ(m.run(program, {.options = {"--remap", "1=0"}}).out, expected);
}

TEST(RemapOfEveryCall, WrapCountsWhatTheRuntimeHas) {
  FourGpus m;
  for (const int major : {11, 12, 13}) {
    const Result r = m.run(echoes(major), {.options = {"--remap", "wrap"}});
    EXPECT_TRUE(r.says("\ncudaDeviceCanAccessPeer 1 1\n")) << r.out;  // of two
    EXPECT_TRUE(r.says("\ncudaMemcpy3DPeer 1 1\n")) << r.out;
    EXPECT_TRUE(r.says("\ncudaSetValidDevices 1 0\n")) << r.out;
  }
}

// ---- Where there is nothing to remap

TEST(Remap, OfAStaticRuntimeIsRefusedWithTheReason) {
  FourGpus m;
  for (const char* program : {"remaps_static", "vectors_genuine"}) {
    const Result r =
        m.gpufence({"run", "--sim", m.toml().string(), "-d", "0", "--remap", "1=0", "--", probe(program)});
    EXPECT_EQ(r.exit, 126);
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(
        r.err,
        "gpufence: " + probe(program) +
            ": --remap can't remap its ordinals: its CUDA runtime is linked statically, and its calls "
            "have no names that could be met; link it with nvcc -cudart shared, or choose and order its "
            "GPUs with --devices\n");
  }
}

TEST(Remap, OfAProgramThatCallsTheDriverAloneIsRefused) {
  FourGpus m;
  const Result r = m.run({probe("list_gpus")}, remapped("1=0"));
  EXPECT_EQ(r.exit, 126);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err,
            "gpufence: " + probe("list_gpus") +
                ": --remap can't remap its ordinals: it calls the driver itself and has no CUDA runtime, and "
                "ordinals of the driver's calls are never remapped; choose and order its GPUs with "
                "--devices\n");
}

// What a shell starts is met when it comes.
TEST(Remap, OfAStaticRuntimeThatIsMetLaterIsSaidOnce) {
  FourGpus m;
  for (const auto& [program, arguments] : {std::pair{"remaps_static", " list"}, std::pair{"list_gpus", ""}}) {
    const Result r = m.run({"sh", "-c", probe(program) + arguments}, remapped("0=1,1=0"));
    EXPECT_TRUE(std::regex_match(
        r.err,
        std::regex("gpufence\\[[0-9]+\\] GF107 warning: not remapped: the ordinals of " +
                   std::string(program) +
                   ", which calls the driver itself or has a CUDA runtime linked statically \\(--remap acts "
                   "on the shared runtime alone\\); link it with nvcc -cudart shared, or choose GPUs with "
                   "--devices; cuDeviceGet at " +
                   program + "\\+0x[0-9a-f]+( \\(.*\\))?\n")))
        << r.err;
    EXPECT_TRUE(r.says("Gamma")) << r.out;
  }
  // Also where the static runtime's calls are seen (--diagnose all).
  const Result seen =
      m.run({"sh", "-c", probe("remaps_static") + " list"}, remapped("0=1,1=0", {"--diagnose", "all"}));
  EXPECT_TRUE(seen.complains("GF107 warning: not remapped: the ordinals of remaps_static")) << seen.err;
  // The program with the shared runtime asks the driver too, but by no ordinal.
  EXPECT_EQ(m.run({"sh", "-c", probe("remaps_shared") + " list"}, remapped("0=1,1=0")).out,
            "2 Alpha Gamma\n");
}

TEST(Remap, OfAProgramWithoutCudaIsNoError) {
  FourGpus m;
  const Result r = m.run({"true"}, remapped("1=0"));
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
}

// ---- What is typed

TEST(Remap, WhatIsNoMapEndsTheRunWithOneLine) {
  FourGpus m;
  const std::string remedy = "; write A=B,… with ordinals, such as 1=0, or wrap\n";
  const std::pair<const char*, std::string> cases[] = {
      {"", "gpufence: --remap: is empty" + remedy},
      {"1", "gpufence: --remap 1: is no pair" + remedy},
      {"1=0,x=2", "gpufence: --remap 1=0,x=2: 'x=2' has 'x' where an ordinal belongs" + remedy},
      {"-1=0", "gpufence: --remap -1=0: has '-1' where an ordinal belongs" + remedy},
      {"1=0,1=1", "gpufence: --remap 1=0,1=1: '1=1' gives 1 a second meaning" + remedy},
      {"wrap,1=0",
       "gpufence: --remap wrap,1=0: 'wrap' stands beside pairs, and means every ordinal" + remedy},
      {"1=2",
       "gpufence: --remap 1=2: ordinal 2 is beyond the view, which has 2 GPUs; ordinals to map to are 0 to "
       "1\n"},
  };
  for (const auto& [map, error] : cases) {
    const Result r = m.run({probe("remaps_shared"), "list"},
                           {.devices = "2,0", .options = {std::string("--remap=") + map}});
    EXPECT_EQ(r.err, error) << map;
    EXPECT_EQ(r.out, "") << map;
    EXPECT_EQ(r.exit, 125) << map;
  }
  EXPECT_EQ(m.run({probe("remaps_shared"), "list"}, remapped("1=0", {}, "none")).err,
            "gpufence: --remap 1=0: ordinal 0 is beyond the view, which has 0 GPUs; leave the remap out\n");
}

TEST(Remap, DryRunShowsIt) {
  FourGpus m;
  const Result pairs = m.run({probe("remaps_shared")}, remapped("3=1,1=0", {"--dry-run"}));
  EXPECT_TRUE(pairs.says("\nordinal 1 means CUDA 0 (--remap)\nordinal 3 means CUDA 1 (--remap)\n"))
      << pairs.out;
  EXPECT_TRUE(pairs.says("\n  GPUFENCE_REMAP=1=0,3=1\n")) << pairs.out;
  const Result wrap = m.run({probe("remaps_shared")}, remapped("wrap", {"--dry-run"}));
  EXPECT_TRUE(wrap.says("\nevery ordinal means itself modulo the number of GPUs (--remap)\n")) << wrap.out;
}

TEST(Remap, IsPartOfTheStatus) {
  FourGpus m;
  const Result r = m.run({gpufence_command(), "status"}, remapped("3=1,1=0"));
  EXPECT_TRUE(r.says("\nremap          1=0,3=1 (--remap), in the shared runtime\n")) << r.out;
  const auto told =
      nlohmann::json::parse(m.run({gpufence_command(), "status", "--json"}, remapped("wrap")).out);
  EXPECT_EQ(told.at("remap"), "wrap");
  EXPECT_EQ(nlohmann::json::parse(m.gpufence({"status", "--json"}).out).at("remap"), nullptr);
  const Result wrong = m.gpufence({"status"}, {.env = {{"GPUFENCE_REMAP", "1"}}});
  EXPECT_TRUE(
      wrong.says("\nnote           GPUFENCE_REMAP=1: '1' is no pair; write A=B,… with ordinals, such as 1=0, "
                 "or wrap\n"))
      << wrong.out;
}

TEST(Remap, StandsInTheEnvironmentToo) {
  FourGpus m;
  const With by_hand{.env = {{"LD_PRELOAD", simulator("../lib/libgpufence.so")}, {"GPUFENCE_REMAP", "9=3"}}};
  EXPECT_EQ(m.run_unfenced({probe("remaps_shared"), "choose", "9"}, by_hand).out,
            "cudaSetDevice(9): cudaSuccess, Alpha, cudaGetDevice 9\n");
  const With wrong{
      .env = {{"LD_PRELOAD", simulator("../lib/libgpufence.so")}, {"GPUFENCE_REMAP", "9=3,9=2"}}};
  const Result r = m.run_unfenced({probe("remaps_shared"), "choose", "0"}, wrong);
  EXPECT_EQ(r.out, "cudaSetDevice(0): cudaSuccess, Delta, cudaGetDevice 0\n");
  EXPECT_TRUE(std::regex_match(
      r.err, std::regex("gpufence\\[[0-9]+\\] GF502 warning: GPUFENCE_REMAP=9=3,9=2: '9=2' gives 9 a second "
                        "meaning; nothing is remapped; write A=B,… with ordinals, such as 1=0, or wrap\n")))
      << r.err;
  const std::vector<std::string> again{gpufence_command(),     "run",    "--remap", "9=0", "--",
                                       probe("remaps_shared"), "choose", "9"};
  EXPECT_EQ(m.run(again, remapped("9=1")).out, "cudaSetDevice(9): cudaSuccess, Gamma, cudaGetDevice 9\n");
  // A run inside a run: its own option comes in the place of the outer one.
  const With outer{.devices = "2,0", .env = {{"GPUFENCE_REMAP", "9=1"}}};
  EXPECT_EQ(m.run({probe("remaps_shared"), "choose", "9"}, outer).out,
            "cudaSetDevice(9): cudaSuccess, Alpha, cudaGetDevice 9\n");
  With inner = remapped("9=0");
  inner.env = {{"GPUFENCE_REMAP", "9=1"}};
  EXPECT_EQ(m.run({probe("remaps_shared"), "choose", "9"}, inner).out,
            "cudaSetDevice(9): cudaSuccess, Gamma, cudaGetDevice 9\n");
}

}  // namespace
}  // namespace gpufence::harness
