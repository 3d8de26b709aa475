// Memory pools: what they hold and give back, which memory is used again when, who may touch it, and how it
// is shared with another process. Sources: cuda.h, and "Stream-Ordered Memory Allocator" of the CUDA
// programming guide.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "descriptors.h"
#include "gate.h"
#include "gpus.h"
#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

constexpr size_t kMiB = size_t{1} << 20;

void on_machine(const std::string& machine, const std::function<void()>& body) {
  in_child({{"GPUFENCE_SIM", machine}}, [&] {
    OK(cuInit(0));
    context_on(0);
    body();
  });
}

// A card on which 96 MiB are left beside the context.
std::string small_card() {
  const std::string path = private_directory() + "/small.toml";
  std::ofstream(path) << "[[gpu]]\nmemory = \"128MiB\"\ncontext = \"32MiB\"\n";
  return path;
}

CUstream a_stream() {
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

CUmemoryPool default_pool(int device = 0) {
  CUmemoryPool pool = nullptr;
  OK(cuDeviceGetDefaultMemPool(&pool, device));
  return pool;
}

CUmemPoolProps props_on(CUmemLocationType type, int id) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {type, id};
  return props;
}

CUmemoryPool pool_of(const CUmemPoolProps& props) {
  CUmemoryPool pool = nullptr;
  OK(cuMemPoolCreate(&pool, &props));
  return pool;
}

CUmemoryPool pool_on(int device) {
  return pool_of(props_on(CU_MEM_LOCATION_TYPE_DEVICE, device));
}

CUdeviceptr take(CUmemoryPool pool, size_t bytes, CUstream stream) {
  CUdeviceptr memory = 0;
  OK(cuMemAllocFromPoolAsync(&memory, bytes, pool, stream));
  return memory;
}

uint64_t told(CUmemoryPool pool, CUmemPool_attribute which) {
  cuuint64_t value = ~cuuint64_t{0};
  OK(cuMemPoolGetAttribute(pool, which, &value));
  return value;
}

uint64_t reserved(CUmemoryPool pool) {
  return told(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}
uint64_t used(CUmemoryPool pool) {
  return told(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

void keep(CUmemoryPool pool, uint64_t bytes) {
  cuuint64_t threshold = bytes;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

void allow(CUmemoryPool pool, int follow, int opportunistic, int internal) {
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &follow));
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &opportunistic));
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &internal));
}

constexpr int kReadsAndWrites = 2;
TEST(Pools, EachGpuHasOneOfItsOwnAndMayBeGivenAnother) {
  on_machine("2", [] {
    const CUmemoryPool first = default_pool(0), second = default_pool(1);
    EXPECT_NE(first, second);
    EXPECT_EQ(default_pool(0), first);
    CUmemoryPool current = nullptr;
    OK(cuDeviceGetMemPool(&current, 0));
    EXPECT_EQ(current, first);

    const CUmemoryPool own = pool_on(0);
    OK(cuDeviceSetMemPool(0, own));
    OK(cuDeviceGetMemPool(&current, 0));
    EXPECT_EQ(current, own);
    CUdeviceptr memory = 0;
    OK(cuMemAllocAsync(&memory, kMiB, nullptr));
    EXPECT_EQ(used(own), kMiB);
    EXPECT_EQ(used(first), 0u);
    OK(cuMemFreeAsync(memory, nullptr));

    // "The memory pool must be local to the specified device."
    EXPECT_EQ(cuDeviceSetMemPool(1, own), CUDA_ERROR_INVALID_VALUE);
    // "Destroying the current mempool of a device sets the default mempool of that device as the current
    // mempool."
    OK(cuMemPoolDestroy(own));
    OK(cuDeviceGetMemPool(&current, 0));
    EXPECT_EQ(current, first);
    EXPECT_EQ(cuMemPoolDestroy(own), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemPoolDestroy(first), CUDA_ERROR_INVALID_VALUE);  // "cannot be destroyed"
  });
}

TEST(Pools, TellWhatTheyHoldAndWhatIsInUse) {
  on_machine("1", [] {
    const CUmemoryPool pool = default_pool();
    EXPECT_EQ(told(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0u);
    for (const CUmemPool_attribute flag :
         {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
          CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
      int value = -1;
      OK(cuMemPoolGetAttribute(pool, flag, &value));
      EXPECT_EQ(value, 1);
    }
    const size_t before = free_memory();
    const CUstream stream = a_stream();
    const CUdeviceptr one = take(pool, kMiB, stream), odd = take(pool, 1000, stream);
    EXPECT_EQ(used(pool), kMiB + 1024);
    EXPECT_EQ(reserved(pool), 32 * kMiB);
    EXPECT_EQ(before - free_memory(), 32 * kMiB);  // what the pool holds is what the card lacks
    const CUdeviceptr large = take(pool, 40 * kMiB, stream);
    EXPECT_EQ(reserved(pool), 96 * kMiB);
    EXPECT_EQ(used(pool), 41 * kMiB + 1024);

    OK(cuMemFreeAsync(large, stream));
    OK(cuMemFreeAsync(one, stream));
    EXPECT_EQ(used(pool), 1024u);
    EXPECT_EQ(reserved(pool), 96 * kMiB);
    // "On the next call to stream, event or context synchronize", what is above the threshold and unused.
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(reserved(pool), 32 * kMiB);
    OK(cuMemFreeAsync(odd, stream));
    OK(cuCtxSynchronize());
    EXPECT_EQ(reserved(pool), 0u);
    EXPECT_EQ(free_memory(), before);

    EXPECT_EQ(told(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 41 * kMiB + 1024);
    EXPECT_EQ(told(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 96 * kMiB);
    cuuint64_t value = 1;
    EXPECT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value), CUDA_ERROR_INVALID_VALUE);
    value = 0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
    EXPECT_EQ(told(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0u);
    EXPECT_EQ(told(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 96 * kMiB);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value));
    EXPECT_EQ(told(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0u);
    EXPECT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Pools, KeepUpToTheirThresholdAndCanBeTrimmed) {
  on_machine("1", [] {
    const CUmemoryPool pool = default_pool();
    const CUstream stream = a_stream();
    keep(pool, 40 * kMiB);
    std::vector<CUdeviceptr> held;
    for (int i = 0; i < 3; ++i) held.push_back(take(pool, 32 * kMiB, stream));
    EXPECT_EQ(reserved(pool), 96 * kMiB);
    for (const CUdeviceptr memory : held) OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(reserved(pool), 64 * kMiB);  // a third less would be below the threshold
    OK(cuMemPoolTrimTo(pool, 64 * kMiB));
    EXPECT_EQ(reserved(pool), 64 * kMiB);
    // "The pool will be guaranteed to have at least minBytesToKeep bytes reserved after the operation."
    OK(cuMemPoolTrimTo(pool, 33 * kMiB));
    EXPECT_EQ(reserved(pool), 64 * kMiB);
    OK(cuMemPoolTrimTo(pool, 32 * kMiB));
    EXPECT_EQ(reserved(pool), 32 * kMiB);
    const CUdeviceptr kept = take(pool, 512, stream);
    OK(cuMemPoolTrimTo(pool, 0));
    EXPECT_EQ(reserved(pool),
              32 * kMiB);  // "cannot release OS allocations that back outstanding allocations"
    OK(cuMemFree(kept));
    OK(cuMemPoolTrimTo(pool, 0));
    EXPECT_EQ(reserved(pool), 0u);
  });
}

TEST(Pools, UseMemoryAgainAtOnceInTheStreamThatFreedIt) {
  on_machine("1", [] {
    const CUmemoryPool pool = default_pool();
    const CUstream stream = a_stream(), other = a_stream();
    Gate gate;
    const CUdeviceptr memory = take(pool, kMiB, stream);
    OK(gate.hold(stream));
    OK(cuMemFreeAsync(memory, stream));
    // The work before the free still runs: only the same stream may have it already.
    EXPECT_NE(take(pool, kMiB, other), memory);
    EXPECT_EQ(take(pool, kMiB, stream), memory);
    gate.open();
    OK(cuCtxSynchronize());
  });
}

TEST(Pools, UseMemoryAgainBehindAnEvent) {
  on_machine("1", [] {
    const CUmemoryPool pool = default_pool();
    allow(pool, 1, 0, 0);
    const CUstream stream = a_stream(), other = a_stream();
    CUevent event = nullptr;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    Gate gate;
    const CUdeviceptr memory = take(pool, kMiB, stream);
    OK(gate.hold(stream));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(other, event, 0));
    EXPECT_EQ(take(pool, kMiB, other), memory);
    gate.open();
    OK(cuCtxSynchronize());

    // Not behind an event that was recorded before the free, nor where the pool is told not to.
    const CUdeviceptr again = take(pool, 2 * kMiB, stream);
    Gate second;
    OK(second.hold(stream));
    OK(cuEventRecord(event, stream));
    OK(cuMemFreeAsync(again, stream));
    OK(cuStreamWaitEvent(other, event, 0));
    EXPECT_NE(take(pool, 2 * kMiB, other), again);
    allow(pool, 0, 0, 0);
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(other, event, 0));
    EXPECT_NE(take(pool, 2 * kMiB, other), again);
    allow(pool, 1, 0, 0);
    EXPECT_EQ(take(pool, 2 * kMiB, other), again);
    second.open();
    OK(cuCtxSynchronize());
  });
}

TEST(Pools, UseMemoryAgainWhoseFreeIsDoneIfTheyMay) {
  on_machine("1", [] {
    const CUmemoryPool pool = default_pool();
    keep(pool, UINT64_MAX);
    const CUstream stream = a_stream(), other = a_stream();
    const auto free_and_end = [&](CUdeviceptr memory) {
      Gate gate;
      OK(gate.hold(stream));
      OK(cuMemFreeAsync(memory, stream));
      gate.open();
      while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) usleep(100);
    };
    const CUdeviceptr memory = take(pool, kMiB, stream);
    free_and_end(memory);
    allow(pool, 1, 0, 0);
    EXPECT_NE(take(pool, kMiB, other), memory);  // nobody has seen that it is done
    allow(pool, 1, 1, 0);
    EXPECT_EQ(take(pool, kMiB, other), memory);
    free_and_end(memory);
    allow(pool, 1, 0, 0);
    OK(cuStreamSynchronize(stream));  // now the host has
    EXPECT_EQ(take(pool, kMiB, other), memory);
  });
}

TEST(Pools, MakeAStreamWaitRatherThanFail) {
  on_machine(small_card(), [] {
    const CUmemoryPool pool = default_pool();
    const CUstream stream = a_stream(), other = a_stream();
    const CUdeviceptr all = take(pool, 96 * kMiB, stream);
    CUdeviceptr more = 0;
    EXPECT_EQ(cuMemAllocFromPoolAsync(&more, 512, pool, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(used(pool), 96 * kMiB);

    Gate gate;
    OK(gate.hold(stream));
    OK(cuMemsetD8Async(all, 0xaa, 96 * kMiB, stream));
    OK(cuMemFreeAsync(all, stream));
    allow(pool, 1, 1, 0);
    EXPECT_EQ(cuMemAllocFromPoolAsync(&more, 64 * kMiB, pool, other), CUDA_ERROR_OUT_OF_MEMORY);
    allow(pool, 1, 1, 1);
    OK(cuMemAllocFromPoolAsync(&more, 64 * kMiB, pool, other));
    EXPECT_EQ(more, all);
    OK(cuMemsetD8Async(more, 0xbb, 64 * kMiB, other));
    EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    gate.open();
    OK(cuStreamSynchronize(other));
    // The other stream's work came behind the first's.
    unsigned char byte = 0;
    OK(cuMemcpyDtoH(&byte, more + 63 * kMiB, 1));
    EXPECT_EQ(byte, 0xbb);
  });
}

TEST(Pools, FillTheCardWithTheOtherWaysOfAllocating) {
  on_machine(small_card(), [] {
    const CUmemoryPool pool = default_pool();
    CUdeviceptr plain = 0, pooled = 0;
    OK(cuMemAlloc(&plain, 50 * kMiB));
    // 46 MiB are left: less than the pool's usual step of 64, which it then does without.
    OK(cuMemAllocFromPoolAsync(&pooled, 45 * kMiB, pool, nullptr));
    EXPECT_EQ(reserved(pool), 46 * kMiB);
    EXPECT_EQ(free_memory(), 0u);
    CUdeviceptr more = 0;
    EXPECT_EQ(cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(plain));
    OK(cuMemAlloc(&plain, 50 * kMiB));
  });
}

TEST(Pools, GrowToTheSizeThatTheyWereGiven) {
  on_machine("1", [] {
    CUmemPoolProps props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    props.maxSize = 10 * kMiB;
    const CUmemoryPool pool = pool_of(props);
    const CUdeviceptr memory = take(pool, 8 * kMiB, nullptr);
    EXPECT_EQ(reserved(pool), 8 * kMiB);
    CUdeviceptr more = 0;
    EXPECT_EQ(cuMemAllocFromPoolAsync(&more, 3 * kMiB, pool, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAllocFromPoolAsync(&more, 2 * kMiB, pool, nullptr));
    OK(cuMemFree(memory));
    OK(cuMemAllocFromPoolAsync(&more, 7 * kMiB, pool, nullptr));
  });
}

TEST(Pools, FreeInEitherWayWhatWasAllocatedInEither) {
  on_machine("1", [] {
    const CUstream stream = a_stream();
    const size_t before = free_memory();
    CUdeviceptr plain = 0, pooled = 0;
    OK(cuMemAlloc(&plain, kMiB));
    Gate gate;
    OK(gate.hold(stream));
    OK(cuMemFreeAsync(plain, stream));
    EXPECT_EQ(before - free_memory(), kMiB);  // in the stream's order
    gate.open();
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(free_memory(), before);
    EXPECT_EQ(cuMemFreeAsync(plain, stream), CUDA_ERROR_INVALID_VALUE);

    OK(cuMemAllocAsync(&pooled, kMiB, stream));
    EXPECT_EQ(cuMemFree(pooled + 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(pooled));
    EXPECT_EQ(cuMemFree(pooled), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFreeAsync(pooled, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(0, stream));
    int on_stack = 0;
    EXPECT_EQ(cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(&on_stack), stream), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Pools, OutliveTheirDestructionByWhatIsStillHeld) {
  on_machine("1", [] {
    const size_t before = free_memory();
    const CUmemoryPool pool = pool_on(0);
    const CUdeviceptr memory = take(pool, kMiB, nullptr);
    OK(cuMemPoolDestroy(pool));
    cuuint64_t value = 0;
    EXPECT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
              CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD8(memory, 7, kMiB));
    EXPECT_EQ(before - free_memory(), 32 * kMiB);
    OK(cuMemFreeAsync(memory, nullptr));
    OK(cuCtxSynchronize());
    EXPECT_EQ(free_memory(), before);
    // With frees that are not done.
    const CUmemoryPool busy = pool_on(0);
    const CUstream stream = a_stream();
    const CUdeviceptr more = take(busy, kMiB, stream);
    Gate gate;
    OK(gate.hold(stream));
    OK(cuMemFreeAsync(more, stream));
    OK(cuMemPoolDestroy(busy));
    EXPECT_EQ(before - free_memory(), 32 * kMiB);
    gate.open();
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(free_memory(), before);
  });
}

// cuda_runtime_api.h, cudaDeviceReset: "will not destroy memory allocations by cudaMallocAsync and
// cudaMallocFromPoolAsync"; cuda.h, cuCtxDestroy: they "are not associated with any CUDA context".
TEST(Pools, OutliveTheirGpusPrimaryContext) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    CUcontext primary = nullptr;
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    const CUmemoryPool pool = default_pool();
    const CUdeviceptr memory = take(pool, kMiB, nullptr);
    OK(cuMemsetD32(memory, 7, 1));
    EXPECT_EQ(reserved(pool), 32 * kMiB);
    OK(cuDevicePrimaryCtxReset(0));
    EXPECT_EQ(reserved(pool), 32 * kMiB);
    EXPECT_EQ(used(pool), kMiB);
    EXPECT_EQ(default_pool(), pool);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    uint32_t word = 0;
    OK(cuMemcpyDtoH(&word, memory, 4));
    EXPECT_EQ(word, 7u);
    OK(cuMemFreeAsync(memory, nullptr));
    OK(cuCtxSynchronize());
    EXPECT_EQ(used(pool), 0u);
    EXPECT_EQ(reserved(pool), 0u);
  });
}

TEST(Pools, AreReachedByOtherGpusOnlyWhereTheyAreOpened) {
  on_machine("3xh100", [] {
    CUcontext here = nullptr;
    OK(cuCtxGetCurrent(&here));
    const CUcontext there = context_on(1), elsewhere = context_on(2);
    // Peer access of contexts is of their own allocations, not of pools.
    OK(cuCtxSetCurrent(there));
    OK(cuCtxEnablePeerAccess(here, 0));
    OK(cuCtxSetCurrent(here));
    const CUmemoryPool pool = default_pool();
    const CUdeviceptr memory = take(pool, kMiB, nullptr);
    EXPECT_EQ(reach(here, memory), kReadsAndWrites);
    EXPECT_EQ(reach(there, memory), 0);
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_MAX;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    OK(cuMemPoolGetAccess(&flags, pool, &location));
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    const CUmemAccessDesc open = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                          closed = {location, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    OK(cuMemPoolSetAccess(pool, &open, 1));
    EXPECT_EQ(reach(there, memory), kReadsAndWrites);
    EXPECT_EQ(reach(there, take(pool, 64 * kMiB, nullptr)), kReadsAndWrites);  // later ones as well
    EXPECT_EQ(reach(elsewhere, memory), 0);
    OK(cuMemPoolGetAccess(&flags, pool, &location));
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemPoolSetAccess(pool, &closed, 1));
    EXPECT_EQ(reach(there, memory), 0);
    // Its own GPU always reaches it.
    location.id = 0;
    OK(cuMemPoolGetAccess(&flags, pool, &location));
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    const CUmemAccessDesc own = {location, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    EXPECT_EQ(cuMemPoolSetAccess(pool, &own, 1), CUDA_ERROR_INVALID_VALUE);
  });
  on_machine("2", [] {  // no peers
    const CUmemAccessDesc open = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_EQ(cuMemPoolSetAccess(default_pool(), &open, 1), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Pools, MayBeOfAnotherGpuThanTheStream) {
  on_machine("2xh100", [] {
    const CUmemoryPool pool = default_pool(1);
    const CUdeviceptr memory = take(pool, kMiB, nullptr);
    int ordinal = -1;
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
    EXPECT_EQ(ordinal, 1);
    CUcontext here = nullptr;
    OK(cuCtxGetCurrent(&here));
    EXPECT_EQ(reach(here, memory), 0);
    EXPECT_EQ(reach(context_on(1), memory), kReadsAndWrites);
  });
}

TEST(Pools, AllocationsAreKnownByTheirPointers) {
  on_machine("1", [] {
    const CUmemoryPool pool = default_pool();
    take(pool, 512, nullptr);
    const CUdeviceptr memory = take(pool, 1000, nullptr);
    unsigned type = 0, managed = 7;
    CUmemoryPool found = nullptr;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 999));
    EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
    EXPECT_EQ(managed, 0u);
    OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory));
    EXPECT_EQ(found, pool);
    OK(cuMemGetAddressRange(&base, &bytes, memory + 5));
    EXPECT_EQ(base, memory);
    EXPECT_EQ(bytes, 1000u);
    // A copy may not run past it, though the pool's memory goes on.
    std::vector<char> host(2000);
    OK(cuMemcpyHtoD(memory, host.data(), 1000));
    EXPECT_EQ(cuMemcpyHtoD(memory, host.data(), 1001), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr plain = 0;
    OK(cuMemAlloc(&plain, 512));
    OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, plain));
    EXPECT_EQ(found, nullptr);
    OK(cuMemFreeAsync(memory, nullptr));
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Pools, MayBeOfTheHostsMemory) {
  on_machine("1", [] {
    const size_t before = free_memory();
    const CUmemoryPool pool = pool_of(props_on(CU_MEM_LOCATION_TYPE_HOST, 0));
    const CUdeviceptr memory = take(pool, kMiB, nullptr);
    EXPECT_EQ(free_memory(), before);
    memset(reinterpret_cast<void*>(memory), 5, kMiB);
    unsigned type = 0;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
    CUcontext here = nullptr;
    OK(cuCtxGetCurrent(&here));
    EXPECT_EQ(reach(here, memory), 0);
    const CUmemAccessDesc open = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemPoolSetAccess(pool, &open, 1));
    EXPECT_EQ(reach(here, memory), kReadsAndWrites);
    OK(cuMemFreeAsync(memory, nullptr));
    OK(cuStreamSynchronize(nullptr));
    EXPECT_EQ(reserved(pool), 0u);
    // "Pools created with the type HOST are not IPC capable", nor is there a NUMA node of the moment.
    CUmemPoolProps props = props_on(CU_MEM_LOCATION_TYPE_HOST, 0);
    CUmemoryPool none = nullptr;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    EXPECT_EQ(cuMemPoolCreate(&none, &props), CUDA_ERROR_INVALID_VALUE);
    props = props_on(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0);
    EXPECT_EQ(cuMemPoolCreate(&none, &props), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Pools, MayBeOfManagedMemory) {
  on_machine("2", [] {
    CUmemoryPool pool = nullptr;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_NONE, 0};
    OK(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_MANAGED));
    EXPECT_EQ(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED),
              CUDA_ERROR_INVALID_VALUE);
    const CUdeviceptr memory = take(pool, kMiB, nullptr);
    unsigned managed = 0;
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
    EXPECT_EQ(managed, 1u);
    *reinterpret_cast<int*>(memory) = 5;
    CUcontext here = nullptr;
    OK(cuCtxGetCurrent(&here));
    EXPECT_EQ(reach(here, memory), kReadsAndWrites);
    EXPECT_EQ(reach(context_on(1), memory), kReadsAndWrites);
  });
}

TEST(Pools, RefuseWhatIsDocumentedAsWrong) {
  on_machine("1", [] {
    const CUmemoryPool pool = default_pool();
    CUdeviceptr memory = 0;
    CUmemoryPool made = nullptr;
    EXPECT_EQ(cuMemAllocAsync(nullptr, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAllocAsync(&memory, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAllocFromPoolAsync(&memory, 1, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAllocAsync(&memory, size_t{1} << 60, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAllocAsync(&memory, SIZE_MAX, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuDeviceGetDefaultMemPool(&made, 1), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDeviceGetDefaultMemPool(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemPoolCreate(&made, nullptr), CUDA_ERROR_INVALID_VALUE);
    CUmemPoolProps props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, 1);
    EXPECT_EQ(cuMemPoolCreate(&made, &props), CUDA_ERROR_INVALID_DEVICE);
    props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
    EXPECT_EQ(cuMemPoolCreate(&made, &props), CUDA_ERROR_INVALID_VALUE);
    props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    props.reserved[3] = 1;  // "must be 0"
    EXPECT_EQ(cuMemPoolCreate(&made, &props), CUDA_ERROR_INVALID_VALUE);
    props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    props.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;  // there is no fabric
    EXPECT_EQ(cuMemPoolCreate(&made, &props), CUDA_ERROR_NOT_SUPPORTED);
    cuuint64_t value = 0;
    EXPECT_EQ(cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(99), &value),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    CUmemPoolPtrExportData data{};
    int descriptor = -1;
    EXPECT_EQ(
        cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        CUDA_ERROR_INVALID_VALUE);  // not made to be shared
    EXPECT_EQ(cuMemPoolExportPointer(&data, take(pool, 512, nullptr)), CUDA_ERROR_INVALID_VALUE);
    const int file = fileno(std::tmpfile());
    EXPECT_EQ(cuMemPoolImportFromShareableHandle(&made, reinterpret_cast<void*>(intptr_t{file}),
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemPoolImportFromShareableHandle(&made, reinterpret_cast<void*>(intptr_t{-1}),
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSetCurrent(nullptr));
    EXPECT_EQ(cuMemAllocAsync(&memory, 1, nullptr), CUDA_ERROR_INVALID_CONTEXT);
  });
}

// ---- Another process ----

TEST(Pools, AreSharedWithAnotherProcessByADescriptor) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  // The importer sees the GPUs in another order.
  const pid_t importer = start(
      {{"GPUFENCE_SIM", "2"}, {"CUDA_VISIBLE_DEVICES", "1,0"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}, [&] {
        close(ends[0]);
        OK(cuInit(0));
        context_on(1);
        const int descriptor = receive_descriptor(ends[1]);
        const size_t before = free_memory();
        CUmemoryPool pool = nullptr;
        OK(cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t{descriptor}),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        close(descriptor);
        CUmemPoolPtrExportData data{};
        EXPECT_EQ(read(ends[1], &data, sizeof data), static_cast<ssize_t>(sizeof data));
        CUdeviceptr memory = 0;
        OK(cuMemPoolImportPointer(&memory, pool, &data));
        int ordinal = -1, value = 0;
        OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
        EXPECT_EQ(ordinal, 1);
        OK(cuMemcpyDtoH(&value, memory, sizeof value));
        EXPECT_EQ(value, 4711);
        value = 1147;
        OK(cuMemcpyHtoD(memory + 8, &value, sizeof value));
        EXPECT_EQ(free_memory(), before);  // it is the exporter's
        // "Imported memory pools do not support creating new allocations."
        CUdeviceptr none = 0;
        EXPECT_EQ(cuMemAllocFromPoolAsync(&none, 512, pool, nullptr), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(cuDeviceSetMemPool(1, pool), CUDA_ERROR_INVALID_VALUE);
        data.reserved[9] ^= 1;  // of another pool
        EXPECT_EQ(cuMemPoolImportPointer(&none, pool, &data), CUDA_ERROR_INVALID_VALUE);
        OK(cuMemFreeAsync(memory, nullptr));
        EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
        OK(cuMemPoolDestroy(pool));
        tell(ends[1], 'w');
      });
  const pid_t exporter = start({{"GPUFENCE_SIM", "2"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}, [&] {
    close(ends[1]);
    OK(cuInit(0));
    context_on(0);
    CUmemPoolProps props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const CUmemoryPool pool = pool_of(props);
    take(pool, 4096, nullptr);
    const CUdeviceptr memory = take(pool, 4096, nullptr);
    int value = 4711, descriptor = -1;
    OK(cuMemcpyHtoD(memory, &value, sizeof value));
    OK(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    send_descriptor(ends[0], descriptor);
    close(descriptor);
    CUmemPoolPtrExportData data{};
    OK(cuMemPoolExportPointer(&data, memory));
    EXPECT_EQ(write(ends[0], &data, sizeof data), static_cast<ssize_t>(sizeof data));
    EXPECT_EQ(hear(ends[0]), 'w');
    OK(cuMemcpyDtoH(&value, memory + 8, sizeof value));
    EXPECT_EQ(value, 1147);
  });
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(finish(importer), 0);
  EXPECT_EQ(finish(exporter), 0);
}

}  // namespace
}  // namespace gpufence::sim
