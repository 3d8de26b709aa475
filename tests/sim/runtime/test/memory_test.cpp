// Arrays and pools through the stand-in runtime: its own words for formats and extents, and its own units.
// Every test runs alone, in a fresh process (ctest), on two simulated GPUs with NVLink. Source:
// cuda_runtime_api.h.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace {

#define OK(call) EXPECT_EQ(call, cudaSuccess)

// Those of driver_functions.h are for nvcc.
cudaExtent extent_of(size_t width, size_t height, size_t depth) {
  return {width, height, depth};
}
cudaPos at(size_t x, size_t y, size_t z) {
  return {x, y, z};
}
cudaPitchedPtr pitched(void* memory, size_t pitch, size_t width, size_t height) {
  return {memory, pitch, width, height};
}

std::vector<unsigned short> counting(size_t count) {
  std::vector<unsigned short> values(count);
  std::iota(values.begin(), values.end(), static_cast<unsigned short>(1));
  return values;
}

TEST(RuntimeArrays, AreDescribedAsTheyWereMade) {
  struct Case {
    int x, y, z, w;
    cudaChannelFormatKind kind;
    size_t bytes;
  };
  for (const Case& c : {Case{8, 0, 0, 0, cudaChannelFormatKindUnsigned, 1},
                        {16, 16, 0, 0, cudaChannelFormatKindSigned, 4},
                        {16, 0, 0, 0, cudaChannelFormatKindFloat, 2},
                        {32, 32, 32, 32, cudaChannelFormatKindFloat, 16},
                        {8, 8, 8, 8, cudaChannelFormatKindUnsignedNormalized8X4, 4},
                        {16, 16, 0, 0, cudaChannelFormatKindSignedNormalized16X2, 4}}) {
    const cudaChannelFormatDesc d = cudaCreateChannelDesc(c.x, c.y, c.z, c.w, c.kind);
    cudaArray_t array = nullptr;
    size_t before = 0, after = 0, total = 0;
    OK(cudaMemGetInfo(&before, &total));
    OK(cudaMallocArray(&array, &d, 20, 10, cudaArraySurfaceLoadStore));
    OK(cudaMemGetInfo(&after, &total));
    EXPECT_EQ(before - after, 200 * c.bytes);
    cudaChannelFormatDesc told{};
    cudaExtent extent{};
    unsigned flags = 0;
    OK(cudaArrayGetInfo(&told, &extent, &flags, array));
    EXPECT_EQ(told.x, c.x);
    EXPECT_EQ(told.y, c.y);
    EXPECT_EQ(told.z, c.z);
    EXPECT_EQ(told.w, c.w);
    EXPECT_EQ(told.f, c.kind);
    EXPECT_EQ(extent.width, 20u);
    EXPECT_EQ(extent.height, 10u);
    EXPECT_EQ(extent.depth, 0u);
    EXPECT_EQ(flags, static_cast<unsigned>(cudaArraySurfaceLoadStore));
    OK(cudaFreeArray(array));
    EXPECT_EQ(cudaFreeArray(array), cudaErrorInvalidResourceHandle);
  }
  OK(cudaFreeArray(nullptr));
  cudaArray_t array = nullptr;
  for (const cudaChannelFormatDesc& wrong :
       {cudaCreateChannelDesc(8, 8, 8, 0, cudaChannelFormatKindUnsigned),
        cudaCreateChannelDesc(8, 16, 0, 0, cudaChannelFormatKindUnsigned),
        cudaCreateChannelDesc(12, 0, 0, 0, cudaChannelFormatKindUnsigned),
        cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindFloat),
        cudaCreateChannelDesc(0, 8, 0, 0, cudaChannelFormatKindUnsigned),
        cudaCreateChannelDesc(0, 0, 0, 0, cudaChannelFormatKindNone)})
    EXPECT_EQ(cudaMallocArray(&array, &wrong, 4, 4, 0), cudaErrorInvalidChannelDescriptor);
}

TEST(RuntimeArrays, TellOfTheMemoryThatTheyGetLater) {
  const cudaChannelFormatDesc d = cudaCreateChannelDesc(32, 32, 0, 0, cudaChannelFormatKindFloat);
  cudaArray_t sparse = nullptr, deferred = nullptr, level = nullptr;
  cudaMipmappedArray_t levels = nullptr, all = nullptr;
  OK(cudaMallocArray(&sparse, &d, 256, 256, cudaArraySparse));
  OK(cudaMallocArray(&deferred, &d, 100, 100, cudaArrayDeferredMapping));
  OK(cudaMallocMipmappedArray(&levels, &d, extent_of(256, 64, 0), 9, cudaArraySparse));
  OK(cudaMallocMipmappedArray(&all, &d, extent_of(256, 64, 0), 9, cudaArrayDeferredMapping));
  cudaArraySparseProperties told{};
  OK(cudaArrayGetSparseProperties(&told, sparse));
  EXPECT_EQ(told.tileExtent.width, 128u);
  EXPECT_EQ(told.tileExtent.height, 64u);
  EXPECT_EQ(told.tileExtent.depth, 1u);
  EXPECT_EQ(told.flags, 0u);
  OK(cudaMipmappedArrayGetSparseProperties(&told, levels));
  EXPECT_EQ(told.miptailFirstLevel, 1u);  // 128 × 32
  EXPECT_EQ(told.miptailSize, 65536u);
  EXPECT_EQ(cudaArrayGetSparseProperties(&told, deferred), cudaErrorInvalidValue);
  OK(cudaGetMipmappedArrayLevel(&level, levels, 0));
  EXPECT_EQ(cudaArrayGetSparseProperties(&told, level), cudaErrorInvalidValue);
  EXPECT_EQ(cudaArrayGetSparseProperties(nullptr, sparse), cudaErrorInvalidValue);
  cudaArrayMemoryRequirements needs{};
  OK(cudaArrayGetMemoryRequirements(&needs, deferred, 0));
  EXPECT_EQ(needs.size, 131072u);  // 80,000 bytes in steps of 64 KiB
  EXPECT_EQ(needs.alignment, 65536u);
  OK(cudaMipmappedArrayGetMemoryRequirements(&needs, all, 0));
  EXPECT_EQ(needs.size, 196608u);  // 131,072 bytes of the first level, and less than 65,536 of the others
  EXPECT_EQ(cudaArrayGetMemoryRequirements(&needs, sparse, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaArrayGetMemoryRequirements(&needs, deferred, 7), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaArrayGetMemoryRequirements(nullptr, deferred, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMipmappedArrayGetMemoryRequirements(&needs, levels, 0), cudaErrorInvalidValue);
  cudaGetLastError();
  OK(cudaFreeMipmappedArray(levels));
  OK(cudaFreeMipmappedArray(all));
  OK(cudaFreeArray(sparse));
  OK(cudaFreeArray(deferred));
}

TEST(RuntimeArrays, CopiesOfTwoDimensionsCountBytesInARowAndRows) {
  const cudaChannelFormatDesc d = cudaCreateChannelDesc(16, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr, other = nullptr;
  OK(cudaMallocArray(&array, &d, 10, 6, 0));
  OK(cudaMallocArray(&other, &d, 10, 6, 0));
  const auto values = counting(60);
  OK(cudaMemcpy2DToArray(array, 0, 0, values.data(), 20, 20, 6, cudaMemcpyHostToDevice));
  // The 4 × 3 elements from (2, 1) on, to (6, 3) of the other.
  OK(cudaMemcpy2DArrayToArray(other, 12, 3, array, 4, 1, 8, 3, cudaMemcpyDeviceToDevice));
  std::vector<unsigned short> back(12);
  OK(cudaMemcpy2DFromArray(back.data(), 8, other, 12, 3, 8, 3, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(back[i], values[(1 + i / 4) * 10 + 2 + i % 4]) << i;
  EXPECT_EQ(cudaMemcpy2DToArray(array, 2, 0, values.data(), 20, 20, 6, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy2DToArray(array, 0, 0, values.data(), 10, 20, 6, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpy2DToArray(array, 0, 0, values.data(), 20, 20, 6, cudaMemcpyDeviceToHost),
            cudaErrorInvalidMemcpyDirection);
}

TEST(RuntimeArrays, AStretchRunsOnIntoTheNextRows) {
  const cudaChannelFormatDesc d = cudaCreateChannelDesc(16, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  OK(cudaMallocArray(&array, &d, 10, 6, 0));
  const auto values = counting(60);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  OK(cudaMemcpyToArray(array, 0, 0, values.data(), 120, cudaMemcpyHostToDevice));
  std::vector<unsigned short> back(35);
  OK(cudaMemcpyFromArray(back.data(), array, 14, 1, 70, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, std::vector<unsigned short>(values.begin() + 17, values.begin() + 52));
  EXPECT_EQ(cudaMemcpyToArray(array, 0, 5, values.data(), 22, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
#pragma GCC diagnostic pop
}

TEST(RuntimeArrays, CopiesOfThreeDimensionsCountElementsOfTheArray) {
  const cudaChannelFormatDesc d = cudaCreateChannelDesc(16, 16, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  OK(cudaMalloc3DArray(&array, &d, extent_of(5, 4, 3), 0));
  auto values = counting(5 * 4 * 3 * 2);
  cudaMemcpy3DParms in{};
  in.srcPtr = pitched(values.data(), 20, 20, 4);
  in.dstArray = array;
  in.extent = extent_of(5, 4, 3);
  in.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&in));
  std::vector<unsigned short> back(2 * 2 * 2 * 2);
  cudaMemcpy3DParms out{};
  out.srcArray = array;
  out.srcPos = at(3, 1, 1);
  out.dstPtr = pitched(back.data(), 8, 8, 2);
  out.extent = extent_of(2, 2, 2);
  out.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3D(&out));
  for (size_t i = 0; i < back.size(); ++i) {
    const size_t element = i / 2, x = 3 + element % 2, y = 1 + element / 2 % 2, z = 1 + element / 4;
    EXPECT_EQ(back[i], values[((z * 4 + y) * 5 + x) * 2 + i % 2]) << i;
  }
  out.srcPos = at(4, 1, 1);
  EXPECT_EQ(cudaMemcpy3D(&out), cudaErrorInvalidValue);
  // Elements of four bytes, whose bytes are beyond 2^64.
  out.srcPos = at(0x4000'0000'0000'0003, 1, 1);
  EXPECT_EQ(cudaMemcpy3D(&out), cudaErrorInvalidValue);
  out.srcPos = at(3, 1, 1);
  out.extent.width = 0x4000'0000'0000'0002;
  EXPECT_EQ(cudaMemcpy3D(&out), cudaErrorInvalidValue);
  // Between arrays whose elements differ in size there is no copy.
  const cudaChannelFormatDesc small = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t other = nullptr;
  OK(cudaMalloc3DArray(&other, &small, extent_of(5, 4, 3), 0));
  cudaMemcpy3DParms across{};
  across.srcArray = array;
  across.dstArray = other;
  across.extent = extent_of(2, 2, 2);
  across.kind = cudaMemcpyDeviceToDevice;
  EXPECT_EQ(cudaMemcpy3D(&across), cudaErrorInvalidValue);
}

// driver_types.h, cudaErrorInvalidValue: "one or more of the parameters passed to the API call is not within
// an acceptable range of values". Slices, and rows in all, beyond 2^64.
TEST(RuntimeMemory, AFillOfSlicesBeyondAllAddressesIsRefused) {
  void* memory = nullptr;
  OK(cudaMalloc(&memory, 4096));
  OK(cudaMemset(memory, 0, 4096));
  constexpr size_t kHalf = 0x1'0000'0000;
  const auto fill = [&](cudaPitchedPtr to, cudaExtent extent) {
    const cudaError_t result = cudaMemset3D(to, 1, extent);
    EXPECT_EQ(cudaGetLastError(), result);
    EXPECT_EQ(cudaMemset3DAsync(to, 1, extent, nullptr), result);
    cudaGetLastError();
    return result;
  };
  EXPECT_EQ(fill(pitched(memory, kHalf, 1, kHalf), extent_of(1, 1, 2)), cudaErrorInvalidValue);
  EXPECT_EQ(fill(pitched(memory, 16, 1, kHalf), extent_of(1, kHalf, kHalf)), cudaErrorInvalidValue);
  char byte = 7;
  OK(cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost));
  EXPECT_EQ(byte, 0);
  EXPECT_EQ(fill(pitched(memory, kHalf, 1, kHalf), extent_of(1, 1, 1)), cudaSuccess);
  OK(cudaFree(memory));
}

TEST(RuntimeMemory, MoreRowsInAllThanThereCanBeAreOutOfMemory) {
  cudaPitchedPtr out{};
  EXPECT_EQ(cudaMalloc3D(&out, extent_of(1, 0x1'0000'0000, 0x1'0000'0001)), cudaErrorMemoryAllocation);
  EXPECT_EQ(out.ptr, nullptr);
}

TEST(RuntimeArrays, MipmappedOnesGiveTheirLevels) {
  const cudaChannelFormatDesc d = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  cudaMipmappedArray_t whole = nullptr;
  OK(cudaMallocMipmappedArray(&whole, &d, extent_of(16, 16, 0), 3, 0));
  cudaArray_t level = nullptr;
  cudaExtent extent{};
  OK(cudaGetMipmappedArrayLevel(&level, whole, 2));
  OK(cudaArrayGetInfo(nullptr, &extent, nullptr, level));
  EXPECT_EQ(extent.width, 4u);
  EXPECT_EQ(extent.height, 4u);
  EXPECT_EQ(cudaGetMipmappedArrayLevel(&level, whole, 3), cudaErrorInvalidValue);
  OK(cudaFreeMipmappedArray(whole));
}

TEST(RuntimePools, GiveAndTakeInStreamOrder) {
  cudaDeviceProp properties{};
  OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT_EQ(properties.memoryPoolsSupported, 1);
  EXPECT_EQ(properties.memoryPoolSupportedHandleTypes,
            static_cast<unsigned>(cudaMemHandleTypePosixFileDescriptor));
  cudaMemPool_t pool = nullptr;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreate(&stream));
  void *memory = nullptr, *again = nullptr;
  OK(cudaMallocAsync(&memory, 4096, stream));
  OK(cudaMemsetAsync(memory, 7, 4096, stream));
  std::vector<unsigned char> back(4096);
  OK(cudaMemcpyAsync(back.data(), memory, 4096, cudaMemcpyDeviceToHost, stream));
  OK(cudaFreeAsync(memory, stream));
  OK(cudaMallocAsync(&again, 4096, stream));
  EXPECT_EQ(again, memory);
  OK(cudaStreamSynchronize(stream));
  EXPECT_TRUE(std::all_of(back.begin(), back.end(), [](unsigned char c) { return c == 7; }));
  cuuint64_t used = 0;
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 4096u);
  OK(cudaFree(again));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 0u);

  // Of the other GPU, and opened to this one.
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 1};
  cudaMemPool_t other = nullptr;
  OK(cudaMemPoolCreate(&other, &props));
  EXPECT_EQ(cudaDeviceSetMemPool(0, other), cudaErrorInvalidValue);
  OK(cudaDeviceSetMemPool(1, other));
  cudaMemAccessDesc access{};
  access.location = {cudaMemLocationTypeDevice, 0};
  access.flags = cudaMemAccessFlagsProtReadWrite;
  OK(cudaMemPoolSetAccess(other, &access, 1));
  OK(cudaMallocFromPoolAsync(&memory, 512, other, stream));
  cudaPointerAttributes attributes{};
  OK(cudaPointerGetAttributes(&attributes, memory));
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  OK(cudaFreeAsync(memory, stream));
  OK(cudaMemPoolDestroy(other));
  EXPECT_EQ(cudaDeviceGetMemPool(&pool, 2), cudaErrorInvalidDevice);
  OK(cudaStreamSynchronize(stream));
}

}  // namespace
