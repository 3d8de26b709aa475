// Images in textures: rescaling with linear filtering, four ways to address beyond the edge, normalized
// reads, and results stored through surfaces.
#include "check.h"

__global__ void rescale(cudaTextureObject_t image, cudaSurfaceObject_t out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  surf2Dwrite(tex2D<float>(image, (x + 0.5f) / width, (y + 0.5f) / height), out, x * sizeof(float), y);
}
__global__ void blur(cudaTextureObject_t image, uchar4* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int r = 0, g = 0, b = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx) {
      const uchar4 at = tex2D<uchar4>(image, x + dx, y + dy);
      r += at.x, g += at.y, b += at.z;
    }
  out[y * width + x] = make_uchar4(r / 9, g / 9, b / 9, 255);
}
__global__ void edges(cudaTextureObject_t image, float* out, int n) {
  const int i = threadIdx.x;
  if (i < n) out[i] = tex2D<float>(image, (i - n / 2) / 8.0f + 1 / 64.0f, 0.5f);  // over three widths of it
}
__global__ void normalized(cudaTextureObject_t image, float* out) {
  out[threadIdx.x] = tex2D<float>(image, threadIdx.x + 0.5f, 0.5f);
}

static cudaTextureObject_t texture_of(cudaArray_t array, cudaTextureAddressMode beyond,
                                      cudaTextureFilterMode filter, cudaTextureReadMode read,
                                      bool normalized) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc desc = {};
  desc.addressMode[0] = desc.addressMode[1] = beyond;
  desc.filterMode = filter;
  desc.readMode = read;
  desc.normalizedCoords = normalized;
  if (beyond == cudaAddressModeBorder) desc.borderColor[0] = -1;
  cudaTextureObject_t texture;
  MUST(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  return texture;
}

// "Linear Filtering" of the Programming Guide: weights of 9 bits, 8 of them of fraction.
static float linear(const std::vector<float>& image, int width, int height, float u, float v) {
  const float x = u - 0.5f, y = v - 0.5f;
  const int i = static_cast<int>(std::floor(x)), j = static_cast<int>(std::floor(y));
  const float a = std::round((x - i) * 256) / 256, b = std::round((y - j) * 256) / 256;
  auto at = [&](int column, int row) {
    return image[std::clamp(row, 0, height - 1) * width + std::clamp(column, 0, width - 1)];
  };
  return (1 - a) * (1 - b) * at(i, j) + a * (1 - b) * at(i + 1, j) + (1 - a) * b * at(i, j + 1) +
         a * b * at(i + 1, j + 1);
}

static void rescales(int width, int height, int to_width, int to_height) {
  std::vector<float> image(width * height), out(to_width * to_height);
  for (int i = 0; i < width * height; ++i) image[i] = static_cast<float>((i * 37) % 101) - 50;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t from, to;
  MUST(cudaMallocArray(&from, &format, width, height));
  MUST(cudaMallocArray(&to, &format, to_width, to_height, cudaArraySurfaceLoadStore));
  MUST(cudaMemcpy2DToArray(from, 0, 0, image.data(), width * sizeof(float), width * sizeof(float), height,
                           cudaMemcpyHostToDevice));
  const cudaTextureObject_t texture =
      texture_of(from, cudaAddressModeClamp, cudaFilterModeLinear, cudaReadModeElementType, true);
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = to;
  cudaSurfaceObject_t surface;
  MUST(cudaCreateSurfaceObject(&surface, &resource));
  rescale<<<dim3((to_width + 15) / 16, (to_height + 7) / 8), dim3(16, 8)>>>(texture, surface, to_width,
                                                                            to_height);
  MUST_RUN();
  MUST(cudaMemcpy2DFromArray(out.data(), to_width * sizeof(float), to, 0, 0, to_width * sizeof(float),
                             to_height, cudaMemcpyDeviceToHost));
  for (int y = 0; y < to_height; ++y)
    for (int x = 0; x < to_width; ++x) {
      const float wanted =
          linear(image, width, height, (x + 0.5f) / to_width * width, (y + 0.5f) / to_height * height);
      // A weight may be rounded either way.
      HOLDS(std::abs(out[y * to_width + x] - wanted) <= 100 * 2 / 256.0f, "%d,%d: %g, %g", x, y,
            out[y * to_width + x], wanted);
    }
  MUST(cudaDestroySurfaceObject(surface));
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaFreeArray(from));
  MUST(cudaFreeArray(to));
}

static void blurs(int width, int height) {
  std::vector<uchar4> image(width * height), out(width * height);
  for (int i = 0; i < width * height; ++i) image[i] = make_uchar4(i, i * 3, i * 7, 1);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
  cudaArray_t array;
  MUST(cudaMallocArray(&array, &format, width, height));
  MUST(cudaMemcpy2DToArray(array, 0, 0, image.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
  const cudaTextureObject_t texture =
      texture_of(array, cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, false);
  uchar4* device;
  MUST(cudaMalloc(&device, out.size() * 4));
  blur<<<dim3((width + 15) / 16, (height + 7) / 8), dim3(16, 8)>>>(texture, device, width, height);
  MUST(cudaMemcpy(out.data(), device, out.size() * 4, cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      int r = 0, g = 0, b = 0;
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) {
          const uchar4 at =
              image[std::clamp(y + dy, 0, height - 1) * width + std::clamp(x + dx, 0, width - 1)];
          r += at.x, g += at.y, b += at.z;
        }
      const uchar4 is = out[y * width + x];
      HOLDS(is.x == r / 9 && is.y == g / 9 && is.z == b / 9 && is.w == 255, "%d,%d", x, y);
    }
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaFreeArray(array));
  MUST(cudaFree(device));
}

static void addresses() {
  constexpr int kWidth = 8, kPoints = 24;
  std::vector<float> row(kWidth), out(kPoints);
  for (int i = 0; i < kWidth; ++i) row[i] = static_cast<float>(i + 1);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  float* device;
  MUST(cudaMallocArray(&array, &format, kWidth, 1));
  MUST(cudaMalloc(&device, kPoints * sizeof(float)));
  MUST(cudaMemcpy2DToArray(array, 0, 0, row.data(), 32, 32, 1, cudaMemcpyHostToDevice));
  for (const cudaTextureAddressMode mode :
       {cudaAddressModeClamp, cudaAddressModeBorder, cudaAddressModeWrap, cudaAddressModeMirror}) {
    const cudaTextureObject_t texture =
        texture_of(array, mode, cudaFilterModePoint, cudaReadModeElementType, true);
    edges<<<1, 32>>>(texture, device, kPoints);
    MUST(cudaMemcpy(out.data(), device, kPoints * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < kPoints; ++i) {
      const int at = i - kPoints / 2;  // the texel, in an endless row
      const int times = at >= 0 ? at / kWidth : (at - kWidth + 1) / kWidth, in = at - times * kWidth;
      float wanted = row[in];
      if (times != 0 && mode == cudaAddressModeClamp) wanted = at < 0 ? row[0] : row[kWidth - 1];
      if (times != 0 && mode == cudaAddressModeBorder) wanted = -1;
      if (times % 2 != 0 && mode == cudaAddressModeMirror) wanted = row[kWidth - 1 - in];
      HOLDS(out[i] == wanted, "mode %d, texel %d: %g, %g", mode, at, out[i], wanted);
    }
    MUST(cudaDestroyTextureObject(texture));
  }
  MUST(cudaFreeArray(array));
  MUST(cudaFree(device));
}

static void reads_as_fractions() {
  const int8_t texels[4] = {-128, -64, 0, 127};
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<signed char>();
  cudaArray_t array;
  float *device, out[4];
  MUST(cudaMallocArray(&array, &format, 4, 1));
  MUST(cudaMalloc(&device, sizeof out));
  MUST(cudaMemcpy2DToArray(array, 0, 0, texels, 4, 4, 1, cudaMemcpyHostToDevice));
  const cudaTextureObject_t texture =
      texture_of(array, cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeNormalizedFloat, false);
  normalized<<<1, 4>>>(texture, device);
  MUST(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
  HOLDS(out[0] == -1 && out[2] == 0 && out[3] == 1, "[-1, 1]: %g %g %g", out[0], out[2], out[3]);
  HOLDS(std::abs(out[1] + 64 / 127.0f) < 1e-6f, "%g", out[1]);
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaFreeArray(array));
  MUST(cudaFree(device));
}

int main() {
  rescales(16, 12, 40, 30);
  rescales(101, 67, 33, 50);
  blurs(7, 5);
  blurs(160, 90);
  addresses();
  reads_as_fractions();
  return verdict();
}
