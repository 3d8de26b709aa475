// Structures, classes, recursion, pointers to functions and virtual calls in kernels.
#include "check.h"

#include <cstdint>
struct Inner {
  short a[3];
  double d;
  char tag[5];
};
struct Big {
  char c;
  int m[4][3];
  Inner in[3];
  float4 f4;
  int64_t big;
  uint8_t bytes[17];
  bool flag;
  float3 f3;
};
static_assert(sizeof(Big) > 190, "");
__global__ void byval(Big b, char x, short y, double z, Big* out, uchar3 u3, float2 f2) {
  Big r = b;
  int s = 0;
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 3; j++) s += b.m[i][j] * (i + 1) + j;
  for (int k = 0; k < 3; k++) {
    r.in[k].d *= z;
    for (auto& q : r.in[k].a) q += y;
  }
  r.m[threadIdx.x % 4][threadIdx.x % 3] = -1;
  r.c = x;
  r.big = s + u3.x + u3.y * 2 + u3.z * 3;
  r.bytes[16] ^= 0xff;
  r.flag = !b.flag;
  r.f4.w += f2.x * f2.y;
  if (threadIdx.x == 5) *out = r;
}
struct Args4k {
  int v[900];
};
__global__ void large(const __grid_constant__ Args4k a, int* o, int idx) {
  const int* p = a.v;
  int s = 0;
  for (int i = threadIdx.x; i < 900; i += blockDim.x) s += p[i] * (i == idx ? 2 : 1);
  atomicAdd(o, s);
}
// virtuals
struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual int sides() const { return 0; }
  __device__ virtual ~Shape() {}
};
struct Circle : Shape {
  float r;
  __device__ Circle(float r) : r(r) {}
  __device__ float area() const override { return 3.0f * r * r; }
};
struct Poly : Shape {
  int n;
  __device__ Poly(int n) : n(n) {}
  __device__ float area() const override { return n * 0.5f; }
  __device__ int sides() const override { return n; }
};
struct Named {
  __device__ virtual int name() { return 7; }
};
struct Multi : Poly, virtual Named {
  __device__ Multi(int n) : Poly(n) {}
  __device__ int name() override { return n * 11; }
  __device__ int sides() const override { return -n; }
};
__global__ void shapes(float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Circle c(i);
  Poly p(i);
  Multi m(i);
  Shape* s = i % 3 == 0 ? (Shape*)&c : i % 3 == 1 ? (Shape*)&p : (Shape*)&m;
  Named* nm = &m;
  o[i] = s->area() + s->sides() * 1000 + nm->name() * 0.0625f;
}
// function pointers
typedef int (*Fn)(int, int);
__device__ int add(int a, int b) {
  return a + b;
}
__device__ int mul(int a, int b) {
  return a * b;
}
__device__ int sub(int a, int b) {
  return a - b;
}
__device__ Fn table[3] = {add, mul, sub};
__device__ Fn one = mul;
__global__ void calls(int* o, Fn f) {
  int t = threadIdx.x;
  Fn l[2] = {sub, add};
  o[t] = table[t % 3](t, 3) + f(t, 5) * 100 + l[t & 1](t, 1) * 10000;
}
struct Mem {
  int k;
  __device__ int a(int x) const { return x + k; }
  __device__ int b(int x) const { return x * k; }
};
__global__ void memptr(int* o) {
  int (Mem::*p)(int) const = threadIdx.x % 2 ? &Mem::a : &Mem::b;
  Mem m{(int)threadIdx.x};
  int Mem::*d = &Mem::k;
  m.*d += 1;
  o[threadIdx.x] = (m.*p)(10);
}
// recursion
__device__ __noinline__ int fib(int n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
__device__ __noinline__ bool odd(int n);
__device__ __noinline__ bool even(int n) {
  return n == 0 ? true : odd(n - 1);
}
__device__ __noinline__ bool odd(int n) {
  return n == 0 ? false : even(n - 1);
}
template <class T>
__device__ __noinline__ void qsort_(T* a, int lo, int hi) {
  while (lo < hi) {
    T p = a[(lo + hi) / 2];
    int i = lo, j = hi;
    while (i <= j) {
      while (a[i] < p) i++;
      while (p < a[j]) j--;
      if (i <= j) {
        T t = a[i];
        a[i++] = a[j];
        a[j--] = t;
      }
    }
    if (j - lo < hi - i) {
      qsort_(a, lo, j);
      lo = i;
    } else {
      qsort_(a, i, hi);
      hi = j;
    }
  }
}
struct Rec {
  uint16_t key;
  int8_t pay[6];
  __host__ __device__ bool operator<(const Rec& o) const { return key < o.key; }
};
template <class T>
__global__ void sorts(T* a, int len) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  qsort_(a + t * len, 0, len - 1);
}
struct TNode {
  int key, l, r;
};
__device__ __noinline__ int walk(const TNode* t, int i, int depth, int* maxd) {
  if (i < 0) return 0;
  if (depth > *maxd) *maxd = depth;
  int a = walk(t, t[i].l, depth + 1, maxd), b = walk(t, t[i].r, depth + 1, maxd);
  return t[i].key + a - b;
}
__global__ void rec(int* o, const TNode* t, int n) {
  int i = threadIdx.x;
  int md = 0;
  o[i] = fib(i % 14) * 2 + even(i);
  o[64 + i] = walk(t, i % n, 1, &md);
  o[128 + i] = md;
}
__device__ __noinline__ unsigned ack(unsigned m, unsigned n) {
  return m == 0 ? n + 1 : n == 0 ? ack(m - 1, 1) : ack(m - 1, ack(m, n - 1));
}
__global__ void ackk(unsigned* o) {
  o[threadIdx.x] = ack(2, threadIdx.x);
}
// templates
template <int N>
struct Pow {
  template <class T>
  static __host__ __device__ T of(T x) {
    if constexpr (N == 0)
      return T(1);
    else
      return x * Pow<N - 1>::of(x);
  }
};
template <class T, int R, int C>
struct Mat {
  T v[R][C];
  template <int K>
  __host__ __device__ Mat<T, R, K> operator*(const Mat<T, C, K>& o) const {
    Mat<T, R, K> r;
    for (int i = 0; i < R; i++)
      for (int j = 0; j < K; j++) {
        T s = 0;
        for (int k = 0; k < C; k++) s += v[i][k] * o.v[k][j];
        r.v[i][j] = s;
      }
    return r;
  }
};
template <class T>
__global__ void mm(const Mat<T, 3, 4>* a, const Mat<T, 4, 2>* b, Mat<T, 3, 2>* c, T* p, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) {
    c[i] = a[i] * b[i];
    p[i] = Pow<5>::of(T(i % 9));
  }
}
template <class T>
void testMat(const char* nm) {
  const int n = 200;
  std::vector<Mat<T, 3, 4>> a(n);
  std::vector<Mat<T, 4, 2>> b(n);
  std::vector<Mat<T, 3, 2>> c(n);
  std::vector<T> p(n);
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < 12; k++) a[i].v[k / 4][k % 4] = T((i + k) % 11);
    for (int k = 0; k < 8; k++) b[i].v[k / 2][k % 2] = T((i * k) % 7);
  }
  void *A, *B, *C, *P;
  MUST(cudaMalloc(&A, n * sizeof a[0]));
  MUST(cudaMalloc(&B, n * sizeof b[0]));
  MUST(cudaMalloc(&C, n * sizeof c[0]));
  MUST(cudaMalloc(&P, n * sizeof(T)));
  MUST(cudaMemcpy(A, a.data(), n * sizeof a[0], cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(B, b.data(), n * sizeof b[0], cudaMemcpyHostToDevice));
  mm<T><<<4, 64>>>((Mat<T, 3, 4>*)A, (Mat<T, 4, 2>*)B, (Mat<T, 3, 2>*)C, (T*)P, n);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(c.data(), C, n * sizeof c[0], cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(p.data(), P, n * sizeof(T), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) {
    auto r = a[i] * b[i];
    if (memcmp(&r, &c[i], sizeof r) || p[i] != Pow<5>::of(T(i % 9))) {
      HOLDS(0, "mat %s %d", nm, i);
      return;
    }
  }
}
int main() {
  Big b;
  memset(&b, 0, sizeof b);
  b.c = 'q';
  int s = 0;
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 3; j++) {
      b.m[i][j] = i * 10 + j;
      s += b.m[i][j] * (i + 1) + j;
    }
  for (int k = 0; k < 3; k++) {
    b.in[k].d = k + .5;
    for (int j = 0; j < 3; j++) b.in[k].a[j] = k * j;
    strcpy(b.in[k].tag, "tag");
  }
  b.f4 = make_float4(1, 2, 3, 4);
  for (int i = 0; i < 17; i++) b.bytes[i] = i * 9;
  b.flag = true;
  b.f3 = make_float3(7, 8, 9);
  Big *d, r, w = b;
  MUST(cudaMalloc(&d, sizeof b));
  byval<<<1, 32>>>(b, 'z', -4, 1.5, d, make_uchar3(1, 2, 3), make_float2(2, 5));
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(&r, d, sizeof r, cudaMemcpyDeviceToHost));
  w.c = 'z';
  w.m[1][2] = -1;
  HOLDS(r.c == 'z' && !memcmp(r.m, w.m, sizeof w.m) && r.big == s + 14 &&
            r.bytes[16] == (uint8_t)(144 ^ 255) && r.bytes[15] == 135 && !r.flag && r.f4.w == 14 &&
            r.f4.x == 1 && r.f3.z == 9,
        "by value");
  for (int k = 0; k < 3; k++)
    HOLDS(r.in[k].d == (k + .5) * 1.5 && r.in[k].a[2] == 2 * k - 4 && !strcmp(r.in[k].tag, "tag"), "inner %d",
          k);
  int* o;
  MUST(cudaMalloc(&o, 4096));
  int h[1024];
  static Args4k a4;
  int ls = 0;
  for (int i = 0; i < 900; i++) ls += a4.v[i] = i * 3 - 100;
  MUST(cudaMemset(o, 0, 4));
  large<<<1, 64>>>(a4, o, 17);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(h, o, 4, cudaMemcpyDeviceToHost));
  HOLDS(h[0] == ls + a4.v[17], "large arg %d", h[0]);
  float *fo, hf[200];
  MUST(cudaMalloc(&fo, 800));
  shapes<<<2, 128>>>(fo, 200);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(hf, fo, 800, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 200; i++) {
    float e = i % 3 == 0 ? 3.f * i * i : i * .5f;
    e += (i % 3 == 0 ? 0 : i % 3 == 1 ? i : -i) * 1000 + i * 11 * .0625f;
    if (hf[i] != e) {
      HOLDS(0, "shape %d %g %g", i, hf[i], e);
      break;
    }
  }
  Fn f;
  MUST(cudaMemcpyFromSymbol(&f, one, sizeof f));
  HOLDS(f != nullptr, "device function address");
  calls<<<1, 96>>>(o, f);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(h, o, 384, cudaMemcpyDeviceToHost));
  for (int t = 0; t < 96; t++) {
    int e = (t % 3 == 0 ? t + 3 : t % 3 == 1 ? t * 3 : t - 3) + t * 500 + (t & 1 ? t + 1 : t - 1) * 10000;
    if (h[t] != e) {
      HOLDS(0, "calls %d %d %d", t, h[t], e);
      break;
    }
  }
  memptr<<<1, 32>>>(o);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(h, o, 128, cudaMemcpyDeviceToHost));
  for (int t = 0; t < 32; t++) HOLDS(h[t] == (t % 2 ? 11 + t : 10 * (t + 1)), "memptr %d %d", t, h[t]);
  MUST(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
  const int TN = 63;
  std::vector<TNode> tn(TN);
  for (int i = 0; i < TN; i++)
    tn[i] = {i * i % 50, 2 * i + 1 < TN ? 2 * i + 1 : -1, 2 * i + 2 < TN ? 2 * i + 2 : -1};
  TNode* dt;
  MUST(cudaMalloc(&dt, TN * sizeof(TNode)));
  MUST(cudaMemcpy(dt, tn.data(), TN * sizeof(TNode), cudaMemcpyHostToDevice));
  rec<<<1, 64>>>(o, dt, TN);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(h, o, 768, cudaMemcpyDeviceToHost));
  struct W {
    static int go(const std::vector<TNode>& t, int i, int d, int& m) {
      if (i < 0) return 0;
      m = std::max(m, d);
      int a = go(t, t[i].l, d + 1, m), b = go(t, t[i].r, d + 1, m);
      return t[i].key + a - b;
    }
    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
  };
  for (int i = 0; i < 64; i++) {
    int m = 0, e = W::go(tn, i % TN, 1, m);
    HOLDS(h[i] == W::fib(i % 14) * 2 + (i % 2 == 0) && h[64 + i] == e && h[128 + i] == m, "recursion %d", i);
    if (failures) break;
  }
  ackk<<<1, 8>>>((unsigned*)o);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(h, o, 32, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 8; i++) HOLDS(h[i] == 2 * i + 3, "ackermann %d", h[i]);
  const int len = 100, thr = 64;
  std::vector<Rec> rv(len * thr);
  std::vector<double> dv(len * thr);
  unsigned q = 5;
  for (size_t i = 0; i < rv.size(); i++) {
    q = q * 1664525 + 1013904223;
    rv[i].key = q >> 16;
    for (int k = 0; k < 6; k++) rv[i].pay[k] = rv[i].key >> k;
    dv[i] = (int)q * 1e-3;
  }
  Rec* dr;
  double* dd;
  MUST(cudaMalloc(&dr, rv.size() * 8));
  MUST(cudaMalloc(&dd, rv.size() * 8));
  MUST(cudaMemcpy(dr, rv.data(), rv.size() * 8, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dd, dv.data(), dv.size() * 8, cudaMemcpyHostToDevice));
  sorts<<<2, 32>>>(dr, len);
  sorts<<<2, 32>>>(dd, len);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(rv.data(), dr, rv.size() * 8, cudaMemcpyDeviceToHost));
  std::vector<double> gd(dv.size());
  MUST(cudaMemcpy(gd.data(), dd, gd.size() * 8, cudaMemcpyDeviceToHost));
  for (int t = 0; t < thr; t++)
    for (int i = 0; i < len; i++) {
      size_t k = t * len + i;
      bool ok = (i == 0 || (!(rv[k] < rv[k - 1]) && gd[k - 1] <= gd[k]));
      for (int z = 0; z < 6; z++) ok &= rv[k].pay[z] == (int8_t)(rv[k].key >> z);
      if (!ok) {
        HOLDS(0, "sort %d %d", t, i);
        t = thr;
        break;
      }
    }
  testMat<float>("float");
  testMat<double>("double");
  testMat<int>("int");
  testMat<long long>("ll");
  testMat<short>("short");
  testMat<unsigned char>("uchar");
  return verdict();
}
