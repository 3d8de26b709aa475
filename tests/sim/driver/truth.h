// What the simulated driver knows about itself, past any hook, for the stand-in runtime's check: like
// NVIDIA's runtime it refuses (103) when count, UUIDs, PCI ids or driver version were altered on the way.
// This is a table of our own under a UUID of our own; it neither answers nor imitates NVIDIA's check.
#pragma once
#include <stddef.h>

namespace gpufence::sim {

struct ToolsTable;  // tools.h

// The id to pass to cuGetExportTable: the ASCII text "gpufence-simtru1".
inline constexpr char kTruthTableId[17] = "gpufence-simtru1";

struct TruthTable {
  size_t size;                                             // sizeof(TruthTable)
  int (*driver_version)();                                 // e.g. 13000
  int (*device_count)();                                   // visible devices after the mask; -1 before cuInit
  int (*device_uuid)(int ordinal, unsigned char out[16]);  // 0, or -1 for no such ordinal
  int (*device_pci)(int ordinal, int* domain, int* bus, int* device);
  // A tool finds it by an id of its own; the runtime asks for one table, as NVIDIA's does.
  const ToolsTable* tools;
};

}  // namespace gpufence::sim
