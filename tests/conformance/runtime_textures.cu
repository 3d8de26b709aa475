// Textures and surfaces: what kernels read through them, and which descriptions there are.
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "runtime.h"

namespace conform {
namespace {

constexpr int kResults = 8;

// An array of floats, filled, and one texture of it.
class Image {
 public:
  Image(const std::vector<float>& values, cudaExtent extent, unsigned flags = 0) {
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    OK(cudaMalloc3DArray(&array_, &format, extent, flags));
    cudaMemcpy3DParms copy = {};
    const size_t height = extent.height == 0 ? 1 : extent.height,
                 depth = extent.depth == 0 ? 1 : extent.depth;
    copy.srcPtr =
        make_cudaPitchedPtr(const_cast<float*>(values.data()), extent.width * 4, extent.width, height);
    copy.dstArray = array_;
    copy.extent = make_cudaExtent(extent.width, height, depth);
    copy.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&copy));
  }
  Image(const Image&) = delete;
  ~Image() {
    if (texture_ != 0) {
      OK(cudaDestroyTextureObject(texture_));
    }
    OK(cudaFreeArray(array_));
  }
  cudaResourceDesc resource() const {
    cudaResourceDesc d = {};
    d.resType = cudaResourceTypeArray;
    d.res.array.array = array_;
    return d;
  }
  cudaTextureObject_t texture(const cudaTextureDesc& how) {
    const cudaResourceDesc d = resource();
    OK(cudaCreateTextureObject(&texture_, &d, &how, nullptr));
    return texture_;
  }

 private:
  cudaArray_t array_ = nullptr;
  cudaTextureObject_t texture_ = 0;
};

cudaTextureDesc read_by(cudaTextureFilterMode filter, cudaTextureAddressMode address = cudaAddressModeClamp,
                        bool normalized = false) {
  cudaTextureDesc d = {};
  d.filterMode = filter;
  for (cudaTextureAddressMode& mode : d.addressMode) mode = address;
  d.normalizedCoords = normalized ? 1 : 0;
  return d;
}

__global__ void sample_line(cudaTextureObject_t t, const float* at, float* out) {
  out[threadIdx.x] = tex1D<float>(t, at[threadIdx.x]);
}
__global__ void sample_plane(cudaTextureObject_t t, const float* at, float* out) {
  out[threadIdx.x] = tex2D<float>(t, at[2 * threadIdx.x], at[2 * threadIdx.x + 1]);
}
__global__ void fetch_bytes(cudaTextureObject_t t, float* out) {
  const float4 value = tex1Dfetch<float4>(t, 0);
  out[0] = value.x;
  out[1] = value.y;
}
__global__ void gather_plane(cudaTextureObject_t t, float* out) {
  const float4 four = tex2Dgather<float4>(t, 2, 1, 0);
  out[0] = four.x;
  out[1] = four.y;
  out[2] = four.z;
  out[3] = four.w;
}
__global__ void look_around(cudaTextureObject_t t, float* out) {
  out[0] = texCubemap<float>(t, 2, 0.5f, 1);
  out[1] = texCubemap<float>(t, -2, 0.5f, 1);
  out[2] = texCubemap<float>(t, 0.5f, 2, 1);
  out[3] = texCubemap<float>(t, 0.5f, -2, 1);
  out[4] = texCubemap<float>(t, 0.5f, 1, 2);
  out[5] = texCubemap<float>(t, 0.5f, 1, -2);
}
__global__ void choose_layer(cudaTextureObject_t t, float* out) {
  out[threadIdx.x] = tex1DLayered<float>(t, 0.5f, static_cast<int>(threadIdx.x));
}
__global__ void write_beyond(cudaSurfaceObject_t s, float* out) {
  out[0] = surf2Dread<float>(s, 64, 0, cudaBoundaryModeZero);
  out[1] = surf2Dread<float>(s, 64, 0, cudaBoundaryModeClamp);
  surf2Dwrite(9.0f, s, 64, 0, cudaBoundaryModeZero);
  surf2Dwrite(7.0f, s, 4, 1);
  out[2] = surf2Dread<float>(s, 4, 1);
  out[3] = surf2Dread<float>(s, 12, 0);
}
__global__ void write_out(cudaSurfaceObject_t s) {
  surf2Dwrite(9.0f, s, 64, 0, cudaBoundaryModeTrap);
}

std::vector<float> sampled(void (*kernel)(cudaTextureObject_t, const float*, float*),
                           cudaTextureObject_t texture, const std::vector<float>& at, unsigned threads) {
  Memory<float> places(at.size()), out(threads);
  places.write(at);
  kernel<<<1, threads>>>(texture, places, out);
  OK(cudaDeviceSynchronize());
  return out.read();
}

CONFORMS(Runtime, TheNearestTexelIsTheFloor,
         "CUDA C++ Programming Guide, Texture Fetching, Nearest-Point Sampling: the value returned by the "
         "texture fetch "
         "is tex(x)=T[i] with i=floor(x)") {
  Fresh here;
  Image line({1, 2, 4, 8}, make_cudaExtent(4, 0, 0));
  EXPECT_EQ(sampled(sample_line, line.texture(read_by(cudaFilterModePoint)), {0, 0.75f, 1, 1.5f, 3.75f}, 5),
            (std::vector<float>{1, 1, 2, 2, 8}));
}

CONFORMS(Runtime, LinearFilteringInterpolates,
         "CUDA C++ Programming Guide, Texture Fetching, Linear Filtering: "
         "tex(x,y)=(1-α)(1-β)T[i,j]+α(1-β)T[i+1,j]+"
         "(1-α)βT[i,j+1]+αβT[i+1,j+1], i=floor(xB), xB=x-0.5") {
  Fresh here;
  Image plane({0, 1, 2, 3, 4, 5}, make_cudaExtent(3, 2, 0));
  EXPECT_EQ(
      sampled(sample_plane, plane.texture(read_by(cudaFilterModeLinear)), {1, 1, 1.75f, 0.5f, 2.5f, 1}, 3),
      (std::vector<float>{2, 1.25f, 3.5f}));
}

CONFORMS(Runtime, FilterWeightsHaveEightBits,
         "CUDA C++ Programming Guide, Texture Fetching: α, β, and γ are stored in 9-bit fixed point format "
         "with 8 bits "
         "of fractional value") {
  Fresh here;
  Image line({0, 1, 1, 1}, make_cudaExtent(4, 0, 0));
  for (const float value : sampled(sample_line, line.texture(read_by(cudaFilterModeLinear)),
                                   {0.6f, 0.7001f, 0.83f, 1.1f, 1.3337f}, 5))
    EXPECT_EQ(value * 256, std::floor(value * 256)) << value;
}

CONFORMS(Runtime, WrapAndMirrorRepeatATexture,
         "CUDA C++ Programming Guide, Texture Memory: when using the wrap mode, each coordinate x is "
         "replaced by frac(x); "
         "with mirror by frac(x) if floor(x) is even and by 1-frac(x) if it is odd") {
  Fresh here;
  const std::vector<float> values = {1, 2, 4, 8}, at = {-0.2f, 0.3f, 1.3f, 2.8f};
  Image wrapped(values, make_cudaExtent(4, 0, 0)), mirrored(values, make_cudaExtent(4, 0, 0));
  EXPECT_EQ(
      sampled(sample_line, wrapped.texture(read_by(cudaFilterModePoint, cudaAddressModeWrap, true)), at, 4),
      (std::vector<float>{8, 2, 2, 8}));
  EXPECT_EQ(sampled(sample_line, mirrored.texture(read_by(cudaFilterModePoint, cudaAddressModeMirror, true)),
                    at, 4),
            (std::vector<float>{1, 2, 4, 8}));
}

CONFORMS(Runtime, WithoutNormalizedCoordinatesWrapIsClamp,
         "cuda_runtime_api.h, cudaCreateTextureObject: if normalizedCoords is set to zero, "
         "cudaAddressModeWrap and "
         "cudaAddressModeMirror won't be supported and will be switched to cudaAddressModeClamp") {
  Fresh here;
  Image line({1, 2, 4, 8}, make_cudaExtent(4, 0, 0));
  EXPECT_EQ(sampled(sample_line, line.texture(read_by(cudaFilterModePoint, cudaAddressModeWrap)), {-3, 9}, 2),
            (std::vector<float>{1, 8}));
}

CONFORMS(Runtime, ABorderHasItsColour,
         "cuda_runtime_api.h, cudaTextureDesc::borderColor: the values are set only when the addressing mode "
         "specified "
         "by addressMode is cudaAddressModeBorder") {
  Fresh here;
  Image line({1, 2, 4, 8}, make_cudaExtent(4, 0, 0));
  cudaTextureDesc how = read_by(cudaFilterModePoint, cudaAddressModeBorder, true);
  how.borderColor[0] = -3;
  EXPECT_EQ(sampled(sample_line, line.texture(how), {-0.5f, 0.6f, 1.5f}, 3), (std::vector<float>{-3, 4, -3}));
}

CONFORMS(Runtime, BytesArePromotedToFloats,
         "CUDA C++ Programming Guide, Texture Memory: if cudaReadModeNormalizedFloat, an unsigned 8-bit "
         "texture element "
         "with the value 0xff reads as 1") {
  Fresh here;
  Memory<uint32_t> bytes(128);
  Memory<float> out(kResults);
  bytes.write(std::vector<uint32_t>(128, 0x0000ff00));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear = {static_cast<uint32_t*>(bytes), cudaCreateChannelDesc<uchar4>(), 512};
  cudaTextureDesc how = {};
  how.readMode = cudaReadModeNormalizedFloat;
  cudaTextureObject_t texture = 0;
  OK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  fetch_bytes<<<1, 1>>>(texture, out);
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(out.read()[0], 0);
  EXPECT_EQ(out.read()[1], 1);
  OK(cudaDestroyTextureObject(texture));
}

CONFORMS(Runtime, AGatherTakesFourNeighbours,
         "PTX ISA, tld4: the four texel samples are placed into destination vector d in counter-clockwise "
         "order starting "
         "at lower left") {
  Fresh here;
  Image plane({0, 1, 2, 3, 4, 5, 6, 7, 8}, make_cudaExtent(3, 3, 0), cudaArrayTextureGather);
  Memory<float> out(kResults);
  gather_plane<<<1, 1>>>(plane.texture(read_by(cudaFilterModePoint)), out);
  OK(cudaDeviceSynchronize());
  const std::vector<float> four = out.read();
  EXPECT_EQ(std::vector<float>(four.begin(), four.begin() + 4), (std::vector<float>{4, 5, 2, 1}));
}

CONFORMS(Runtime, TheLargestCoordinateChoosesTheFaceOfACubemap,
         "CUDA C++ Programming Guide, Cubemap Textures: the coordinate of largest magnitude m selects the "
         "face, and "
         "(s/m+1)/2 and (t/m+1)/2 address it") {
  Fresh here;
  std::vector<float> faces;
  for (int face = 0; face < 6; ++face)
    for (int texel = 0; texel < 4; ++texel) faces.push_back(static_cast<float>(10 * face + texel));
  Image cube(faces, make_cudaExtent(2, 2, 6), cudaArrayCubemap);
  Memory<float> out(kResults);
  look_around<<<1, 1>>>(cube.texture(read_by(cudaFilterModePoint, cudaAddressModeClamp, true)), out);
  OK(cudaDeviceSynchronize());
  const std::vector<float> six = out.read();
  EXPECT_EQ(std::vector<float>(six.begin(), six.begin() + 6), (std::vector<float>{0, 11, 23, 31, 41, 50}));
}

CONFORMS(
    Runtime, LayersAreNotFiltered,
    "CUDA C++ Programming Guide, Layered Textures: texture filtering is done only within a layer, not across "
    "layers") {
  Fresh here;
  Image layers({1, 2, 11, 12, 21, 22}, make_cudaExtent(2, 0, 3), cudaArrayLayered);
  Memory<float> out(kResults);
  choose_layer<<<1, 3>>>(layers.texture(read_by(cudaFilterModeLinear)), out);
  OK(cudaDeviceSynchronize());
  const std::vector<float> three = out.read();
  EXPECT_EQ(std::vector<float>(three.begin(), three.begin() + 3), (std::vector<float>{1, 11, 21}));
}

CONFORMS(Runtime, IntegersAreNotFiltered,
         "driver_types.h, cudaErrorInvalidFilterSetting: a non-float texture was being accessed with linear "
         "filtering; "
         "this is not supported by CUDA") {
  Fresh here;
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  OK(cudaMallocArray(&array, &format, 4, 4, 0));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  const cudaTextureDesc how = read_by(cudaFilterModeLinear);
  cudaTextureObject_t texture = 0;
  EXPECT_NE(cudaCreateTextureObject(&texture, &resource, &how, nullptr), cudaSuccess);
  OK(cudaFreeArray(array));
}

CONFORMS(Runtime, AViewIsToldOnlyWhereThereIsOne,
         "cuda_runtime_api.h, cudaGetTextureObjectResourceViewDesc: if no resource view was specified, "
         "cudaErrorInvalidValue is returned") {
  Fresh here;
  Image line({1, 2, 4, 8}, make_cudaExtent(4, 0, 0));
  cudaResourceViewDesc view = {};
  EXPECT_EQ(cudaGetTextureObjectResourceViewDesc(&view, line.texture(read_by(cudaFilterModePoint))),
            cudaErrorInvalidValue);
}

CONFORMS(Runtime, SurfacesCountBytesAndHaveBoundaryModes,
         "CUDA C++ Programming Guide, Surface Functions: cudaBoundaryModeClamp clamps out-of-range "
         "coordinates to the "
         "valid range; with cudaBoundaryModeZero out-of-range reads return zero and out-of-range writes are "
         "ignored") {
  Fresh here;
  Image plane({1, 2, 3, 4, 5, 6, 7, 8}, make_cudaExtent(4, 2, 0), cudaArraySurfaceLoadStore);
  const cudaResourceDesc resource = plane.resource();
  cudaSurfaceObject_t surface = 0;
  OK(cudaCreateSurfaceObject(&surface, &resource));
  Memory<float> out(kResults);
  write_beyond<<<1, 1>>>(surface, out);
  OK(cudaDeviceSynchronize());
  const std::vector<float> got = out.read();
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 4), (std::vector<float>{0, 4, 7, 4}));
  OK(cudaDestroySurfaceObject(surface));
}

CONFORMS_ALONE(
    Runtime, ASurfacesTrapFailsTheKernel,
    "CUDA C++ Programming Guide, Surface Functions, boundary mode cudaBoundaryModeTrap: out-of-range "
    "accesses cause the kernel execution to fail") {
  Image plane({1, 2, 3, 4}, make_cudaExtent(2, 2, 0), cudaArraySurfaceLoadStore);
  const cudaResourceDesc resource = plane.resource();
  cudaSurfaceObject_t surface = 0;
  OK(cudaCreateSurfaceObject(&surface, &resource));
  write_out<<<1, 1>>>(surface);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);  // nothing of a dead context can be cleaned up
}

}  // namespace
}  // namespace conform
