// Where a tool listens to the runtimes of this process: one listener, as CUPTI admits one subscriber. The
// driver only keeps the place, because runtimes (several, some linked statically) and libcupti know nothing
// of each other but the driver. A table of our own under a UUID of our own, like truth.h.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <atomic>

namespace gpufence::sim {

// The id to pass to cuGetExportTable: the ASCII text "gpufence-simtool".
inline constexpr char kToolsTableId[17] = "gpufence-simtool";

// One end of a runtime call. Valid while the listener runs.
struct ToldCall {
  bool returned;          // false: it has just been called
  unsigned cbid;          // CUpti_runtime_api_trace_cbid
  const char* name;       // "cudaMalloc_v3020"; lives as long as the runtime
  const void* params;     // the call's …_params struct; null for calls without parameters
  void* result;           // cudaError_t *; meaningful once it returned
  const char* symbol;     // a launch's kernel, mangled; else null
  uint64_t* correlation;  // shared between the two ends
};

struct ToolsTable {
  size_t size;                                      // sizeof(ToolsTable)
  std::atomic<void (*)(const ToldCall&)> listener;  // null: nobody listens
  void* (*current_context)();                       // CUcontext; null: this thread has none
};

}  // namespace gpufence::sim
