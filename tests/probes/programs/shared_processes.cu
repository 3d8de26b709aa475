// Memory and events of one process that others use: a parent starts children, hands each a part of its memory
// by a handle, and each waits for the parent's event and records one of its own.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

constexpr int kChildren = 3, kEach = 5000;

// What the parent writes into the pipe that a child reads as its standard input.
struct Handout {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t filled;
  int rank;
};

__global__ void fill(uint32_t* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = i * 3u + 1;
}
__global__ void square(uint32_t* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] *= values[i];
}

static bool all(int from_or_to, void* data, size_t bytes, bool reads) {
  char* at = static_cast<char*>(data);
  while (bytes != 0) {
    const ssize_t done = reads ? read(from_or_to, at, bytes) : write(from_or_to, at, bytes);
    if (done <= 0) return false;
    at += done, bytes -= done;
  }
  return true;
}

static int child() {
  Handout given;
  if (!all(0, &given, sizeof given, true)) return 3;
  void* memory;
  cudaEvent_t filled, squared;
  cudaIpcEventHandle_t mine;
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaIpcOpenMemHandle(&memory, given.memory, cudaIpcMemLazyEnablePeerAccess));
  MUST(cudaIpcOpenEventHandle(&filled, given.filled));
  MUST(cudaEventCreateWithFlags(&squared, cudaEventDisableTiming | cudaEventInterprocess));
  MUST(cudaIpcGetEventHandle(&mine, squared));
  uint32_t* const part = static_cast<uint32_t*>(memory) + given.rank * kEach;
  MUST(cudaStreamWaitEvent(stream, filled, 0));
  square<<<(kEach + 127) / 128, 128, 0, stream>>>(part, kEach);
  MUST(cudaEventRecord(squared, stream));
  // What was imported is given back by closing it.
  if (!all(1, &mine, sizeof mine, false)) return 4;
  char go;
  if (!all(0, &go, 1, true)) return 5;  // the parent has the event
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaIpcCloseMemHandle(memory));
  MUST(cudaEventDestroy(filled));
  MUST(cudaEventDestroy(squared));
  return failures;
}

int main(int argc, char** argv) {
  if (argc > 1) return child();
  int to[kChildren], from[kChildren];
  pid_t pids[kChildren];
  for (int rank = 0; rank < kChildren; ++rank) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) return 1;
    pids[rank] = fork();  // before the first call of CUDA
    if (pids[rank] == 0) {
      dup2(in[0], 0), dup2(out[1], 1);
      for (const int end : {in[0], in[1], out[0], out[1]}) close(end);
      for (int other = 0; other < rank; ++other) close(to[other]), close(from[other]);
      execl("/proc/self/exe", argv[0], "child", nullptr);
      _exit(9);
    }
    close(in[0]), close(out[1]);
    to[rank] = in[1], from[rank] = out[0];
  }
  uint32_t* memory;
  cudaStream_t stream;
  Handout handout;
  cudaEvent_t filled, timed;
  MUST(cudaMalloc(&memory, kChildren * kEach * sizeof(uint32_t)));
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  // An event of several processes has no timing.
  REFUSES(cudaEventCreateWithFlags(&timed, cudaEventInterprocess), cudaErrorInvalidValue);
  MUST(cudaEventCreateWithFlags(&filled, cudaEventInterprocess | cudaEventDisableTiming));
  MUST(cudaIpcGetMemHandle(&handout.memory, memory));
  MUST(cudaIpcGetEventHandle(&handout.filled, filled));
  fill<<<(kChildren * kEach + 127) / 128, 128, 0, stream>>>(memory, kChildren * kEach);
  MUST(cudaEventRecord(filled, stream));
  for (int rank = 0; rank < kChildren; ++rank) {
    handout.rank = rank;
    HOLDS(all(to[rank], &handout, sizeof handout, false), "child %d", rank);
  }
  for (int rank = 0; rank < kChildren; ++rank) {
    cudaIpcEventHandle_t theirs;
    cudaEvent_t squared;
    if (!all(from[rank], &theirs, sizeof theirs, true)) {
      HOLDS(false, "child %d gave no event", rank);
      continue;
    }
    MUST(cudaIpcOpenEventHandle(&squared, theirs));
    MUST(cudaStreamWaitEvent(stream, squared, 0));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaEventDestroy(squared));
    HOLDS(write(to[rank], "g", 1) == 1, "child %d", rank);
  }
  std::vector<uint32_t> host(kChildren * kEach);
  MUST(cudaMemcpy(host.data(), memory, host.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  size_t wrong = 0;
  for (size_t i = 0; i < host.size(); ++i)
    wrong += host[i] != static_cast<uint32_t>((i * 3 + 1) * (i * 3 + 1));
  HOLDS(wrong == 0, "%zu of %zu", wrong, host.size());
  // "Calling cudaFree on an exported memory region before calling cudaIpcCloseMemHandle in the importing
  // context will result in undefined behavior": first the children end.
  for (const pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child: %x", status);
  }
  MUST(cudaEventDestroy(filled));
  MUST(cudaFree(memory));
  return verdict();
}
