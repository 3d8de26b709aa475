// Every hooked name is reached by every way that programs have to it. The names are the gate's own table, so
// a new hook is tested without a line here. "Reached" means: the address that the program got is the gate's
// or the core's.
#include <gtest/gtest.h>

#include <sstream>

#include "machines.h"

namespace gpufence::harness {
namespace {

// name → object, as the probes print it.
std::vector<std::pair<std::string, std::string>> answers(const Result& result) {
  std::vector<std::pair<std::string, std::string>> out;
  std::istringstream lines(result.out);
  for (std::string name, object; lines >> name >> object;) out.emplace_back(name, object);
  return out;
}

testing::AssertionResult all_in(const Result& result, std::string_view object, std::size_t at_least) {
  if (result.exit != 0)
    return testing::AssertionFailure() << "exit " << result.exit << ": " << result.out << result.err;
  const auto found = answers(result);
  if (found.size() < at_least) return testing::AssertionFailure() << "only " << found.size() << " names";
  for (const auto& [name, where] : found) {
    if (where != object)
      return testing::AssertionFailure() << name << " is in " << where << ", not in " << object;
  }
  return testing::AssertionSuccess();
}

constexpr std::size_t kDriverNames = 25, kRuntimeNames = 6, kNvmlNames = 100;  // of this version, at least

Result look_up(const char* way, const char* names, const std::string& library) {
  FourGpus m;
  return m.run({probe("ways"), way, probe(names), library}, everything_bound());
}

struct LookUp {
  const char* name;
  const char* way;
  const char* library;
};
const LookUp kLookUps[] = {
    {"HandleOfTheSoname", "handle", "libcuda.so.1"},  {"HandleOfTheDevelopmentName", "handle", "libcuda.so"},
    {"HandleOpenedLocally", "local", "libcuda.so.1"}, {"ScopeOfTheProgram", "default", "libcuda.so.1"},
    {"NextInScope", "next", "libcuda.so.1"},          {"HandleOfTheProgram", "program", "libcuda.so.1"},
};

class DriverNames : public testing::TestWithParam<LookUp> {};
INSTANTIATE_TEST_SUITE_P(EveryLookUp, DriverNames, testing::ValuesIn(kLookUps),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(DriverNames, AreOurs) {
  EXPECT_TRUE(all_in(look_up(GetParam().way, "driver_names.txt", GetParam().library), "libgpufence.so",
                     kDriverNames));
}

TEST(DriverNames, AreOursByAnAbsolutePath) {
  EXPECT_TRUE(all_in(look_up("handle", "driver_names.txt", simulator("libcuda.so.1")), "libgpufence.so",
                     kDriverNames));
}

// After arming, look-ups through the driver hand out the bodies themselves.
TEST(DriverNames, AreOursThroughBothGetProcAddresses) {
  EXPECT_TRUE(all_in(look_up("procaddress2", "driver_names.txt", "libcuda.so.1"), "libgpufence-core.so",
                     kDriverNames));
  EXPECT_TRUE(all_in(look_up("procaddress1", "driver_names.txt", "libcuda.so.1"), "libgpufence-core.so",
                     kDriverNames));
}

TEST(DriverNames, AreOursInALinkedProgramLazyAndNow) {
  FourGpus m;
  for (const char* program : {"linked_driver", "linked_driver_now"}) {
    EXPECT_TRUE(all_in(m.run({probe(program)}, everything_bound()), "libgpufence.so", kDriverNames))
        << program;
  }
}

TEST(RuntimeNames, AreOursInALinkedProgram) {
  FourGpus m;
  EXPECT_TRUE(all_in(m.run({probe("linked_runtime")}, everything_bound()), "libgpufence.so", kRuntimeNames));
}

TEST(RuntimeNames, AreOursByEveryLookUp) {
  for (const char* way : {"handle", "local", "default", "next", "program", "version"}) {
    EXPECT_TRUE(all_in(look_up(way, "runtime_names.txt", "libcudart.so.13"), "libgpufence.so", kRuntimeNames))
        << way;
  }
}

TEST(NvmlNames, AreOursInALinkedProgram) {
  FourGpus m;
  EXPECT_TRUE(all_in(m.run({probe("linked_nvml")}, everything_bound()), "libgpufence.so", kNvmlNames));
}

TEST(NvmlNames, AreOursByEveryLookUp) {
  for (const char* library : {"libnvidia-ml.so.1", "libnvidia-ml.so"}) {
    for (const char* way : {"handle", "local", "default", "next", "program"}) {
      EXPECT_TRUE(all_in(look_up(way, "nvml_names.txt", library), "libgpufence.so", kNvmlNames))
          << way << " " << library;
    }
  }
}

// Without us the same probes find the driver and the runtime: what is tested above can fail.
TEST(WithoutTheFence, TheSameProbesFindTheLibraries) {
  FourGpus m;
  EXPECT_TRUE(all_in(m.run_unfenced({probe("ways"), "default", probe("driver_names.txt")}), "libcuda.so.1",
                     kDriverNames));
  EXPECT_TRUE(
      all_in(m.run_unfenced({probe("ways"), "version", probe("runtime_names.txt"), "libcudart.so.13"}),
             "libcudart.so.13", kRuntimeNames));
  EXPECT_TRUE(all_in(m.run_unfenced({probe("linked_runtime")}), "libcudart.so.13", kRuntimeNames));
  EXPECT_TRUE(all_in(m.run_unfenced({probe("linked_nvml")}), "libnvidia-ml.so.1", kNvmlNames));
}

// What no policy wants stays the driver's own: a bare run hands out the driver's pointers for memory calls.
TEST(NothingAskedFor, MemoryCallsAreTheDriversOwnPointers) {
  FourGpus m;
  const auto found = answers(m.run({probe("ways"), "procaddress2", probe("driver_names.txt")}, {}));
  std::size_t memory = 0;
  for (const auto& [name, where] : found) {
    // Copies, fills and mappings are looked at for findings, and cost the program's own call a compare.
    if (!name.starts_with("cuMem") || name.starts_with("cuMemcpy") || name.starts_with("cuMemset") ||
        name == "cuMemMap")
      continue;
    ++memory;
    EXPECT_EQ(where, "libcuda.so.1") << name;
  }
  EXPECT_GE(memory, 9u);
}

}  // namespace
}  // namespace gpufence::harness
