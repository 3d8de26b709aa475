// Arrays and mipmapped arrays: their extents, what is copied into them, what they tell.
#include <cstring>
#include <numeric>

#include "arrays.h"
#include "driver.h"

namespace conform {
namespace {

CUresult create(const CUDA_ARRAY3D_DESCRIPTOR& of) {
  CUarray array = nullptr;
  const CUresult result = cuArray3DCreate(&array, &of);
  if (result == CUDA_SUCCESS) {
    OK(cuArrayDestroy(array));
  }
  return result;
}

size_t limit(CUdevice_attribute which) {
  return static_cast<size_t>(attribute(which));
}

CONFORMS(Arrays, TellTheirDescriptor,
         "cuda.h, cuArrayGetDescriptor: a descriptor containing information on the format and dimensions of "
         "the CUDA array") {
  Primary here;
  CUDA_ARRAY_DESCRIPTOR asked{}, told{};
  asked.Width = 33;
  asked.Height = 7;
  asked.Format = CU_AD_FORMAT_HALF;
  asked.NumChannels = 4;
  CUarray array = nullptr;
  OK(cuArrayCreate(&array, &asked));
  OK(cuArrayGetDescriptor(&told, array));
  EXPECT_EQ(told.Width, 33u);
  EXPECT_EQ(told.Height, 7u);
  EXPECT_EQ(told.Format, CU_AD_FORMAT_HALF);
  EXPECT_EQ(told.NumChannels, 4u);
  OK(cuArrayDestroy(array));
}

CONFORMS(Arrays, TellDimensionsTheyLackAsZero,
         "cuda.h, cuArray3DGetDescriptor: may be called on 1D and 2D arrays, in which case the Height and/or "
         "Depth members of the descriptor struct will be set "
         "to 0") {
  Primary here;
  CUDA_ARRAY3D_DESCRIPTOR told{};
  told.Height = told.Depth = 99;
  Array line(descriptor(50, 0));
  OK(cuArray3DGetDescriptor(&told, line));
  EXPECT_EQ(told.Width, 50u);
  EXPECT_EQ(told.Height, 0u);
  EXPECT_EQ(told.Depth, 0u);
  told.Depth = 99;
  Array plane(descriptor(50, 3));
  OK(cuArray3DGetDescriptor(&told, plane));
  EXPECT_EQ(told.Height, 3u);
  EXPECT_EQ(told.Depth, 0u);
}

CONFORMS(Arrays, HaveOneTwoOrFourChannels,
         "cuda.h, cuArrayCreate: NumChannels specifies the number of packed components per CUDA array "
         "element; it may be 1, 2, or 4") {
  Primary here;
  for (const unsigned channels : {1u, 2u, 4u})
    EXPECT_EQ(create(descriptor(8, 8, 0, CU_AD_FORMAT_FLOAT, channels)), CUDA_SUCCESS) << channels;
  for (const unsigned channels : {0u, 3u, 5u})
    EXPECT_EQ(create(descriptor(8, 8, 0, CU_AD_FORMAT_FLOAT, channels)), CUDA_ERROR_INVALID_VALUE)
        << channels;
}

CONFORMS(
    Arrays, HaveAFormatOfTheList,
    "cuda.h, cuArrayCreate: Format specifies the format of the elements; CUarray_format is defined as …") {
  Primary here;
  for (const CUarray_format format :
       {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32,
        CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32, CU_AD_FORMAT_HALF,
        CU_AD_FORMAT_FLOAT})
    EXPECT_EQ(create(descriptor(16, 16, 0, format, 2)), CUDA_SUCCESS) << format;
  EXPECT_EQ(create(descriptor(16, 16, 0, static_cast<CUarray_format>(0x7777))), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Arrays, KeepToTheTableOfExtents,
         "cuda.h, cuArray3DCreate, table of valid extents: 1D { (1,TEXTURE1D_WIDTH), 0, 0 }, 2D { "
         "(1,TEXTURE2D_WIDTH), (1,TEXTURE2D_HEIGHT), 0 }") {
  Primary here;
  const size_t line = limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH),
               width = limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH),
               height = limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT);
  EXPECT_EQ(create(descriptor(line, 0)), CUDA_SUCCESS);
  EXPECT_EQ(create(descriptor(line + 1, 0)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(descriptor(width + 1, 1)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(descriptor(1, height + 1)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(descriptor(0, 1)), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Arrays, CubesAreSquareAndSixFold,
         "cuda.h, cuArray3DCreate: CUDA_ARRAY3D_CUBEMAP: Width must be equal to Height, and Depth must be "
         "six; if the CUDA_ARRAY3D_LAYERED flag is also set, "
         "then Depth must be a multiple of six") {
  Primary here;
  const unsigned cube = CUDA_ARRAY3D_CUBEMAP, cubes = CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED;
  EXPECT_EQ(create(descriptor(16, 16, 6, CU_AD_FORMAT_FLOAT, 1, cube)), CUDA_SUCCESS);
  EXPECT_EQ(create(descriptor(16, 8, 6, CU_AD_FORMAT_FLOAT, 1, cube)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(descriptor(16, 16, 12, CU_AD_FORMAT_FLOAT, 1, cube)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(descriptor(16, 16, 12, CU_AD_FORMAT_FLOAT, 1, cubes)), CUDA_SUCCESS);
  EXPECT_EQ(create(descriptor(16, 16, 13, CU_AD_FORMAT_FLOAT, 1, cubes)), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Arrays, LayersAreADepth,
         "cuda.h, cuArray3DCreate: a 1D layered CUDA array is allocated if only Height is zero and the "
         "CUDA_ARRAY3D_LAYERED flag is set; the number of layers is "
         "determined by the depth extent") {
  Primary here;
  CUDA_ARRAY3D_DESCRIPTOR told{};
  Array lines(descriptor(20, 0, 5, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_LAYERED));
  OK(cuArray3DGetDescriptor(&told, lines));
  EXPECT_EQ(told.Width, 20u);
  EXPECT_EQ(told.Height, 0u);
  EXPECT_EQ(told.Depth, 5u);
  EXPECT_EQ(told.Flags & CUDA_ARRAY3D_LAYERED, static_cast<unsigned>(CUDA_ARRAY3D_LAYERED));
}

CONFORMS(Arrays, GatherNeedsTwoDimensions,
         "cuda.h, cuArray3DCreate: CUDA_ARRAY3D_TEXTURE_GATHER: texture gather can only be performed on 2D "
         "CUDA arrays") {
  Primary here;
  EXPECT_EQ(create(descriptor(16, 16, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_TEXTURE_GATHER)), CUDA_SUCCESS);
  EXPECT_EQ(create(descriptor(16, 16, 16, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_TEXTURE_GATHER)),
            CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Arrays, LinesAreCopiedAtAnOffset,
         "cuda.h, cuMemcpyHtoA: copies from host memory to a 1D CUDA array; dstArray and dstOffset specify "
         "the CUDA array handle and starting offset in bytes of "
         "the destination data; cuMemcpyAtoH likewise") {
  Primary here;
  Array line(descriptor(16, 0, 0, CU_AD_FORMAT_UNSIGNED_INT32));
  std::vector<uint32_t> in(16), out(16);
  std::iota(in.begin(), in.end(), 100u);
  OK(cuMemcpyHtoA(line, 0, in.data(), 64));
  OK(cuMemcpyHtoA(line, 8, in.data(), 8));
  OK(cuMemcpyAtoH(out.data(), line, 4, 60));
  EXPECT_EQ(std::vector<uint32_t>(out.begin(), out.begin() + 4), (std::vector<uint32_t>{101, 100, 101, 104}));
}

CONFORMS(Arrays, PlanesAreCopiedInParts,
         "cuda.h, cuMemcpy2D: if dstMemoryType is CU_MEMORYTYPE_ARRAY, dstArray specifies the handle of the "
         "destination data; dstXInBytes, dstY the base "
         "address") {
  Primary here;
  Array plane(descriptor(8, 8, 0, CU_AD_FORMAT_UNSIGNED_INT8));
  std::vector<uint8_t> in(64), out(6);
  std::iota(in.begin(), in.end(), uint8_t{0});
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.srcPitch = 8;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = plane;
  copy.WidthInBytes = copy.Height = 8;
  OK(cuMemcpy2D(&copy));
  CUDA_MEMCPY2D back{};
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  back.srcArray = plane;
  back.srcXInBytes = 2;
  back.srcY = 5;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = out.data();
  back.dstPitch = 3;
  back.WidthInBytes = 3;
  back.Height = 2;
  OK(cuMemcpy2D(&back));
  EXPECT_EQ(out, (std::vector<uint8_t>{42, 43, 44, 50, 51, 52}));
}

CONFORMS(
    Arrays, CopiesMoveWholeElements,
    "cuda.h, cuMemcpy2D: for CUDA arrays, srcXInBytes must be evenly divisible by the array element size") {
  Primary here;
  Array plane(descriptor(8, 8, 0, CU_AD_FORMAT_FLOAT));
  char out[64];
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = plane;
  copy.srcXInBytes = 2;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = out;
  copy.dstPitch = 8;
  copy.WidthInBytes = 8;
  copy.Height = 1;
  EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.srcXInBytes = 4;
  OK(cuMemcpy2D(&copy));
}

CONFORMS(Arrays, CopiesStayInside,
         "cuda.h, cuMemcpy3D: srcXInBytes, srcY, srcZ, WidthInBytes, Height and Depth specify what is "
         "copied; it returns an error beyond the array: "
         "CUDA_ERROR_INVALID_VALUE") {
  Primary here;
  Array box(descriptor(4, 4, 4, CU_AD_FORMAT_UNSIGNED_INT8));
  std::vector<char> out(64);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = box;
  copy.srcZ = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = out.data();
  copy.dstPitch = copy.dstHeight = 4;
  copy.WidthInBytes = copy.Height = 4;
  copy.Depth = 2;
  EXPECT_EQ(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.Depth = 1;
  OK(cuMemcpy3D(&copy));
}

CONFORMS(Arrays, BoxesGoThroughDeviceMemory,
         "cuda.h, cuMemcpy3D: source and destination are each of type HOST, DEVICE or ARRAY; if "
         "srcMemoryType is CU_MEMORYTYPE_DEVICE, srcDevice, srcPitch and "
         "srcHeight specify the (device) base address, the bytes per row, and the height of each 2D slice") {
  Primary here;
  Array box(descriptor(4, 3, 2, CU_AD_FORMAT_UNSIGNED_INT32));
  Memory from(16 * 3 * 2), to(16 * 3 * 2);
  std::vector<uint32_t> values(24);
  std::iota(values.begin(), values.end(), 1u);
  from.write(values);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.srcPitch = 16;
  copy.srcHeight = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = box;
  copy.WidthInBytes = 16;
  copy.Height = 3;
  copy.Depth = 2;
  OK(cuMemcpy3D(&copy));
  CUDA_MEMCPY3D back{};
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  back.srcArray = box;
  back.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  back.dstDevice = to;
  back.dstPitch = 16;
  back.dstHeight = 3;
  back.WidthInBytes = 16;
  back.Height = 3;
  back.Depth = 2;
  OK(cuMemcpy3D(&back));
  OK(cuCtxSynchronize());
  EXPECT_EQ(to.read(), values);
}

CONFORMS(Arrays, AreCopiedToArrays,
         "cuda.h, cuMemcpyAtoA: copies from one 1D CUDA array to another; the arrays need not have the same "
         "format, elements must be of the same size") {
  Primary here;
  Array floats(descriptor(8, 0, 0, CU_AD_FORMAT_FLOAT)),
      words(descriptor(8, 0, 0, CU_AD_FORMAT_UNSIGNED_INT32));
  const std::vector<uint32_t> in = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<uint32_t> out(8);
  OK(cuMemcpyHtoA(floats, 0, in.data(), 32));
  OK(cuMemcpyHtoA(words, 0, in.data(), 32));
  OK(cuMemcpyAtoA(words, 16, floats, 0, 8));
  OK(cuMemcpyAtoH(out.data(), words, 0, 32));
  EXPECT_EQ(out, (std::vector<uint32_t>{1, 2, 3, 4, 1, 2, 7, 8}));
}

CONFORMS(Arrays, CopiesAreOfElementsOfOneSize,
         "cuda.h, cuMemcpyAtoA: the elements must be the same size; and count must be evenly divisible by "
         "that size") {
  Primary here;
  Array words(descriptor(8, 0, 0, CU_AD_FORMAT_UNSIGNED_INT32)),
      bytes(descriptor(8, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8)),
      others(descriptor(8, 0, 0, CU_AD_FORMAT_SIGNED_INT32));
  EXPECT_EQ(cuMemcpyAtoA(words, 0, bytes, 0, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyAtoA(words, 0, others, 0, 6), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemcpyAtoA(words, 0, others, 0, 8));
}

CONFORMS(Arrays, TakeMemoryOfTheDevice,
         "CUDA C++ Programming Guide, CUDA Arrays: opaque memory layouts optimized for texture fetching; "
         "cuda.h, cuArrayDestroy: destroys the CUDA array") {
  Primary here;
  size_t before = 0, during = 0, after = 0, total = 0;
  OK(cuMemGetInfo(&before, &total));
  {
    Array large(descriptor(8192, 8192, 0, CU_AD_FORMAT_FLOAT, 1));
    OK(cuMemGetInfo(&during, &total));
  }
  OK(cuMemGetInfo(&after, &total));
  EXPECT_GE(before - during, 256 * kMiB);
  EXPECT_GE(after, during + 256 * kMiB);
}

CONFORMS(Arrays, MipmapsHalveFromLevelToLevel,
         "CUDA C++ Programming Guide, Mipmapped Textures / cuda.h, cuMipmappedArrayGetLevel: a CUDA array "
         "that represents a single mipmap level") {
  Primary here;
  Mipmapped chain(descriptor(64, 24, 0, CU_AD_FORMAT_FLOAT), 4);
  const unsigned widths[] = {64, 32, 16, 8}, heights[] = {24, 12, 6, 3};
  for (unsigned level = 0; level < 4; ++level) {
    CUDA_ARRAY3D_DESCRIPTOR told{};
    OK(cuArray3DGetDescriptor(&told, chain.level(level)));
    EXPECT_EQ(told.Width, widths[level]);
    EXPECT_EQ(told.Height, heights[level]);
  }
}

CONFORMS(Arrays, MipmapsEndAtOneElement,
         "cuda.h, cuMipmappedArrayCreate: numMipmapLevels is clamped to the range [1, 1 + "
         "floor(log2(max(width, height, depth)))]; cuMipmappedArrayGetLevel: "
         "CUDA_ERROR_INVALID_VALUE if level is greater than the maximum number of levels") {
  Primary here;
  Mipmapped chain(descriptor(40, 8, 0, CU_AD_FORMAT_FLOAT), 100);
  CUDA_ARRAY3D_DESCRIPTOR told{};
  OK(cuArray3DGetDescriptor(&told, chain.level(5)));
  EXPECT_EQ(told.Width, 1u);
  CUarray none = nullptr;
  EXPECT_EQ(cuMipmappedArrayGetLevel(&none, chain, 6), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Arrays, LevelsHoldTheirOwn,
         "cuda.h, cuMipmappedArrayGetLevel: returns in *pLevelArray a CUDA array that represents a single "
         "mipmap level of the CUDA mipmapped array") {
  Primary here;
  Mipmapped chain(descriptor(4, 0, 0, CU_AD_FORMAT_UNSIGNED_INT32), 3);
  const uint32_t first[] = {1, 2, 3, 4}, second[] = {5, 6};
  uint32_t seen[4] = {};
  OK(cuMemcpyHtoA(chain.level(0), 0, first, 16));
  OK(cuMemcpyHtoA(chain.level(1), 0, second, 8));
  OK(cuMemcpyAtoH(seen, chain.level(0), 0, 16));
  EXPECT_EQ(memcmp(seen, first, 16), 0);
  OK(cuMemcpyAtoH(seen, chain.level(1), 0, 8));
  EXPECT_EQ(memcmp(seen, second, 8), 0);
}

CONFORMS(Arrays, Nv12HasTwoPlanes,
         "cuda.h, cuArrayGetPlane: CU_AD_FORMAT_NV12: plane 0 of the same size, one channel and "
         "CU_AD_FORMAT_UNSIGNED_INT8; plane 1 half the height and width with "
         "two channels") {
  Primary here;
  Array picture(descriptor(64, 32, 0, CU_AD_FORMAT_NV12, 3));
  CUarray plane = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR told{};
  OK(cuArrayGetPlane(&plane, picture, 0));
  OK(cuArray3DGetDescriptor(&told, plane));
  EXPECT_EQ(told.Format, CU_AD_FORMAT_UNSIGNED_INT8);
  EXPECT_EQ(std::tuple(told.Width, told.Height, told.NumChannels), std::tuple(64u, 32u, 1u));
  OK(cuArrayGetPlane(&plane, picture, 1));
  OK(cuArray3DGetDescriptor(&told, plane));
  EXPECT_EQ(std::tuple(told.Width, told.Height, told.NumChannels), std::tuple(32u, 16u, 2u));
  EXPECT_EQ(cuArrayGetPlane(&plane, picture, 2), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Arrays, OnlyDeferredOnesHaveRequirements,
         "cuda.h, cuArrayGetMemoryRequirements: if the CUDA array is not allocated with flag "
         "CUDA_ARRAY3D_DEFERRED_MAPPING, CUDA_ERROR_INVALID_VALUE will be returned; size represents the "
         "total size of the CUDA array") {
  Primary here;
  Array ordinary(descriptor(256, 256));
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  EXPECT_EQ(cuArrayGetMemoryRequirements(&needs, ordinary, 0), CUDA_ERROR_INVALID_VALUE);
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED) == 1,
        "arrays with deferred mapping");
  Array deferred(descriptor(256, 256, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_DEFERRED_MAPPING));
  OK(cuArrayGetMemoryRequirements(&needs, deferred, 0));
  EXPECT_GE(needs.size, 256u * 256 * 4);
  EXPECT_GT(needs.alignment, 0u);
}

CONFORMS(Arrays, OnlySparseOnesHaveTiles,
         "cuda.h, cuArrayGetSparseProperties: if the CUDA array is not allocated with flag "
         "CUDA_ARRAY3D_SPARSE, CUDA_ERROR_INVALID_VALUE will be returned") {
  Primary here;
  Array ordinary(descriptor(256, 256));
  CUDA_ARRAY_SPARSE_PROPERTIES tiles{};
  EXPECT_EQ(cuArrayGetSparseProperties(&tiles, ordinary), CUDA_ERROR_INVALID_VALUE);
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED) == 1, "sparse arrays");
  Array sparse(descriptor(1024, 1024, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE));
  OK(cuArrayGetSparseProperties(&tiles, sparse));
  EXPECT_GT(tiles.tileExtent.width, 0u);
  EXPECT_GT(tiles.tileExtent.height, 0u);
}

CONFORMS(Arrays, MostHaveNoPlanes,
         "cuda.h, cuArrayGetPlane: if planeIdx is greater than the maximum number of planes or if the array "
         "does not have a multi-planar format, then "
         "CUDA_ERROR_INVALID_VALUE is returned") {
  Primary here;
  Array ordinary(descriptor(16, 16));
  CUarray plane = nullptr;
  EXPECT_EQ(cuArrayGetPlane(&plane, ordinary, 0), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace conform
