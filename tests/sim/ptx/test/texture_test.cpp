// tex, tld4, txq, suld, sust, sured and suq. Values follow from the formulas of the CUDA Programming Guide's
// "Texture Fetching" and from the PTX manual, computed by hand.
#include <bit>
#include <cmath>
#include <numeric>

#include "grid.h"

namespace gpufence::sim::ptx {
namespace {

constexpr uint64_t kTexture = 7, kSurface = 9;

struct Known : Objects {
  Texture seen;
  Surface written;
  [[nodiscard]] const Texture* texture(uint64_t handle) const override {
    return handle == kTexture ? &seen : nullptr;
  }
  [[nodiscard]] const Surface* surface(uint64_t handle) const override {
    return handle == kSurface ? &written : nullptr;
  }
};

template <class T>
Image image_of(const std::vector<T>& memory, uint32_t texel_bytes, uint32_t width, uint32_t height = 1,
               uint32_t depth = 1) {
  Image image;
  image.base = reinterpret_cast<uint64_t>(memory.data());
  image.row_bytes = uint64_t{width} * texel_bytes;
  image.slice_bytes = image.row_bytes * height;
  image.width = width;
  image.height = height;
  image.depth = depth;
  return image;
}

Texture floats(const std::vector<float>& memory, uint8_t dimensions, uint32_t width, uint32_t height = 1,
               uint32_t depth = 1) {
  Texture texture;
  texture.dimensions = dimensions;
  texture.level[0] = image_of(memory, 4, width, height, depth);
  return texture;
}

std::string hex(float value) {
  char text[16];
  snprintf(text, sizeof text, "0f%08x", std::bit_cast<uint32_t>(value));
  return text;
}
std::string tuple(std::initializer_list<float> values) {
  std::string text;
  for (const float value : values) text += (text.empty() ? "{" : ", ") + hex(value);
  return text + "}";
}

// What one thread reads: the four results, and 1 where all of it was in memory.
struct Answer {
  Fault fault;
  std::array<uint32_t, 5> word{};
  [[nodiscard]] float f(unsigned k = 0) const { return std::bit_cast<float>(word[k]); }
};

template <class T>
Answer looked_up(const Texture& texture, std::vector<T>& memory, const std::string& opcode,
                 const std::string& coordinates, const std::string& more = "", uint64_t handle = kTexture) {
  std::vector<uint32_t> out(5);
  Known known;
  known.seen = texture;
  Grid grid(
      ".visible .entry k(.param .u64 t, .param .u64 out) {\n"
      ".reg .pred %p<2>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<4>;\n"
      "ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [out];\n" +
      opcode + " {%r0, %r1, %r2, %r3}|%p1, [%rd1, " + coordinates + "]" + more +
      ";\nselp.u32 %r4, 1, 0, %p1; st.global.v4.u32 [%rd2], {%r0, %r1, %r2, %r3}; st.global.u32 [%rd2+16], "
      "%r4; ret; }");
  grid.arg(handle).array(out).with(memory, false);
  grid.launch.objects = &known;
  Answer answer;
  answer.fault = grid.run("k", 1, 1);
  std::copy(out.begin(), out.end(), answer.word.begin());
  return answer;
}

TEST(Texture, NearestPointIsTheFloor) {
  std::vector<float> memory{1, 2, 4, 8};
  const Texture texture = floats(memory, 1, 4);
  for (const auto& [x, value] : {std::pair{-1.0F, 1.0F},
                                 {0.0F, 1.0F},
                                 {0.99F, 1.0F},
                                 {1.0F, 2.0F},
                                 {3.5F, 8.0F},
                                 {4.0F, 8.0F},
                                 {1e30F, 8.0F},
                                 {-INFINITY, 1.0F},
                                 {NAN, 1.0F}})
    EXPECT_EQ(looked_up(texture, memory, "tex.1d.v4.f32.f32", tuple({x})).f(), value) << x;
  const Answer all = looked_up(texture, memory, "tex.1d.v4.f32.f32", tuple({2}));
  EXPECT_EQ(all.fault.kind, Fault::Kind::none) << all.fault.text;
  // Channels that there are not are 0, and the last is 1.
  EXPECT_EQ(all.word, (std::array<uint32_t, 5>{0x40800000, 0, 0, 0x3f800000, 1}));
}

TEST(Texture, LinearFilteringHasEightBitsOfFraction) {
  std::vector<float> memory{1, 2, 4, 8};
  Texture texture = floats(memory, 1, 4);
  texture.sampler.linear = true;
  // tex(x) = (1 - α) T[i] + α T[i + 1], i = floor(x - 0.5), α = frac(x - 0.5) in 256ths
  for (const auto& [x, value] : {std::pair{0.5F, 1.0F},
                                 {1.0F, 1.5F},
                                 {1.25F, 1.75F},
                                 {1.5F, 2.0F},
                                 {1.501F, 2.0F},
                                 {1.50390625F, 2.0078125F},
                                 {1.503F, 2.0078125F},
                                 {0.0F, 1.0F},
                                 {9.0F, 8.0F}})
    EXPECT_EQ(looked_up(texture, memory, "tex.1d.v4.f32.f32", tuple({x})).f(), value) << x;
  std::vector<float> square{0, 1, 2, 3};
  Texture two = floats(square, 2, 2, 2);
  two.sampler.linear = true;
  // 0.75 × 0.5 × T[0,0] + 0.25 × 0.5 × T[1,0] + 0.75 × 0.5 × T[0,1] + 0.25 × 0.5 × T[1,1]
  EXPECT_EQ(looked_up(two, square, "tex.2d.v4.f32.f32", tuple({0.75, 1})).f(), 1.25F);
  std::vector<float> cube{0, 1, 2, 3, 4, 5, 6, 7};
  Texture three = floats(cube, 3, 2, 2, 2);
  three.sampler.linear = true;
  EXPECT_EQ(looked_up(three, cube, "tex.3d.v4.f32.f32", tuple({1, 1, 1, 0})).f(), 3.5F);
  EXPECT_EQ(looked_up(three, cube, "tex.3d.v4.f32.f32", tuple({1.5, 0.5, 1.5, 9})).f(), 5.0F);
}

TEST(Texture, AddressesBeyondTheEdges) {
  std::vector<float> memory{1, 2, 4, 8};
  Texture texture = floats(memory, 1, 4);
  const auto at = [&](AddressMode mode, bool normalized, float x) {
    texture.sampler.address[0] = mode;
    texture.sampler.normalized_coordinates = normalized;
    return looked_up(texture, memory, "tex.1d.v4.f32.f32", tuple({x})).f();
  };
  // Wrap: frac(x); mirror: frac(x) where floor(x) is even, else 1 - frac(x).
  EXPECT_EQ(at(AddressMode::wrap, true, 1.3F), 2);
  EXPECT_EQ(at(AddressMode::wrap, true, -0.1F), 8);
  EXPECT_EQ(at(AddressMode::mirror, true, 1.3F), 4);
  EXPECT_EQ(at(AddressMode::mirror, true, -0.1F), 1);
  EXPECT_EQ(at(AddressMode::mirror, true, 2.3F), 2);
  EXPECT_EQ(at(AddressMode::clamp, true, 1.3F), 8);
  EXPECT_EQ(at(AddressMode::border, true, 1.3F), 0);
  EXPECT_EQ(at(AddressMode::border, true, 0.3F), 2);
  // Without normalized coordinates wrap and mirror are clamp.
  EXPECT_EQ(at(AddressMode::wrap, false, 5), 8);
  EXPECT_EQ(at(AddressMode::mirror, false, -5), 1);
  EXPECT_EQ(at(AddressMode::border, false, 5), 0);
  texture.sampler.border = {std::bit_cast<uint32_t>(0.25F), 0, 0, 0};
  EXPECT_EQ(at(AddressMode::border, false, 5), 0.25F);
  texture.sampler.linear = true;
  EXPECT_EQ(at(AddressMode::border, false, 4), 0.5F * 8 + 0.5F * 0.25F);
  EXPECT_EQ(at(AddressMode::wrap, true, 0), 0.5F * 8 + 0.5F * 1);
  EXPECT_EQ(at(AddressMode::mirror, true, 0), 1);
}

TEST(Texture, FormatsAreReadAsTheySay) {
  std::vector<uint8_t> memory{0x80, 0xff, 0x7f, 0x33, 0x00, 0x3c, 0xcd, 0xab};
  Texture texture;
  const auto of = [&](ChannelType type, uint8_t bytes, uint8_t channels, bool promotes = false) {
    texture.format = {type, bytes, channels};
    texture.sampler.promotes = promotes;
    texture.level[0] = image_of(memory, texture.format.bytes(), 8 / texture.format.bytes());
    return looked_up(texture, memory, "tex.1d.v4.s32.f32", tuple({0}));
  };
  EXPECT_EQ(of(ChannelType::unsigned_integer, 1, 4).word,
            (std::array<uint32_t, 5>{0x80, 0xff, 0x7f, 0x33, 1}));
  EXPECT_EQ(of(ChannelType::signed_integer, 1, 2).word,
            (std::array<uint32_t, 5>{0xffffff80, 0xffffffff, 0, 1, 1}));
  EXPECT_EQ(of(ChannelType::signed_integer, 2, 4).word,
            (std::array<uint32_t, 5>{0xffffff80, 0x337f, 0x3c00, 0xffffabcd, 1}));
  EXPECT_EQ(of(ChannelType::unsigned_integer, 4, 2).word,
            (std::array<uint32_t, 5>{0x337fff80, 0xabcd3c00, 0, 1, 1}));
  // 32-bit integers are not promoted.
  EXPECT_EQ(of(ChannelType::unsigned_integer, 4, 1, true).word[0], 0x337fff80U);
  Answer promoted = of(ChannelType::unsigned_integer, 1, 4, true);
  EXPECT_EQ(promoted.f(0), 128 / 255.0F);
  EXPECT_EQ(promoted.f(1), 1);
  promoted = of(ChannelType::signed_integer, 1, 4, true);
  EXPECT_EQ(promoted.f(0), -1);
  EXPECT_EQ(promoted.f(1), -1 / 127.0F);
  EXPECT_EQ(promoted.f(2), 1);
  EXPECT_EQ(of(ChannelType::unsigned_normalized, 2, 4).f(2), 0x3c00 / 65535.0F);
  EXPECT_EQ(of(ChannelType::floating, 2, 4).f(2), 1);  // 0x3c00
  texture.sampler.srgb = true;
  promoted = of(ChannelType::unsigned_integer, 1, 4, true);
  EXPECT_NEAR(promoted.f(0), 0.2158605F, 1e-6);  // ((128 / 255 + 0.055) / 1.055) ^ 2.4
  EXPECT_EQ(promoted.f(3), 0x33 / 255.0F) << "the fourth is no colour";
}

TEST(Texture, HalvesAndPairsOfThem) {
  std::vector<float> memory{1, 2, 65536, 0.5F};
  Texture texture = floats(memory, 1, 1);
  texture.format = {ChannelType::floating, 4, 4};
  std::vector<uint32_t> out(4);
  Known known;
  known.seen = texture;
  Grid grid(
      ".visible .entry k(.param .u64 t, .param .u64 out) {\n"
      ".reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>; ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, "
      "[out];\n"
      "tex.1d.v2.f16x2.s32 {%r0, %r1}, [%rd1, 0]; tex.1d.v4.f16.s32 {%h0, %h1, %h2, %h3}, [%rd1, {0}];\n"
      "mov.b32 %r2, {%h0, %h1}; mov.b32 %r3, {%h2, %h3}; st.global.v4.u32 [%rd2], {%r0, %r1, %r2, %r3}; ret; "
      "}");
  grid.arg(kTexture).array(out).with(memory);
  grid.launch.objects = &known;
  grid.ok("k", 1, 1);
  EXPECT_EQ(out, (std::vector<uint32_t>{0x40003c00, 0x38007c00, 0x40003c00, 0x38007c00}));
}

TEST(Texture, LinearMemoryIsReadByIndexAndZeroBeyond) {
  std::vector<float> memory{1, 2, 4, 8};
  Texture texture = floats(memory, 1, 4);
  texture.linear_memory = true;
  texture.sampler.address[0] = AddressMode::clamp;
  for (const auto& [x, value] : {std::pair{0, 1.0F}, {3, 8.0F}, {4, 0.0F}, {-1, 0.0F}})
    EXPECT_EQ(looked_up(texture, memory, "tex.1d.v4.f32.s32", "{" + std::to_string(x) + "}").f(), value) << x;
  const Answer floating = looked_up(texture, memory, "tex.1d.v4.f32.f32", tuple({0}));
  EXPECT_EQ(floating.fault.kind, Fault::Kind::unsupported);
}

TEST(Texture, OffsetsAreInTexels) {
  std::vector<float> memory{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const Texture texture = floats(memory, 2, 3, 3);
  EXPECT_EQ(looked_up(texture, memory, "tex.2d.v4.f32.f32", tuple({1.5, 1.5}), ", {1, -1}").f(), 2);
  EXPECT_EQ(
      looked_up(texture, memory, "tex.level.2d.v4.f32.f32", tuple({1.5, 1.5}), ", 0f00000000, {-1, 1}").f(),
      6);
}

TEST(Texture, LayersAreClampedAndNotFiltered) {
  std::vector<float> memory{0, 1, 10, 11, 20, 21};
  Texture texture = floats(memory, 1, 2, 1, 3);
  texture.layered = true;
  texture.sampler.linear = true;
  const auto at = [&](const char* layer) {
    return looked_up(texture, memory, "tex.a1d.v4.f32.f32", "{" + std::string(layer) + ", " + hex(1) + "}")
        .f();
  };
  EXPECT_EQ(at("0"), 0.5F);
  EXPECT_EQ(at("2"), 20.5F);
  EXPECT_EQ(at("7"), 20.5F);
  std::vector<float> flat{0, 1, 2, 3, 10, 11, 12, 13};
  Texture two = floats(flat, 2, 2, 2, 2);
  two.layered = true;
  EXPECT_EQ(
      looked_up(two, flat, "tex.a2d.v4.f32.f32", "{1, " + hex(0.5) + ", " + hex(1.5) + ", " + hex(0) + "}")
          .f(),
      12);
}

TEST(Texture, DirectionsMeetTheFacesOfACube) {
  // Texel (x, y) of face f is 100 f + 10 y + x.
  std::vector<float> memory;
  for (int face = 0; face < 6; ++face)
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 2; ++x) memory.push_back(static_cast<float>(100 * face + 10 * y + x));
  Texture texture = floats(memory, 2, 2, 2, 6);
  texture.cubemap = true;
  texture.sampler.normalized_coordinates = true;
  const auto at = [&](float x, float y, float z) {
    return looked_up(texture, memory, "tex.cube.v4.f32.f32", tuple({x, y, z, 0})).f();
  };
  // s, t of each face: -z -y, z -y, x z, x -z, x -y, -x -y (CUDA Programming Guide, Cubemap Textures)
  EXPECT_EQ(at(4, 1, 2), 0 + 0);
  EXPECT_EQ(at(4, -1, -2), 0 + 11);
  EXPECT_EQ(at(-4, 1, 2), 100 + 1);
  EXPECT_EQ(at(1, 4, 2), 200 + 11);
  EXPECT_EQ(at(1, -4, 2), 300 + 1);
  EXPECT_EQ(at(1, 2, 4), 400 + 1);
  EXPECT_EQ(at(1, 2, -4), 500 + 0);
  EXPECT_EQ(at(0, 0, 0), 0) << "no direction, and no crash";
  std::vector<float> two = memory;
  for (const float value : memory) two.push_back(1000 + value);
  Texture layered = floats(two, 2, 2, 2, 12);
  layered.cubemap = layered.layered = true;
  layered.sampler.normalized_coordinates = true;
  EXPECT_EQ(
      looked_up(layered, two, "tex.acube.v4.f32.f32", "{1, " + hex(1) + ", " + hex(4) + ", " + hex(2) + "}")
          .f(),
      1211);
}

TEST(Texture, ASeamlessCubemapIsFilteredAcrossItsEdges) {
  std::vector<float> memory;
  for (int face = 0; face < 6; ++face)
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 2; ++x) memory.push_back(static_cast<float>(100 * face + 10 * y + x));
  Texture texture = floats(memory, 2, 2, 2, 6);
  texture.cubemap = true;
  texture.sampler.linear = texture.sampler.normalized_coordinates = true;
  const auto at = [&](float x, float y, float z) {
    return looked_up(texture, memory, "tex.cube.v4.f32.f32", tuple({x, y, z, 0})).f();
  };
  // At the edge of +x and +z, in the middle of the upper texels. Without seams being closed the face goes on
  // as its own edge; else half of it is the neighbour's.
  EXPECT_EQ(at(1, 0.5, 1), 0);
  texture.sampler.seamless_cubemap = true;
  EXPECT_EQ(at(1, 0.5, 1), 0.5F * 0 + 0.5F * 401);
  // Near +y: texel (1, 0) of +x, and what lies beyond it on +y.
  EXPECT_EQ(at(1, 1, -0.5), 0.5F * 1 + 0.5F * 201);
  // The corner of +x, +y and +z: a quarter each, and a quarter of their mean.
  EXPECT_NEAR(at(1, 1, 1), (0 + 401 + 211) / 3.0F, 1e-3);
}

TEST(Texture, GathersCounterClockwiseFromTheLowerLeft) {
  std::vector<float> memory;
  for (int k = 0; k < 9; ++k)
    for (int c = 0; c < 2; ++c) memory.push_back(static_cast<float>(10 * k + c));
  Texture texture = floats(memory, 2, 3, 3);
  texture.format.channels = 2;
  texture.level[0] = image_of(memory, 8, 3, 3);
  const Answer green = looked_up(texture, memory, "tld4.g.2d.v4.f32.f32", tuple({2, 1}));
  // T(1, 1), T(2, 1), T(2, 0), T(1, 0)
  EXPECT_EQ(green.f(0), 41);
  EXPECT_EQ(green.f(1), 51);
  EXPECT_EQ(green.f(2), 21);
  EXPECT_EQ(green.f(3), 11);
  EXPECT_EQ(looked_up(texture, memory, "tld4.a.2d.v4.f32.f32", tuple({2, 1})).f(2), 1);
  texture.may_gather = false;
  const Answer refused = looked_up(texture, memory, "tld4.r.2d.v4.f32.f32", tuple({2, 1}));
  EXPECT_EQ(refused.fault.kind, Fault::Kind::unsupported);
  EXPECT_NE(refused.fault.text.find("CUDA_ARRAY3D_TEXTURE_GATHER"), std::string::npos);
}

Texture mipmapped(const std::vector<float>& memory) {
  // 4 × 4 of 0, 2 × 2 of 10, one of 20.
  Texture texture = floats(memory, 2, 4, 4);
  texture.levels = 3;
  texture.level[1] = image_of(memory, 4, 2, 2);
  texture.level[1].base += 64;
  texture.level[2] = image_of(memory, 4, 1, 1);
  texture.level[2].base += 80;
  texture.sampler.normalized_coordinates = true;
  texture.sampler.greatest_level = 9;
  return texture;
}

TEST(Texture, MipmapLevels) {
  std::vector<float> memory(21, 0);
  std::fill(memory.begin() + 16, memory.begin() + 20, 10.0F);
  memory[20] = 20;
  Texture texture = mipmapped(memory);
  const auto level = [&](float lod) {
    return looked_up(texture, memory, "tex.level.2d.v4.f32.f32", tuple({0.5, 0.5}), ", " + hex(lod)).f();
  };
  EXPECT_EQ(level(0.4F), 0);
  EXPECT_EQ(level(0.6F), 10);
  EXPECT_EQ(level(-3), 0);
  EXPECT_EQ(level(7), 20);
  EXPECT_EQ(looked_up(texture, memory, "tex.2d.v4.f32.f32", tuple({0.5, 0.5})).f(), 0);
  texture.sampler.linear_between_levels = true;
  EXPECT_EQ(level(0.25F), 2.5F);
  EXPECT_EQ(level(1.5F), 15);
  EXPECT_EQ(level(1.001F), 10) << "eight bits of fraction";
  texture.sampler.level_bias = 0.5F;
  EXPECT_EQ(level(0.25F), 7.5F);
  texture.sampler.level_bias = 0;
  texture.sampler.least_level = 0.5F;
  texture.sampler.greatest_level = 1.25F;
  EXPECT_EQ(level(0), 5);
  EXPECT_EQ(level(2), 12.5F);
  texture.sampler.least_level = 9;
  texture.sampler.greatest_level = 9;
  EXPECT_EQ(level(0), 20);
}

TEST(Texture, GradientsChooseTheLevel) {
  std::vector<float> memory(21, 0);
  std::fill(memory.begin() + 16, memory.begin() + 20, 10.0F);
  memory[20] = 20;
  Texture texture = mipmapped(memory);
  texture.sampler.linear_between_levels = true;
  const auto grad = [&](const std::string& dx, const std::string& dy) {
    return looked_up(texture, memory, "tex.grad.2d.v4.f32.f32", tuple({0.5, 0.5}), ", " + dx + ", " + dy);
  };
  // log2 of the longer step in texels: 0.5 of 4 are 2.
  EXPECT_EQ(grad(tuple({0.5, 0}), tuple({0, 0.25})).f(), 10);
  EXPECT_EQ(grad(tuple({0, 0.25}), tuple({0, 0})).f(), 0);
  EXPECT_EQ(grad(tuple({0.1F, 0}), tuple({0.6F, 0.8F})).f(), 20);
  EXPECT_EQ(grad(tuple({0, 0}), tuple({0, 0})).f(), 0);
  EXPECT_NEAR(grad(tuple({0.35355339F, 0}), tuple({0, 0})).f(), 5, 1e-5);
  texture.sampler.linear = true;
  texture.sampler.most_anisotropy = 4;
  EXPECT_EQ(grad(tuple({0.5, 0}), tuple({0, 0.25})).fault.kind, Fault::Kind::unsupported);
}

TEST(Texture, PartsWithoutMemoryAreZeroAndTold) {
  // Two tiles side by side, of 128 × 128 floats; memory for the second alone.
  std::vector<uint32_t> memory(2 * 16384 + 1);
  std::fill(memory.begin(), memory.begin() + 16384, std::bit_cast<uint32_t>(5.0F));
  std::fill(memory.begin() + 16384, memory.end() - 1, std::bit_cast<uint32_t>(6.0F));
  memory.back() = 0x0100;
  Texture texture;
  texture.dimensions = 2;
  Image& image = texture.level[0];
  image = image_of(memory, 4, 256, 128);
  image.tile_row_bytes = 512;
  image.tile_height = 128;
  image.tiles_across = 2;
  image.sparse_from = image.base;
  image.resident = image.base + 2 * Image::kTileBytes;
  const Answer there = looked_up(texture, memory, "tex.2d.v4.f32.f32", tuple({130, 127}));
  EXPECT_EQ(there.f(), 6);
  EXPECT_EQ(there.word[4], 1U);
  const Answer missing = looked_up(texture, memory, "tex.2d.v4.f32.f32", tuple({127, 127}));
  EXPECT_EQ(missing.word, (std::array<uint32_t, 5>{0, 0, 0, 0, 0}));
  EXPECT_EQ(missing.fault.kind, Fault::Kind::none) << missing.fault.text;
}

TEST(Texture, WhatIsNoTextureOrOutOfReachIsAFault) {
  std::vector<float> memory{1, 2, 4, 8};
  const Texture texture = floats(memory, 1, 4);
  const Answer none = looked_up(texture, memory, "tex.1d.v4.f32.f32", tuple({0}), "", 8);
  EXPECT_EQ(none.fault.kind, Fault::Kind::illegal_address);
  EXPECT_NE(none.fault.text.find("no texture object"), std::string::npos) << none.fault.text;
  std::vector<float> gone{1, 2, 4, 8};
  const Answer freed = looked_up(floats(gone, 1, 4), memory, "tex.1d.v4.f32.f32", tuple({2}));
  EXPECT_EQ(freed.fault.kind, Fault::Kind::illegal_address);
  EXPECT_EQ(freed.fault.address, reinterpret_cast<uint64_t>(gone.data() + 2));
  for (const char* opcode : {"tex.2d.v4.f32.f32", "tld4.r.2d.v4.f32.f32"})
    EXPECT_EQ(looked_up(texture, memory, opcode, tuple({0, 0})).fault.kind, Fault::Kind::unsupported)
        << opcode;
}

TEST(Texture, QueriesOfTexturesAndSurfaces) {
  std::vector<float> memory(64);
  Known known;
  known.seen = floats(memory, 2, 4, 2, 8);
  known.seen.layered = true;
  known.seen.levels = 2;
  known.seen.level[1] = image_of(memory, 4, 2, 1, 8);
  known.seen.sampler.address = {AddressMode::wrap, AddressMode::border, AddressMode::clamp};
  known.written.dimensions = 3;
  known.written.image = image_of(memory, 4, 4, 2, 8);
  std::vector<uint32_t> out(12);
  std::string text =
      ".visible .entry k(.param .u64 t, .param .u64 s, .param .u64 out) { .reg .b32 %r<4>; .reg .b64 "
      "%rd<4>;\n"
      "ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [s]; ld.param.u64 %rd3, [out];\n";
  int at = 0;
  for (const char* query :
       {"txq.width.b32 %r0, [%rd1];", "txq.height.b32 %r0, [%rd1];", "txq.depth.b32 %r0, [%rd1];",
        "txq.array_size.b32 %r0, [%rd1];", "txq.level.width.b32 %r0, [%rd1], 1;",
        "txq.num_mipmap_levels.b32 %r0, [%rd1];", "txq.addr_mode_0.b32 %r0, [%rd1];",
        "txq.addr_mode_1.b32 %r0, [%rd1];", "suq.width.b32 %r0, [%rd2];", "suq.height.b32 %r0, [%rd2];",
        "suq.depth.b32 %r0, [%rd2];", "suq.array_size.b32 %r0, [%rd2];"})
    text += std::string(query) + " st.global.u32 [%rd3+" + std::to_string(4 * at++) + "], %r0;\n";
  Grid grid(text + "ret; }");
  grid.arg(kTexture).arg(kSurface).array(out);
  grid.launch.objects = &known;
  grid.ok("k", 1, 1);
  EXPECT_EQ(out, (std::vector<uint32_t>{4, 2, 0, 8, 2, 2, 0, 4, 4, 2, 8, 0}));
}

TEST(Texture, EachLaneMayHaveATextureOfItsOwnAndOthersKeepTheirs) {
  struct Two : Objects {
    std::array<Texture, 2> seen;
    [[nodiscard]] const Texture* texture(uint64_t handle) const override {
      return handle < 2 ? &seen[handle] : nullptr;
    }
    [[nodiscard]] const Surface* surface(uint64_t) const override { return nullptr; }
  } two;
  std::vector<float> a(32), b(32);
  std::iota(a.begin(), a.end(), 0.0F);
  std::iota(b.begin(), b.end(), 100.0F);
  two.seen = {floats(a, 1, 32), floats(b, 1, 32)};
  std::vector<float> out(64);
  Grid grid(
      ".visible .entry k(.param .u64 out) { .reg .pred %p<3>; .reg .f32 %f<8>; .reg .b32 %r<4>; .reg .b64 "
      "%rd<4>;\nld.param.u64 %rd1, [out]; mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 1; cvt.u64.u32 %rd2, %r1;\n"
      "setp.lt.u32 %p1, %r0, 20; setp.lt.u32 %p2, %r0, 32; mov.f32 %f1, 0fbf800000; cvt.rn.f32.u32 %f0, "
      "%r0;\n"
      "@%p1 tex.1d.v4.f32.f32 {%f1, _, _, _}|%p2, [%rd2, {%f0}];\n"
      "mul.wide.u32 %rd3, %r0, 8; add.u64 %rd1, %rd1, %rd3; selp.f32 %f2, 0f3f800000, 0f00000000, %p2;\n"
      "st.global.v2.f32 [%rd1], {%f1, %f2}; ret; }");
  grid.array(out).with(a).with(b);
  grid.launch.objects = &two;
  grid.ok("k", 1, 32);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[2 * i], i >= 20 ? -1.0F : static_cast<float>(i % 2 * 100 + i)) << i;
    EXPECT_EQ(out[2 * i + 1], 1.0F) << i;
  }
}

// ---- Surfaces ----

Surface words(const std::vector<uint32_t>& memory, uint8_t dimensions, uint32_t width, uint32_t height = 1,
              uint32_t depth = 1) {
  Surface surface;
  surface.format = {ChannelType::unsigned_integer, 4, 1};
  surface.dimensions = dimensions;
  surface.image = image_of(memory, 4, width, height, depth);
  return surface;
}

// Runs the code with the surface as %rd1; what it leaves in %r0 to %r3 comes back.
Answer on_surface(const Surface& surface, std::vector<uint32_t>& memory, const std::string& code,
                  bool writable = true) {
  std::vector<uint32_t> out(4);
  Known known;
  known.written = surface;
  Grid grid(
      ".visible .entry k(.param .u64 s, .param .u64 out) { .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 "
      "%rd<8>;\nld.param.u64 %rd1, [s]; ld.param.u64 %rd2, [out]; mov.u32 %r0, 77; mov.u32 %r1, 77; mov.u32 "
      "%r2, 77; mov.u32 %r3, 77;\n" +
      code + "\nst.global.v4.u32 [%rd2], {%r0, %r1, %r2, %r3}; ret; }");
  grid.arg(kSurface).array(out).with(memory, writable);
  grid.launch.objects = &known;
  Answer answer;
  answer.fault = grid.run("k", 1, 1);
  std::copy(out.begin(), out.end(), answer.word.begin());
  return answer;
}

TEST(Surface, LoadsAndStoresBytesOfEveryWidth) {
  std::vector<uint32_t> memory{0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c, 0, 0, 0, 0};
  const Surface surface = words(memory, 1, 8);
  EXPECT_EQ(
      on_surface(surface, memory, "suld.b.1d.b8.trap {%h0}, [%rd1, {3}]; cvt.u32.u16 %r0, %h0;").word[0], 3U);
  EXPECT_EQ(on_surface(surface, memory, "suld.b.1d.b16.trap %h0, [%rd1, {6}]; cvt.u32.u16 %r0, %h0;").word[0],
            0x0706U);
  EXPECT_EQ(on_surface(surface, memory, "suld.b.1d.v4.b32.trap {%r0, %r1, %r2, %r3}, [%rd1, {0}];").word,
            (std::array<uint32_t, 5>{0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c, 0}));
  EXPECT_EQ(on_surface(surface, memory,
                       "suld.b.1d.v2.b64.trap {%rd3, %rd4}, [%rd1, {0}]; mov.b64 {%r0, %r1}, %rd4;")
                .word[1],
            0x0f0e0d0cU);
  on_surface(
      surface, memory,
      "mov.u64 %rd3, 0x1122334455667788; sust.b.1d.b64.trap [%rd1, {16}], {%rd3}; mov.u16 %h0, 0x99;"
      "sust.b.1d.b8.trap [%rd1, {25}], {%h0}; mov.u16 %h1, 0x1234; sust.b.1d.v2.b16.trap [%rd1, {28}], "
      "{%h1, %h0};");
  EXPECT_EQ(std::vector<uint32_t>(memory.begin() + 4, memory.end()),
            (std::vector<uint32_t>{0x55667788, 0x11223344, 0x00009900, 0x00991234}));
}

TEST(Surface, RowsSlicesAndLayers) {
  std::vector<uint32_t> memory(24);
  std::iota(memory.begin(), memory.end(), 0);
  EXPECT_EQ(on_surface(words(memory, 2, 4, 6), memory, "suld.b.2d.b32.trap {%r0}, [%rd1, {8, 5}];").word[0],
            22U);
  EXPECT_EQ(on_surface(words(memory, 3, 4, 3, 2), memory, "suld.b.3d.b32.trap {%r0}, [%rd1, {4, 1, 1, 9}];")
                .word[0],
            17U);
  Surface layered = words(memory, 2, 4, 3, 2);
  layered.layered = true;
  EXPECT_EQ(on_surface(layered, memory, "suld.b.a2d.b32.trap {%r0}, [%rd1, {1, 12, 2, 0}];").word[0], 23U);
  EXPECT_EQ(on_surface(layered, memory, "suld.b.a2d.b32.trap {%r0}, [%rd1, {2, 12, 2, 0}];").fault.kind,
            Fault::Kind::trap);
  Surface lines = words(memory, 1, 12, 1, 2);
  lines.layered = true;
  EXPECT_EQ(on_surface(lines, memory, "suld.b.a1d.b32.trap {%r0}, [%rd1, {1, 4}];").word[0], 13U);
  EXPECT_EQ(on_surface(lines, memory, "suld.b.1d.b32.trap {%r0}, [%rd1, {4}];").fault.kind,
            Fault::Kind::unsupported);
}

TEST(Surface, OutOfBoundsTrapsClampsOrIsZero) {
  std::vector<uint32_t> memory{1, 2, 3, 4, 5, 6, 7, 8};
  const Surface surface = words(memory, 2, 4, 2);
  for (const char* at : {"{16, 0}", "{-4, 0}", "{0, 2}", "{0, -1}"}) {
    const Answer trapped =
        on_surface(surface, memory, std::string("suld.b.2d.b32.trap {%r0}, [%rd1, ") + at + "];");
    EXPECT_EQ(trapped.fault.kind, Fault::Kind::trap) << at;
    EXPECT_NE(trapped.fault.text.find("out of the surface's bounds by suld.b.2d.b32.trap"), std::string::npos)
        << trapped.fault.text;
    EXPECT_EQ(
        on_surface(surface, memory, std::string("suld.b.2d.b32.zero {%r0}, [%rd1, ") + at + "];").word[0],
        0U);
    on_surface(surface, memory, std::string("sust.b.2d.b32.zero [%rd1, ") + at + "], {%r0};");
  }
  EXPECT_EQ(memory, (std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(on_surface(surface, memory, "suld.b.2d.b32.clamp {%r0}, [%rd1, {99, -3}];").word[0], 4U);
  EXPECT_EQ(on_surface(surface, memory, "suld.b.2d.v2.b32.clamp {%r0, %r1}, [%rd1, {99, 99}];").word[0], 7U);
  on_surface(surface, memory, "sust.b.2d.b32.clamp [%rd1, {-4, 1}], {%r0};");
  EXPECT_EQ(memory[4], 77U);
  const Answer misaligned = on_surface(surface, memory, "suld.b.2d.b32.trap {%r0}, [%rd1, {2, 0}];");
  EXPECT_EQ(misaligned.fault.kind, Fault::Kind::misaligned_address);
  // A word of two texels in the second row of three, which is aligned in its row.
  EXPECT_EQ(
      on_surface(words(memory, 2, 3, 2), memory, "suld.b.2d.v2.b32.trap {%r0, %r1}, [%rd1, {0, 1}];").word[1],
      77U);
  EXPECT_EQ(on_surface(words(memory, 2, 3, 2), memory, "suld.b.2d.v2.b32.clamp {%r0, %r1}, [%rd1, {4, 0}];")
                .fault.kind,
            Fault::Kind::misaligned_address);
  EXPECT_EQ(on_surface(words(memory, 2, 3, 2), memory, "suld.b.2d.v2.b32.clamp {%r0, %r1}, [%rd1, {8, 0}];")
                .word[1],
            2U);
  EXPECT_EQ(on_surface(surface, memory, "sust.b.2d.b32.trap [%rd1, {0, 0}], {%r0};", false).fault.kind,
            Fault::Kind::illegal_address);
}

TEST(Surface, FormattedStoresConvert) {
  std::vector<uint32_t> memory(4);
  Surface surface = words(memory, 1, 4);
  const auto stored = [&](TexelFormat format, const std::string& values) {
    memory.assign(4, 0);
    surface.format = format;
    surface.image = image_of(memory, format.bytes(), 16 / format.bytes());
    const Answer answer = on_surface(surface, memory, "sust.p.1d.v4.b32.trap [%rd1, {1}], " + values + ";");
    EXPECT_EQ(answer.fault.kind, Fault::Kind::none) << answer.fault.text;
    return reinterpret_cast<const uint8_t*>(memory.data())[format.bytes()] |
           reinterpret_cast<const uint8_t*>(memory.data())[format.bytes() + 1] << 8;
  };
  const std::string values = "{0f3f000000, 0fbf800000, 0f40000000, 0f00000000}";  // 0.5, -1, 2, 0
  EXPECT_EQ(stored({ChannelType::unsigned_normalized, 1, 4}, values), 0x0080);
  EXPECT_EQ(stored({ChannelType::signed_normalized, 1, 4}, values), 0x8140);
  EXPECT_EQ(stored({ChannelType::floating, 2, 4}, values), 0x3800);
  EXPECT_EQ(stored({ChannelType::unsigned_integer, 1, 4}, "{300, 7, 0, 0}"), 0x07ff);
  EXPECT_EQ(stored({ChannelType::signed_integer, 1, 2}, "{-300, 7, 0, 0}"), 0x0780);
}

TEST(Surface, Reductions) {
  std::vector<uint32_t> memory{5, 0xfffffffe, 12, 0};
  Surface surface = words(memory, 1, 4);
  on_surface(surface, memory,
             "sured.b.add.1d.u32.trap [%rd1, {0}], 3; sured.b.min.1d.s32.trap [%rd1, {4}], 1; "
             "sured.b.and.1d.b32.trap [%rd1, {8}], 6; sured.p.or.1d.b32.zero [%rd1, {3}], 9; "
             "sured.b.add.1d.u32.zero [%rd1, {16}], 3;");
  EXPECT_EQ(memory, (std::vector<uint32_t>{8, 0xfffffffe, 4, 9}));
  surface.format.type = ChannelType::signed_integer;
  on_surface(surface, memory, "sured.p.max.1d.b32.trap [%rd1, {1}], 1;");
  EXPECT_EQ(memory[1], 1U);
  on_surface(surface, memory, "mov.u64 %rd3, 0x100000000; sured.b.add.1d.u64.trap [%rd1, {8}], %rd3;");
  EXPECT_EQ(memory[3], 10U);
}

TEST(Texture, WhatIsNotSimulatedIsRefusedByName) {
  const auto refused = [](const std::string& before, const std::string& code) {
    const auto parsed =
        parse(".version 8.5\n.target sm_90\n.address_size 64\n" + before +
              "\n.entry k() { .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<3>; " + code + " ret; }");
    return parsed ? (*parsed)->function("k")->unsupported : parsed.error().what();
  };
  EXPECT_NE(refused(".global .texref old;", "tex.1d.v4.u32.s32 {%r1,%r2,%r3,%r4}, [old, {%r1}];")
                .find("a texture or surface reference; objects work"),
            std::string::npos);
  EXPECT_NE(
      refused("", "tex.1d.v4.u32.s32 {%r1,%r2,%r3,%r4}, [%rd1, %rd2, {%r1}];").find("a sampler of its own"),
      std::string::npos);
  EXPECT_NE(refused("", "tex.2d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [%rd1, {%r1,%r2}], %r5;")
                .find("a comparison of depths"),
            std::string::npos);
  for (const char* code : {"suq.memory_layout.b32 %r1, [%rd1];", "txq.channel_order.b32 %r1, [%rd1];",
                           "tex.2dms.v4.s32.s32 {%r1,%r2,%r3,%r4}, [%rd1, {%r1,%r2,%r3,%r4}];",
                           "suld.b.a2d.v4.b64.trap {%rd1,%rd1,%rd1,%rd1}, [%rd1, {%r1,%r1,%r1,%r1}];"})
    EXPECT_EQ(refused("", code).substr(0, 23), "unsupported instruction") << code;
}

}  // namespace
}  // namespace gpufence::sim::ptx
