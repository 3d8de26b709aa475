// Hints about managed memory: what is taken, what is refused, and what is told of them afterwards.
#include <cuda.h>
#include <gtest/gtest.h>

#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

constexpr CUmemLocation kHost = {CU_MEM_LOCATION_TYPE_HOST, 0};
constexpr CUmemLocation device(int ordinal) {
  return {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
}

int told(CUmem_range_attribute which, CUdeviceptr address, size_t count) {
  int value = -77;
  OK(cuMemRangeGetAttribute(&value, sizeof value, which, address, count));
  return value;
}

void with_managed(const std::function<void(CUdeviceptr)>& body) {
  in_child({{"GPUFENCE_SIM", "2"}}, [&] {
    OK(cuInit(0));
    CUcontext context = nullptr;
    OK(cuCtxCreate(&context, nullptr, 0, 0));
    CUdeviceptr memory = 0;
    OK(cuMemAllocManaged(&memory, 1 << 20, CU_MEM_ATTACH_GLOBAL));
    body(memory);
  });
}

TEST(Managed, AdviceIsToldOfRangesThatHaveItThroughout) {
  with_managed([](CUdeviceptr memory) {
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 1 << 20), 0);
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, 1 << 20), CU_DEVICE_INVALID);
    OK(cuMemAdvise(memory, 1 << 19, CU_MEM_ADVISE_SET_READ_MOSTLY, device(0)));
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 1 << 19), 1);
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 1 << 20), 0);
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory + (1 << 19), 4), 0);
    OK(cuMemAdvise(memory + 4096, 4096, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device(0)));
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 1 << 19), 0);
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 4096), 1);

    OK(cuMemAdvise(memory, 1 << 20, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(1)));
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, 1 << 20), 1);
    OK(cuMemAdvise(memory, 1, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kHost));
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, 4096), CU_DEVICE_CPU);
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, memory, 1), CU_MEM_LOCATION_TYPE_HOST);
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, 1 << 20), CU_DEVICE_INVALID);

    OK(cuMemAdvise(memory, 1 << 20, CU_MEM_ADVISE_SET_ACCESSED_BY, device(1)));
    OK(cuMemAdvise(memory, 1 << 20, CU_MEM_ADVISE_SET_ACCESSED_BY, kHost));
    int by[3] = {5, 5, 5};
    OK(cuMemRangeGetAttribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, 1 << 20));
    EXPECT_EQ(by[0], CU_DEVICE_CPU);
    EXPECT_EQ(by[1], 1);
    EXPECT_EQ(by[2], CU_DEVICE_INVALID);
  });
}

TEST(Managed, APrefetchIsToldAndTakesItsPlaceInTheStream) {
  with_managed([](CUdeviceptr memory) {
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, 4096), CU_DEVICE_INVALID);
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemPrefetchAsync(memory, 1 << 20, device(1), 0, stream));
    OK(cuMemPrefetchAsync(memory, 4096, kHost, 0, nullptr));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, 4096), CU_DEVICE_CPU);
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory + 4096, 4096), 1);
    int first = 0, second = 9;
    void* data[] = {&first, &second};
    size_t sizes[] = {4, 4};
    CUmem_range_attribute which[] = {CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID,
                                     CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY};
    OK(cuMemRangeGetAttributes(data, sizes, which, 2, memory + 4096, 8192));
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 0);
  });
}

TEST(Managed, HintsAboutAnythingElseAreRefused) {
  with_managed([](CUdeviceptr memory) {
    CUdeviceptr plain = 0;
    OK(cuMemAlloc(&plain, 4096));
    int value = 0;
    EXPECT_EQ(cuMemPrefetchAsync(plain, 4096, device(0), 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAdvise(plain, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, device(0)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAdvise(memory, (1 << 20) + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, device(0)),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAdvise(memory, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, device(0)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(2)),
              CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuMemPrefetchAsync(memory, 4096, device(7), 0, nullptr), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuMemPrefetchAsync(memory, 4096, device(0), 1, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemRangeGetAttribute(&value, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 4096),
              CUDA_ERROR_INVALID_VALUE);
    // Nothing is left of it when its memory comes again.
    OK(cuMemAdvise(memory, 1 << 20, CU_MEM_ADVISE_SET_READ_MOSTLY, device(0)));
    OK(cuMemFree(memory));
    CUdeviceptr again = 0;
    OK(cuMemAllocManaged(&again, 1 << 20, CU_MEM_ATTACH_GLOBAL));
    EXPECT_EQ(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, again, 1 << 20), 0);
  });
}

}  // namespace
}  // namespace gpufence::sim
