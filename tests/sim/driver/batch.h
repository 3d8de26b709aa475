// What the calls that take a batch of operations share.
#pragma once
#include <cstddef>

#include "cuda_abi.h"

namespace gpufence::sim {

// "Must not be legacy NULL stream."
inline bool is_legacy(CUstream stream, bool per_thread) {
  return stream == CU_STREAM_LEGACY || (stream == nullptr && !per_thread);
}

// Whether the entries say which of `count` operations each of them is for: "the first entry must always be
// 0", each "greater than the previous", the last "less than count".
inline bool in_steps(const size_t* first_of, size_t entries, size_t count) {
  if (first_of == nullptr || entries == 0 || entries > count || first_of[0] != 0) return false;
  for (size_t k = 1; k < entries; ++k)
    if (first_of[k] <= first_of[k - 1] || first_of[k] >= count) return false;
  return true;
}

}  // namespace gpufence::sim
