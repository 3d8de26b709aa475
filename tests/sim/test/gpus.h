// What tests of several GPUs ask: a context, what is free there, and who may touch what.
#pragma once
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "inside.h"

namespace gpufence::sim {

inline CUcontext context_on(int ordinal) {
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxCreate(&context, nullptr, 0, ordinal), CUDA_SUCCESS);
  return context;
}

// Bytes, of the current context's GPU.
inline size_t free_memory() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free;
}

// 0: the context may not touch it; 1: it may read; 2: write too.
inline int reach(CUcontext context, CUdeviceptr address) {
  CUuuid id;
  memcpy(id.bytes, kInsideTableId, sizeof id.bytes);
  const void* table = nullptr;
  EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_SUCCESS);
  return static_cast<const InsideTable*>(table)->reach(context, address);
}

}  // namespace gpufence::sim
