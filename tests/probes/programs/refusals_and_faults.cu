// Errors, as a careful program meets them: what is refused and leaves all as it was, the last error of a
// thread, and a fault that stays until the process, here a child, ends or the GPU is reset.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "check.h"

__global__ void fill(int* out, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value;
}
__global__ void trap_if(bool really) {
  if (really) __trap();
}
__global__ void beyond(int* out, long long offset) {
  out[offset] = 1;
}
__global__ void asserts(int value) {
  if (value != 4) __trap();
}

// Each fault in a process of its own.
static int faults_with(const char* what) {
  int* memory;
  MUST(cudaMalloc(&memory, 1024));
  cudaError_t wanted = cudaErrorLaunchFailure;
  if (strcmp(what, "trap") == 0) {
    trap_if<<<1, 32>>>(true);
  } else {
    wanted = cudaErrorIllegalAddress;
    beyond<<<1, 1>>>(memory, 1ll << 40);
  }
  MUST(cudaPeekAtLastError());  // the launch itself was right
  ANSWERS(cudaDeviceSynchronize(), wanted);
  // "The context is in an inconsistent state and any further CUDA work will return the same error."
  void* more = nullptr;
  ANSWERS(cudaMalloc(&more, 16), wanted);
  ANSWERS(cudaMemset(memory, 0, 16), wanted);
  ANSWERS(cudaGetLastError(), wanted);
  fill<<<1, 32>>>(memory, 32, 1);
  ANSWERS(cudaGetLastError(), wanted);
  ANSWERS(cudaStreamSynchronize(nullptr), wanted);
  cudaGetLastError();
  std::thread([&] { ANSWERS(cudaMemset(memory, 0, 16), wanted); }).join();
  // Another GPU's context is as it was.
  int count = 0;
  MUST(cudaGetDeviceCount(&count));
  if (count > 1) {
    int value = 0;
    MUST(cudaSetDevice(1));
    MUST(cudaMalloc(&memory, 1024));
    fill<<<2, 128>>>(memory, 256, 7);
    MUST(cudaMemcpy(&value, memory + 255, sizeof value, cudaMemcpyDeviceToHost));
    HOLDS(value == 7, "%d", value);
  }
  return failures == 0 ? 42 : 1;
}

static void refusals() {
  int* memory;
  MUST(cudaMalloc(&memory, 1000 * sizeof(int)));
  fill<<<8, 128>>>(memory, 1000, 5);
  MUST_RUN();
  cudaDeviceProp prop;
  MUST(cudaGetDeviceProperties(&prop, 0));
  fill<<<1, prop.maxThreadsPerBlock + 1>>>(memory, 1000, 6);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  fill<<<0, 128>>>(memory, 1000, 6);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  fill<<<dim3(1, 65536), 128>>>(memory, 1000, 6);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  fill<<<1, 128, prop.sharedMemPerBlockOptin + 1>>>(memory, 1000, 6);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidValue);
  ANSWERS(cudaGetLastError(), cudaSuccess);
  // The last error stays until it is asked for, whatever succeeds meanwhile.
  ANSWERS(cudaSetDevice(99), cudaErrorInvalidDevice);
  MUST(cudaDeviceSynchronize());
  ANSWERS(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  std::thread([] { ANSWERS(cudaPeekAtLastError(), cudaSuccess); }).join();
  ANSWERS(cudaGetLastError(), cudaErrorInvalidDevice);
  REFUSES(cudaMemcpy(memory, nullptr, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  REFUSES(cudaMemcpy(memory, memory, 16, static_cast<cudaMemcpyKind>(77)), cudaErrorInvalidMemcpyDirection);
  REFUSES(cudaMemset(memory, 0, 1001 * sizeof(int)), cudaErrorInvalidValue);
  REFUSES(cudaMemcpy2D(memory, 10, memory, 20, 15, 2, cudaMemcpyDeviceToDevice), cudaErrorInvalidPitchValue);
  REFUSES(cudaFree(memory + 1), cudaErrorInvalidValue);
  REFUSES(cudaEventRecord(nullptr), cudaErrorInvalidResourceHandle);
  std::vector<int> host(1000);
  MUST(cudaMemcpy(host.data(), memory, 1000 * sizeof(int), cudaMemcpyDeviceToHost));
  HOLDS(std::count(host.begin(), host.end(), 5) == 1000, "nothing of that was done");
  HOLDS(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0, "a name");
  HOLDS(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0, "a text");
  HOLDS(strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0, "a text");
  HOLDS(strcmp(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code") == 0,
        "not an error");
  MUST(cudaFree(memory));
}

static void resets() {
  int *memory, value = 0;
  MUST(cudaMalloc(&memory, 1024));
  asserts<<<1, 32>>>(3);
  ANSWERS(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  // "Explicitly destroys and cleans up all resources associated with the current device in the current
  // process."
  MUST(cudaDeviceReset());
  cudaGetLastError();
  MUST(cudaMalloc(&memory, 1024));
  asserts<<<1, 32>>>(4);
  fill<<<2, 128>>>(memory, 256, 11);
  MUST_RUN();
  MUST(cudaMemcpy(&value, memory + 200, sizeof value, cudaMemcpyDeviceToHost));
  HOLDS(value == 11, "%d", value);
  MUST(cudaFree(memory));
}

int main(int argc, char** argv) {
  if (argc > 1) return faults_with(argv[1]);
  for (const char* what : {"trap", "address"}) {
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      execl("/proc/self/exe", argv[0], what, nullptr);
      _exit(9);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 42, "%s: %x", what, status);
  }
  refusals();
  resets();
  return verdict();
}
