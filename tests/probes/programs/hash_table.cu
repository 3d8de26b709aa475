// A hash table that all threads fill by compare-and-swap, an assertion that fails in a child, and a reset
// after it.
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cassert>
#include <cstdint>
typedef unsigned long long u64;
struct Slot {
  u64 key;
  unsigned val;
  unsigned cnt;
};
static const u64 EMPTY = ~0ull;
__host__ __device__ u64 mix(u64 k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccdull;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53ull;
  return k ^ k >> 33;
}
__device__ bool insert(Slot* t, unsigned cap, u64 k, unsigned v, unsigned* probes) {
  assert((cap & (cap - 1)) == 0);
  assert(k != EMPTY);
  unsigned i = mix(k) & (cap - 1);
  for (unsigned p = 0; p < cap; p++, i = (i + 1) & (cap - 1)) {
    u64 old = atomicCAS(&t[i].key, EMPTY, k);
    if (old == EMPTY || old == k) {
      atomicAdd(&t[i].cnt, 1u);
      atomicMax(&t[i].val, v);
      atomicAdd(probes, p);
      return true;
    }
  }
  return false;
}
__device__ const Slot* find(const Slot* t, unsigned cap, u64 k) {
  unsigned i = mix(k) & (cap - 1);
  for (unsigned p = 0; p < cap; p++, i = (i + 1) & (cap - 1)) {
    if (t[i].key == k) return &t[i];
    if (t[i].key == EMPTY) return nullptr;
  }
  return nullptr;
}
__global__ void init(Slot* t, unsigned cap) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < cap) t[i] = Slot{EMPTY, 0, 0};
}
__global__ void ins(Slot* t, unsigned cap, const u64* k, int n, unsigned* failed, unsigned* probes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && !insert(t, cap, k[i], i, probes)) atomicAdd(failed, 1u);
}
__global__ void look(const Slot* t, unsigned cap, const u64* k, int n, unsigned* cnt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Slot* s = find(t, cap, k[i]);
  assert(s == nullptr || s->key == k[i]);
  cnt[i] = s ? s->cnt : 0;
}
__global__ void broken(int x) {
  if (blockIdx.x == 1) assert(threadIdx.x + x < 40 && "x too large");
}
__global__ void fine(int* o) {
  *o = 1;
}
int child() {  // an assert fails: documented cudaErrorAssert, sticky
  int* d;
  MUST(cudaMalloc(&d, 4));
  broken<<<2, 32>>>(0);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  broken<<<2, 32>>>(10);
  MUST(cudaGetLastError());
  cudaError_t e = cudaDeviceSynchronize();
  HOLDS(e == cudaErrorAssert, "sync %s", cudaGetErrorName(e));
  ANSWERS(cudaPeekAtLastError(), cudaErrorAssert);
  ANSWERS(cudaGetLastError(), cudaErrorAssert);
  void* p;
  ANSWERS(cudaMalloc(&p, 16), cudaErrorAssert);
  int x;
  ANSWERS(cudaMemcpy(&x, d, 4, cudaMemcpyDeviceToHost), cudaErrorAssert);
  fine<<<1, 1>>>(d);
  ANSWERS(cudaGetLastError(), cudaErrorAssert);
  ANSWERS(cudaDeviceSynchronize(), cudaErrorAssert);
  cudaStream_t s;
  ANSWERS(cudaStreamCreate(&s), cudaErrorAssert);
  ANSWERS(cudaGetLastError(), cudaErrorAssert);
  int G;
  MUST(cudaGetDeviceCount(&G));
  if (G > 1) {
    MUST(cudaSetDevice(1));
    cudaGetLastError();
    int* q;
    MUST(cudaMalloc(&q, 4));
    fine<<<1, 1>>>(q);
    MUST(cudaMemcpy(&x, q, 4, cudaMemcpyDeviceToHost));
    HOLDS(x == 1, "device 1 lives on");
    MUST(cudaSetDevice(0));
  }
  MUST(cudaDeviceReset());
  cudaGetLastError();
  MUST(cudaMalloc(&d, 4));
  fine<<<1, 1>>>(d);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(&x, d, 4, cudaMemcpyDeviceToHost));
  HOLDS(x == 1, "after cudaDeviceReset");
  return failures;
}
int main(int argc, char** argv) {
  if (argc > 1) return child();
  const int n = 6000;
  const unsigned cap = 8192;
  std::vector<u64> k(n);
  std::vector<unsigned> want(n), got(n);
  u64 s = 88172645463325252ull;
  for (auto& x : k) {
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    x = s % 5000 * 0x100000001ull;
  }
  std::vector<u64> uniq(k);
  qsort(uniq.data(), n, 8,
        [](const void* a, const void* b) { return *(u64*)a < *(u64*)b ? -1 : *(u64*)a > *(u64*)b; });
  Slot* t;
  u64* dk;
  unsigned *st, *dc;
  MUST(cudaMalloc(&t, cap * sizeof(Slot)));
  MUST(cudaMalloc(&dk, n * 8));
  MUST(cudaMalloc(&st, 8));
  MUST(cudaMalloc(&dc, n * 4));
  MUST(cudaMemcpy(dk, k.data(), n * 8, cudaMemcpyHostToDevice));
  MUST(cudaMemset(st, 0, 8));
  init<<<cap / 256, 256>>>(t, cap);
  ins<<<(n + 127) / 128, 128>>>(t, cap, dk, n, st, st + 1);
  look<<<(n + 127) / 128, 128>>>(t, cap, dk, n, dc);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  MUST(cudaMemcpy(got.data(), dc, n * 4, cudaMemcpyDeviceToHost));
  unsigned hs[2];
  MUST(cudaMemcpy(hs, st, 8, cudaMemcpyDeviceToHost));
  HOLDS(hs[0] == 0, "failed %u", hs[0]);
  std::vector<Slot> ht(cap);
  MUST(cudaMemcpy(ht.data(), t, cap * sizeof(Slot), cudaMemcpyDeviceToHost));
  size_t used = 0, tot = 0;
  for (auto& x : ht)
    if (x.key != EMPTY) {
      used++;
      tot += x.cnt;
      HOLDS(k[x.val] == x.key, "val");
      for (int i = x.val + 1; i < n; i++)
        if (k[i] == x.key) {
          HOLDS(0, "max");
          break;
        }
    }
  HOLDS(tot == (size_t)n, "total %zu", tot);
  size_t u = 0;
  for (int i = 0; i < n; i++) u += i == 0 || uniq[i] != uniq[i - 1];
  HOLDS(used == u, "unique %zu %zu", used, u);
  for (int i = 0; i < n; i++) {
    auto* b = std::lower_bound(&uniq[0], &uniq[0] + n, k[i]);
    unsigned c = 0;
    while (b < &uniq[0] + n && *b == k[i]) b++, c++;
    if (c != got[i]) {
      HOLDS(0, "count %d", i);
      break;
    }
  }
  // failing child: its stderr must name the assert
  int pf[2];
  if (pipe(pf)) return 1;
  pid_t pid = fork();
  if (!pid) {
    dup2(pf[1], 2);
    dup2(pf[1], 1);
    close(pf[0]);
    close(pf[1]);
    execl("/proc/self/exe", argv[0], "child", (char*)0);
    _exit(99);
  }
  close(pf[1]);
  std::string out;
  char b[4096];
  ssize_t r;
  while ((r = read(pf[0], b, sizeof b)) > 0) out.append(b, r);
  int ws;
  waitpid(pid, &ws, 0);
  HOLDS(WIFEXITED(ws) && WEXITSTATUS(ws) == 0, "child status %x:\n%s", ws, out.c_str());
  int c = 0;
  size_t p = 0;
  while ((p = out.find("Assertion `", p)) != std::string::npos) c++, p++;
  HOLDS(c == 2, "assert messages (threads 30 and 31 of block 1): %d\n%s", c, out.c_str());
  HOLDS(out.find("hash_table.cu:63: ") != std::string::npos &&
            out.find("block: [1,0,0], thread: [30,0,0] Assertion `") != std::string::npos &&
            out.find("x too large") != std::string::npos,
        "message form:\n%s", out.c_str());
  return verdict();
}
