// Textures and surfaces as programs use them, a kind at a time, each checked on the host with values worked out by
// hand from the Programming Guide's "Texture Fetching".
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s (%s)\n", call, cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

static bool all_right = true;
static void tell(const char* what, bool right) {
  std::printf("%s: %s\n", what, right ? "right" : "wrong");
  all_right = all_right && right;
}

static float* out;  // managed

template <class T>
static cudaArray_t array_of(const std::vector<T>& values, cudaExtent extent, unsigned flags = 0) {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<T>();
  CHECK(cudaMalloc3DArray(&array, &format, extent, flags));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(const_cast<T*>(values.data()), extent.width * sizeof(T), extent.width,
                                    extent.height == 0 ? 1 : extent.height);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(extent.width, extent.height == 0 ? 1 : extent.height,
                                extent.depth == 0 ? 1 : extent.depth);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  return array;
}

static cudaTextureObject_t texture_of(cudaArray_t array, cudaTextureDesc how) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureObject_t texture = 0;
  CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  return texture;
}
static cudaSurfaceObject_t surface_of(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface = 0;
  CHECK(cudaCreateSurfaceObject(&surface, &resource));
  return surface;
}
static cudaTextureDesc linear() {
  cudaTextureDesc how = {};
  how.filterMode = cudaFilterModeLinear;
  for (auto& mode : how.addressMode) mode = cudaAddressModeClamp;
  return how;
}
static cudaTextureDesc nearest() {
  cudaTextureDesc how = linear();
  how.filterMode = cudaFilterModePoint;
  return how;
}

template <class Kernel, class... Args>
static void run(Kernel kernel, Args... args) {
  std::memset(out, 0, 64 * sizeof(float));
  kernel<<<1, 1>>>(args..., out);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}
static bool is(std::initializer_list<float> values) {
  int i = 0;
  for (const float value : values)
    if (std::fabs(out[i++] - value) > 1e-5f) {
      std::printf("%d: %g for %g\n", i - 1, out[i - 1], value);
      return false;
    }
  return true;
}

__global__ void fetches(cudaTextureObject_t t, float* to) {
  for (int i = 0; i < 6; ++i) to[i] = tex1Dfetch<float>(t, i - 1);
}
static void fetched() {
  float* memory = nullptr;
  const float values[] = {3, 5, 7, 9};
  CHECK(cudaMalloc(&memory, sizeof values));
  CHECK(cudaMemcpy(memory, values, sizeof values, cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear = {memory, cudaCreateChannelDesc<float>(), sizeof values};
  const cudaTextureDesc how = {};
  cudaTextureObject_t texture = 0;
  CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  run(fetches, texture);
  tell("tex1Dfetch", is({0, 3, 5, 7, 9, 0}));
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFree(memory));
}

__global__ void lines(cudaTextureObject_t t, float* to) {
  to[0] = tex1D<float>(t, 0.5f);
  to[1] = tex1D<float>(t, 1.0f);
  to[2] = tex1D<float>(t, 1.25f);
  to[3] = tex1D<float>(t, -5.0f);
  to[4] = tex1D<float>(t, 50.0f);
}
__global__ void planes(cudaTextureObject_t t, float* to) {
  to[0] = tex2D<float>(t, 1.0f, 1.0f);
  to[1] = tex2D<float>(t, 1.75f, 0.5f);
  to[2] = tex2D<float>(t, 9.0f, 9.0f);
}
__global__ void volumes(cudaTextureObject_t t, float* to) {
  to[0] = tex3D<float>(t, 1.0f, 1.0f, 1.0f);
  to[1] = tex3D<float>(t, 0.5f, 1.5f, 0.75f);
}
static void filtered() {
  const cudaArray_t line = array_of<float>({1, 2, 4, 8}, make_cudaExtent(4, 0, 0));
  run(lines, texture_of(line, linear()));
  tell("tex1D", is({1, 1.5f, 1.75f, 1, 8}));
  const cudaArray_t plane = array_of<float>({0, 1, 2, 3, 4, 5}, make_cudaExtent(3, 2, 0));
  run(planes, texture_of(plane, linear()));
  tell("tex2D", is({2, 1.25f, 5}));
  const cudaArray_t volume = array_of<float>({0, 1, 2, 3, 4, 5, 6, 7}, make_cudaExtent(2, 2, 2));
  run(volumes, texture_of(volume, linear()));
  tell("tex3D", is({3.5f, 3}));
  CHECK(cudaFreeArray(line));
  CHECK(cudaFreeArray(plane));
  CHECK(cudaFreeArray(volume));
}

__global__ void repeats(cudaTextureObject_t t, float* to) {
  for (int i = 0; i < 4; ++i) to[i] = tex1D<float>(t, -0.2f + 0.5f * i);
}
static void addressed() {
  const cudaArray_t line = array_of<float>({1, 2, 4, 8}, make_cudaExtent(4, 0, 0));
  const struct {
    const char* name;
    cudaTextureAddressMode mode;
    float values[4];  // at -0.2, 0.3, 0.8, 1.3
  } cases[] = {{"wrap", cudaAddressModeWrap, {8, 2, 8, 2}},
               {"mirror", cudaAddressModeMirror, {1, 2, 8, 4}},
               {"clamp", cudaAddressModeClamp, {1, 2, 8, 8}},
               {"border", cudaAddressModeBorder, {-1, 2, 8, -1}}};
  for (const auto& one : cases) {
    cudaTextureDesc how = nearest();
    how.normalizedCoords = 1;
    how.addressMode[0] = one.mode;
    how.borderColor[0] = -1;
    run(repeats, texture_of(line, how));
    tell(one.name, is({one.values[0], one.values[1], one.values[2], one.values[3]}));
  }
  CHECK(cudaFreeArray(line));
}

__global__ void formats(cudaTextureObject_t bytes, cudaTextureObject_t promoted, cudaTextureObject_t words,
                        cudaTextureObject_t halves, float* to) {
  const uchar4 b = tex2D<uchar4>(bytes, 1, 0);
  to[0] = b.x;
  to[1] = b.w;
  const float4 p = tex2D<float4>(promoted, 1, 0);
  to[2] = p.x * 255;
  to[3] = p.w * 255;
  const int2 w = tex2D<int2>(words, 0, 1);
  to[4] = w.x;
  to[5] = w.y;
  to[6] = tex2D<float>(halves, 1, 1);
}
static void formatted() {
  const std::vector<uchar4> bytes = {{1, 2, 3, 4}, {5, 6, 7, 250}};
  const cudaArray_t b = array_of(bytes, make_cudaExtent(2, 1, 0));
  cudaTextureDesc promoted = nearest();
  promoted.readMode = cudaReadModeNormalizedFloat;
  const std::vector<int2> words = {{1, 2}, {-3, 4}};
  const cudaArray_t w = array_of(words, make_cudaExtent(1, 2, 0));
  const std::vector<__half> halves = {__float2half(1), __float2half(2), __float2half(3), __float2half(0.5f)};
  cudaArray_t h = nullptr;
  const cudaChannelFormatDesc half = cudaCreateChannelDescHalf();
  CHECK(cudaMallocArray(&h, &half, 2, 2));
  CHECK(cudaMemcpy2DToArray(h, 0, 0, halves.data(), 4, 4, 2, cudaMemcpyHostToDevice));
  run(formats, texture_of(b, nearest()), texture_of(b, promoted), texture_of(w, nearest()), texture_of(h, nearest()));
  tell("formats", is({5, 250, 5, 250, -3, 4, 0.5f}));
}

__global__ void layers(cudaTextureObject_t one, cudaTextureObject_t two, float* to) {
  to[0] = tex1DLayered<float>(one, 1.0f, 1);
  to[1] = tex1DLayered<float>(one, 1.0f, 9);
  to[2] = tex2DLayered<float>(two, 0.5f, 1.5f, 1);
}
__global__ void cubes(cudaTextureObject_t one, cudaTextureObject_t several, float* to) {
  to[0] = texCubemap<float>(one, 4, 1, 2);
  to[1] = texCubemap<float>(one, -4, 1, 2);
  to[2] = texCubemap<float>(one, 1, 4, 2);
  to[3] = texCubemap<float>(one, 1, -4, 2);
  to[4] = texCubemap<float>(one, 1, 2, 4);
  to[5] = texCubemap<float>(one, 1, 2, -4);
  to[6] = texCubemapLayered<float>(several, 1, 4, 2, 1);
}
static void layered() {
  const cudaArray_t one = array_of<float>({0, 1, 10, 11}, make_cudaExtent(2, 0, 2), cudaArrayLayered);
  const cudaArray_t two = array_of<float>({0, 1, 2, 3, 10, 11, 12, 13}, make_cudaExtent(2, 2, 2), cudaArrayLayered);
  run(layers, texture_of(one, linear()), texture_of(two, linear()));
  tell("layers", is({10.5f, 10.5f, 12}));
  std::vector<float> faces;
  for (int layer = 0; layer < 12; ++layer)
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 2; ++x) faces.push_back(100 * layer + 10 * y + x);
  const std::vector<float> six(faces.begin(), faces.begin() + 24);
  cudaTextureDesc how = nearest();
  how.normalizedCoords = 1;
  run(cubes, texture_of(array_of(six, make_cudaExtent(2, 2, 6), cudaArrayCubemap), how),
      texture_of(array_of(faces, make_cudaExtent(2, 2, 12), cudaArrayCubemap | cudaArrayLayered), how));
  tell("cubemaps", is({0, 101, 211, 301, 401, 500, 811}));
}

// A cudaMipmappedArray_t of three levels, of 1, 11 and 21 throughout.
static cudaTextureObject_t levels_of(cudaExtent extent, unsigned flags = 0) {
  cudaMipmappedArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CHECK(cudaMallocMipmappedArray(&array, &format, extent, 3, flags));
  for (unsigned level = 0; level < 3; ++level) {
    const bool layers = (flags & (cudaArrayLayered | cudaArrayCubemap)) != 0;
    const size_t width = extent.width >> level, height = extent.height == 0 ? 1 : extent.height >> level,
                 depth = extent.depth == 0 ? 1 : layers ? extent.depth : extent.depth >> level;
    std::vector<float> values(width * height * depth, 10 * level + 1);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(values.data(), width * 4, width, height);
    CHECK(cudaGetMipmappedArrayLevel(&copy.dstArray, array, level));
    copy.extent = make_cudaExtent(width, height, depth);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
  }
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = array;
  cudaTextureDesc how = linear();
  how.normalizedCoords = 1;
  how.mipmapFilterMode = cudaFilterModeLinear;
  how.maxMipmapLevelClamp = 2;
  cudaTextureObject_t texture = 0;
  CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  return texture;
}

// By level, and by steps of two texels of the first one: log2(2) is 1.
__global__ void levels(cudaTextureObject_t one, cudaTextureObject_t two, cudaTextureObject_t three,
                       cudaTextureObject_t cube, float* to) {
  to[0] = tex2DLod<float>(two, 0.5f, 0.5f, 0.5f);
  to[1] = tex2DLod<float>(two, 0.5f, 0.5f, 7);
  to[2] = tex2DGrad<float>(two, 0.5f, 0.5f, make_float2(0.5f, 0), make_float2(0, 0.25f));
  to[3] = tex2D<float>(two, 0.5f, 0.5f);
  to[4] = tex1DLod<float>(one, 0.5f, 1.5f);
  to[5] = tex1DGrad<float>(one, 0.5f, 0.25f, -0.5f);
  to[6] = tex3DLod<float>(three, 0.5f, 0.5f, 0.5f, 1.5f);
  to[7] = tex3DGrad<float>(three, 0.5f, 0.5f, 0.5f, make_float4(0, 0, 0.5f, 9), make_float4(0, 0.25f, 0, 9));
  to[8] = texCubemapLod<float>(cube, 1, 0, 0, 0.5f);
  // Half a face is one of its coordinates away.
  to[9] = texCubemapGrad<float>(cube, 1, 0, 0, make_float4(0, 1, 0, 9), make_float4(0, 0, 0.5f, 9));
  bool resident = false;
  to[10] = tex2D<float>(two, 0.5f, 0.5f, &resident);
  to[11] = resident ? 1 : 0;
}
__global__ void levels_of_layers(cudaTextureObject_t one, cudaTextureObject_t two, cudaTextureObject_t cubes,
                                 float* to) {
  to[0] = tex1DLayeredLod<float>(one, 0.5f, 1, 1.5f);
  to[1] = tex1DLayeredGrad<float>(one, 0.5f, 1, 0.5f, 0);
  to[2] = tex2DLayeredLod<float>(two, 0.5f, 0.5f, 1, 1.5f);
  to[3] = tex2DLayeredGrad<float>(two, 0.5f, 0.5f, 1, make_float2(0.5f, 0), make_float2(0, 0.25f));
  to[4] = texCubemapLayeredLod<float>(cubes, 0, 1, 0, 1, 1.5f);
  to[5] = texCubemapLayeredGrad<float>(cubes, 0, 1, 0, 1, make_float4(1, 0, 0, 9), make_float4(0, 0, 0, 9));
}
static void mipmapped() {
  run(levels, levels_of(make_cudaExtent(4, 0, 0)), levels_of(make_cudaExtent(4, 4, 0)),
      levels_of(make_cudaExtent(4, 4, 4)), levels_of(make_cudaExtent(4, 4, 6), cudaArrayCubemap));
  tell("mipmaps", is({6, 21, 11, 1, 16, 11, 16, 11, 6, 11, 1, 1}));
  run(levels_of_layers, levels_of(make_cudaExtent(4, 0, 2), cudaArrayLayered),
      levels_of(make_cudaExtent(4, 4, 2), cudaArrayLayered),
      levels_of(make_cudaExtent(4, 4, 12), cudaArrayLayered | cudaArrayCubemap));
  tell("mipmaps of layers", is({16, 11, 16, 11, 16, 11}));
}

__global__ void gathers(cudaTextureObject_t t, float* to) {
  const float4 four = tex2Dgather<float4>(t, 2.0f, 1.0f, 0);
  to[0] = four.x;
  to[1] = four.y;
  to[2] = four.z;
  to[3] = four.w;
}
static void gathered() {
  const cudaArray_t array =
      array_of<float>({0, 1, 2, 3, 4, 5, 6, 7, 8}, make_cudaExtent(3, 3, 0), cudaArrayTextureGather);
  run(gathers, texture_of(array, nearest()));
  tell("gather", is({4, 5, 2, 1}));
}

// Every thread doubles a texel, in place.
__global__ void doubles(cudaSurfaceObject_t s, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float value;
  surf2Dread(&value, s, x * int(sizeof(float)), y);
  surf2Dwrite(2 * value, s, x * int(sizeof(float)), y);
}
__global__ void surfaces(cudaSurfaceObject_t one, cudaSurfaceObject_t three, cudaSurfaceObject_t layered,
                         cudaSurfaceObject_t cube, cudaSurfaceObject_t lines, cudaSurfaceObject_t cubes, float* to) {
  surf1Dwrite(make_short2(3, -4), one, 4);
  const short2 pair = surf1Dread<short2>(one, 4);
  to[0] = pair.x;
  to[1] = pair.y;
  surf3Dwrite(5.0f, three, 4, 1, 1);
  to[2] = surf3Dread<float>(three, 4, 1, 1);
  to[3] = surf3Dread<float>(three, 400, 1, 1, cudaBoundaryModeZero);
  to[4] = surf3Dread<float>(three, 400, 1, 1, cudaBoundaryModeClamp);
  surf2DLayeredwrite(6.0f, layered, 0, 1, 1);
  to[5] = surf2DLayeredread<float>(layered, 0, 1, 1);
  surfCubemapwrite(7.0f, cube, 4, 1, 5);
  to[6] = surfCubemapread<float>(cube, 4, 1, 5);
  surf1DLayeredwrite(8.0f, lines, 4, 1);
  to[7] = surf1DLayeredread<float>(lines, 4, 1);
  surfCubemapLayeredwrite(9.0f, cubes, 4, 1, 11);
  to[8] = surfCubemapLayeredread<float>(cubes, 4, 1, 11);
}
static void written() {
  std::vector<float> values(37 * 21);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  const cudaArray_t array = array_of(values, make_cudaExtent(37, 21, 0), cudaArraySurfaceLoadStore);
  doubles<<<dim3(3, 2), dim3(16, 16)>>>(surface_of(array), 37, 21);
  CHECK(cudaDeviceSynchronize());
  std::vector<float> back(values.size());
  CHECK(cudaMemcpy2DFromArray(back.data(), 37 * 4, array, 0, 0, 37 * 4, 21, cudaMemcpyDeviceToHost));
  bool right = true;
  for (size_t i = 0; i < values.size(); ++i) right = right && back[i] == 2 * values[i];
  tell("surfaces in place", right);
  const std::vector<short2> shorts(4);
  const std::vector<float> four(4), eight(8), six(24), twelve(48);
  run(surfaces, surface_of(array_of(shorts, make_cudaExtent(4, 0, 0), cudaArraySurfaceLoadStore)),
      surface_of(array_of(eight, make_cudaExtent(2, 2, 2), cudaArraySurfaceLoadStore)),
      surface_of(array_of(eight, make_cudaExtent(2, 2, 2), cudaArraySurfaceLoadStore | cudaArrayLayered)),
      surface_of(array_of(six, make_cudaExtent(2, 2, 6), cudaArraySurfaceLoadStore | cudaArrayCubemap)),
      surface_of(array_of(four, make_cudaExtent(2, 0, 2), cudaArraySurfaceLoadStore | cudaArrayLayered)),
      surface_of(array_of(twelve, make_cudaExtent(2, 2, 12),
                          cudaArraySurfaceLoadStore | cudaArrayCubemap | cudaArrayLayered)));
  tell("surfaces", is({3, -4, 5, 0, 5, 6, 7, 8, 9}));
}

int main() {
  CHECK(cudaMallocManaged(&out, 64 * sizeof(float)));
  fetched();
  filtered();
  addressed();
  formatted();
  layered();
  mipmapped();
  gathered();
  written();
  return all_right ? 0 : 1;
}
