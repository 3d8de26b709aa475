// The stream-ordered allocator. Pools are the checks' own, so that what other work left in a device's pool
// does not show.
#include <cstring>

#include "driver.h"
#include "kernels.h"
#include "tests/sim/test/descriptors.h"

namespace conform {
namespace {

#define NEEDS_POOLS \
  OK(cuInit(0));    \
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 1, "memory pools")

CUmemPoolProps props_on(int device) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return props;
}

class Pool {
 public:
  explicit Pool(const CUmemPoolProps& props = props_on(0)) { OK(cuMemPoolCreate(&handle_, &props)); }
  Pool(const Pool&) = delete;
  ~Pool() { OK(cuMemPoolDestroy(handle_)); }
  operator CUmemoryPool() const { return handle_; }

  CUdeviceptr take(size_t bytes, CUstream stream = nullptr) const {
    CUdeviceptr memory = 0;
    OK(cuMemAllocFromPoolAsync(&memory, bytes, handle_, stream));
    return memory;
  }
  uint64_t told(CUmemPool_attribute which) const {
    cuuint64_t value = ~cuuint64_t{0};
    OK(cuMemPoolGetAttribute(handle_, which, &value));
    return value;
  }
  uint64_t reserved() const { return told(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
  uint64_t used() const { return told(CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }
  void keep(uint64_t bytes) const {
    cuuint64_t threshold = bytes;
    OK(cuMemPoolSetAttribute(handle_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  }

 private:
  CUmemoryPool handle_ = nullptr;
};

CUmemoryPool current_pool(CUdevice device = 0) {
  CUmemoryPool pool = nullptr;
  OK(cuDeviceGetMemPool(&pool, device));
  return pool;
}

CUmemoryPool default_pool(CUdevice device = 0) {
  CUmemoryPool pool = nullptr;
  OK(cuDeviceGetDefaultMemPool(&pool, device));
  return pool;
}

template <class T>
T told(CUpointer_attribute which, CUdeviceptr address) {
  T value{};
  OK(cuPointerGetAttribute(&value, which, address));
  return value;
}

CONFORMS(Pools, TheDefaultPoolIsCurrentAtFirst,
         "cuda.h, cuDeviceGetMemPool: returns the last pool provided to cuDeviceSetMemPool for this device "
         "or the device's default "
         "memory pool if cuDeviceSetMemPool has never been called") {
  NEEDS_POOLS;
  for (int device = 0; device < devices(); ++device) EXPECT_EQ(current_pool(device), default_pool(device));
}

CONFORMS(Pools, AllocationsComeFromTheCurrentPool,
         "cuda.h, cuDeviceSetMemPool: cuMemAllocAsync allocates from the current mempool of the provided "
         "stream's device") {
  NEEDS_POOLS;
  Primary here;
  Pool pool;
  OK(cuDeviceSetMemPool(0, pool));
  EXPECT_EQ(current_pool(), static_cast<CUmemoryPool>(pool));
  CUdeviceptr memory = 0;
  OK(cuMemAllocAsync(&memory, kMiB, nullptr));
  EXPECT_EQ(told<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory), static_cast<CUmemoryPool>(pool));
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuDeviceSetMemPool(0, default_pool()));
}

CONFORMS(Pools, ADevicesPoolIsLocal,
         "cuda.h, cuDeviceSetMemPool: the memory pool must be local to the specified device") {
  NEEDS_POOLS;
  NEEDS(devices() >= 2, "two GPUs");
  Pool pool(props_on(1));
  EXPECT_EQ(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Pools, DestroyingTheCurrentPoolGivesTheDefaultBack,
         "cuda.h, cuMemPoolDestroy: destroying the current mempool of a device sets the default mempool of "
         "that device as the "
         "current mempool for that device") {
  NEEDS_POOLS;
  {
    Pool pool;
    OK(cuDeviceSetMemPool(0, pool));
  }
  EXPECT_EQ(current_pool(), default_pool());
}

CONFORMS(Pools, TheDefaultPoolCannotBeDestroyed,
         "cuda.h, cuMemPoolDestroy: a device's default memory pool cannot be destroyed") {
  NEEDS_POOLS;
  EXPECT_EQ(cuMemPoolDestroy(default_pool()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(current_pool(), default_pool());
}

CONFORMS(Pools, ReuseIsAllowedByDefault,
         "cuda.h, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, _ALLOW_OPPORTUNISTIC, "
         "_ALLOW_INTERNAL_DEPENDENCIES: default "
         "enabled; CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: default 0") {
  NEEDS_POOLS;
  Pool pool;
  for (const CUmemPool_attribute flag :
       {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    int value = -1;
    OK(cuMemPoolGetAttribute(pool, flag, &value));
    EXPECT_EQ(value, 1);
  }
  EXPECT_EQ(pool.told(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0u);
}

CONFORMS(Pools, AttributesAreKept,
         "cuda.h, cuMemPoolSetAttribute: sets attributes of a memory pool; the value type of reuse "
         "attributes is int, of the threshold cuuint64_t") {
  NEEDS_POOLS;
  Pool pool;
  int off = 0, value = -1;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &off));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &value));
  EXPECT_EQ(value, 0);
  pool.keep(123456789);
  EXPECT_EQ(pool.told(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 123456789u);
  EXPECT_EQ(cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(99), &value),
            CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Pools, WhatIsReadOnlyStaysSo,
         "cuda.h, cuMemPoolSetAttribute: supported are the threshold, the reuse flags and the two high "
         "watermarks; "
         "CUDA_ERROR_INVALID_VALUE") {
  NEEDS_POOLS;
  Pool pool;
  cuuint64_t zero = 0;
  EXPECT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &zero),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Pools, WatermarksCanOnlyBeResetToZero,
         "cuda.h, cuMemPoolSetAttribute: CU_MEMPOOL_ATTR_USED_MEM_HIGH, _RESERVED_MEM_HIGH: it is illegal to "
         "set this attribute to a "
         "non-zero value") {
  NEEDS_POOLS;
  Pool pool;
  cuuint64_t one = 1, zero = 0;
  for (const CUmemPool_attribute high : {CU_MEMPOOL_ATTR_USED_MEM_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH}) {
    EXPECT_EQ(cuMemPoolSetAttribute(pool, high, &one), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolSetAttribute(pool, high, &zero));
  }
}

CONFORMS(Pools, WatermarksRememberThePeak,
         "cuda.h, CU_MEMPOOL_ATTR_USED_MEM_HIGH: high watermark of the amount of memory from the pool that "
         "was in use by the application "
         "since the last time it was reset") {
  NEEDS_POOLS;
  Primary here;
  Pool pool;
  const CUdeviceptr first = pool.take(6 * kMiB), second = pool.take(4 * kMiB);
  const uint64_t peak = pool.used();
  OK(cuMemFreeAsync(first, nullptr));
  OK(cuCtxSynchronize());
  EXPECT_EQ(pool.told(CU_MEMPOOL_ATTR_USED_MEM_HIGH), peak);
  EXPECT_GE(pool.told(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), peak);
  cuuint64_t zero = 0;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
  EXPECT_LT(pool.told(CU_MEMPOOL_ATTR_USED_MEM_HIGH), peak);
  OK(cuMemFreeAsync(second, nullptr));
  OK(cuCtxSynchronize());
}

CONFORMS(Pools, UsedIsWithinReserved,
         "cuda.h, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: amount of backing memory currently allocated for the "
         "mempool; "
         "_USED_MEM_CURRENT: amount of memory from the pool that is currently in use by the application") {
  NEEDS_POOLS;
  Primary here;
  Pool pool;
  EXPECT_EQ(pool.used(), 0u);
  const CUdeviceptr memory = pool.take(10 * kMiB);
  EXPECT_GE(pool.used(), 10 * kMiB);
  EXPECT_GE(pool.reserved(), pool.used());
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuCtxSynchronize());
  EXPECT_EQ(pool.used(), 0u);
}

CONFORMS(
    Pools, MemoryGoesBackAtSynchronisation,
    "cuda.h, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: when more than the release threshold bytes of memory are "
    "held by the pool, the allocator "
    "will try to release memory back to the OS on the next call to stream, event or context synchronize") {
  NEEDS_POOLS;
  Primary here;
  Stream stream;
  Pool pool;
  const CUdeviceptr memory = pool.take(100 * kMiB, stream);
  OK(cuMemFreeAsync(memory, stream));
  OK(cuStreamSynchronize(stream));
  EXPECT_LT(pool.reserved(), 100 * kMiB);
}

CONFORMS(Pools, TheThresholdIsHeldOnto,
         "CUDA C++ Programming Guide, Stream Ordered Memory Allocator, Physical Page Caching Behavior: "
         "setting the release threshold "
         "(UINT64_MAX) prevents the driver from attempting to shrink the pool after every synchronization") {
  NEEDS_POOLS;
  Primary here;
  Pool pool;
  pool.keep(UINT64_MAX);
  OK(cuMemFreeAsync(pool.take(100 * kMiB), nullptr));
  OK(cuCtxSynchronize());
  EXPECT_GE(pool.reserved(), 100 * kMiB);
  EXPECT_EQ(pool.used(), 0u);
}

CONFORMS(Pools, TrimmingGivesBackWhatNobodyUses,
         "cuda.h, cuMemPoolTrimTo: releases memory back to the OS until the pool contains fewer than "
         "minBytesToKeep reserved bytes, or there is "
         "no more memory that the allocator can safely release") {
  NEEDS_POOLS;
  Primary here;
  Pool pool;
  pool.keep(UINT64_MAX);
  size_t before = 0, after = 0, total = 0;
  OK(cuMemFreeAsync(pool.take(200 * kMiB), nullptr));
  OK(cuCtxSynchronize());
  OK(cuMemGetInfo(&before, &total));
  OK(cuMemPoolTrimTo(pool, 0));
  OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(pool.reserved(), 0u);
  EXPECT_GE(after, before + 200 * kMiB);
}

CONFORMS(Pools, TrimmingLeavesWhatIsInUse,
         "cuda.h, cuMemPoolTrimTo: the allocator cannot release OS allocations that back outstanding "
         "asynchronous allocations; allocations that "
         "have not been freed count as outstanding") {
  NEEDS_POOLS;
  Primary here;
  Pool pool;
  const CUdeviceptr memory = pool.take(4096);
  OK(cuMemsetD32Async(memory, 77, 1024, nullptr));
  OK(cuCtxSynchronize());
  OK(cuMemPoolTrimTo(pool, 0));
  EXPECT_GE(pool.reserved(), 4096u);
  EXPECT_EQ(word_at(memory + 4092), 77u);
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuCtxSynchronize());
}

CONFORMS(Pools, TrimmingKeepsWhatItIsToldTo,
         "cuda.h, cuMemPoolTrimTo, minBytesToKeep: if the pool has less than minBytesToKeep reserved, the "
         "TrimTo operation is a no-op; otherwise "
         "the pool will be guaranteed to have at least minBytesToKeep bytes reserved after the operation") {
  NEEDS_POOLS;
  Primary here;
  Pool pool;
  pool.keep(UINT64_MAX);
  const CUdeviceptr first = pool.take(100 * kMiB), second = pool.take(100 * kMiB);
  OK(cuMemFreeAsync(first, nullptr));
  OK(cuMemFreeAsync(second, nullptr));
  OK(cuCtxSynchronize());
  const uint64_t held = pool.reserved();
  OK(cuMemPoolTrimTo(pool, held + 1));
  EXPECT_EQ(pool.reserved(), held);
  OK(cuMemPoolTrimTo(pool, 50 * kMiB));
  EXPECT_GE(pool.reserved(), 50 * kMiB);
}

CONFORMS(Pools, APoolGrowsToItsMaximumOnly,
         "cuda.h, cuMemPoolCreate: applications can control the maximum size of the pool by specifying a "
         "non-zero value for "
         "CUmemPoolProps::maxSize") {
  NEEDS_POOLS;
  Primary here;
  CUmemPoolProps props = props_on(0);
  props.maxSize = 256 * kMiB;
  Pool pool(props);
  const CUdeviceptr memory = pool.take(192 * kMiB);
  CUdeviceptr more = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&more, 192 * kMiB, pool, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuCtxSynchronize());
}

CONFORMS(Pools, SomePlacesHaveNoPools,
         "cuda.h, cuMemPoolCreate: specifying CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT as the location type "
         "will result in "
         "CUDA_ERROR_INVALID_VALUE") {
  NEEDS_POOLS;
  CUmemPoolProps props = props_on(0);
  props.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPoolCreate(nullptr, &props), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Pools, StreamOrderIsEnough,
         "cuda.h, cuMemAllocAsync: a pointer to the allocated memory is returned immediately; basic stream "
         "ordering allows future work submitted "
         "into the same stream to use the allocation") {
  NEEDS_POOLS;
  Primary here;
  Stream stream;
  Pool pool;
  uint32_t* host = nullptr;
  OK(cuMemHostAlloc(reinterpret_cast<void**>(&host), 4, 0));
  Gate gate;
  OK(gate.hold(stream));
  const CUdeviceptr memory = pool.take(kMiB, stream);
  EXPECT_NE(memory, 0u);
  OK(cuMemsetD32Async(memory, 4321, 1, stream));
  OK(cuMemcpyDtoHAsync(host, memory, 4, stream));
  OK(cuMemFreeAsync(memory, stream));
  gate.open();
  OK(cuStreamSynchronize(stream));
  EXPECT_EQ(*host, 4321u);
  OK(cuMemFreeHost(host));
}

CONFORMS(Pools, EventsCarryAllocationsToOtherStreams,
         "cuda.h, cuMemAllocAsync: stream query, stream synchronize, and CUDA events can be used to "
         "guarantee that the allocation operation "
         "completes before work submitted in a separate stream runs") {
  NEEDS_POOLS;
  Primary here;
  Stream first, second;
  Event made, used;
  Pool pool;
  Memory word(4);
  const CUdeviceptr memory = pool.take(4, first);
  OK(cuEventRecord(made, first));
  OK(cuStreamWaitEvent(second, made, 0));
  OK(cuMemsetD32Async(memory, 55, 1, second));
  OK(cuMemcpyDtoDAsync(word, memory, 4, second));
  OK(cuEventRecord(used, second));
  OK(cuStreamWaitEvent(first, used, 0));
  OK(cuMemFreeAsync(memory, first));
  OK(cuStreamSynchronize(first));
  EXPECT_EQ(word_at(word), 55u);
}

CONFORMS(Pools, OrdinaryFreeTakesPoolMemoryToo,
         "cuda.h, cuMemFree: dptr must have been returned by cuMemAlloc(), cuMemAllocPitch(), "
         "cuMemAllocManaged(), cuMemAllocAsync(), "
         "cuMemAllocFromPoolAsync()") {
  NEEDS_POOLS;
  Primary here;
  Pool pool;
  const CUdeviceptr memory = pool.take(3 * kMiB);
  OK(cuCtxSynchronize());
  OK(cuMemFree(memory));
  OK(cuCtxSynchronize());
  EXPECT_EQ(pool.used(), 0u);
}

CONFORMS(Pools, PointersTellTheirPool,
         "cuda.h, cuPointerGetAttribute: CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: the handle to the mempool that "
         "the allocation was obtained from") {
  NEEDS_POOLS;
  Primary here;
  Pool first, second;
  const CUdeviceptr memory = second.take(100);
  EXPECT_EQ(told<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory),
            static_cast<CUmemoryPool>(second));
  EXPECT_EQ(told<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory),
            static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory), 0);
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuCtxSynchronize());
}

CONFORMS(Pools, StreamAndPoolMayBeOfTwoDevices,
         "cuda.h, cuMemAllocFromPoolAsync: the specified memory pool may be from a device different than "
         "that of the specified hStream") {
  NEEDS_POOLS;
  NEEDS(devices() >= 2, "two GPUs");
  Primary here;
  Pool pool(props_on(1));
  const CUdeviceptr memory = pool.take(kMiB);
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory), 1);
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuCtxSynchronize());
}

CONFORMS(Pools, OnesOwnDeviceAlwaysReaches,
         "CUDA C++ Programming Guide, Stream Ordered Memory Allocator, Device Accessibility: by default, "
         "allocation memory is accessible only from "
         "the device where the allocations are located; this access cannot be revoked") {
  NEEDS_POOLS;
  Primary here;
  Pool pool;
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  OK(cuMemPoolGetAccess(&flags, pool, &location));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const CUmemAccessDesc none = {location, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  EXPECT_NE(cuMemPoolSetAccess(pool, &none, 1), CUDA_SUCCESS);
}

CONFORMS(Pools, AccessIsGrantedPerDevice,
         "cuda.h, cuMemPoolSetAccess: each descriptor instructs the access to enable for a single gpu; "
         "cuMemPoolGetAccess: the accessibility of the "
         "pool's memory from the specified location") {
  NEEDS_POOLS;
  NEEDS(peers(), "two GPUs that are peers");
  Pool pool;
  CUmemLocation other = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(cuMemPoolGetAccess(&flags, pool, &other));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUmemAccessDesc desc = {other, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemPoolSetAccess(pool, &desc, 1));
  OK(cuMemPoolGetAccess(&flags, pool, &other));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  Primary first(0);
  const CUdeviceptr memory = pool.take(32 * 4);
  OK(cuMemsetD32Async(memory, 2, 32, nullptr));
  OK(cuCtxSynchronize());
  {
    Primary second(1);
    Module module(kKernels);
    Memory ours(32 * 4);
    OK(launch(module["scale"], 32, nullptr, CUdeviceptr{ours}, memory));
    EXPECT_EQ(ours.read(), std::vector<uint32_t>(32, 2 * 3 + 7));
  }
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuCtxSynchronize());
}

CONFORMS(Pools, ADestroyedPoolOutlivesItsAllocations,
         "cuda.h, cuMemPoolDestroy: if any pointers obtained from this pool haven't been freed, the function "
         "will return immediately and the resources "
         "will be released automatically once there are no more outstanding allocations") {
  NEEDS_POOLS;
  Primary here;
  CUdeviceptr memory = 0;
  {
    Pool pool;
    memory = pool.take(kMiB);
  }
  OK(cuMemsetD32Async(memory, 8, 1, nullptr));
  OK(cuCtxSynchronize());
  EXPECT_EQ(word_at(memory), 8u);
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuCtxSynchronize());
}

CONFORMS(Pools, AllocationsBelongToNoContext,
         "cuda.h, cuCtxDestroy: will not destroy memory allocations by cuMemAllocAsync() and "
         "cuMemAllocFromPoolAsync(); these are not associated "
         "with any CUDA context and need to be destroyed explicitly") {
  NEEDS_POOLS;
  Primary here;
  Pool pool;
  CUdeviceptr memory = 0;
  {
    Own context;
    memory = pool.take(kMiB);
    OK(cuMemsetD32Async(memory, 6, 1, nullptr));
    OK(cuCtxSynchronize());
  }
  EXPECT_EQ(word_at(memory), 6u);
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuCtxSynchronize());
}

CONFORMS(Pools, OnlySomePoolsCanBeShared,
         "cuda.h, cuMemPoolCreate: specifying CU_MEM_HANDLE_TYPE_NONE creates a memory pool that will not "
         "support IPC") {
  NEEDS_POOLS;
  Pool pool;
  int descriptor = -1;
  EXPECT_NE(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
}

#define NEEDS_SHARED_POOLS                                               \
  NEEDS_POOLS;                                                           \
  NEEDS((attribute(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) & \
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0,                 \
        "pools that are shared by descriptor")

CUmemPoolProps shared_props() {
  CUmemPoolProps props = props_on(0);
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return props;
}

CUmemoryPool import_pool(int socket) {
  const int descriptor = gpufence::sim::receive_descriptor(socket);
  CUmemoryPool pool = nullptr;
  OK(cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  close(descriptor);
  return pool;
}

void export_pool(int socket, CUmemoryPool pool) {
  int descriptor = -1;
  OK(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  gpufence::sim::send_descriptor(socket, descriptor);
  close(descriptor);
}

PARTNER(reads_pool_memory) {
  Primary here;
  const CUmemoryPool pool = import_pool(socket);
  auto data = receive<CUmemPoolPtrExportData>(socket);
  CUdeviceptr memory = 0;
  OK(cuMemPoolImportPointer(&memory, pool, &data));
  EXPECT_EQ(word_at(memory), 31u);
  OK(cuMemsetD32(memory, 32, 1));
  OK(cuMemFree(memory));
  OK(cuMemPoolDestroy(pool));
  send(socket, 'x');
}

CONFORMS(Pools, PointersAreSharedThroughPools,
         "cuda.h, cuMemPoolImportPointer: returns a pointer to the imported memory; the imported memory must "
         "be freed from all importing processes before "
         "being freed in the exporting process; may be freed with cuMemFree") {
  NEEDS_SHARED_POOLS;
  Primary here;
  Pool pool(shared_props());
  const CUdeviceptr memory = pool.take(kMiB);
  OK(cuMemsetD32Async(memory, 31, 1, nullptr));
  OK(cuCtxSynchronize());
  {
    Partner partner("reads_pool_memory");
    export_pool(partner.socket(), pool);
    CUmemPoolPtrExportData data{};
    OK(cuMemPoolExportPointer(&data, memory));
    send(partner.socket(), data);
    receive<char>(partner.socket());
    EXPECT_EQ(word_at(memory), 32u);
  }
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuCtxSynchronize());
}

PARTNER(takes_from_an_imported_pool) {
  Primary here;
  const CUmemoryPool pool = import_pool(socket);
  CUdeviceptr memory = 0;
  EXPECT_NE(cuMemAllocFromPoolAsync(&memory, 64, pool, nullptr), CUDA_SUCCESS);
  EXPECT_NE(cuDeviceSetMemPool(0, pool), CUDA_SUCCESS);
  OK(cuMemPoolDestroy(pool));
  send(socket, 'x');
}

CONFORMS(Pools, ImportedPoolsGiveNothing,
         "cuda.h, cuMemPoolImportFromShareableHandle: imported memory pools do not support creating new "
         "allocations; they may not be used in "
         "cuDeviceSetMemPool or cuMemAllocFromPoolAsync calls") {
  NEEDS_SHARED_POOLS;
  Primary here;
  Pool pool(shared_props());
  Partner partner("takes_from_an_imported_pool");
  export_pool(partner.socket(), pool);
  receive<char>(partner.socket());
}

CONFORMS(Pools, DefaultPoolsAreAskedForByPlace,
         "cuda.h, cuMemGetDefaultMemPool: location DEVICE, HOST or HOST_NUMA, type PINNED or MANAGED; in all "
         "other cases, the call returns "
         "CUDA_ERROR_INVALID_VALUE") {
  NEEDS_POOLS;
  CUmemoryPool pool = nullptr;
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  OK(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(pool, default_pool());
  location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  EXPECT_EQ(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace conform
