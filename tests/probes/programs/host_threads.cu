// A host thread a GPU and several a GPU, each with streams of its own.
#include "check.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
// 8 host threads on 4 GPUs; built with -default-stream per-thread
__device__ int tag;
__device__ unsigned long long total;
__global__ void fill(int* p, int n, int v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = v + i;
}
__global__ void reduce(const int* p, int n, long long* out) {
  __shared__ long long s[128];
  long long a = 0;
  for (int i = threadIdx.x; i < n; i += 128) a += p[i];
  s[threadIdx.x] = a;
  __syncthreads();
  for (int k = 64; k; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    *out = s[0];
    atomicAdd(&total, (unsigned long long)s[0]);
  }
}
__global__ void spin(int* flag, int* out) {
  volatile int* f = flag;
  long long n = 0;
  while (*f == 0) {
    n++;
  }
  *out = n >= 0 ? 1 : 0;
}
static void cb(cudaStream_t, cudaError_t e, void* u) {
  if (!e) (*(std::atomic<int>*)u)++;
}
static void hostfn(void* u) {
  (*(std::atomic<int>*)u)++;
}
static std::atomic<int> calls{0}, calls2{0}, wrong{0};
static std::atomic<long long> sum_host[4];
static void worker(int id, int gpus) {
  int dev = id % gpus;
  int d0;
  MUST(cudaGetDevice(&d0));
  if (d0 != 0) wrong++;  // a new thread starts at device 0
  MUST(cudaSetDevice(dev));
  cudaStream_t s;
  MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  cudaEvent_t a, b;
  MUST(cudaEventCreate(&a));
  MUST(cudaEventCreateWithFlags(&b, cudaEventDisableTiming));
  int n = 1000 + id;
  int* p;
  long long *o, *h;
  MUST(cudaMalloc(&p, n * 4));
  MUST(cudaMalloc(&o, 8));
  MUST(cudaMallocHost(&h, 8));
  for (int it = 0; it < 20; it++) {
    MUST(cudaEventRecord(a, s));
    fill<<<(n + 127) / 128, 128, 0, s>>>(p, n, id * 1000 + it);
    MUST(cudaEventRecord(b, s));
    MUST(cudaStreamWaitEvent(0, b, 0));  // 0 = this thread's default stream
    reduce<<<1, 128>>>(p, n, o);
    MUST(cudaGetLastError());
    MUST(cudaMemcpyAsync(h, o, 8, cudaMemcpyDeviceToHost, cudaStreamPerThread));
    if (it % 5 == 0) MUST(cudaStreamAddCallback(cudaStreamPerThread, cb, &calls, 0));
    MUST(cudaLaunchHostFunc(s, hostfn, &calls2));
    MUST(cudaStreamSynchronize(0));
    long long e = 0;
    for (int i = 0; i < n; i++) e += id * 1000 + it + i;
    if (*h != e) {
      wrong++;
      printf("thread %d it %d: %lld, expected %lld\n", id, it, *h, e);
    }
    sum_host[dev] += e;
    if (it % 7 == 0) MUST(cudaDeviceSynchronize());
  }
  MUST(cudaStreamSynchronize(s));
  float ms = -1;
  MUST(cudaEventRecord(a, s));
  fill<<<1, 1, 0, s>>>(p, 1, 0);
  cudaEvent_t c;
  MUST(cudaEventCreate(&c));
  MUST(cudaEventRecord(c, s));
  MUST(cudaEventSynchronize(c));
  MUST(cudaEventElapsedTime(&ms, a, c));
  if (!(ms >= 0)) wrong++;
  if (cudaEventElapsedTime(&ms, a, b) != cudaErrorInvalidResourceHandle) {
    wrong++;
    printf("elapsed time with a timing-disabled event\n");
  }
  cudaGetLastError();
  // error state is per thread: thread 3 makes a non-sticky error, no other thread sees it
  if (id == 3) {
    if (cudaSetDevice(77) != cudaErrorInvalidDevice) wrong++;
    if (cudaPeekAtLastError() != cudaErrorInvalidDevice) wrong++;
  }
  std::this_thread::yield();
  if (id != 3 && cudaPeekAtLastError() != cudaSuccess) {
    wrong++;
    printf("thread %d sees another thread's error\n", id);
  }
  int cur;
  MUST(cudaGetDevice(&cur));
  if (cur != dev) wrong++;
  MUST(cudaFree(p));
  MUST(cudaFree(o));
  MUST(cudaFreeHost(h));
  MUST(cudaStreamDestroy(s));
  MUST(cudaEventDestroy(a));
  MUST(cudaEventDestroy(b));
  MUST(cudaEventDestroy(c));
}
int main() {
  int g;
  MUST(cudaGetDeviceCount(&g));
  HOLDS(g == 4, "%d GPUs", g);
  std::vector<std::thread> t;
  for (int i = 0; i < 8; i++) t.emplace_back(worker, i, g);
  for (auto& x : t) x.join();
  HOLDS(wrong == 0, "%d wrong in workers", wrong.load());
  for (int d = 0; d < g; d++) {
    MUST(cudaSetDevice(d));
    MUST(cudaDeviceSynchronize());
    unsigned long long v;
    MUST(cudaMemcpyFromSymbol(&v, total, 8));
    HOLDS((long long)v == sum_host[d], "device %d total %lld %lld", d, (long long)v, sum_host[d].load());
  }
  HOLDS(calls == 32 && calls2 == 160, "callbacks %d %d", calls.load(), calls2.load());
  // streams run truly beside each other: a kernel that waits for a flag set by a later copy on another stream
  MUST(cudaSetDevice(2));
  int *flag, *out;
  MUST(cudaMalloc(&flag, 4));
  MUST(cudaMalloc(&out, 4));
  MUST(cudaMemset(flag, 0, 4));
  MUST(cudaDeviceSynchronize());
  cudaStream_t s1, s2;
  MUST(cudaStreamCreate(&s1));
  MUST(cudaStreamCreate(&s2));
  spin<<<1, 1, 0, s1>>>(flag, out);
  MUST(cudaGetLastError());
  HOLDS(cudaStreamQuery(s1) == cudaErrorNotReady, "query");
  int one = 1;
  MUST(cudaMemcpyAsync(flag, &one, 4, cudaMemcpyHostToDevice, s2));
  MUST(cudaStreamSynchronize(s1));
  int r;
  MUST(cudaMemcpy(&r, out, 4, cudaMemcpyDeviceToHost));
  HOLDS(r == 1, "spin");
  HOLDS(cudaStreamQuery(s1) == cudaSuccess, "query after");
  // pipeline between threads: producer on GPU 0, consumer on GPU 1 through peer copies and events
  int can;
  MUST(cudaDeviceCanAccessPeer(&can, 1, 0));
  MUST(cudaSetDevice(1));
  int *c1, *p0;
  MUST(cudaMalloc(&c1, 4000));
  MUST(cudaSetDevice(0));
  MUST(cudaMalloc(&p0, 4000));
  std::mutex m;
  std::condition_variable cv;
  int ready = 0;
  cudaEvent_t ev;
  MUST(cudaEventCreateWithFlags(&ev, cudaEventDisableTiming));
  cudaStream_t ps;
  MUST(cudaStreamCreate(&ps));
  long long tot = 0;
  std::thread prod([&] {
    MUST(cudaSetDevice(0));
    for (int k = 1; k <= 5; k++) {
      std::unique_lock<std::mutex> l(m);
      cv.wait(l, [&] { return ready == 0; });
      fill<<<8, 128, 0, ps>>>(p0, 1000, k * 10);
      MUST(cudaGetLastError());
      MUST(cudaEventRecord(ev, ps));
      ready = k;
      cv.notify_all();
    }
  });
  std::thread cons([&] {
    MUST(cudaSetDevice(1));
    cudaStream_t cs;
    MUST(cudaStreamCreate(&cs));
    long long* o;
    MUST(cudaMalloc(&o, 8));
    for (int k = 1; k <= 5; k++) {
      std::unique_lock<std::mutex> l(m);
      cv.wait(l, [&] { return ready == k; });
      MUST(cudaStreamWaitEvent(cs, ev, 0));
      MUST(cudaMemcpyPeerAsync(c1, 1, p0, 0, 4000, cs));
      reduce<<<1, 128, 0, cs>>>(c1, 1000, o);
      long long h;
      MUST(cudaMemcpyAsync(&h, o, 8, cudaMemcpyDeviceToHost, cs));
      MUST(cudaStreamSynchronize(cs));
      tot += h;
      ready = 0;
      cv.notify_all();
    }
  });
  prod.join();
  cons.join();
  HOLDS(tot == 5 * 499500ll + 1000 * 150, "pipeline %lld", tot);
  return verdict();
}
