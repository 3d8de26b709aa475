// Symbols: separable convolution with coefficients in constant memory, a state machine whose table and
// counters are variables of the GPU, and copies to and from parts of them, in streams and on every GPU.
#include "check.h"

constexpr int kRadius = 4;
__constant__ float kernel_row[2 * kRadius + 1];
__constant__ struct {
  int width, height;
  float scale;
} image_is;
__device__ int table[4][3];
__device__ unsigned visits[4];
__device__ float* scratch;  // of which symbol the host sets where it points
static __device__ double last_value = 2.5;

__global__ void convolve(const float* in, bool down) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= image_is.width) return;
  float sum = 0;
  for (int k = -kRadius; k <= kRadius; ++k) {
    const int i = down ? x : min(max(x + k, 0), image_is.width - 1);
    const int j = down ? min(max(y + k, 0), image_is.height - 1) : y;
    sum += kernel_row[k + kRadius] * in[j * image_is.width + i];
  }
  scratch[y * image_is.width + x] = sum * image_is.scale;
}
__global__ void machine(const unsigned char* symbols, int n) {
  int state = 0;
  for (int i = 0; i < n; ++i) {
    state = table[state][symbols[i]];
    ++visits[state];
  }
  last_value += state;
}

static void convolves(int width, int height) {
  float coefficients[2 * kRadius + 1];
  for (int k = 0; k <= 2 * kRadius; ++k)
    coefficients[k] = static_cast<float>(kRadius + 1 - std::abs(k - kRadius));
  decltype(image_is) host_is = {width, height, 0.25f};
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaMemcpyToSymbolAsync(kernel_row, coefficients, sizeof coefficients, 0, cudaMemcpyHostToDevice,
                               stream));
  MUST(cudaMemcpyToSymbolAsync(image_is, &host_is, sizeof host_is, 0, cudaMemcpyHostToDevice, stream));
  std::vector<float> image(width * height), half(image.size()), wanted(image.size()), out(image.size());
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i * 131 % 64);
  auto on_host = [&](const std::vector<float>& in, std::vector<float>& to, bool down) {
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        float sum = 0;
        for (int k = -kRadius; k <= kRadius; ++k)
          sum += coefficients[k + kRadius] * in[(down ? std::clamp(y + k, 0, height - 1) : y) * width +
                                                (down ? x : std::clamp(x + k, 0, width - 1))];
        to[y * width + x] = sum * 0.25f;
      }
  };
  on_host(image, half, false);
  on_host(half, wanted, true);
  float *in, *between, *to;
  for (float** buffer : {&in, &between, &to}) MUST(cudaMalloc(buffer, image.size() * sizeof(float)));
  MUST(cudaMemcpyAsync(in, image.data(), image.size() * sizeof(float), cudaMemcpyHostToDevice, stream));
  const dim3 grid((width + 63) / 64, height);
  MUST(cudaMemcpyToSymbolAsync(scratch, &between, sizeof between, 0, cudaMemcpyHostToDevice, stream));
  convolve<<<grid, 64, 0, stream>>>(in, false);
  MUST(cudaMemcpyToSymbolAsync(scratch, &to, sizeof to, 0, cudaMemcpyHostToDevice, stream));
  convolve<<<grid, 64, 0, stream>>>(between, true);
  MUST(cudaMemcpyAsync(out.data(), to, out.size() * sizeof(float), cudaMemcpyDeviceToHost, stream));
  MUST(cudaStreamSynchronize(stream));
  for (size_t i = 0; i < out.size(); ++i)
    HOLDS(std::abs(out[i] - wanted[i]) <= 1e-4f * wanted[i], "%zu: %g, %g", i, out[i], wanted[i]);
  for (float* buffer : {in, between, to}) MUST(cudaFree(buffer));
  MUST(cudaStreamDestroy(stream));
}

static void runs_a_machine() {
  const int transitions[4][3] = {{1, 2, 0}, {3, 1, 2}, {0, 0, 3}, {2, 1, 1}};
  // Row by row, at its offset.
  for (int row = 3; row >= 0; --row)
    MUST(cudaMemcpyToSymbol(table, transitions[row], sizeof transitions[row], row * sizeof transitions[row]));
  const unsigned zeros[4] = {};
  MUST(cudaMemcpyToSymbol(visits, zeros, sizeof zeros));
  std::vector<unsigned char> input(2000);
  for (size_t i = 0; i < input.size(); ++i) input[i] = i * i % 3;
  unsigned char* device;
  MUST(cudaMalloc(&device, input.size()));
  MUST(cudaMemcpy(device, input.data(), input.size(), cudaMemcpyHostToDevice));
  double before = 0, after = 0;
  MUST(cudaMemcpyFromSymbol(&before, last_value, sizeof before));
  HOLDS(before == 2.5, "as it was initialised: %g", before);
  machine<<<1, 1>>>(device, static_cast<int>(input.size()));
  MUST(cudaMemcpyFromSymbol(&after, last_value, sizeof after));
  unsigned counted[4], wanted[4] = {};
  MUST(cudaMemcpyFromSymbol(counted, visits, sizeof counted));
  int state = 0;
  for (const unsigned char symbol : input) ++wanted[state = transitions[state][symbol]];
  HOLDS(std::equal(counted, counted + 4, wanted), "%u %u %u %u", counted[0], counted[1], counted[2],
        counted[3]);
  HOLDS(after == 2.5 + state, "%g", after);
  unsigned third = 0, *address;
  size_t bytes = 0;
  MUST(cudaMemcpyFromSymbol(&third, visits, sizeof third, 3 * sizeof third));
  HOLDS(third == wanted[3], "one of them: %u", third);
  MUST(cudaGetSymbolAddress(reinterpret_cast<void**>(&address), visits));
  MUST(cudaGetSymbolSize(&bytes, table));
  HOLDS(bytes == 48, "%zu bytes", bytes);
  MUST(cudaMemset(address + 1, 0xff, sizeof(unsigned)));
  MUST(cudaMemcpyFromSymbol(counted, visits, sizeof counted));
  HOLDS(counted[0] == wanted[0] && counted[1] == 0xffffffffu && counted[2] == wanted[2], "by its address");
  // Beyond the end there is nothing; and what is no symbol has none.
  REFUSES(cudaMemcpyToSymbol(visits, zeros, sizeof zeros, 4), cudaErrorInvalidValue);
  static int plain;
  REFUSES(cudaGetSymbolSize(&bytes, plain), cudaErrorInvalidSymbol);
  REFUSES(cudaMemcpyToSymbol(plain, zeros, 4), cudaErrorInvalidSymbol);
  MUST(cudaFree(device));
}

int main() {
  int count = 0;
  MUST(cudaGetDeviceCount(&count));
  for (int gpu = 0; gpu < count; ++gpu) {  // each has variables of its own
    MUST(cudaSetDevice(gpu));
    convolves(5, 3);
    convolves(150, 40);
    runs_a_machine();
  }
  return verdict();
}
