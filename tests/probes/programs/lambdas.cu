// Extended lambdas, templates, constexpr tables and tuples in kernels.
#include "check.h"

#include <array>
#include <cstdint>
#include <tuple>
template <class F>
__global__ void forEach(int n, F f) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) f(i);
}
template <class F>
void par(int n, F f) {
  forEach<<<(n + 127) / 128, 128>>>(n, f);
  MUST(cudaGetLastError());
}
template <class... Ts>
struct Tup;
template <>
struct Tup<> {};
template <class H, class... R>
struct Tup<H, R...> {
  H h;
  Tup<R...> r;
};
template <int I, class H, class... R>
__host__ __device__ auto& get(Tup<H, R...>& t) {
  if constexpr (I == 0)
    return t.h;
  else
    return get<I - 1>(t.r);
}
template <class... A>
__host__ __device__ constexpr auto sumAll(A... a) {
  return (a + ... + 0);
}
template <class F, class... A>
__global__ void apply(int n, F f, A... a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) f(i, a[i]...);
}
__host__ __device__ constexpr int factorial(int n) {
  return n <= 1 ? 1 : n * factorial(n - 1);
}
struct Table {
  unsigned v[256];
  constexpr Table() : v() {
    for (unsigned i = 0; i < 256; i++) {
      unsigned c = i;
      for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      v[i] = c;
    }
  }
};
__constant__ Table crcTable = Table();
__constant__ float coef[4][4];
__constant__ struct {
  int a;
  double b;
  short c[3];
} cs;
__device__ double dglob = 2.5;
__device__ int darr[64] = {1, 2, 3};
__device__ volatile int counter;
__device__ float4 vglob = {1, 2, 3, 4};
static __device__ int statics = 17;
namespace ns {
__device__ long long inside = -9;
}
__device__ char text[32] = "hello device";
__device__ int* dptr = &darr[2];
__device__ const char* msg = "message";
__managed__ int mcount = 5;
__managed__ struct {
  float f[100];
  int n;
} mstruct;
__managed__ unsigned char mbytes[3] = {7, 8, 9};
__global__ void crc(const unsigned char* d, int per, unsigned* o) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned c = ~0u;
  for (int i = 0; i < per; i++) c = crcTable.v[(c ^ d[t * per + i]) & 255] ^ (c >> 8);
  o[t] = ~c;
}
__global__ void useGlobals(double* o) {
  int t = threadIdx.x;
  darr[t] += t;
  if (t == 0) {
    o[0] = dglob;
    o[1] = cs.a + cs.b + cs.c[2];
    o[2] = vglob.x + vglob.w;
    o[3] = statics;
    o[4] = (double)ns::inside;
    dglob = 99.25;
    ns::inside = 1ll << 40;
    o[5] = *dptr;
    int k = 0;
    while (msg[k]) k++;
    o[6] = k;
    text[0] = 'J';
    o[7] = coef[2][1];
    o[8] = factorial(10);
  }
  atomicAdd(&mcount, 1);
  if (t < 100) mstruct.f[t] = mstruct.n * t;
  if (t < 3) mbytes[t]++;
}
template <class T>
__device__ T tvar = T(3);
__global__ void useT(double* o) {
  o[0] = tvar<int> + tvar<double> * 10;
  tvar<int> = 50;
}
struct A5 {
  int v[5];
};
struct Cap {
  int w[6];
  double q;
};
int main() {
  const int n = 5000;
  float *x, *y;
  MUST(cudaMallocManaged(&x, n * 4));
  MUST(cudaMallocManaged(&y, n * 4));
  for (int i = 0; i < n; i++) {
    x[i] = i;
    y[i] = -i;
  }
  float a = 2.5f;
  Cap cap = {{1, 2, 3, 4, 5, 6}, .25};
  A5 arr5{{9, 8, 7, 6, 5}};
  auto& arr = arr5.v;
  par(n, [=] __device__(int i) { y[i] += a * x[i] + cap.w[i % 6] + (float)cap.q + arr5.v[i % 5]; });
  MUST(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++)
    if (y[i] != -i + (2.5f * i + cap.w[i % 6] + .25f + arr[i % 5])) {
      HOLDS(0, "lambda %d %g", i, y[i]);
      break;
    }
  float kk = 3;
  auto hd = [=] __host__ __device__(float x) { return x * kk + 1; };
  par(n, [=] __device__(int i) mutable { x[i] = hd(x[i]); });
  MUST(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++)
    if (x[i] != hd((float)i)) {
      HOLDS(0, "nested lambda %d", i);
      break;
    }
  Tup<int, double, short, float4> tp{1, {2.5, {3, {make_float4(4, 5, 6, 7), {}}}}};
  double* o;
  MUST(cudaMallocManaged(&o, 800));
  par(1, [=] __device__(int) mutable {
    get<0>(tp) += 10;
    get<3>(tp).z *= 2;
    o[0] = get<0>(tp) + get<1>(tp) + get<2>(tp) + get<3>(tp).z + sumAll(1, 2.5, 3ll, 'a');
  });
  MUST(cudaDeviceSynchronize());
  HOLDS(o[0] == 11 + 2.5 + 3 + 12 + 6.5 + 97, "tuple %g", o[0]);
  std::tuple<int, float> st{4, .5f};
  par(1, [=] __device__(int) { o[1] = sizeof(st); });
  int* iv;
  unsigned char* uc;
  long long* ll;
  MUST(cudaMallocManaged(&iv, n * 4));
  MUST(cudaMallocManaged(&uc, n));
  MUST(cudaMallocManaged(&ll, n * 8));
  MUST(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++) {
    iv[i] = i - 100;
    uc[i] = i;
  }
  apply<<<40, 128>>>(
      n,
      [] __device__(int i, int v, unsigned char c, long long& r, float f) {
        r = (long long)v * c + (long long)f + i;
      },
      iv, uc, ll, x);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++)
    if (ll[i] != (long long)(i - 100) * (unsigned char)i + (long long)x[i] + i) {
      HOLDS(0, "variadic %d %lld", i, ll[i]);
      break;
    }
  // crc
  std::vector<unsigned char> d(64 * 50);
  for (size_t i = 0; i < d.size(); i++) d[i] = i * 31 + (i >> 5);
  memcpy(d.data(), "123456789", 9);
  unsigned char* dd;
  unsigned* dc;
  MUST(cudaMalloc(&dd, d.size()));
  MUST(cudaMalloc(&dc, 256));
  MUST(cudaMemcpy(dd, d.data(), d.size(), cudaMemcpyHostToDevice));
  crc<<<2, 32>>>(dd, 50, dc);
  MUST(cudaGetLastError());
  unsigned hc[64];
  MUST(cudaMemcpy(hc, dc, 256, cudaMemcpyDeviceToHost));
  constexpr Table T;
  for (int t = 0; t < 64; t++) {
    unsigned c = ~0u;
    for (int i = 0; i < 50; i++) c = T.v[(c ^ d[t * 50 + i]) & 255] ^ (c >> 8);
    HOLDS(hc[t] == ~c, "crc %d %x %x", t, hc[t], ~c);
    if (failures) break;
  }
  crc<<<1, 1>>>(dd, 9, dc);
  MUST(cudaMemcpy(hc, dc, 4, cudaMemcpyDeviceToHost));
  HOLDS(hc[0] == 0xCBF43926, "crc check %x", hc[0]);
  // symbols
  float cf[16];
  for (int i = 0; i < 16; i++) cf[i] = i * .5f;
  MUST(cudaMemcpyToSymbol(coef, cf, sizeof cf));
  float nine = 123;
  MUST(cudaMemcpyToSymbol(coef, &nine, 4, 9 * 4));
  struct {
    int a;
    double b;
    short c[3];
  } hcs = {3, 4.5, {1, 2, 30}};
  static_assert(sizeof hcs == sizeof cs, "");
  MUST(cudaMemcpyToSymbol(cs, &hcs, sizeof hcs));
  size_t sz;
  MUST(cudaGetSymbolSize(&sz, darr));
  HOLDS(sz == 256, "size %zu", sz);
  MUST(cudaGetSymbolSize(&sz, crcTable));
  HOLDS(sz == 1024, "size %zu", sz);
  void* sp;
  MUST(cudaGetSymbolAddress(&sp, darr));
  int hd5 = 500;
  MUST(cudaMemcpy((int*)sp + 5, &hd5, 4, cudaMemcpyHostToDevice));
  mstruct.n = 3;
  useGlobals<<<1, 64>>>(o);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  HOLDS(o[0] == 2.5 && o[1] == 37.5 && o[2] == 5 && o[3] == 17 && o[4] == -9, "globals %g %g %g %g %g", o[0],
        o[1], o[2], o[3], o[4]);
  HOLDS((o[5] == 3 || o[5] == 5) && o[6] == 7 && o[7] == 123 && o[8] == 3628800, "globals2 %g %g %g %g", o[5],
        o[6], o[7], o[8]);
  double dg;
  MUST(cudaMemcpyFromSymbol(&dg, dglob, 8));
  HOLDS(dg == 99.25, "dglob");
  long long li;
  MUST(cudaMemcpyFromSymbol(&li, ns::inside, 8));
  HOLDS(li == 1ll << 40, "ns");
  int ha[64];
  MUST(cudaMemcpyFromSymbol(ha, darr, 256));
  for (int i = 0; i < 64; i++)
    HOLDS(ha[i] == i + (i == 0 ? 1 : i == 1 ? 2 : i == 2 ? 3 : i == 5 ? 500 : 0), "darr %d %d", i, ha[i]);
  char tx[5];
  MUST(cudaMemcpyFromSymbol(tx, text, 4, 0));
  HOLDS(!memcmp(tx, "Jell", 4), "text");
  HOLDS(mcount == 69, "managed %d", mcount);
  for (int i = 0; i < 64; i++) HOLDS(mstruct.f[i] == 3 * i, "mstruct");
  HOLDS(mbytes[0] == 8 && mbytes[2] == 10, "mbytes");
  mcount = 1000;
  useGlobals<<<1, 64>>>(o);
  MUST(cudaDeviceSynchronize());
  HOLDS(mcount == 1064, "managed 2 %d", mcount);
  useT<<<1, 1>>>(o);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  HOLDS(o[0] == 33, "tvar %g", o[0]);
  int tv;
  MUST(cudaMemcpyFromSymbol(&tv, tvar<int>, 4));
  HOLDS(tv == 50, "tvar<int> %d", tv);
  ANSWERS(cudaMemcpyToSymbol(darr, ha, 260), cudaErrorInvalidValue);
  int notsym;
  ANSWERS(cudaMemcpyToSymbol(&notsym, ha, 4), cudaErrorInvalidSymbol);
  ANSWERS(cudaGetSymbolAddress(&sp, &notsym), cudaErrorInvalidSymbol);
  cudaGetLastError();
  cudaPointerAttributes pa;
  MUST(cudaPointerGetAttributes(&pa, &mcount));
  HOLDS(pa.type == cudaMemoryTypeManaged, "managed type %d", pa.type);
  MUST(cudaPointerGetAttributes(&pa, x));
  HOLDS(pa.type == cudaMemoryTypeManaged, "managed type %d", pa.type);
  // each GPU has a copy of its own
  int G;
  MUST(cudaGetDeviceCount(&G));
  if (G > 1) {
    MUST(cudaSetDevice(1));
    MUST(cudaMemcpyFromSymbol(&dg, dglob, 8));
    HOLDS(dg == 2.5, "dglob on device 1: %g", dg);
    void* sp1;
    MUST(cudaGetSymbolAddress(&sp1, dglob));
    MUST(cudaSetDevice(0));
    MUST(cudaGetSymbolAddress(&sp, dglob));
    HOLDS(sp != sp1, "own copies");
    MUST(cudaMemcpyFromSymbol(&dg, dglob, 8));
    HOLDS(dg == 99.25, "dglob on 0");
    mcount = 1;
    MUST(cudaSetDevice(1));
    useGlobals<<<1, 32>>>(o);
    MUST(cudaGetLastError());
    MUST(cudaDeviceSynchronize());
    HOLDS(mcount == 33, "managed is shared %d", mcount);
    MUST(cudaSetDevice(0));
  }
  return verdict();
}
