// The records of the linked core and the route table.
#include "dispatch/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

using gpufence::dispatch::Record;
using gpufence::dispatch::records;
using gpufence::dispatch::RouteTable;

TEST(Records, EveryDriverRecordIsAnExportOfTheDriver) {
  std::size_t seen = 0;
  for (const Record* record : records()) {
    if (record->node != GPUFENCE_NODE_DRIVER) continue;
    ++seen;
    const bool known =
        std::any_of(std::begin(gpufence::abi::kDriverExports), std::end(gpufence::abi::kDriverExports),
                    [&](const auto& entry) { return std::strcmp(entry.symbol, record->name) == 0; });
    EXPECT_TRUE(known) << record->name;
  }
  EXPECT_GT(seen, 20u);
}

TEST(Records, NoNameIsHookedTwice) {
  std::set<std::pair<std::string, int>> hooked;
  for (const Record* record : records()) {
    if (record->body == nullptr) continue;
    EXPECT_TRUE(hooked.emplace(record->name, record->node).second) << record->name;
  }
}

TEST(Records, WhatTheFirstIssuePromisesIsHooked) {
  std::set<std::string> hooked;
  for (const Record* record : records()) {
    if (record->body != nullptr) hooked.insert(record->name);
  }
  for (const char* name : {"cuInit",
                           "cuDeviceGet",
                           "cuDeviceTotalMem",
                           "cuDeviceTotalMem_v2",
                           "cuMemAlloc",
                           "cuMemAlloc_v2",
                           "cuMemAllocPitch",
                           "cuMemAllocPitch_v2",
                           "cuMemAllocManaged",
                           "cuMemFree",
                           "cuMemFree_v2",
                           "cuMemGetInfo",
                           "cuMemGetInfo_v2",
                           "cuGetProcAddress",
                           "cuGetProcAddress_v2",
                           "cudaSetDevice",
                           "cudaGetDevice",
                           "cudaGetDeviceCount",
                           "cudaMalloc",
                           "cudaFree",
                           "cudaGetDeviceProperties"}) {
    EXPECT_TRUE(hooked.contains(name)) << name;
  }
}

// The runtime checks these against what the driver signs: a hook must never stand there.
TEST(Records, WhatTheRuntimeChecksIsNeverHooked) {
  for (const Record* record : records()) {
    if (record->body == nullptr) continue;
    for (const char* name :
         {"cuDeviceGetCount", "cuDeviceGetUuid", "cuDeviceGetUuid_v2", "cuDeviceGetPCIBusId",
          "cuDriverGetVersion", "cuDeviceGetAttribute", "cuGetExportTable"}) {
      EXPECT_STRNE(record->name, name);
    }
  }
}

TEST(RouteTable, FindsWhatWasAddedAndNothingElse) {
  static char memory[4096 * 16];
  RouteTable table(4096);
  for (int i = 0; i < 4096; i += 2) EXPECT_TRUE(table.add(memory + 16 * i, i));
  for (int i = 0; i < 4096; ++i) EXPECT_EQ(table.find(memory + 16 * i), i % 2 == 0 ? i : -1);
}

TEST(RouteTable, TwoRecordsAtOneAddressAreRefused) {
  static char function;
  RouteTable table(16);
  EXPECT_TRUE(table.add(&function, 3));
  EXPECT_TRUE(table.add(&function, 3));
  EXPECT_FALSE(table.add(&function, 4));
  EXPECT_EQ(table.find(&function), 3);
}
