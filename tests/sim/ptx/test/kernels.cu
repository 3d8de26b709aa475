// Kernels as CUDA's users write them, for kernel_test.cpp, which runs them from what nvcc makes at -O3, with -G and with
// -use_fast_math.
#include <cooperative_groups.h>
#include <cuda_fp16.h>

#include <cassert>
#include <cstdint>
#include <cstdio>

namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void

// --- arrays ---------------------------------------------------------------------------------------------------------

KERNEL saxpy(float a, const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

KERNEL strided_double(const double* in, double* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i] * 0.5 + i;
}

KERNEL vectors(const float4* in, float4* out, const uchar4* bytes, int2* pairs, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 v = in[i];
  out[i] = make_float4(v.w, v.z, v.y, v.x);
  const uchar4 b = bytes[i];
  pairs[i] = make_int2(b.x + 256 * b.y, b.z - b.w);
}

KERNEL transpose(const int* in, int* out, int width, int height) {
  __shared__ int tile[16][17];
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
  __syncthreads();
  x = blockIdx.y * 16 + threadIdx.x;
  y = blockIdx.x * 16 + threadIdx.y;
  if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][threadIdx.y];
}

KERNEL matrix_mul(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][16];
  __shared__ float bs[16][16];
  const int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
  float sum = 0;
  for (int tile = 0; tile < n / 16; ++tile) {
    as[y][x] = a[row * n + tile * 16 + x];
    bs[y][x] = b[(tile * 16 + y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += as[y][k] * bs[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// --- reductions and scans -------------------------------------------------------------------------------------------

__device__ int warp_sum(int value) {
  for (int by = 16; by > 0; by /= 2) value += __shfl_down_sync(0xffffffffU, value, by);
  return value;
}

KERNEL block_sum(const int* in, int* out, int n) {
  __shared__ int part[32];
  int sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    sum = warp_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
  }
}

extern __shared__ int dynamic_ints[];
KERNEL scan_block(const int* in, int* out) {
  int* a = dynamic_ints;
  int* b = dynamic_ints + blockDim.x;
  const int t = threadIdx.x;
  a[t] = in[t];
  __syncthreads();
  for (int by = 1; by < blockDim.x; by *= 2) {
    b[t] = t >= by ? a[t] + a[t - by] : a[t];
    __syncthreads();
    int* swap = a;
    a = b;
    b = swap;
  }
  out[t] = a[t];
}

__device__ unsigned blocks_done;
__device__ int last_total;
KERNEL last_block(const int* in, volatile int* parts, int n) {
  __shared__ int shared_sum;
  __shared__ bool is_last;
  if (threadIdx.x == 0) shared_sum = 0;
  __syncthreads();
  int sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  atomicAdd(&shared_sum, sum);
  __syncthreads();
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = shared_sum;
    __threadfence();
    is_last = atomicInc(&blocks_done, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    int total = 0;
    for (int i = 0; i < gridDim.x; ++i) total += parts[i];
    last_total = total;
  }
}

// Each block waits for the one before it.
KERNEL look_back(const int* in, int* out, volatile int* sums, volatile int* flags) {
  __shared__ int before;
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < blockDim.x; ++i) sum += in[blockIdx.x * blockDim.x + i];
    if (blockIdx.x == 0) {
      before = 0;
    } else {
      while (flags[blockIdx.x - 1] == 0) {
      }
      __threadfence();
      before = sums[blockIdx.x - 1];
    }
    sums[blockIdx.x] = before + sum;
    __threadfence();
    flags[blockIdx.x] = 1;
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = before + in[blockIdx.x * blockDim.x + threadIdx.x];
}

// Block 0 waits for the last one: right only if all are live, as on a device with room for them.
KERNEL wait_for_last(volatile int* flag, int* out) {
  if (threadIdx.x == 0) {
    if (blockIdx.x == gridDim.x - 1) *flag = 7;
    while (*flag == 0) {
    }
    atomicAdd(out, *flag);
  }
}

// --- divergence -----------------------------------------------------------------------------------------------------

KERNEL collatz(const int* in, int* steps, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long value = in[i];
  int count = 0;
  while (value != 1) {
    if (value % 2 == 0) value /= 2;
    else value = 3 * value + 1;
    if (++count > 1000) {
      count = -1;
      break;
    }
  }
  steps[i] = count;
}

KERNEL choose(const int* what, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = i;
  switch (what[i]) {
    case 0: v = v * 3; break;
    case 1: v = v + 100; break;
    case 2: v = out[i] - v; break;
    case 3:
      for (int k = 0; k < i % 5; ++k) v += k * out[(i + k) % n];
      break;
    case 4: v = ~v; break;
    case 5: out[i] = 1; return;
    case 6: v ^= 0x55; // falls through
    case 7: v <<= 2; break;
    case 11: v = -v; break;
    default: v = -1;
  }
  out[i] = v;
}

KERNEL nested(int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = 0;
  for (int a = 0; a < i % 7; ++a) {
    for (int b = 0; b < a; ++b) {
      if ((a + b + i) % 3 == 0) continue;
      if (a * b > 12) break;
      sum += a * 10 + b;
    }
    if (sum > 90) goto done;
  }
  sum += 1000;
done:
  if (i < n) out[i] = sum;
}

// Threads of one warp take a lock in turn.
__device__ int lock;
KERNEL lock_by_thread(int* counter) {
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock, 0, 1) == 0) {
      *(volatile int*)counter = *(volatile int*)counter + 1;
      __threadfence();
      atomicExch(&lock, 0);
      done = true;
    }
  }
}
KERNEL spin_by_thread(int* counter) {
  while (atomicCAS(&lock, 0, 1) != 0) {
  }
  *(volatile int*)counter = *(volatile int*)counter + 1;
  __threadfence();
  atomicExch(&lock, 0);
}

// One warp waits for another of its block.
KERNEL producer_consumer(int* out) {
  __shared__ volatile int value;
  __shared__ volatile int ready;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    while (ready == 0) {
    }
    out[0] = value;
  } else if (threadIdx.x == 64) {
    value = 42;
    __threadfence_block();
    ready = 1;
  }
}

// --- functions ------------------------------------------------------------------------------------------------------

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
KERNEL recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 13); }

__device__ float twice(float x) { return 2 * x; }
__device__ float plus_one(float x) { return x + 1; }
__device__ float negated(float x) { return -x; }
typedef float (*Function)(float);
__device__ Function table[3] = {twice, plus_one, negated};
KERNEL pointers(float* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = table[i % 3](values[i]);
}

struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float s) : side(s) {}
  __device__ float area() const override { return side * side; }
};
struct Disc : Shape {
  float radius;
  __device__ explicit Disc(float r) : radius(r) {}
  __device__ float area() const override { return 3 * radius * radius; }
};
KERNEL virtuals(float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Shape* shape;
  if (i % 2 == 0) shape = new Square(i);
  else shape = new Disc(i);
  out[i] = shape->area();
  delete shape;
}

struct Big {
  int values[20];
  double scale;
  char name[5];
  short last;
};
KERNEL by_value(Big big, int* out, double* scaled) {
  out[threadIdx.x] = big.values[threadIdx.x % 20] + big.name[threadIdx.x % 5] + big.last;
  scaled[threadIdx.x] = big.values[(threadIdx.x + 1) % 20] * big.scale;
}
__device__ __noinline__ Big changed(Big big, int by) {
  for (int i = 0; i < 20; ++i) big.values[i] += by * i;
  big.scale /= 2;
  big.last = static_cast<short>(by);
  return big;
}
KERNEL structs(Big big, int* out, double* scaled) {
  const Big other = changed(big, threadIdx.x);
  out[threadIdx.x] = other.values[threadIdx.x % 20] + other.last;
  scaled[threadIdx.x] = other.scale;
}

KERNEL local_arrays(const int* in, int* out, int n) {
  int counts[8] = {};
  char text[16];
  for (int i = 0; i < n; ++i) counts[(in[i] + threadIdx.x) % 8] += i;
  for (int i = 0; i < 16; ++i) text[i] = static_cast<char>(in[i] + i);
  int sum = 0;
  for (int i = 0; i < 8; ++i) sum = sum * 31 + counts[(i * 3 + threadIdx.x) % 8];
  out[threadIdx.x] = sum + text[threadIdx.x % 16];
}

template <class F>
__global__ void apply(F f, float* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = f(values[i]);
}
struct Scale {
  float by;
  int add;
  __device__ float operator()(float x) const { return x * by + add; }
};
template __global__ void apply<Scale>(Scale, float*, int);

// --- variables ------------------------------------------------------------------------------------------------------

__constant__ float weights[4] = {1.0f, 0.5f, 0.25f, 0.125f};
__device__ int counter = 5;
__device__ int* counter_pointer = &counter;
__device__ const char* const words[3] = {"one", "two", "three"};
KERNEL variables(float* out, int* length) {
  out[threadIdx.x] = weights[threadIdx.x % 4];
  if (threadIdx.x == 0) *counter_pointer += 10;
  const char* word = words[threadIdx.x % 3];
  int n = 0;
  while (word[n] != 0) ++n;
  length[threadIdx.x] = n;
}

// --- warps ----------------------------------------------------------------------------------------------------------

KERNEL warp_functions(const int* in, int* out) {
  const int t = threadIdx.x, lane = t % 32;
  const int v = in[t];
  int* o = out + t * 12;
  o[0] = __shfl_sync(0xffffffffU, v, (lane + 5) % 32);
  o[1] = __shfl_up_sync(0xffffffffU, v, 3);
  o[2] = __shfl_down_sync(0xffffffffU, v, 4, 8);
  o[3] = __shfl_xor_sync(0xffffffffU, v, 1);
  o[4] = __ballot_sync(0xffffffffU, v % 3 == 0);
  o[5] = __any_sync(0xffffffffU, v == in[7]);
  o[6] = __all_sync(0xffffffffU, v >= 0);
  o[7] = __match_any_sync(0xffffffffU, v % 4);
  o[8] = static_cast<int>(__activemask());
  if (lane < 20) o[9] = __shfl_sync(0x000fffffU, v, 19 - lane);
  else o[9] = __popc(__ballot_sync(0xfff00000U, v % 2));
  __syncwarp();
  o[10] = __syncthreads_count(v % 5 == 0);
  o[11] = __syncthreads_or(v == in[3]) * 2 + __syncthreads_and(v > -1);
}

KERNEL groups(const int* in, int* out) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
  int sum = in[block.thread_rank()];
  for (int by = tile.size() / 2; by > 0; by /= 2) sum += tile.shfl_down(sum, by);
  int rank = -1;
  if (in[threadIdx.x] % 2 == 0) {
    cg::coalesced_group active = cg::coalesced_threads();
    rank = active.thread_rank() + 100 * active.size();
  }
  block.sync();
  out[threadIdx.x * 2] = tile.shfl(sum, 0);
  out[threadIdx.x * 2 + 1] = rank;
}

KERNEL whole_grid(int* data, int n, int rounds) {
  cg::grid_group grid = cg::this_grid();
  for (int round = 0; round < rounds; ++round) {
    for (int i = grid.thread_rank(); i < n; i += grid.size()) data[(round + 1) % 2 * n + i] = data[round % 2 * n + (i + 1) % n] + 1;
    grid.sync();
  }
}

// --- atomics --------------------------------------------------------------------------------------------------------

KERNEL atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&i[0], t);
  atomicSub(&i[1], 1);
  atomicMin(&i[2], -t);
  atomicMax(&i[3], t);
  atomicExch(&i[4], 9);
  atomicCAS(&i[5], 0, 77);
  atomicAnd(&u[0], ~(1U << t % 32));
  atomicOr(&u[1], 1U << t % 32);
  atomicXor(&u[2], 1U << t % 7);
  atomicInc(&u[3], 6);
  atomicDec(&u[4], 9);
  atomicMin(&u[5], 1000U - t);
  atomicAdd(&l[0], 0x100000000ULL + t);
  atomicMax(&l[1], 1ULL << t % 50);
  atomicCAS(&l[2], 0ULL, 0x123456789abcULL);
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  unsigned long long* word = &l[3];  // as programs did before there was an instruction
  unsigned long long old = *word, seen;
  do {
    seen = old;
    old = atomicCAS(word, seen, __double_as_longlong(__longlong_as_double(seen) + 1.0));
  } while (seen != old);
}

KERNEL histogram(const unsigned char* in, unsigned* out, int n) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i]], 1U);
  __syncthreads();
  atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

// --- arithmetic -----------------------------------------------------------------------------------------------------

KERNEL bits(const unsigned* in, unsigned* out) {
  const unsigned v = in[threadIdx.x], w = in[(threadIdx.x + 1) % blockDim.x];
  unsigned* o = out + threadIdx.x * 10;
  o[0] = __popc(v);
  o[1] = __clz(v);
  o[2] = __ffs(v);
  o[3] = __brev(v);
  o[4] = __byte_perm(v, w, 0x5140);
  o[5] = __funnelshift_l(v, w, v % 32);
  o[6] = __umulhi(v, w);
  o[7] = __popcll((static_cast<unsigned long long>(v) << 32) | w);
  o[8] = v / (w % 1000 + 1) + v % (w % 777 + 3);
  o[9] = static_cast<unsigned>(__mulhi(static_cast<int>(v), static_cast<int>(w))) + __dp4a(v, w, 5U);
}

KERNEL wide(const long long* in, long long* out) {
  const long long v = in[threadIdx.x], w = in[(threadIdx.x + 1) % blockDim.x];
  long long* o = out + threadIdx.x * 6;
  o[0] = v * w;
  o[1] = w != 0 ? v / w : 0;
  o[2] = w != 0 ? v % w : 0;
  o[3] = static_cast<long long>(static_cast<unsigned long long>(v) / 10);
  o[4] = __mul64hi(v, w);
  o[5] = (v >> 7) ^ (w << 3) ^ __ffsll(v);
}

KERNEL functions(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = in[i];
  float* o = out + i * 12;
  o[0] = sinf(x);
  o[1] = cosf(x);
  o[2] = expf(x / 8);
  o[3] = logf(fabsf(x) + 0.5f);
  o[4] = powf(fabsf(x) + 0.1f, 1.3f);
  o[5] = sqrtf(fabsf(x));
  o[6] = 1.0f / (x + 100.0f);
  o[7] = atan2f(x, 2.0f);
  o[8] = tanhf(x / 4);
  o[9] = fmodf(x, 3.0f);
  o[10] = floorf(x) + ceilf(x / 2) + rintf(x / 3) + truncf(x / 5);
  o[11] = erff(x / 4) + cbrtf(x);
}

KERNEL double_functions(const double* in, double* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double x = in[i];
  double* o = out + i * 8;
  o[0] = sin(x);
  o[1] = exp(x / 8);
  o[2] = log(fabs(x) + 0.5);
  o[3] = pow(fabs(x) + 0.1, 1.3);
  o[4] = sqrt(fabs(x)) / (x + 1000);
  o[5] = atan2(x, 2.0);
  o[6] = lgamma(fabs(x) + 0.7);
  o[7] = fmod(x, 0.3);
}

KERNEL halves(const float* in, float* out) {
  const __half a = __float2half(in[threadIdx.x]), b = __float2half(in[(threadIdx.x + 1) % blockDim.x]);
  float* o = out + threadIdx.x * 6;
  o[0] = __half2float(__hadd(a, b));
  o[1] = __half2float(__hmul(a, b));
  o[2] = __half2float(__hfma(a, b, a));
  o[3] = __hlt(a, b) ? 1.0f : 0.0f;
  const __half2 pair = __hadd2(__halves2half2(a, b), __halves2half2(b, b));
  o[4] = __low2float(pair) + __high2float(pair);
  o[5] = __int2half_rn(static_cast<int>(threadIdx.x) * 100) > a ? __half2int_rz(a) : -1;
}

// Philox 4x32-10.
KERNEL philox(unsigned seed, unsigned* out) {
  unsigned c[4] = {blockIdx.x * blockDim.x + threadIdx.x, 0, 0, 0};
  unsigned k0 = seed, k1 = 0xdeadbeef;
  for (int round = 0; round < 10; ++round) {
    const unsigned h0 = __umulhi(0xD2511F53U, c[0]), l0 = 0xD2511F53U * c[0];
    const unsigned h1 = __umulhi(0xCD9E8D57U, c[2]), l1 = 0xCD9E8D57U * c[2];
    c[0] = h1 ^ c[1] ^ k0;
    c[1] = l1;
    c[2] = h0 ^ c[3] ^ k1;
    c[3] = l0;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  for (int i = 0; i < 4; ++i) out[(blockIdx.x * blockDim.x + threadIdx.x) * 4 + i] = c[i];
}

// --- library calls --------------------------------------------------------------------------------------------------

KERNEL prints(int n) {
  if (threadIdx.x < n) printf("thread %u of %d: %5.2f %s %c %lld %#x %%\n", threadIdx.x, n, threadIdx.x * 1.5, "word", 'a' + threadIdx.x, -1234567890123LL, 255u);
}

struct Node {
  int value;
  Node* next;
};
KERNEL lists(int* out, int n) {
  Node* head = nullptr;
  for (int i = 0; i < n; ++i) {
    Node* node = static_cast<Node*>(malloc(sizeof(Node)));
    if (node == nullptr) return;
    node->value = i * threadIdx.x;
    node->next = head;
    head = node;
  }
  int sum = 0;
  while (head != nullptr) {
    sum += head->value;
    Node* next = head->next;
    free(head);
    head = next;
  }
  out[threadIdx.x] = sum;
}

KERNEL asserts(int n) { assert(threadIdx.x < n); }
KERNEL traps(int n) {
  if (threadIdx.x == n) __trap();
}
KERNEL clocks(long long* out) {
  const long long start = clock64();
  __nanosleep(100);
  out[threadIdx.x] = clock64() - start;
}
