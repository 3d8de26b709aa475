// Memory that host and devices share, and what processes share by IPC handles.
#include <sys/mman.h>

#include <cstring>
#include <set>

#include "driver.h"
#include "kernels.h"

namespace conform {
namespace {

// ---- Managed memory ----

#define NEEDS_MANAGED \
  OK(cuInit(0));      \
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) != 0, "concurrent managed access")

class Managed {
 public:
  explicit Managed(size_t bytes) { OK(cuMemAllocManaged(&address_, bytes, CU_MEM_ATTACH_GLOBAL)); }
  Managed(const Managed&) = delete;
  ~Managed() { OK(cuMemFree(address_)); }
  operator CUdeviceptr() const { return address_; }
  uint32_t* words() const { return reinterpret_cast<uint32_t*>(address_); }

 private:
  CUdeviceptr address_ = 0;
};

constexpr CUmemLocation kHost = {CU_MEM_LOCATION_TYPE_HOST, 0};
constexpr CUmemLocation kFirst = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

int range_told(CUmem_range_attribute which, CUdeviceptr address, size_t bytes) {
  int value = 99;
  OK(cuMemRangeGetAttribute(&value, sizeof value, which, address, bytes));
  return value;
}

CONFORMS(Shared, ManagedMemoryHasAnAssociation,
         "cuda.h, cuMemAllocManaged: flags must be one of CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST; if "
         "bytesize is 0, CUDA_ERROR_INVALID_VALUE") {
  Primary here;
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 1, "managed memory");
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAllocManaged(&memory, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_SINGLE), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocManaged(&memory, 4096, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_HOST));
  OK(cuMemFree(memory));
}

CONFORMS(Shared, ManagedMemoryIsValidOnBothSides,
         "cuda.h, cuMemAllocManaged: the pointer is valid on the CPU and on all GPUs in the system that "
         "support managed memory") {
  NEEDS_MANAGED;
  Primary here;
  Managed memory(256);
  for (int i = 0; i < 64; ++i) memory.words()[i] = 10;
  Module module(kKernels);
  OK(launch(module["scale"], 64, nullptr, CUdeviceptr{memory}, CUdeviceptr{memory}));
  OK(cuCtxSynchronize());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(memory.words()[i], 10u * 3 + 7);
}

CONFORMS(Shared, ManagedPointersAreTheSameForHostAndDevice,
         "cuda.h, cuPointerGetAttribute: CU_POINTER_ATTRIBUTE_IS_MANAGED: whether the pointer points to "
         "managed memory or not; HOST_POINTER and DEVICE_POINTER will "
         "equal the input value ptr") {
  NEEDS_MANAGED;
  Primary here;
  Managed memory(4096);
  unsigned managed = 99, plain = 99;
  void* host = nullptr;
  CUdeviceptr device = 0;
  OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
  OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory));
  OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory));
  OK(cuPointerGetAttribute(&plain, CU_POINTER_ATTRIBUTE_IS_MANAGED, Memory(64)));
  EXPECT_EQ(managed, 1u);
  EXPECT_EQ(plain, 0u);
  EXPECT_EQ(host, memory.words());
  EXPECT_EQ(device, CUdeviceptr{memory});
}

CONFORMS(Shared, PrefetchingChangesNoValue,
         "cuda.h, cuMemPrefetchAsync: is not required for functionality; memory accesses to this range are "
         "always coherent and are allowed even when the data is "
         "actively being migrated") {
  NEEDS_MANAGED;
  Primary here;
  Stream stream;
  Managed memory(kMiB);
  for (int i = 0; i < 64; ++i) memory.words()[i] = 6;
  Module module(kKernels);
  OK(cuMemPrefetchAsync(memory, kMiB, kFirst, 0, stream));
  OK(launch(module["scale"], 64, stream, CUdeviceptr{memory}, CUdeviceptr{memory}));
  OK(cuMemPrefetchAsync(memory, kMiB, kHost, 0, stream));
  OK(cuStreamSynchronize(stream));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(memory.words()[i], 6u * 3 + 7);
}

CONFORMS(Shared, TheLastPrefetchIsTold,
         "cuda.h, cuMemRangeGetAttribute: CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: the last location "
         "to which all pages were prefetched explicitly; "
         "CU_DEVICE_INVALID if any page was never, or if not all to the same location") {
  NEEDS_MANAGED;
  Primary here;
  Managed memory(4 * kMiB);
  const auto last = [&] {
    return range_told(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, 4 * kMiB);
  };
  EXPECT_EQ(last(), CU_DEVICE_INVALID);
  OK(cuMemPrefetchAsync(memory, 4 * kMiB, kFirst, 0, nullptr));
  EXPECT_EQ(last(), 0);
  OK(cuMemPrefetchAsync(memory, 2 * kMiB, kHost, 0, nullptr));
  EXPECT_EQ(last(), CU_DEVICE_INVALID);
  OK(cuMemPrefetchAsync(memory, 4 * kMiB, kHost, 0, nullptr));
  EXPECT_EQ(last(), CU_DEVICE_CPU);
  OK(cuCtxSynchronize());
}

CONFORMS(Shared, OnlyManagedMemoryIsPrefetched,
         "cuda.h, cuMemPrefetchAsync: the memory range must refer to managed memory allocated via "
         "cuMemAllocManaged or declared via __managed__ variables") {
  NEEDS_MANAGED;
  Primary here;
  Memory plain(4096);
  EXPECT_EQ(cuMemPrefetchAsync(plain, 4096, kFirst, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  Managed memory(4096);
  EXPECT_EQ(cuMemPrefetchAsync(memory, 4096, kFirst, 1, nullptr),
            CUDA_ERROR_INVALID_VALUE);  // flags must be zero
}

CONFORMS(Shared, ReadMostlyIsAdvice,
         "cuda.h, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: 1 if all pages in the given memory range have "
         "read-duplication enabled, or 0 otherwise; "
         "CU_MEM_ADVISE_UNSET_READ_MOSTLY undoes the effect") {
  NEEDS_MANAGED;
  Primary here;
  Managed memory(4 * kMiB);
  const auto mostly = [&] { return range_told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 4 * kMiB); };
  EXPECT_EQ(mostly(), 0);
  OK(cuMemAdvise(memory, 2 * kMiB, CU_MEM_ADVISE_SET_READ_MOSTLY, kFirst));
  EXPECT_EQ(mostly(), 0);
  OK(cuMemAdvise(memory, 4 * kMiB, CU_MEM_ADVISE_SET_READ_MOSTLY, kFirst));
  EXPECT_EQ(mostly(), 1);
  OK(cuMemAdvise(memory, 4 * kMiB, CU_MEM_ADVISE_UNSET_READ_MOSTLY, kFirst));
  EXPECT_EQ(mostly(), 0);
}

CONFORMS(Shared, PreferencesAreTold,
         "cuda.h, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: a GPU device id if all pages in the memory "
         "range have that GPU as their preferred location, CU_DEVICE_CPU "
         "or CU_DEVICE_INVALID") {
  NEEDS_MANAGED;
  Primary here;
  Managed memory(2 * kMiB);
  const auto preferred = [&] {
    return range_told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, 2 * kMiB);
  };
  EXPECT_EQ(preferred(), CU_DEVICE_INVALID);
  OK(cuMemAdvise(memory, 2 * kMiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kFirst));
  EXPECT_EQ(preferred(), 0);
  OK(cuMemAdvise(memory, 2 * kMiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kHost));
  EXPECT_EQ(preferred(), CU_DEVICE_CPU);
  OK(cuMemAdvise(memory, 2 * kMiB, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, kFirst));
  EXPECT_EQ(preferred(), CU_DEVICE_INVALID);
}

CONFORMS(Shared, ReadersAreListed,
         "cuda.h, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: a list of device ids that had "
         "CU_MEM_ADVISE_SET_ACCESSED_BY set for that entire memory range; CU_DEVICE_INVALID "
         "in all the extra space; dataSize must be a non-zero multiple of 4") {
  NEEDS_MANAGED;
  Primary here;
  Managed memory(2 * kMiB);
  OK(cuMemAdvise(memory, 2 * kMiB, CU_MEM_ADVISE_SET_ACCESSED_BY, kFirst));
  int list[3] = {99, 99, 99};
  OK(cuMemRangeGetAttribute(list, sizeof list, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, 2 * kMiB));
  EXPECT_EQ((std::vector<int>(list, list + 3)), (std::vector<int>{0, CU_DEVICE_INVALID, CU_DEVICE_INVALID}));
  EXPECT_EQ(cuMemRangeGetAttribute(list, 6, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, 2 * kMiB),
            CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Shared, SeveralAttributesOfARangeAtOnce,
         "cuda.h, cuMemRangeGetAttributes: the attributes and dataSizes arrays will be interpreted to have "
         "numAttributes entries; the results of the query will be stored "
         "in data") {
  NEEDS_MANAGED;
  Primary here;
  Managed memory(4096);
  OK(cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, kFirst));
  int mostly = 99, preferred = 99;
  void* data[] = {&mostly, &preferred};
  size_t sizes[] = {4, 4};
  CUmem_range_attribute which[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                   CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
  OK(cuMemRangeGetAttributes(data, sizes, which, 2, memory, 4096));
  EXPECT_EQ(mostly, 1);
  EXPECT_EQ(preferred, CU_DEVICE_INVALID);
}

CONFORMS(Shared, AttachmentIsOfAWholeAllocation,
         "cuda.h, cuStreamAttachMemAsync: length must be either zero or the entire allocation's size; it is "
         "illegal to attach singly to the NULL stream: an error will be "
         "returned") {
  NEEDS_MANAGED;
  Primary here;
  Stream stream;
  Managed memory(8192);
  EXPECT_NE(cuStreamAttachMemAsync(stream, memory, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  EXPECT_NE(cuStreamAttachMemAsync(nullptr, memory, 0, CU_MEM_ATTACH_SINGLE), CUDA_SUCCESS);
  OK(cuStreamAttachMemAsync(stream, memory, 8192, CU_MEM_ATTACH_SINGLE));
  OK(cuStreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_GLOBAL));
  OK(cuStreamSynchronize(stream));
}

// ---- Page-locked host memory ----

class Pinned {
 public:
  explicit Pinned(size_t bytes, unsigned flags = 0) {
    OK(cuMemHostAlloc(reinterpret_cast<void**>(&words_), bytes, flags));
  }
  Pinned(const Pinned&) = delete;
  ~Pinned() { OK(cuMemFreeHost(words_)); }
  uint32_t* words() const { return words_; }
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(words_); }

 private:
  uint32_t* words_ = nullptr;
};

CONFORMS(Shared, PinnedMemoryHasOneAddress,
         "cuda.h, cuMemHostAlloc: automatically immediately accessible to all contexts; unless "
         "CU_MEMHOSTALLOC_WRITECOMBINED is specified, the device pointer is always equal "
         "to the returned host pointer") {
  Primary here;
  Pinned memory(256);
  for (int i = 0; i < 64; ++i) memory.words()[i] = 2;
  Module module(kKernels);
  OK(launch(module["scale"], 64, nullptr, memory.address(), memory.address()));
  OK(cuCtxSynchronize());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(memory.words()[i], 2u * 3 + 7);
  CUdeviceptr device = 0;
  OK(cuMemHostGetDevicePointer(&device, memory.words(), 0));
  EXPECT_EQ(device, memory.address());
}

CONFORMS(Shared, PinnedMemoryIsForEveryDevice,
         "cuda.h, Unified Addressing: all host memory allocated in all contexts using cuMemAllocHost() and "
         "cuMemHostAlloc() is always directly accessible from all contexts on "
         "all devices") {
  OK(cuInit(0));
  NEEDS(devices() >= 2, "two GPUs");
  Primary first(0);
  Pinned memory(4);
  {
    Primary second(1);
    Module module(kKernels);
    OK(launch(module["fill"], 1, nullptr, memory.address(), 808u));
    OK(cuCtxSynchronize());
  }
  EXPECT_EQ(*memory.words(), 808u);
}

CONFORMS(Shared, PinnedMemoryTellsItsFlags,
         "cuda.h, cuMemHostGetFlags: passes back the flags that were specified when allocating; will fail if "
         "the pointer does not reside in an allocation performed by "
         "cuMemAllocHost() or cuMemHostAlloc()") {
  Primary here;
  Pinned memory(4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED);
  unsigned flags = 0;
  OK(cuMemHostGetFlags(&flags, memory.words()));
  EXPECT_EQ(flags & (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED),
            static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED));
  std::vector<char> ordinary(64);
  EXPECT_EQ(cuMemHostGetFlags(&flags, ordinary.data()), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Shared, PinnedPointersAreOfTheHost,
         "cuda.h, cuPointerGetAttribute: if ptr addresses host memory then *data is set to "
         "CU_MEMORYTYPE_HOST; HOST_POINTER: the host pointer value through which ptr may be "
         "accessed by the host program") {
  Primary here;
  Pinned memory(4096);
  unsigned type = 0;
  void* host = nullptr;
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory.address() + 8));
  OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory.address() + 8));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  EXPECT_EQ(host, memory.words() + 2);
}

CONFORMS(Shared, PinnedBuffersHaveNewIds,
         "cuda.h, CU_POINTER_ATTRIBUTE_BUFFER_ID: ptr must be a pointer to memory obtained from a CUDA "
         "memory allocation API; every memory allocation from any of them will have "
         "a unique ID") {
  Primary here;
  std::set<unsigned long long> ids;
  for (int i = 0; i < 4; ++i) {
    Pinned memory(4096);
    unsigned long long id = 0;
    OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory.address()));
    EXPECT_TRUE(ids.insert(id).second);
  }
}

CONFORMS(Shared, PinnedMemoryIsFreedAsSuch,
         "cuda.h, cuMemFreeHost: the memory space pointed to by p must have been returned by a previous call "
         "to cuMemAllocHost(); CUDA_ERROR_INVALID_VALUE") {
  Primary here;
  std::vector<char> ordinary(64);
  EXPECT_EQ(cuMemFreeHost(ordinary.data()), CUDA_ERROR_INVALID_VALUE);
}

// Pages of the check's own, for registration.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    start_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  Pages(const Pages&) = delete;
  ~Pages() { munmap(start_, bytes_); }
  void* start() const { return start_; }
  uint32_t* words() const { return static_cast<uint32_t*>(start_); }

 private:
  size_t bytes_;
  void* start_;
};

CONFORMS(Shared, RegisteredMemoryHasADevicePointer,
         "cuda.h, cuMemHostRegister: page-locks the memory range and maps it for the device(s); the device "
         "pointer to the memory may be obtained by calling "
         "cuMemHostGetDevicePointer()") {
  Primary here;
  Pages pages(64 * 1024);
  OK(cuMemHostRegister(pages.start(), 64 * 1024, CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr device = 0;
  OK(cuMemHostGetDevicePointer(&device, pages.words() + 4, 0));
  Module module(kKernels);
  OK(launch(module["fill"], 2, nullptr, device, 66u));
  OK(cuCtxSynchronize());
  EXPECT_EQ(pages.words()[3], 0u);
  EXPECT_EQ(pages.words()[4], 66u);
  EXPECT_EQ(pages.words()[5], 66u);
  EXPECT_EQ(cuMemHostGetDevicePointer(&device, pages.start(), 1),
            CUDA_ERROR_INVALID_VALUE);  // Options (must be 0)
  OK(cuMemHostUnregister(pages.start()));
}

CONFORMS(Shared, MemoryIsRegisteredOnce,
         "cuda.h, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: the memory range passed to cuMemHostRegister() "
         "has already been registered") {
  Primary here;
  Pages pages(64 * 1024);
  OK(cuMemHostRegister(pages.start(), 64 * 1024, 0));
  EXPECT_EQ(cuMemHostRegister(pages.start(), 64 * 1024, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  OK(cuMemHostUnregister(pages.start()));
}

CONFORMS(Shared, OnlyRegisteredMemoryIsUnregistered,
         "cuda.h, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: the pointer passed to cuMemHostUnregister() does "
         "not correspond to any currently registered memory region") {
  Primary here;
  Pages pages(64 * 1024);
  EXPECT_EQ(cuMemHostUnregister(pages.start()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  OK(cuMemHostRegister(pages.start(), 64 * 1024, 0));
  OK(cuMemHostUnregister(pages.start()));
  EXPECT_EQ(cuMemHostUnregister(pages.start()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CONFORMS(
    Shared, RegistrationEndsAtItsBase,
    "cuda.h, cuMemHostUnregister: the base address must be the same one specified to cuMemHostRegister()") {
  Primary here;
  Pages pages(64 * 1024);
  OK(cuMemHostRegister(pages.start(), 64 * 1024, 0));
  EXPECT_NE(cuMemHostUnregister(pages.words() + 1024), CUDA_SUCCESS);
  OK(cuMemHostUnregister(pages.start()));
}

// ---- Between processes ----

#define NEEDS_IPC \
  OK(cuInit(0));  \
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED) == 1, "memory and events between processes")

PARTNER(opens_memory) {
  Primary here;
  const auto handle = receive<CUipcMemHandle>(socket);
  CUdeviceptr memory = 0;
  OK(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  EXPECT_EQ(word_at(memory + 512), 71u);
  OK(cuMemsetD32(memory + 512, 72, 1));
  OK(cuCtxSynchronize());
  OK(cuIpcCloseMemHandle(memory));
  send(socket, 'x');
}

CONFORMS(Shared, AnotherProcessOpensAnAllocation,
         "cuda.h, cuIpcOpenMemHandle: maps memory exported from another process with cuIpcGetMemHandle into "
         "the current device address space") {
  NEEDS_IPC;
  Primary here;
  Memory memory(4 * kMiB);
  OK(cuMemsetD32(memory + 512, 71, 1));
  OK(cuCtxSynchronize());
  CUipcMemHandle handle;
  OK(cuIpcGetMemHandle(&handle, memory));
  Partner partner("opens_memory");
  send(partner.socket(), handle);
  receive<char>(partner.socket());
  EXPECT_EQ(word_at(memory + 512), 72u);
}

PARTNER(opens_twice) {
  Primary here;
  const auto handle = receive<CUipcMemHandle>(socket);
  CUdeviceptr first = 0, second = 0;
  OK(cuIpcOpenMemHandle(&first, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cuIpcOpenMemHandle(&second, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  EXPECT_EQ(first, second);
  OK(cuIpcCloseMemHandle(first));
  EXPECT_EQ(word_at(second), 5u);
  OK(cuIpcCloseMemHandle(second));
  EXPECT_NE(cuIpcCloseMemHandle(second), CUDA_SUCCESS);
  send(socket, 'x');
}

CONFORMS(Shared, OpeningAgainCounts,
         "cuda.h, cuIpcOpenMemHandle: if the memory handle has already been opened by the current context, "
         "the reference count on the handle is incremented by 1 and the existing "
         "device pointer is returned; cuIpcCloseMemHandle: when the reference count reaches 0, this API "
         "unmaps the memory") {
  NEEDS_IPC;
  Primary here;
  Memory memory(2 * kMiB);
  OK(cuMemsetD32(memory, 5, 1));
  OK(cuCtxSynchronize());
  CUipcMemHandle handle;
  OK(cuIpcGetMemHandle(&handle, memory));
  Partner partner("opens_twice");
  send(partner.socket(), handle);
  receive<char>(partner.socket());
  EXPECT_EQ(word_at(memory), 5u);  // "the original allocation in the exporting process … will be unaffected"
}

CONFORMS(Shared, EachAllocationHasItsHandle,
         "cuda.h, cuIpcGetMemHandle: may be called multiple times on an allocation; if a region of memory is "
         "freed and a subsequent call to cuMemAlloc returns memory with the same "
         "device address, cuIpcGetMemHandle will return a unique handle for the new memory") {
  NEEDS_IPC;
  Primary here;
  CUipcMemHandle first, again, second;
  {
    Memory memory(2 * kMiB);
    OK(cuIpcGetMemHandle(&first, memory));
    OK(cuIpcGetMemHandle(&again, memory));
  }
  EXPECT_EQ(memcmp(&first, &again, sizeof first), 0);
  Memory next(2 * kMiB);
  OK(cuIpcGetMemHandle(&second, next));
  EXPECT_NE(memcmp(&first, &second, sizeof first), 0);
}

CONFORMS(Shared, OnlyDeviceAllocationsHaveHandles,
         "cuda.h, cuIpcGetMemHandle: takes a pointer to the base of an existing device memory allocation "
         "created with cuMemAlloc; CUDA_ERROR_INVALID_VALUE") {
  NEEDS_IPC;
  Primary here;
  CUipcMemHandle handle;
  Pinned host(4096);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, host.address()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(nullptr, Memory(4096)), CUDA_ERROR_INVALID_VALUE);
}

PARTNER(waits_for_an_event) {
  Primary here;
  CUevent event = nullptr;
  OK(cuIpcOpenEventHandle(&event, receive<CUipcEventHandle>(socket)));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  send(socket, 'q');
  OK(cuEventSynchronize(event));
  OK(cuEventQuery(event));
  OK(cuEventDestroy(event));
  send(socket, 'x');
}

CONFORMS(Shared, EventsReachOtherProcesses,
         "cuda.h, cuIpcGetEventHandle: after the event has been opened in the importing process, "
         "cuEventRecord, cuEventSynchronize, cuStreamWaitEvent and cuEventQuery may be used in "
         "either process") {
  NEEDS_IPC;
  Primary here;
  Stream stream;
  Event event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  CUipcEventHandle handle;
  OK(cuIpcGetEventHandle(&handle, event));
  Gate gate;
  OK(gate.hold(stream));
  OK(cuEventRecord(event, stream));
  Partner partner("waits_for_an_event");
  send(partner.socket(), handle);
  EXPECT_EQ(receive<char>(partner.socket()), 'q');
  gate.open();
  EXPECT_EQ(receive<char>(partner.socket()), 'x');
  OK(cuStreamSynchronize(stream));
}

CONFORMS(Shared, OrdinaryEventsHaveNoHandle,
         "cuda.h, cuIpcGetEventHandle: this event must have been created with the CU_EVENT_INTERPROCESS and "
         "CU_EVENT_DISABLE_TIMING flags set") {
  NEEDS_IPC;
  Primary here;
  Event event(CU_EVENT_DISABLE_TIMING);
  CUipcEventHandle handle;
  EXPECT_NE(cuIpcGetEventHandle(&handle, event), CUDA_SUCCESS);
}

}  // namespace
}  // namespace conform
