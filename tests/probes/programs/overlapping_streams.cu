// Streams, events, host functions and threads that overlap, and what is ordered among them.
#include "check.h"

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <thread>
__global__ void axpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void fill(int* p, int v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = v;
}
__global__ void waitFlag(volatile int* f, int* out, int v) {
  while (*f == 0)
    ;
  *out = v;
}
__global__ void spin(long long cycles) {
  long long s = clock64();
  while (clock64() - s < cycles)
    ;
}
__global__ void nsleep(unsigned ns, unsigned long long* t) {
  unsigned long long a, b;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(a));
  for (int i = 0; i < 10; i++) __nanosleep(ns);
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(b));
  *t = b - a;
}
struct HF {
  std::atomic<int> n{0};
  int* src;
  long sum = 0;
};
void hostFn(void* p) {
  HF* h = (HF*)p;
  h->sum += *h->src;
  h->n++;
}
void CUDART_CB cbFn(cudaStream_t s, cudaError_t e, void* p) {
  HF* h = (HF*)p;
  if (e == cudaSuccess) h->n += 100;
}
void hostFlag(void* p) {
  *(volatile int*)p = 1;
}
void slowHost(void* p) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  *(std::atomic<int>*)p = 1;
}
int main() {
  const int n = 1 << 16, CH = 8, S = 3;
  float *hx, *hy;
  MUST(cudaMallocHost(&hx, n * 4));
  MUST(cudaHostAlloc(&hy, n * 4, cudaHostAllocDefault));
  for (int i = 0; i < n; i++) {
    hx[i] = i % 1000;
    hy[i] = 1;
  }
  unsigned fl;
  MUST(cudaHostGetFlags(&fl, hx));
  float *dx, *dy;
  MUST(cudaMalloc(&dx, n * 4));
  MUST(cudaMalloc(&dy, n * 4));
  cudaStream_t s[S];
  int lo, hi;
  MUST(cudaDeviceGetStreamPriorityRange(&lo, &hi));
  HOLDS(lo >= hi, "priorities: least %d greatest %d", lo, hi);
  for (int i = 0; i < S; i++) {
    MUST(cudaStreamCreateWithPriority(s + i, cudaStreamNonBlocking, i == 0 ? hi : lo));
    int p;
    unsigned f;
    MUST(cudaStreamGetPriority(s[i], &p));
    HOLDS(p == (i == 0 ? hi : lo), "priority");
    MUST(cudaStreamGetFlags(s[i], &f));
    HOLDS(f == cudaStreamNonBlocking, "flags");
  }
  cudaStream_t sc;
  MUST(cudaStreamCreateWithPriority(&sc, cudaStreamDefault, hi - 100));
  int pc;
  MUST(cudaStreamGetPriority(sc, &pc));
  HOLDS(pc == hi, "priority is clamped: %d", pc);
  MUST(cudaStreamDestroy(sc));
  cudaEvent_t b, e;
  MUST(cudaEventCreate(&b));
  MUST(cudaEventCreate(&e));
  MUST(cudaEventRecord(b, 0));
  for (int rep = 0; rep < 3; rep++)
    for (int c = 0; c < CH; c++) {
      int o = c * (n / CH);
      cudaStream_t t = s[c % S];
      MUST(cudaMemcpyAsync(dx + o, hx + o, n / CH * 4, cudaMemcpyHostToDevice, t));
      if (rep == 0) MUST(cudaMemcpyAsync(dy + o, hy + o, n / CH * 4, cudaMemcpyHostToDevice, t));
      axpy<<<n / CH / 256, 256, 0, t>>>(dx + o, dy + o, 2.f, n / CH);
      MUST(cudaGetLastError());
      if (rep == 2) MUST(cudaMemcpyAsync(hy + o, dy + o, n / CH * 4, cudaMemcpyDeviceToHost, t));
    }
  for (auto t : s) {
    cudaEvent_t x;
    MUST(cudaEventCreateWithFlags(&x, cudaEventDisableTiming));
    MUST(cudaEventRecord(x, t));
    MUST(cudaStreamWaitEvent(0, x));
    MUST(cudaEventDestroy(x));
  }
  MUST(cudaEventRecord(e, 0));
  MUST(cudaEventSynchronize(e));
  float ms;
  MUST(cudaEventElapsedTime(&ms, b, e));
  HOLDS(ms >= 0 && ms < 20000, "elapsed %g", ms);
  for (int i = 0; i < n; i++)
    if (hy[i] != 1 + 6.f * (i % 1000)) {
      HOLDS(0, "pipeline %d %g", i, hy[i]);
      break;
    }
  // host flag blocks a stream: queries say not ready
  int *flag, *out;
  MUST(cudaHostAlloc(&flag, 4, cudaHostAllocMapped));
  MUST(cudaHostAlloc(&out, 16, cudaHostAllocMapped));
  int *df, *dout;
  MUST(cudaHostGetDevicePointer(&df, flag, 0));
  MUST(cudaHostGetDevicePointer(&dout, out, 0));
  *flag = 0;
  out[0] = out[1] = 0;
  cudaEvent_t ev;
  MUST(cudaEventCreate(&ev));
  MUST(cudaEventQuery(ev)); /* never recorded: success */
  waitFlag<<<1, 1, 0, s[0]>>>(df, dout, 11);
  MUST(cudaGetLastError());
  MUST(cudaEventRecord(ev, s[0]));
  ANSWERS(cudaStreamQuery(s[0]), cudaErrorNotReady);
  cudaGetLastError();
  ANSWERS(cudaEventQuery(ev), cudaErrorNotReady);
  ANSWERS(cudaEventElapsedTime(&ms, b, ev), cudaErrorNotReady);
  cudaGetLastError();
  MUST(cudaStreamWaitEvent(s[1], ev));
  fill<<<1, 1, 0, s[1]>>>(dout + 1, 22, 1);
  usleep(30000);
  ANSWERS(cudaStreamQuery(s[1]), cudaErrorNotReady);
  cudaGetLastError();
  HOLDS(out[1] == 0, "s1 must wait");
  MUST(cudaStreamQuery(s[2]));
  MUST(cudaLaunchHostFunc(s[2], hostFlag, flag));
  MUST(cudaStreamSynchronize(s[1]));
  HOLDS(out[0] == 11 && out[1] == 22, "order %d %d", out[0], out[1]);
  MUST(cudaStreamQuery(s[0]));
  // host functions and callbacks in order
  HF hf;
  int* pin;
  MUST(cudaMallocHost(&pin, 4));
  *pin = 0;
  hf.src = pin;
  int* di;
  MUST(cudaMalloc(&di, n * 4));
  for (int i = 1; i <= 10; i++) {
    fill<<<1, 1, 0, s[0]>>>(di, i, 1);
    MUST(cudaMemcpyAsync(pin, di, 4, cudaMemcpyDeviceToHost, s[0]));
    MUST(cudaLaunchHostFunc(s[0], hostFn, &hf));
  }
  MUST(cudaStreamAddCallback(s[0], cbFn, &hf, 0));
  MUST(cudaStreamSynchronize(s[0]));
  HOLDS(hf.n == 110 && hf.sum == 55, "hostfn n %d sum %ld", (int)hf.n, hf.sum);
  // legacy stream: a blocking stream waits for legacy work, a non-blocking one doesn't
  cudaStream_t bl;
  MUST(cudaStreamCreate(&bl));
  *flag = 0;
  out[0] = out[1] = out[2] = 0;
  waitFlag<<<1, 1>>>(df, dout, 5);
  fill<<<1, 1, 0, bl>>>(dout + 1, 6, 1);
  fill<<<1, 1, 0, s[2]>>>(dout + 2, 7, 1);
  MUST(cudaGetLastError());
  MUST(cudaStreamSynchronize(s[2]));
  HOLDS(out[2] == 7 && out[0] == 0, "non-blocking runs beside the legacy stream");
  usleep(20000);
  ANSWERS(cudaStreamQuery(bl), cudaErrorNotReady);
  cudaGetLastError();
  HOLDS(out[1] == 0, "blocking stream must wait for the legacy stream");
  *(volatile int*)flag = 1;
  MUST(cudaStreamSynchronize(bl));
  HOLDS(out[0] == 5 && out[1] == 6, "legacy order");
  *flag = 0;
  out[0] = out[1] = 0;
  waitFlag<<<1, 1, 0, bl>>>(df, dout, 8);
  fill<<<1, 1>>>(dout + 1, 9, 1);
  fill<<<1, 1, 0, cudaStreamPerThread>>>(dout + 3, 10, 1);
  MUST(cudaGetLastError());
  usleep(20000);
  ANSWERS(cudaStreamQuery(0), cudaErrorNotReady);
  cudaGetLastError();
  HOLDS(out[1] == 0, "legacy waits for blocking");
  std::thread th([&] {
    usleep(20000);
    *(volatile int*)flag = 1;
  });
  MUST(cudaDeviceSynchronize());
  th.join();
  HOLDS(out[0] == 8 && out[1] == 9 && out[3] == 10, "legacy 2");
  // slow host function holds up its stream only
  std::atomic<int> sl{0};
  MUST(cudaLaunchHostFunc(s[0], slowHost, &sl));
  MUST(cudaEventRecord(ev, s[0]));
  HOLDS(cudaEventQuery(ev) == cudaErrorNotReady && !sl, "async hostfn");
  cudaGetLastError();
  MUST(cudaStreamSynchronize(s[1]));
  MUST(cudaEventSynchronize(ev));
  HOLDS(sl == 1, "hostfn before event");
  // timing
  MUST(cudaEventRecord(b, s[0]));
  spin<<<1, 1, 0, s[0]>>>(2000000);
  MUST(cudaEventRecord(e, s[0]));
  MUST(cudaStreamSynchronize(s[0]));
  MUST(cudaEventElapsedTime(&ms, b, e));
  HOLDS(ms > 0.3f, "2M clocks took %g ms", ms);
  unsigned long long* dt;
  MUST(cudaMalloc(&dt, 8));
  nsleep<<<1, 1>>>(1000, dt);
  MUST(cudaGetLastError());
  unsigned long long t;
  MUST(cudaMemcpy(&t, dt, 8, cudaMemcpyDeviceToHost));
  HOLDS(t < 1000000000ull, "nanosleep %llu", t);
  cudaEvent_t nt;
  MUST(cudaEventCreateWithFlags(&nt, cudaEventDisableTiming));
  MUST(cudaEventRecord(nt, s[0]));
  MUST(cudaEventSynchronize(nt));
  ANSWERS(cudaEventElapsedTime(&ms, b, nt), cudaErrorInvalidResourceHandle);
  cudaEvent_t never;
  MUST(cudaEventCreate(&never));
  ANSWERS(cudaEventElapsedTime(&ms, b, never), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  // host registration
  std::vector<int> big(8192, 4);
  MUST(cudaHostRegister(big.data(), big.size() * 4, cudaHostRegisterMapped));
  int* dr;
  MUST(cudaHostGetDevicePointer(&dr, big.data(), 0));
  fill<<<32, 256, 0, s[0]>>>(dr, 9, 8192);
  MUST(cudaStreamSynchronize(s[0]));
  long sum = 0;
  for (int v : big) sum += v;
  HOLDS(sum == 9 * 8192, "registered %ld", sum);
  ANSWERS(cudaHostRegister(big.data(), big.size() * 4, 0), cudaErrorHostMemoryAlreadyRegistered);
  MUST(cudaHostUnregister(big.data()));
  ANSWERS(cudaHostUnregister(big.data()), cudaErrorHostMemoryNotRegistered);
  cudaGetLastError();
  MUST(cudaMemsetAsync(di, 0x11, 400, s[1]));
  MUST(cudaMemcpyAsync(pin, di + 99, 4, cudaMemcpyDefault, s[1]));
  MUST(cudaStreamSynchronize(s[1]));
  HOLDS(*pin == 0x11111111, "memset");
  // destroying a busy stream lets its work end
  *flag = 0;
  out[0] = 0;
  waitFlag<<<1, 1, 0, s[0]>>>(df, dout, 77);
  MUST(cudaStreamDestroy(s[0]));
  *(volatile int*)flag = 1;
  MUST(cudaDeviceSynchronize());
  HOLDS(out[0] == 77, "destroyed stream's work ends");
  MUST(cudaFreeHost(hx));
  MUST(cudaFreeHost(hy));
  return verdict();
}
