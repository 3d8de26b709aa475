// printf, assert, malloc and new in kernels, and their limits.
#include "check.h"

#include <unistd.h>
#include <new>
__device__ const char* names[3] = {"alpha", "beta", "gamma"};
__global__ void pr() {
  printf("int %d %5d|%-5d|%05d %+d %i\n", -42, 42, 42, 42, 42, 7);
  printf("flt %5.2f %e %g %.3f %10.4f|%-8.1f|\n", 3.14159, 12345.678, 0.0001, 2.0f / 3.0f, -1.5, 2.25);
  printf("str %s [%10s] [%-6s] %.2s\n", names[1], "right", "left", "cutoff");
  printf("lng %lld %llu %ld %lu %llx %lx\n", -1234567890123ll, 18446744073709551615ull, -5l, 5ul,
         0xdeadbeefcafeull, 255l);
  printf("hex %x %X %#x %08x %o %u\n", 255, 255, 255, 0xabc, 8, 4000000000u);
  printf("chr %c%c%c 100%% done\n", 'a', 'b', 'c');
  printf("ptr %d\n", (int)(sizeof(void*)));
  printf("plain text\n");
  printf("hh %hhd %hd %a\n", (char)-3, (short)-300, 1.0);
  printf("star %*d|%-*d|%.*f\n", 6, 42, 6, 42, 2, 3.14159);
  printf("inf %f %f %g\n", 1.0 / 0.0 * 1, -1e308 * 10, nan(""));
  printf("many %d %d %d %d %d %d %d %d %d %d %d %d\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
}
__global__ void many(int* r) {
  int k = printf("T%d.%d\n", blockIdx.x, threadIdx.x);
  r[blockIdx.x * blockDim.x + threadIdx.x] = k;
  int z = printf("none%s", "");
  if (z != 1) r[0] = -100;
  if (printf("") != 0) r[1] = -200;
}
struct Node {
  int v;
  Node* next;
  __device__ Node(int v, Node* n) : v(v), next(n) {}
};
struct Stack {
  Node* head;
  int bad;
  unsigned long long sum;
};
__global__ void build(Node** lists, int len, int* nfail) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  Node* h = nullptr;
  for (int i = 0; i < len; i++) {
    Node* n = (Node*)malloc(sizeof(Node));
    if (!n) {
      atomicAdd(nfail, 1);
      break;
    }
    new (n) Node(t * 1000 + i, h);
    h = n;
  }
  lists[t] = h;
}
__global__ void sumAndFree(Node** lists, long long* out) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  long long s = 0;
  int prev = -1, bad = 0;
  for (Node* n = lists[t]; n;) {
    s += n->v;
    if (prev >= 0 && n->v != prev - 1) bad = 1;
    prev = n->v;
    Node* x = n->next;
    free(n);
    n = x;
  }
  out[t] = bad ? -1 : s;
}
struct Base {
  int id;
  __device__ Base(int i) : id(i) {}
  __device__ virtual int f(int x) const { return x + id; }
  __device__ virtual ~Base() {}
};
__device__ int destroyed;
struct Derived : Base {
  int* arr;
  int n;
  __device__ Derived(int i, int n) : Base(i), arr(new int[n]), n(n) {
    for (int k = 0; k < n; k++) arr[k] = k * i;
  }
  __device__ int f(int x) const override {
    int s = 0;
    for (int k = 0; k < n; k++) s += arr[k];
    return s + x;
  }
  __device__ ~Derived() {
    delete[] arr;
    atomicAdd(&destroyed, 1);
  }
};
__global__ void news(int* o) {
  int t = threadIdx.x;
  Base* b = t % 2 ? (Base*)new Derived(t, 5) : new Base(t);
  o[t] = b->f(100);
  delete b;
}
__global__ void exhaust(int* got) {
  void* p[64];
  int n = 0;
  for (; n < 64; n++) {
    p[n] = malloc(1 << 20);
    if (!p[n]) break;
    *(char*)p[n] = 1;
  }
  *got = n;
  for (int i = 0; i < n; i++) free(p[i]);
  void* q = malloc(1 << 20);
  if (!q) *got = -1;
  free(q);
  free(nullptr);
}
__global__ void shared_alloc(int* o) {
  __shared__ int* buf;
  if (threadIdx.x == 0) {
    buf = (int*)malloc(blockDim.x * sizeof(int));
    memset(buf, 0, blockDim.x * 4);
  }
  __syncthreads();
  if (!buf) return;
  buf[threadIdx.x] = threadIdx.x + blockIdx.x;
  __syncthreads();
  o[blockIdx.x * blockDim.x + threadIdx.x] = buf[blockDim.x - 1 - threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) free(buf);
}
static int saved;
static FILE* cap;
static void begin() {
  fflush(stdout);
  saved = dup(1);
  cap = tmpfile();
  dup2(fileno(cap), 1);
}
static std::string end() {
  fflush(stdout);
  dup2(saved, 1);
  close(saved);
  std::string s;
  rewind(cap);
  char b[4096];
  size_t n;
  while ((n = fread(b, 1, sizeof b, cap)) > 0) s.append(b, n);
  fclose(cap);
  return s;
}
int main() {
  size_t l;
  MUST(cudaDeviceGetLimit(&l, cudaLimitMallocHeapSize));
  HOLDS(l == 8 << 20, "default heap %zu", l);
  MUST(cudaDeviceGetLimit(&l, cudaLimitPrintfFifoSize));
  HOLDS(l >= 1 << 20, "fifo %zu", l);
  MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
  MUST(cudaDeviceGetLimit(&l, cudaLimitMallocHeapSize));
  HOLDS(l >= 16 << 20, "heap %zu", l);
  MUST(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  MUST(cudaDeviceGetLimit(&l, cudaLimitStackSize));
  HOLDS(l >= 4096, "stack %zu", l);
  begin();
  pr<<<1, 1>>>();
  cudaError_t e = cudaGetLastError(), f = cudaDeviceSynchronize();
  std::string s = end();
  MUST(e);
  MUST(f);
  char w[4096];
  int n = 0;
  n += sprintf(w + n, "int %d %5d|%-5d|%05d %+d %i\n", -42, 42, 42, 42, 42, 7);
  n += sprintf(w + n, "flt %5.2f %e %g %.3f %10.4f|%-8.1f|\n", 3.14159, 12345.678, 0.0001, 2.0f / 3.0f, -1.5,
               2.25);
  n += sprintf(w + n, "str beta [%10s] [%-6s] %.2s\n", "right", "left", "cutoff");
  n += sprintf(w + n, "lng %lld %llu %ld %lu %llx %lx\n", -1234567890123ll, 18446744073709551615ull, -5l, 5ul,
               0xdeadbeefcafeull, 255l);
  n += sprintf(w + n, "hex %x %X %#x %08x %o %u\n", 255, 255, 255, 0xabc, 8, 4000000000u);
  n += sprintf(w + n, "chr abc 100%% done\nptr 8\nplain text\nhh -3 -300 %a\n", 1.0);
  n += sprintf(w + n, "star %*d|%-*d|%.*f\n", 6, 42, 6, 42, 2, 3.14159);
  n += sprintf(w + n, "inf inf -inf nan\nmany 1 2 3 4 5 6 7 8 9 10 11 12\n");
  if (s != w) {
    HOLDS(0, "printf text:\n%s--- wanted:\n%s", s.c_str(), w);
  }
  int* r;
  MUST(cudaMalloc(&r, 4096));
  begin();
  many<<<3, 40>>>(r);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  s = end();
  int h[1024];
  MUST(cudaMemcpy(h, r, 480, cudaMemcpyDeviceToHost));
  HOLDS(h[0] == 2 && h[1] == 2 && h[119] == 2, "printf returns its argument count: %d %d %d", h[0], h[1],
        h[119]);
  int lines = 0, seen[3][40] = {};
  size_t p = 0;
  std::string t = s;
  while ((p = t.find("none")) != std::string::npos) t.erase(p, 4);
  p = 0;
  while (p < t.size()) {
    int a, b;
    if (sscanf(t.c_str() + p, "T%d.%d\n", &a, &b) == 2 && a < 3 && b < 40) seen[a][b]++, lines++;
    p = t.find('\n', p);
    if (p == std::string::npos) break;
    p++;
  }
  HOLDS(lines == 120, "%d lines", lines);
  for (auto& x : seen)
    for (int y : x) HOLDS(y == 1, "thread lines");
  const int T = 128, L = 20;
  Node** ls;
  long long* o;
  int* nf;
  MUST(cudaMalloc(&ls, T * 8));
  MUST(cudaMalloc(&o, T * 8));
  MUST(cudaMalloc(&nf, 4));
  MUST(cudaMemset(nf, 0, 4));
  build<<<4, 32>>>(ls, L, nf);
  sumAndFree<<<2, 64>>>(ls, o);
  MUST(cudaGetLastError());
  long long ho[T];
  MUST(cudaMemcpy(ho, o, sizeof ho, cudaMemcpyDeviceToHost));
  for (int i = 0; i < T; i++)
    if (ho[i] != i * 1000ll * L + L * (L - 1) / 2) {
      HOLDS(0, "list %d %lld", i, ho[i]);
      break;
    }
  news<<<1, 64>>>(r);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(h, r, 256, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; i++)
    if (h[i] != (i % 2 ? 100 + 10 * i : 100 + i)) {
      HOLDS(0, "new %d %d", i, h[i]);
      break;
    }
  int dn;
  MUST(cudaMemcpyFromSymbol(&dn, destroyed, 4));
  HOLDS(dn == 32, "destroyed %d", dn);
  exhaust<<<1, 1>>>(r);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(h, r, 4, cudaMemcpyDeviceToHost));
  HOLDS(h[0] >= 8 && h[0] <= 16, "1 MiB blocks out of a 16 MiB heap: %d", h[0]);
  shared_alloc<<<5, 64>>>(r);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(h, r, 1280, cudaMemcpyDeviceToHost));
  for (int b = 0; b < 5; b++)
    for (int i = 0; i < 64; i++)
      if (h[b * 64 + i] != 63 - i + b) {
        HOLDS(0, "shared_alloc");
        b = 9;
        break;
      }
  // heap limit can't be changed once a kernel that uses malloc has been loaded
  cudaError_t ch = cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 << 20);
  HOLDS(ch == cudaErrorInvalidValue, "heap size after use: %s", cudaGetErrorName(ch));
  cudaGetLastError();
  ANSWERS(cudaDeviceSetLimit((cudaLimit)99, 1), cudaErrorUnsupportedLimit);
  cudaGetLastError();
  return verdict();
}
