// A pool that another process imports by a file descriptor, and single allocations of it by what is told of
// them; mapped memory is handed over the same way. The processes talk over a Unix socket.
#include <cuda.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check_driver.h"

constexpr int kCount = 20000;

__global__ void count_up(int* values, int n, int plus) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += i + plus;
}

static void send_descriptor(int socket, int descriptor, void* data, size_t bytes) {
  char room[CMSG_SPACE(sizeof(int))] = {};
  iovec text = {data, bytes};
  msghdr message = {};
  message.msg_iov = &text, message.msg_iovlen = 1;
  message.msg_control = room, message.msg_controllen = sizeof room;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  HOLDS(sendmsg(socket, &message, 0) == static_cast<ssize_t>(bytes), "sendmsg");
}
static int receive_descriptor(int socket, void* data, size_t bytes) {
  char room[CMSG_SPACE(sizeof(int))] = {};
  iovec text = {data, bytes};
  msghdr message = {};
  message.msg_iov = &text, message.msg_iovlen = 1;
  message.msg_control = room, message.msg_controllen = sizeof room;
  if (recvmsg(socket, &message, 0) != static_cast<ssize_t>(bytes) || CMSG_FIRSTHDR(&message) == nullptr)
    exit(7);
  int descriptor;
  memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return descriptor;
}
static void* as_handle(int descriptor) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
}

static std::atomic<bool> go{false};
static void until_go(void*) {
  while (!go) std::this_thread::yield();
}

static int child(int socket) {
  MUST(cudaFree(nullptr));
  cudaMemPoolPtrExportData told;
  int descriptor = receive_descriptor(socket, &told, sizeof told);
  cudaMemPool_t pool;
  void* memory;
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaMemPoolImportFromShareableHandle(&pool, as_handle(descriptor),
                                            cudaMemHandleTypePosixFileDescriptor, 0));
  close(descriptor);
  MUST(cudaMemPoolImportPointer(&memory, pool, &told));
  // "Imported memory pools do not support creating new allocations."
  void* none;
  HOLDS(cudaMallocFromPoolAsync(&none, 100, pool, stream) != cudaSuccess, "an imported pool makes nothing");
  cudaGetLastError();
  // Freed in the stream's order: what is before the free, and has not even begun, still has the memory.
  MUST(cudaLaunchHostFunc(stream, until_go, nullptr));
  count_up<<<(kCount + 127) / 128, 128, 0, stream>>>(static_cast<int*>(memory), kCount, 1000);
  MUST(cudaGetLastError());
  MUST(cudaFreeAsync(memory, stream));
  go = true;
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaMemPoolDestroy(pool));

  size_t bytes = 0;
  descriptor = receive_descriptor(socket, &bytes, sizeof bytes);
  CUmemGenericAllocationHandle handle;
  CUdeviceptr mapped;
  CU(cuMemImportFromShareableHandle(&handle, as_handle(descriptor),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(descriptor);
  CU(cuMemAddressReserve(&mapped, bytes, 0, 0, 0));
  CU(cuMemMap(mapped, bytes, 0, handle, 0));
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CU(cuMemSetAccess(mapped, bytes, &access, 1));
  count_up<<<(kCount + 127) / 128, 128, 0, stream>>>(reinterpret_cast<int*>(mapped), kCount, -7);
  MUST(cudaGetLastError());
  MUST(cudaStreamSynchronize(stream));
  CU(cuMemUnmap(mapped, bytes));
  CU(cuMemRelease(handle));
  CU(cuMemAddressFree(mapped, bytes));
  return failures;
}

int main(int argc, char** argv) {
  if (argc > 1) return child(atoi(argv[1]));
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
  const pid_t pid = fork();
  if (pid == 0) {
    close(sockets[0]);
    execl("/proc/self/exe", argv[0], std::to_string(sockets[1]).c_str(), nullptr);
    _exit(9);
  }
  close(sockets[1]);
  int types = 0;
  MUST(cudaDeviceGetAttribute(&types, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
  HOLDS((types & cudaMemHandleTypePosixFileDescriptor) != 0, "handles %x", types);
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  props.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool;
  int* memory;
  MUST(cudaMemPoolCreate(&pool, &props));
  MUST(cudaMallocFromPoolAsync(&memory, kCount * sizeof(int), pool, stream));
  MUST(cudaMemsetAsync(memory, 0, kCount * sizeof(int), stream));
  MUST(cudaStreamSynchronize(stream));
  int descriptor = -1;
  cudaMemPoolPtrExportData told;
  MUST(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  MUST(cudaMemPoolExportPointer(&told, memory));
  send_descriptor(sockets[0], descriptor, &told, sizeof told);
  close(descriptor);

  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t step = 0;
  CU(cuMemGetAllocationGranularity(&step, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  size_t bytes = (kCount * sizeof(int) + step - 1) / step * step;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr mapped;
  CU(cuMemCreate(&handle, bytes, &prop, 0));
  CU(cuMemAddressReserve(&mapped, bytes, 0, 0, 0));
  CU(cuMemMap(mapped, bytes, 0, handle, 0));
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CU(cuMemSetAccess(mapped, bytes, &access, 1));
  CU(cuMemsetD32(mapped, 0, kCount));
  CU(cuCtxSynchronize());
  CU(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  send_descriptor(sockets[0], descriptor, &bytes, sizeof bytes);
  close(descriptor);

  int status = 0;
  waitpid(pid, &status, 0);
  HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %x", status);
  std::vector<int> host(kCount);
  MUST(cudaMemcpy(host.data(), memory, kCount * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) HOLDS(host[i] == i + 1000, "of the pool, %d: %d", i, host[i]);
  CU(cuMemcpyDtoH(host.data(), mapped, kCount * sizeof(int)));
  for (int i = 0; i < kCount; ++i) HOLDS(host[i] == i - 7, "mapped, %d: %d", i, host[i]);
  MUST(cudaFreeAsync(memory, stream));
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaMemPoolDestroy(pool));
  CU(cuMemUnmap(mapped, bytes));
  CU(cuMemRelease(handle));
  CU(cuMemAddressFree(mapped, bytes));
  return verdict();
}
