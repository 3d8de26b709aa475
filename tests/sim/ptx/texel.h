// Texels between memory and what a lookup works with: four channels of 32 bits.
#pragma once
#include "exec.h"
#include "ptx/texture.h"

namespace gpufence::sim::ptx {

// Bits of floats or of integers, as Texture::reads_floats() says.
using Color = std::array<uint32_t, 4>;

// Where a lookup of one lane went wrong, or what it learnt.
struct Access {
  uint64_t fault = 0;  // an address that this GPU may not touch
  bool faulted = false;
  bool resident = true;  // nothing of it was a part of a sparse array without memory
};

// The memory of `bytes` from there on, or nullptr: a fault, or a part of a sparse array without memory (both
// noted).
std::byte* memory_of(Warp& warp, const Image& image, uint64_t address, uint32_t bytes, bool write,
                     Access* access);

// A word of an image's memory, of `bytes` bytes.
uint64_t read_word(const std::byte* from, unsigned bytes);
void write_word(std::byte* to, uint64_t word, unsigned bytes);

// As it is read by a texture of that format: promoted where the sampler says so; channels that there are not
// are 0, and the last is 1.
Color decoded(const Texture& texture, const std::byte* texel);

// The other way, of surfaces: from floats, or from integers where the format is of integers.
void encode(const TexelFormat& format, const Color& color, std::byte* texel);

}  // namespace gpufence::sim::ptx
