// What the instructions of textures and surfaces reach: images as values, how they are looked up, and who
// knows what a handle means. Addresses are checked against the launch's AccessMap before every use, as those
// of ld and st are, so that an image of memory that is gone is a fault and no more.
#pragma once
#include <array>
#include <cstdint>

namespace gpufence::sim::ptx {

// What the bits of a texel's channels say.
enum class ChannelType : uint8_t {
  unsigned_integer,
  signed_integer,
  unsigned_normalized,
  signed_normalized,
  floating
};
struct TexelFormat {
  ChannelType type = ChannelType::floating;
  uint8_t channel_bytes = 4;  // 1, 2, 4
  uint8_t channels = 1;       // 1, 2, 4
  [[nodiscard]] unsigned bytes() const { return unsigned{channel_bytes} * channels; }
};

// One mipmap level. Rows lie one behind the other and so do slices; of sparse arrays, tiles do.
struct Image {
  static constexpr uint64_t kTileBytes = 64 << 10;

  uint64_t base = 0;                          // of its first texel
  uint64_t row_bytes = 0;                     // from one row to the next; of tiles: of the texels of a row
  uint64_t slice_bytes = 0;                   // from one slice, or layer, to the next
  uint32_t width = 1, height = 1, depth = 1;  // texels; depth: slices, or layers (of cubemaps: six a cubemap)

  uint32_t tile_row_bytes = 0, tile_height = 1, tile_depth = 1;  // 0: no tiles
  uint32_t tiles_across = 1, tiles_down = 1;
  // Of sparse arrays: a byte for each kTileBytes from `sparse_from` on, 0 where no memory is mapped; 0: all
  // of the image is there.
  uint64_t resident = 0, sparse_from = 0;

  // Of the byte x of row y in slice z.
  [[nodiscard]] uint64_t address(uint64_t x, uint64_t y, uint64_t z) const {
    if (tile_row_bytes == 0) return base + z * slice_bytes + y * row_bytes + x;
    const uint64_t tile = (z / tile_depth * tiles_down + y / tile_height) * tiles_across + x / tile_row_bytes;
    const uint64_t inside = (z % tile_depth * tile_height + y % tile_height) * tile_row_bytes;
    return base + tile * kTileBytes + inside + x % tile_row_bytes;
  }
};

enum class AddressMode : uint8_t { wrap, clamp, mirror, border };

// How a texture is read: CUDA_TEXTURE_DESC in fewer words.
struct Sampler {
  std::array<AddressMode, 3> address{AddressMode::clamp, AddressMode::clamp, AddressMode::clamp};
  bool linear = false;                  // filters between texels
  bool linear_between_levels = false;   // and between mipmap levels
  bool normalized_coordinates = false;  // 1.0 is the whole extent
  bool promotes = false;                // integers of 8 and 16 bits to floats in [0, 1] or [-1, 1]
  bool srgb = false;
  bool seamless_cubemap = false;
  float level_bias = 0, least_level = 0, greatest_level = 0;  // levels
  uint32_t most_anisotropy = 1;
  std::array<uint32_t, 4> border{};  // bits of a channel as it is read
};

constexpr unsigned kMostLevels = 16;

struct Texture {
  TexelFormat format;
  Sampler sampler;
  uint8_t dimensions = 1;  // without layers; a cubemap has two
  bool layered = false;
  bool cubemap = false;
  bool linear_memory = false;  // read by index; beyond it are zeros
  bool may_gather = true;
  uint32_t levels = 1;
  std::array<Image, kMostLevels> level;

  // Whether what is read are floats; else they are integers of 32 bits.
  [[nodiscard]] bool reads_floats() const {
    return format.type >= ChannelType::unsigned_normalized || (sampler.promotes && format.channel_bytes < 4);
  }
};

struct Surface {
  TexelFormat format;
  uint8_t dimensions = 1;
  bool layered = false;  // or a cubemap, whose faces are layers to a surface
  Image image;
};

// What handles mean to a launch. Asked from several threads at once; what they answer stays readable while
// the launch lasts.
class Objects {
 public:
  virtual ~Objects() = default;
  [[nodiscard]] virtual const Texture* texture(uint64_t handle) const = 0;  // nullptr: there is none
  [[nodiscard]] virtual const Surface* surface(uint64_t handle) const = 0;
};

}  // namespace gpufence::sim::ptx
