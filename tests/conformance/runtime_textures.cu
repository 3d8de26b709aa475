// Textures and surfaces, as kernels in CUDA C++ read and write them. Expected values are computed by hand
// from the formulas of the programming guide's chapter "Texture Fetching".
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "runtime.h"

namespace conform {
namespace {

__global__ void sample_1d(float* out, cudaTextureObject_t texture, const float* x) {
  out[threadIdx.x] = tex1D<float>(texture, x[threadIdx.x]);
}

__global__ void fetch_1d(uint32_t* out, cudaTextureObject_t texture) {
  out[threadIdx.x] = tex1Dfetch<uint32_t>(texture, static_cast<int>(threadIdx.x));
}

__global__ void sample_2d(float* out, cudaTextureObject_t texture, const float2* at) {
  out[threadIdx.x] = tex2D<float>(texture, at[threadIdx.x].x, at[threadIdx.x].y);
}

__global__ void sample_2d_words(uint32_t* out, cudaTextureObject_t texture, const float2* at) {
  const uint4 texel = tex2D<uint4>(texture, at[threadIdx.x].x, at[threadIdx.x].y);
  out[threadIdx.x] = texel.x | texel.y << 8 | texel.z << 16 | texel.w << 24;
}

__global__ void sample_2d_word(uint32_t* out, cudaTextureObject_t texture, const float2* at) {
  out[threadIdx.x] = tex2D<uint32_t>(texture, at[threadIdx.x].x, at[threadIdx.x].y);
}

__global__ void sample_3d(float* out, cudaTextureObject_t texture, const float4* at) {
  const float4 c = at[threadIdx.x];
  out[threadIdx.x] = tex3D<float>(texture, c.x, c.y, c.z);
}

__global__ void sample_layers(float* out, cudaTextureObject_t texture) {
  out[threadIdx.x] = tex2DLayered<float>(texture, 0.5f, 0.5f, static_cast<int>(threadIdx.x));
}

__global__ void sample_levels(float* out, cudaTextureObject_t texture, const float* level) {
  out[threadIdx.x] = tex2DLod<float>(texture, 0.5f, 0.5f, level[threadIdx.x]);
}

__global__ void sample_cube(float* out, cudaTextureObject_t texture, const float4* direction) {
  const float4 d = direction[threadIdx.x];
  out[threadIdx.x] = texCubemap<float>(texture, d.x, d.y, d.z);
}

__global__ void gather(float* out, cudaTextureObject_t texture, float x, float y) {
  const float4 four = tex2Dgather<float4>(texture, x, y, 0);
  out[0] = four.x;
  out[1] = four.y;
  out[2] = four.z;
  out[3] = four.w;
}

__global__ void fill_surface(cudaSurfaceObject_t surface, int width) {
  const int x = static_cast<int>(threadIdx.x) % width, y = static_cast<int>(threadIdx.x) / width;
  surf2Dwrite<uint32_t>(threadIdx.x * 10, surface, x * 4, y);
}

__global__ void read_surface(uint32_t* out, cudaSurfaceObject_t surface, int x, int y) {
  out[0] = surf2Dread<uint32_t>(surface, x * 4, y, cudaBoundaryModeClamp);
  out[1] = surf2Dread<uint32_t>(surface, x * 4, y, cudaBoundaryModeZero);
}

__global__ void write_beyond(cudaSurfaceObject_t surface) {
  surf2Dwrite<uint32_t>(99, surface, 100 * 4, 0, cudaBoundaryModeZero);
}

// An array with these elements, width by height; 1D if the height is 0.
class Array {
 public:
  template <class T>
  Array(size_t width, size_t height, const std::vector<T>& elements, unsigned flags = cudaArrayDefault) {
    const cudaChannelFormatDesc desc = cudaCreateChannelDesc<T>();
    OK(cudaMallocArray(&handle_, &desc, width, height, flags));
    OK(cudaMemcpy2DToArray(handle_, 0, 0, elements.data(), width * sizeof(T), width * sizeof(T),
                           height == 0 ? 1 : height, cudaMemcpyHostToDevice));
  }
  Array(const Array&) = delete;
  ~Array() { OK(cudaFreeArray(handle_)); }
  operator cudaArray_t() const { return handle_; }

 private:
  cudaArray_t handle_ = nullptr;
};

cudaResourceDesc resource(cudaArray_t array) {
  cudaResourceDesc desc{};
  desc.resType = cudaResourceTypeArray;
  desc.res.array.array = array;
  return desc;
}

struct How {
  cudaTextureAddressMode address = cudaAddressModeClamp;
  cudaTextureFilterMode filter = cudaFilterModePoint;
  cudaTextureReadMode read = cudaReadModeElementType;
  bool normalized = false;
  bool srgb = false;
};

cudaTextureDesc texture_desc(const How& how) {
  cudaTextureDesc desc{};
  for (cudaTextureAddressMode& mode : desc.addressMode) mode = how.address;
  desc.filterMode = how.filter;
  desc.readMode = how.read;
  desc.normalizedCoords = how.normalized;
  desc.sRGB = how.srgb;
  return desc;
}

class Texture {
 public:
  Texture(const cudaResourceDesc& from, const How& how) : Texture(from, texture_desc(how)) {}
  Texture(const cudaResourceDesc& from, const cudaTextureDesc& desc) {
    OK(cudaCreateTextureObject(&handle_, &from, &desc, nullptr));
  }
  Texture(const Texture&) = delete;
  ~Texture() { OK(cudaDestroyTextureObject(handle_)); }
  operator cudaTextureObject_t() const { return handle_; }

 private:
  cudaTextureObject_t handle_ = 0;
};

std::vector<float> at_1d(const Texture& texture, const std::vector<float>& x) {
  Memory<float> in(x.size()), out(x.size());
  in.write(x);
  sample_1d<<<1, static_cast<unsigned>(x.size())>>>(out, texture, in);
  OK(cudaGetLastError());
  return out.read();
}

std::vector<float> at_2d(const Texture& texture, const std::vector<float2>& at) {
  Memory<float2> in(at.size());
  Memory<float> out(at.size());
  in.write(at);
  sample_2d<<<1, static_cast<unsigned>(at.size())>>>(out, texture, in);
  OK(cudaGetLastError());
  return out.read();
}

using Floats = std::vector<float>;
const Floats kLine = {10, 20, 40, 80};

CONFORMS(Arrays, NearestPointsAreTaken,
         "CUDA C++ Programming Guide, Texture Fetching, Nearest-Point Sampling: tex(x) = T[i] for a "
         "one-dimensional texture, i = floor(x)") {
  Fresh here;
  Array line(4, 0, kLine);
  Texture texture(resource(line), How{});
  EXPECT_EQ(at_1d(texture, {0.0f, 0.99f, 1.0f, 2.5f, 3.9f}), (Floats{10, 10, 20, 40, 80}));
}

CONFORMS(Arrays, NeighboursAreInterpolated,
         "CUDA C++ Programming Guide, Texture Fetching, Linear Filtering: tex(x) = (1-α)T[i] + αT[i+1], i = "
         "floor(xB), α = frac(xB), xB = x - 0.5; α is stored in 9-bit fixed point format with 8 bits of "
         "fractional value") {
  Fresh here;
  Array line(4, 0, kLine);
  How how;
  how.filter = cudaFilterModeLinear;
  Texture texture(resource(line), how);
  EXPECT_EQ(at_1d(texture, {0.5f, 1.0f, 1.75f, 3.0f}), (Floats{10, 15, 25, 60}));
}

CONFORMS(Arrays, FourNeighboursAreInterpolatedInAPlane,
         "CUDA C++ Programming Guide, Texture Fetching, Linear Filtering: tex(x,y) = (1-α)(1-β)T[i,j] + "
         "α(1-β)T[i+1,j] + (1-α)βT[i,j+1] + αβT[i+1,j+1] for a two-dimensional texture") {
  Fresh here;
  Array plane(2, 2, Floats{0, 4, 8, 16});
  How how;
  how.filter = cudaFilterModeLinear;
  Texture texture(resource(plane), how);
  EXPECT_EQ(at_2d(texture, {{1.0f, 1.0f}, {0.5f, 1.0f}, {1.0f, 0.5f}, {1.25f, 1.25f}}),
            (Floats{7, 4, 2, 11.25f}));
}

CONFORMS(Arrays, CoordinatesAreClamped,
         "CUDA C++ Programming Guide, Texture Memory, addressing mode: the default is to clamp the "
         "coordinates to the valid range: [0, N) for non-normalized coordinates") {
  Fresh here;
  Array line(4, 0, kLine);
  Texture texture(resource(line), How{});
  EXPECT_EQ(at_1d(texture, {-5.0f, -0.1f, 4.0f, 100.0f}), (Floats{10, 10, 80, 80}));
}

CONFORMS(Arrays, BordersAreZero,
         "CUDA C++ Programming Guide, Texture Memory, addressing mode: if the border mode is specified "
         "instead, texture fetches with out-of-range texture coordinates return zero") {
  Fresh here;
  Array line(4, 0, kLine);
  How how;
  how.address = cudaAddressModeBorder;
  Texture texture(resource(line), how);
  EXPECT_EQ(at_1d(texture, {-0.5f, 0.5f, 3.5f, 4.5f}), (Floats{0, 10, 80, 0}));
}

CONFORMS(
    Arrays, NormalizedCoordinatesSpanTheTexture,
    "CUDA C++ Programming Guide, Texture Memory: normalized texture coordinates cause the coordinates to be "
    "specified in the floating-point range [0.0, 1.0-1/N] where N is the size of the texture in the "
    "dimension") {
  Fresh here;
  Array line(4, 0, kLine);
  How how;
  how.normalized = true;
  Texture texture(resource(line), how);
  EXPECT_EQ(at_1d(texture, {0.0f, 0.25f, 0.5f, 0.75f}), (Floats{10, 20, 40, 80}));
}

CONFORMS(Arrays, CoordinatesWrap,
         "CUDA C++ Programming Guide, Texture Memory, addressing mode: when using the wrap mode, each "
         "coordinate x is converted to frac(x) = x - floor(x)") {
  Fresh here;
  Array line(4, 0, kLine);
  How how;
  how.normalized = true;
  how.address = cudaAddressModeWrap;
  Texture texture(resource(line), how);
  EXPECT_EQ(at_1d(texture, {1.125f, -0.125f, 2.875f, -1.875f}), (Floats{10, 80, 80, 10}));
}

CONFORMS(Arrays, CoordinatesAreMirrored,
         "CUDA C++ Programming Guide, Texture Memory, addressing mode: when using the mirror mode, each "
         "coordinate x is converted to frac(x) if floor(x) is even and 1-frac(x) if floor(x) is odd") {
  Fresh here;
  Array line(4, 0, kLine);
  How how;
  how.normalized = true;
  how.address = cudaAddressModeMirror;
  Texture texture(resource(line), how);
  EXPECT_EQ(at_1d(texture, {1.125f, 1.875f, -0.125f, 2.125f}), (Floats{80, 10, 10, 10}));
}

CONFORMS(
    Arrays, IntegersBecomeFractions,
    "CUDA C++ Programming Guide, Texture Memory, read mode: cudaReadModeNormalizedFloat: an unsigned 8-bit "
    "texture element with the value 0xff reads as 1; mapped to [0.0, 1.0] for unsigned integer type and "
    "[-1.0, 1.0] for signed integer type") {
  Fresh here;
  Array bytes(4, 0, std::vector<unsigned char>{0, 51, 102, 255});
  Array words(4, 0, std::vector<short>{0, 32767, -32767, -32768});
  How how;
  how.read = cudaReadModeNormalizedFloat;
  Texture of_bytes(resource(bytes), how), of_words(resource(words), how);
  const Floats b = at_1d(of_bytes, {0.5f, 1.5f, 2.5f, 3.5f}), w = at_1d(of_words, {0.5f, 1.5f, 2.5f, 3.5f});
  EXPECT_EQ(b[0], 0.0f);
  EXPECT_NEAR(b[1], 0.2f, 1e-6);
  EXPECT_NEAR(b[2], 0.4f, 1e-6);
  EXPECT_EQ(b[3], 1.0f);
  EXPECT_EQ(w, (Floats{0, 1, -1, -1}));
}

CONFORMS(Arrays, ElementsKeepTheirType,
         "CUDA C++ Programming Guide, Texture Memory, read mode: cudaReadModeElementType: no conversion is "
         "performed; a texel has up to four components") {
  Fresh here;
  Array plane(2, 1, std::vector<uchar4>{{1, 2, 3, 4}, {250, 251, 252, 253}});
  Texture texture(resource(plane), How{});
  Memory<float2> at(2);
  Memory<> out(2);
  at.write(std::vector<float2>{{0.5f, 0.5f}, {1.5f, 0.5f}});
  sample_2d_words<<<1, 2>>>(out, texture, at);
  EXPECT_EQ(out.read(), (std::vector<uint32_t>{0x04030201, 0xfdfcfbfa}));
}

CONFORMS(Arrays, LinearMemoryIsFetchedByIndex,
         "CUDA C++ Programming Guide, tex1Dfetch(): fetches from the region of linear memory specified by "
         "the one-dimensional texture object texObj using integer texture coordinate x") {
  Fresh here;
  Memory<> words(8);
  words.write(std::vector<uint32_t>{3, 1, 4, 1, 5, 9, 2, 6});
  cudaResourceDesc desc{};
  desc.resType = cudaResourceTypeLinear;
  desc.res.linear.devPtr = words;
  desc.res.linear.desc = cudaCreateChannelDesc<uint32_t>();
  desc.res.linear.sizeInBytes = 32;
  Texture texture(desc, How{});
  Memory<> out(8);
  fetch_1d<<<1, 8>>>(out, texture);
  EXPECT_EQ(out.read(), words.read());
}

CONFORMS(Arrays, PitchedMemoryIsAPlane,
         "cuda_runtime_api.h, cudaCreateTextureObject: cudaResourceTypePitch2D: width and height specify the "
         "width and height of the array in elements; pitchInBytes the pitch between two rows in bytes") {
  Fresh here;
  char* rows = nullptr;
  size_t pitch = 0;
  OK(cudaMallocPitch(reinterpret_cast<void**>(&rows), &pitch, 3 * sizeof(float), 2));
  const float in[] = {1, 2, 3, 4, 5, 6};
  OK(cudaMemcpy2D(rows, pitch, in, 12, 12, 2, cudaMemcpyHostToDevice));
  cudaResourceDesc desc{};
  desc.resType = cudaResourceTypePitch2D;
  desc.res.pitch2D.devPtr = rows;
  desc.res.pitch2D.desc = cudaCreateChannelDesc<float>();
  desc.res.pitch2D.width = 3;
  desc.res.pitch2D.height = 2;
  desc.res.pitch2D.pitchInBytes = pitch;
  {
    Texture texture(desc, How{});
    EXPECT_EQ(at_2d(texture, {{0.5f, 0.5f}, {2.5f, 0.5f}, {1.5f, 1.5f}}), (Floats{1, 3, 5}));
  }
  OK(cudaFree(rows));
}

CONFORMS(Arrays, BoxesAreSampledInThreeDimensions,
         "CUDA C++ Programming Guide, tex3D(): fetches from the CUDA array specified by the "
         "three-dimensional texture object texObj using texture coordinate (x,y,z)") {
  Fresh here;
  Floats elements(2 * 3 * 4);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i);
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
  cudaArray_t box = nullptr;
  OK(cudaMalloc3DArray(&box, &desc, make_cudaExtent(2, 3, 4)));
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(elements.data(), 8, 2, 3);
  copy.dstArray = box;
  copy.extent = make_cudaExtent(2, 3, 4);
  copy.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&copy));
  {
    Texture texture(resource(box), How{});
    Memory<float4> at(2);
    Memory<float> out(2);
    at.write(std::vector<float4>{{1.5f, 2.5f, 3.5f, 0}, {0.5f, 1.5f, 2.5f, 0}});
    sample_3d<<<1, 2>>>(out, texture, at);
    EXPECT_EQ(out.read(), (Floats{23, 14}));
  }
  OK(cudaFreeArray(box));
}

// One element a layer, or a face: its own number times a hundred.
cudaArray_t numbered(cudaExtent extent, unsigned flags) {
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  OK(cudaMalloc3DArray(&array, &desc, extent, flags));
  const size_t plane = extent.width * extent.height;
  Floats elements(plane * extent.depth);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = 100.0f * static_cast<float>(i / plane);
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(elements.data(), extent.width * 4, extent.width, extent.height);
  copy.dstArray = array;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&copy));
  return array;
}

CONFORMS(Arrays, LayersAreAddressedByIndex,
         "CUDA C++ Programming Guide, Layered Textures: a layered texture is addressed using an integer "
         "index and two floating-point texture coordinates; the index denotes a layer within the sequence") {
  Fresh here;
  const cudaArray_t layers = numbered(make_cudaExtent(2, 2, 4), cudaArrayLayered);
  {
    Texture texture(resource(layers), How{});
    Memory<float> out(4);
    sample_layers<<<1, 4>>>(out, texture);
    EXPECT_EQ(out.read(), (Floats{0, 100, 200, 300}));
  }
  OK(cudaFreeArray(layers));
}

CONFORMS(Arrays, FacesAreFoundByDirection,
         "CUDA C++ Programming Guide, Cubemap Textures: |x| > |y| and |x| > |z|: face 0 for x >= 0, 1 for x "
         "< 0; likewise 2 and 3 for y, 4 and 5 for z") {
  Fresh here;
  const cudaArray_t cube = numbered(make_cudaExtent(4, 4, 6), cudaArrayCubemap);
  {
    Texture texture(resource(cube), How{});
    Memory<float4> direction(6);
    Memory<float> out(6);
    direction.write(std::vector<float4>{
        {1, 0, 0, 0}, {-1, 0, 0, 0}, {0, 1, 0, 0}, {0, -1, 0, 0}, {0, 0, 1, 0}, {0, 0, -1, 0}});
    sample_cube<<<1, 6>>>(out, texture, direction);
    EXPECT_EQ(out.read(), (Floats{0, 100, 200, 300, 400, 500}));
  }
  OK(cudaFreeArray(cube));
}

CONFORMS(Arrays, WeightsHaveEightBits,
         "CUDA C++ Programming Guide, Texture Fetching: α, β, and γ are stored in 9-bit fixed point format "
         "with 8 bits of fractional value (so 1.0 is exactly represented)") {
  Fresh here;
  Array line(4, 0, Floats{0, 1, 1, 1});
  How how;
  how.filter = cudaFilterModeLinear;
  Texture texture(resource(line), how);
  for (const float value : at_1d(texture, {0.6f, 0.7001f, 0.83f, 1.1f, 1.3337f}))
    EXPECT_EQ(value * 256, std::floor(value * 256)) << value;
}

CONFORMS(
    Arrays, WithoutNormalizedCoordinatesWrapIsClamp,
    "cuda_runtime_api.h, cudaCreateTextureObject: if normalizedCoords is set to zero, cudaAddressModeWrap "
    "and cudaAddressModeMirror won't be supported and will be switched to cudaAddressModeClamp") {
  Fresh here;
  Array line(4, 0, kLine);
  How how;
  how.address = cudaAddressModeWrap;
  Texture texture(resource(line), how);
  EXPECT_EQ(at_1d(texture, {-3, 9}), (Floats{10, 80}));
}

CONFORMS(Arrays, ABorderHasItsColour,
         "cuda_runtime_api.h, cudaTextureDesc::borderColor: the values are set only when the addressing mode "
         "specified by addressMode is cudaAddressModeBorder") {
  Fresh here;
  Array line(4, 0, kLine);
  How how;
  how.address = cudaAddressModeBorder;
  how.normalized = true;
  cudaTextureDesc desc = texture_desc(how);
  desc.borderColor[0] = -3;
  Texture texture(resource(line), desc);
  EXPECT_EQ(at_1d(texture, {-0.5f, 0.6f, 1.5f}), (Floats{-3, 40, -3}));
}

CONFORMS(Arrays, IntegersAreNotFiltered,
         "driver_types.h, cudaErrorInvalidFilterSetting: a non-float texture was being accessed with linear "
         "filtering; this is not supported by CUDA") {
  Fresh here;
  Array plane(2, 1, std::vector<int>{1, 2});
  How how;
  how.filter = cudaFilterModeLinear;
  const cudaResourceDesc from = resource(plane);
  const cudaTextureDesc desc = texture_desc(how);
  cudaTextureObject_t texture = 0;
  EXPECT_NE(cudaCreateTextureObject(&texture, &from, &desc, nullptr), cudaSuccess);
}

CONFORMS(Arrays, FacesAreAddressedByTheRest,
         "CUDA C++ Programming Guide, Cubemap Textures: the face is addressed using the texture coordinate "
         "((s/m+1)/2,(t/m+1)/2), m the coordinate of largest magnitude, s and t as in its table") {
  Fresh here;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t cube = nullptr;
  OK(cudaMalloc3DArray(&cube, &format, make_cudaExtent(2, 2, 6), cudaArrayCubemap));
  Floats texels;
  for (int face = 0; face < 6; ++face)
    for (int texel = 0; texel < 4; ++texel) texels.push_back(static_cast<float>(10 * face + texel));
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(texels.data(), 8, 2, 2);
  copy.dstArray = cube;
  copy.extent = make_cudaExtent(2, 2, 6);
  copy.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&copy));
  {
    Texture texture(resource(cube), How{});
    Memory<float4> direction(6);
    Memory<float> out(6);
    direction.write(std::vector<float4>{{2, 0.5f, 1, 0},
                                        {-2, 0.5f, 1, 0},
                                        {0.5f, 2, 1, 0},
                                        {0.5f, -2, 1, 0},
                                        {0.5f, 1, 2, 0},
                                        {0.5f, 1, -2, 0}});
    sample_cube<<<1, 6>>>(out, texture, direction);
    EXPECT_EQ(out.read(), (Floats{0, 11, 23, 31, 41, 50}));
  }
  OK(cudaFreeArray(cube));
}

CONFORMS(Arrays, LayersAreNotFiltered,
         "CUDA C++ Programming Guide, Layered Textures: texture filtering is done only within a layer, not "
         "across layers") {
  Fresh here;
  const cudaArray_t layers = numbered(make_cudaExtent(2, 2, 3), cudaArrayLayered);
  How how;
  how.filter = cudaFilterModeLinear;
  {
    Texture texture(resource(layers), how);
    Memory<float> out(3);
    sample_layers<<<1, 3>>>(out, texture);
    EXPECT_EQ(out.read(), (Floats{0, 100, 200}));
  }
  OK(cudaFreeArray(layers));
}

CONFORMS(Arrays, AViewIsToldOnlyWhereThereIsOne,
         "cuda_runtime_api.h, cudaGetTextureObjectResourceViewDesc: if no resource view was specified, "
         "cudaErrorInvalidValue is returned") {
  Fresh here;
  Array line(4, 0, kLine);
  Texture texture(resource(line), How{});
  cudaResourceViewDesc view{};
  EXPECT_EQ(cudaGetTextureObjectResourceViewDesc(&view, texture), cudaErrorInvalidValue);
}

CONFORMS(
    Arrays, LevelsAreBlended,
    "cuda_runtime_api.h, cudaTextureDesc::mipmapFilterMode: the filter mode when the calculated mipmap level "
    "lies between two defined mipmap levels; maxMipmapLevelClamp: the upper end of the mipmap level "
    "range to clamp access to") {
  Fresh here;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaMipmappedArray_t chain = nullptr;
  OK(cudaMallocMipmappedArray(&chain, &format, make_cudaExtent(4, 4, 0), 3));
  for (unsigned level = 0; level < 3; ++level) {
    cudaArray_t array = nullptr;
    OK(cudaGetMipmappedArrayLevel(&array, chain, level));
    const size_t side = 4u >> level;
    const Floats elements(side * side, 10.0f * static_cast<float>(level + 1));
    OK(cudaMemcpy2DToArray(array, 0, 0, elements.data(), side * 4, side * 4, side, cudaMemcpyHostToDevice));
  }
  cudaResourceDesc from{};
  from.resType = cudaResourceTypeMipmappedArray;
  from.res.mipmap.mipmap = chain;
  How how;
  how.normalized = true;
  cudaTextureDesc desc = texture_desc(how);
  desc.mipmapFilterMode = cudaFilterModeLinear;
  desc.maxMipmapLevelClamp = 1.5f;
  {
    Texture texture(from, desc);
    Memory<float> level(4), out(4);
    level.write(Floats{0, 0.5f, 1, 9});
    sample_levels<<<1, 4>>>(out, texture, level);
    EXPECT_EQ(out.read(), (Floats{10, 15, 20, 25}));
  }
  OK(cudaFreeMipmappedArray(chain));
}

CONFORMS(Arrays, MipmapsNeedNormalizedCoordinates,
         "cuda_runtime_api.h, cudaTextureDesc::normalizedCoords: specifies whether the texture coordinates "
         "will be normalized; cuda.h: note that for CUDA mipmapped arrays, this flag has to be set") {
  Fresh here;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaMipmappedArray_t chain = nullptr;
  OK(cudaMallocMipmappedArray(&chain, &format, make_cudaExtent(4, 4, 0), 3));
  cudaResourceDesc from{};
  from.resType = cudaResourceTypeMipmappedArray;
  from.res.mipmap.mipmap = chain;
  const cudaTextureDesc desc = texture_desc(How{});
  cudaTextureObject_t texture = 0;
  EXPECT_NE(cudaCreateTextureObject(&texture, &from, &desc, nullptr), cudaSuccess);
  OK(cudaFreeMipmappedArray(chain));
}

CONFORMS(Arrays, GatherGoesRoundTheFour,
         "PTX ISA, tld4: the four texel samples are placed into destination vector d in counter-clockwise "
         "order starting at lower left; Programming Guide, Texture Gather") {
  Fresh here;
  Array plane(4, 4, Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, cudaArrayTextureGather);
  Texture texture(resource(plane), How{});
  Memory<float> out(4);
  gather<<<1, 1>>>(out, texture, 2.0f, 3.0f);
  EXPECT_EQ(out.read(), (Floats{13, 14, 10, 9}));
}

CONFORMS(Arrays, SrgbBecomesLinear,
         "cuda_runtime_api.h, cudaTextureDesc::sRGB: specifies whether sRGB to linear conversion should be "
         "performed during texture fetch") {
  Fresh here;
  Array bytes(4, 0, std::vector<unsigned char>{0, 64, 188, 255});
  How how;
  how.read = cudaReadModeNormalizedFloat;
  how.srgb = true;
  Texture texture(resource(bytes), how);
  const Floats seen = at_1d(texture, {0.5f, 1.5f, 2.5f, 3.5f});
  EXPECT_EQ(seen[0], 0.0f);
  EXPECT_NEAR(seen[1], 0.0513f, 0.002);  // ((64/255 + 0.055) / 1.055) ^ 2.4
  EXPECT_NEAR(seen[2], 0.5029f, 0.003);
  EXPECT_EQ(seen[3], 1.0f);
}

CONFORMS(Arrays, LinearMemoryIsAligned,
         "cuda_runtime_api.h, cudaCreateTextureObject: cudaResourceTypeLinear: devPtr must be set to a valid "
         "device pointer, that is aligned to cudaDeviceProp::textureAlignment; the total number of elements "
         "cannot exceed the maximum") {
  Fresh here;
  Memory<> words(1024);
  cudaResourceDesc desc{};
  desc.resType = cudaResourceTypeLinear;
  desc.res.linear.devPtr = words + 1;
  desc.res.linear.desc = cudaCreateChannelDesc<uint32_t>();
  desc.res.linear.sizeInBytes = 32;
  const cudaTextureDesc how = texture_desc(How{});
  cudaTextureObject_t texture = 0;
  EXPECT_NE(cudaCreateTextureObject(&texture, &desc, &how, nullptr), cudaSuccess);
}

CONFORMS(Arrays, TexturesTellWhatTheyAreOf,
         "cuda_runtime_api.h, cudaGetTextureObjectResourceDesc: returns the resource descriptor for the "
         "texture object specified by texObject; cudaGetTextureObjectTextureDesc likewise") {
  Fresh here;
  Array line(4, 0, kLine);
  How how;
  how.address = cudaAddressModeBorder;
  how.filter = cudaFilterModeLinear;
  Texture texture(resource(line), how);
  cudaResourceDesc from{};
  cudaTextureDesc desc{};
  OK(cudaGetTextureObjectResourceDesc(&from, texture));
  OK(cudaGetTextureObjectTextureDesc(&desc, texture));
  EXPECT_EQ(from.resType, cudaResourceTypeArray);
  EXPECT_EQ(from.res.array.array, static_cast<cudaArray_t>(line));
  EXPECT_EQ(desc.addressMode[0], cudaAddressModeBorder);
  EXPECT_EQ(desc.filterMode, cudaFilterModeLinear);
}

__global__ void write_out(cudaSurfaceObject_t surface) {
  surf2Dwrite<uint32_t>(99, surface, 100 * 4, 0, cudaBoundaryModeTrap);
}

class Surface {
 public:
  explicit Surface(cudaArray_t array) {
    const cudaResourceDesc desc = resource(array);
    OK(cudaCreateSurfaceObject(&handle_, &desc));
  }
  Surface(const Surface&) = delete;
  ~Surface() { OK(cudaDestroySurfaceObject(handle_)); }
  operator cudaSurfaceObject_t() const { return handle_; }

 private:
  cudaSurfaceObject_t handle_ = 0;
};

CONFORMS(
    Arrays, SurfacesAreAddressedInBytes,
    "CUDA C++ Programming Guide, Surface Memory: unlike texture memory, surface memory uses byte addressing: "
    "the x-coordinate used to access a surface element via surface functions needs to be multiplied by "
    "the byte size of the element") {
  Fresh here;
  Array plane(4, 2, std::vector<uint32_t>(8, 0), cudaArraySurfaceLoadStore);
  Surface surface(plane);
  fill_surface<<<1, 8>>>(surface, 4);
  OK(cudaGetLastError());
  uint32_t seen[8] = {};
  OK(cudaMemcpy2DFromArray(seen, 16, plane, 0, 0, 16, 2, cudaMemcpyDeviceToHost));
  EXPECT_EQ(std::vector<uint32_t>(seen, seen + 8), (std::vector<uint32_t>{0, 10, 20, 30, 40, 50, 60, 70}));
}

CONFORMS(
    Arrays, SurfacesHaveBoundaries,
    "CUDA C++ Programming Guide, Surface Functions, boundary mode: cudaBoundaryModeClamp: out-of-range "
    "coordinates are clamped to the valid range; cudaBoundaryModeZero: out-of-range reads return zero and "
    "out-of-range writes are ignored") {
  Fresh here;
  Array plane(4, 2, std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8}, cudaArraySurfaceLoadStore);
  Surface surface(plane);
  Memory<> out(2);
  read_surface<<<1, 1>>>(out, surface, 9, 1);
  EXPECT_EQ(out.read(), (std::vector<uint32_t>{8, 0}));
  write_beyond<<<1, 1>>>(surface);
  OK(cudaDeviceSynchronize());
  uint32_t seen[8] = {};
  OK(cudaMemcpy2DFromArray(seen, 16, plane, 0, 0, 16, 2, cudaMemcpyDeviceToHost));
  EXPECT_EQ(std::vector<uint32_t>(seen, seen + 8), (std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8}));
}

CONFORMS_ALONE(Arrays, ATrapFailsTheKernel,
               "CUDA C++ Programming Guide, Surface Functions, boundary mode cudaBoundaryModeTrap: "
               "out-of-range accesses cause the kernel execution to fail") {
  Array plane(4, 2, std::vector<uint32_t>(8, 0), cudaArraySurfaceLoadStore);
  Surface surface(plane);
  write_out<<<1, 1>>>(surface);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);  // nothing of a dead context can be cleaned up
}

CONFORMS(Arrays, SurfacesNeedTheirFlag,
         "CUDA C++ Programming Guide, Surface Memory: a CUDA array created with the "
         "cudaArraySurfaceLoadStore flag can be read and written via a surface object") {
  Fresh here;
  Array plain(4, 2, std::vector<uint32_t>(8, 0));
  const cudaResourceDesc desc = resource(plain);
  cudaSurfaceObject_t surface = 0;
  EXPECT_NE(cudaCreateSurfaceObject(&surface, &desc), cudaSuccess);
}

CONFORMS(Arrays, LaterKernelsSeeWhatSurfacesWrote,
         "CUDA C++ Programming Guide, Read/Write Coherency: a thread can safely read some texture or surface "
         "memory location only if this memory location has been updated by a previous kernel call or memory "
         "copy") {
  Fresh here;
  Array plane(4, 2, std::vector<uint32_t>(8, 0), cudaArraySurfaceLoadStore);
  Surface surface(plane);
  Texture texture(resource(plane), How{});
  Memory<float2> at(2);
  Memory<> out(2);
  at.write(std::vector<float2>{{1.5f, 0.5f}, {3.5f, 1.5f}});
  fill_surface<<<1, 8>>>(surface, 4);
  sample_2d_word<<<1, 2>>>(out, texture, at);
  OK(cudaGetLastError());
  EXPECT_EQ(out.read(), (std::vector<uint32_t>{10, 70}));
}

}  // namespace
}  // namespace conform
