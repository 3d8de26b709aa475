// Linear memory: allocation, copies, memsets, and what can be asked of a pointer.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "driver.h"

namespace conform {
namespace {

std::vector<uint8_t> rising(size_t count) {
  std::vector<uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

CONFORMS(Base, NothingCannotBeAllocated,
         "cuda.h, cuMemAlloc: if bytesize is 0, returns CUDA_ERROR_INVALID_VALUE") {
  Primary here;
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(nullptr, 16), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, AddressesAreAlignedTo256,
         "CUDA C++ Programming Guide, Device Memory Accesses: any address of a variable returned by one of "
         "the memory allocation "
         "routines is always aligned to at least 256 bytes") {
  Primary here;
  for (const size_t bytes : {1, 3, 100, 5000}) EXPECT_EQ(Memory(bytes) % 256, 0u);
}

CONFORMS(Base, WhatIsTakenIsMissing,
         "cuda.h, cuMemGetInfo: *free the amount of memory on the device that is free according to the OS") {
  Primary here;
  size_t before = 0, during = 0, after = 0, total = 0;
  OK(cuMemGetInfo(&before, &total));
  {
    Memory memory(512 * kMiB);
    OK(cuMemGetInfo(&during, &total));
  }
  OK(cuMemGetInfo(&after, &total));
  EXPECT_GE(before - during, 512 * kMiB);
  EXPECT_GE(after, during + 512 * kMiB);
}

CONFORMS(Base, MoreThanThereIsIsOutOfMemory,
         "cuda.h, CUDA_ERROR_OUT_OF_MEMORY: the API call failed because it was unable to allocate enough "
         "memory or other resources "
         "to perform the requested operation") {
  Primary here;
  size_t free = 0, total = 0;
  OK(cuMemGetInfo(&free, &total));
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAlloc(&memory, 2 * total), CUDA_ERROR_OUT_OF_MEMORY);
  Memory less(kMiB);
  EXPECT_NE(CUdeviceptr{less}, 0u);
}

CONFORMS(Base, MemoryIsFreedOnce,
         "cuda.h, cuMemFree: dptr must have been returned by a previous call to one of the memory allocation "
         "APIs; "
         "CUDA_ERROR_INVALID_VALUE") {
  Primary here;
  CUdeviceptr memory = 0;
  OK(cuMemAlloc(&memory, kMiB));
  EXPECT_EQ(cuMemFree(memory + 256), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(memory));
  EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, ARangeIsFoundFromWithin,
         "cuda.h, cuMemGetAddressRange: the base address and size of the allocation that contains the input "
         "pointer; both parameters "
         "are optional, if one of them is NULL, it is ignored") {
  Primary here;
  Memory memory(3 * kMiB);
  CUdeviceptr base = 0, alone = 0;
  size_t size = 0, only = 0;
  OK(cuMemGetAddressRange(&base, &size, memory + kMiB + 5));
  EXPECT_EQ(base, CUdeviceptr{memory});
  EXPECT_EQ(size, 3 * kMiB);
  OK(cuMemGetAddressRange(&alone, nullptr, memory + 1));
  EXPECT_EQ(alone, base);
  OK(cuMemGetAddressRange(nullptr, &only, memory + 1));
  EXPECT_EQ(only, size);
}

CONFORMS(Base, PitchedRowsAreAligned,
         "cuda.h, cuMemAllocPitch: allocates at least WidthInBytes * Height bytes; the byte alignment of the "
         "pitch is guaranteed to match or "
         "exceed the alignment requirement for texture binding; ElementSizeBytes may be 4, 8 or 16") {
  Primary here;
  CUdeviceptr memory = 0;
  size_t pitch = 0;
  OK(cuMemAllocPitch(&memory, &pitch, 1000, 7, 4));
  EXPECT_GE(pitch, 1000u);
  EXPECT_EQ(pitch % static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT)), 0u);
  size_t size = 0;
  OK(cuMemGetAddressRange(nullptr, &size, memory));
  EXPECT_GE(size, 1000u * 7);
  OK(cuMemFree(memory));
  EXPECT_EQ(cuMemAllocPitch(&memory, &pitch, 1000, 7, 5), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, RectanglesAreCopied,
         "cuda.h, cuMemcpy2DUnaligned: WidthInBytes and Height specify the width (in bytes) and height of "
         "the 2D copy; Start = "
         "srcDevice + srcY*srcPitch + srcXInBytes; also for pitches not computed by cuMemAllocPitch()") {
  Primary here;
  Memory from(16 * 16), to(8 * 32);
  from.write(rising(256));
  OK(cuMemsetD8(to, 0xff, 8 * 32));
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.srcPitch = 16;
  copy.srcXInBytes = 3;
  copy.srcY = 2;
  copy.dstDevice = to;
  copy.dstPitch = 32;
  copy.dstXInBytes = 1;
  copy.dstY = 1;
  copy.WidthInBytes = 4;
  copy.Height = 3;
  OK(cuMemcpy2DUnaligned(&copy));
  const std::vector<uint8_t> seen = to.read<uint8_t>();
  std::vector<uint8_t> expected(8 * 32, 0xff);
  for (size_t row = 0; row < 3; ++row)
    for (size_t i = 0; i < 4; ++i)
      expected[(row + 1) * 32 + 1 + i] = static_cast<uint8_t>((row + 2) * 16 + 3 + i);
  EXPECT_EQ(seen, expected);
}

CONFORMS(Base, ARowIsNoLongerThanItsPitch,
         "cuda.h, cuMemcpy2D: if specified, srcPitch must be greater than or equal to WidthInBytes + "
         "srcXInBytes, and dstPitch must be "
         "greater than or equal to WidthInBytes + dstXInBytes") {
  Primary here;
  Memory memory(4096);
  char host[64] = {};
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host;
  copy.srcPitch = 8;
  copy.srcXInBytes = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.dstPitch = 16;
  copy.WidthInBytes = 8;
  copy.Height = 2;
  EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.srcXInBytes = 0;
  OK(cuMemcpy2D(&copy));
}

CONFORMS(Base, BoxesAreCopied,
         "cuda.h, cuMemcpy3D: WidthInBytes, Height and Depth; Start = srcDevice + "
         "(srcZ*srcHeight+srcY)*srcPitch + srcXInBytes") {
  Primary here;
  Memory from(8 * 4 * 3);
  from.write(rising(96));
  std::vector<uint8_t> to(2 * 2 * 2, 0);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.srcPitch = 8;
  copy.srcHeight = 4;
  copy.srcXInBytes = 5;
  copy.srcY = 1;
  copy.srcZ = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to.data();
  copy.dstPitch = 2;
  copy.dstHeight = 2;
  copy.WidthInBytes = copy.Height = copy.Depth = 2;
  OK(cuMemcpy3D(&copy));
  EXPECT_EQ(to, (std::vector<uint8_t>{45, 46, 53, 54, 77, 78, 85, 86}));
}

CONFORMS(Base, CopiesFindOutWhatPointersAre,
         "cuda.h, cuMemcpy: infers the type of the transfer (host to host, host to device, device to device, "
         "or device to host) from "
         "the pointer values") {
  Primary here;
  std::vector<uint8_t> from = rising(100), to(100, 0);
  Memory first(100), second(100);
  OK(cuMemcpy(first, reinterpret_cast<CUdeviceptr>(from.data()), 100));
  OK(cuMemcpy(second, first, 100));
  OK(cuMemcpy(reinterpret_cast<CUdeviceptr>(to.data()), second, 100));
  EXPECT_EQ(to, from);
}

CONFORMS(
    Base, AsynchronousCopiesFollowTheirStream,
    "cuda.h, cuMemcpyHtoDAsync: copies from host memory to device memory; asynchronous, in stream hStream") {
  Primary here;
  Stream stream;
  uint32_t* host = nullptr;
  OK(cuMemHostAlloc(reinterpret_cast<void**>(&host), 8, 0));
  host[0] = 77;
  host[1] = 0;
  Memory word(4);
  Gate gate;
  OK(gate.hold(stream));
  OK(cuMemcpyHtoDAsync(word, host, 4, stream));
  OK(cuMemcpyDtoHAsync(host + 1, word, 4, stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(host[1], 0u);
  gate.open();
  OK(cuStreamSynchronize(stream));
  EXPECT_EQ(host[1], 77u);
  OK(cuMemFreeHost(host));
}

CONFORMS(Base, CopiesToPageableMemoryReturnWhenDone,
         "CUDA Driver API, API synchronization behavior, Memcpy: for transfers from device to either "
         "pageable or pinned host memory, the "
         "function returns only once the copy has completed") {
  Primary here;
  Memory memory(kMiB);
  OK(cuMemsetD8Async(memory, 0x5a, kMiB, nullptr));
  std::vector<uint8_t> host(kMiB, 0);
  OK(cuMemcpyDtoH(host.data(), memory, kMiB));
  EXPECT_EQ(static_cast<size_t>(std::count(host.begin(), host.end(), uint8_t{0x5a})), kMiB);
}

CONFORMS(Base, MemsetsCountElements,
         "cuda.h, cuMemsetD8, cuMemsetD16, cuMemsetD32: sets the memory range of N 8-, 16- or 32-bit values "
         "to the specified value") {
  Primary here;
  Memory words(16);
  OK(cuMemsetD32(words, 0x01020304, 4));
  OK(cuMemsetD16(words + 4, 0xaabb, 2));
  OK(cuMemsetD8(words + 8, 0x7f, 1));
  EXPECT_EQ(words.read(), (std::vector<uint32_t>{0x01020304, 0xaabbaabb, 0x0102037f, 0x01020304}));
}

CONFORMS(
    Base, MemsetsNeedAlignment,
    "cuda.h, cuMemsetD16: the dstDevice pointer must be two byte aligned; cuMemsetD32: four byte aligned") {
  Primary here;
  Memory words(16);
  EXPECT_EQ(cuMemsetD16(words + 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32(words + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemsetD16(words + 2, 1, 1));
}

CONFORMS(Base, MemsetsOfRowsLeaveTheRest,
         "cuda.h, cuMemsetD2D8: Height specifies the number of rows to set, and dstPitch specifies the "
         "number of bytes between each row") {
  Primary here;
  Memory memory(32);
  OK(cuMemsetD8(memory, 0, 32));
  OK(cuMemsetD2D8(memory + 1, 8, 9, 3, 3));
  EXPECT_EQ(memory.read<uint8_t>(), (std::vector<uint8_t>{0, 9, 9, 9, 0, 0, 0, 0, 0, 9, 9, 9, 0, 0, 0, 0,
                                                          0, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

template <class T>
T told(CUpointer_attribute which, CUdeviceptr address) {
  T value{};
  OK(cuPointerGetAttribute(&value, which, address));
  return value;
}

CONFORMS(Base, PointersTellWhereTheyPoint,
         "cuda.h, cuPointerGetAttribute: CU_POINTER_ATTRIBUTE_CONTEXT the CUcontext in which ptr was "
         "allocated, _MEMORY_TYPE the physical "
         "memory type, _DEVICE_ORDINAL the device against which the memory was allocated") {
  Primary here;
  Memory memory(64);
  EXPECT_EQ(told<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, memory + 3), here.context);
  EXPECT_EQ(told<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 3),
            static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory + 3), 0);
  EXPECT_EQ(told<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory + 3), memory + 3);
}

CONFORMS(Base, PointersTellTheirRange,
         "cuda.h, cuPointerGetAttribute: CU_POINTER_ATTRIBUTE_RANGE_START_ADDR the starting address for the "
         "allocation referenced by the "
         "device pointer, _RANGE_SIZE its size, _MAPPED whether it is mapped to a backing allocation") {
  Primary here;
  Memory memory(3000);
  EXPECT_EQ(told<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, memory + 2999), CUdeviceptr{memory});
  EXPECT_EQ(told<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, memory), 3000u);
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_MAPPED, memory), 1);
}

CONFORMS(Base, BufferIdsAreNeverReused,
         "cuda.h, cuPointerGetAttribute: CU_POINTER_ATTRIBUTE_BUFFER_ID: every memory allocation will have a "
         "unique ID over a process "
         "lifetime; subsequent allocations do not reuse IDs from previous freed allocations") {
  Primary here;
  std::set<unsigned long long> ids;
  for (int i = 0; i < 4; ++i) {
    Memory memory(1024);
    EXPECT_TRUE(ids.insert(told<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, memory)).second);
  }
}

CONFORMS(Base, DeviceMemoryHasNoHostPointer,
         "cuda.h, cuPointerGetAttribute: CU_POINTER_ATTRIBUTE_HOST_POINTER: if there exists no host pointer "
         "value through which the host "
         "program may directly access ptr then CUDA_ERROR_INVALID_VALUE is returned") {
  Primary here;
  Memory memory(64);
  void* host = nullptr;
  EXPECT_EQ(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory),
            CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, OrdinaryPointersAreUnknown,
         "cuda.h, cuPointerGetAttribute: if ptr was not allocated by, mapped by, or registered with a "
         "CUcontext which uses unified virtual "
         "addressing then CUDA_ERROR_INVALID_VALUE is returned") {
  Primary here;
  std::vector<char> ordinary(64);
  unsigned type = 0;
  CUcontext context = nullptr;
  const auto address = reinterpret_cast<CUdeviceptr>(ordinary.data());
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, AskingForSeveralNeverFailsForAPointer,
         "cuda.h, cuPointerGetAttributes: unlike cuPointerGetAttribute, this function will not return an "
         "error when the ptr encountered is "
         "not a valid CUDA pointer; the attributes are assigned default NULL values and CUDA_SUCCESS is "
         "returned") {
  Primary here;
  std::vector<char> ordinary(64);
  CUcontext context = here.context;
  unsigned type = 99;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  void* data[] = {&context, &type};
  OK(cuPointerGetAttributes(2, which, data, reinterpret_cast<CUdeviceptr>(ordinary.data())));
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(type, 0u);
  Memory memory(64);
  OK(cuPointerGetAttributes(2, which, data, memory));
  EXPECT_EQ(context, here.context);
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
}

CONFORMS(Base, SynchronousMemopsCanBeAskedFor,
         "cuda.h, cuPointerSetAttribute: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: a boolean attribute that can "
         "either be set (1) or unset (0)") {
  Primary here;
  Memory memory(64);
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory), 0);
  unsigned on = 1;
  OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory), 1);
}

}  // namespace
}  // namespace conform
