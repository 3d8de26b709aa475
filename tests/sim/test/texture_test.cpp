// Texture and surface objects: which descriptions there may be, what they tell of themselves, and what
// kernels read and write through them. Source: cuda.h, cuTexObjectCreate and cuSurfObjectCreate.
#include <cuda.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "gpus.h"
#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

// One thread each: a texel as four words; a word of a surface.
constexpr char kPtx[] = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry fetch(.param .u64 t, .param .u32 x, .param .u64 out) {
  .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [t]; ld.param.u32 %r1, [x]; ld.param.u64 %rd2, [out];
  tex.1d.v4.u32.s32 {%r4, %r5, %r6, %r7}, [%rd1, {%r1}];
  st.global.v4.u32 [%rd2], {%r4, %r5, %r6, %r7};
  ret;
}
.visible .entry sample(.param .u64 t, .param .f32 x, .param .f32 y, .param .f32 level, .param .u64 out) {
  .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [t]; ld.param.f32 %f1, [x]; ld.param.f32 %f2, [y]; ld.param.f32 %f3, [level];
  ld.param.u64 %rd2, [out];
  tex.level.2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd1, {%f1, %f2}], %f3;
  st.global.v4.u32 [%rd2], {%r4, %r5, %r6, %r7};
  ret;
}
.visible .entry layer(.param .u64 t, .param .u32 layer, .param .u64 out) {
  .reg .b32 %r<8>; .reg .f32 %f<2>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [t]; ld.param.u32 %r1, [layer]; ld.param.u64 %rd2, [out]; mov.f32 %f1, 0f3f000000;
  tex.a2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd1, {%r1, %f1, %f1, %f1}];
  st.global.v4.u32 [%rd2], {%r4, %r5, %r6, %r7};
  ret;
}
.visible .entry store(.param .u64 s, .param .u32 x, .param .u32 y, .param .u32 value) {
  .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [s]; ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y]; ld.param.u32 %r3, [value];
  sust.b.2d.b32.trap [%rd1, {%r1, %r2}], {%r3};
  ret;
}
)";

using Words = std::array<uint32_t, 4>;

uint32_t bits(float value) {
  return __builtin_bit_cast(uint32_t, value);
}
float number(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// What runs on a GPU with these kernels.
struct Gpu {
  CUmodule module = nullptr;
  CUdeviceptr out = 0;

  Gpu() {
    OK(cuModuleLoadData(&module, kPtx));
    OK(cuMemAlloc(&out, sizeof(Words)));
  }
  CUresult run(const char* kernel, std::vector<void*> params) const {
    CUfunction function = nullptr;
    OK(cuModuleGetFunction(&function, module, kernel));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params.data(), nullptr));
    return cuCtxSynchronize();
  }
  Words read() const {
    Words words{};
    OK(cuMemcpyDtoH(words.data(), out, sizeof words));
    return words;
  }
  Words fetch(CUtexObject texture, int x) const {
    CUdeviceptr to = out;
    OK(run("fetch", {&texture, &x, &to}));
    return read();
  }
  Words sample(CUtexObject texture, float x, float y, float level = 0) const {
    CUdeviceptr to = out;
    OK(run("sample", {&texture, &x, &y, &level, &to}));
    return read();
  }
  Words layer(CUtexObject texture, unsigned layer) const {
    CUdeviceptr to = out;
    OK(run("layer", {&texture, &layer, &to}));
    return read();
  }
  CUresult store(CUsurfObject surface, int x, int y, unsigned value) const {
    return run("store", {&surface, &x, &y, &value});
  }
};

void on_one_gpu(const std::function<void()>& body) {
  in_child({{"GPUFENCE_SIM", "1"}}, [&] {
    OK(cuInit(0));
    context_on(0);
    body();
  });
}

CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth, unsigned flags = 0,
                              CUarray_format format = CU_AD_FORMAT_FLOAT, unsigned channels = 1) {
  return {width, height, depth, format, channels, flags};
}
CUarray array_of(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  CUarray array = nullptr;
  OK(cuArray3DCreate(&array, &d));
  return array;
}

CUDA_RESOURCE_DESC in_array(CUarray array) {
  CUDA_RESOURCE_DESC d{};
  d.resType = CU_RESOURCE_TYPE_ARRAY;
  d.res.array.hArray = array;
  return d;
}
CUDA_RESOURCE_DESC in_levels(CUmipmappedArray array) {
  CUDA_RESOURCE_DESC d{};
  d.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  d.res.mipmap.hMipmappedArray = array;
  return d;
}
CUDA_RESOURCE_DESC in_line(CUdeviceptr memory, size_t bytes, CUarray_format format = CU_AD_FORMAT_FLOAT,
                           unsigned channels = 1) {
  CUDA_RESOURCE_DESC d{};
  d.resType = CU_RESOURCE_TYPE_LINEAR;
  d.res.linear = {memory, format, channels, bytes};
  return d;
}
CUDA_RESOURCE_DESC in_rows(CUdeviceptr memory, size_t width, size_t height, size_t pitch) {
  CUDA_RESOURCE_DESC d{};
  d.resType = CU_RESOURCE_TYPE_PITCH2D;
  d.res.pitch2D = {memory, CU_AD_FORMAT_FLOAT, 1, width, height, pitch};
  return d;
}
CUDA_TEXTURE_DESC clamped(unsigned flags = 0, CUfilter_mode filter = CU_TR_FILTER_MODE_POINT) {
  CUDA_TEXTURE_DESC d{};
  for (CUaddress_mode& mode : d.addressMode) mode = CU_TR_ADDRESS_MODE_CLAMP;
  d.filterMode = filter;
  d.flags = flags;
  return d;
}

CUresult tried(const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& d,
               const CUDA_RESOURCE_VIEW_DESC* view = nullptr) {
  CUtexObject texture = 0;
  const CUresult result = cuTexObjectCreate(&texture, &resource, &d, view);
  if (result == CUDA_SUCCESS) {
    OK(cuTexObjectDestroy(texture));
  }
  return result;
}
CUtexObject texture_of(const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& d,
                       const CUDA_RESOURCE_VIEW_DESC* view = nullptr) {
  CUtexObject texture = 0;
  OK(cuTexObjectCreate(&texture, &resource, &d, view));
  return texture;
}

CUdeviceptr memory_of(const std::vector<float>& values) {
  CUdeviceptr memory = 0;
  OK(cuMemAlloc(&memory, values.size() * 4));
  OK(cuMemcpyHtoD(memory, values.data(), values.size() * 4));
  return memory;
}
std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}
void fill(CUarray array, const std::vector<float>& values, size_t width, size_t height, size_t depth = 1) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = values.data();
  copy.srcPitch = width * 4;
  copy.srcHeight = height;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = width * 4;
  copy.Height = height;
  copy.Depth = depth;
  OK(cuMemcpy3D(&copy));
}

TEST(TextureObjects, OfLinearMemoryAreReadByIndex) {
  on_one_gpu([] {
    const Gpu gpu;
    const CUdeviceptr memory = memory_of({1.5F, 2.5F, 3.5F, 4.5F});
    const CUtexObject one = texture_of(in_line(memory, 16), clamped());
    EXPECT_EQ(gpu.fetch(one, 2), (Words{bits(3.5F), 0, 0, bits(1.0F)}));
    EXPECT_EQ(gpu.fetch(one, 4), (Words{0, 0, 0, 0}));
    EXPECT_EQ(gpu.fetch(one, -1), (Words{0, 0, 0, 0}));
    // What is written later is read: an object is no copy.
    OK(cuMemsetD32(memory, 7, 4));
    const CUtexObject bytes =
        texture_of(in_line(memory, 16, CU_AD_FORMAT_UNSIGNED_INT8, 4), clamped(CU_TRSF_READ_AS_INTEGER));
    EXPECT_EQ(gpu.fetch(bytes, 3), (Words{7, 0, 0, 0}));
    const CUtexObject promoted = texture_of(in_line(memory, 16, CU_AD_FORMAT_UNSIGNED_INT8, 4), clamped());
    EXPECT_EQ(gpu.fetch(promoted, 3)[0], bits(7 / 255.0F));
  });
}

TEST(TextureObjects, OfArraysAndRowsAreFiltered) {
  on_one_gpu([] {
    const Gpu gpu;
    const CUarray array = array_of(shape(4, 3, 0));
    fill(array, counting(12), 4, 3);
    const CUtexObject linear = texture_of(in_array(array), clamped(0, CU_TR_FILTER_MODE_LINEAR));
    // 0.5 × (0.75 × 5 + 0.25 × 6) + 0.5 × (0.75 × 9 + 0.25 × 10)
    EXPECT_EQ(number(gpu.sample(linear, 1.75F, 2.0F)[0]), 7.25F);
    CUdeviceptr rows = 0;
    size_t pitch = 0;
    OK(cuMemAllocPitch(&rows, &pitch, 16, 3, 4));
    CUDA_MEMCPY2D copy{};
    const std::vector<float> values = counting(12);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = values.data();
    copy.srcPitch = 16;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = rows;
    copy.dstPitch = pitch;
    copy.WidthInBytes = 16;
    copy.Height = 3;
    OK(cuMemcpy2D(&copy));
    const CUtexObject pitched = texture_of(in_rows(rows, 4, 3, pitch), clamped(0, CU_TR_FILTER_MODE_LINEAR));
    EXPECT_EQ(number(gpu.sample(pitched, 1.75F, 2.0F)[0]), 7.25F);
    EXPECT_EQ(number(gpu.sample(pitched, 99, 99)[0]), 11);
    CUDA_TEXTURE_DESC wrapping = clamped(CU_TRSF_NORMALIZED_COORDINATES);
    wrapping.addressMode[0] = CU_TR_ADDRESS_MODE_WRAP;
    wrapping.addressMode[1] = CU_TR_ADDRESS_MODE_BORDER;
    wrapping.borderColor[0] = -3;
    const CUtexObject wrapped = texture_of(in_array(array), wrapping);
    EXPECT_EQ(number(gpu.sample(wrapped, 1.3F, 0.5F)[0]), 5);
    EXPECT_EQ(number(gpu.sample(wrapped, 1.3F, 1.5F)[0]), -3);
  });
}

TEST(TextureObjects, TellWhatTheyWereMadeOf) {
  on_one_gpu([] {
    const CUarray array = array_of(shape(4, 3, 0));
    CUDA_TEXTURE_DESC d = clamped(CU_TRSF_NORMALIZED_COORDINATES, CU_TR_FILTER_MODE_LINEAR);
    d.maxAnisotropy = 8;
    const CUtexObject texture = texture_of(in_array(array), d);
    CUDA_RESOURCE_DESC resource{};
    OK(cuTexObjectGetResourceDesc(&resource, texture));
    EXPECT_EQ(resource.resType, CU_RESOURCE_TYPE_ARRAY);
    EXPECT_EQ(resource.res.array.hArray, array);
    CUDA_TEXTURE_DESC told{};
    OK(cuTexObjectGetTextureDesc(&told, texture));
    EXPECT_EQ(memcmp(&told, &d, sizeof d), 0);
    CUDA_RESOURCE_VIEW_DESC view{};
    EXPECT_EQ(cuTexObjectGetResourceViewDesc(&view, texture), CUDA_ERROR_INVALID_VALUE);
    view = {CU_RES_VIEW_FORMAT_UINT_1X32, 4, 3, 0, 0, 0, 0, 0, {}};
    const CUtexObject seen = texture_of(in_array(array), clamped(), &view);
    CUDA_RESOURCE_VIEW_DESC told_view{};
    OK(cuTexObjectGetResourceViewDesc(&told_view, seen));
    EXPECT_EQ(memcmp(&told_view, &view, sizeof view), 0);
    for (const CUtexObject wrong : {CUtexObject{0}, CUtexObject{1}, texture + 8}) {
      EXPECT_EQ(cuTexObjectGetResourceDesc(&resource, wrong), CUDA_ERROR_INVALID_VALUE);
      EXPECT_EQ(cuTexObjectDestroy(wrong), CUDA_ERROR_INVALID_VALUE);
    }
    EXPECT_EQ(cuTexObjectGetTextureDesc(nullptr, texture), CUDA_ERROR_INVALID_VALUE);
    OK(cuTexObjectDestroy(texture));
    EXPECT_EQ(cuTexObjectDestroy(texture), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuTexObjectGetResourceDesc(&resource, texture), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(TextureObjects, RefuseWhatTheDocumentationDoes) {
  on_one_gpu([] {
    constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
    const CUarray array = array_of(shape(4, 3, 0));
    const CUarray whole_numbers = array_of(shape(4, 3, 0, 0, CU_AD_FORMAT_SIGNED_INT16, 2));
    const CUarray words = array_of(shape(4, 3, 0, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1));
    const CUDA_TEXTURE_DESC plain = clamped();
    CUtexObject texture = 0;
    const CUDA_RESOURCE_DESC good = in_array(array);
    EXPECT_EQ(cuTexObjectCreate(nullptr, &good, &plain, nullptr), kInvalid);
    EXPECT_EQ(cuTexObjectCreate(&texture, nullptr, &plain, nullptr), kInvalid);
    EXPECT_EQ(cuTexObjectCreate(&texture, &good, nullptr, nullptr), kInvalid);
    CUDA_RESOURCE_DESC flagged = good;
    flagged.flags = 1;  // "must be set to zero"
    EXPECT_EQ(tried(flagged, plain), kInvalid);
    EXPECT_EQ(tried(in_array(nullptr), plain), kInvalid);
    flagged = good;
    flagged.resType = static_cast<CUresourcetype>(9);
    EXPECT_EQ(tried(flagged, plain), kInvalid);

    // Filters are for floats.
    EXPECT_EQ(tried(in_array(whole_numbers), clamped(CU_TRSF_READ_AS_INTEGER, CU_TR_FILTER_MODE_LINEAR)),
              kInvalid);
    OK(tried(in_array(whole_numbers), clamped(0, CU_TR_FILTER_MODE_LINEAR)));
    OK(tried(in_array(whole_numbers), clamped(CU_TRSF_READ_AS_INTEGER)));
    EXPECT_EQ(tried(in_array(words), clamped(0, CU_TR_FILTER_MODE_LINEAR)), kInvalid)
        << "32-bit integers are not promoted";
    EXPECT_EQ(tried(good, clamped(0x100)), kInvalid);
    CUDA_TEXTURE_DESC odd = plain;
    odd.addressMode[1] = static_cast<CUaddress_mode>(4);
    EXPECT_EQ(tried(good, odd), kInvalid);
    odd = plain;
    odd.filterMode = static_cast<CUfilter_mode>(2);
    EXPECT_EQ(tried(good, odd), kInvalid);
    EXPECT_EQ(tried(good, clamped(CU_TRSF_SEAMLESS_CUBEMAP)), kInvalid);
    OK(tried(in_array(array_of(shape(4, 4, 6, CUDA_ARRAY3D_CUBEMAP))), clamped(CU_TRSF_SEAMLESS_CUBEMAP)));

    // CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT is 512, …_TEXTURE_PITCH_ALIGNMENT 32.
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 1 << 20));
    OK(tried(in_line(memory + 512, 1024), plain));
    // Address and filter modes are "ignored" for linear memory.
    const CUDA_TEXTURE_DESC filtered = clamped(0, CU_TR_FILTER_MODE_LINEAR);
    OK(tried(in_line(memory, 1024, CU_AD_FORMAT_SIGNED_INT32), filtered));
    odd.addressMode[0] = static_cast<CUaddress_mode>(9);
    OK(tried(in_line(memory, 1024), odd));
    EXPECT_EQ(tried(in_line(memory + 256, 1024), plain), kInvalid);
    EXPECT_EQ(tried(in_line(memory, 0), plain), kInvalid);
    EXPECT_EQ(tried(in_line(memory, (1 << 20) + 1024), plain), kInvalid);
    EXPECT_EQ(tried(in_line(0, 1024), plain), kInvalid);
    EXPECT_EQ(tried(in_line(memory, 1024, CU_AD_FORMAT_FLOAT, 3), plain), kInvalid);
    EXPECT_EQ(tried(in_line(memory, 1024, static_cast<CUarray_format>(7)), plain), kInvalid);
    OK(tried(in_rows(memory, 100, 100, 512), plain));
    EXPECT_EQ(tried(in_rows(memory, 100, 100, 416 + 16), plain), kInvalid);
    EXPECT_EQ(tried(in_rows(memory, 100, 100, 384), plain), kInvalid);
    EXPECT_EQ(tried(in_rows(memory, 0, 100, 512), plain), kInvalid);
    EXPECT_EQ(tried(in_rows(memory, 100, 65001, 512), plain), kInvalid);
    EXPECT_EQ(tried(in_rows(memory, 131073, 1, 2097120), plain), kInvalid);
    EXPECT_EQ(tried(in_rows(memory, 1, 1, 2097152), plain), kInvalid);
    EXPECT_EQ(tried(in_rows(memory, 100, 65000, 512), plain), kInvalid) << "more than was allocated";
    CUdeviceptr large = 0;
    OK(cuMemAlloc(&large, (size_t{1} << 28) + 512));
    OK(tried(in_line(large, size_t{1} << 28, CU_AD_FORMAT_UNSIGNED_INT8), plain));
    EXPECT_EQ(tried(in_line(large, (size_t{1} << 28) + 1, CU_AD_FORMAT_UNSIGNED_INT8), plain), kInvalid);
    size_t most = 0;
    OK(cuDeviceGetTexture1DLinearMaxWidth(&most, CU_AD_FORMAT_FLOAT, 4, 0));
    EXPECT_EQ(most, size_t{1} << 28);
    EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(&most, CU_AD_FORMAT_FLOAT, 3, 0), kInvalid);
    EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(nullptr, CU_AD_FORMAT_FLOAT, 4, 0), kInvalid);
    EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(&most, CU_AD_FORMAT_FLOAT, 4, 1), CUDA_ERROR_INVALID_DEVICE);
    // A device's memory, and an array, are of their context.
    context_on(0);
    EXPECT_EQ(tried(in_array(array), plain), kInvalid);
    EXPECT_EQ(tried(in_line(memory, 1024), plain), kInvalid);
  });
}

TEST(TextureObjects, OfMipmappedArraysAndViewsOfThem) {
  on_one_gpu([] {
    const Gpu gpu;
    CUmipmappedArray levels = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR d = shape(4, 4, 0);
    OK(cuMipmappedArrayCreate(&levels, &d, 3));
    for (unsigned level = 0; level < 3; ++level) {
      CUarray array = nullptr;
      OK(cuMipmappedArrayGetLevel(&array, levels, level));
      const size_t extent = size_t{4} >> level;
      fill(array, std::vector<float>(extent * extent, static_cast<float>(10 * level)), extent, extent);
    }
    CUDA_TEXTURE_DESC how = clamped(CU_TRSF_NORMALIZED_COORDINATES);
    how.mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR;
    how.maxMipmapLevelClamp = 9;
    const CUtexObject all = texture_of(in_levels(levels), how);
    EXPECT_EQ(number(gpu.sample(all, 0.5F, 0.5F, 0.5F)[0]), 5);
    EXPECT_EQ(number(gpu.sample(all, 0.5F, 0.5F, 9)[0]), 20);
    how.minMipmapLevelClamp = 0.5F;
    // "If the firstMipmapLevel is set to 2, and a minMipmapLevelClamp of 1.2 is specified, then the actual
    // minimum mipmap level clamp will be 3.2."
    CUDA_RESOURCE_VIEW_DESC view{CU_RES_VIEW_FORMAT_NONE, 4, 4, 0, 1, 2, 0, 0, {}};
    const CUtexObject last = texture_of(in_levels(levels), how, &view);
    EXPECT_EQ(number(gpu.sample(last, 0.5F, 0.5F, 0)[0]), 15);
    EXPECT_EQ(number(gpu.sample(last, 0.5F, 0.5F, 5)[0]), 20);
    EXPECT_EQ(tried(in_levels(levels), clamped()), CUDA_ERROR_INVALID_VALUE)
        << "needs normalized coordinates";
    view.lastMipmapLevel = 3;
    EXPECT_EQ(tried(in_levels(levels), how, &view), CUDA_ERROR_INVALID_VALUE);
    view = {CU_RES_VIEW_FORMAT_NONE, 4, 4, 0, 2, 1, 0, 0, {}};
    EXPECT_EQ(tried(in_levels(levels), how, &view), CUDA_ERROR_INVALID_VALUE);
    view = {CU_RES_VIEW_FORMAT_NONE, 8, 4, 0, 0, 0, 0, 0, {}};
    EXPECT_EQ(tried(in_levels(levels), how, &view), CUDA_ERROR_INVALID_VALUE);
    view = {CU_RES_VIEW_FORMAT_UINT_2X32, 4, 4, 0, 0, 0, 0, 0, {}};
    EXPECT_EQ(tried(in_levels(levels), how, &view), CUDA_ERROR_INVALID_VALUE) << "texels of another size";
    view = {CU_RES_VIEW_FORMAT_UNSIGNED_BC1, 16, 16, 0, 0, 0, 0, 0, {}};
    EXPECT_EQ(tried(in_levels(levels), how, &view), CUDA_ERROR_NOT_SUPPORTED);
    // One level is an array too; as bytes it reads as what it is.
    CUarray second = nullptr;
    OK(cuMipmappedArrayGetLevel(&second, levels, 1));
    view = {CU_RES_VIEW_FORMAT_UINT_4X8, 2, 2, 0, 0, 0, 0, 0, {}};
    const CUtexObject bytes = texture_of(in_array(second), clamped(CU_TRSF_READ_AS_INTEGER), &view);
    EXPECT_EQ(gpu.sample(bytes, 0.5F, 0.5F), (Words{0, 0, 0x20, 0x41}));  // 10.0F is 0x41200000
    const CUarray layers = array_of(shape(1, 1, 4, CUDA_ARRAY3D_LAYERED));
    fill(layers, counting(4), 1, 1, 4);
    view = {CU_RES_VIEW_FORMAT_NONE, 1, 1, 4, 0, 0, 1, 2, {}};
    const CUtexObject middle = texture_of(in_array(layers), clamped(), &view);
    EXPECT_EQ(number(gpu.layer(middle, 0)[0]), 1);
    EXPECT_EQ(number(gpu.layer(middle, 7)[0]), 2);
    view.lastLayer = 4;
    EXPECT_EQ(tried(in_array(layers), clamped(), &view), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 1024));
    view = {CU_RES_VIEW_FORMAT_NONE, 256, 0, 0, 0, 0, 0, 0, {}};
    EXPECT_EQ(tried(in_line(memory, 1024), clamped(), &view), CUDA_ERROR_INVALID_VALUE) << "only of arrays";
  });
}

TEST(TextureObjects, OverFreedMemoryAreAFaultAndNoCrash) {
  on_one_gpu([] {
    for (const bool from_array : {true, false}) {
      CUcontext context = context_on(0);
      const Gpu gpu;
      CUtexObject texture = 0;
      if (from_array) {
        const CUarray array = array_of(shape(4, 0, 0));
        texture = texture_of(in_array(array), clamped());
        OK(cuArrayDestroy(array));
      } else {
        void* pinned = nullptr;
        OK(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
        CUdeviceptr memory = 0;
        OK(cuMemHostGetDevicePointer(&memory, pinned, 0));
        texture = texture_of(in_line(memory, 4096), clamped());
        OK(cuMemFreeHost(pinned));
      }
      int x = 1;
      CUdeviceptr out = gpu.out;
      EXPECT_EQ(gpu.run("fetch", {&texture, &x, &out}), CUDA_ERROR_ILLEGAL_ADDRESS);
      OK(cuCtxDestroy(context));
    }
    const Gpu gpu;
    CUtexObject none = 0;
    int x = 0;
    CUdeviceptr out = gpu.out;
    EXPECT_EQ(gpu.run("fetch", {&none, &x, &out}), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(SurfaceObjects, WriteArraysThatWereMadeForIt) {
  on_one_gpu([] {
    const Gpu gpu;
    const CUarray array = array_of(shape(4, 3, 0, CUDA_ARRAY3D_SURFACE_LDST));
    fill(array, counting(12), 4, 3);
    CUsurfObject surface = 0;
    CUDA_RESOURCE_DESC resource = in_array(array), told{};
    OK(cuSurfObjectCreate(&surface, &resource));
    OK(cuSurfObjectGetResourceDesc(&told, surface));
    EXPECT_EQ(told.res.array.hArray, array);
    OK(gpu.store(surface, 8, 2, bits(77.0F)));
    const CUtexObject texture = texture_of(resource, clamped());
    EXPECT_EQ(number(gpu.sample(texture, 2.5F, 2.5F)[0]), 77);
    EXPECT_EQ(number(gpu.sample(texture, 1.5F, 2.5F)[0]), 9);
    resource.flags = 1;
    CUsurfObject other = 0;
    EXPECT_EQ(cuSurfObjectCreate(&other, &resource), CUDA_ERROR_INVALID_VALUE);
    resource.flags = 0;
    EXPECT_EQ(cuSurfObjectCreate(nullptr, &resource), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuSurfObjectCreate(&other, nullptr), CUDA_ERROR_INVALID_VALUE);
    resource = in_array(array_of(shape(4, 3, 0)));
    EXPECT_EQ(cuSurfObjectCreate(&other, &resource), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 1024));
    resource = in_line(memory, 1024);
    EXPECT_EQ(cuSurfObjectCreate(&other, &resource), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuSurfObjectDestroy(texture), CUDA_ERROR_INVALID_VALUE) << "a texture is no surface";
    // Out of bounds with .trap: the kernel is aborted.
    EXPECT_EQ(gpu.store(surface, 16, 0, 1), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(cuSurfObjectDestroy(surface), CUDA_ERROR_LAUNCH_FAILED) << "a fault stays";
  });
}

TEST(TextureObjects, GoWithTheirContext) {
  on_one_gpu([] {
    CUcontext context = context_on(0);
    const CUdeviceptr memory = memory_of(counting(4));
    const CUtexObject texture = texture_of(in_line(memory, 16), clamped());
    OK(cuCtxDestroy(context));
    EXPECT_EQ(cuTexObjectDestroy(texture), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(TextureReferences, AreRefused) {
  on_one_gpu([] {
    CUtexref reference = nullptr;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    EXPECT_EQ(cuTexRefCreate(&reference), CUDA_ERROR_NOT_SUPPORTED);
#pragma GCC diagnostic pop
  });
}

}  // namespace
}  // namespace gpufence::sim
