// A program with ordinals written into it, and what each call of the runtime makes of them. What is asked of
// the driver here takes no ordinal: it is the truth that the runtime's answers are held against. Usage:
// remaps choose ORDINAL… | round ORDINAL OTHER | threads | list
//   choose   cudaSetDevice of each in turn: which GPU it is, and what cudaGetDevice calls it
//   round    every call that takes or returns an ordinal, with ORDINAL (and OTHER as its peer)
//   threads  four threads that each choose a GPU of their own, over and over; then one that chooses nothing
//   list     cudaGetDeviceCount, and the properties of each
#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

static int failures = 0;
#define TRY(call)                                                                                  \
  do {                                                                                             \
    const cudaError_t error = (call);                                                              \
    if (error != cudaSuccess) std::printf("%s: %s\n", #call, cudaGetErrorName(error)), ++failures; \
  } while (0)

// The GPU that this thread works on, as the driver knows it.
static std::string truth() {
  CUdevice device = -1;
  char name[64] = "no GPU";
  if (cuCtxGetDevice(&device) == CUDA_SUCCESS) cuDeviceGetName(name, sizeof name, device);
  return name;
}

static void choose(int device) {
  const cudaError_t error = cudaSetDevice(device);
  std::printf("cudaSetDevice(%d): %s", device, cudaGetErrorName(error));
  int now = -1;
  if (error == cudaSuccess && cudaFree(nullptr) == cudaSuccess && cudaGetDevice(&now) == cudaSuccess)
    std::printf(", %s, cudaGetDevice %d", truth().c_str(), now);
  std::printf("\n");
}

static cudaMemLocation on(int device) {
  cudaMemLocation location{};
  location.type = cudaMemLocationTypeDevice;
  location.id = device;
  return location;
}

static void round_trip(int device, int other) {
  int told = -1;
  TRY(cudaInitDevice(device, 0, 0));
  TRY(cudaSetDevice(device));
  TRY(cudaFree(nullptr));
  TRY(cudaGetDevice(&told));
  std::printf("device %d is %s\n", told, truth().c_str());

  cudaDeviceProp properties{};
  TRY(cudaGetDeviceProperties(&properties, device));
  int multiprocessors = 0;
  TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  char pci[32] = "";
  TRY(cudaDeviceGetPCIBusId(pci, sizeof pci, device));
  std::printf("properties %s, attribute %s, %s", properties.name,
              multiprocessors == properties.multiProcessorCount ? "agrees" : "differs", pci);
  TRY(cudaDeviceGetByPCIBusId(&told, pci));
  std::printf(", found by it %d", told);
  TRY(cudaChooseDevice(&told, &properties));
  std::printf(", chosen for its properties %d\n", told);

  void* memory = nullptr;
  TRY(cudaMalloc(&memory, 4096));
  cudaPointerAttributes attributes{};
  TRY(cudaPointerGetAttributes(&attributes, memory));
  cudaStream_t stream = nullptr;
  TRY(cudaStreamCreate(&stream));
  TRY(cudaStreamGetDevice(stream, &told));
  std::printf("memory of %d, stream of %d\n", attributes.device, told);

  void* managed = nullptr;
  const size_t size = 1 << 20;
  TRY(cudaMallocManaged(&managed, size));
  int place = -5, accessed[4] = {-5, -5, -5, -5};
  TRY(cudaMemAdvise(managed, size, cudaMemAdviseSetPreferredLocation, on(device)));
  TRY(cudaMemAdvise(managed, size, cudaMemAdviseSetAccessedBy, on(device)));
  TRY(cudaMemRangeGetAttribute(&place, sizeof place, cudaMemRangeAttributePreferredLocation, managed, size));
  TRY(cudaMemRangeGetAttribute(accessed, sizeof accessed, cudaMemRangeAttributeAccessedBy, managed, size));
  std::printf("preferred %d, accessed by %d %d", place, accessed[0], accessed[1]);
  TRY(cudaMemPrefetchAsync(managed, size, on(device), 0, stream));
  TRY(cudaStreamSynchronize(stream));
  void* data[] = {&place, accessed};
  size_t sizes[] = {sizeof place, sizeof accessed};
  cudaMemRangeAttribute which[] = {cudaMemRangeAttributeLastPrefetchLocation,
                                   cudaMemRangeAttributeAccessedBy};
  TRY(cudaMemRangeGetAttributes(data, sizes, which, 2, managed, size));
  std::printf(", prefetched to %d, accessed by %d %d\n", place, accessed[0], accessed[1]);
  cudaMemLocation host{};
  host.type = cudaMemLocationTypeHost;
  TRY(cudaMemPrefetchAsync(managed, size, host, 0, stream));
  TRY(cudaMemRangeGetAttribute(&place, sizeof place, cudaMemRangeAttributeLastPrefetchLocation, managed,
                               size));
  std::printf("prefetched to the host: %d\n", place);

  TRY(cudaSetDevice(other));
  void* there = nullptr;
  TRY(cudaMalloc(&there, 4096));
  TRY(cudaPointerGetAttributes(&attributes, there));
  std::printf("peer's memory of %d, on %s\n", attributes.device, truth().c_str());
  TRY(cudaMemset(there, 7, 4096));
  TRY(cudaSetDevice(device));
  TRY(cudaMemcpyPeer(memory, device, there, other, 1024));
  TRY(cudaMemcpyPeerAsync(static_cast<char*>(memory) + 1024, device, static_cast<char*>(there) + 1024, other,
                          1024, stream));
  const auto part = [&](size_t at) {
    cudaMemcpy3DPeerParms copy{};
    copy.srcDevice = other;
    copy.dstDevice = device;
    copy.srcPtr = make_cudaPitchedPtr(static_cast<char*>(there) + at, 1024, 1024, 1);
    copy.dstPtr = make_cudaPitchedPtr(static_cast<char*>(memory) + at, 1024, 1024, 1);
    copy.extent = make_cudaExtent(1024, 1, 1);
    return copy;
  };
  const cudaMemcpy3DPeerParms third = part(2048), fourth = part(3072);
  TRY(cudaMemcpy3DPeer(&third));
  TRY(cudaMemcpy3DPeerAsync(&fourth, stream));
  TRY(cudaStreamSynchronize(stream));
  std::vector<char> got(4096);
  TRY(cudaMemcpy(got.data(), memory, got.size(), cudaMemcpyDefault));
  int right = 0;
  for (const char byte : got) right += byte == 7 ? 1 : 0;
  std::printf("%d bytes came from the peer; its parameters say %d to %d still\n", right, fourth.srcDevice,
              fourth.dstDevice);

  cudaMemPool_t pool = nullptr, same = nullptr;
  TRY(cudaDeviceGetDefaultMemPool(&pool, device));
  cudaMemLocation where = on(device);
  TRY(cudaMemGetDefaultMemPool(&same, &where, cudaMemAllocationTypePinned));
  std::printf("pool: %s", pool == same ? "one" : "two");
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = on(other);
  TRY(cudaMemPoolCreate(&pool, &props));
  void* pooled = nullptr;
  TRY(cudaMallocFromPoolAsync(&pooled, 4096, pool, stream));
  TRY(cudaPointerGetAttributes(&attributes, pooled));
  cudaMemAccessDesc desc{};
  desc.location = on(device);
  desc.flags = cudaMemAccessFlagsProtReadWrite;
  TRY(cudaMemPoolSetAccess(pool, &desc, 1));
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
  TRY(cudaMemPoolGetAccess(&flags, pool, &where));
  std::printf(", the peer's gives memory of %d, access %d\n", attributes.device, static_cast<int>(flags));
  TRY(cudaFreeAsync(pooled, stream));
  TRY(cudaStreamSynchronize(stream));

  int can = -1, access = -1;
  TRY(cudaDeviceCanAccessPeer(&can, device, other));
  TRY(cudaDeviceGetP2PAttribute(&access, cudaDevP2PAttrAccessSupported, device, other));
  std::printf("peers: %d %d, %s", can, access, cudaGetErrorName(cudaDeviceEnablePeerAccess(other, 0)));
  std::printf(" %s\n", cudaGetErrorName(cudaDeviceDisablePeerAccess(other)));
  (void)cudaGetLastError();
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  std::vector<int> ordinals;
  for (int i = 2; i < argc; ++i) ordinals.push_back(std::atoi(argv[i]));
  if (what == "choose") {
    for (const int device : ordinals) choose(device);
  } else if (what == "round" && ordinals.size() == 2) {
    round_trip(ordinals[0], ordinals[1]);
  } else if (what == "threads") {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    std::vector<std::string> places(4);
    for (int device = 0; device < 4; ++device)
      threads.emplace_back([&, device] {
        for (int i = 0; i < 50; ++i) {
          int now = -1;
          void* memory = nullptr;
          cudaPointerAttributes attributes{};
          if (cudaSetDevice(device) != cudaSuccess || cudaMalloc(&memory, 256) != cudaSuccess ||
              cudaGetDevice(&now) != cudaSuccess || now != device ||
              cudaPointerGetAttributes(&attributes, memory) != cudaSuccess || attributes.device != device ||
              cudaFree(memory) != cudaSuccess)
            ++wrong;
        }
        places[device] = truth();
      });
    for (std::thread& thread : threads) thread.join();
    std::printf("%d wrong:", wrong.load());
    for (const std::string& place : places) std::printf(" %s", place.c_str());
    std::thread([] {
      int now = -1;
      TRY(cudaFree(nullptr));
      TRY(cudaGetDevice(&now));
      std::printf("; without a choice %d, %s\n", now, truth().c_str());
    }).join();
  } else if (what == "list") {
    int count = -1;
    TRY(cudaGetDeviceCount(&count));
    std::printf("%d", count);
    for (int device = 0; device < count; ++device) {
      cudaDeviceProp properties{};
      TRY(cudaGetDeviceProperties(&properties, device));
      std::printf(" %s", properties.name);
    }
    std::printf("\n");
  } else {
    std::printf("usage: remaps choose ORDINAL… | round ORDINAL OTHER | threads | list\n");
    return 2;
  }
  return failures == 0 ? 0 : 1;
}
