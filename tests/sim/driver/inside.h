// What tests of the simulator need that no CUDA call gives: a fault without a kernel that makes it, and what
// a kernel would be let touch. A table of our own, like truth.h.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace gpufence::sim {

// The id to pass to cuGetExportTable: the ASCII text "gpufence-inside1".
inline constexpr char kInsideTableId[17] = "gpufence-inside1";

struct InsideTable {
  size_t size;  // sizeof(InsideTable)
  // Gives a created stream work that ends in that CUresult.
  void (*fault)(void* stream, int code);
  // 0: a kernel in the context may not touch the byte; 1: it may read it; 2: write it too.
  int (*reach)(void* context, uint64_t address);
};

extern const InsideTable kInside;

}  // namespace gpufence::sim
