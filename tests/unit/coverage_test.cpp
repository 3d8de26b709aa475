// Every export of the driver and of NVML was looked at by a person: it is hooked, or unhooked.inc,
// unhooked_nvml.inc say why not.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <string>

#include "abi/driver.h"
#include "dispatch/dispatch.h"

namespace {

enum class Kind { left_alone, passed_through };

struct Unhooked {
  const char* symbol;
  Kind kind;
  const char* reason;
};

constexpr Unhooked kUnhooked[] = {
#define GPUFENCE_LEFT_ALONE(symbol, reason) {#symbol, Kind::left_alone, reason},
#define GPUFENCE_PASSED_THROUGH(symbol, reason) {#symbol, Kind::passed_through, reason},
#include "abi/unhooked.inc"
};

std::set<std::string> hooked() {
  std::set<std::string> names;
  for (const gpufence::dispatch::Record* record : gpufence::dispatch::records())
    if (record->body != nullptr && record->node == GPUFENCE_NODE_DRIVER) names.insert(record->name);
  return names;
}

TEST(Coverage, EveryExportOfTheDriverIsHookedOrHasAReason) {
  std::map<std::string, int> entries;
  for (const Unhooked& entry : kUnhooked) ++entries[entry.symbol];
  const auto hooks = hooked();
  std::size_t exports = 0;
  for (const auto& exported : gpufence::abi::kDriverExports) {
    ++exports;
    const bool bound = hooks.contains(exported.symbol);
    const int listed = entries.contains(exported.symbol) ? entries[exported.symbol] : 0;
    EXPECT_TRUE(bound || listed > 0)
        << exported.symbol << " is neither hooked nor in interpose/abi/unhooked.inc: hook it, or say why not";
    EXPECT_FALSE(bound && listed > 0)
        << exported.symbol << " is hooked: take its line out of interpose/abi/unhooked.inc";
    EXPECT_LE(listed, 1) << exported.symbol << " stands in interpose/abi/unhooked.inc more than once";
  }
  EXPECT_EQ(exports, 637u);
}

TEST(Coverage, ReasonsAreGivenForExportsAlone) {
  std::set<std::string> exports;
  for (const auto& exported : gpufence::abi::kDriverExports) exports.insert(exported.symbol);
  for (const Unhooked& entry : kUnhooked) {
    EXPECT_TRUE(exports.contains(entry.symbol)) << entry.symbol << " is no export of the driver";
    EXPECT_GT(std::strlen(entry.reason), 3u) << entry.symbol;
    EXPECT_EQ(std::strpbrk(entry.reason, "\n;\""), nullptr) << entry.symbol;
  }
}

// The fifteen families of the design, each version and twin: whoever takes a hook of one out must say
// why.
TEST(Coverage, WhatTakesOrGivesDeviceMemoryIsNeverCalledHarmless) {
  for (const Unhooked& entry : kUnhooked) {
    bool family = false;
    for (const char* name :
         {"cuMemAlloc",         "cuMemFree",           "cuMemPoolCreate",      "cuMemPoolDestroy",
          "cuMemPoolTrimTo",    "cuMemPoolImport",     "cuMemCreate",          "cuMemRelease",
          "cuMemMap",           "cuMemUnmap",          "cuMemRetain",          "cuMemImport",
          "cuArrayCreate",      "cuArray3DCreate",     "cuArrayDestroy",       "cuMipmappedArrayCreate",
          "cuGraphAddMemAlloc", "cuGraphAddNode",      "cuGraphAddMemFree",    "cuGraphInstantiate",
          "cuGraphLaunch",      "cuGraphUpload",       "cuDeviceGraphMemTr",   "cuIpcOpenMemHandle",
          "cuIpcCloseMem",      "cuImportExternalMem", "cuDestroyExternalMem", "cuMulticastBind",
          "cuModuleLoad",       "cuModuleUnload",      "cuLibraryLoad",        "cuLibraryUnload",
          "cuGreenCtxCreate",   "cuCtxCreate",         "cuCtxDestroy",         "cuDevicePrimaryCtxRe",
          "cuCtxSetLimit"})
      family = family || std::strncmp(entry.symbol, name, std::strlen(name)) == 0;
    // Pinned memory of the host.
    if (std::strncmp(entry.symbol, "cuMemAllocHost", 14) == 0 ||
        std::strcmp(entry.symbol, "cuMemFreeHost") == 0)
      family = false;
    EXPECT_TRUE(!family || entry.kind == Kind::left_alone) << entry.symbol << ": " << entry.reason;
  }
}

// ---- The runtime's ordinals

constexpr Unhooked kUnhookedOfRuntime[] = {
#define GPUFENCE_LEFT_ALONE(symbol, reason) {#symbol, Kind::left_alone, reason},
#define GPUFENCE_PASSED_THROUGH(symbol, reason) {#symbol, Kind::passed_through, reason},
#include "abi/unhooked_runtime.inc"
};

struct Ordinal {
  const char* symbol;
  const char* parameter;
};
constexpr Ordinal kOrdinals[] = {
#define GPUFENCE_RUNTIME_ORDINAL(symbol, parameter) {#symbol, parameter},
#include "abi/runtime_ordinals.inc"
};

std::set<std::string> hooked_of_runtime(int node) {
  std::set<std::string> names;
  for (const gpufence::dispatch::Record* record : gpufence::dispatch::records())
    if (record->body != nullptr && record->node == node) names.insert(record->name);
  return names;
}

TEST(RuntimeCoverage, WhatTakesOrReturnsAnOrdinalIsHookedOrHasAReason) {
  const auto hooks = hooked_of_runtime(GPUFENCE_NODE_RUNTIME_13);
  std::map<std::string, int> reasons;
  for (const Unhooked& entry : kUnhookedOfRuntime) {
    ++reasons[entry.symbol];
    EXPECT_GT(std::strlen(entry.reason), 3u) << entry.symbol;
  }
  for (const Ordinal& ordinal : kOrdinals) {
    const auto reason = reasons.find(ordinal.symbol);
    const int lines = reason != reasons.end() ? reason->second : 0;
    EXPECT_EQ(lines, hooks.contains(ordinal.symbol) ? 0 : 1)
        << ordinal.symbol << " (" << ordinal.parameter << ") is "
        << (hooks.contains(ordinal.symbol) ? "hooked" : "not hooked")
        << ", and its lines in interpose/abi/unhooked_runtime.inc are " << lines;
    // What has an ordinal in its parameters is never merely given a reason.
    EXPECT_TRUE(hooks.contains(ordinal.symbol) || std::strcmp(ordinal.parameter, "its name") == 0)
        << ordinal.symbol << " (" << ordinal.parameter << ")";
    if (reason != reasons.end()) reasons.erase(reason);
  }
  for (const auto& [name, count] : reasons) ADD_FAILURE() << name << " may take no ordinal";
}

// What the generator reads is this release; the older ones have these besides, and what they have in common
// with it has to be met in them too.
TEST(RuntimeCoverage, OrdinalsOfOlderRuntimesAreMetToo) {
  const auto hooks_11 = hooked_of_runtime(GPUFENCE_NODE_RUNTIME_11);
  const auto hooks_12 = hooked_of_runtime(GPUFENCE_NODE_RUNTIME_12);
  const std::set<std::string> since_12{"cudaInitDevice",
                                       "cudaStreamGetDevice",
                                       "cudaStreamGetDevice_ptsz",
                                       "cudaDeviceRegisterAsyncNotification",
                                       "cudaDeviceUnregisterAsyncNotification",
                                       "cudaKernelSetAttributeForDevice",
                                       "cudaGraphAddNode",
                                       "cudaGraphNodeSetParams",
                                       "cudaGraphExecNodeSetParams",
                                       "cudaMemcpyBatchAsync",
                                       "cudaMemcpyBatchAsync_ptsz",
                                       "cudaMemcpy3DBatchAsync",
                                       "cudaMemcpy3DBatchAsync_ptsz"};
  const std::set<std::string> since_13{"cudaDeviceGetHostAtomicCapabilities",
                                       "cudaDeviceGetP2PAtomicCapabilities",
                                       "cudaMemDiscardAndPrefetchBatchAsync",
                                       "cudaMemDiscardAndPrefetchBatchAsync_ptsz",
                                       "cudaMemPrefetchBatchAsync",
                                       "cudaMemPrefetchBatchAsync_ptsz",
                                       "cudaMemGetDefaultMemPool",
                                       "cudaMemGetMemPool",
                                       "cudaMemSetMemPool"};
  for (const Ordinal& ordinal : kOrdinals) {
    if (std::strcmp(ordinal.parameter, "its name") == 0) continue;
    const std::string name = ordinal.symbol;
    EXPECT_EQ(hooks_12.contains(name), !since_13.contains(name)) << name;
    EXPECT_EQ(hooks_11.contains(name), !since_13.contains(name) && !since_12.contains(name)) << name;
  }
  for (const char* name : {"cudaGetDeviceProperties_v2", "cudaMemAdvise_v2", "cudaMemPrefetchAsync_v2",
                           "cudaMemPrefetchAsync_v2_ptsz", "cudaGraphAddNode_v2"})
    EXPECT_TRUE(hooks_12.contains(name)) << name;
}

// Without a remap its own hooks are not bound: their slots lead to the runtime, or forward to the caller's.
TEST(RuntimeCoverage, HooksForARemapAloneHaveAPlainWayBesides) {
  using namespace gpufence::dispatch;
  std::size_t remapped = 0;
  for (const Record* record : records()) {
    if (record->node < GPUFENCE_NODE_RUNTIME_11) continue;
    EXPECT_TRUE(record->needs == kFence || record->needs == kRemap) << record->name;
    EXPECT_EQ(record->plain != nullptr, record->needs == kRemap) << record->name;
    EXPECT_NE(record->plain, record->body) << record->name;
    remapped += record->needs == kRemap ? 1 : 0;
  }
  EXPECT_GT(remapped, 150u);
}

constexpr Unhooked kUnhookedOfNvml[] = {
#define GPUFENCE_LEFT_ALONE(symbol, reason) {#symbol, Kind::left_alone, reason},
#define GPUFENCE_PASSED_THROUGH(symbol, reason) {#symbol, Kind::passed_through, reason},
#include "abi/unhooked_nvml.inc"
};

constexpr const char* kNvmlExports[] = {
#define GPUFENCE_NVML_EXPORT(symbol) #symbol,
#include "abi/nvml_exports.inc"
};

std::set<std::string> hooked_of_nvml() {
  std::set<std::string> names;
  for (const gpufence::dispatch::Record* record : gpufence::dispatch::records())
    if (record->body != nullptr && record->node == GPUFENCE_NODE_NVML) names.insert(record->name);
  return names;
}

TEST(NvmlCoverage, EveryFunctionIsHookedOrHasAReason) {
  std::map<std::string, int> entries;
  for (const Unhooked& entry : kUnhookedOfNvml) {
    ++entries[entry.symbol];
    EXPECT_GT(std::strlen(entry.reason), 3u) << entry.symbol;
    EXPECT_EQ(std::strpbrk(entry.reason, "\n;\""), nullptr) << entry.symbol;
  }
  std::set<std::string> hooks = hooked_of_nvml();
  std::size_t exports = 0;
  for (const char* exported : kNvmlExports) {
    ++exports;
    const bool bound = hooks.erase(exported) > 0;
    const auto listed = entries.find(exported);
    const int times = listed != entries.end() ? listed->second : 0;
    EXPECT_EQ(times, bound ? 0 : 1) << exported << (bound ? " is hooked" : " is not hooked")
                                    << ", and its lines in interpose/abi/unhooked_nvml.inc are " << times;
    if (listed != entries.end()) entries.erase(listed);
  }
  EXPECT_EQ(exports, 398u);
  for (const auto& [name, count] : entries) ADD_FAILURE() << name << " is no function of NVML";
  for (const std::string& name : hooks) ADD_FAILURE() << name << " is hooked and no function of NVML";
}

// Neither findings nor a report change what NVML says: a bare run binds none of its hooks.
TEST(NvmlCoverage, HooksAreBoundForACapOrNumberingViewAlone) {
  using namespace gpufence::dispatch;
  for (const Record* record : records()) {
    if (record->body == nullptr || record->node != GPUFENCE_NODE_NVML) continue;
    EXPECT_TRUE(record->needs == kCap || record->needs == kView) << record->name;
  }
}

// What changes a GPU by its name: NVML has no other way to tell. In numbering view each answers
// NO_PERMISSION.
TEST(NvmlCoverage, WhatChangesAGpuIsHooked) {
  const std::set<std::string> hooks = hooked_of_nvml();
  std::size_t changing = 0;
  for (const std::string name : kNvmlExports) {
    // Sets of events and of GPUs are not set.
    if (name.find("EventSet") != std::string::npos || name.find("GpuSet") != std::string::npos) continue;
    bool changes = false;
    for (const std::string verb : {"Set", "Reset", "Clear", "Modify", "Freeze", "Create", "Destroy", "Remove",
                                   "Discover", "Activate", "Update", "Write"}) {
      // A word of its own: "Settings" and "Creatable" are none of these.
      for (std::size_t at = name.find(verb); at != std::string::npos; at = name.find(verb, at + 1)) {
        const char next = name.c_str()[at + verb.size()];
        changes = changes || next < 'a' || next > 'z';
      }
    }
    if (!changes) continue;
    ++changing;
    EXPECT_TRUE(hooks.contains(name)) << name;
  }
  EXPECT_EQ(changing, 70u);
}

}  // namespace
