// Arrays that get their memory later: what they tell of tiles, what is mapped where, and what is read where
// nothing is. Source: cuda.h, cuMemMapArrayAsync, cuArrayGetSparseProperties, cuArrayGetMemoryRequirements.
#include <cuda.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "gate.h"
#include "gpus.h"
#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)
constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr size_t kTile = 65536, kPool = size_t{2} << 20;

void on_one_gpu(const std::function<void()>& body) {
  in_child({{"GPUFENCE_SIM", "2"}}, [&] {
    OK(cuInit(0));
    context_on(0);
    body();
  });
}

CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth, unsigned flags,
                              CUarray_format format = CU_AD_FORMAT_FLOAT, unsigned channels = 1) {
  return {width, height, depth, format, channels, flags};
}
CUarray array_of(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  CUarray array = nullptr;
  OK(cuArray3DCreate(&array, &d));
  return array;
}

CUmemAllocationProp tiles_on(int device) {
  CUmemAllocationProp props{};
  props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  props.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
  return props;
}
CUmemGenericAllocationHandle pool(int device = 0, size_t bytes = kPool) {
  CUmemGenericAllocationHandle memory = 0;
  const CUmemAllocationProp props = tiles_on(device);
  OK(cuMemCreate(&memory, bytes, &props, 0));
  return memory;
}

CUarrayMapInfo entry(CUarray array, CUmemGenericAllocationHandle memory, unsigned long long offset) {
  CUarrayMapInfo info{};
  info.resourceType = CU_RESOURCE_TYPE_ARRAY;
  info.resource.array = array;
  info.memOperationType = memory != 0 ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
  info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  info.memHandle.memHandle = memory;
  info.offset = offset;
  info.deviceBitMask = 1;
  return info;
}
CUarrayMapInfo entry(CUmipmappedArray array, CUmemGenericAllocationHandle memory, unsigned long long offset) {
  CUarrayMapInfo info = entry(CUarray{}, memory, offset);
  info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  info.resource.mipmap = array;
  return info;
}
// Of level 0.
template <class Array>
CUarrayMapInfo tiles(Array array, CUmemGenericAllocationHandle memory, unsigned long long offset, unsigned x,
                     unsigned y, unsigned width, unsigned height, unsigned layer = 0) {
  CUarrayMapInfo info = entry(array, memory, offset);
  info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  auto& level = info.subresource.sparseLevel;
  level.layer = layer;
  level.offsetX = x;
  level.offsetY = y;
  level.extentWidth = width;
  level.extentHeight = height;
  level.extentDepth = 1;
  return info;
}
template <class Array>
CUarrayMapInfo tail(Array array, CUmemGenericAllocationHandle memory, unsigned long long offset,
                    unsigned layer = 0, unsigned long long bytes = kTile) {
  CUarrayMapInfo info = entry(array, memory, offset);
  info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
  info.subresource.miptail.layer = layer;
  info.subresource.miptail.size = bytes;
  return info;
}
CUresult apply(CUarrayMapInfo info, CUstream stream = nullptr) {
  return cuMemMapArrayAsync(&info, 1, stream);
}

CUDA_MEMCPY3D whole(CUarray array, std::vector<float>& values, size_t width, size_t height, size_t depth) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = copy.dstHost = values.data();
  copy.srcPitch = copy.dstPitch = width * 4;
  copy.srcHeight = copy.dstHeight = height;
  copy.srcArray = copy.dstArray = array;
  copy.WidthInBytes = width * 4;
  copy.Height = height;
  copy.Depth = depth;
  return copy;
}
void write(CUarray array, std::vector<float> values, size_t width, size_t height, size_t depth = 1) {
  CUDA_MEMCPY3D copy = whole(array, values, width, height, depth);
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  OK(cuMemcpy3D(&copy));
}
std::vector<float> read(CUarray array, size_t width, size_t height, size_t depth = 1) {
  std::vector<float> values(width * height * depth, -1);
  CUDA_MEMCPY3D copy = whole(array, values, width, height, depth);
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  OK(cuMemcpy3D(&copy));
  return values;
}
std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

TEST(SparseArrays, TellTheirTilesAndTakeNoMemory) {
  on_one_gpu([] {
    const size_t before = free_memory();
    CUDA_ARRAY_SPARSE_PROPERTIES told{};
    const CUarray flat = array_of(shape(1000, 1000, 0, CUDA_ARRAY3D_SPARSE));
    EXPECT_EQ(free_memory(), before);
    OK(cuArrayGetSparseProperties(&told, flat));
    EXPECT_EQ(told.tileExtent.width * told.tileExtent.height * told.tileExtent.depth * 4, 65536u);
    EXPECT_EQ(told.tileExtent.width, 128u);
    EXPECT_EQ(told.tileExtent.height, 128u);
    EXPECT_EQ(told.tileExtent.depth, 1u);
    EXPECT_EQ(told.miptailSize, 0u);
    EXPECT_EQ(told.miptailFirstLevel, 0u);
    EXPECT_EQ(told.flags, 0u);
    OK(cuArrayGetSparseProperties(
        &told, array_of(shape(64, 64, 64, CUDA_ARRAY3D_SPARSE, CU_AD_FORMAT_UNSIGNED_INT8, 1))));
    EXPECT_EQ(told.tileExtent.width, 64u);
    EXPECT_EQ(told.tileExtent.height, 32u);
    EXPECT_EQ(told.tileExtent.depth, 32u);
    // Smaller than a tile: "miptailSize represents the total size of the array".
    OK(cuArrayGetSparseProperties(&told, array_of(shape(100, 1000, 0, CUDA_ARRAY3D_SPARSE))));
    EXPECT_EQ(told.flags, static_cast<unsigned>(CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL));
    EXPECT_EQ(told.miptailSize, 458752u);  // 400,000 bytes in whole tiles
    EXPECT_EQ(told.miptailFirstLevel, 0u);
    CUmipmappedArray levels = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR d = shape(512, 256, 0, CUDA_ARRAY3D_SPARSE);
    OK(cuMipmappedArrayCreate(&levels, &d, 10));
    OK(cuMipmappedArrayGetSparseProperties(&told, levels));
    EXPECT_EQ(told.miptailFirstLevel, 2u);  // 128 × 64
    EXPECT_EQ(told.miptailSize, 65536u);
    CUarray level = nullptr;
    OK(cuMipmappedArrayGetLevel(&level, levels, 0));
    EXPECT_EQ(cuArrayGetSparseProperties(&told, level), kInvalid);
    EXPECT_EQ(cuArrayGetSparseProperties(&told, array_of(shape(8, 8, 0, 0))), kInvalid);
    EXPECT_EQ(cuArrayGetSparseProperties(nullptr, flat), kInvalid);
    EXPECT_EQ(cuArrayGetSparseProperties(&told, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMipmappedArrayDestroy(levels));
    EXPECT_EQ(cuMipmappedArrayGetSparseProperties(&told, levels), CUDA_ERROR_INVALID_HANDLE);
    int supported = 0;
    OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 0));
    EXPECT_EQ(supported, 1);
    OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 0));
    EXPECT_EQ(supported, 1);
  });
}

TEST(SparseArrays, HoldWhatIsWrittenWhereMemoryIs) {
  on_one_gpu([] {
    // Two by two tiles of 128 × 128.
    const CUarray array = array_of(shape(256, 256, 0, CUDA_ARRAY3D_SPARSE));
    const std::vector<float> values = counting(256 * 256), zeros(256 * 256);
    write(array, values, 256, 256);
    EXPECT_EQ(read(array, 256, 256), zeros);
    const CUmemGenericAllocationHandle memory = pool();
    OK(apply(tiles(array, memory, 0, 128, 0, 128, 128)));
    write(array, values, 256, 256);
    std::vector<float> got = read(array, 256, 256);
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], i / 256 < 128 && i % 256 >= 128 ? values[i] : 0) << i;
    // The same memory at another place is the same bytes.
    OK(apply(tiles(array, memory, 0, 0, 128, 128, 128)));
    got = read(array, 256, 256);
    EXPECT_EQ(got[128 * 256], values[128]);
    EXPECT_EQ(got[255 * 256 + 127], values[127 * 256 + 255]);
    // What is unmapped is zero; the memory keeps what it held.
    OK(apply(tiles(array, 0, 0, 128, 0, 128, 256)));
    EXPECT_EQ(read(array, 256, 256)[128], 0);
    OK(apply(tiles(array, memory, 0, 0, 0, 128, 128)));
    EXPECT_EQ(read(array, 256, 256)[0], values[128]);
    // Several tiles take memory one behind the other, along x first.
    OK(apply(tiles(array, memory, kTile, 0, 0, 256, 256)));
    write(array, values, 256, 256);
    EXPECT_EQ(read(array, 256, 256), values);
    OK(apply(tiles(array, memory, 2 * kTile, 0, 0, 128, 128)));
    EXPECT_EQ(read(array, 256, 256)[0], values[128]);
    // A part of it, from (126, 126) on over all four.
    CUDA_MEMCPY2D copy{};
    std::vector<float> part(16);
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.srcXInBytes = 126 * 4;
    copy.srcY = 126;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = part.data();
    copy.dstPitch = 16;
    copy.WidthInBytes = 16;
    copy.Height = 4;
    OK(cuMemcpy2D(&copy));
    EXPECT_EQ(part[2], values[126 * 256 + 128]);
    EXPECT_EQ(part[15], values[129 * 256 + 129]);
    EXPECT_EQ(cuMemcpyAtoH(part.data(), array, 0, 16), kInvalid) << "of arrays of one dimension";
  });
}

TEST(SparseArrays, EdgesLayersAndThirdDimensions) {
  on_one_gpu([] {
    const CUmemGenericAllocationHandle memory = pool();
    // 200 × 130: the tiles at the edges are parts.
    const CUarray odd = array_of(shape(200, 130, 0, CUDA_ARRAY3D_SPARSE));
    OK(apply(tiles(odd, memory, 0, 128, 128, 72, 2)));
    OK(apply(tiles(odd, memory, kTile, 0, 128, 128, 128)));
    write(odd, counting(200 * 130), 200, 130);
    EXPECT_EQ(read(odd, 200, 130)[129 * 200 + 199], 200 * 130);
    EXPECT_EQ(read(odd, 200, 130)[127 * 200 + 199], 0);
    const CUarray layered = array_of(shape(128, 128, 3, CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_LAYERED));
    OK(apply(tiles(layered, memory, 0, 0, 0, 128, 128, 1)));
    EXPECT_EQ(apply(tiles(layered, memory, 0, 0, 0, 128, 128, 3)), kInvalid);
    write(layered, counting(3 * 128 * 128), 128, 128, 3);
    const std::vector<float> got = read(layered, 128, 128, 3);
    EXPECT_EQ(got[128 * 128 - 1], 0);
    EXPECT_EQ(got[128 * 128], 128 * 128 + 1);
    EXPECT_EQ(got[2 * 128 * 128], 0);
    // Tiles of 32 × 32 × 16.
    const CUarray deep = array_of(shape(64, 32, 32, CUDA_ARRAY3D_SPARSE));
    CUarrayMapInfo info = tiles(deep, memory, 0, 32, 0, 32, 32);
    EXPECT_EQ(apply(info), kInvalid) << "a tile is 16 deep";
    info.subresource.sparseLevel.offsetZ = 16;
    info.subresource.sparseLevel.extentDepth = 16;
    OK(apply(info));
    write(deep, counting(64 * 32 * 32), 64, 32, 32);
    const std::vector<float> volume = read(deep, 64, 32, 32);
    EXPECT_EQ(volume[(16 * 32 + 0) * 64 + 32], (16 * 32) * 64 + 33);
    EXPECT_EQ(volume[(15 * 32 + 31) * 64 + 63], 0);
    EXPECT_EQ(volume[(31 * 32 + 31) * 64 + 31], 0);
    EXPECT_EQ(volume.back(), 64 * 32 * 32);
    // Smaller than a tile: all of it is its tail.
    const CUarray small = array_of(shape(16, 16, 0, CUDA_ARRAY3D_SPARSE));
    EXPECT_EQ(apply(tiles(small, memory, 0, 0, 0, 128, 128)), kInvalid);
    OK(apply(tail(small, memory, 3 * kTile)));
    write(small, counting(256), 16, 16);
    EXPECT_EQ(read(small, 16, 16), counting(256));
  });
}

TEST(SparseArrays, MipmapsEndInATail) {
  on_one_gpu([] {
    const CUmemGenericAllocationHandle memory = pool();
    for (const bool layered : {false, true}) {
      CUmipmappedArray levels = nullptr;
      const CUDA_ARRAY3D_DESCRIPTOR d =
          shape(256, 256, layered ? 2 : 0, CUDA_ARRAY3D_SPARSE | (layered ? CUDA_ARRAY3D_LAYERED : 0u));
      OK(cuMipmappedArrayCreate(&levels, &d, 9));
      CUarrayMapInfo info = tiles(levels, memory, 0, 0, 0, 128, 128, layered ? 1 : 0);
      info.subresource.sparseLevel.level = 1;
      OK(apply(info));
      info.subresource.sparseLevel.level = 2;
      EXPECT_EQ(apply(info), kInvalid) << "in the tail";
      OK(apply(tail(levels, memory, kTile, layered ? 1 : 0)));
      EXPECT_EQ(apply(tail(levels, memory, kTile, 2)), kInvalid);
      EXPECT_EQ(apply(tail(levels, memory, kTile, 0, 2 * kTile)), kInvalid);
      EXPECT_EQ(apply(tail(levels, memory, kTile, 0, 100)), kInvalid);
      const size_t layers = layered ? 2 : 1;
      for (unsigned k = 0; k < 9; ++k) {
        CUarray level = nullptr;
        OK(cuMipmappedArrayGetLevel(&level, levels, k));
        const size_t extent = 256u >> k, texels = extent * extent;
        write(level, counting(layers * texels), extent, extent, layers);
        const std::vector<float> got = read(level, extent, extent, layers);
        EXPECT_EQ(got.back(), k == 0 ? 0 : layers * texels) << k;
        EXPECT_EQ(got.front(), k == 0 || layered ? 0 : 1) << k;
        EXPECT_EQ(apply(tail(level, memory, 0)), kInvalid) << "a level is no array of its own";
      }
      OK(cuMipmappedArrayDestroy(levels));
    }
  });
}

TEST(SparseArrays, RefuseWhatTheDocumentationDoes) {
  on_one_gpu([] {
    const CUarray array = array_of(shape(256, 256, 0, CUDA_ARRAY3D_SPARSE));
    const CUmemGenericAllocationHandle memory = pool(), elsewhere = pool(1);
    const CUarrayMapInfo good = tiles(array, memory, 0, 0, 0, 128, 128);
    OK(apply(good));
    const auto wrong = [&](const std::function<void(CUarrayMapInfo&)>& change) {
      CUarrayMapInfo info = good;
      change(info);
      return apply(info);
    };
    EXPECT_EQ(cuMemMapArrayAsync(nullptr, 1, nullptr), kInvalid);
    CUarrayMapInfo first = good;
    EXPECT_EQ(cuMemMapArrayAsync(&first, 0, nullptr), kInvalid);
    EXPECT_EQ(cuMemMapArrayAsync(&first, 1, reinterpret_cast<CUstream>(8)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(wrong([](auto& i) { i.resource.array = nullptr; }), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(wrong([](auto& i) { i.resource.array = array_of(shape(256, 256, 0, 0)); }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.resourceType = CU_RESOURCE_TYPE_LINEAR; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.memOperationType = static_cast<CUmemOperationType>(3); }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.subresourceType = static_cast<CUarraySparseSubresourceType>(2); }),
              kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.flags = 1; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.reserved[1] = 1; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.deviceBitMask = 0; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.deviceBitMask = 3; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.deviceBitMask = 2; }), kInvalid) << "another device than the stream's";
    EXPECT_EQ(wrong([&](auto& i) { i.memHandle.memHandle = elsewhere; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.memHandle.memHandle = 8; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP; }), kInvalid)
        << "unmapping names no memory";
    EXPECT_EQ(wrong([](auto& i) { i.offset = 4096; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.offset = kPool; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.subresource.sparseLevel.offsetX = 64; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.subresource.sparseLevel.offsetX = 256; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.subresource.sparseLevel.extentHeight = 100; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.subresource.sparseLevel.extentHeight = 0; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.subresource.sparseLevel.level = 1; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.subresource.sparseLevel.layer = 1; }), kInvalid);
    EXPECT_EQ(wrong([](auto& i) { i.subresource.sparseLevel.offsetZ = 1; }), kInvalid);
    EXPECT_EQ(apply(tail(array, memory, 0)), kInvalid) << "it has no tail";
    // All of a list, or nothing.
    CUarrayMapInfo both[2] = {tiles(array, memory, kTile, 128, 128, 128, 128), good};
    both[1].flags = 1;
    EXPECT_EQ(cuMemMapArrayAsync(both, 2, nullptr), kInvalid);
    write(array, counting(256 * 256), 256, 256);
    EXPECT_EQ(read(array, 256, 256).back(), 0);
    // Memory for tiles alone, and tiles in no other.
    CUmemAllocationProp props = tiles_on(0);
    props.allocFlags.usage = 0;
    CUmemGenericAllocationHandle plain = 0;
    OK(cuMemCreate(&plain, kPool, &props, 0));
    EXPECT_EQ(wrong([&](auto& i) { i.memHandle.memHandle = plain; }), kInvalid);
    CUdeviceptr address = 0;
    OK(cuMemAddressReserve(&address, kPool, 0, 0, 0));
    EXPECT_EQ(cuMemMap(address, kPool, 0, memory, 0), kInvalid);
    props.location.type = CU_MEM_LOCATION_TYPE_HOST;
    props.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    EXPECT_EQ(cuMemCreate(&plain, kPool, &props, 0), kInvalid);
  });
}

TEST(SparseArrays, KeepTheMemoryThatLiesInThem) {
  on_one_gpu([] {
    const size_t before = free_memory();
    const CUarray array = array_of(shape(256, 256, 0, CUDA_ARRAY3D_SPARSE));
    const CUmemGenericAllocationHandle memory = pool(), other = pool();
    OK(apply(tiles(array, memory, 0, 0, 0, 256, 128)));
    OK(cuMemRelease(memory));
    EXPECT_EQ(before - free_memory(), 2 * kPool);
    write(array, counting(256 * 256), 256, 256);
    EXPECT_EQ(read(array, 256, 256)[255], 256);
    OK(apply(tiles(array, other, 0, 0, 0, 128, 128)));
    EXPECT_EQ(before - free_memory(), 2 * kPool) << "one tile is left";
    OK(apply(tiles(array, 0, 0, 128, 0, 128, 128)));
    EXPECT_EQ(before - free_memory(), kPool);
    OK(cuMemRelease(other));
    OK(cuArrayDestroy(array));
    EXPECT_EQ(free_memory(), before);
    // So does a context's end.
    CUcontext context = context_on(0);
    const CUmemGenericAllocationHandle third = pool();
    OK(apply(tiles(array_of(shape(256, 256, 0, CUDA_ARRAY3D_SPARSE)), third, 0, 0, 0, 128, 128)));
    OK(cuMemRelease(third));
    OK(cuCtxDestroy(context));
    EXPECT_EQ(free_memory(), before);
  });
}

TEST(SparseArrays, AreMappedInTheOrderOfTheirStream) {
  on_one_gpu([] {
    const CUarray array = array_of(shape(128, 128, 0, CUDA_ARRAY3D_SPARSE));
    const CUmemGenericAllocationHandle memory = pool();
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    Gate gate;
    OK(gate.hold(stream));
    OK(apply(tiles(array, memory, 0, 0, 0, 128, 128), stream));
    write(array, counting(128 * 128), 128, 128);  // in the default stream, which does not wait
    EXPECT_EQ(read(array, 128, 128)[0], 0);
    gate.open();
    OK(cuStreamSynchronize(stream));
    write(array, counting(128 * 128), 128, 128);
    EXPECT_EQ(read(array, 128, 128)[0], 1);
    OK(cuStreamSynchronize(stream));
    CUarrayMapInfo info = tiles(array, 0, 0, 0, 0, 128, 128);
    OK(cuMemMapArrayAsync(&info, 1, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_EQ(read(array, 128, 128)[0], 0);
  });
}

constexpr char kPtx[] = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry look(.param .u64 t, .param .f32 x, .param .u64 out) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [t]; ld.param.f32 %f1, [x]; ld.param.u64 %rd2, [out];
  tex.2d.v4.u32.f32 {%r4, %r5, %r6, %r7}|%p1, [%rd1, {%f1, %f1}];
  selp.u32 %r5, 1, 0, %p1;
  st.global.v2.u32 [%rd2], {%r4, %r5};
  ret;
}
.visible .entry store(.param .u64 s, .param .u32 x, .param .u64 out) {
  .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [s]; ld.param.u32 %r1, [x]; ld.param.u64 %rd2, [out];
  mov.u32 %r2, 0x40e00000;
  sust.b.2d.b32.trap [%rd1, {%r1, 1}], {%r2};
  suld.b.2d.b32.trap {%r3}, [%rd1, {%r1, 1}];
  st.global.u32 [%rd2], %r3;
  ret;
}
)";

TEST(SparseArrays, AreZeroToKernelsWhereNothingIsAndSayIt) {
  on_one_gpu([] {
    CUmodule module = nullptr;
    OK(cuModuleLoadData(&module, kPtx));
    CUdeviceptr out = 0;
    OK(cuMemAlloc(&out, 8));
    const auto run = [&](const char* kernel, std::vector<void*> params) {
      CUfunction function = nullptr;
      OK(cuModuleGetFunction(&function, module, kernel));
      params.push_back(&out);
      OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params.data(), nullptr));
      std::pair<float, unsigned> told{-1.0F, 9};
      OK(cuMemcpyDtoH(&told, out, 8));
      return told;
    };
    const CUarray array = array_of(shape(256, 128, 0, CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_SURFACE_LDST));
    OK(apply(tiles(array, pool(), 0, 128, 0, 128, 128)));
    write(array, counting(256 * 128), 256, 128);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC how{};
    CUtexObject texture = 0;
    OK(cuTexObjectCreate(&texture, &resource, &how, nullptr));
    float x = 127.5F;
    EXPECT_EQ(run("look", {&texture, &x}), (std::pair{0.0F, 0u}));
    x = 130.5F;  // clamped to row 127
    EXPECT_EQ(run("look", {&texture, &x}), (std::pair{127.0F * 256 + 131, 1u}));
    CUsurfObject surface = 0;
    OK(cuSurfObjectCreate(&surface, &resource));
    int byte = 127 * 4;
    EXPECT_EQ(run("store", {&surface, &byte}).first, 0);
    byte = 128 * 4;
    EXPECT_EQ(run("store", {&surface, &byte}).first, 7);
    EXPECT_EQ(read(array, 256, 128)[256 + 128], 7);
    EXPECT_EQ(read(array, 256, 128)[256 + 127], 0);
  });
}

TEST(DeferredMapping, ArraysGetAllOfTheirMemoryAtOnce) {
  on_one_gpu([] {
    const size_t before = free_memory();
    const CUarray array = array_of(shape(300, 200, 0, CUDA_ARRAY3D_DEFERRED_MAPPING));
    CUDA_ARRAY_MEMORY_REQUIREMENTS told{};
    OK(cuArrayGetMemoryRequirements(&told, array, 0));
    EXPECT_GE(told.size, 300u * 200 * 4);
    EXPECT_EQ(told.size % told.alignment, 0u);
    EXPECT_EQ(told.size, 262144u);  // 240,000 bytes in steps of 64 KiB
    EXPECT_EQ(told.alignment, 65536u);
    EXPECT_EQ(free_memory(), before);
    EXPECT_EQ(cuArrayGetMemoryRequirements(nullptr, array, 0), kInvalid);
    EXPECT_EQ(cuArrayGetMemoryRequirements(&told, array, 2), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuArrayGetMemoryRequirements(&told, array_of(shape(8, 8, 0, 0)), 0), kInvalid);
    EXPECT_EQ(cuArrayGetMemoryRequirements(&told, array_of(shape(8, 8, 0, CUDA_ARRAY3D_SPARSE)), 0),
              kInvalid);
    CUDA_ARRAY_SPARSE_PROPERTIES sparse{};
    EXPECT_EQ(cuArrayGetSparseProperties(&sparse, array), kInvalid);
    const CUmemGenericAllocationHandle memory = pool();
    // What subresource says is ignored.
    OK(apply(tiles(array, memory, 3 * kTile, 7, 7, 7, 7)));
    EXPECT_EQ(apply(entry(array, memory, kPool - kTile)), kInvalid);
    write(array, counting(300 * 200), 300, 200);
    EXPECT_EQ(read(array, 300, 200), counting(300 * 200));
    CUmipmappedArray levels = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR d = shape(64, 64, 0, CUDA_ARRAY3D_DEFERRED_MAPPING);
    OK(cuMipmappedArrayCreate(&levels, &d, 7));
    OK(cuMipmappedArrayGetMemoryRequirements(&told, levels, 0));
    EXPECT_EQ(told.size, 65536u);
    EXPECT_EQ(cuMipmappedArrayGetMemoryRequirements(nullptr, levels, 0), kInvalid);
    OK(apply(entry(levels, memory, 0)));
    CUarray level = nullptr;
    OK(cuMipmappedArrayGetLevel(&level, levels, 2));
    write(level, counting(256), 16, 16);
    EXPECT_EQ(read(level, 16, 16), counting(256));
    // Without memory it cannot be looked at.
    OK(apply(entry(levels, 0, 0)));
    std::vector<float> values(256);
    CUDA_MEMCPY3D copy = whole(level, values, 16, 16, 1);
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    EXPECT_EQ(cuMemcpy3D(&copy), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

}  // namespace
}  // namespace gpufence::sim
