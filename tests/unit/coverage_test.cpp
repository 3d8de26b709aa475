// Every export of the driver was looked at by a person: it is hooked, or unhooked.inc says why not.
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

}  // namespace
