// Texture and surface objects of the runtime API: each is the driver's, in the runtime's words.
#include <cstring>

#include "tests/sim/runtime/array.h"

using namespace gpufence::sim::runtime;

namespace {

cudaError_t resource_of(const cudaResourceDesc& d, CUDA_RESOURCE_DESC* out) {
  *out = {};
  Format format{};
  switch (d.resType) {
    case cudaResourceTypeArray:
      out->resType = CU_RESOURCE_TYPE_ARRAY;
      out->res.array.hArray = driver_array(d.res.array.array);
      break;
    case cudaResourceTypeMipmappedArray:
      out->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      out->res.mipmap.hMipmappedArray = driver_array(d.res.mipmap.mipmap);
      break;
    case cudaResourceTypeLinear:
      if (!format_of(d.res.linear.desc, &format)) return cudaErrorInvalidChannelDescriptor;
      out->resType = CU_RESOURCE_TYPE_LINEAR;
      out->res.linear.devPtr = reinterpret_cast<CUdeviceptr>(d.res.linear.devPtr);
      out->res.linear.format = format.format;
      out->res.linear.numChannels = format.channels;
      out->res.linear.sizeInBytes = d.res.linear.sizeInBytes;
      break;
    case cudaResourceTypePitch2D:
      if (!format_of(d.res.pitch2D.desc, &format)) return cudaErrorInvalidChannelDescriptor;
      out->resType = CU_RESOURCE_TYPE_PITCH2D;
      out->res.pitch2D.devPtr = reinterpret_cast<CUdeviceptr>(d.res.pitch2D.devPtr);
      out->res.pitch2D.format = format.format;
      out->res.pitch2D.numChannels = format.channels;
      out->res.pitch2D.width = d.res.pitch2D.width;
      out->res.pitch2D.height = d.res.pitch2D.height;
      out->res.pitch2D.pitchInBytes = d.res.pitch2D.pitchInBytes;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  out->flags = d.flags;
  return cudaSuccess;
}

cudaResourceDesc resource_of(const CUDA_RESOURCE_DESC& d) {
  cudaResourceDesc out{};
  switch (d.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      out.resType = cudaResourceTypeArray;
      out.res.array.array = reinterpret_cast<cudaArray_t>(d.res.array.hArray);
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      out.resType = cudaResourceTypeMipmappedArray;
      out.res.mipmap.mipmap = reinterpret_cast<cudaMipmappedArray_t>(d.res.mipmap.hMipmappedArray);
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      out.resType = cudaResourceTypeLinear;
      out.res.linear.devPtr = reinterpret_cast<void*>(d.res.linear.devPtr);
      out.res.linear.desc = description_of(d.res.linear.format, d.res.linear.numChannels);
      out.res.linear.sizeInBytes = d.res.linear.sizeInBytes;
      break;
    case CU_RESOURCE_TYPE_PITCH2D:
      out.resType = cudaResourceTypePitch2D;
      out.res.pitch2D.devPtr = reinterpret_cast<void*>(d.res.pitch2D.devPtr);
      out.res.pitch2D.desc = description_of(d.res.pitch2D.format, d.res.pitch2D.numChannels);
      out.res.pitch2D.width = d.res.pitch2D.width;
      out.res.pitch2D.height = d.res.pitch2D.height;
      out.res.pitch2D.pitchInBytes = d.res.pitch2D.pitchInBytes;
      break;
  }
  out.flags = d.flags;
  return out;
}

CUDA_TEXTURE_DESC texture_of(const cudaTextureDesc& d) {
  CUDA_TEXTURE_DESC out{};
  for (int k = 0; k < 3; ++k) out.addressMode[k] = static_cast<CUaddress_mode>(d.addressMode[k]);
  out.filterMode = static_cast<CUfilter_mode>(d.filterMode);
  out.flags = (d.readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0u) |
              (d.normalizedCoords != 0 ? CU_TRSF_NORMALIZED_COORDINATES : 0u) |
              (d.sRGB != 0 ? CU_TRSF_SRGB : 0u) |
              (d.disableTrilinearOptimization != 0 ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0u) |
              (d.seamlessCubemap != 0 ? CU_TRSF_SEAMLESS_CUBEMAP : 0u);
  out.maxAnisotropy = d.maxAnisotropy;
  out.mipmapFilterMode = static_cast<CUfilter_mode>(d.mipmapFilterMode);
  out.mipmapLevelBias = d.mipmapLevelBias;
  out.minMipmapLevelClamp = d.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = d.maxMipmapLevelClamp;
  memcpy(out.borderColor, d.borderColor, sizeof out.borderColor);
  return out;
}

cudaTextureDesc texture_of(const CUDA_TEXTURE_DESC& d) {
  cudaTextureDesc out{};
  for (int k = 0; k < 3; ++k) out.addressMode[k] = static_cast<cudaTextureAddressMode>(d.addressMode[k]);
  out.filterMode = static_cast<cudaTextureFilterMode>(d.filterMode);
  out.readMode =
      (d.flags & CU_TRSF_READ_AS_INTEGER) != 0 ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  const auto flag = [&](unsigned which) { return (d.flags & which) != 0 ? 1 : 0; };
  out.normalizedCoords = flag(CU_TRSF_NORMALIZED_COORDINATES);
  out.sRGB = flag(CU_TRSF_SRGB);
  out.disableTrilinearOptimization = flag(CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
  out.seamlessCubemap = flag(CU_TRSF_SEAMLESS_CUBEMAP);
  out.maxAnisotropy = d.maxAnisotropy;
  out.mipmapFilterMode = static_cast<cudaTextureFilterMode>(d.mipmapFilterMode);
  out.mipmapLevelBias = d.mipmapLevelBias;
  out.minMipmapLevelClamp = d.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = d.maxMipmapLevelClamp;
  memcpy(out.borderColor, d.borderColor, sizeof out.borderColor);
  return out;
}

// The formats of views have the same numbers in both.
template <class Out, class Format, class In>
Out view(const In& d) {
  Out out{};
  out.format = static_cast<Format>(d.format);
  out.width = d.width;
  out.height = d.height;
  out.depth = d.depth;
  out.firstMipmapLevel = d.firstMipmapLevel;
  out.lastMipmapLevel = d.lastMipmapLevel;
  out.firstLayer = d.firstLayer;
  out.lastLayer = d.lastLayer;
  return out;
}
CUDA_RESOURCE_VIEW_DESC view_of(const cudaResourceViewDesc& d) {
  return view<CUDA_RESOURCE_VIEW_DESC, CUresourceViewFormat>(d);
}
cudaResourceViewDesc view_of(const CUDA_RESOURCE_VIEW_DESC& d) {
  return view<cudaResourceViewDesc, cudaResourceViewFormat>(d);
}

// "A non-float texture was being accessed with linear filtering" (cudaErrorInvalidFilterSetting): of what is
// wrong with a description the runtime has a word for this alone.
bool filters_integers(const Driver& driver, const CUDA_RESOURCE_DESC& resource, const cudaTextureDesc& d) {
  if (d.filterMode != cudaFilterModeLinear || d.readMode != cudaReadModeElementType) return false;
  CUDA_ARRAY3D_DESCRIPTOR array{};
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      if (driver.cuArray3DGetDescriptor_v2(&array, resource.res.array.hArray) != CUDA_SUCCESS) return false;
      break;
    case CU_RESOURCE_TYPE_PITCH2D:
      array.Format = resource.res.pitch2D.format;
      break;
    default:
      return false;
  }
  const cudaChannelFormatKind kind = description_of(array.Format, 1).f;
  return kind == cudaChannelFormatKindSigned || kind == cudaChannelFormatKindUnsigned;
}

template <class Told, class Out, class Make>
cudaError_t tell(Out* out, Make make) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    Told told{};
    if (out == nullptr) return cudaErrorInvalidValue;
    if (const CUresult bad = make(driver, &told); bad != CUDA_SUCCESS) return from_driver(bad);
    if constexpr (requires { resource_of(told); })
      *out = resource_of(told);
    else if constexpr (requires { texture_of(told); })
      *out = texture_of(told);
    else
      *out = view_of(told);
    return cudaSuccess;
  });
}

}  // namespace

cudaError_t cudaCreateTextureObject(cudaTextureObject_t* out, const cudaResourceDesc* resource,
                                    const cudaTextureDesc* d, const cudaResourceViewDesc* view) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (out == nullptr || resource == nullptr || d == nullptr) return cudaErrorInvalidValue;
    CUDA_RESOURCE_DESC driver_resource;
    if (const cudaError_t bad = resource_of(*resource, &driver_resource); bad != cudaSuccess) return bad;
    const CUDA_TEXTURE_DESC driver_texture = texture_of(*d);
    CUDA_RESOURCE_VIEW_DESC driver_view{};
    if (view != nullptr) driver_view = view_of(*view);
    const CUresult made = driver.cuTexObjectCreate(out, &driver_resource, &driver_texture,
                                                   view != nullptr ? &driver_view : nullptr);
    if (made == CUDA_ERROR_INVALID_VALUE && filters_integers(driver, driver_resource, *d))
      return cudaErrorInvalidFilterSetting;
    return from_driver(made);
  });
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
  return in_context([&](const Driver& driver) { return driver.cuTexObjectDestroy(object); });
}
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* out, cudaTextureObject_t object) {
  return tell<CUDA_RESOURCE_DESC>(out, [&](const Driver& driver, CUDA_RESOURCE_DESC* told) {
    return driver.cuTexObjectGetResourceDesc(told, object);
  });
}
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* out, cudaTextureObject_t object) {
  return tell<CUDA_TEXTURE_DESC>(out, [&](const Driver& driver, CUDA_TEXTURE_DESC* told) {
    return driver.cuTexObjectGetTextureDesc(told, object);
  });
}
cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* out, cudaTextureObject_t object) {
  return tell<CUDA_RESOURCE_VIEW_DESC>(out, [&](const Driver& driver, CUDA_RESOURCE_VIEW_DESC* told) {
    return driver.cuTexObjectGetResourceViewDesc(told, object);
  });
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* out, const cudaResourceDesc* resource) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (out == nullptr || resource == nullptr || resource->resType != cudaResourceTypeArray)
      return cudaErrorInvalidValue;
    CUDA_RESOURCE_DESC driver_resource;
    if (const cudaError_t bad = resource_of(*resource, &driver_resource); bad != cudaSuccess) return bad;
    // Of what is no array "cudaErrorInvalidResourceHandle", which the driver does not say.
    ArrayShape shape;
    if (const cudaError_t bad = shape_of(driver, resource->res.array.array, &shape); bad != cudaSuccess)
      return bad;
    return from_driver(driver.cuSurfObjectCreate(out, &driver_resource));
  });
}
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  return in_context([&](const Driver& driver) { return driver.cuSurfObjectDestroy(object); });
}
cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* out, cudaSurfaceObject_t object) {
  return tell<CUDA_RESOURCE_DESC>(out, [&](const Driver& driver, CUDA_RESOURCE_DESC* told) {
    return driver.cuSurfObjectGetResourceDesc(told, object);
  });
}

cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t* out, const cudaChannelFormatDesc* d, int device) {
  return started([&](Runtime& runtime) -> cudaError_t {
    Format format{};
    if (!runtime.valid(device)) return cudaErrorInvalidDevice;
    if (out == nullptr || d == nullptr) return cudaErrorInvalidValue;
    if (!format_of(*d, &format)) return cudaErrorInvalidChannelDescriptor;
    return from_driver(runtime.driver().cuDeviceGetTexture1DLinearMaxWidth(
        out, format.format, format.channels, runtime.handle(device)));
  });
}
