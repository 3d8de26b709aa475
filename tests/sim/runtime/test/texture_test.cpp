// Texture and surface objects through the stand-in runtime: what they tell of themselves in its words, and
// its own errors. What kernels read is tests/probes/textures.cu's. Source: cuda_runtime_api.h.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace {

#define OK(call) EXPECT_EQ(call, cudaSuccess)

cudaResourceDesc in_array(cudaArray_t array) {
  cudaResourceDesc d{};
  d.resType = cudaResourceTypeArray;
  d.res.array.array = array;
  return d;
}

TEST(RuntimeTextures, AreDescribedAsTheyWereMade) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  OK(cudaMallocArray(&array, &format, 16, 8, 0));
  cudaTextureDesc d{};
  d.addressMode[0] = cudaAddressModeMirror;
  d.addressMode[1] = cudaAddressModeBorder;
  d.filterMode = cudaFilterModeLinear;
  d.readMode = cudaReadModeNormalizedFloat;
  d.sRGB = 1;
  d.borderColor[2] = 0.5F;
  d.normalizedCoords = 1;
  d.maxAnisotropy = 3;
  d.mipmapLevelBias = 1.5F;
  d.maxMipmapLevelClamp = 2;
  d.disableTrilinearOptimization = 1;
  const cudaResourceDesc resource = in_array(array);
  const cudaResourceViewDesc view{cudaResViewFormatUnsignedChar4, 16, 8, 0, 0, 0, 0, 0, {}};
  cudaTextureObject_t texture = 0;
  OK(cudaCreateTextureObject(&texture, &resource, &d, &view));
  cudaTextureDesc told{};
  OK(cudaGetTextureObjectTextureDesc(&told, texture));
  EXPECT_EQ(told.addressMode[0], cudaAddressModeMirror);
  EXPECT_EQ(told.addressMode[1], cudaAddressModeBorder);
  EXPECT_EQ(told.filterMode, cudaFilterModeLinear);
  EXPECT_EQ(told.readMode, cudaReadModeNormalizedFloat);
  EXPECT_EQ(told.sRGB, 1);
  EXPECT_EQ(told.borderColor[2], 0.5F);
  EXPECT_EQ(told.normalizedCoords, 1);
  EXPECT_EQ(told.maxAnisotropy, 3u);
  EXPECT_EQ(told.mipmapLevelBias, 1.5F);
  EXPECT_EQ(told.maxMipmapLevelClamp, 2);
  EXPECT_EQ(told.disableTrilinearOptimization, 1);
  EXPECT_EQ(told.seamlessCubemap, 0);
  cudaResourceDesc told_resource{};
  OK(cudaGetTextureObjectResourceDesc(&told_resource, texture));
  EXPECT_EQ(told_resource.resType, cudaResourceTypeArray);
  EXPECT_EQ(told_resource.res.array.array, array);
  cudaResourceViewDesc told_view{};
  OK(cudaGetTextureObjectResourceViewDesc(&told_view, texture));
  EXPECT_EQ(told_view.format, cudaResViewFormatUnsignedChar4);
  EXPECT_EQ(told_view.width, 16u);
  OK(cudaDestroyTextureObject(texture));
  EXPECT_EQ(cudaGetTextureObjectTextureDesc(&told, texture), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  OK(cudaGetLastError());
  OK(cudaFreeArray(array));
}

TEST(RuntimeTextures, OfMemoryKeepItsDescription) {
  void* memory = nullptr;
  size_t pitch = 0;
  OK(cudaMallocPitch(&memory, &pitch, 64, 4));
  cudaResourceDesc rows{};
  rows.resType = cudaResourceTypePitch2D;
  rows.res.pitch2D = {memory, cudaCreateChannelDesc(16, 16, 0, 0, cudaChannelFormatKindFloat), 16, 4, pitch};
  const cudaTextureDesc d{};  // wraps, without normalized coordinates: becomes clamp
  cudaTextureObject_t texture = 0;
  OK(cudaCreateTextureObject(&texture, &rows, &d, nullptr));
  cudaResourceDesc told{};
  OK(cudaGetTextureObjectResourceDesc(&told, texture));
  EXPECT_EQ(told.resType, cudaResourceTypePitch2D);
  EXPECT_EQ(told.res.pitch2D.devPtr, memory);
  EXPECT_EQ(told.res.pitch2D.desc.x, 16);
  EXPECT_EQ(told.res.pitch2D.desc.y, 16);
  EXPECT_EQ(told.res.pitch2D.desc.z, 0);
  EXPECT_EQ(told.res.pitch2D.desc.f, cudaChannelFormatKindFloat);
  EXPECT_EQ(told.res.pitch2D.width, 16u);
  EXPECT_EQ(told.res.pitch2D.height, 4u);
  EXPECT_EQ(told.res.pitch2D.pitchInBytes, pitch);
  cudaResourceViewDesc view{};
  EXPECT_EQ(cudaGetTextureObjectResourceViewDesc(&view, texture), cudaErrorInvalidValue);
  OK(cudaDestroyTextureObject(texture));
  cudaResourceDesc line{};
  line.resType = cudaResourceTypeLinear;
  line.res.linear = {memory, cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindSigned), 256};
  OK(cudaCreateTextureObject(&texture, &line, &d, nullptr));
  OK(cudaGetTextureObjectResourceDesc(&told, texture));
  EXPECT_EQ(told.res.linear.desc.f, cudaChannelFormatKindSigned);
  EXPECT_EQ(told.res.linear.sizeInBytes, 256u);
  OK(cudaDestroyTextureObject(texture));
  line.res.linear.desc = cudaCreateChannelDesc(32, 32, 32, 0, cudaChannelFormatKindSigned);
  EXPECT_EQ(cudaCreateTextureObject(&texture, &line, &d, nullptr), cudaErrorInvalidChannelDescriptor);
  size_t most = 0;
  OK(cudaDeviceGetTexture1DLinearMaxWidth(&most, &rows.res.pitch2D.desc, 0));
  EXPECT_EQ(most, 268435456u);
  EXPECT_EQ(cudaDeviceGetTexture1DLinearMaxWidth(&most, &rows.res.pitch2D.desc, 9), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceGetTexture1DLinearMaxWidth(nullptr, &rows.res.pitch2D.desc, 0), cudaErrorInvalidValue);
  OK(cudaFree(memory));
}

TEST(RuntimeTextures, SayWhatIsWrong) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  OK(cudaMallocArray(&array, &format, 16, 8, 0));
  const cudaResourceDesc resource = in_array(array), nothing{};
  cudaTextureDesc d{};
  cudaTextureObject_t texture = 0;
  EXPECT_EQ(cudaCreateTextureObject(nullptr, &resource, &d, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaCreateTextureObject(&texture, nullptr, &d, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaCreateTextureObject(&texture, &resource, nullptr, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaCreateTextureObject(&texture, &nothing, &d, nullptr), cudaErrorInvalidValue);
  // "A non-float texture was being accessed with linear filtering."
  d.filterMode = cudaFilterModeLinear;
  EXPECT_EQ(cudaCreateTextureObject(&texture, &resource, &d, nullptr), cudaErrorInvalidFilterSetting);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidFilterSetting);
  d.readMode = cudaReadModeNormalizedFloat;
  OK(cudaCreateTextureObject(&texture, &resource, &d, nullptr));
  OK(cudaDestroyTextureObject(texture));
  EXPECT_EQ(cudaDestroyTextureObject(texture), cudaErrorInvalidValue);
}

TEST(RuntimeSurfaces, AreOfArraysThatWereMadeForThem) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr, plain = nullptr;
  OK(cudaMallocArray(&array, &format, 16, 8, cudaArraySurfaceLoadStore));
  OK(cudaMallocArray(&plain, &format, 16, 8, 0));
  cudaResourceDesc resource = in_array(array);
  cudaSurfaceObject_t surface = 0;
  OK(cudaCreateSurfaceObject(&surface, &resource));
  cudaResourceDesc told{};
  OK(cudaGetSurfaceObjectResourceDesc(&told, surface));
  EXPECT_EQ(told.res.array.array, array);
  OK(cudaDestroySurfaceObject(surface));
  EXPECT_EQ(cudaDestroySurfaceObject(surface), cudaErrorInvalidValue);
  resource = in_array(plain);
  EXPECT_EQ(cudaCreateSurfaceObject(&surface, &resource), cudaErrorInvalidValue);
  OK(cudaFreeArray(array));
  resource = in_array(array);
  EXPECT_EQ(cudaCreateSurfaceObject(&surface, &resource), cudaErrorInvalidResourceHandle);
  resource.resType = cudaResourceTypeLinear;
  EXPECT_EQ(cudaCreateSurfaceObject(&surface, &resource), cudaErrorInvalidValue);
}

}  // namespace
