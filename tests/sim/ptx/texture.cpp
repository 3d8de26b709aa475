// tex and tld4: from coordinates to texels, by the CUDA Programming Guide's "Texture Fetching". What it
// leaves open is said here. Weights have 8 bits of fraction, as the hardware's: "α, β, and γ are stored in
// 9-bit fixed point format with 8 bits of fractional value (so 1.0 is exactly represented)"; sums are rounded
// once, at the end.
#include <algorithm>
#include <bit>
#include <cmath>

#include "control.h"
#include "texel.h"

#define GPUFENCE_PTX_ISA base  // the half formats of narrow.h, as any host runs them
#include "ops/narrow.h"

namespace gpufence::sim::ptx {
namespace {

constexpr double kWeights = 256;  // steps from one texel, or level, to the next

using Values = std::array<double, 4>;

Values floats_of(const Color& color) {
  Values values;
  for (unsigned k = 0; k < 4; ++k) values[k] = static_cast<double>(std::bit_cast<float>(color[k]));
  return values;
}
Color bits_of(const Values& values) {
  Color color;
  for (unsigned k = 0; k < 4; ++k) color[k] = std::bit_cast<uint32_t>(static_cast<float>(values[k]));
  return color;
}

// A place between two neighbours: the first's index, and the second's weight.
struct Between {
  int64_t index = 0;
  double weight = 0;
};
Between between(double place) {
  const double whole = std::floor(place);
  return {static_cast<int64_t>(whole), std::floor((place - whole) * kWeights + 0.5) / kWeights};
}

// No texture is so large that a coordinate farther out could mean another texel; what is no number is 0.
double bounded(double place) {
  return place == place ? std::clamp(place, -1e9, 1e9) : 0;
}

// One lane's lookup.
class Lane {
 public:
  Lane(Warp& warp, const Texture& texture, const Lookup& lookup)
      : warp_(warp), texture_(texture), lookup_(lookup) {}

  Access access;

  // What a point of the texture is: layer, coordinates, and the face of a cubemap.
  struct Point {
    uint32_t layer = 0;
    std::array<double, 3> at{};      // as given
    std::array<int64_t, 3> whole{};  // of integer coordinates
    std::array<int32_t, 3> offset{};
    uint32_t face = 0;
  };

  Color sample(const Point& point, double lod) {
    const double most = std::min<double>(texture_.levels - 1, texture_.sampler.greatest_level);
    // A least level beyond the last one means the last.
    lod = std::max(std::min(bounded(lod), most),
                   std::min<double>(texture_.sampler.least_level, texture_.levels - 1));
    lod = std::clamp<double>(lod, 0, texture_.levels - 1);
    if (!texture_.sampler.linear_between_levels)
      return at_level(texture_.level[static_cast<size_t>(std::floor(lod + 0.5))], point);
    const Between levels = between(lod);
    const auto first = static_cast<size_t>(levels.index);
    if (levels.weight == 0) return at_level(texture_.level[first], point);
    const Values a = floats_of(at_level(texture_.level[first], point)),
                 b = floats_of(at_level(texture_.level[first + 1], point));
    Values mixed;
    for (unsigned k = 0; k < 4; ++k) mixed[k] = (1 - levels.weight) * a[k] + levels.weight * b[k];
    return bits_of(mixed);
  }

  // "tld4": the texels that a linear filter would take, "in counter-clockwise order starting at lower left".
  Color gather(const Point& point) {
    const Image& image = texture_.level[0];
    const Between x = between(place(point, 0, image.width) - 0.5),
                  y = between(place(point, 1, image.height) - 0.5);
    const std::pair<int64_t, int64_t> order[4] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
    Color color;
    for (unsigned k = 0; k < 4; ++k) {
      const auto [dx, dy] = order[k];
      color[k] = texel(image, point, x.index + dx, y.index + dy, 0)[lookup_.component];
    }
    return color;
  }

  // log2 of the longer of the two steps, in texels of the first level.
  double level_of(const Point& point, const std::array<float, 3>& dx, const std::array<float, 3>& dy) const {
    const Image& image = texture_.level[0];
    const double extent[3] = {static_cast<double>(image.width), static_cast<double>(image.height),
                              static_cast<double>(image.depth)};
    const auto length = [&](const std::array<float, 3>& step) {
      double sum = 0;
      if (texture_.cubemap) {
        // The step on the face that the direction meets.
        const Projection p = projection(point.at);
        for (const auto& [axis, sign] : {std::pair{p.s_axis, p.s_sign}, std::pair{p.t_axis, p.t_sign}}) {
          const double minor = sign * point.at[axis], minor_step = sign * static_cast<double>(step[axis]),
                       major_step = p.major_sign * static_cast<double>(step[p.major_axis]);
          const double on_face = (minor_step * p.major - minor * major_step) / (2 * p.major * p.major);
          sum += on_face * on_face * extent[0] * extent[0];
        }
        return std::sqrt(sum);
      }
      for (unsigned k = 0; k < texture_.dimensions; ++k) {
        const double texels =
            static_cast<double>(step[k]) * (texture_.sampler.normalized_coordinates ? extent[k] : 1);
        sum += texels * texels;
      }
      return std::sqrt(sum);
    };
    return std::log2(std::max(length(dx), length(dy)));
  }

  // The face of a cubemap and the place on it, both coordinates from 0 to 1 (CUDA Programming Guide, Cubemap
  // Textures). Of equal coordinates the first is the major one.
  void project(Point* point) const {
    const Projection p = projection(point->at);
    const std::array<double, 3> at = point->at;
    point->face = p.face;
    point->at = {(p.s_sign * at[p.s_axis] / p.major + 1) / 2, (p.t_sign * at[p.t_axis] / p.major + 1) / 2, 0};
  }

 private:
  struct Projection {
    uint32_t face;
    unsigned major_axis, s_axis, t_axis;
    double major_sign, s_sign, t_sign;
    double major;
  };
  static Projection projection(const std::array<double, 3>& at) {
    const double x = std::abs(at[0]), y = std::abs(at[1]), z = std::abs(at[2]);
    if (x >= y && x >= z)
      return at[0] >= 0 ? Projection{0, 0, 2, 1, 1, -1, -1, x} : Projection{1, 0, 2, 1, -1, 1, -1, x};
    if (y >= z) return at[1] >= 0 ? Projection{2, 1, 0, 2, 1, 1, 1, y} : Projection{3, 1, 0, 2, -1, 1, -1, y};
    return at[2] >= 0 ? Projection{4, 2, 0, 1, 1, 1, -1, z} : Projection{5, 2, 0, 1, -1, -1, -1, z};
  }

  [[nodiscard]] AddressMode mode(unsigned axis) const {
    if (texture_.linear_memory) return AddressMode::border;
    // A place on a face is never beyond it: what address modes would do with its very edge is of no use.
    if (texture_.cubemap) return AddressMode::clamp;
    const AddressMode mode = texture_.sampler.address[axis];
    // "Wrap and mirror … are only supported with normalized coordinates", and become clamp.
    const bool repeats = mode == AddressMode::wrap || mode == AddressMode::mirror;
    return repeats && (!texture_.sampler.normalized_coordinates || lookup_.integer_coordinates)
               ? AddressMode::clamp
               : mode;
  }

  // In texels: 0.5 is the middle of the first.
  [[nodiscard]] double place(const Point& point, unsigned axis, uint32_t extent) const {
    double at = point.at[axis];
    if (!texture_.sampler.normalized_coordinates && !texture_.cubemap)
      return bounded(at) + point.offset[axis];
    if (mode(axis) == AddressMode::wrap) at -= std::floor(at);
    if (mode(axis) == AddressMode::mirror) {
      const double turns = std::floor(at), part = at - turns;
      at = std::fmod(turns, 2) == 0 ? part : 1 - part;
      // In [0, 1): x of 2 is 0 again, and of 1 the last texel.
    }
    return bounded(at * extent) + point.offset[axis];
  }

  // -1: outside.
  [[nodiscard]] int64_t resolved(int64_t index, unsigned axis, uint32_t extent) const {
    const int64_t size = extent;
    if (index >= 0 && index < size) return index;
    switch (mode(axis)) {
      case AddressMode::clamp:
        return index < 0 ? 0 : size - 1;
      case AddressMode::wrap:
        return (index % size + size) % size;
      case AddressMode::mirror: {
        const int64_t turn = (index % (2 * size) + 2 * size) % (2 * size);
        return turn < size ? turn : 2 * size - 1 - turn;
      }
      case AddressMode::border:
        break;
    }
    return -1;
  }

  Color read(const Image& image, uint64_t x, uint64_t y, uint64_t z) {
    const unsigned bytes = texture_.format.bytes();
    const std::byte* at = memory_of(warp_, image, image.address(x * bytes, y, z), bytes, false, &access);
    if (at != nullptr) return decoded(texture_, at);
    return {};
  }

  Color texel(const Image& image, const Point& point, int64_t x, int64_t y, int64_t z) {
    if (texture_.cubemap && texture_.sampler.seamless_cubemap && texture_.sampler.linear)
      return seamless(image, point, x, y);
    const int64_t i = resolved(x, 0, image.width);
    const int64_t j = texture_.dimensions > 1 ? resolved(y, 1, image.height) : 0;
    const int64_t k = texture_.dimensions > 2 ? resolved(z, 2, image.depth) : slice(image, point);
    if (i < 0 || j < 0 || k < 0) return border();
    return read(image, static_cast<uint64_t>(i), static_cast<uint64_t>(j), static_cast<uint64_t>(k));
  }

  // "The layer index is clamped to [0, layers - 1]."
  [[nodiscard]] int64_t slice(const Image& image, const Point& point) const {
    if (texture_.cubemap) return int64_t{std::min(point.layer, image.depth / 6 - 1)} * 6 + point.face;
    return texture_.layered ? std::min(point.layer, image.depth - 1) : 0;
  }

  [[nodiscard]] Color border() const {
    if (texture_.linear_memory) return {};
    Color color{};
    for (unsigned k = 0; k < texture_.format.channels; ++k) color[k] = texture_.sampler.border[k];
    if (texture_.format.channels < 4) color[3] = texture_.reads_floats() ? std::bit_cast<uint32_t>(1.0F) : 1;
    return color;
  }

  // Beyond an edge of a face its neighbour goes on: the direction through the middle of where the texel would
  // be says which it is. At a corner, where three faces meet, there is no fourth texel: it is the mean of the
  // three.
  Color seamless(const Image& image, const Point& point, int64_t x, int64_t y) {
    const int64_t size = image.width;
    const bool beyond_x = x < 0 || x >= size, beyond_y = y < 0 || y >= size;
    if (beyond_x && beyond_y) {
      const int64_t inner_x = std::clamp<int64_t>(x, 0, size - 1),
                    inner_y = std::clamp<int64_t>(y, 0, size - 1);
      const Values a = floats_of(seamless(image, point, inner_x, inner_y)),
                   b = floats_of(seamless(image, point, x, inner_y)),
                   c = floats_of(seamless(image, point, inner_x, y));
      Values mean;
      for (unsigned k = 0; k < 4; ++k) mean[k] = (a[k] + b[k] + c[k]) / 3;
      return bits_of(mean);
    }
    Point there = point;
    if (beyond_x || beyond_y) {
      // How a face lies: its direction is `major`, and s and t grow along the other two.
      static constexpr struct {
        unsigned major, s, t;
        double major_sign, s_sign, t_sign;
      } kFaces[6] = {{0, 2, 1, 1, -1, -1}, {0, 2, 1, -1, 1, -1}, {1, 0, 2, 1, 1, 1},
                     {1, 0, 2, -1, 1, -1}, {2, 0, 1, 1, 1, -1},  {2, 0, 1, -1, -1, -1}};
      const auto& face = kFaces[point.face];
      there.at[face.major] = face.major_sign;
      there.at[face.s] = face.s_sign * ((2 * static_cast<double>(x) + 1) / static_cast<double>(size) - 1);
      there.at[face.t] = face.t_sign * ((2 * static_cast<double>(y) + 1) / static_cast<double>(size) - 1);
      project(&there);
      x = std::clamp<int64_t>(static_cast<int64_t>(there.at[0] * static_cast<double>(size)), 0, size - 1);
      y = std::clamp<int64_t>(static_cast<int64_t>(there.at[1] * static_cast<double>(size)), 0, size - 1);
    }
    return read(image, static_cast<uint64_t>(x), static_cast<uint64_t>(y),
                static_cast<uint64_t>(slice(image, there)));
  }

  Color at_level(const Image& image, const Point& point) {
    if (lookup_.integer_coordinates)
      return texel(image, point, point.whole[0] + point.offset[0], point.whole[1] + point.offset[1],
                   point.whole[2] + point.offset[2]);
    const uint32_t extent[3] = {image.width, image.height, image.depth};
    const unsigned axes = texture_.dimensions;
    if (!texture_.sampler.linear) {
      int64_t index[3] = {};
      for (unsigned k = 0; k < axes; ++k)
        index[k] = static_cast<int64_t>(std::floor(place(point, k, extent[k])));
      return texel(image, point, index[0], index[1], index[2]);
    }
    Between near[3];
    for (unsigned k = 0; k < axes; ++k) near[k] = between(place(point, k, extent[k]) - 0.5);
    Values sum{};
    for (unsigned corner = 0; corner < 1U << axes; ++corner) {
      double weight = 1;
      int64_t index[3] = {};
      for (unsigned k = 0; k < axes; ++k) {
        const unsigned second = corner >> k & 1;
        weight *= second != 0 ? near[k].weight : 1 - near[k].weight;
        index[k] = near[k].index + second;
      }
      // What has no weight is not read: an infinity there does not show.
      if (weight == 0) continue;
      const Values part = floats_of(texel(image, point, index[0], index[1], index[2]));
      for (unsigned k = 0; k < 4; ++k) sum[k] += weight * part[k];
    }
    return bits_of(sum);
  }

  Warp& warp_;
  const Texture& texture_;
  const Lookup& lookup_;
};

// What a card answers where instruction and texture do not fit is nowhere said; nothing is guessed.
const char* mismatch(const Texture& texture, const Lookup& lookup) {
  const bool cube = lookup.geometry == Geometry::cube || lookup.geometry == Geometry::layers_of_cubes;
  if (cube != texture.cubemap)
    return cube ? "a cubemap's lookup in a texture that is none" : "a cubemap read as another texture";
  const bool layers = lookup.geometry == Geometry::layers_of_one ||
                      lookup.geometry == Geometry::layers_of_two ||
                      lookup.geometry == Geometry::layers_of_cubes;
  if (layers != texture.layered)
    return layers ? "a lookup by layers in a texture without them"
                  : "a lookup without layers in a texture of layers";
  if (!cube) {
    const unsigned dimensions =
        lookup.geometry == Geometry::three                                               ? 3
        : lookup.geometry == Geometry::two || lookup.geometry == Geometry::layers_of_two ? 2
                                                                                         : 1;
    if (dimensions != texture.dimensions) return "a lookup of other dimensions than the texture's";
  }
  if (texture.linear_memory && !lookup.integer_coordinates)
    return "linear memory read otherwise than by tex1Dfetch";
  if (lookup.gathers && !texture.may_gather)
    return "a gather from an array made without CUDA_ARRAY3D_TEXTURE_GATHER";
  if (lookup.level == Lookup::Level::by_gradients && texture.levels > 1 && texture.sampler.linear &&
      texture.sampler.most_anisotropy > 1)
    return "anisotropic filtering; maxAnisotropy of 1 works";
  const bool half = lookup.result == Type::f16 || lookup.result == Type::f16x2;
  if (half && !texture.reads_floats()) return "integers read as half-precision floats";
  return nullptr;
}

uint16_t half_of(uint32_t bits) {
  return base::narrow<base::Half>(static_cast<double>(std::bit_cast<float>(bits)), Round::nearest);
}

void give(Warp& warp, const Op* op, Type type, unsigned lane, const Color& color) {
  if (type == Type::f16) {
    for (unsigned k = 0; k < 4; ++k) row<uint16_t>(warp, op->r[k])[lane] = half_of(color[k]);
  } else if (type == Type::f16x2) {
    for (unsigned k = 0; k < 2; ++k)
      row<uint32_t>(warp, op->r[k])[lane] =
          half_of(color[2 * k]) | static_cast<uint32_t>(half_of(color[2 * k + 1])) << 16;
  } else {
    for (unsigned k = 0; k < 4; ++k) row<uint32_t>(warp, op->r[k])[lane] = color[k];
  }
}

}  // namespace

const Op* op_stage(Warp& warp, const Op* op) {
  if (exec_mask(warp, op) == 0) return op + 1;
  for (unsigned k = 0; k < op->small[0]; ++k) {
    const uint32_t* from = row<uint32_t>(warp, op->r[k]);
    std::copy(from, from + kLanes, warp.worker->staged[op->imm >> 4 * k & 15]);
  }
  return op + 1;
}

const Op* op_lookup(Warp& warp, const Op* op) {
  const Lookup& lookup = warp.frame->code->lookups[static_cast<size_t>(op->imm)];
  const auto& staged = warp.worker->staged;
  const uint64_t* handles = row<uint64_t>(warp, op->r[5]);
  const Objects* objects = warp.launch->launch->objects;
  const Texture* texture = nullptr;
  uint64_t known = 0;
  uint32_t resident = 0;
  const uint32_t lanes = exec_mask(warp, op);
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(left));
    if (texture == nullptr || handles[i] != known) {
      known = handles[i];
      texture = objects != nullptr ? objects->texture(known) : nullptr;
      if (texture == nullptr)
        return fault(warp, op, Fault::Kind::illegal_address, i, known, "no texture object");
      if (const char* why = mismatch(*texture, lookup); why != nullptr)
        return fault(warp, op, Fault::Kind::unsupported, i, 0, why);
    }
    Lane lane(warp, *texture, lookup);
    Lane::Point point;
    point.layer = staged[0][i];
    for (unsigned k = 0; k < 3; ++k) {
      if (lookup.integer_coordinates)
        point.whole[k] = static_cast<int32_t>(staged[1 + k][i]);
      else
        point.at[k] = static_cast<double>(std::bit_cast<float>(staged[1 + k][i]));
      if (lookup.has_offset) point.offset[k] = static_cast<int32_t>(staged[10 + k][i]);
    }
    // "Fetch level 0" where none is given. The bias is an "offset applied to the supplied mipmap level".
    double level = 0;
    if (lookup.level == Lookup::Level::given) {
      level = lookup.integer_level ? static_cast<double>(static_cast<int32_t>(staged[4][i]))
                                   : static_cast<double>(std::bit_cast<float>(staged[4][i]));
    } else if (lookup.level == Lookup::Level::by_gradients) {
      std::array<float, 3> dx, dy;
      for (unsigned k = 0; k < 3; ++k) {
        dx[k] = std::bit_cast<float>(staged[4 + k][i]);
        dy[k] = std::bit_cast<float>(staged[7 + k][i]);
      }
      level = lane.level_of(point, dx, dy);
    }
    if (lookup.level != Lookup::Level::base) level += static_cast<double>(texture->sampler.level_bias);
    if (texture->cubemap) lane.project(&point);
    const Color color = lookup.gathers ? lane.gather(point) : lane.sample(point, level);
    if (lane.access.faulted) return fault(warp, op, Fault::Kind::illegal_address, i, lane.access.fault);
    // "When … False, data loaded will be all zeros."
    if (lane.access.resident) resident |= 1U << i;
    give(warp, op, lookup.result, i, lane.access.resident ? color : Color{});
  }
  uint32_t& told = predicate(warp, op->r[4]);
  told = (told & ~lanes) | resident;
  return op + 1;
}

}  // namespace gpufence::sim::ptx
