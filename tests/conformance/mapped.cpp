// Virtual memory management: addresses and memory by themselves, mapped to each other.
#include <cstring>

#include "driver.h"
#include "kernels.h"
#include "tests/sim/test/descriptors.h"

namespace conform {
namespace {

#define NEEDS_MAPPING                                                            \
  OK(cuInit(0));                                                                 \
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 1, \
        "virtual memory "                                                        \
        "management")

CUmemAllocationProp prop_on(int device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return prop;
}

size_t granularity(const CUmemAllocationProp& prop = prop_on(0)) {
  size_t bytes = 0;
  OK(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return bytes;
}

class Physical {
 public:
  explicit Physical(size_t bytes, const CUmemAllocationProp& prop = prop_on(0)) {
    OK(cuMemCreate(&handle_, bytes, &prop, 0));
  }
  Physical(const Physical&) = delete;
  ~Physical() { release(); }
  operator CUmemGenericAllocationHandle() const { return handle_; }
  void release() {
    if (handle_ != 0) {
      OK(cuMemRelease(handle_));
    }
    handle_ = 0;
  }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
};

class Addresses {
 public:
  explicit Addresses(size_t bytes, size_t alignment = 0) : bytes_(bytes) {
    OK(cuMemAddressReserve(&start_, bytes, alignment, 0, 0));
  }
  Addresses(const Addresses&) = delete;
  ~Addresses() { OK(cuMemAddressFree(start_, bytes_)); }
  operator CUdeviceptr() const { return start_; }

 private:
  size_t bytes_;
  CUdeviceptr start_ = 0;
};

// Mapped for the scope.
class Mapping {
 public:
  Mapping(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle memory) : at_(at), bytes_(bytes) {
    OK(cuMemMap(at, bytes, 0, memory, 0));
  }
  Mapping(const Mapping&) = delete;
  ~Mapping() { OK(cuMemUnmap(at_, bytes_)); }

 private:
  CUdeviceptr at_;
  size_t bytes_;
};

CUresult set_access(CUdeviceptr at, size_t bytes,
                    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE, int device = 0) {
  const CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
  return cuMemSetAccess(at, bytes, &desc, 1);
}

unsigned long long access_of(CUdeviceptr at, int device = 0) {
  const CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  unsigned long long flags = 99;
  OK(cuMemGetAccess(&flags, &location, at));
  return flags;
}

CONFORMS(Mapped, GranularityIsAMultipleForAlignment,
         "cuda.h, cuMemGetAllocationGranularity: calculates either the minimal or recommended granularity; "
         "can be used as a multiple for alignment, "
         "size, or address mapping") {
  NEEDS_MAPPING;
  const CUmemAllocationProp prop = prop_on(0);
  size_t least = 0, recommended = 0;
  OK(cuMemGetAllocationGranularity(&least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  OK(cuMemGetAllocationGranularity(&recommended, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT_GT(least, 0u);
  EXPECT_EQ(least & (least - 1), 0u);
  EXPECT_GE(recommended, least);
  EXPECT_EQ(recommended % least, 0u);
  EXPECT_EQ(cuMemGetAllocationGranularity(nullptr, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Mapped, SizesAreMultiplesOfTheGranularity,
         "cuda.h, cuMemCreate: the size of this allocation must be a multiple of the value given via "
         "cuMemGetAllocationGranularity with the "
         "CU_MEM_ALLOC_GRANULARITY_MINIMUM flag") {
  NEEDS_MAPPING;
  const CUmemAllocationProp prop = prop_on(0);
  CUmemGenericAllocationHandle memory = 0;
  EXPECT_EQ(cuMemCreate(&memory, granularity() + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&memory, granularity(), &prop, 1), CUDA_ERROR_INVALID_VALUE);  // flags "must be zero"
  Physical right(granularity());
}

CONFORMS(Mapped, AddressesAreAlignedAsAsked,
         "cuda.h, cuMemAddressReserve: the alignment must be a power of two or zero for default alignment") {
  NEEDS_MAPPING;
  const size_t gib = size_t{1} << 30;
  Addresses range(granularity(), gib);
  EXPECT_EQ(range % gib, 0u);
  CUdeviceptr start = 0;
  EXPECT_EQ(cuMemAddressReserve(&start, granularity(), 3 * kMiB, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Mapped, AddressesComeInPages,
         "cuda.h, cuMemAddressReserve: the size and address parameters must be a multiple of the host page "
         "size; flags currently unused, must be zero") {
  NEEDS_MAPPING;
  CUdeviceptr start = 0;
  EXPECT_EQ(cuMemAddressReserve(&start, granularity() + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&start, granularity(), 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Mapped, AddressesGoBackWhole,
         "cuda.h, cuMemAddressFree: the size must match what was given to memAddressReserve and the ptr "
         "given must match what was returned from it") {
  NEEDS_MAPPING;
  const size_t bytes = granularity();
  Addresses range(2 * bytes);
  EXPECT_EQ(cuMemAddressFree(range, bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(range + bytes, bytes), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Mapped, MappedMemoryIsOrdinaryMemory,
         "CUDA C++ Programming Guide, Virtual Memory Management: allocate, reserve, map and enable access; "
         "then the range can be accessed like memory "
         "returned by cudaMalloc") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical memory(bytes);
  Addresses range(bytes);
  Mapping mapped(range, bytes, memory);
  OK(set_access(range, bytes));
  Module module(kKernels);
  OK(launch(module["fill"], 64, nullptr, range + 1024, 19u));
  OK(cuMemcpyDtoD(range, range + 1024, 256));
  EXPECT_EQ(word_at(range + 252), 19u);
}

CONFORMS(Mapped, MappingsStartWithoutAccess,
         "cuda.h, cuMemUnmap: any new mapping to this virtual address will need to have access granted "
         "through cuMemSetAccess, as all mappings start with no "
         "accessibility setup") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical memory(bytes);
  Addresses range(bytes);
  {
    Mapping first(range, bytes, memory);
    OK(set_access(range, bytes));
  }
  Mapping second(range, bytes, memory);
  EXPECT_EQ(access_of(range), static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_NONE));
}

CONFORMS(Mapped, AccessCanBeRead,
         "cuda.h, cuMemGetAccess: get the access flags set for the given location and ptr") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical memory(bytes);
  Addresses range(bytes);
  Mapping mapped(range, bytes, memory);
  OK(set_access(range, bytes, CU_MEM_ACCESS_FLAGS_PROT_READ));
  EXPECT_EQ(access_of(range), static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READ));
  OK(set_access(range, bytes));
  EXPECT_EQ(access_of(range + bytes - 1),
            static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  OK(set_access(range, bytes, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  EXPECT_EQ(access_of(range), static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_NONE));
}

CONFORMS(Mapped, AccessIsForWhatIsMapped,
         "cuda.h, cuMemSetAccess: the range must be a fully mapped address range containing all allocations "
         "created by cuMemMap / cuMemCreate") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical memory(bytes);
  Addresses range(2 * bytes);
  Mapping half(range, bytes, memory);
  EXPECT_EQ(set_access(range, 2 * bytes), CUDA_ERROR_INVALID_VALUE);
  OK(set_access(range, bytes));
}

CONFORMS(Mapped, OneMemoryMayHaveSeveralAddresses,
         "CUDA C++ Programming Guide, Virtual Aliasing Support: the Virtual Memory Management APIs provide a "
         "way to create multiple virtual memory mappings or "
         "proxies to the same allocation") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical memory(bytes);
  Addresses first(bytes), second(bytes);
  Mapping one(first, bytes, memory), other(second, bytes, memory);
  OK(set_access(first, bytes));
  OK(set_access(second, bytes));
  OK(cuMemsetD32(first + 400, 88, 1));
  OK(cuCtxSynchronize());
  EXPECT_EQ(word_at(second + 400), 88u);
}

CONFORMS(
    Mapped, WhatIsMappedIsNotMappedOver,
    "cuda.h, cuMemMap: can only create mappings on VA range reservations that are not currently mapped") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical first(bytes), second(bytes);
  Addresses range(bytes);
  Mapping mapped(range, bytes, first);
  EXPECT_EQ(cuMemMap(range, bytes, 0, second, 0), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Mapped, OnlyReservedAddressesAreMapped,
         "cuda.h, cuMemMap: this range must be an address reservation previously reserved with "
         "cuMemAddressReserve; offset currently must be zero; flags must be "
         "zero") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical memory(2 * bytes);
  CUdeviceptr gone = 0;
  {
    Addresses range(bytes);
    gone = range;
    EXPECT_EQ(cuMemMap(range, bytes, bytes, memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(range, bytes, 0, memory, 1), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuMemMap(gone, bytes, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Mapped, MappingsEndWhole,
         "cuda.h, cuMemUnmap: the range must be the entire contiguous address range that was mapped to; "
         "cannot unmap a sub-range of an address range mapped by "
         "cuMemCreate / cuMemMap") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical memory(2 * bytes);
  Addresses range(2 * bytes);
  Mapping mapped(range, 2 * bytes, memory);
  EXPECT_EQ(cuMemUnmap(range, bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(range + bytes, bytes), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Mapped, AddressesCanBeMappedAgain,
         "cuda.h, cuMemUnmap: when it returns successfully the address range is converted to an address "
         "reservation and can be used for a future calls to "
         "cuMemMap") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical first(bytes), second(bytes);
  Addresses range(bytes);
  for (const auto& [memory, value] : {std::pair{&first, 1u}, std::pair{&second, 2u}}) {
    Mapping mapped(range, bytes, *memory);
    OK(set_access(range, bytes));
    OK(cuMemsetD32(range, value, 1));
    OK(cuCtxSynchronize());
  }
  Mapping again(range, bytes, first);
  OK(set_access(range, bytes));
  EXPECT_EQ(word_at(range), 1u);
}

CONFORMS(Mapped, AHandleMayGoBeforeItsMappings,
         "cuda.h, cuMemRelease: the generic memory handle can be freed when there are still outstanding "
         "mappings made with this handle") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical memory(bytes);
  Addresses range(bytes);
  Mapping mapped(range, bytes, memory);
  memory.release();
  OK(set_access(range, bytes));
  OK(cuMemsetD32(range, 12, 1));
  EXPECT_EQ(word_at(range), 12u);
}

CONFORMS(Mapped, MemoryGoesWithItsLastReference,
         "cuda.h, cuMemRelease: the memory allocation will be freed when all outstanding mappings to the "
         "memory are unmapped and when all outstanding references "
         "to the handle are also released") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = 256 * kMiB;
  size_t before = 0, made = 0, released = 0, after = 0, total = 0;
  OK(cuMemGetInfo(&before, &total));
  Addresses range(bytes);
  {
    Physical memory(bytes);
    OK(cuMemGetInfo(&made, &total));
    Mapping mapped(range, bytes, memory);
    memory.release();
    OK(cuMemGetInfo(&released, &total));
  }
  OK(cuMemGetInfo(&after, &total));
  EXPECT_LE(made + bytes, before);
  EXPECT_LE(released + bytes, before);
  EXPECT_GE(after, released + bytes);
}

CONFORMS(Mapped, HandlesTellTheirProperties,
         "cuda.h, cuMemGetAllocationPropertiesFromHandle: retrieve the contents of the property structure "
         "defining properties for this handle") {
  NEEDS_MAPPING;
  NEEDS(devices() >= 2, "two GPUs");
  Primary here;
  Physical memory(granularity(prop_on(1)), prop_on(1));
  CUmemAllocationProp prop{};
  OK(cuMemGetAllocationPropertiesFromHandle(&prop, memory));
  EXPECT_EQ(prop.type, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(prop.location.id, 1);
}

CONFORMS(Mapped, AddressesFindTheirHandle,
         "cuda.h, cuMemRetainAllocationHandle: the handle is guaranteed to be the same handle value used to "
         "map the memory; addr can be any address in a range "
         "previously mapped; if the address requested is not mapped, the function will fail") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical memory(bytes);
  Addresses range(2 * bytes);
  Mapping mapped(range, bytes, memory);
  CUmemGenericAllocationHandle found = 0;
  OK(cuMemRetainAllocationHandle(&found, reinterpret_cast<void*>(range + 77)));
  EXPECT_EQ(found, static_cast<CUmemGenericAllocationHandle>(memory));
  OK(cuMemRelease(found));
  EXPECT_NE(cuMemRetainAllocationHandle(&found, reinterpret_cast<void*>(range + bytes)), CUDA_SUCCESS);
}

CONFORMS(Mapped, NeighboursAreOneRange,
         "CUDA C++ Programming Guide, Mapping Memory: users can map allocations from multiple devices or "
         "handles to contiguous virtual address ranges as long as enough "
         "address space has been reserved") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical first(bytes), second(bytes);
  Addresses range(2 * bytes);
  Mapping low(range, bytes, first), high(range + bytes, bytes, second);
  OK(set_access(range, 2 * bytes));
  Module module(kKernels);
  OK(launch(module["fill"], 128, nullptr, range + bytes - 256, 3u));  // half in each
  OK(cuCtxSynchronize());
  EXPECT_EQ(word_at(range + bytes - 256), 3u);
  EXPECT_EQ(word_at(range + bytes + 252), 3u);
}

CONFORMS(Mapped, EachDeviceIsGrantedAccess,
         "cuda.h, cuMemSetAccess: given the locations in the array given by desc and count, set the access "
         "flags for the target locations") {
  NEEDS_MAPPING;
  NEEDS(peers(), "two GPUs that are peers");
  Primary here;
  const size_t bytes = granularity();
  Physical memory(bytes);
  Addresses range(bytes);
  Mapping mapped(range, bytes, memory);
  const CUmemAccessDesc both[] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                  {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  OK(cuMemSetAccess(range, bytes, both, 2));
  EXPECT_EQ(access_of(range, 1), static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  {
    Primary other(1);
    Module module(kKernels);
    OK(launch(module["fill"], 1, nullptr, CUdeviceptr{range}, 71u));
    OK(cuCtxSynchronize());
  }
  EXPECT_EQ(word_at(range), 71u);
}

CONFORMS(Mapped, HostMemoryIsNotForOtherProcesses,
         "cuda.h, cuMemCreate: HOST allocations are not IPC capable and requestedHandleTypes must be 0, any "
         "other value will result in CUDA_ERROR_INVALID_VALUE; "
         "HOST_NUMA_CURRENT will result in CUDA_ERROR_INVALID_VALUE") {
  NEEDS_MAPPING;
  CUmemAllocationProp prop = prop_on(0);
  prop.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle memory = 0;
  EXPECT_EQ(cuMemCreate(&memory, 2 * kMiB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  prop.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  EXPECT_EQ(cuMemCreate(&memory, 2 * kMiB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Mapped, AllocationsOutliveContexts,
         "cuda.h, cuCtxDestroy: will not destroy memory allocations by cuMemCreate(); they need to be "
         "destroyed explicitly") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Addresses range(bytes);
  CUmemGenericAllocationHandle memory = 0;
  const CUmemAllocationProp prop = prop_on(0);
  {
    Own context;
    OK(cuMemCreate(&memory, bytes, &prop, 0));
    OK(cuMemMap(range, bytes, 0, memory, 0));
    OK(set_access(range, bytes));
    OK(cuMemsetD32(range, 14, 1));
    OK(cuCtxSynchronize());
  }
  EXPECT_EQ(word_at(range), 14u);
  OK(cuMemUnmap(range, bytes));
  OK(cuMemRelease(memory));
}

CONFORMS(Mapped, PointersTellTheReservation,
         "cuda.h, cuPointerGetAttribute: CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: not necessarily the address "
         "of the mapped region, but the address of the mappable "
         "address range ptr references (e.g. from cuMemAddressReserve)") {
  NEEDS_MAPPING;
  Primary here;
  const size_t bytes = granularity();
  Physical memory(bytes);
  Addresses range(3 * bytes);
  Mapping mapped(range + bytes, bytes, memory);
  OK(set_access(range + bytes, bytes));
  CUdeviceptr start = 0;
  size_t size = 0;
  OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, range + bytes + 5));
  OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, range + bytes + 5));
  EXPECT_EQ(start, CUdeviceptr{range});
  EXPECT_EQ(size, 3 * bytes);
}

CONFORMS(Mapped, MoreThanThereIsIsRefused,
         "cuda.h, cuMemCreate: creates a memory allocation on the target device; CUDA_ERROR_OUT_OF_MEMORY") {
  NEEDS_MAPPING;
  size_t total = 0;
  OK(cuDeviceTotalMem(&total, 0));
  const CUmemAllocationProp prop = prop_on(0);
  CUmemGenericAllocationHandle memory = 0;
  EXPECT_EQ(cuMemCreate(&memory, (2 * total / granularity() + 1) * granularity(), &prop, 0),
            CUDA_ERROR_OUT_OF_MEMORY);
}

#define NEEDS_DESCRIPTORS                                                                \
  NEEDS_MAPPING;                                                                         \
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) == 1, \
        "memory that is shared by descriptor")

PARTNER(maps_what_it_is_sent) {
  Primary here;
  const auto bytes = receive<size_t>(socket);
  const int descriptor = gpufence::sim::receive_descriptor(socket);
  CUmemGenericAllocationHandle memory = 0;
  OK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(descriptor);
  {
    Addresses range(bytes);
    Mapping mapped(range, bytes, memory);
    OK(set_access(range, bytes));
    EXPECT_EQ(word_at(range + 64), 1001u);
    OK(cuMemsetD32(range + 64, 1002, 1));
    OK(cuCtxSynchronize());
  }
  OK(cuMemRelease(memory));
  send(socket, 'x');
}

CONFORMS(Mapped, MemoryIsSharedByDescriptor,
         "cuda.h, cuMemImportFromShareableHandle, cuMemExportToShareableHandle: the recipient process can "
         "convert the shareable handle back into a CUDA memory handle and "
         "map it with cuMemMap") {
  NEEDS_DESCRIPTORS;
  Primary here;
  CUmemAllocationProp prop = prop_on(0);
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const size_t bytes = granularity(prop);
  Physical memory(bytes, prop);
  Addresses range(bytes);
  Mapping mapped(range, bytes, memory);
  OK(set_access(range, bytes));
  OK(cuMemsetD32(range + 64, 1001, 1));
  OK(cuCtxSynchronize());
  int descriptor = -1;
  OK(cuMemExportToShareableHandle(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  Partner partner("maps_what_it_is_sent");
  send(partner.socket(), bytes);
  gpufence::sim::send_descriptor(partner.socket(), descriptor);
  close(descriptor);
  receive<char>(partner.socket());
  EXPECT_EQ(word_at(range + 64), 1002u);
}

CONFORMS(Mapped, SharingIsRequestedAtTheStart,
         "cuda.h, CUmemAllocationProp::requestedHandleTypes: requested CUmemAllocationHandleType; "
         "cuMemExportToShareableHandle: CUDA_ERROR_INVALID_VALUE") {
  NEEDS_DESCRIPTORS;
  Primary here;
  Physical memory(granularity());
  int descriptor = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace conform
