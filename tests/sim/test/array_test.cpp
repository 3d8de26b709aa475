// Arrays: what may be created, what it takes, and what copies move. Source: cuda.h.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "gpus.h"
#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

void on_one_gpu(const std::function<void()>& body) {
  in_child({{"GPUFENCE_SIM", "1"}}, [&] {
    OK(cuInit(0));
    CUcontext context = nullptr;
    OK(cuCtxCreate(&context, nullptr, 0, 0));
    body();
  });
}

CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth, unsigned flags = 0,
                              CUarray_format format = CU_AD_FORMAT_FLOAT, unsigned channels = 1) {
  return {width, height, depth, format, channels, flags};
}

CUresult tried(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  CUarray array = nullptr;
  const CUresult result = cuArray3DCreate(&array, &d);
  if (result == CUDA_SUCCESS) {
    OK(cuArrayDestroy(array));
  }
  return result;
}

CUarray array_of(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  CUarray array = nullptr;
  OK(cuArray3DCreate(&array, &d));
  return array;
}

std::vector<unsigned char> counting(size_t bytes) {
  std::vector<unsigned char> values(bytes);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(Arrays, HaveTheExtentsOfTheirKind) {
  on_one_gpu([] {
    OK(tried(shape(131072, 0, 0)));
    EXPECT_EQ(tried(shape(131073, 0, 0)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(tried(shape(0, 4, 0)), CUDA_ERROR_INVALID_VALUE);
    OK(tried(shape(16, 8, 0)));
    OK(tried(shape(16, 8, 4)));
    EXPECT_EQ(tried(shape(16, 0, 4)), CUDA_ERROR_INVALID_VALUE);  // three dimensions need all three
    OK(tried(shape(16, 0, 4, CUDA_ARRAY3D_LAYERED)));
    OK(tried(shape(16, 8, 2048, CUDA_ARRAY3D_LAYERED)));
    EXPECT_EQ(tried(shape(16, 8, 2049, CUDA_ARRAY3D_LAYERED)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(tried(shape(16, 8, 0, CUDA_ARRAY3D_LAYERED)), CUDA_ERROR_INVALID_VALUE);
    OK(tried(shape(16, 16, 6, CUDA_ARRAY3D_CUBEMAP)));
    EXPECT_EQ(tried(shape(16, 8, 6, CUDA_ARRAY3D_CUBEMAP)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(tried(shape(16, 16, 12, CUDA_ARRAY3D_CUBEMAP)), CUDA_ERROR_INVALID_VALUE);
    OK(tried(shape(16, 16, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED)));
    EXPECT_EQ(tried(shape(16, 16, 11, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED)),
              CUDA_ERROR_INVALID_VALUE);
    OK(tried(shape(16, 8, 0, CUDA_ARRAY3D_TEXTURE_GATHER)));
    EXPECT_EQ(tried(shape(16, 8, 4, CUDA_ARRAY3D_TEXTURE_GATHER)), CUDA_ERROR_INVALID_VALUE);
    OK(tried(shape(32768, 0, 0, CUDA_ARRAY3D_SURFACE_LDST)));
    EXPECT_EQ(tried(shape(32769, 0, 0, CUDA_ARRAY3D_SURFACE_LDST)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(tried(shape(16, 8, 0, 0x4000)), CUDA_ERROR_INVALID_VALUE);
    for (const unsigned later : {CUDA_ARRAY3D_SPARSE, CUDA_ARRAY3D_DEFERRED_MAPPING}) {
      OK(tried(shape(16, 8, 0, later)));
      OK(tried(shape(16, 8, 4, later)));
      OK(tried(shape(16, 8, 4, later | CUDA_ARRAY3D_LAYERED)));
      EXPECT_EQ(tried(shape(16, 0, 0, later)), CUDA_ERROR_INVALID_VALUE);
      EXPECT_EQ(tried(shape(16, 16, 6, later | CUDA_ARRAY3D_CUBEMAP)), CUDA_ERROR_INVALID_VALUE);
    }
    EXPECT_EQ(tried(shape(16, 8, 0, CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Arrays, HaveFormatsAndChannels) {
  on_one_gpu([] {
    for (const unsigned channels : {1u, 2u, 4u}) OK(tried(shape(4, 4, 0, 0, CU_AD_FORMAT_HALF, channels)));
    for (const unsigned channels : {0u, 3u, 5u})
      EXPECT_EQ(tried(shape(4, 4, 0, 0, CU_AD_FORMAT_HALF, channels)), CUDA_ERROR_INVALID_VALUE);
    OK(tried(shape(4, 4, 0, 0, CU_AD_FORMAT_UNORM_INT8X4, 4)));
    EXPECT_EQ(tried(shape(4, 4, 0, 0, CU_AD_FORMAT_UNORM_INT8X4, 2)), CUDA_ERROR_INVALID_VALUE);
    testing::internal::CaptureStderr();
    EXPECT_EQ(tried(shape(4, 4, 0, 0, CU_AD_FORMAT_BC1_UNORM, 4)), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(tried(shape(4, 4, 0, 0, CU_AD_FORMAT_P010, 3)), CUDA_ERROR_NOT_SUPPORTED);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("GF601 warning: the simulator has no arrays of compressed blocks"), std::string::npos)
        << said;
    EXPECT_NE(said.find("formats of whole channels work"), std::string::npos) << said;
    EXPECT_EQ(said.find("GF601"), said.rfind("GF601")) << "once";
    EXPECT_EQ(tried(shape(4, 4, 0, 0, static_cast<CUarray_format>(7), 1)), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Arrays, TakeMemoryOfTheirGpuAndGiveItBack) {
  on_one_gpu([] {
    const size_t before = free_memory();
    const CUarray array = array_of(shape(1000, 500, 3, 0, CU_AD_FORMAT_FLOAT, 4));
    EXPECT_EQ(before - free_memory(), 1000u * 500 * 3 * 16);
    CUDA_ARRAY3D_DESCRIPTOR told{};
    OK(cuArray3DGetDescriptor(&told, array));
    EXPECT_EQ(told.Width, 1000u);
    EXPECT_EQ(told.Height, 500u);
    EXPECT_EQ(told.Depth, 3u);
    EXPECT_EQ(told.Format, CU_AD_FORMAT_FLOAT);
    EXPECT_EQ(told.NumChannels, 4u);
    CUDA_ARRAY_DESCRIPTOR flat{};
    EXPECT_EQ(cuArrayGetDescriptor(&flat, array), CUDA_ERROR_INVALID_VALUE);  // of three dimensions
    OK(cuArrayDestroy(array));
    EXPECT_EQ(free_memory(), before);
    EXPECT_EQ(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuArray3DGetDescriptor(&told, array), CUDA_ERROR_INVALID_HANDLE);
    int not_an_array = 0;
    EXPECT_EQ(cuArrayDestroy(reinterpret_cast<CUarray>(&not_an_array)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(tried(shape(131072, 65536, 0, 0, CU_AD_FORMAT_FLOAT, 4)), CUDA_ERROR_OUT_OF_MEMORY);

    const CUDA_ARRAY_DESCRIPTOR two = {64, 32, CU_AD_FORMAT_UNSIGNED_INT16, 2};
    CUarray other = nullptr;
    OK(cuArrayCreate(&other, &two));
    OK(cuArrayGetDescriptor(&flat, other));
    EXPECT_EQ(flat.Width, 64u);
    EXPECT_EQ(flat.NumChannels, 2u);
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    OK(cuCtxDestroy(context));
    OK(cuCtxCreate(&context, nullptr, 0, 0));
    EXPECT_EQ(free_memory(), before);
    EXPECT_EQ(cuArrayDestroy(other), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(Arrays, MipmappedOnesHaveLevelsOfHalfTheSize) {
  on_one_gpu([] {
    const size_t before = free_memory();
    const CUDA_ARRAY3D_DESCRIPTOR d = shape(64, 16, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8);
    CUmipmappedArray whole = nullptr;
    OK(cuMipmappedArrayCreate(&whole, &d, 100));  // clamped to 7
    EXPECT_GE(before - free_memory(), 64u * 16 + 32 * 8 + 16 * 4 + 8 * 2 + 4 + 2 + 1);
    CUarray level = nullptr;
    std::string sizes;
    for (unsigned i = 0; cuMipmappedArrayGetLevel(&level, whole, i) == CUDA_SUCCESS; ++i) {
      CUDA_ARRAY_DESCRIPTOR told{};
      OK(cuArrayGetDescriptor(&told, level));
      sizes += std::to_string(told.Width) + "x" + std::to_string(told.Height) + " ";
    }
    EXPECT_EQ(sizes, "64x16 32x8 16x4 8x2 4x1 2x1 1x1 ");
    EXPECT_EQ(cuMipmappedArrayGetLevel(&level, whole, 7), CUDA_ERROR_INVALID_VALUE);
    OK(cuMipmappedArrayGetLevel(&level, whole, 1));
    EXPECT_EQ(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);  // part of another
    // Levels do not lie in each other.
    CUarray next = nullptr;
    OK(cuMipmappedArrayGetLevel(&next, whole, 2));
    const auto values = counting(32 * 8);
    CUDA_MEMCPY2D in{};
    in.srcMemoryType = CU_MEMORYTYPE_HOST;
    in.srcHost = values.data();
    in.srcPitch = 32;
    in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    in.dstArray = level;
    in.WidthInBytes = 32;
    in.Height = 8;
    OK(cuMemcpy2D(&in));
    in.dstArray = next;
    EXPECT_EQ(cuMemcpy2D(&in), CUDA_ERROR_INVALID_VALUE);  // too wide for it
    in.WidthInBytes = 16;
    in.Height = 4;
    OK(cuMemcpy2D(&in));
    std::vector<unsigned char> back(32 * 8);
    OK(cuMemcpyAtoH(back.data(), level, 0, back.size()));
    EXPECT_EQ(back, values);
    OK(cuMipmappedArrayDestroy(whole));
    EXPECT_EQ(cuMipmappedArrayDestroy(whole), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuMemcpyAtoH(back.data(), level, 0, 1), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(free_memory(), before);
  });
}

TEST(Arrays, OfPlanesHaveAnArrayForEach) {
  on_one_gpu([] {
    const size_t before = free_memory();
    const CUarray video = array_of(shape(64, 32, 0, 0, CU_AD_FORMAT_NV12, 3));
    EXPECT_EQ(before - free_memory(), 64u * 32 * 3 / 2);
    CUarray luma = nullptr, chroma = nullptr;
    OK(cuArrayGetPlane(&luma, video, 0));
    OK(cuArrayGetPlane(&chroma, video, 1));
    CUDA_ARRAY_DESCRIPTOR told{};
    OK(cuArrayGetDescriptor(&told, luma));
    EXPECT_EQ(told.Width, 64u);
    EXPECT_EQ(told.NumChannels, 1u);
    OK(cuArrayGetDescriptor(&told, chroma));
    EXPECT_EQ(told.Width, 32u);
    EXPECT_EQ(told.Height, 16u);
    EXPECT_EQ(told.NumChannels, 2u);
    EXPECT_EQ(cuArrayGetPlane(&luma, video, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuArrayGetPlane(&luma, array_of(shape(4, 4, 0)), 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(tried(shape(63, 32, 0, 0, CU_AD_FORMAT_NV12, 3)), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Arrays, CopiesKeepTheirPlaceInAllDirections) {
  on_one_gpu([] {
    // 8 × 4 × 3 elements of four bytes.
    const CUarray array = array_of(shape(8, 4, 3, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4)),
                  other = array_of(shape(16, 4, 3, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4));
    const auto values = counting(8 * 4 * 4 * 3);
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = values.data();
    c.srcPitch = 32;
    c.srcHeight = 4;
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = array;
    c.WidthInBytes = 32;
    c.Height = 4;
    c.Depth = 3;
    OK(cuMemcpy3D(&c));
    // A box of 2 × 2 × 2 elements from (1, 2, 1) to (3, 0, 0) of the other, and that one to the GPU's memory.
    CUDA_MEMCPY3D across{};
    across.srcMemoryType = across.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    across.srcArray = array;
    across.srcXInBytes = 4;
    across.srcY = 2;
    across.srcZ = 1;
    across.dstArray = other;
    across.dstXInBytes = 12;
    across.WidthInBytes = 8;
    across.Height = across.Depth = 2;
    OK(cuMemcpy3D(&across));
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 4096));
    OK(cuMemsetD8(memory, 0xff, 4096));
    CUDA_MEMCPY2D out{};
    out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    out.srcArray = other;
    out.srcXInBytes = 12;
    out.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    out.dstDevice = memory;
    out.dstPitch = 100;
    out.WidthInBytes = 8;
    out.Height = 2;
    OK(cuMemcpy2D(&out));
    unsigned char seen[8];
    for (size_t row = 0; row < 2; ++row) {
      OK(cuMemcpyDtoH(seen, memory + 100 * row, 8));
      for (size_t i = 0; i < 8; ++i)
        EXPECT_EQ(seen[i], static_cast<unsigned char>(128 + 32 * (2 + row) + 4 + i));
    }
    // Past an edge, in each dimension.
    for (const auto& [x, y, z] : {std::tuple{28, 0, 0}, {0, 3, 0}, {0, 0, 2}}) {
      across.srcXInBytes = static_cast<size_t>(x);
      across.srcY = static_cast<size_t>(y);
      across.srcZ = static_cast<size_t>(z);
      EXPECT_EQ(cuMemcpy3D(&across), CUDA_ERROR_INVALID_VALUE) << x << y << z;
    }
  });
}

TEST(Arrays, OfOneDimensionAreCopiedByOffsets) {
  on_one_gpu([] {
    const CUarray array = array_of(shape(256, 0, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8)),
                  other = array_of(shape(256, 0, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8));
    const auto values = counting(256);
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 256));
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuMemcpyHtoA(array, 16, values.data(), 100));
    OK(cuMemcpyAtoA(other, 0, array, 20, 50));
    OK(cuMemcpyAtoD(memory, other, 10, 40));
    OK(cuMemcpyDtoA(array, 200, memory, 40));
    std::vector<unsigned char> back(40);
    OK(cuMemcpyAtoHAsync(back.data(), array, 200, 40, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(back, std::vector<unsigned char>(values.begin() + 14, values.begin() + 54));
    EXPECT_EQ(cuMemcpyHtoA(array, 200, values.data(), 57), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyHtoA(array, 257, values.data(), 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyHtoA(nullptr, 0, values.data(), 1), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemcpyHtoA(array, 0, values.data(), 0));
  });
}

}  // namespace
}  // namespace gpufence::sim
