// Virtual memory management: reservations, memory and mappings and how long each lives, who may touch what is
// mapped, and memory that two processes map. Sources: cuda.h, and "Virtual Memory Management" of the CUDA
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

constexpr size_t kMiB = size_t{1} << 20, kStep = 2 * kMiB;
constexpr int kNothing = 0, kReads = 1, kReadsAndWrites = 2;

void on_machine(const std::string& machine, const std::function<void()>& body) {
  in_child({{"GPUFENCE_SIM", machine}}, [&] {
    OK(cuInit(0));
    context_on(0);
    body();
  });
}

CUmemAllocationProp props_on(CUmemLocationType type, int id) {
  CUmemAllocationProp props{};
  props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {type, id};
  return props;
}

CUmemGenericAllocationHandle memory_of(size_t bytes, int device = 0,
                                       CUmemAllocationHandleType shared = CU_MEM_HANDLE_TYPE_NONE) {
  CUmemAllocationProp props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, device);
  props.requestedHandleTypes = shared;
  CUmemGenericAllocationHandle memory = 0;
  OK(cuMemCreate(&memory, bytes, &props, 0));
  return memory;
}

CUdeviceptr reserved(size_t bytes) {
  CUdeviceptr address = 0;
  OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  return address;
}

CUmemAccessDesc access_of(int device, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
}

void open_to(CUdeviceptr address, size_t bytes, int device,
             CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  const CUmemAccessDesc access = access_of(device, flags);
  OK(cuMemSetAccess(address, bytes, &access, 1));
}

CUcontext current() {
  CUcontext context = nullptr;
  OK(cuCtxGetCurrent(&context));
  return context;
}

TEST(MappedMemory, IsUsedLikeAnyOther) {
  on_machine("1", [] {
    const size_t before = free_memory();
    CUmemAllocationProp props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    size_t step = 0;
    OK(cuMemGetAllocationGranularity(&step, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT_EQ(step, kStep);
    const CUdeviceptr address = reserved(4 * kStep);
    EXPECT_EQ(free_memory(), before);  // addresses are no memory
    const CUmemGenericAllocationHandle memory = memory_of(2 * kStep);
    EXPECT_EQ(before - free_memory(), 2 * kStep);
    OK(cuMemMap(address + kStep, 2 * kStep, 0, memory, 0));
    // "Calling cuMemMap does not make the address accessible."
    int value = 4711, read = 0;
    EXPECT_EQ(reach(current(), address + kStep), kNothing);
    EXPECT_EQ(cuMemcpyHtoD(address + kStep, &value, sizeof value), CUDA_ERROR_INVALID_VALUE);
    open_to(address + kStep, 2 * kStep, 0);
    EXPECT_EQ(reach(current(), address + kStep), kReadsAndWrites);
    OK(cuMemcpyHtoD(address + 3 * kStep - 4, &value, sizeof value));
    OK(cuMemcpyDtoH(&read, address + 3 * kStep - 4, sizeof read));
    EXPECT_EQ(read, 4711);
    EXPECT_EQ(cuMemcpyHtoD(address + 3 * kStep - 2, &value, sizeof value), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD8(address + kStep, 7, 2 * kStep));
    int ordinal = -1;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address + kStep + 5));
    EXPECT_EQ(ordinal, 0);
    OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, address + kStep + 5));
    OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, address + kStep + 5));
    EXPECT_EQ(base, address + kStep);
    EXPECT_EQ(bytes, 2 * kStep);
    EXPECT_EQ(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(address + kStep), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFreeAsync(address + kStep, nullptr), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(address + kStep, 2 * kStep));
    OK(cuMemRelease(memory));
    OK(cuMemAddressFree(address, 4 * kStep));
    EXPECT_EQ(free_memory(), before);
  });
}

TEST(MappedMemory, LivesAsLongAsItsLastHandleAndItsLastMapping) {
  on_machine("1", [] {
    const size_t before = free_memory();
    const CUdeviceptr address = reserved(2 * kStep);
    const CUmemGenericAllocationHandle memory = memory_of(kStep);
    // In two places at once.
    OK(cuMemMap(address, kStep, 0, memory, 0));
    OK(cuMemMap(address + kStep, kStep, 0, memory, 0));
    open_to(address, 2 * kStep, 0);
    OK(cuMemsetD8(address, 9, 16));
    unsigned char seen = 0;
    OK(cuMemcpyDtoH(&seen, address + kStep + 15, 1));
    EXPECT_EQ(seen, 9);
    // "The handle can be freed when there are still outstanding mappings."
    OK(cuMemRelease(memory));
    EXPECT_EQ(cuMemRelease(memory), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(address, kStep, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(address, kStep));
    EXPECT_EQ(before - free_memory(), kStep);
    // "The returned handle must be released", and is "the same handle value used to map the memory".
    CUmemGenericAllocationHandle again = 0;
    OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address + kStep + 100)));
    EXPECT_EQ(again, memory);
    EXPECT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address)),
              CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(address + kStep, kStep));
    EXPECT_EQ(before - free_memory(), kStep);
    OK(cuMemMap(address, kStep, 0, memory, 0));
    open_to(address, kStep, 0);
    OK(cuMemcpyDtoH(&seen, address + 15, 1));
    EXPECT_EQ(seen, 9);
    OK(cuMemUnmap(address, kStep));
    OK(cuMemRelease(memory));
    EXPECT_EQ(free_memory(), before);
  });
}

TEST(MappedMemory, OutlivesTheContext) {
  on_machine("1", [] {
    const CUdeviceptr address = reserved(kStep);
    const CUmemGenericAllocationHandle memory = memory_of(kStep);
    OK(cuMemMap(address, kStep, 0, memory, 0));
    open_to(address, kStep, 0);
    OK(cuMemsetD8(address, 3, kStep));
    OK(cuCtxDestroy(current()));
    context_on(0);
    unsigned char seen = 0;
    OK(cuMemcpyDtoH(&seen, address + 77, 1));
    EXPECT_EQ(seen, 3);
  });
}

TEST(MappedMemory, GrowsInPlaceAndIsCopiedOverSeveralMappings) {
  on_machine("1", [] {
    const CUdeviceptr address = reserved(3 * kStep);
    for (size_t i = 0; i < 3; ++i) {
      const CUmemGenericAllocationHandle memory = memory_of(kStep);
      OK(cuMemMap(address + i * kStep, kStep, 0, memory, 0));
      OK(cuMemRelease(memory));
      open_to(address + i * kStep, kStep, 0);
    }
    std::vector<char> there(3 * kStep), back(3 * kStep);
    for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<char>(i * 31 >> 8);
    OK(cuMemcpyHtoD(address, there.data(), there.size()));
    OK(cuMemcpyDtoH(back.data(), address, back.size()));
    EXPECT_EQ(there, back);
    // A part of a mapping cannot go, nor what is not there; several whole ones can.
    EXPECT_EQ(cuMemUnmap(address, kStep + kStep / 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemUnmap(address + 4096, kStep), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressFree(address, 3 * kStep), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(address + kStep, kStep));
    EXPECT_EQ(cuMemcpyDtoH(back.data(), address, 3 * kStep), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemUnmap(address, 3 * kStep), CUDA_ERROR_INVALID_VALUE);
    const CUmemAccessDesc access = access_of(0);
    EXPECT_EQ(cuMemSetAccess(address, 3 * kStep, &access, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(address + kStep, kStep, 0, memory_of(kStep), 0));
    EXPECT_EQ(reach(current(), address + kStep),
              kNothing);  // "all mappings start with no accessibility setup"
    OK(cuMemUnmap(address, 3 * kStep));
    OK(cuMemAddressFree(address, 3 * kStep));
  });
}

TEST(MappedMemory, IsForTheGpusThatAreNamed) {
  on_machine("3xh100", [] {
    const CUcontext here = current(), there = context_on(1), elsewhere = context_on(2);
    const CUdeviceptr address = reserved(kStep);
    OK(cuMemMap(address, kStep, 0, memory_of(kStep, 1), 0));
    const CUmemAccessDesc both[] = {access_of(1), access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READ)};
    OK(cuMemSetAccess(address, kStep, both, 2));
    EXPECT_EQ(reach(there, address), kReadsAndWrites);
    EXPECT_EQ(reach(here, address), kReads);
    EXPECT_EQ(reach(elsewhere, address), kNothing);
    unsigned long long flags = 9;
    for (const auto& [device, expected] :
         {std::pair<int, unsigned long long>{0, CU_MEM_ACCESS_FLAGS_PROT_READ},
          {1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
          {2, CU_MEM_ACCESS_FLAGS_PROT_NONE}}) {
      const CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
      OK(cuMemGetAccess(&flags, &location, address + 9));
      EXPECT_EQ(flags, expected) << device;
    }
    int ordinal = -1;
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
    EXPECT_EQ(ordinal, 1);
    open_to(address, kStep, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    EXPECT_EQ(reach(here, address), kNothing);
  });
  on_machine("2", [] {  // no peers
    const CUdeviceptr address = reserved(kStep);
    OK(cuMemMap(address, kStep, 0, memory_of(kStep, 1), 0));
    const CUmemAccessDesc access = access_of(0);
    EXPECT_EQ(cuMemSetAccess(address, kStep, &access, 1), CUDA_ERROR_INVALID_DEVICE);
  });
}

TEST(MappedMemory, CountsWhereItLiesWhateverContextIsCurrent) {
  on_machine("2", [] {
    const CUcontext first = current(), second = context_on(1);
    const size_t there = free_memory();
    OK(cuCtxSetCurrent(first));
    const size_t here = free_memory();
    const CUmemGenericAllocationHandle memory = memory_of(64 * kMiB, 1);
    EXPECT_EQ(free_memory(), here);
    OK(cuCtxSetCurrent(second));
    EXPECT_EQ(there - free_memory(), 64 * kMiB);
    OK(cuCtxSetCurrent(nullptr));
    OK(cuMemRelease(memory));  // needs none
    OK(cuCtxSetCurrent(second));
    EXPECT_EQ(free_memory(), there);
  });
}

TEST(MappedMemory, MayBeTheHosts) {
  on_machine("1", [] {
    const size_t before = free_memory();
    CUmemAllocationProp props = props_on(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    CUmemGenericAllocationHandle memory = 0;
    OK(cuMemCreate(&memory, kStep, &props, 0));
    EXPECT_EQ(free_memory(), before);
    const CUdeviceptr address = reserved(kStep);
    OK(cuMemMap(address, kStep, 0, memory, 0));
    const CUmemAccessDesc access[] = {
        {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}, access_of(0)};
    OK(cuMemSetAccess(address, kStep, access, 2));
    memset(reinterpret_cast<void*>(address), 5, kStep);
    EXPECT_EQ(reach(current(), address), kReadsAndWrites);
    CUmemAllocationProp told{};
    OK(cuMemGetAllocationPropertiesFromHandle(&told, memory));
    EXPECT_EQ(told.location.type, CU_MEM_LOCATION_TYPE_HOST_NUMA);
    // A GPU's memory is not opened to the host.
    const CUdeviceptr other = reserved(kStep);
    OK(cuMemMap(other, kStep, 0, memory_of(kStep), 0));
    EXPECT_EQ(cuMemSetAccess(other, kStep, access, 2), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(MappedMemory, AddressesAreGivenAsAskedForWhereTheyCan) {
  on_machine("1", [] {
    CUdeviceptr address = 0;
    OK(cuMemAddressReserve(&address, kStep, 64 * kMiB, 0, 0));
    EXPECT_EQ(address % (64 * kMiB), 0u);
    OK(cuMemAddressFree(address, kStep));
    CUdeviceptr again = 0, elsewhere = 0;
    OK(cuMemAddressReserve(&again, kStep, 0, address, 0));
    EXPECT_EQ(again, address);
    OK(cuMemAddressReserve(&elsewhere, kStep, 0, address, 0));  // "treats it as a hint"
    EXPECT_NE(elsewhere, address);
    OK(cuMemAddressReserve(&address, size_t{1} << 38, 0, 0, 0));  // more than any card has
    EXPECT_EQ(cuMemAddressReserve(&address, SIZE_MAX / 4096 * 4096, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAddressReserve(&address, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressReserve(&address, 1000, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressReserve(&address, kStep, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressReserve(&address, kStep, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressReserve(nullptr, kStep, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressFree(again, 2 * kStep), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressFree(again + 4096, kStep), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(MappedMemory, RefusesWhatIsDocumentedAsWrong) {
  on_machine("1", [] {
    CUmemGenericAllocationHandle memory = 0;
    CUmemAllocationProp props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    EXPECT_EQ(cuMemCreate(&memory, kStep - 4096, &props, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemCreate(&memory, 0, &props, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemCreate(&memory, kStep, &props, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemCreate(&memory, kStep, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemCreate(&memory, size_t{1} << 50, &props, 0), CUDA_ERROR_OUT_OF_MEMORY);
    props.location.id = 1;
    EXPECT_EQ(cuMemCreate(&memory, kStep, &props, 0), CUDA_ERROR_INVALID_DEVICE);
    props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    props.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    EXPECT_EQ(cuMemCreate(&memory, kStep, &props, 0), CUDA_ERROR_INVALID_VALUE);
    props = props_on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    EXPECT_EQ(cuMemCreate(&memory, kStep, &props, 0), CUDA_ERROR_NOT_SUPPORTED);
    props = props_on(CU_MEM_LOCATION_TYPE_HOST, 0);
    props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    EXPECT_EQ(cuMemCreate(&memory, kStep, &props, 0), CUDA_ERROR_INVALID_VALUE);
    props = props_on(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0);
    EXPECT_EQ(cuMemCreate(&memory, kStep, &props, 0), CUDA_ERROR_INVALID_VALUE);

    memory = memory_of(2 * kStep);
    const CUdeviceptr address = reserved(4 * kStep);
    EXPECT_EQ(cuMemMap(address, kStep, kStep, memory, 0),
              CUDA_ERROR_INVALID_VALUE);  // "currently must be zero"
    EXPECT_EQ(cuMemMap(address, 3 * kStep, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(address + 4096, kStep, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(address + 3 * kStep, 2 * kStep, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(0x10000000, kStep, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(address, kStep, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(address + kStep, 2 * kStep, 0, memory, 0));
    EXPECT_EQ(cuMemMap(address + 2 * kStep, kStep, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(address, 2 * kStep, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
    CUmemAccessDesc access = access_of(1);
    EXPECT_EQ(cuMemSetAccess(address + kStep, 2 * kStep, &access, 1), CUDA_ERROR_INVALID_DEVICE);
    access = access_of(0, static_cast<CUmemAccess_flags>(2));
    EXPECT_EQ(cuMemSetAccess(address + kStep, 2 * kStep, &access, 1), CUDA_ERROR_INVALID_VALUE);
    int descriptor = -1;
    EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              CUDA_ERROR_INVALID_VALUE);  // not asked for when it was made
    EXPECT_EQ(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t{0}),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              CUDA_ERROR_INVALID_VALUE);
    int can = -1;
    OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    EXPECT_EQ(can, 0);
    OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
    EXPECT_EQ(can, 0);
  });
}

TEST(MappedMemory, ThatAnotherProcessMapsIsOneAndIsHeldByEither) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t importer = start({{"GPUFENCE_SIM", "2"}, {"CUDA_VISIBLE_DEVICES", "1,0"}}, [&] {
    close(ends[0]);
    OK(cuInit(0));
    context_on(1);
    const int descriptor = receive_descriptor(ends[1]);
    CUmemGenericAllocationHandle memory = 0;
    OK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t{descriptor}),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    const CUdeviceptr address = reserved(kStep);
    OK(cuMemMap(address, kStep, 0, memory, 0));
    open_to(address, kStep, 1);
    int value = 0;
    OK(cuMemcpyDtoH(&value, address + 4096, sizeof value));
    EXPECT_EQ(value, 4711);
    value = 1147;
    OK(cuMemcpyHtoD(address + 8192, &value, sizeof value));
    tell(ends[1], 'w');
    EXPECT_EQ(hear(ends[1]), 'r');  // the exporter has released it
    OK(cuMemcpyDtoH(&value, address + 4096, sizeof value));
    EXPECT_EQ(value, 4711);
    OK(cuMemUnmap(address, kStep));
    OK(cuMemRelease(memory));
    tell(ends[1], 'd');
    EXPECT_EQ(hear(ends[1]), 'e');
  });
  const pid_t exporter = start({{"GPUFENCE_SIM", "2"}}, [&] {
    close(ends[1]);
    OK(cuInit(0));
    context_on(0);
    const CUmemGenericAllocationHandle memory = memory_of(kStep, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const CUdeviceptr address = reserved(kStep);
    OK(cuMemMap(address, kStep, 0, memory, 0));
    open_to(address, kStep, 0);
    int value = 4711, descriptor = -1;
    OK(cuMemcpyHtoD(address + 4096, &value, sizeof value));  // before it is exported, and afterwards the same
    OK(cuMemExportToShareableHandle(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    unsigned long long types = 0;
    OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
    EXPECT_EQ(types, static_cast<unsigned long long>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    send_descriptor(ends[0], descriptor);
    close(descriptor);
    EXPECT_EQ(hear(ends[0]), 'w');
    OK(cuMemcpyDtoH(&value, address + 8192, sizeof value));
    EXPECT_EQ(value, 1147);
    const size_t held = free_memory();
    OK(cuMemUnmap(address, kStep));
    OK(cuMemRelease(memory));
    EXPECT_EQ(free_memory(), held);  // the other still has it
    tell(ends[0], 'r');
    EXPECT_EQ(hear(ends[0]), 'd');
    EXPECT_EQ(free_memory() - held, kStep);
    tell(ends[0], 'e');
  });
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(finish(importer), 0);
  EXPECT_EQ(finish(exporter), 0);
}

}  // namespace
}  // namespace gpufence::sim
