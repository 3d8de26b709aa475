// Transposed and multiplied matrices, through tiles in shared memory, of sizes that no tile divides.
#include "check.h"

#define T 32
#define R 8
template <class E>
__global__ void tr(const E* in, size_t pin, E* out, size_t pout, int w, int h) {
  __shared__ E s[T][T + 1];
  int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
  for (int j = 0; j < T; j += R)
    if (x < w && y + j < h)
      s[threadIdx.y + j][threadIdx.x] = *((const E*)((const char*)in + (y + j) * pin) + x);
  __syncthreads();
  x = blockIdx.y * T + threadIdx.x;
  y = blockIdx.x * T + threadIdx.y;
  for (int j = 0; j < T; j += R)
    if (x < h && y + j < w) *((E*)((char*)out + (y + j) * pout) + x) = s[threadIdx.x][threadIdx.y + j];
}
__global__ void blur3(cudaPitchedPtr a, cudaPitchedPtr b, int w, int h, int d) {  // 6-neighbour stencil, ints
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
      z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= w || y >= h || z >= d) return;
  auto at = [&](int i, int j, int k) -> int {
    i = min(max(i, 0), w - 1);
    j = min(max(j, 0), h - 1);
    k = min(max(k, 0), d - 1);
    return *((int*)((char*)a.ptr + (size_t)k * a.pitch * h + j * a.pitch) + i);
  };
  *((int*)((char*)b.ptr + (size_t)z * b.pitch * h + y * b.pitch) + x) = at(x - 1, y, z) + at(x + 1, y, z) +
                                                                        at(x, y - 1, z) + at(x, y + 1, z) +
                                                                        at(x, y, z - 1) + at(x, y, z + 1);
}
struct __align__(16) Pix {
  double d;
  int i;
  short s;
  char c;
};
__host__ __device__ bool operator==(const Pix& a, const Pix& b) {
  return a.d == b.d && a.i == b.i && a.s == b.s && a.c == b.c;
}
bool eq(const float4& a, const float4& b) {
  return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}
template <class E, class F, class Q>
void go(int w, int h, F mk, Q same, const char* nm) {
  std::vector<E> a(w * h), b(w * h);
  for (int i = 0; i < w * h; i++) a[i] = mk(i);
  E *d, *o;
  size_t p1, p2;
  MUST(cudaMallocPitch(&d, &p1, w * sizeof(E), h));
  MUST(cudaMallocPitch(&o, &p2, h * sizeof(E), w));
  HOLDS(p1 >= w * sizeof(E) && p2 >= h * sizeof(E) && p1 % 32 == 0, "pitch %zu", p1);
  MUST(cudaMemcpy2D(d, p1, a.data(), w * sizeof(E), w * sizeof(E), h, cudaMemcpyHostToDevice));
  MUST(cudaMemset2D(o, p2, 0xee, h * sizeof(E), w));
  tr<E><<<dim3((w + T - 1) / T, (h + T - 1) / T), dim3(T, R)>>>(d, p1, o, p2, w, h);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  MUST(cudaMemcpy2D(b.data(), h * sizeof(E), o, p2, h * sizeof(E), w, cudaMemcpyDeviceToHost));
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++)
      if (!same(a[y * w + x], b[x * h + y])) {
        HOLDS(0, "%s %d %d", nm, x, y);
        return;
      }
  MUST(cudaFree(d));
  MUST(cudaFree(o));
}
int main() {
  go<float>(
      200, 133, [](int i) { return i * 0.5f; }, [](float a, float b) { return a == b; }, "float");
  go<char>(
      97, 65, [](int i) { return char(i * 7); }, [](char a, char b) { return a == b; }, "char");
  go<short>(
      64, 31, [](int i) { return short(i * 3); }, [](short a, short b) { return a == b; }, "short");
  go<double>(
      70, 70, [](int i) { return i * 1.25; }, [](double a, double b) { return a == b; }, "double");
  go<float4>(
      40, 50, [](int i) { return make_float4(i, i + 1, -i, 2 * i); }, eq, "float4");
  go<Pix>(
      33, 45,
      [](int i) {
        return Pix{i * .1, i, (short)-i, (char)i};
      },
      [](const Pix& a, const Pix& b) { return a == b; }, "Pix");
  go<uchar3>(
      50, 34, [](int i) { return make_uchar3(i, i * 3, i * 5); },
      [](uchar3 a, uchar3 b) { return a.x == b.x && a.y == b.y && a.z == b.z; }, "uchar3");
  // 3D
  int w = 37, h = 21, d = 13;
  std::vector<int> a(w * h * d), b(a.size());
  for (size_t i = 0; i < a.size(); i++) a[i] = (int)(i * 2654435761u >> 12);
  cudaExtent e = make_cudaExtent(w * sizeof(int), h, d);
  cudaPitchedPtr da, db;
  MUST(cudaMalloc3D(&da, e));
  MUST(cudaMalloc3D(&db, e));
  HOLDS(da.xsize == w * 4 && da.ysize == (size_t)h, "xsize %zu ysize %zu", da.xsize, da.ysize);
  MUST(cudaMemset3D(db, 0, e));
  cudaMemcpy3DParms p = {};
  p.srcPtr = make_cudaPitchedPtr(a.data(), w * 4, w, h);
  p.dstPtr = da;
  p.extent = e;
  p.kind = cudaMemcpyHostToDevice;
  MUST(cudaMemcpy3D(&p));
  blur3<<<dim3((w + 15) / 16, (h + 3) / 4, (d + 1) / 2), dim3(16, 4, 2)>>>(da, db, w, h, d);
  MUST(cudaGetLastError());
  cudaMemcpy3DParms q = {};
  q.srcPtr = db;
  q.dstPtr = make_cudaPitchedPtr(b.data(), w * 4, w, h);
  q.extent = e;
  q.kind = cudaMemcpyDeviceToHost;
  cudaStream_t s;
  MUST(cudaStreamCreate(&s));
  MUST(cudaMemcpy3DAsync(&q, s));
  MUST(cudaStreamSynchronize(s));
  auto at = [&](int i, int j, int k) {
    i = std::min(std::max(i, 0), w - 1);
    j = std::min(std::max(j, 0), h - 1);
    k = std::min(std::max(k, 0), d - 1);
    return a[(k * h + j) * w + i];
  };
  for (int z = 0; z < d; z++)
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) {
        int r = at(x - 1, y, z) + at(x + 1, y, z) + at(x, y - 1, z) + at(x, y + 1, z) + at(x, y, z - 1) +
                at(x, y, z + 1);
        if (r != b[(z * h + y) * w + x]) {
          HOLDS(0, "3D %d %d %d", x, y, z);
          z = d;
          y = h;
          break;
        }
      }
  // sub-box copy with positions: box (5,3,2)+(10,8,4) from device to (1,2,3) of host
  std::vector<int> c(w * h * d, -1);
  cudaMemcpy3DParms t = {};
  t.srcPtr = da;
  t.srcPos = make_cudaPos(5 * 4, 3, 2);
  t.dstPtr = make_cudaPitchedPtr(c.data(), w * 4, w, h);
  t.dstPos = make_cudaPos(1 * 4, 2, 3);
  t.extent = make_cudaExtent(10 * 4, 8, 4);
  t.kind = cudaMemcpyDeviceToHost;
  MUST(cudaMemcpy3D(&t));
  for (int z = 0; z < d; z++)
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) {
        bool in = x >= 1 && x < 11 && y >= 2 && y < 10 && z >= 3 && z < 7;
        int want = in ? a[((z - 1) * h + y + 1) * w + x + 4] : -1;
        if (c[(z * h + y) * w + x] != want) {
          HOLDS(0, "sub-box %d %d %d", x, y, z);
          z = d;
          y = h;
          break;
        }
      }
  // 2D errors documented: width > pitch -> cudaErrorInvalidPitchValue; wrong kind ->
  // cudaErrorInvalidMemcpyDirection
  ANSWERS(cudaMemcpy2D(da.ptr, 16, a.data(), 64, 64, 2, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
  ANSWERS(cudaMemcpy(da.ptr, a.data(), 4, (cudaMemcpyKind)77), cudaErrorInvalidMemcpyDirection);
  cudaGetLastError();
  // D2D 2D
  int* x1;
  size_t px;
  MUST(cudaMallocPitch(&x1, &px, 20 * 4, 10));
  MUST(cudaMemcpy2D(x1, px, da.ptr, da.pitch, 20 * 4, 10, cudaMemcpyDeviceToDevice));
  std::vector<int> y1(200);
  MUST(cudaMemcpy2DAsync(y1.data(), 80, x1, px, 80, 10, cudaMemcpyDefault, s));
  MUST(cudaStreamSynchronize(s));
  for (int j = 0; j < 10; j++)
    for (int i = 0; i < 20; i++) HOLDS(y1[j * 20 + i] == a[j * w + i], "d2d");
  return verdict();
}
