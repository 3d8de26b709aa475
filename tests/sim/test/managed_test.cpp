// Hints about managed memory: what is taken, what is refused, and what is told of them afterwards.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>

#include "gate.h"
#include "gpus.h"
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

// A card on which 96 MiB are left beside the context.
void on_small_card(const std::function<void()>& body) {
  const std::string path = private_directory() + "/small.toml";
  std::ofstream(path) << "[[gpu]]\nmemory = \"128MiB\"\ncontext = \"32MiB\"\n";
  in_child({{"GPUFENCE_SIM", path}}, [&] {
    OK(cuInit(0));
    context_on(0);
    body();
  });
}

constexpr size_t kMiB = size_t{1} << 20;

// "GPU memory oversubscription" (CUDA C++ programming guide, "Unified Memory").
TEST(Managed, MemoryMayBeMoreThanTheCardHas) {
  on_small_card([] {
    CUdeviceptr big = 0, plain = 0;
    OK(cuMemAllocManaged(&big, 300 * kMiB, CU_MEM_ATTACH_GLOBAL));
    EXPECT_EQ(free_memory(), 0u);
    memset(reinterpret_cast<void*>(big + 299 * kMiB), 3, kMiB);
    CUdeviceptr copy = 0;
    // It makes room for what has to lie on the card.
    OK(cuMemAlloc(&plain, 64 * kMiB));
    EXPECT_EQ(free_memory(), 32 * kMiB);
    EXPECT_EQ(cuMemAlloc(&copy, 33 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemcpyDtoD(plain, big + 299 * kMiB, kMiB));
    unsigned char byte = 0;
    OK(cuMemcpyDtoH(&byte, plain, 1));
    EXPECT_EQ(byte, 3);
    OK(cuMemFree(big));
    EXPECT_EQ(free_memory(), 32 * kMiB);
    OK(cuMemFree(plain));
    EXPECT_EQ(free_memory(), 96 * kMiB);
  });
}

TEST(Managed, MemoryStaysWhereMakingRoomWouldNotBeEnough) {
  on_small_card([] {
    CUdeviceptr managed = 0, plain = 0, more = 0;
    OK(cuMemAllocManaged(&managed, 10 * kMiB, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAlloc(&plain, 60 * kMiB));
    EXPECT_EQ(free_memory(), 26 * kMiB);
    EXPECT_EQ(cuMemAlloc(&more, 37 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(free_memory(), 26 * kMiB);
    OK(cuMemAlloc(&more, 36 * kMiB));  // with all that can move
    EXPECT_EQ(free_memory(), 0u);
  });
}

TEST(Managed, MemoryCountsWhereItWasPrefetchedTo) {
  on_small_card([] {
    CUdeviceptr memory = 0;
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocManaged(&memory, 64 * kMiB, CU_MEM_ATTACH_GLOBAL));
    EXPECT_EQ(free_memory(), 32 * kMiB);
    Gate gate;
    OK(gate.hold(stream));
    OK(cuMemPrefetchAsync(memory, 16 * kMiB, kHost, 0, stream));
    EXPECT_EQ(free_memory(), 32 * kMiB);  // not yet: it is work of its stream
    gate.open();
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(free_memory(), 48 * kMiB);
    OK(cuMemPrefetchAsync(memory, 64 * kMiB, kHost, 0, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(free_memory(), 96 * kMiB);
    CUdeviceptr plain = 0;
    OK(cuMemAlloc(&plain, 80 * kMiB));
    OK(cuMemPrefetchAsync(memory, 64 * kMiB, device(0), 0, stream));  // as far as there is room
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(free_memory(), 0u);
    OK(cuMemFree(plain));
    EXPECT_EQ(free_memory(), 80 * kMiB);
    OK(cuMemFree(memory));
    EXPECT_EQ(free_memory(), 96 * kMiB);
  });
}

TEST(Managed, MemoryIsAttachedAsAWhole) {
  with_managed([](CUdeviceptr memory) {
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_SINGLE));
    OK(cuStreamAttachMemAsync(stream, memory, 1 << 20, CU_MEM_ATTACH_HOST));
    OK(cuStreamAttachMemAsync(nullptr, memory, 0, CU_MEM_ATTACH_GLOBAL));
    OK(cuStreamSynchronize(stream));
    constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
    // "It is illegal to attach singly to the NULL stream."
    EXPECT_EQ(cuStreamAttachMemAsync(nullptr, memory, 0, CU_MEM_ATTACH_SINGLE), kInvalid);
    EXPECT_EQ(cuStreamAttachMemAsync(stream, memory, 4096, CU_MEM_ATTACH_SINGLE), kInvalid);
    EXPECT_EQ(cuStreamAttachMemAsync(stream, memory + 4096, 0, CU_MEM_ATTACH_SINGLE), kInvalid);
    EXPECT_EQ(cuStreamAttachMemAsync(stream, memory, 0, 3), kInvalid);
    CUdeviceptr plain = 0;
    OK(cuMemAlloc(&plain, 4096));
    EXPECT_EQ(cuStreamAttachMemAsync(stream, plain, 0, CU_MEM_ATTACH_GLOBAL), kInvalid);
    OK(cuStreamDestroy(stream));
    EXPECT_EQ(cuStreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_HANDLE);
  });
}

}  // namespace
}  // namespace gpufence::sim
