// See texel.h. Like ops/memory.cpp never instrumented for races.
#include "texel.h"

#include <algorithm>
#include <bit>
#include <cmath>

#define GPUFENCE_PTX_ISA base  // the half formats of narrow.h, as any host runs them
#include "ops/narrow.h"

namespace gpufence::sim::ptx {
namespace {

template <class T>
uint64_t load(const std::byte* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store(std::byte* to, uint64_t word) {
  const auto value = static_cast<T>(word);
  __builtin_memcpy(to, &value, sizeof value);
}

int32_t extended(uint32_t bits, unsigned bytes) {
  const unsigned up = 32 - 8 * bytes;
  return static_cast<int32_t>(bits << up) >> up;
}

// "[0.0, 1.0]" for unsigned integers and "[-1.0, 1.0]" for signed ones (CUDA Programming Guide, Texture
// Memory); of the two least signed values both are -1.
double promoted(uint32_t bits, unsigned bytes, bool is_signed) {
  if (!is_signed) return bits / (bytes == 1 ? 255.0 : 65535.0);
  return std::max(extended(bits, bytes) / (bytes == 1 ? 127.0 : 32767.0), -1.0);
}

// IEC 61966-2-1.
double linear_of_srgb(double value) {
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

uint32_t float_bits(double value) {
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

}  // namespace

std::byte* memory_of(Warp& warp, const Image& image, uint64_t address, uint32_t bytes, bool write,
                     Access* access) {
  if (image.resident != 0) {
    const uint64_t entry = image.resident + (address - image.sparse_from) / Image::kTileBytes;
    if (!reach(warp, entry, 1, false)) {
      access->faulted = true;
      access->fault = entry;
      return nullptr;
    }
    if (__atomic_load_n(reinterpret_cast<const uint8_t*>(entry), __ATOMIC_ACQUIRE) == 0) {
      access->resident = false;
      return nullptr;
    }
  }
  if (reach(warp, address, bytes, write)) return reinterpret_cast<std::byte*>(address);
  access->faulted = true;
  access->fault = address;
  return nullptr;
}

uint64_t read_word(const std::byte* from, unsigned bytes) {
  switch (bytes) {
    case 1:
      return load<uint8_t>(from);
    case 2:
      return load<uint16_t>(from);
    case 4:
      return load<uint32_t>(from);
    default:
      return load<uint64_t>(from);
  }
}
void write_word(std::byte* to, uint64_t word, unsigned bytes) {
  switch (bytes) {
    case 1:
      return store<uint8_t>(to, word);
    case 2:
      return store<uint16_t>(to, word);
    case 4:
      return store<uint32_t>(to, word);
    default:
      return store<uint64_t>(to, word);
  }
}

Color decoded(const Texture& texture, const std::byte* texel) {
  const TexelFormat& format = texture.format;
  const bool floats = texture.reads_floats();
  const unsigned bytes = format.channel_bytes;
  const bool is_signed =
      format.type == ChannelType::signed_integer || format.type == ChannelType::signed_normalized;
  Color color{0, 0, 0, floats ? float_bits(1) : 1};
  for (unsigned k = 0; k < format.channels; ++k) {
    const auto bits = static_cast<uint32_t>(read_word(texel + k * bytes, bytes));
    if (format.type == ChannelType::floating) {
      color[k] = bytes == 4 ? bits : float_bits(base::widen<base::Half>(static_cast<uint16_t>(bits)));
    } else if (!floats) {
      color[k] = is_signed ? static_cast<uint32_t>(extended(bits, bytes)) : bits;
    } else {
      double value = promoted(bits, bytes, is_signed);
      if (texture.sampler.srgb && bytes == 1 && !is_signed && k < 3) value = linear_of_srgb(value);
      color[k] = float_bits(value);
    }
  }
  return color;
}

void encode(const TexelFormat& format, const Color& color, std::byte* texel) {
  const unsigned bytes = format.channel_bytes;
  for (unsigned k = 0; k < format.channels; ++k) {
    uint32_t bits = color[k];
    const auto value = static_cast<double>(std::bit_cast<float>(bits));
    const double most = bytes == 1 ? 255 : 65535, most_signed = bytes == 1 ? 127 : 32767;
    switch (format.type) {
      case ChannelType::floating:
        if (bytes == 2) bits = base::narrow<base::Half>(value, Round::nearest);
        break;
      case ChannelType::unsigned_normalized:
        bits = value > 0 ? static_cast<uint32_t>(std::nearbyint(std::min(value, 1.0) * most)) : 0;
        break;
      case ChannelType::signed_normalized:
        bits = value == value ? static_cast<uint32_t>(static_cast<int32_t>(
                                    std::nearbyint(std::clamp(value, -1.0, 1.0) * most_signed)))
                              : 0;
        break;
      case ChannelType::unsigned_integer:
        if (bytes < 4) bits = std::min(bits, (1U << 8 * bytes) - 1);
        break;
      case ChannelType::signed_integer:
        if (bytes < 4) {
          const int32_t limit = (1 << (8 * bytes - 1)) - 1;
          bits = static_cast<uint32_t>(std::clamp(static_cast<int32_t>(bits), -limit - 1, limit));
        }
        break;
    }
    write_word(texel + k * bytes, bits, bytes);
  }
}

}  // namespace gpufence::sim::ptx
