// What CUDA C++ offers to kernels, a piece at a time, each with its result checked on the host. Without an
// argument all that end well, in this order; with one, that piece, of which some end in a fault.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s (%s)\n", call, cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

template <class T>
static T* on_device(const T* host, int n) {
  T* device = nullptr;
  CHECK(cudaMalloc(&device, n * sizeof(T)));
  if (host != nullptr) CHECK(cudaMemcpy(device, host, n * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

// ---- templates ----
template <class T, int Step>
__global__ void scale(T* values, T by, int n) {
  for (int i = threadIdx.x; i < n; i += Step) values[i] *= by;
}

template <class T>
static bool scaled(T by) {
  T host[100];
  for (int i = 0; i < 100; ++i) host[i] = static_cast<T>(i);
  T* device = on_device(host, 100);
  scale<T, 32><<<1, 32>>>(device, by, 100);
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 100; ++i)
    if (host[i] != static_cast<T>(i) * by) return false;
  return true;
}
static bool templates() {
  return scaled<int>(3) && scaled<float>(0.5f) && scaled<double>(-2.25) && scaled<unsigned char>(2);
}

// ---- structs by value ----
struct Nested {
  char tag;
  double weight;
  short pair[3];
};
struct Big {
  int n;
  Nested inner[4];
  float tail;
};
__global__ void sum_struct(Big big, char before, Nested one, double* out) {
  double sum = big.n + big.tail + before + one.weight;
  for (int i = 0; i < 4; ++i) sum += big.inner[i].tag + big.inner[i].weight + big.inner[i].pair[2];
  *out = sum;
}
static bool structs() {
  Big big{7, {}, 0.25f};
  for (int i = 0; i < 4; ++i)
    big.inner[i] = {static_cast<char>(i), i * 1.5, {0, 0, static_cast<short>(10 * i)}};
  double* out = on_device<double>(nullptr, 1);
  sum_struct<<<1, 1>>>(big, 'A', Nested{'x', 1000.0, {}}, out);
  double sum = 0;
  CHECK(cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost));
  return sum == 7 + 0.25 + 65 + 1000.0 + 6 + 9.0 + 60;
}

// ---- variables ----
__constant__ float coefficients[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int counter = 40;
__device__ const char* word = "ab";
__managed__ int shared_by_both = 5;
__global__ void use_constants(float* out) {
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += coefficients[i];
  out[0] = sum;
  out[1] = word[1];
}
static bool constants() {
  float* out = on_device<float>(nullptr, 2);
  float got[2];
  use_constants<<<1, 1>>>(out);
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  if (got[0] != 36 || got[1] != 'b') return false;
  const float changed[2] = {100, 200};
  CHECK(cudaMemcpyToSymbol(coefficients, changed, sizeof changed, 2 * sizeof(float)));
  use_constants<<<1, 1>>>(out);
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  if (got[0] != 36 - 3 - 4 + 300) return false;
  size_t bytes = 0;
  CHECK(cudaGetSymbolSize(&bytes, coefficients));
  return bytes == 32 && cudaMemcpyToSymbol(coefficients, changed, 8, 28) == cudaErrorInvalidValue &&
         cudaGetLastError() == cudaErrorInvalidValue;
}
__global__ void count_up() {
  atomicAdd(&counter, 1);
}
static bool device_globals() {
  count_up<<<2, 1>>>();
  int got = 0;
  CHECK(cudaMemcpyFromSymbol(&got, counter, sizeof got));
  if (got != 42) return false;
  void* address = nullptr;
  CHECK(cudaGetSymbolAddress(&address, counter));
  CHECK(cudaMemset(address, 0, sizeof(int)));
  count_up<<<1, 32>>>();
  CHECK(cudaMemcpyFromSymbol(&got, counter, sizeof got));
  return got == 32;
}
__global__ void double_managed() {
  shared_by_both *= 2;
}
static bool managed() {
  if (shared_by_both != 5) return false;
  shared_by_both = 21;
  double_managed<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  return shared_by_both == 42;
}

// ---- shared memory ----
__global__ void reverse(int* values, int n) {
  extern __shared__ int copy[];
  __shared__ volatile int offset;  // volatile, or the compiler does without
  if (threadIdx.x == 0) offset = 1000;
  copy[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = copy[n - 1 - threadIdx.x] + offset;
}
static bool dynamic_shared() {
  int host[200];
  for (int i = 0; i < 200; ++i) host[i] = i;
  int* device = on_device(host, 200);
  reverse<<<1, 200, sizeof host>>>(device, 200);
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 200; ++i)
    if (host[i] != 1199 - i) return false;
  // Beyond 48 KiB a kernel has to ask for it.
  reverse<<<1, 200, 60'000>>>(device, 200);
  if (cudaGetLastError() != cudaErrorInvalidValue) return false;
  CHECK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 60'000));
  reverse<<<1, 200, 60'000>>>(device, 200);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  return true;
}

// ---- lambdas ----
template <class F>
__global__ void apply(F f, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = f(i);
}
static bool lambdas() {
  int* out = on_device<int>(nullptr, 64);
  const int a = 3;
  const long b = -7;
  apply<<<2, 32>>>([=] __device__(int i) { return static_cast<int>(a * i + b); }, out, 64);
  int got[64];
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i)
    if (got[i] != 3 * i - 7) return false;
  return true;
}

// ---- printf and malloc ----
__global__ void talk(int n) {
  if (threadIdx.x < n)
    printf("thread %d of %s: %.2f %c %lld%%\n", threadIdx.x, "two", 0.5 * threadIdx.x, 'x', 1LL << 40);
}
static bool prints() {
  std::fflush(stdout);
  talk<<<1, 32>>>(2);
  CHECK(cudaDeviceSynchronize());
  std::fflush(stdout);
  return true;
}
struct Node {
  Node* next;
  int value;
};
__global__ void build_list(int n, int* sum) {
  Node* head = nullptr;
  for (int i = 0; i < n; ++i) {
    Node* node = static_cast<Node*>(malloc(sizeof(Node)));
    if (node == nullptr) {
      *sum = -1;
      return;
    }
    *node = {head, i};
    head = node;
  }
  int total = 0;
  while (head != nullptr) {
    Node* next = head->next;
    total += head->value;
    free(head);
    head = next;
  }
  *sum = total;
}
__global__ void too_much(int* is_null) {
  *is_null = malloc(size_t{1} << 40) == nullptr;
}
static bool mallocs() {
  int* out = on_device<int>(nullptr, 1);
  int got = 0;
  build_list<<<1, 1>>>(100, out);
  CHECK(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
  if (got != 4950) return false;
  too_much<<<1, 1>>>(out);
  CHECK(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
  return got == 1;
}

// ---- cooperative grids ----
__global__ void neighbours(int* values, int* out) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  const int i = static_cast<int>(grid.thread_rank()), n = static_cast<int>(grid.size());
  values[i] = i;
  grid.sync();
  out[i] = values[(i + n / 2) % n];
}
static bool cooperative() {
  constexpr int kThreads = 4 * 64;
  int *values = on_device<int>(nullptr, kThreads), *out = on_device<int>(nullptr, kThreads);
  void* args[] = {&values, &out};
  CHECK(cudaLaunchCooperativeKernel(neighbours, 4, 64, args));
  int got[kThreads];
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kThreads; ++i)
    if (got[i] != (i + kThreads / 2) % kThreads) return false;
  if (cudaLaunchCooperativeKernel(neighbours, 1'000'000, 1024, args) != cudaErrorCooperativeLaunchTooLarge)
    return false;
  return cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge;
}

// ---- what a launch is refused for, and what is known of kernels ----
__global__ void __launch_bounds__(128) bounded(int* out) {
  out[threadIdx.x] = 1;
}
static bool refusals() {
  int* out = on_device<int>(nullptr, 2048);
  bounded<<<0, 1>>>(out);
  if (cudaGetLastError() != cudaErrorInvalidConfiguration) return false;
  bounded<<<1, 1025>>>(out);
  if (cudaGetLastError() != cudaErrorInvalidConfiguration) return false;
  bounded<<<dim3(1, 65536), 1>>>(out);
  if (cudaGetLastError() != cudaErrorInvalidConfiguration) return false;
  bounded<<<1, 256>>>(out);
  if (cudaGetLastError() != cudaErrorLaunchOutOfResources) return false;
  if (cudaLaunchKernel(reinterpret_cast<const void*>(&check), 1, 1, nullptr) !=
      cudaErrorInvalidDeviceFunction)
    return false;
  (void)cudaGetLastError();
  bounded<<<1, 128>>>(out);
  CHECK(cudaDeviceSynchronize());
  return true;
}
static bool attributes() {
  cudaFuncAttributes a;
  CHECK(cudaFuncGetAttributes(&a, bounded));
  if (a.maxThreadsPerBlock != 128 || a.sharedSizeBytes != 0 || a.maxDynamicSharedSizeBytes != 49152)
    return false;
  CHECK(cudaFuncGetAttributes(&a, reverse));
  if (a.sharedSizeBytes != 4 || a.numRegs <= 0 || a.ptxVersion < 75 || a.binaryVersion < 75) return false;
  CHECK(cudaFuncSetCacheConfig(reverse, cudaFuncCachePreferL1));
  const char* name = nullptr;
  CHECK(cudaFuncGetName(&name, reinterpret_cast<const void*>(reverse)));
  int blocks = 0, grid = 0, block = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 128, 0));
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded));
  cudaFunction_t function = nullptr;
  CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(bounded)));
  return std::strcmp(name, "_Z7reversePii") == 0 && blocks > 0 && blocks <= 32 && block == 128 && grid > 0 &&
         function != nullptr;
}
static bool configured() {
  int host[4] = {1, 2, 3, 4};
  int* device = on_device(host, 4);
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 4;
  config.dynamicSmemBytes = sizeof host;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, reverse, device, 4));
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  return host[0] == 1004 && host[3] == 1001;
}

// ---- faults ----
__global__ void asserts(int n) {
  assert(threadIdx.x < n);
}
__global__ void traps() {
  __trap();
}
__global__ void writes_to(int* address) {
  *address = 1;
}

static void fault(const char* name) {
  int* memory = on_device<int>(nullptr, 4);
  if (std::strcmp(name, "assert") == 0) asserts<<<1, 2>>>(1);
  if (std::strcmp(name, "trap") == 0) traps<<<1, 1>>>();
  if (std::strcmp(name, "illegal") == 0) writes_to<<<1, 1>>>(nullptr);
  if (std::strcmp(name, "host") == 0) writes_to<<<1, 1>>>(static_cast<int*>(std::malloc(4)));
  if (std::strcmp(name, "misaligned") == 0)
    writes_to<<<1, 1>>>(reinterpret_cast<int*>(reinterpret_cast<char*>(memory) + 2));
  std::printf("launch: %s\n", cudaGetErrorName(cudaGetLastError()));
  std::printf("synchronize: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  std::printf("free: %s\n", cudaGetErrorName(cudaFree(memory)));
}

struct Piece {
  const char* name;
  bool (*run)();
};

int main(int argc, char** argv) {
  constexpr Piece kPieces[] = {{"templates", templates},  {"structs", structs},
                               {"constants", constants},  {"device globals", device_globals},
                               {"managed", managed},      {"dynamic shared", dynamic_shared},
                               {"lambdas", lambdas},      {"prints", prints},
                               {"mallocs", mallocs},      {"cooperative", cooperative},
                               {"refusals", refusals},    {"attributes", attributes},
                               {"configured", configured}};
  bool all = true, known = false;
  for (const Piece& piece : kPieces) {
    if (argc > 1 && std::strcmp(argv[1], piece.name) != 0) continue;
    known = true;
    const bool right = piece.run();
    std::printf("%s: %s\n", piece.name, right ? "right" : "WRONG");
    all = all && right;
  }
  if (!known) fault(argv[1]);
  return all ? 0 : 1;
}
