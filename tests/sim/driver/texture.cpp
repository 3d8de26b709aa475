// See texture.h. What a description may say is in cuTexObjectCreate's and cuSurfObjectCreate's documentation;
// whatever is wrong with it is CUDA_ERROR_INVALID_VALUE.
#include "texture.h"

#include <algorithm>
#include <bit>

#include "access.h"
#include "array.h"
#include "code.h"

namespace gpufence::sim {
namespace {

struct TextureObject {
  std::atomic<uint32_t> live{0};
  Context* context = nullptr;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC description{};
  CUDA_RESOURCE_VIEW_DESC view{};
  bool has_view = false;
  ptx::Texture texture;
};
struct SurfaceObject {
  std::atomic<uint32_t> live{0};
  Context* context = nullptr;
  CUDA_RESOURCE_DESC resource{};
  ptx::Surface surface;
};

struct Objects {
  Handles<TextureObject> textures;
  Handles<SurfaceObject> surfaces;
};
Objects& objects() {
  static auto* made = new Objects;  // leaked, as all state that exit handlers reach
  return *made;
}

size_t most(const Context& context, CUdevice_attribute which) {
  return static_cast<size_t>(device_attribute(*context.device, which));
}

// Whether these bytes are memory that the context's GPU may read.
bool readable(Context& context, CUdeviceptr address, uint64_t bytes) {
  Found found;
  return find(address, found) && may_touch(context, address) &&
         bytes <= found.bytes + found.beyond - (address - found.base);
}

// ---- What is read ----

void take_shape(const Array& array, uint8_t* dimensions, bool* layered, bool* cubemap) {
  const CUDA_ARRAY3D_DESCRIPTOR& d = array.descriptor;
  *layered = (d.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  *cubemap = (d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
  *dimensions = d.Height == 0 ? 1 : d.Depth == 0 || *layered || *cubemap ? 2 : 3;
}

bool take_array(const Context& context, const Array* array, ptx::Texture& texture) {
  if (array == nullptr || array->context != &context ||
      !texels_of(array->descriptor.Format, array->descriptor.NumChannels, &texture.format))
    return false;
  take_shape(*array, &texture.dimensions, &texture.layered, &texture.cubemap);
  texture.may_gather = (array->descriptor.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0 || texture.cubemap;
  texture.level[0] = image_of(*array);
  return true;
}

bool take_linear(Context& context, const CUDA_RESOURCE_DESC& resource, ptx::Texture& texture) {
  const auto& linear = resource.res.linear;
  if (!texels_of(linear.format, linear.numChannels, &texture.format)) return false;
  const uint64_t elements = linear.sizeInBytes / texture.format.bytes();
  if (linear.devPtr % most(context, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) != 0 || elements == 0 ||
      elements > most(context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH) ||
      !readable(context, linear.devPtr, linear.sizeInBytes))
    return false;
  texture.linear_memory = true;
  ptx::Image& image = texture.level[0];
  image.base = linear.devPtr;
  image.width = static_cast<uint32_t>(elements);
  image.row_bytes = image.slice_bytes = elements * texture.format.bytes();
  return true;
}

bool take_pitched(Context& context, const CUDA_RESOURCE_DESC& resource, ptx::Texture& texture) {
  const auto& flat = resource.res.pitch2D;
  if (!texels_of(flat.format, flat.numChannels, &texture.format)) return false;
  if (flat.devPtr % most(context, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) != 0 || flat.width == 0 ||
      flat.width > most(context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) || flat.height == 0 ||
      flat.height > most(context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT) ||
      flat.pitchInBytes % most(context, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) != 0 ||
      flat.pitchInBytes > most(context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH))
    return false;
  const uint64_t row_bytes = flat.width * texture.format.bytes();
  if (flat.pitchInBytes < row_bytes ||
      !readable(context, flat.devPtr, (flat.height - 1) * flat.pitchInBytes + row_bytes))
    return false;
  texture.dimensions = 2;
  ptx::Image& image = texture.level[0];
  image.base = flat.devPtr;
  image.row_bytes = flat.pitchInBytes;
  image.slice_bytes = flat.pitchInBytes * flat.height;
  image.width = static_cast<uint32_t>(flat.width);
  image.height = static_cast<uint32_t>(flat.height);
  return true;
}

// ---- How it is read ----

bool take_address(CUaddress_mode mode, ptx::AddressMode* out) {
  switch (mode) {
    case CU_TR_ADDRESS_MODE_WRAP:
      *out = ptx::AddressMode::wrap;
      return true;
    case CU_TR_ADDRESS_MODE_CLAMP:
      *out = ptx::AddressMode::clamp;
      return true;
    case CU_TR_ADDRESS_MODE_MIRROR:
      *out = ptx::AddressMode::mirror;
      return true;
    case CU_TR_ADDRESS_MODE_BORDER:
      *out = ptx::AddressMode::border;
      return true;
    default:
      return false;
  }
}

bool take_filter(CUfilter_mode mode, bool* linear) {
  *linear = mode == CU_TR_FILTER_MODE_LINEAR;
  return *linear || mode == CU_TR_FILTER_MODE_POINT;
}

bool take_sampler(const CUDA_TEXTURE_DESC& d, CUresourcetype type, ptx::Texture& texture) {
  constexpr unsigned kKnown = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                              CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;
  const bool mipmapped = type == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  if ((d.flags & ~kKnown) != 0) return false;
  ptx::Sampler& sampler = texture.sampler;
  // "This is ignored if … CU_RESOURCE_TYPE_LINEAR", both.
  if (type != CU_RESOURCE_TYPE_LINEAR) {
    for (size_t k = 0; k < 3; ++k)
      if (!take_address(d.addressMode[k], &sampler.address[k])) return false;
    if (!take_filter(d.filterMode, &sampler.linear)) return false;
  }
  if (mipmapped && !take_filter(d.mipmapFilterMode, &sampler.linear_between_levels)) return false;
  for (size_t k = 0; k < 4; ++k) sampler.border[k] = std::bit_cast<uint32_t>(d.borderColor[k]);
  sampler.normalized_coordinates = (d.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  // "For CUDA mipmapped arrays, this flag has to be set."
  if (mipmapped && !sampler.normalized_coordinates) return false;
  sampler.promotes = (d.flags & CU_TRSF_READ_AS_INTEGER) == 0;
  sampler.srgb = (d.flags & CU_TRSF_SRGB) != 0;
  sampler.seamless_cubemap = (d.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
  if (sampler.seamless_cubemap && !texture.cubemap) return false;
  // There is nothing between two integers.
  if ((sampler.linear || sampler.linear_between_levels) && !texture.reads_floats()) return false;
  sampler.level_bias = d.mipmapLevelBias;
  sampler.least_level = d.minMipmapLevelClamp;
  sampler.greatest_level = d.maxMipmapLevelClamp;
  sampler.most_anisotropy = std::clamp(d.maxAnisotropy, 1u, 16u);
  return true;
}

// ---- What part of it, and in which format ----

CUresult take_view(const CUDA_RESOURCE_VIEW_DESC& view, const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned levels,
                   ptx::Texture& texture) {
  constexpr CUarray_format kFormats[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
                                         CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
                                         CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
                                         CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT};
  constexpr unsigned kChannels[] = {1, 2, 4};
  if (view.format >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1 && view.format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7) {
    say_once(
        "the simulator has no block-compressed views of arrays; uncompressed formats work: it answered "
        "CUDA_ERROR_NOT_SUPPORTED");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (view.format < CU_RES_VIEW_FORMAT_NONE || view.format > CU_RES_VIEW_FORMAT_UNSIGNED_BC7)
    return CUDA_ERROR_INVALID_VALUE;
  if (view.format != CU_RES_VIEW_FORMAT_NONE) {
    const auto at = static_cast<unsigned>(view.format) - 1;
    ptx::TexelFormat seen;
    if (!texels_of(kFormats[at / 3], kChannels[at % 3], &seen) || seen.bytes() != texture.format.bytes())
      return CUDA_ERROR_INVALID_VALUE;
    texture.format = seen;
  }
  if (view.width != d.Width || view.height != d.Height || view.depth != d.Depth ||
      view.firstMipmapLevel > view.lastMipmapLevel || view.lastMipmapLevel >= levels ||
      view.firstLayer > view.lastLayer)
    return CUDA_ERROR_INVALID_VALUE;
  // A layer of layered cubemaps is a cubemap, as it is to the kernel that asks for one.
  const uint32_t slices = texture.cubemap ? 6 : 1,
                 layers = texture.layered ? texture.level[0].depth / slices : 1;
  if (view.lastLayer >= layers) return CUDA_ERROR_INVALID_VALUE;
  std::rotate(texture.level.begin(), texture.level.begin() + view.firstMipmapLevel, texture.level.end());
  texture.levels = view.lastMipmapLevel - view.firstMipmapLevel + 1;
  if (!texture.layered) return CUDA_SUCCESS;
  for (ptx::Image& image : texture.level) {
    image.base += uint64_t{view.firstLayer} * slices * image.slice_bytes;
    image.depth = (view.lastLayer - view.firstLayer + 1) * slices;
  }
  return CUDA_SUCCESS;
}

CUresult create_texture(Context& context, CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                        const CUDA_TEXTURE_DESC* d, const CUDA_RESOURCE_VIEW_DESC* view) {
  if (out == nullptr || resource == nullptr || d == nullptr || resource->flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  ptx::Texture texture;
  const Array* first = nullptr;
  bool good = false;
  switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      first = array_of(resource->res.array.hArray);
      good = take_array(context, first, texture);
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      const MipmappedArray* whole = mipmapped_of(resource->res.mipmap.hMipmappedArray);
      if (whole == nullptr || whole->levels.size() > texture.level.size()) break;
      first = whole->levels.front();
      good = take_array(context, first, texture);
      texture.levels = static_cast<uint32_t>(whole->levels.size());
      for (size_t k = 0; k < whole->levels.size(); ++k) texture.level[k] = image_of(*whole->levels[k]);
      break;
    }
    case CU_RESOURCE_TYPE_LINEAR:
      good = take_linear(context, *resource, texture);
      break;
    case CU_RESOURCE_TYPE_PITCH2D:
      good = take_pitched(context, *resource, texture);
      break;
    default:
      break;
  }
  if (!good) return CUDA_ERROR_INVALID_VALUE;
  if (view != nullptr) {
    // "Can only be specified if the type of resource is a CUDA array or a CUDA mipmapped array."
    if (first == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult bad = take_view(*view, first->descriptor, texture.levels, texture);
    if (bad != CUDA_SUCCESS) return bad;
  }
  if (!take_sampler(*d, resource->resType, texture)) return CUDA_ERROR_INVALID_VALUE;
  TextureObject* object = objects().textures.take();
  if (object == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  object->context = &context;
  object->resource = *resource;
  object->description = *d;
  if (view != nullptr) object->view = *view;
  object->has_view = view != nullptr;
  object->texture = texture;
  objects().textures.publish(object);
  *out = reinterpret_cast<CUtexObject>(object);
  return CUDA_SUCCESS;
}

CUresult create_surface(Context& context, CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  if (out == nullptr || resource == nullptr || resource->flags != 0 ||
      resource->resType != CU_RESOURCE_TYPE_ARRAY)
    return CUDA_ERROR_INVALID_VALUE;
  const Array* array = array_of(resource->res.array.hArray);
  // "This flag must be set in order to bind a surface reference to the CUDA array"
  // (CUDA_ARRAY3D_SURFACE_LDST).
  if (array == nullptr || array->context != &context ||
      (array->descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  ptx::Surface surface;
  if (!texels_of(array->descriptor.Format, array->descriptor.NumChannels, &surface.format))
    return CUDA_ERROR_INVALID_VALUE;
  bool cubemap = false;
  take_shape(*array, &surface.dimensions, &surface.layered, &cubemap);
  surface.layered = surface.layered || cubemap;
  surface.image = image_of(*array);
  SurfaceObject* object = objects().surfaces.take();
  if (object == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  object->context = &context;
  object->resource = *resource;
  object->surface = surface;
  objects().surfaces.publish(object);
  *out = reinterpret_cast<CUsurfObject>(object);
  return CUDA_SUCCESS;
}

template <class Object>
Object* of_context(const Handles<Object>& handles, unsigned long long handle, const Context& context) {
  Object* object = handles.check(reinterpret_cast<const void*>(handle));
  return object != nullptr && object->context == &context ? object : nullptr;
}

template <class Object>
CUresult destroy(const char* name, Handles<Object>& handles, unsigned long long handle) {
  return in_context(name, [&](Context& context) {
    Object* object = of_context(handles, handle, context);
    return object != nullptr && handles.retire(object) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

template <class Out, class Object>
CUresult tell(const char* name, Handles<Object>& handles, unsigned long long handle, Out* out,
              Out Object::*what) {
  return in_context(name, [&](Context& context) {
    const Object* object = of_context(handles, handle, context);
    if (out == nullptr || object == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = object->*what;
    return CUDA_SUCCESS;
  });
}

template <class Object>
void destroy_all(Handles<Object>& handles, const Context& context) {
  handles.each_live([&](Object* object) {
    if (object->context == &context) handles.retire(object);
  });
}

}  // namespace

const ptx::Texture* ObjectsOf::texture(uint64_t handle) const {
  const TextureObject* object = of_context(objects().textures, handle, context_);
  return object != nullptr ? &object->texture : nullptr;
}
const ptx::Surface* ObjectsOf::surface(uint64_t handle) const {
  const SurfaceObject* object = of_context(objects().surfaces, handle, context_);
  return object != nullptr ? &object->surface : nullptr;
}

void destroy_objects_of(Context& context) {
  destroy_all(objects().textures, context);
  destroy_all(objects().surfaces, context);
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* d,
                           const CUDA_RESOURCE_VIEW_DESC* view) {
  return in_context(__func__,
                    [&](Context& context) { return create_texture(context, out, resource, d, view); });
}
CUresult cuTexObjectDestroy(CUtexObject object) {
  return destroy(__func__, objects().textures, object);
}
CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject object) {
  return tell(__func__, objects().textures, object, out, &TextureObject::resource);
}
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject object) {
  return tell(__func__, objects().textures, object, out, &TextureObject::description);
}
// "If no resource view was set …, CUDA_ERROR_INVALID_VALUE is returned."
CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  return in_context(__func__, [&](Context& context) {
    const TextureObject* object = of_context(objects().textures, handle, context);
    if (out == nullptr || object == nullptr || !object->has_view) return CUDA_ERROR_INVALID_VALUE;
    *out = object->view;
    return CUDA_SUCCESS;
  });
}

CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  return in_context(__func__, [&](Context& context) { return create_surface(context, out, resource); });
}
CUresult cuSurfObjectDestroy(CUsurfObject object) {
  return destroy(__func__, objects().surfaces, object);
}
CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject object) {
  return tell(__func__, objects().surfaces, object, out, &SurfaceObject::resource);
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* out, CUarray_format format, unsigned channels,
                                            CUdevice ordinal) {
  return initialised(__func__, [&] {
    const Device* device = driver().device(ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    ptx::TexelFormat texels;
    if (out == nullptr || !texels_of(format, channels, &texels)) return CUDA_ERROR_INVALID_VALUE;
    // Of every format: what cuTexObjectCreate takes.
    *out = static_cast<size_t>(device_attribute(*device, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH));
    return CUDA_SUCCESS;
  });
}
