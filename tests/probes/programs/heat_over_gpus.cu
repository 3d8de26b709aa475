// A heat equation over all GPUs, halos exchanged between them, with peer access and without.
#include "check.h"

// 1D heat equation over G GPUs, halo exchange by peer copies and by direct peer loads
__global__ void heat(const double* u, double* v, int n, double k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
  if (i <= n) v[i] = u[i] + k * (u[i - 1] - 2 * u[i] + u[i + 1]);
}
__global__ void heatPeer(const double* u, double* v, const double* lu, const double* ru, int n,
                         double k) {  // reads neighbours' memory directly
  int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
  if (i > n) return;
  double l = i == 1 ? (lu ? lu[n] : 0.) : u[i - 1], r = i == n ? (ru ? ru[1] : 0.) : u[i + 1];
  v[i] = u[i] + k * (l - 2 * u[i] + r);
}
__global__ void copyK(const int* a, int* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i] * 2 + 1;
}
__global__ void addTo(int* c) {
  atomicAdd_system(c, 1);
}
int noPeers(int a, int b) {  // no peer access: enabling fails as documented, peer copies are staged
  MUST(cudaSetDevice(a));
  {
    cudaError_t pe = cudaDeviceEnablePeerAccess(b, 0);
    HOLDS(pe == cudaErrorInvalidDevice || pe == cudaErrorPeerAccessUnsupported, "%s", cudaGetErrorName(pe));
  }
  cudaGetLastError();
  int p;
  MUST(cudaDeviceGetP2PAttribute(&p, cudaDevP2PAttrAccessSupported, a, b));
  HOLDS(p == 0, "attr");
  const int n = 3000;
  std::vector<int> h(n), g(n);
  for (int i = 0; i < n; i++) h[i] = i * 7;
  int *x, *y, *z;
  MUST(cudaMalloc(&x, n * 4));
  MUST(cudaMalloc(&z, n * 4));
  MUST(cudaSetDevice(b));
  MUST(cudaMalloc(&y, n * 4));
  cudaStream_t s;
  MUST(cudaStreamCreate(&s));
  MUST(cudaMemcpyAsync(y, h.data(), n * 4, cudaMemcpyHostToDevice, s));
  MUST(cudaMemcpyPeerAsync(x, a, y, b, n * 4, s));
  MUST(cudaStreamSynchronize(s));
  MUST(cudaSetDevice(a));
  copyK<<<(n + 127) / 128, 128>>>(x, z, n);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(g.data(), z, n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++)
    if (g[i] != h[i] * 2 + 1) {
      HOLDS(0, "staged peer copy %d", i);
      break;
    }
  MUST(cudaMemcpy(z, y, n * 4, cudaMemcpyDefault));
  MUST(cudaMemcpy(g.data(), z, n * 4, cudaMemcpyDefault));
  HOLDS(g == h, "default copy over devices");
  cudaMemcpy3DPeerParms q = {};
  q.srcPtr = make_cudaPitchedPtr(y, 300 * 4, 300, 10);
  q.srcDevice = b;
  q.dstPtr = make_cudaPitchedPtr(z, 100 * 4, 100, 10);
  q.dstDevice = a;
  q.extent = make_cudaExtent(400, 10, 1);
  MUST(cudaMemcpy3DPeer(&q));
  MUST(cudaMemcpy(g.data(), z, 4000, cudaMemcpyDefault));
  for (int r = 0; r < 10; r++)
    for (int c = 0; c < 100; c++)
      if (g[r * 100 + c] != h[r * 300 + c]) {
        HOLDS(0, "3dpeer");
        r = 10;
        break;
      }
  copyK<<<1, 32>>>(y, z, 32);
  cudaError_t l = cudaGetLastError(), e = cudaDeviceSynchronize();
  HOLDS(l == cudaSuccess && e == cudaErrorIllegalAddress, "no access: launch %s sync %s", cudaGetErrorName(l),
        cudaGetErrorName(e));
  printf("no peers %d %d\n", a, b);
  return verdict();
}
int main() {
  int G;
  MUST(cudaGetDeviceCount(&G));
  HOLDS(G >= 2, "needs 2 GPUs, has %d", G);
  if (failures) return 1;
  int can, self;
  MUST(cudaDeviceCanAccessPeer(&self, 0, 0));
  HOLDS(self == 0, "a device is not its own peer: %d", self);
  for (int a = 0; a < G; a++)
    for (int b = 0; b < G; b++)
      if (a != b) {
        MUST(cudaDeviceCanAccessPeer(&can, a, b));
        if (!can) return noPeers(a, b);
      }
  ANSWERS(cudaDeviceCanAccessPeer(&can, 0, G), cudaErrorInvalidDevice);
  ANSWERS(cudaSetDevice(G), cudaErrorInvalidDevice);
  ANSWERS(cudaSetDevice(-1), cudaErrorInvalidDevice);
  int p2p;
  MUST(cudaDeviceGetP2PAttribute(&p2p, cudaDevP2PAttrAccessSupported, 0, 1));
  HOLDS(p2p == 1, "p2p attr");
  ANSWERS(cudaDeviceGetP2PAttribute(&p2p, cudaDevP2PAttrAccessSupported, 0, 0), cudaErrorInvalidDevice);
  cudaGetLastError();
  MUST(cudaSetDevice(0));
  ANSWERS(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
  ANSWERS(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
  ANSWERS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  cudaGetLastError();
  // peer copy without peer access enabled works (staged)
  const int n = 5000;
  std::vector<int> h(n), g(n);
  for (int i = 0; i < n; i++) h[i] = i * 3;
  int *d0, *d1;
  MUST(cudaMalloc(&d0, n * 4));
  MUST(cudaSetDevice(1));
  MUST(cudaMalloc(&d1, n * 4));
  MUST(cudaMemcpy(d1, h.data(), n * 4, cudaMemcpyHostToDevice));
  MUST(cudaSetDevice(0));
  MUST(cudaMemset(d0, 0, n * 4));
  MUST(cudaMemcpyPeer(d0, 0, d1, 1, n * 4));
  MUST(cudaMemcpy(g.data(), d0, n * 4, cudaMemcpyDeviceToHost));
  HOLDS(g == h, "peer copy");
  cudaPointerAttributes pa;
  MUST(cudaPointerGetAttributes(&pa, d1));
  HOLDS(pa.device == 1 && pa.type == cudaMemoryTypeDevice && pa.devicePointer == d1, "attrs dev %d type %d",
        pa.device, pa.type);
  MUST(cudaPointerGetAttributes(&pa, h.data()));
  HOLDS(pa.type == cudaMemoryTypeUnregistered, "host unregistered %d", pa.type);
  MUST(cudaDeviceEnablePeerAccess(1, 0));
  ANSWERS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  cudaGetLastError();
  MUST(cudaMemset(d0, 0, n * 4));
  copyK<<<(n + 127) / 128, 128>>>(d1, d0, n);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  MUST(cudaMemcpy(g.data(), d0, n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++)
    if (g[i] != i * 6 + 1) {
      HOLDS(0, "peer load %d %d", i, g[i]);
      break;
    }
  copyK<<<(n + 127) / 128, 128>>>(d0, d1, n);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  MUST(cudaMemcpy(g.data(), d1, n * 4, cudaMemcpyDefault));
  for (int i = 0; i < n; i++)
    if (g[i] != i * 12 + 3) {
      HOLDS(0, "peer store %d %d", i, g[i]);
      break;
    }
  MUST(cudaDeviceDisablePeerAccess(1));
  ANSWERS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  cudaGetLastError();
  // atomics from all GPUs into mapped pinned host memory
  int* cnt;
  MUST(cudaHostAlloc(&cnt, 4, cudaHostAllocMapped | cudaHostAllocPortable));
  *cnt = 0;
  for (int a = 0; a < G; a++) {
    MUST(cudaSetDevice(a));
    int* dc;
    MUST(cudaHostGetDevicePointer(&dc, cnt, 0));
    addTo<<<4, 32>>>(dc);
    MUST(cudaGetLastError());
  }
  for (int a = 0; a < G; a++) {
    MUST(cudaSetDevice(a));
    MUST(cudaDeviceSynchronize());
  }
  HOLDS(*cnt == G * 128, "host atomics %d", *cnt);
  // heat
  const int per = 700, N = per * G, steps = 30;
  const double k = 0.2;
  std::vector<double> u(N + 2), v(N + 2), res(N);
  for (int i = 1; i <= N; i++) u[i] = sin(i * 0.01) + (i % 97 == 0);
  std::vector<double> u0(u);
  for (int s = 0; s < steps; s++) {
    for (int i = 1; i <= N; i++) v[i] = u[i] + k * (u[i - 1] - 2 * u[i] + u[i + 1]);
    v[0] = v[N + 1] = 0;
    std::swap(u, v);
  }
  std::vector<double*> A(G), B(G);
  std::vector<cudaStream_t> st(G);
  std::vector<cudaEvent_t> ev(G), ev2(G);
  for (int a = 0; a < G; a++) {
    MUST(cudaSetDevice(a));
    MUST(cudaMalloc(&A[a], (per + 2) * 8));
    MUST(cudaMalloc(&B[a], (per + 2) * 8));
    MUST(cudaMemset(A[a], 0, (per + 2) * 8));
    MUST(cudaMemset(B[a], 0, (per + 2) * 8));
    MUST(cudaMemcpy(A[a] + 1, &u0[1 + a * per], per * 8, cudaMemcpyHostToDevice));
    MUST(cudaStreamCreateWithFlags(&st[a], cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&ev[a], cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&ev2[a], cudaEventDisableTiming));
    MUST(cudaDeviceSynchronize());
  }
  for (int s = 0; s < steps; s++) {
    for (int a = 0; a < G; a++) {
      MUST(cudaSetDevice(a));
      MUST(cudaEventRecord(ev[a], st[a]));
    }
    for (int a = 0; a < G; a++) {
      MUST(cudaSetDevice(a));  // pull halos
      if (a) {
        MUST(cudaStreamWaitEvent(st[a], ev[a - 1], 0));
        MUST(cudaMemcpyPeerAsync(A[a], a, A[a - 1] + per, a - 1, 8, st[a]));
      }
      if (a + 1 < G) {
        MUST(cudaStreamWaitEvent(st[a], ev[a + 1], 0));
        MUST(cudaMemcpyPeerAsync(A[a] + per + 1, a, A[a + 1] + 1, a + 1, 8, st[a]));
      }
      MUST(cudaEventRecord(ev2[a], st[a]));
    }
    for (int a = 0; a < G; a++) {
      MUST(cudaSetDevice(a));
      if (a) MUST(cudaStreamWaitEvent(st[a], ev2[a - 1], 0));
      if (a + 1 < G) MUST(cudaStreamWaitEvent(st[a], ev2[a + 1], 0));
      heat<<<(per + 127) / 128, 128, 0, st[a]>>>(A[a], B[a], per, k);
      MUST(cudaGetLastError());
      std::swap(A[a], B[a]);
    }
  }
  for (int a = 0; a < G; a++) {
    MUST(cudaSetDevice(a));
    MUST(cudaStreamSynchronize(st[a]));
    MUST(cudaMemcpy(&res[a * per], A[a] + 1, per * 8, cudaMemcpyDeviceToHost));
  }
  for (int i = 0; i < N; i++)
    if (fabs(res[i] - u[i + 1]) > 1e-12) {
      HOLDS(0, "heat at %d: %g %g", i, res[i], u[i + 1]);
      break;
    }
  // direct peer loads
  for (int a = 0; a < G; a++) {
    MUST(cudaSetDevice(a));
    for (int b : {a - 1, a + 1})
      if (b >= 0 && b < G) MUST(cudaDeviceEnablePeerAccess(b, 0));
    MUST(cudaMemcpy(A[a] + 1, &u0[1 + a * per], per * 8, cudaMemcpyHostToDevice));
  }
  for (int s = 0; s < steps; s++) {
    for (int a = 0; a < G; a++) {
      MUST(cudaSetDevice(a));
      heatPeer<<<(per + 127) / 128, 128>>>(A[a], B[a], a ? A[a - 1] : nullptr, a + 1 < G ? A[a + 1] : nullptr,
                                           per, k);
      MUST(cudaGetLastError());
    }
    for (int a = 0; a < G; a++) {
      MUST(cudaSetDevice(a));
      MUST(cudaDeviceSynchronize());
      std::swap(A[a], B[a]);
    }
  }
  for (int a = 0; a < G; a++) {
    MUST(cudaSetDevice(a));
    MUST(cudaMemcpy(&res[a * per], A[a] + 1, per * 8, cudaMemcpyDeviceToHost));
  }
  for (int i = 0; i < N; i++)
    if (fabs(res[i] - u[i + 1]) > 1e-12) {
      HOLDS(0, "heat peer at %d: %g %g", i, res[i], u[i + 1]);
      break;
    }
  // stream of another device: launching into it is an error; event of another device recorded in a stream
  // fails
  MUST(cudaSetDevice(0));
  copyK<<<1, 1, 0, st[1]>>>(d0, d0, 1);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  ANSWERS(cudaEventRecord(ev[1], st[0]), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  MUST(cudaStreamWaitEvent(st[0], ev[1], 0));
  MUST(cudaStreamSynchronize(st[0]));
  MUST(cudaMemcpyAsync(d1, d0, 16, cudaMemcpyDefault, st[1]));
  MUST(cudaStreamSynchronize(st[1]));  // copies may use any stream
  int can30;
  MUST(cudaDeviceCanAccessPeer(&can30, 0, G - 1));
  if (G > 2) {  // GPU 0 has no access to GPU 2: a kernel that reads it faults, and the error is sticky
    MUST(cudaSetDevice(2));
    int* d2;
    MUST(cudaMalloc(&d2, n * 4));
    MUST(cudaMemset(d2, 1, n * 4));
    MUST(cudaDeviceSynchronize());
    MUST(cudaSetDevice(0));
    copyK<<<1, 32>>>(d2, d0, 32);
    cudaError_t l = cudaGetLastError(), e = cudaDeviceSynchronize();
    HOLDS(l == cudaSuccess && e == cudaErrorIllegalAddress, "no peer access: launch %s, sync %s",
          cudaGetErrorName(l), cudaGetErrorName(e));
    void* x;
    HOLDS(cudaMalloc(&x, 16) == cudaErrorIllegalAddress, "sticky on device 0");
    MUST(cudaSetDevice(2));
    cudaGetLastError();
    MUST(cudaMemcpy(g.data(), d2, 16, cudaMemcpyDeviceToHost));
    HOLDS(g[0] == 0x01010101, "device 2 lives on");
  }
  return verdict();
}
