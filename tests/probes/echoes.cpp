// Makes every call of a runtime that takes or returns an ordinal, each with ordinal 1 (and 3 as its other):
// the echo runtime says what reached it, and this program what came back. What it passes is constant, or
// looked at afterwards. Usage: echoes LIBRARY MAJOR
#include <dlfcn.h>
#include <driver_types.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

static void* library = nullptr;
static std::string node;

template <class... Arguments>
static void call(const char* name, Arguments... arguments) {
  void* found = dlvsym(library, name, node.c_str());
  if (found == nullptr) {
    std::printf("%s is absent\n", name);
    return;
  }
  const int result = reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
  if (result != 0) std::printf("%s answered %d\n", name, result);
}

// Calls what tells an ordinal in its first or second parameter.
#define TELLS(name, ...)                  \
  do {                                    \
    int told = -7;                        \
    call(name, __VA_ARGS__);              \
    std::printf("%s → %d\n", name, told); \
  } while (0)

static cudaMemLocation on(int device) {
  cudaMemLocation location{};
  location.type = cudaMemLocationTypeDevice;
  location.id = device;
  return location;
}
static cudaMemLocation on_node(int numa) {
  cudaMemLocation location = on(numa);
  location.type = cudaMemLocationTypeHostNuma;
  return location;
}

static void changed(const char* what, bool is) {
  if (is) std::printf("%s was written into\n", what);
}

using Size = size_t;
static void* const none = nullptr;

static void graph_memory(int major) {
  const cudaMemAccessDesc access[2] = {{on(1), cudaMemAccessFlagsProtReadWrite},
                                       {on(3), cudaMemAccessFlagsProtRead}};
  const auto parameters = [&] {
    cudaMemAllocNodeParams own{};
    own.poolProps.location = on(1);
    own.accessDescs = access;
    own.accessDescCount = 2;
    own.bytesize = 64;
    return own;
  };
  const auto look = [&](const char* name, const cudaMemAllocNodeParams& now) {
    std::printf("%s: memory at %p\n", name, now.dptr);
    changed("the node's parameters", now.poolProps.location.id != 1 || now.accessDescs != access);
  };
  cudaMemAllocNodeParams own = parameters(), told{};
  call("cudaGraphAddMemAllocNode", none, none, none, Size{0}, &own);
  look("cudaGraphAddMemAllocNode", own);
  const cudaMemAccessDesc* list = nullptr;
  for (int i = 0; i < 3; ++i) {
    call("cudaGraphMemAllocNodeGetParams", none, &told);
    std::printf("cudaGraphMemAllocNodeGetParams → %d, %d %d\n", told.poolProps.location.id,
                told.accessDescs[0].location.id, told.accessDescs[1].location.id);
    if (i > 0 && told.accessDescs != list) std::printf("another list each time\n");
    list = told.accessDescs;
  }
  if (major < 12) return;
  const auto with_node = [&](const char* name, auto... before) {
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeMemAlloc;
    const cudaMemAllocNodeParams given = parameters();
    std::memcpy(&params.alloc, &given, sizeof given);
    call(name, before..., &params);
    cudaMemAllocNodeParams after{};
    std::memcpy(&after, &params.alloc, sizeof after);
    look(name, after);
    params.type = cudaGraphNodeTypeEmpty;
    call(name, before..., &params);
  };
  if (major == 12) with_node("cudaGraphAddNode", none, none, none, Size{0});
  if (major == 12) with_node("cudaGraphAddNode_v2", none, none, none, none, Size{0});
  if (major == 13) with_node("cudaGraphAddNode", none, none, none, none, Size{0});
  with_node("cudaGraphNodeSetParams", none);
  with_node("cudaGraphExecNodeSetParams", none, none);
  if (major != 13) return;
  cudaGraphNodeParams out{};
  call("cudaGraphNodeGetParams", none, &out);
  std::printf("cudaGraphNodeGetParams → %d, %d %d\n", out.alloc.poolProps.location.id,
              out.alloc.accessDescs[0].location.id, out.alloc.accessDescs[1].location.id);
}

static void ranges() {
  int accessed[5], place = -7, id = -7, prefetched = -7;
  call("cudaMemRangeGetAttribute", static_cast<void*>(accessed), sizeof accessed, 3, none, Size{64});
  std::printf("accessed by");
  for (const int one : accessed) std::printf(" %d", one);
  void* data[] = {&place, &id, &prefetched};
  Size sizes[] = {sizeof place, sizeof id, sizeof prefetched};
  int which[] = {cudaMemRangeAttributePreferredLocation, cudaMemRangeAttributePreferredLocationId,
                 cudaMemRangeAttributeLastPrefetchLocationId};
  call("cudaMemRangeGetAttributes", data, sizes, which, Size{3}, none, Size{64});
  std::printf(", preferred %d %d, prefetched to node %d\n", place, id, prefetched);
}

static void copies(int major) {
  cudaMemcpy3DPeerParms peers{};
  peers.srcDevice = 3;
  peers.dstDevice = 1;
  const cudaMemcpy3DPeerParms& constant = peers;
  call("cudaMemcpy3DPeer", &constant);
  call("cudaMemcpy3DPeer_ptds", &constant);
  call("cudaMemcpy3DPeerAsync", &constant, none);
  call("cudaMemcpy3DPeerAsync_ptsz", &constant, none);
  changed("a copy's parameters", peers.srcDevice != 3 || peers.dstDevice != 1);
  if (major < 12) return;

  // More than a few, so that there is no room for them on a stack.
  std::vector<cudaMemcpyAttributes> attributes(20);
  for (auto& one : attributes) one.srcLocHint = on(3), one.dstLocHint = on(1);
  attributes[4].dstLocHint = on_node(1);
  Size failed = 9;
  for (const char* name : {"cudaMemcpyBatchAsync", "cudaMemcpyBatchAsync_ptsz"}) {
    if (major == 12) call(name, none, none, none, Size{1}, attributes.data(), none, Size{20}, &failed, none);
    if (major == 13) call(name, none, none, none, Size{1}, attributes.data(), none, Size{20}, none);
    if (major == 13) call(name, none, none, none, Size{1}, attributes.data(), none, Size{5}, none);
  }
  for (const auto& one : attributes)
    changed("a copy's attributes", one.srcLocHint.id != 3 || one.dstLocHint.id != 1);

  cudaMemcpy3DBatchOp operations[2] = {};
  for (auto& one : operations) {
    one.src.type = one.dst.type = cudaMemcpyOperandTypePointer;
    one.src.op.ptr.locHint = on(3);
    one.dst.op.ptr.locHint = on(1);
  }
  for (const char* name : {"cudaMemcpy3DBatchAsync", "cudaMemcpy3DBatchAsync_ptsz"}) {
    if (major == 12) call(name, Size{2}, +operations, &failed, 0ULL, none);
    if (major == 13) call(name, Size{2}, +operations, 0ULL, none);
  }
  if (major == 13) {
    call("cudaMemcpyWithAttributesAsync", none, none, Size{1}, attributes.data(), none);
    call("cudaMemcpyWithAttributesAsync_ptsz", none, none, Size{1}, attributes.data(), none);
    call("cudaMemcpy3DWithAttributesAsync", +operations, 0ULL, none);
    call("cudaMemcpy3DWithAttributesAsync_ptsz", +operations, 0ULL, none);
  }
  for (const auto& one : operations)
    changed("a copy's operations", one.src.op.ptr.locHint.id != 3 || one.dst.op.ptr.locHint.id != 1);
}

static void locations(int major) {
  if (major < 13) {
    call("cudaMemAdvise", none, Size{64}, 3, 1);
    call("cudaMemAdvise", none, Size{64}, 3, -1);
    call("cudaMemPrefetchAsync", none, Size{64}, 1, none);
    call("cudaMemPrefetchAsync_ptsz", none, Size{64}, -1, none);
  }
  const char* advise = major == 12 ? "cudaMemAdvise_v2" : "cudaMemAdvise";
  const char* prefetch = major == 12 ? "cudaMemPrefetchAsync_v2" : "cudaMemPrefetchAsync";
  if (major >= 12) {
    call(advise, none, Size{64}, 3, on(1));
    call(advise, none, Size{64}, 3, on_node(1));
    call(prefetch, none, Size{64}, on(1), 0u, none);
    call((prefetch + std::string("_ptsz")).c_str(), none, Size{64}, on(1), 0u, none);
  }
  if (major < 13) return;
  cudaMemLocation places[] = {on(1), on(3)};
  for (const char* name : {"cudaMemPrefetchBatchAsync", "cudaMemPrefetchBatchAsync_ptsz",
                           "cudaMemDiscardAndPrefetchBatchAsync", "cudaMemDiscardAndPrefetchBatchAsync_ptsz"})
    call(name, none, none, Size{1}, +places, none, Size{2}, 0ULL, none);
  call("cudaMemGetDefaultMemPool", none, +places, 1);
  call("cudaMemGetMemPool", none, +places, 1);
  call("cudaMemSetMemPool", +places, 1, none);
  changed("a location", places[0].id != 1 || places[1].id != 3);
  cudaMemLocation told[3] = {};
  call("cudaMemGetLocationInfo", none, Size{192}, Size{64}, Size{64}, +told);
  std::printf("cudaMemGetLocationInfo → %d %d %d\n", told[0].id, told[1].id, told[2].id);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int major = std::atoi(argv[2]);
  node = "libcudart.so." + std::string(major == 11 ? "11.0" : argv[2]);
  library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) return std::printf("%s\n", dlerror()), 1;

  // Before a GPU was chosen.
  TELLS("cudaGetDevice", &told);
  call("cudaGLSetGLDevice", 1);
  call("cudaVDPAUSetVDPAUDevice", 1, 0u, none);
  call("cudaSetDevice", 1);
  TELLS("cudaGetDevice", &told);
  call("cudaGetDeviceProperties", none, 1);
  if (major == 12) call("cudaGetDeviceProperties_v2", none, 1);
  call("cudaDeviceGetAttribute", none, 16, 1);
  call("cudaDeviceGetPCIBusId", none, 16, 1);
  for (const char* name : {"cudaDeviceGetDefaultMemPool", "cudaDeviceGetMemPool"}) call(name, none, 1);
  call("cudaDeviceSetMemPool", 1, none);
  for (const char* name : {"cudaDeviceGetGraphMemAttribute", "cudaDeviceSetGraphMemAttribute"})
    call(name, 1, 0, none);
  call("cudaDeviceGraphMemTrim", 1);
  call("cudaDeviceGetNvSciSyncAttributes", none, 1, 0);
  for (const char* name : {"cudaDeviceGetTexture1DLinearMaxWidth", "cudaArrayGetMemoryRequirements",
                           "cudaMipmappedArrayGetMemoryRequirements"})
    call(name, none, none, 1);
  call("cudaDeviceEnablePeerAccess", 3, 0u);
  call("cudaDeviceDisablePeerAccess", 3);
  call("cudaDeviceCanAccessPeer", none, 1, 3);
  call("cudaDeviceGetP2PAttribute", none, 1, 1, 3);
  call("cudaMemcpyPeer", none, 1, none, 3, Size{1});
  call("cudaMemcpyPeerAsync", none, 1, none, 3, Size{1}, none);
  int valid[] = {3, 1, 0, 2};
  call("cudaSetValidDevices", +valid, 4);
  changed("the list of devices", valid[0] != 3 || valid[1] != 1 || valid[2] != 0 || valid[3] != 2);

  TELLS("cudaChooseDevice", &told, none);
  TELLS("cudaDeviceGetByPCIBusId", &told, none);
  TELLS("cudaVDPAUGetDevice", &told, 0u, none);
  unsigned count = 0;
  int devices[2] = {-7, -7};
  call("cudaGLGetDevices", &count, +devices, 2u, 0);
  std::printf("cudaGLGetDevices → %d %d\n", devices[0], devices[1]);
  cudaPointerAttributes attributes{};
  call("cudaPointerGetAttributes", &attributes, none);
  std::printf("cudaPointerGetAttributes → %d\n", attributes.device);

  locations(major);
  ranges();
  cudaMemPoolProps pool{};
  pool.location = on(1);
  pool.maxSize = 77;
  call("cudaMemPoolCreate", none, &pool);
  changed("a pool's properties", pool.location.id != 1);
  cudaMemAccessDesc access[10] = {};
  for (auto& one : access) one.location = on(1);
  access[9].location = on(3);
  call("cudaMemPoolSetAccess", none, +access, Size{10});
  changed("a list of access", access[0].location.id != 1);
  cudaMemLocation place = on(1);
  call("cudaMemPoolGetAccess", none, none, &place);
  changed("a location", place.id != 1);
  TELLS("cudaMemPoolGetAttribute", none, 11, static_cast<void*>(&told));
  copies(major);
  graph_memory(major);
  if (major < 12) return 0;
  call("cudaInitDevice", 1, 0u, 0u);
  call("cudaDeviceRegisterAsyncNotification", 1, none, none, none);
  call("cudaDeviceUnregisterAsyncNotification", 1, none);
  call("cudaKernelSetAttributeForDevice", none, 0, 0, 1);
  TELLS("cudaStreamGetDevice", none, &told);
  TELLS("cudaStreamGetDevice_ptsz", none, &told);
  if (major < 13) return 0;
  call("cudaDeviceGetHostAtomicCapabilities", none, none, 0u, 1);
  call("cudaDeviceGetP2PAtomicCapabilities", none, none, 0u, 1, 3);
  call("cudaDeviceGetExecutionCtx", none, 1);
  call("cudaDeviceGetDevResource", 1, none, 0);
  call("cudaGreenCtxCreate", none, none, 1, 0u);
  TELLS("cudaExecutionCtxGetDevice", &told, none);
  return 0;
}
