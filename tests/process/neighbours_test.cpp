// Programs and libraries that are hard to live with: allocators and sanitizers, other hooks, several runtimes
// and drivers, first calls at bad moments, drivers of other releases, jails. Each has to give what it gives
// alone, and to be fenced all the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "machines.h"

namespace gpufence::harness {
namespace {

namespace fs = std::filesystem;

std::string gate() {
  return fs::path(gpufence_command()).parent_path().parent_path() / "lib" / "libgpufence.so";
}

// What vectors_driver prints under -d 2 -m 512MiB on FourGpus.
constexpr const char* kFenced = "CUDA 0: held 512 MiB, then CUDA_ERROR_OUT_OF_MEMORY\n";

// ---- Sanitizers
// --------------------------------------------------------------------------------------------

class SanitizedProgram : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(OfBothCompilers, SanitizedProgram,
                         testing::Values("gcc_address", "gcc_thread", "clang_address", "clang_thread"),
                         [](const auto& way) { return std::string(way.param); });

TEST_P(SanitizedProgram, IsFencedAndHasNothingToReport) {
  const std::string program = probe(std::string("vectors_") + GetParam());
  if (!fs::exists(program)) GTEST_SKIP() << "clang++ is not installed: " << program << " was not built";
  FourGpus m;
  const Result alone = m.run_unfenced({program, "256"});
  ASSERT_EQ(alone.exit, 0) << alone.err;  // else the simulator is at fault
  const Result r = m.run({program}, {.devices = "2", .gpu_mem = "512MiB"});
  EXPECT_EQ(r.exit, 0) << r.err;
  EXPECT_TRUE(r.says("GPUs: 1\n")) << r.out;
  EXPECT_TRUE(r.says(kFenced)) << r.out;
  EXPECT_FALSE(r.complains("Sanitizer")) << r.err;
}

// ---- Preloaded neighbours
// ----------------------------------------------------------------------------------

struct Neighbour {
  const char* name;
  std::string library;
};

std::vector<Neighbour> neighbours() {
  return {{"Jemalloc", "libjemalloc.so.2"},
          {"Tcmalloc", "libtcmalloc_minimal.so.4"},
          {"ADlsymOfItsOwn", probe("libown_dlsym.so")}};
}

class PreloadedNeighbour : public testing::TestWithParam<Neighbour> {};
INSTANTIATE_TEST_SUITE_P(EachOfThem, PreloadedNeighbour, testing::ValuesIn(neighbours()),
                         [](const auto& neighbour) { return std::string(neighbour.param.name); });

TEST_P(PreloadedNeighbour, BeforeUsAsTheLauncherPutsIt) {
  for (const char* program : {"vectors_driver", "vectors_static", "vectors_shared"}) {
    FourGpus m;
    const Result r = m.run(
        {probe(program)}, {.devices = "2", .gpu_mem = "512MiB", .env = {{"LD_PRELOAD", GetParam().library}}});
    EXPECT_TRUE(r.says("GPUs: 1\n")) << program;
    EXPECT_TRUE(r.says("CUDA 0: held 512 MiB, then ")) << program;
    EXPECT_EQ(r.exit, 0) << program;
    EXPECT_FALSE(r.complains("ld.so")) << r.err;
  }
}

TEST_P(PreloadedNeighbour, BeforeAndBehindUsWithoutTheLauncher) {
  for (const char* program : {"vectors_driver", "vectors_static", "vectors_shared"}) {
    for (const std::string& preload :
         {GetParam().library + ":" + gate(), gate() + ":" + GetParam().library}) {
      FourGpus m;
      const Result r = m.run_unfenced(
          {probe(program)}, {.env = {{"LD_PRELOAD", preload}, {"GPUFENCE_GPU_MEM_PER_PROCESS", "512MiB"}}});
      EXPECT_TRUE(r.says("GPUs: 4\n")) << preload << " " << program;
      EXPECT_TRUE(r.says("CUDA 0: held 512 MiB, then ")) << preload << " " << program;
      EXPECT_EQ(r.exit, 0) << preload << " " << program;
      EXPECT_FALSE(r.complains("ld.so")) << r.err;
    }
  }
}

// A tracer of CUDA calls that calls on to the next definition: it sees the program's calls, and we see its.
TEST(APreloadedWrapperOfCudaCalls, IsNotCutOut) {
  FourGpus m;
  const std::map<std::string, std::string> env = {{"LD_PRELOAD", probe("libwraps.so")}};
  const Result alone = m.run_unfenced({probe("vectors_driver"), "512"}, {.env = env});
  ASSERT_TRUE(alone.complains("wraps: cuInit\n")) << alone.err;
  ASSERT_TRUE(alone.complains("wraps: cuMemAlloc_v2\n")) << alone.err;
  const Result bare = m.run({probe("vectors_driver"), "512"}, {.env = env});
  EXPECT_EQ(bare.out, alone.out);
  EXPECT_EQ(bare.err, alone.err);
  const Result capped = m.run({probe("vectors_driver")}, {.devices = "2", .gpu_mem = "512MiB", .env = env});
  EXPECT_TRUE(capped.says(kFenced)) << capped.out;
  EXPECT_TRUE(capped.complains("wraps: cuMemAlloc_v2\n")) << capped.err;
}

// ---- NVIDIA's own runtime
// ----------------------------------------------------------------------------------

struct LookedUp {
  std::string way, name;
  int version = 0, flags = 0;
  std::string object;
};

std::vector<LookedUp> read_spy(const fs::path& file) {
  std::vector<LookedUp> all;
  std::istringstream lines(read_file(file));
  for (LookedUp l; lines >> l.way >> l.name >> l.version >> l.flags >> l.object;) all.push_back(l);
  return all;
}

// The names that cuGetProcAddress is asked for, of every hook.
std::set<std::string> hooked_names() {
  std::set<std::string> names;
  std::istringstream lines(read_file(probe("driver_names.txt")));
  for (std::string exported, node, base, version, twin; lines >> exported >> node >> base >> version >> twin;)
    names.insert(base);
  return names;
}

TEST(TheGenuineRuntime, IsHandedEveryHookThatItAsksForAndAnswersAsWithoutUs) {
  for (const char* program : {"vectors_genuine", "vectors_shared"}) {
    FourGpus m;
    const fs::path with_us = m.directory() / "with", without = m.directory() / "without";
    const auto spied = [&](const fs::path& file, bool fenced) {
      std::map<std::string, std::string> env = {
          {"LD_PRELOAD", probe("libown_dlsym.so") + (fenced ? ":" + gate() : "")},
          {"SPY_FILE", file},
          // The genuine shared runtime instead of the stand-in, the simulated driver all the same.
          {"LD_LIBRARY_PATH", std::string(GPUFENCE_GENUINE_RUNTIME) + ":" + simulator("")}};
      if (fenced) env["GPUFENCE_GPU_MEM_PER_PROCESS"] = "1GiB";
      return m.run_unfenced({probe(program)}, {.env = env});
    };
    const Result alone = spied(without, false), fenced = spied(with_us, true);
    EXPECT_EQ(fenced.out, alone.out) << program;
    EXPECT_EQ(fenced.exit, alone.exit) << program;

    const std::vector<LookedUp> bare = read_spy(without), ours = read_spy(with_us);
    ASSERT_EQ(ours.size(), bare.size()) << program;
    ASSERT_GT(ours.size(), 400u) << program;
    const std::set<std::string> hooked = hooked_names();
    std::size_t handed = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(bare[i].name, ours[i].name);
      EXPECT_EQ(bare[i].object, "libcuda.so.1") << bare[i].name;
      const bool fence = ours[i].object.starts_with("libgpufence");
      if (!fence) {
        EXPECT_EQ(ours[i].object, "libcuda.so.1") << ours[i].name;
        continue;
      }
      // Never for a name that has no hook.
      EXPECT_TRUE(hooked.contains(ours[i].name) || ours[i].way == "dlsym") << ours[i].name;
      ++handed;
    }
    // The names that this version hooks and the runtime asks for.
    for (const auto& [name, version] : std::map<std::string, int>{{"cuInit", 2000},
                                                                  {"cuMemAlloc", 3020},
                                                                  {"cuMemFree", 3020},
                                                                  {"cuMemAllocPitch", 3020},
                                                                  {"cuMemAllocManaged", 6000},
                                                                  {"cuMemGetInfo", 3020},
                                                                  {"cuDeviceTotalMem", 3020},
                                                                  {"cuGetProcAddress", 12000}}) {
      EXPECT_TRUE(std::any_of(ours.begin(), ours.end(), [&, n = name, v = version](const LookedUp& l) {
        return l.name == n && l.version == v && l.object == "libgpufence-core.so";
      })) << name;
    }
    EXPECT_GE(handed, 15u) << program;
  }
}

// ---- Two of a kind
// -----------------------------------------------------------------------------------------

TEST(TwoRuntimes, ShareOneViewAndOneCap) {
  FourGpus m;
  const Result r =
      m.run({probe("two_runtimes"), probe("plugin.so")}, {.devices = "2,0", .gpu_mem = "512MiB"});
  EXPECT_EQ(r.out,
            "GPUs: 2, the plug-in's 2\n"
            "held 256 and 256 MiB, then cudaErrorMemoryAllocation and cudaErrorMemoryAllocation\n")
      << r.err;
  EXPECT_EQ(r.exit, 0);
}

// A copy of the driver beside the machine's own: another file, so another driver in the same process.
std::string copy_of_the_driver(const Machine& m) {
  const fs::path copy = m.directory() / "compat" / "libcuda.so.1";
  fs::create_directories(copy.parent_path());
  fs::copy_file(simulator("libcuda.so.1"), copy);
  return copy;
}

TEST(ASecondDriver, IsDeniedWhereThereIsAViewOrACap) {
  FourGpus m;
  const std::string copy = copy_of_the_driver(m);
  const Result r = m.run({probe("second_driver"), copy}, {.devices = "2", .gpu_mem = "512MiB"});
  EXPECT_TRUE(r.says("the machine's: GPUs 1, held 512 MiB, then 2\n")) << r.out;
  EXPECT_TRUE(r.says("another: GPUs -1, held 0 MiB, then 100\n")) << r.out;
  EXPECT_TRUE(r.complains("GF501")) << r.err;
  EXPECT_TRUE(r.complains(copy)) << r.err;
}

TEST(ASecondDriver, IsItsOwnWhereNothingWasAskedFor) {
  FourGpus m;
  const std::string copy = copy_of_the_driver(m);
  const Result alone = m.run_unfenced({probe("second_driver"), copy});
  const Result bare = m.run({probe("second_driver"), copy});
  EXPECT_EQ(bare.out, alone.out);
  EXPECT_TRUE(bare.says("another: GPUs 4, held ")) << bare.out;
  // Each driver got its own calls: two contexts, not one driver's twice.
  EXPECT_EQ(bare.called("cuInit"), alone.called("cuInit"));
  EXPECT_EQ(alone.called("cuInit"), 2);
}

TEST(ASecondDriver, RunsUnfencedAndSaysSoWhereTheUserWantsThat) {
  FourGpus m;
  const Result r = m.run({probe("second_driver"), copy_of_the_driver(m)},
                         {.devices = "2", .gpu_mem = "512MiB", .env = {{"GPUFENCE_ON_ERROR", "allow"}}});
  EXPECT_TRUE(r.says("the machine's: GPUs 1, held 512 MiB, then 2\n")) << r.out;
  EXPECT_FALSE(r.says("another: GPUs -1")) << r.out;
  EXPECT_TRUE(r.complains("GF501")) << r.err;
}

// The GPU of the view is gone when CUDA starts, and the program doesn't look at what cuInit answers.
TEST(ADenial, HoldsAlsoForAProgramThatDoesNotLookAtCuInit) {
  FourGpus m;
  Machine smaller;
  smaller.add_gpu({.memory = 4_GiB, .uuid = kUuid0});
  const Result r = m.run({"/usr/bin/env", "GPUFENCE_SIM=" + smaller.toml().string(), probe("odd"), "ignores"},
                         {.devices = "0,2", .gpu_mem = "64MiB"});
  EXPECT_EQ(r.out, "cuInit 100, cuDevicePrimaryCtxRetain 3, cuCtxCreate 3, 128 MiB: not 0\n") << r.err;
  EXPECT_TRUE(r.complains("GF501 error: CUDA is denied: ")) << r.err;
}

// Without an environment the driver still reads the view, and the program finds it as it left it: empty.
TEST(AClearedEnvironment, IsEmptyAgainAfterCuInit) {
  FourGpus m;
  const Result r = m.run({probe("odd"), "bare"}, {.devices = "2,0"});
  EXPECT_EQ(r.out, "cuInit 100, environ null\n") << r.err;  // the simulated machine is in the environment
}

TEST(AProgramForMusl, KeepsItsOwnDlsym) {
  if (!fs::exists(probe("musl_plugs"))) GTEST_SKIP() << "musl-gcc is not installed";
  FourGpus m;
  const std::vector<std::string> child = {"/bin/sh", "-c", probe("musl_plugs") + " " + probe("musl_plug.so")};
  EXPECT_EQ(m.run_unfenced(child).out, "plug 42, printf found, cuInit absent\n");
  EXPECT_EQ(m.run(child, {.devices = "2", .gpu_mem = "1GiB"}).out, "plug 42, printf found, cuInit absent\n");
}

TEST(AClosedDriver, IsFencedAgainWhenItIsOpenedAgain) {
  FourGpus m;
  EXPECT_EQ(m.run({probe("closes")}, {.devices = "2,0", .gpu_mem = "1GiB"}).out,
            "GPUs: 2, 400 MiB: 0\nGPUs: 2, 400 MiB: 0\nGPUs: 2, 400 MiB: 2\n");
}

// ---- First calls at bad moments
// ----------------------------------------------------------------------------

TEST(TheFirstCall, OfSixtyFourThreadsAtOnce) {
  FourGpus m;
  for (int round = 0; round < 5; ++round) {
    const Result r = m.run({probe("first_calls"), "threads"}, {.devices = "2", .gpu_mem = "1GiB"});
    ASSERT_EQ(r.out, "GPUs: 1, held 1024 MiB\n") << r.err;
  }
}

TEST(TheFirstCall, WhileThreadsReadTheEnvironment) {
  FourGpus m;
  for (int round = 0; round < 5; ++round) {
    const Result r = m.run({probe("first_calls"), "getenv"}, {.devices = "2,0", .env = {{"STAYS", "1"}}});
    ASSERT_EQ(r.out, "GPUs: 2, mask 2,0, 0 reads found nothing\n") << r.err;
  }
}

// A thread in a constructor holds the loader's lock; arming in another thread must not wait for it while the
// constructor waits for arming.
TEST(TheFirstCall, InAConstructorWhileAnotherThreadMakesOneToo) {
  FourGpus m;
  for (int round = 0; round < 20; ++round) {
    const Result r = m.run({"timeout", "60", probe("first_calls"), "constructor", probe("libconstructs.so")},
                           {.devices = "2", .gpu_mem = "512MiB"});
    ASSERT_EQ(r.out, "constructor: CUDA_SUCCESS\nGPUs: 1, held 448 MiB\n") << r.exit << r.err;
  }
}

// ---- Drivers of other releases
// -----------------------------------------------------------------------------

Result on_driver(Machine& m, const std::string& release, const std::vector<std::string>& program, With with) {
  std::vector<std::string> argv = {"/usr/bin/env", "LD_LIBRARY_PATH=" + std::string(GPUFENCE_DRIVERS) + "/" +
                                                       release + ":" + simulator("")};
  argv.insert(argv.end(), program.begin(), program.end());
  return m.run(argv, with);
}

TEST(AnOlderDriver, IsFencedWithTheNamesThatItHas) {
  for (const auto& [release, version] : {std::pair<const char*, int>{"11.8", 11080}, {"12.4", 12040}}) {
    FourGpus m;
    m.set_driver_version(version);
    for (const char* way : {"names", "procaddress"}) {
      // 11.8 has no cuGetProcAddress_v2, so that a program of its time asks by dlsym.
      if (version < 12000 && std::string(way) == "procaddress") continue;
      const Result r = on_driver(m, release, {probe("opens"), "libcuda.so.1", "local", way},
                                 {.devices = "2", .gpu_mem = "512MiB"});
      EXPECT_EQ(r.out, "GPUs: 1, CUDA 0 is 0000:81:00.0\nheld 512 MiB, then result 2\n") << release << r.err;
    }
    // What the driver lacks reads as absent, and as missing where a program was linked to it.
    const Result ways = on_driver(m, release, {probe("ways"), "handle", probe("driver_names.txt")},
                                  {.devices = "2", .gpu_mem = "512MiB"});
    const Result alone =
        m.run_unfenced({probe("ways"), "handle", probe("driver_names.txt")},
                       {.env = {{"LD_LIBRARY_PATH", std::string(GPUFENCE_DRIVERS) + "/" + release}}});
    std::istringstream ours(ways.out), theirs(alone.out);
    std::size_t absent = 0, names = 0;
    for (std::string name, object, same, bare; ours >> name >> object && theirs >> same >> bare; ++names) {
      EXPECT_EQ(name, same);
      EXPECT_EQ(object == "absent", bare == "absent") << name;
      if (bare == "absent") ++absent;
    }
    EXPECT_GE(names, 25u);
    EXPECT_GE(absent, version < 12000 ? 2u : 1u) << release;
  }
}

TEST(ANewerDriver, IsFencedAsFarAsItIsKnownAndTheRestIsSaid) {
  FourGpus m;
  m.set_driver_version(14000);
  const With capped{.devices = "2", .gpu_mem = "512MiB"};
  const Result r = on_driver(m, "14.0", {probe("opens"), "libcuda.so.1", "local", "procaddress"}, capped);
  EXPECT_EQ(r.out, "GPUs: 1, CUDA 0 is 0000:81:00.0\nheld 512 MiB, then result 2\n") << r.err;
  const Result newer = on_driver(m, "14.0", {probe("newer")}, capped);
  EXPECT_EQ(newer.out,
            "cuQuantumLeap for CUDA 14.0: in libcuda.so.1, answers 0\n"
            "cuMemAlloc for CUDA 13.0: in libgpufence-core.so\n"
            "cuMemAlloc for CUDA 14.0: in libcuda.so.1\n")
      << newer.err;
  EXPECT_TRUE(
      newer.complains("GF501 warning: this driver has a cuMemAlloc for CUDA 14.0 that gpufence "
                      "doesn't know: calls of it are not fenced"))
      << newer.err;
}

TEST(ADriverWhoseLookUpsGiveOtherAddresses, IsFencedByThemToo) {
  FourGpus m;
  const With capped{.devices = "2", .gpu_mem = "512MiB"};
  for (const char* way : {"names", "procaddress"}) {
    const Result r = on_driver(m, "relayed", {probe("opens"), "libcuda.so.1", "local", way}, capped);
    EXPECT_EQ(r.out, "GPUs: 1, CUDA 0 is 0000:81:00.0\nheld 512 MiB, then result 2\n") << r.err;
    EXPECT_FALSE(r.complains("GF501")) << way << r.err;
  }
  // Every name, version and flag that has a hook.
  const Result ways =
      on_driver(m, "relayed", {probe("ways"), "procaddress2", probe("driver_names.txt")}, everything_bound());
  std::istringstream found(ways.out);
  std::size_t names = 0;
  for (std::string name, object; found >> name >> object; ++names)
    EXPECT_EQ(object, "libgpufence-core.so") << name;
  EXPECT_GE(names, 25u);
  // And those that no policy wants stay the driver's own, relayed as it gave them.
  const Result bare = on_driver(m, "relayed", {probe("ways"), "procaddress2", probe("driver_names.txt")},
                                {.env = {{"GPUFENCE_DIAGNOSE", "off"}}});
  EXPECT_NE(bare.out.find("cuMemAlloc_v2 libcuda.so.1\n"), std::string::npos) << bare.out;
  EXPECT_EQ(bare.err, "");
}

// ---- Jails
// -------------------------------------------------------------------------------------------------

TEST(AJail, ThatHidesTheCoreDeniesCudaUnderACapAndSaysWhy) {
  for (const std::vector<std::string>& jail :
       {std::vector<std::string>{"chroot", ""}, std::vector<std::string>{"seccomp"}}) {
    if (jail[0] == "chroot" && geteuid() != 0) continue;
    FourGpus m;
    const fs::path empty = m.directory() / "empty";
    // What the simulated machine needs, and nothing of ours.
    fs::create_directories(empty / (m.directory() / "shared").relative_path());
    fs::copy_file(m.toml(), empty / m.toml().relative_path());
    std::vector<std::string> program = {probe("jailed"), jail[0]};
    if (jail.size() > 1) program.push_back(empty);
    const Result alone = m.run_unfenced(program);
    ASSERT_EQ(alone.exit, 0) << alone.out << alone.err;
    if (jail[0] == "chroot") {
      ASSERT_TRUE(alone.says("cuInit: CUDA_SUCCESS\n")) << alone.err;
    }

    const Result denied = m.run(program, {.devices = "2", .gpu_mem = "512MiB"});
    EXPECT_TRUE(denied.says("cuInit: CUDA_ERROR_NO_DEVICE\n")) << denied.out;
    EXPECT_TRUE(denied.complains("GF501 error: not fenced: ")) << denied.err;
    EXPECT_TRUE(denied.complains("CUDA is denied")) << denied.err;
    EXPECT_EQ(denied.err.find("gpufence["), denied.err.rfind("gpufence[")) << denied.err;

    const Result allowed =
        m.run(program, {.devices = "2", .gpu_mem = "512MiB", .env = {{"GPUFENCE_ON_ERROR", "allow"}}});
    EXPECT_EQ(allowed.out, alone.out);
    EXPECT_TRUE(allowed.complains("CUDA runs without the fence")) << allowed.err;

    const Result bare = m.run(program);
    EXPECT_EQ(bare.out, alone.out);

    const Result required = m.run(program, {.env = {{"GPUFENCE_ON_ERROR", "deny"}}});
    EXPECT_TRUE(required.says("cuInit: CUDA_ERROR_NO_DEVICE\n")) << required.out;
  }
}

}  // namespace
}  // namespace gpufence::harness
