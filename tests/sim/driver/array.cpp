// See array.h.
#include "array.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "code.h"
#include "ptx/run.h"
#include "queue.h"
#include "sparse.h"

namespace gpufence::sim {
namespace {

struct Arrays {
  Handles<Array> handles;
  Handles<MipmappedArray> mipmapped;
};
Arrays& arrays() {
  static auto* made = new Arrays;  // leaked, as all state that exit handlers reach
  return *made;
}

// One channel, and how many there are where the format says it itself; 0 bytes: a format that the simulator
// lacks (compressed blocks and most of video's).
struct Channel {
  uint8_t bytes, count;
  ptx::ChannelType type;
};
Channel channel_of(CUarray_format format) {
  using enum ptx::ChannelType;
  switch (static_cast<int>(format)) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return {1, 0, unsigned_integer};
    case CU_AD_FORMAT_SIGNED_INT8:
      return {1, 0, signed_integer};
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return {2, 0, unsigned_integer};
    case CU_AD_FORMAT_SIGNED_INT16:
      return {2, 0, signed_integer};
    case CU_AD_FORMAT_HALF:
      return {2, 0, floating};
    case CU_AD_FORMAT_UNSIGNED_INT32:
      return {4, 0, unsigned_integer};
    case CU_AD_FORMAT_SIGNED_INT32:
      return {4, 0, signed_integer};
    case CU_AD_FORMAT_FLOAT:
      return {4, 0, floating};
    case CU_AD_FORMAT_UNORM_INT8X1:
      return {1, 1, unsigned_normalized};
    case CU_AD_FORMAT_SNORM_INT8X1:
      return {1, 1, signed_normalized};
    case CU_AD_FORMAT_UNORM_INT8X2:
      return {1, 2, unsigned_normalized};
    case CU_AD_FORMAT_SNORM_INT8X2:
      return {1, 2, signed_normalized};
    case CU_AD_FORMAT_UNORM_INT8X4:
      return {1, 4, unsigned_normalized};
    case CU_AD_FORMAT_SNORM_INT8X4:
      return {1, 4, signed_normalized};
    case CU_AD_FORMAT_UNORM_INT16X1:
      return {2, 1, unsigned_normalized};
    case CU_AD_FORMAT_SNORM_INT16X1:
      return {2, 1, signed_normalized};
    case CU_AD_FORMAT_UNORM_INT16X2:
      return {2, 2, unsigned_normalized};
    case CU_AD_FORMAT_SNORM_INT16X2:
      return {2, 2, signed_normalized};
    case CU_AD_FORMAT_UNORM_INT16X4:
      return {2, 4, unsigned_normalized};
    case CU_AD_FORMAT_SNORM_INT16X4:
      return {2, 4, signed_normalized};
    default:
      return {0, 0, floating};
  }
}

struct Limit {
  CUdevice_attribute width, height, depth;
};
constexpr auto kNone = static_cast<CUdevice_attribute>(0);  // no attribute has that number

bool within(const Device& device, const CUDA_ARRAY3D_DESCRIPTOR& d, const Limit& limit) {
  const auto fits = [&](size_t value, CUdevice_attribute most) {
    return most == kNone || value <= static_cast<size_t>(device_attribute(device, most));
  };
  return fits(d.Width, limit.width) && fits(d.Height, limit.height) && fits(d.Depth, limit.depth);
}

// The table in cuArray3DCreate's and cuMipmappedArrayCreate's documentation.
bool extents_valid(const Device& device, const CUDA_ARRAY3D_DESCRIPTOR& d, bool mipmapped) {
#define ATTRIBUTE(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_##name
  const bool layered = (d.Flags & CUDA_ARRAY3D_LAYERED) != 0, cube = (d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0,
             surface = (d.Flags & CUDA_ARRAY3D_SURFACE_LDST) != 0,
             gather = (d.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0;
  if (d.Width == 0 || ((layered || cube) && d.Depth == 0)) return false;
  if (cube && (d.Height != d.Width || (layered ? d.Depth % 6 != 0 : d.Depth != 6))) return false;
  if (!layered && !cube && d.Height == 0 && d.Depth != 0) return false;
  if (gather && (d.Height == 0 || d.Depth != 0)) return false;
  if (cube)
    return within(device, d,
                  layered ? Limit{ATTRIBUTE(TEXTURECUBEMAP_LAYERED_WIDTH), kNone,
                                  ATTRIBUTE(TEXTURECUBEMAP_LAYERED_LAYERS)}
                          : Limit{ATTRIBUTE(TEXTURECUBEMAP_WIDTH), kNone, kNone}) &&
           (!surface || within(device, d,
                               layered ? Limit{ATTRIBUTE(SURFACECUBEMAP_LAYERED_WIDTH), kNone,
                                               ATTRIBUTE(SURFACECUBEMAP_LAYERED_LAYERS)}
                                       : Limit{ATTRIBUTE(SURFACECUBEMAP_WIDTH), kNone, kNone}));
  if (layered && d.Height == 0)
    return within(device, d,
                  {ATTRIBUTE(TEXTURE1D_LAYERED_WIDTH), kNone, ATTRIBUTE(TEXTURE1D_LAYERED_LAYERS)}) &&
           (!surface ||
            within(device, d,
                   {ATTRIBUTE(SURFACE1D_LAYERED_WIDTH), kNone, ATTRIBUTE(SURFACE1D_LAYERED_LAYERS)}));
  if (layered)
    return within(device, d,
                  {ATTRIBUTE(TEXTURE2D_LAYERED_WIDTH), ATTRIBUTE(TEXTURE2D_LAYERED_HEIGHT),
                   ATTRIBUTE(TEXTURE2D_LAYERED_LAYERS)}) &&
           (!surface || within(device, d,
                               {ATTRIBUTE(SURFACE2D_LAYERED_WIDTH), ATTRIBUTE(SURFACE2D_LAYERED_HEIGHT),
                                ATTRIBUTE(SURFACE2D_LAYERED_LAYERS)}));
  if (d.Depth != 0)
    return (within(device, d,
                   {ATTRIBUTE(TEXTURE3D_WIDTH), ATTRIBUTE(TEXTURE3D_HEIGHT), ATTRIBUTE(TEXTURE3D_DEPTH)}) ||
            within(device, d,
                   {ATTRIBUTE(TEXTURE3D_WIDTH_ALTERNATE), ATTRIBUTE(TEXTURE3D_HEIGHT_ALTERNATE),
                    ATTRIBUTE(TEXTURE3D_DEPTH_ALTERNATE)})) &&
           (!surface ||
            within(device, d,
                   {ATTRIBUTE(SURFACE3D_WIDTH), ATTRIBUTE(SURFACE3D_HEIGHT), ATTRIBUTE(SURFACE3D_DEPTH)}));
  if (d.Height != 0)
    return within(device, d,
                  gather ? Limit{ATTRIBUTE(TEXTURE2D_GATHER_WIDTH), ATTRIBUTE(TEXTURE2D_GATHER_HEIGHT), kNone}
                  : mipmapped ? Limit{ATTRIBUTE(TEXTURE2D_MIPMAPPED_WIDTH),
                                      ATTRIBUTE(TEXTURE2D_MIPMAPPED_HEIGHT), kNone}
                              : Limit{ATTRIBUTE(TEXTURE2D_WIDTH), ATTRIBUTE(TEXTURE2D_HEIGHT), kNone}) &&
           (!surface || within(device, d, {ATTRIBUTE(SURFACE2D_WIDTH), ATTRIBUTE(SURFACE2D_HEIGHT), kNone}));
  return within(
             device, d,
             {mipmapped ? ATTRIBUTE(TEXTURE1D_MIPMAPPED_WIDTH) : ATTRIBUTE(TEXTURE1D_WIDTH), kNone, kNone}) &&
         (!surface || within(device, d, {ATTRIBUTE(SURFACE1D_WIDTH), kNone, kNone}));
#undef ATTRIBUTE
}

constexpr unsigned kLaterFlags = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
bool gets_memory_later(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  return (d.Flags & kLaterFlags) != 0;
}

CUresult not_there(const char* what) {
  say_once(std::string("the simulator has no ") + what + ": it answered CUDA_ERROR_NOT_SUPPORTED");
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult check(const Device& device, CUDA_ARRAY3D_DESCRIPTOR& d, bool mipmapped) {
  constexpr unsigned kKnown = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                              CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |
                              CUDA_ARRAY3D_COLOR_ATTACHMENT | CUDA_ARRAY3D_SPARSE |
                              CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
  if ((d.Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((d.Flags & CUDA_ARRAY3D_VIDEO_ENCODE_DECODE) != 0)
    return not_there("arrays for encoding and decoding video; those without that flag work");
  if (!extents_valid(device, d, mipmapped)) return CUDA_ERROR_INVALID_VALUE;
  // "Must be either a 2D, 2D layered or 3D CUDA array" (cuMemMapArrayAsync).
  if (gets_memory_later(d) && (d.Height == 0 || (d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0 ||
                               (d.Flags & kLaterFlags) == kLaterFlags || d.Format == CU_AD_FORMAT_NV12))
    return CUDA_ERROR_INVALID_VALUE;
  if (d.Format == CU_AD_FORMAT_NV12) {
    // "8-bit YUV planar format, with 4:2:0 sampling": two dimensions, both even, three channels.
    return d.NumChannels == 3 && d.Depth == 0 && d.Width % 2 == 0 && d.Height % 2 == 0 && d.Height != 0 &&
                   !mipmapped
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  }
  if (channel_of(d.Format).bytes == 0)
    return d.Format >= CU_AD_FORMAT_UNORM_INT_101010_2 && d.Format <= CU_AD_FORMAT_SNORM_INT16X4
               ? not_there(
                     "arrays of compressed blocks, of packed texels and of video formats but NV12; formats "
                     "of "
                     "whole channels work")
               : CUDA_ERROR_INVALID_VALUE;
  ptx::TexelFormat texels;
  return texels_of(d.Format, d.NumChannels, &texels) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Without memory yet.
Array* describe(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& d) {
  Array* array = arrays().handles.take();
  if (array == nullptr) return nullptr;
  array->context = &context;
  array->descriptor = d;
  array->element_bytes = d.Format == CU_AD_FORMAT_NV12 ? 1 : channel_of(d.Format).bytes * d.NumChannels;
  array->row_bytes = d.Width * array->element_bytes;
  array->rows = std::max<size_t>(d.Height, 1);
  array->slices = std::max<size_t>(d.Depth, 1);
  array->slice_bytes = array->row_bytes * array->rows;
  return array;
}

uint64_t bytes_of(const Array& array) {
  // The second plane has half the rows of the first.
  return array.descriptor.Format == CU_AD_FORMAT_NV12 ? array.bytes() + array.bytes() / 2 : array.bytes();
}

Array* plane_of(Context& context, const Array& whole, unsigned plane) {
  CUDA_ARRAY3D_DESCRIPTOR d = whole.descriptor;
  d.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  d.NumChannels = plane == 0 ? 1 : 2;
  if (plane == 1) {
    d.Width /= 2;
    d.Height /= 2;
  }
  Array* array = describe(context, d);
  if (array == nullptr) return nullptr;
  array->is_part = true;
  array->base = whole.base + (plane == 0 ? 0 : whole.bytes());
  return array;
}

CUresult create(Context& context, CUarray* out, CUDA_ARRAY3D_DESCRIPTOR d) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = check(*context.device, d, false); bad != CUDA_SUCCESS) return bad;
  Array* array = describe(context, d);
  if (array == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (gets_memory_later(d)) {
    array->backing = ArrayBacking::of(context, d, {array}, false);
    if (array->backing == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    const CUresult full = allocate(context, bytes_of(*array), gpufence::sim::Kind::device, &array->block);
    if (full != CUDA_SUCCESS) return full;
    array->base = array->block->address;
  }
  if (d.Format == CU_AD_FORMAT_NV12) {
    for (unsigned plane = 0; plane < 2; ++plane) {
      Array* part = plane_of(context, *array, plane);
      if (part == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
      arrays().handles.publish(part);
      array->parts.push_back(part);
    }
  }
  arrays().handles.publish(array);
  *out = reinterpret_cast<CUarray>(array);
  return CUDA_SUCCESS;
}

CUresult destroy(CUarray handle) {
  Array* array = array_of(handle);
  if (array == nullptr || array->is_part) return CUDA_ERROR_INVALID_HANDLE;
  synchronise(*array->context);
  const std::shared_ptr<ArrayBacking> backing = array->backing;
  const uintptr_t address = array->base;
  Device& device = *array->context->device;
  const std::vector<Array*> parts = array->parts;
  if (!arrays().handles.retire(array)) return CUDA_ERROR_INVALID_HANDLE;
  for (Array* part : parts) arrays().handles.retire(part);
  if (backing != nullptr)
    backing->release();
  else
    free_block(device, address);
  return CUDA_SUCCESS;
}

CUresult create_mipmapped(Context& context, CUmipmappedArray* out, CUDA_ARRAY3D_DESCRIPTOR d,
                          unsigned levels) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = check(*context.device, d, true); bad != CUDA_SUCCESS) return bad;
  const bool layers = (d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const size_t largest = std::max({d.Width, d.Height, layers ? size_t{0} : d.Depth});
  // "Clamped to the range [1, 1 + floor(log2(max(width, height, depth)))]."
  levels = std::clamp(levels, 1u, static_cast<unsigned>(std::bit_width(largest)));
  MipmappedArray* whole = arrays().mipmapped.take();
  if (whole == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  whole->context = &context;
  uint64_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    CUDA_ARRAY3D_DESCRIPTOR of = d;
    const auto halved = [&](size_t extent) { return extent == 0 ? 0 : std::max<size_t>(extent >> level, 1); };
    of.Width = halved(d.Width);
    of.Height = halved(d.Height);
    if (!layers) of.Depth = halved(d.Depth);
    Array* array = describe(context, of);
    if (array == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    array->is_part = true;
    array->base = bytes;  // for now
    bytes += (array->bytes() + Heap::kGranule - 1) / Heap::kGranule * Heap::kGranule;
    whole->levels.push_back(array);
  }
  if (gets_memory_later(d)) {
    whole->backing = ArrayBacking::of(context, d, whole->levels, true);
    if (whole->backing == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    for (Array* level : whole->levels) level->backing = whole->backing;
  } else {
    const CUresult full = allocate(context, bytes, gpufence::sim::Kind::device, &whole->block);
    if (full != CUDA_SUCCESS) return full;
    for (Array* level : whole->levels) level->base += whole->block->address;
  }
  for (Array* level : whole->levels) arrays().handles.publish(level);
  arrays().mipmapped.publish(whole);
  *out = reinterpret_cast<CUmipmappedArray>(whole);
  return CUDA_SUCCESS;
}

CUresult destroy_mipmapped(CUmipmappedArray handle) {
  MipmappedArray* whole = mipmapped_of(handle);
  if (whole == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  synchronise(*whole->context);
  Device& device = *whole->context->device;
  const std::shared_ptr<ArrayBacking> backing = whole->backing;
  const uintptr_t address = backing != nullptr ? 0 : whole->block->address;
  const std::vector<Array*> levels = whole->levels;
  if (!arrays().mipmapped.retire(whole)) return CUDA_ERROR_INVALID_HANDLE;
  for (Array* level : levels) arrays().handles.retire(level);
  if (backing != nullptr)
    backing->release();
  else
    free_block(device, address);
  return CUDA_SUCCESS;
}

template <class Body>
CUresult with_array(const char* name, CUarray handle, Body&& body) {
  return in_context(name, [&](Context&) {
    Array* array = array_of(handle);
    return array == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*array);
  });
}

template <class Descriptor, class Wide>
Wide widened(const Descriptor& d) {
  Wide wide{};
  wide.Width = d.Width;
  wide.Height = d.Height;
  wide.Format = d.Format;
  wide.NumChannels = d.NumChannels;
  return wide;
}

template <class Descriptor>
void tell(const CUDA_ARRAY3D_DESCRIPTOR& d, Descriptor* out) {
  *out = {};
  out->Width = static_cast<decltype(out->Width)>(d.Width);
  out->Height = static_cast<decltype(out->Height)>(d.Height);
  out->Format = d.Format;
  out->NumChannels = d.NumChannels;
  if constexpr (requires { out->Depth; }) {
    out->Depth = static_cast<decltype(out->Depth)>(d.Depth);
    out->Flags = d.Flags;
  }
}

template <class Descriptor>
CUresult describe_call(const char* name, Descriptor* out, CUarray handle) {
  return with_array(name, handle, [&](Array& array) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // Of two dimensions at most: "if used for a 3D array, CUDA_ERROR_INVALID_VALUE is returned".
    if constexpr (!requires { out->Depth; })
      if (array.descriptor.Depth != 0) return CUDA_ERROR_INVALID_VALUE;
    tell(array.descriptor, out);
    return CUDA_SUCCESS;
  });
}

}  // namespace

Array* array_of(CUarray handle) {
  return arrays().handles.check(handle);
}

MipmappedArray* mipmapped_of(CUmipmappedArray handle) {
  return arrays().mipmapped.check(handle);
}

bool texels_of(CUarray_format format, unsigned channels, ptx::TexelFormat* out) {
  const Channel channel = channel_of(format);
  // "May be 1, 2, or 4."
  if (channel.bytes == 0 || (channels != 1 && channels != 2 && channels != 4) ||
      (channel.count != 0 && channels != channel.count))
    return false;
  *out = {channel.type, channel.bytes, static_cast<uint8_t>(channels)};
  return true;
}

ptx::Image image_of(const Array& array) {
  ptx::Image image;
  image.base = array.base;
  image.row_bytes = array.row_bytes;
  image.slice_bytes = array.slice_bytes;
  image.width = static_cast<uint32_t>(array.descriptor.Width);
  image.height = static_cast<uint32_t>(array.rows);
  image.depth = static_cast<uint32_t>(array.slices);
  if (array.tile.width != 0) {
    image.tile_row_bytes = array.tile.width * array.element_bytes;
    image.tile_height = array.tile.height;
    image.tile_depth = array.tile.depth;
    image.tiles_across = (image.width + array.tile.width - 1) / array.tile.width;
    image.tiles_down = (image.height + array.tile.height - 1) / array.tile.height;
  }
  if (array.backing != nullptr) array.backing->show(image);
  return image;
}

void add_array_regions(Context& context, std::vector<ptx::Region>& regions) {
  if (!ArrayBacking::any()) return;
  const auto add = [&](const auto* array) {
    if (array->context == &context && array->backing != nullptr) array->backing->add_region(regions);
  };
  arrays().handles.each_live([&](Array* array) {
    if (!array->is_part) add(array);
  });
  arrays().mipmapped.each_live(add);
}

void destroy_arrays_of(Context& context) {
  const auto end = [&](auto& handles, auto* array) {
    if (array->context != &context) return;
    const std::shared_ptr<ArrayBacking> backing = array->backing;
    if (handles.retire(array) && backing != nullptr) backing->release();
  };
  arrays().handles.each_live([&](Array* array) { end(arrays().handles, array); });
  arrays().mipmapped.each_live([&](MipmappedArray* whole) { end(arrays().mipmapped, whole); });
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  return in_context_unsafe(__func__, [&](Context& context) {
    return d == nullptr ? CUDA_ERROR_INVALID_VALUE
                        : create(context, out, widened<CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR>(*d));
  });
}
CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR_v1* d) {
  return in_context_unsafe(__func__, [&](Context& context) {
    return d == nullptr
               ? CUDA_ERROR_INVALID_VALUE
               : create(context, out, widened<CUDA_ARRAY_DESCRIPTOR_v1, CUDA_ARRAY3D_DESCRIPTOR>(*d));
  });
}
CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  return in_context_unsafe(__func__, [&](Context& context) {
    return d == nullptr ? CUDA_ERROR_INVALID_VALUE : create(context, out, *d);
  });
}
CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR_v1* d) {
  return in_context_unsafe(__func__, [&](Context& context) {
    if (d == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto wide = widened<CUDA_ARRAY3D_DESCRIPTOR_v1, CUDA_ARRAY3D_DESCRIPTOR>(*d);
    wide.Depth = d->Depth;
    wide.Flags = d->Flags;
    return create(context, out, wide);
  });
}
CUresult cuArrayDestroy(CUarray array) {
  return in_context_unsafe(__func__, [&](Context&) { return destroy(array); });
}
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray array) {
  return describe_call(__func__, out, array);
}
CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1* out, CUarray array) {
  return describe_call(__func__, out, array);
}
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray array) {
  return describe_call(__func__, out, array);
}
CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1* out, CUarray array) {
  return describe_call(__func__, out, array);
}
CUresult cuArrayGetPlane(CUarray* out, CUarray handle, unsigned int plane) {
  return with_array(__func__, handle, [&](Array& array) {
    if (out == nullptr || plane >= array.parts.size()) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUarray>(array.parts[plane]);
    return CUDA_SUCCESS;
  });
}
CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d,
                                unsigned int levels) {
  return in_context_unsafe(__func__, [&](Context& context) {
    return d == nullptr ? CUDA_ERROR_INVALID_VALUE : create_mipmapped(context, out, *d, levels);
  });
}
CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return in_context_unsafe(__func__, [&](Context&) { return destroy_mipmapped(array); });
}
CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned int level) {
  return in_context(__func__, [&](Context&) {
    MipmappedArray* whole = mipmapped_of(handle);
    if (whole == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || level >= whole->levels.size()) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUarray>(whole->levels[level]);
    return CUDA_SUCCESS;
  });
}
