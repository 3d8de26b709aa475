// Pinned, mapped, managed, pitched and three-dimensional memory, and copies among all of them.
#include "check.h"

#include <set>
#define TRY(x)                                                               \
  [&] {                                                                      \
    cudaError_t r_ = (x);                                                    \
    if (r_) {                                                                \
      failures++;                                                            \
      printf("FAIL line %d %s -> %s\n", __LINE__, #x, cudaGetErrorName(r_)); \
      cudaGetLastError();                                                    \
    }                                                                        \
    return r_ == cudaSuccess;                                                \
  }()
__global__ void add(int* p, int n, int v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += v;
}
struct Node {
  int v;
  Node* next;
};
__global__ void walk(Node* h, long long* sum) {
  long long s = 0;
  for (Node* p = h; p; p = p->next) {
    s += p->v;
    p->v *= 2;
  }
  *sum = s;
}
__managed__ int mg[100];
__device__ int dv[16];
__global__ void usemg(int* d) {
  int i = threadIdx.x;
  if (i < 100) {
    mg[i] += i;
    d[i] = mg[i];
  }
}
int main() {
  cudaDeviceProp pr;
  MUST(cudaGetDeviceProperties(&pr, 0));
  printf("managed %d concurrent %d canMap %d unified %d pools %d\n", pr.managedMemory,
         pr.concurrentManagedAccess, pr.canMapHostMemory, pr.unifiedAddressing, pr.memoryPoolsSupported);
  // managed
  int* m;
  if (TRY(cudaMallocManaged(&m, 4000))) {
    for (int i = 0; i < 1000; i++) m[i] = i;
    add<<<8, 128>>>(m, 1000, 5);
    MUST_RUN();
    for (int i = 0; i < 1000; i++) HOLDS(m[i] == i + 5, "managed %d", i);
    cudaPointerAttributes a;
    MUST(cudaPointerGetAttributes(&a, m + 10));
    HOLDS(a.type == cudaMemoryTypeManaged && a.devicePointer == m + 10 && a.hostPointer == m + 10,
          "attributes %d", a.type);
    cudaMemLocation loc{cudaMemLocationTypeDevice, 0};
    TRY(cudaMemPrefetchAsync(m, 4000, loc, 0, 0));
    TRY(cudaMemAdvise(m, 4000, cudaMemAdviseSetReadMostly, loc));
    MUST(cudaDeviceSynchronize());
    int rm = -1;
    TRY(cudaMemRangeGetAttribute(&rm, 4, cudaMemRangeAttributeReadMostly, m, 4000));
    HOLDS(rm == 1, "read mostly %d", rm);
    MUST(cudaMemset(m, 0, 400));
    MUST(cudaDeviceSynchronize());
    HOLDS(m[99] == 0 && m[100] == 105, "memset managed");
    REFUSES(cudaMallocManaged(&m, 0), cudaErrorInvalidValue);
  }
  Node* nodes;
  if (TRY(cudaMallocManaged(&nodes, 50 * sizeof(Node)))) {
    for (int i = 0; i < 50; i++)
      nodes[i] = {i, i < 49 ? &nodes[(i * 7 + 1) % 50 == 0 ? i + 1 : i + 1] : nullptr};
    long long* s;
    MUST(cudaMallocManaged(&s, 8));
    walk<<<1, 1>>>(nodes, s);
    MUST_RUN();
    HOLDS(*s == 49 * 25 && nodes[7].v == 14, "list %lld", *s);
    MUST(cudaFree(s));
    MUST(cudaFree(nodes));
  }
  for (int i = 0; i < 100; i++) mg[i] = 1000;
  int* d;
  MUST(cudaMalloc(&d, 4000));
  usemg<<<1, 128>>>(d);
  MUST_RUN();
  HOLDS(mg[42] == 1042, "__managed__ %d", mg[42]);
  int h[100];
  MUST(cudaMemcpy(h, d, 400, cudaMemcpyDefault));
  HOLDS(h[99] == 1099, "%d", h[99]);
  // mapped pinned
  int *hp, *dp;
  MUST(cudaHostAlloc(&hp, 4096, cudaHostAllocMapped | cudaHostAllocPortable));
  for (int i = 0; i < 1024; i++) hp[i] = -i;
  MUST(cudaHostGetDevicePointer(&dp, hp, 0));
  add<<<8, 128>>>(dp, 1024, 3);
  MUST_RUN();
  HOLDS(hp[1000] == -997 && hp[0] == 3, "mapped %d", hp[1000]);
  unsigned fl;
  MUST(cudaHostGetFlags(&fl, hp));
  HOLDS((fl & cudaHostAllocMapped) && (fl & cudaHostAllocPortable), "flags %x", fl);
  cudaPointerAttributes a;
  MUST(cudaPointerGetAttributes(&a, hp));
  HOLDS(a.type == cudaMemoryTypeHost && a.hostPointer == hp && a.devicePointer == dp, "host attr %d", a.type);
  std::vector<int> pg(3000, 1);
  MUST(cudaPointerGetAttributes(&a, pg.data()));
  HOLDS(a.type == cudaMemoryTypeUnregistered && a.devicePointer == nullptr, "unregistered %d", a.type);
  MUST(cudaHostRegister(pg.data(), 12000, cudaHostRegisterMapped));
  MUST(cudaHostGetDevicePointer(&dp, pg.data(), 0));
  add<<<24, 128>>>(dp, 3000, 41);
  MUST_RUN();
  HOLDS(pg[2999] == 42, "registered %d", pg[2999]);
  REFUSES(cudaHostRegister(pg.data(), 12000, 0), cudaErrorHostMemoryAlreadyRegistered);
  MUST(cudaHostUnregister(pg.data()));
  REFUSES(cudaHostUnregister(pg.data()), cudaErrorHostMemoryNotRegistered);
  MUST(cudaSetDevice(2));
  int* d2;
  MUST(cudaMalloc(&d2, 64));
  MUST(cudaSetDevice(0));
  MUST(cudaPointerGetAttributes(&a, d2));
  HOLDS(a.type == cudaMemoryTypeDevice && a.device == 2 && a.devicePointer == d2 && a.hostPointer == nullptr,
        "device attr %d", a.device);
  // stream-ordered
  cudaStream_t s;
  MUST(cudaStreamCreate(&s));
  int* ap = 0;
  if (pr.memoryPoolsSupported && TRY(cudaMallocAsync(&ap, 4000, s))) {
    MUST(cudaMemsetAsync(ap, 0, 4000, s));
    add<<<8, 128, 0, s>>>(ap, 1000, 9);
    MUST(cudaMemcpyAsync(h, ap, 400, cudaMemcpyDeviceToHost, s));
    MUST(cudaFreeAsync(ap, s));
    MUST(cudaStreamSynchronize(s));
    HOLDS(h[50] == 9, "async %d", h[50]);
  }
  // memory info, out of memory
  size_t f0, t0, f1, t1;
  MUST(cudaMemGetInfo(&f0, &t0));
  char* big;
  MUST(cudaMalloc(&big, 512 << 20));
  MUST(cudaMemGetInfo(&f1, &t1));
  HOLDS(t0 == t1 && f0 - f1 >= (512u << 20) && f0 - f1 < (600u << 20), "%zu -> %zu", f0, f1);
  MUST(cudaFree(big));
  MUST(cudaMemGetInfo(&f1, &t1));
  HOLDS(f1 == f0, "after free %zu %zu", f0, f1);
  std::vector<void*> v;
  void* p;
  cudaError_t e;
  while (!(e = cudaMalloc(&p, (size_t)1 << 30))) {
    v.push_back(p);
    if (v.size() > 500) break;
  }
  HOLDS(e == cudaErrorMemoryAllocation, "%s", cudaGetErrorName(e));
  cudaGetLastError();
  HOLDS(v.size() == f1 >> 30 || v.size() + 1 == f1 >> 30, "%zu GiB of %zu", v.size(), f1 >> 30);
  add<<<1, 32>>>(d, 32, 1);
  MUST_RUN();
  std::set<void*> u(v.begin(), v.end());
  HOLDS(u.size() == v.size(), "distinct");
  for (void* q : v) MUST(cudaFree(q));
  REFUSES(cudaFree(v[0]), cudaErrorInvalidValue);
  MUST(cudaMemGetInfo(&f1, &t1));
  // Managed memory may have made room, and nothing says when it comes back.
  HOLDS(f1 >= f0 && f1 - f0 <= (8 << 20), "all free again: %zu, before %zu", f1, f0);
  // 2D / 3D
  size_t pitch;
  char* p2;
  MUST(cudaMallocPitch(&p2, &pitch, 100, 20));
  HOLDS(pitch >= 100 && pitch % 32 == 0, "pitch %zu", pitch);
  MUST(cudaMemset2D(p2, pitch, 7, 100, 20));
  MUST(cudaMemset2D(p2 + 10, pitch, 9, 5, 20));
  std::vector<char> b(100 * 20);
  MUST(cudaMemcpy2D(b.data(), 100, p2, pitch, 100, 20, cudaMemcpyDeviceToHost));
  HOLDS(b[19 * 100 + 9] == 7 && b[19 * 100 + 10] == 9 && b[14] == 9 && b[15] == 7, "2D");
  MUST(cudaMemset2DAsync(p2, pitch, 1, 1, 20, s));
  MUST(cudaMemcpy2DAsync(b.data(), 100, p2, pitch, 100, 20, cudaMemcpyDeviceToHost, s));
  MUST(cudaStreamSynchronize(s));
  HOLDS(b[500] == 1 && b[501] == 7, "2D async");
  cudaPitchedPtr pp;
  cudaExtent ex = make_cudaExtent(40, 6, 5);
  MUST(cudaMalloc3D(&pp, ex));
  HOLDS(pp.xsize == 40 && pp.ysize == 6 && pp.pitch >= 40, "3D");
  MUST(cudaMemset3D(pp, 0x11, ex));
  MUST(cudaMemset3D(pp, 0x22, make_cudaExtent(8, 2, 3)));
  std::vector<unsigned char> c(40 * 6 * 5);
  cudaMemcpy3DParms cp = {};
  cp.srcPtr = pp;
  cp.dstPtr = make_cudaPitchedPtr(c.data(), 40, 40, 6);
  cp.extent = ex;
  cp.kind = cudaMemcpyDeviceToHost;
  MUST(cudaMemcpy3D(&cp));
  for (int z = 0; z < 5; z++)
    for (int y = 0; y < 6; y++)
      for (int x = 0; x < 40; x++)
        HOLDS(c[(z * 6 + y) * 40 + x] == (x < 8 && y < 2 && z < 3 ? 0x22 : 0x11), "3D %d %d %d", x, y, z);
  cudaPitchedPtr pq;
  MUST(cudaMalloc3D(&pq, ex));
  MUST(cudaMemset3DAsync(pq, 0x33, ex, s));
  cp = {};
  cp.srcPtr = pp;
  cp.srcPos = make_cudaPos(2, 1, 1);
  cp.dstPtr = pq;
  cp.dstPos = make_cudaPos(30, 3, 0);
  cp.extent = make_cudaExtent(10, 3, 4);
  cp.kind = cudaMemcpyDeviceToDevice;
  MUST(cudaMemcpy3DAsync(&cp, s));
  cp = {};
  cp.srcPtr = pq;
  cp.dstPtr = make_cudaPitchedPtr(c.data(), 40, 40, 6);
  cp.extent = ex;
  cp.kind = cudaMemcpyDeviceToHost;
  MUST(cudaMemcpy3DAsync(&cp, s));
  MUST(cudaStreamSynchronize(s));
  for (int z = 0; z < 5; z++)
    for (int y = 0; y < 6; y++)
      for (int x = 0; x < 40; x++) {
        bool in = x >= 30 && y >= 3 && z < 4;
        int sx = x - 28, sy = y - 2, sz = z + 1;
        HOLDS(c[(z * 6 + y) * 40 + x] == (!in                          ? 0x33
                                          : sx < 8 && sy < 2 && sz < 3 ? 0x22
                                                                       : 0x11),
              "3D copy %d %d %d", x, y, z);
      }
  void* sa;
  size_t ss;
  MUST(cudaGetSymbolAddress(&sa, dv));
  MUST(cudaGetSymbolSize(&ss, dv));
  HOLDS(ss == 64, "%zu", ss);
  MUST(cudaMemset(sa, 0xff, 64));
  int hv[16];
  MUST(cudaMemcpyFromSymbolAsync(hv, dv, 60, 4, cudaMemcpyDeviceToHost, s));
  MUST(cudaStreamSynchronize(s));
  HOLDS(hv[14] == -1, "symbol");
  int can;
  MUST(cudaDeviceCanAccessPeer(&can, 0, 2));
  if (can) {
    MUST(cudaDeviceEnablePeerAccess(2, 0));
    REFUSES(cudaDeviceEnablePeerAccess(2, 0), cudaErrorPeerAccessAlreadyEnabled);
    MUST(cudaSetDevice(2));
    MUST(cudaMemset(d2, 0, 64));
    MUST(cudaDeviceSynchronize());
    MUST(cudaSetDevice(0));
    add<<<1, 16>>>(d2, 16, 6);
    MUST_RUN();
    MUST(cudaMemcpy(hv, d2, 64, cudaMemcpyDefault));
    HOLDS(hv[15] == 6, "peer");
    MUST(cudaDeviceDisablePeerAccess(2));
  }
  return verdict();
}
