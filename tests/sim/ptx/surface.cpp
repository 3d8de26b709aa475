// suld, sust, sured: texels and bytes of surfaces, and where a coordinate is out of bounds what the
// instruction wants; txq and suq.
#include <algorithm>
#include <bit>

#include "control.h"
#include "texel.h"

namespace gpufence::sim::ptx {
namespace {

using What = SurfaceAccess::What;
using Beyond = SurfaceAccess::Beyond;

unsigned dimensions_of(Geometry geometry) {
  if (geometry == Geometry::three) return 3;
  return geometry == Geometry::two || geometry == Geometry::layers_of_two ? 2 : 1;
}
bool has_layers(Geometry geometry) {
  return geometry == Geometry::layers_of_one || geometry == Geometry::layers_of_two;
}

const char* mismatch(const Surface& surface, const SurfaceAccess& access) {
  if (has_layers(access.geometry) != surface.layered)
    return surface.layered ? "a surface of layers, without one being chosen"
                           : "layers of a surface without them";
  if (dimensions_of(access.geometry) != surface.dimensions) return "other dimensions than the surface's";
  if (access.counts_texels && access.what == What::reduce &&
      (surface.format.type > ChannelType::signed_integer || surface.format.bytes() != bytes_of(access.type)))
    return "a reduction of texels that are not single integers of its size";
  return nullptr;
}

// The byte, row and slice that are meant; false: out of bounds, and not to be touched.
bool inside(const SurfaceAccess& access, const Image& image, uint64_t bytes, int64_t (&at)[3]) {
  const auto size = [](uint64_t value) { return static_cast<int64_t>(value); };
  if (bytes > image.row_bytes) return false;
  const int64_t most[3] = {size(image.row_bytes - bytes), size(image.height) - 1, size(image.depth) - 1};
  for (unsigned k = 0; k < 3; ++k) {
    if (at[k] >= 0 && at[k] <= most[k]) continue;
    if (access.beyond != Beyond::clamp) return false;
    at[k] = at[k] < 0 ? 0 : most[k];
    if (k == 0) at[k] -= at[k] % size(bytes);
  }
  return true;
}

// Of one element of a register's row.
uint64_t element(Warp& warp, uint32_t offset, unsigned bytes, unsigned lane) {
  return read_word(warp.registers + offset + size_t{lane} * bytes, bytes);
}
void set_element(Warp& warp, uint32_t offset, unsigned bytes, unsigned lane, uint64_t value) {
  write_word(warp.registers + offset + size_t{lane} * bytes, value, bytes);
}

}  // namespace

const Op* op_surface(Warp& warp, const Op* op) {
  const SurfaceAccess& what = warp.frame->code->surface_accesses[static_cast<size_t>(op->imm)];
  const auto& staged = warp.worker->staged;
  const uint64_t* handles = row<uint64_t>(warp, op->r[5]);
  const Objects* objects = warp.launch->launch->objects;
  const unsigned each = bytes_of(what.type);
  for (uint32_t left = exec_mask(warp, op); left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(left));
    const Surface* surface = objects != nullptr ? objects->surface(handles[i]) : nullptr;
    if (surface == nullptr)
      return fault(warp, op, Fault::Kind::illegal_address, i, handles[i], "no surface object");
    if (const char* why = mismatch(*surface, what); why != nullptr)
      return fault(warp, op, Fault::Kind::unsupported, i, 0, why);
    const Image& image = surface->image;
    const bool formatted = what.what == What::store_formatted;
    const unsigned texel = surface->format.bytes();
    const unsigned bytes = formatted ? texel : each * what.parts;
    int64_t at[3] = {static_cast<int32_t>(staged[1][i]), 0, 0};
    if (what.counts_texels) at[0] *= texel;
    if (surface->dimensions > 1) at[1] = static_cast<int32_t>(staged[2][i]);
    if (surface->dimensions > 2) at[2] = static_cast<int32_t>(staged[3][i]);
    if (surface->layered) at[2] = staged[0][i];
    const bool touches = inside(what, image, bytes, at);
    // ".trap causes an execution trap on out-of-bounds addresses".
    if (!touches && what.beyond == Beyond::trap)
      return fault(warp, op, Fault::Kind::trap, i, 0, "out of the surface's bounds");
    Access access;
    std::byte* memory = nullptr;
    if (touches) {
      const uint64_t address = image.address(static_cast<uint64_t>(at[0]), static_cast<uint64_t>(at[1]),
                                             static_cast<uint64_t>(at[2]));
      // By the place in the row: rows are as long as their texels here, and padded on a card.
      if (!formatted && at[0] % bytes != 0)
        return fault(warp, op, Fault::Kind::misaligned_address, i, address);
      memory = memory_of(warp, image, address, bytes, what.what != What::load, &access);
      if (access.faulted) return fault(warp, op, Fault::Kind::illegal_address, i, access.fault);
    }
    // Without memory: "zero" loads zeros and drops stores, and so does a sparse array's missing part.
    switch (what.what) {
      case What::load: {
        uint64_t words[4] = {};
        if (memory != nullptr)
          for (unsigned k = 0; k < what.parts; ++k) words[k] = read_word(memory + k * each, each);
        for (unsigned k = 0; k < what.parts; ++k)
          set_element(warp, op->r[k], what.register_bytes, i, words[k]);
        break;
      }
      case What::store:
        for (unsigned k = 0; memory != nullptr && k < what.parts; ++k)
          write_word(memory + k * each, element(warp, op->r[k], what.register_bytes, i), each);
        break;
      case What::store_formatted: {
        Color color{};
        for (unsigned k = 0; k < what.parts; ++k) color[k] = row<uint32_t>(warp, op->r[k])[i];
        if (memory != nullptr) encode(surface->format, color, memory);
        break;
      }
      case What::reduce: {
        Type type = what.type;
        const bool is_signed = surface->format.type == ChannelType::signed_integer;
        if (type == Type::b32) type = is_signed && what.counts_texels ? Type::s32 : Type::u32;
        if (type == Type::b64) type = is_signed && what.counts_texels ? Type::s64 : Type::u64;
        if (memory != nullptr)
          reduce(static_cast<AtomicKind>(what.reduction), type, reinterpret_cast<uint64_t>(memory),
                 element(warp, op->r[0], what.register_bytes, i));
        break;
      }
    }
  }
  return op + 1;
}

const Op* op_query(Warp& warp, const Op* op) {
  const uint64_t* handles = row<uint64_t>(warp, op->r[1]);
  const uint32_t* levels = row<uint32_t>(warp, op->r[2]);
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  const Objects* objects = warp.launch->launch->objects;
  const bool of_surface = op->small[1] != 0;
  // "Integer from enum { wrap, mirror, clamp_ogl, clamp_to_edge, clamp_to_border }".
  const auto address_mode = [](AddressMode mode) -> uint32_t {
    switch (mode) {
      case AddressMode::wrap:
        return 0;
      case AddressMode::mirror:
        return 1;
      case AddressMode::clamp:
        return 3;
      case AddressMode::border:
        break;
    }
    return 4;
  };
  for (uint32_t left = exec_mask(warp, op); left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(left));
    const Texture* texture = !of_surface && objects != nullptr ? objects->texture(handles[i]) : nullptr;
    const Surface* surface = of_surface && objects != nullptr ? objects->surface(handles[i]) : nullptr;
    if (texture == nullptr && surface == nullptr)
      return fault(warp, op, Fault::Kind::illegal_address, i, handles[i],
                   of_surface ? "no surface object" : "no texture object");
    const Image& image =
        surface != nullptr ? surface->image
                           : texture->level[std::min(op->small[2] != 0 ? levels[i] : 0, texture->levels - 1)];
    const unsigned dimensions = surface != nullptr ? surface->dimensions : texture->dimensions;
    const bool layers = surface != nullptr ? surface->layered : texture->layered;
    switch (static_cast<Query>(op->small[0])) {
      case Query::width:
        d[i] = image.width;
        break;
      case Query::height:
        d[i] = dimensions > 1 ? image.height : 0;
        break;
      case Query::depth:
        d[i] = dimensions > 2 ? image.depth : 0;
        break;
      case Query::array_size:
        d[i] = !layers ? 0 : surface == nullptr && texture->cubemap ? image.depth / 6 : image.depth;
        break;
      case Query::levels:
        d[i] = texture->levels;
        break;
      case Query::samples:
        d[i] = 1;
        break;
      case Query::normalized_coordinates:
        d[i] = texture->sampler.normalized_coordinates ? 1 : 0;
        break;
      case Query::filter_mode:
        d[i] = texture->sampler.linear ? 1 : 0;
        break;
      case Query::address_mode_0:
      case Query::address_mode_1:
      case Query::address_mode_2:
        d[i] = address_mode(
            texture->sampler.address[op->small[0] - static_cast<unsigned>(Query::address_mode_0)]);
        break;
    }
  }
  return op + 1;
}

}  // namespace gpufence::sim::ptx
