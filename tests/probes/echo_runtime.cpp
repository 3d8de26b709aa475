// A runtime that says which ordinals reach it, of every call that takes or returns one, and answers with CUDA
// 0. Built as CUDA 11's, 12's and 13's, with their names and signatures: what the stand-in runtime does not
// have, and releases that are not installed here. No CUDA header with functions: one release's declarations
// would be in the others' way.
#include <driver_types.h>

#include <cstdio>
#include <cstring>

#ifndef ECHO_MAJOR
#error "ECHO_MAJOR is 11, 12 or 13"
#endif

namespace {

#ifndef ECHO_OF
#define ECHO_OF ""
#endif
void say(const char* name, const int* ordinals, int count) {
  std::printf(ECHO_OF "%s", name);
  for (int i = 0; i < count; ++i) std::printf(" %d", ordinals[i]);
  std::printf("\n");
}

}  // namespace

// ECHO(name, (parameters), what it says: ordinals in order)
#define ECHO(name, parameters, ...)                                             \
  extern "C" __attribute__((visibility("default"))) int name parameters {       \
    const int ordinals[] = {__VA_ARGS__};                                       \
    say(#name, ordinals, static_cast<int>(sizeof ordinals / sizeof *ordinals)); \
    return 0;                                                                   \
  }
#define ANSWER(name, parameters, ...)                                     \
  extern "C" __attribute__((visibility("default"))) int name parameters { \
    __VA_ARGS__;                                                          \
    return 0;                                                             \
  }

using Location = cudaMemLocation;

ECHO(cudaSetDevice, (int device), device)
ECHO(cudaDeviceGetAttribute, (int*, int, int device), device)
ECHO(cudaDeviceGetPCIBusId, (char*, int, int device), device)
ECHO(cudaDeviceGetDefaultMemPool, (void*, int device), device)
ECHO(cudaDeviceGetMemPool, (void*, int device), device)
ECHO(cudaDeviceSetMemPool, (int device, void*), device)
ECHO(cudaDeviceGetGraphMemAttribute, (int device, int, void*), device)
ECHO(cudaDeviceSetGraphMemAttribute, (int device, int, void*), device)
ECHO(cudaDeviceGraphMemTrim, (int device), device)
ECHO(cudaDeviceGetNvSciSyncAttributes, (void*, int device, int), device)
ECHO(cudaDeviceGetTexture1DLinearMaxWidth, (size_t*, const void*, int device), device)
ECHO(cudaArrayGetMemoryRequirements, (void*, void*, int device), device)
ECHO(cudaMipmappedArrayGetMemoryRequirements, (void*, void*, int device), device)
ECHO(cudaDeviceEnablePeerAccess, (int peer, unsigned), peer)
ECHO(cudaDeviceDisablePeerAccess, (int peer), peer)
ECHO(cudaDeviceCanAccessPeer, (int*, int device, int peer), device, peer)
ECHO(cudaDeviceGetP2PAttribute, (int*, int, int from, int to), from, to)
ECHO(cudaMemcpyPeer, (void*, int to, const void*, int from, size_t), to, from)
ECHO(cudaMemcpyPeerAsync, (void*, int to, const void*, int from, size_t, void*), to, from)
ECHO(cudaMemcpy3DPeer, (const cudaMemcpy3DPeerParms* p), p->srcDevice, p->dstDevice)
ECHO(cudaMemcpy3DPeer_ptds, (const cudaMemcpy3DPeerParms* p), p->srcDevice, p->dstDevice)
ECHO(cudaMemcpy3DPeerAsync, (const cudaMemcpy3DPeerParms* p, void*), p->srcDevice, p->dstDevice)
ECHO(cudaMemcpy3DPeerAsync_ptsz, (const cudaMemcpy3DPeerParms* p, void*), p->srcDevice, p->dstDevice)
ECHO(cudaMemPoolCreate, (void*, const cudaMemPoolProps* p), p->location.id, static_cast<int>(p->maxSize))
ECHO(cudaMemPoolGetAccess, (int*, void*, const Location* l), l->id)
ECHO(cudaMemPoolSetAccess, (void*, const cudaMemAccessDesc* d, size_t n), static_cast<int>(n),
     d[0].location.id, d[n - 1].location.id)
ECHO(cudaGLSetGLDevice, (int device), device)
ECHO(cudaVDPAUSetVDPAUDevice, (int device, unsigned, void*), device)

extern "C" __attribute__((visibility("default"))) int cudaSetValidDevices(const int* devices, int count) {
  say("cudaSetValidDevices", devices, count);
  return 0;
}

ANSWER(cudaGetDevice, (int* device), *device = 0)
ANSWER(cudaGetDeviceCount, (int* count), *count = 2)
ANSWER(cudaChooseDevice, (int* device, const void*), *device = 0)
ANSWER(cudaDeviceGetByPCIBusId, (int* device, const char*), *device = 0)
ANSWER(cudaVDPAUGetDevice, (int* device, unsigned, void*), *device = 0)
ANSWER(cudaGLGetDevices, (unsigned* count, int* devices, unsigned room, int), *count = 3;
       for (unsigned i = 0; i < room && i < 3; ++i) devices[i] = static_cast<int>(i))
ANSWER(cudaPointerGetAttributes, (cudaPointerAttributes * out, const void*), out->device = 0)

// Where a range lies: on CUDA 0, and CUDA 2 and the host may access it; it was prefetched to NUMA node 0.
namespace {
void range(int attribute, void* data, size_t bytes) {
  const int accessed[] = {0, 2, -1};
  int* values = static_cast<int*>(data);
  for (size_t i = 0; i < bytes / sizeof(int); ++i) {
    if (attribute == cudaMemRangeAttributeAccessedBy)
      values[i] = i < 3 ? accessed[i] : -2;
    else if (attribute == cudaMemRangeAttributePreferredLocationType)
      values[i] = cudaMemLocationTypeDevice;
    else if (attribute == cudaMemRangeAttributeLastPrefetchLocationType)
      values[i] = cudaMemLocationTypeHostNuma;
    else
      values[i] = 0;
  }
}
}  // namespace
ANSWER(cudaMemRangeGetAttribute, (void* data, size_t bytes, int attribute, const void*, size_t),
       range(attribute, data, bytes))
ANSWER(cudaMemRangeGetAttributes,
       (void** data, size_t* bytes, int* attributes, size_t count, const void*, size_t),
       for (size_t i = 0; i < count; ++i) range(attributes[i], data[i], bytes[i]))
ANSWER(cudaMemPoolGetAttribute, (void*, int attribute, void* value),
       *static_cast<int*>(value) = attribute == 12 ? static_cast<int>(cudaMemLocationTypeDevice) : 0)

// A graph's node: CUDA writes the address of its memory, and keeps the list of who may access it.
namespace {
cudaMemAccessDesc kept[2];
cudaMemAllocNodeParams node;
void add(const char* name, cudaMemAllocNodeParams* p) {
  const int ordinals[] = {p->poolProps.location.id, p->accessDescs[0].location.id,
                          p->accessDescs[1].location.id};
  say(name, ordinals, 3);
  std::memcpy(kept, p->accessDescs, sizeof kept);
  node = *p;
  node.accessDescs = kept;
  p->dptr = reinterpret_cast<void*>(0x1000);
}
#if ECHO_MAJOR >= 12
void add(const char* name, cudaGraphNodeParams* p) {
  if (p->type != cudaGraphNodeTypeMemAlloc) {
    std::printf("%s of another kind\n", name);
    return;
  }
  cudaMemAllocNodeParams own{};
  std::memcpy(&own, &p->alloc, sizeof own);
  add(name, &own);
  p->alloc.dptr = own.dptr;
}
#endif
}  // namespace
ANSWER(cudaGraphAddMemAllocNode, (void*, void*, const void*, size_t, cudaMemAllocNodeParams* p),
       add("cudaGraphAddMemAllocNode", p))
ANSWER(cudaGraphMemAllocNodeGetParams, (void*, cudaMemAllocNodeParams* out), *out = node)

#if ECHO_MAJOR < 13
ECHO(cudaMemAdvise, (const void*, size_t, int, int device), device)
ECHO(cudaMemPrefetchAsync, (const void*, size_t, int device, void*), device)
ECHO(cudaMemPrefetchAsync_ptsz, (const void*, size_t, int device, void*), device)
#endif
#if ECHO_MAJOR >= 12
ECHO(cudaInitDevice, (int device, unsigned, unsigned), device)
ECHO(cudaDeviceRegisterAsyncNotification, (int device, void*, void*, void*), device)
ECHO(cudaDeviceUnregisterAsyncNotification, (int device, void*), device)
ECHO(cudaKernelSetAttributeForDevice, (void*, int, int, int device), device)
ANSWER(cudaStreamGetDevice, (void*, int* device), *device = 0)
ANSWER(cudaStreamGetDevice_ptsz, (void*, int* device), *device = 0)
ANSWER(cudaGraphNodeSetParams, (void*, cudaGraphNodeParams* p), add("cudaGraphNodeSetParams", p))
ANSWER(cudaGraphExecNodeSetParams, (void*, void*, cudaGraphNodeParams* p),
       add("cudaGraphExecNodeSetParams", p))
#define OF_OPERATION(o) (o).src.op.ptr.locHint.id, (o).dst.op.ptr.locHint.id
#endif
#if ECHO_MAJOR == 12
ECHO(cudaMemAdvise_v2, (const void*, size_t, int, Location l), l.id)
ECHO(cudaMemPrefetchAsync_v2, (const void*, size_t, Location l, unsigned, void*), l.id)
ECHO(cudaMemPrefetchAsync_v2_ptsz, (const void*, size_t, Location l, unsigned, void*), l.id)
#define BATCH(name)                                                                                          \
  ECHO(name,                                                                                                 \
       (void**, void**, size_t*, size_t, cudaMemcpyAttributes* a, size_t*, size_t n, size_t* failed, void*), \
       a[n - 1].srcLocHint.id, a[n - 1].dstLocHint.id, static_cast<int>(*failed))
#define BATCH_3D(name)                                                                        \
  ECHO(name, (size_t n, cudaMemcpy3DBatchOp * o, size_t * failed, unsigned long long, void*), \
       OF_OPERATION(o[n - 1]), static_cast<int>(*failed))
ANSWER(cudaGraphAddNode, (void*, void*, const void*, size_t, cudaGraphNodeParams* p),
       add("cudaGraphAddNode", p))
ANSWER(cudaGraphAddNode_v2, (void*, void*, const void*, const void*, size_t, cudaGraphNodeParams* p),
       add("cudaGraphAddNode_v2", p))
#elif ECHO_MAJOR == 13
ECHO(cudaDeviceGetHostAtomicCapabilities, (unsigned*, const void*, unsigned, int device), device)
ECHO(cudaDeviceGetP2PAtomicCapabilities, (unsigned*, const void*, unsigned, int from, int to), from, to)
ECHO(cudaMemAdvise, (const void*, size_t, int, Location l), l.id)
ECHO(cudaMemPrefetchAsync, (const void*, size_t, Location l, unsigned, void*), l.id)
ECHO(cudaMemPrefetchAsync_ptsz, (const void*, size_t, Location l, unsigned, void*), l.id)
#define PREFETCH_BATCH(name)                                                                                \
  ECHO(name, (void**, size_t*, size_t, Location* l, size_t*, size_t n, unsigned long long, void*), l[0].id, \
       l[n - 1].id)
PREFETCH_BATCH(cudaMemPrefetchBatchAsync)
PREFETCH_BATCH(cudaMemPrefetchBatchAsync_ptsz)
PREFETCH_BATCH(cudaMemDiscardAndPrefetchBatchAsync)
PREFETCH_BATCH(cudaMemDiscardAndPrefetchBatchAsync_ptsz)
ECHO(cudaMemGetDefaultMemPool, (void*, Location* l, int), l->id)
ECHO(cudaMemGetMemPool, (void*, Location* l, int), l->id)
ECHO(cudaMemSetMemPool, (Location * l, int, void*), l->id)
#define BATCH(name)                                                                                          \
  ECHO(name,                                                                                                 \
       (void* const*, const void* const*, const size_t*, size_t, cudaMemcpyAttributes* a, size_t*, size_t n, \
        void*),                                                                                              \
       a[n - 1].srcLocHint.id, a[n - 1].dstLocHint.id)
#define BATCH_3D(name) \
  ECHO(name, (size_t n, cudaMemcpy3DBatchOp * o, unsigned long long, void*), OF_OPERATION(o[n - 1]))
ANSWER(cudaGraphAddNode, (void*, void*, const void*, const void*, size_t, cudaGraphNodeParams* p),
       add("cudaGraphAddNode", p))
// Of later releases.
ECHO(cudaDeviceGetExecutionCtx, (void**, int device), device)
ECHO(cudaDeviceGetDevResource, (int device, void*, int), device)
ECHO(cudaGreenCtxCreate, (void**, void*, int device, unsigned), device)
ANSWER(cudaExecutionCtxGetDevice, (int* device, void*), *device = 0)
ANSWER(cudaGraphNodeGetParams, (void*, cudaGraphNodeParams* out), out->type = cudaGraphNodeTypeMemAlloc;
       std::memcpy(&out->alloc, &node, sizeof node))
ANSWER(
    cudaMemGetLocationInfo, (void*, size_t bytes, size_t step, size_t, Location* out),
    for (size_t i = 0; i < (bytes + step - 1) / step; ++i) {
      out[i].type = i == 0 ? cudaMemLocationTypeDevice : cudaMemLocationTypeHostNuma;
      out[i].id = 0;
    })
ECHO(cudaMemcpyWithAttributesAsync, (void*, const void*, size_t, cudaMemcpyAttributes* a, void*),
     a->srcLocHint.id, a->dstLocHint.id)
ECHO(cudaMemcpyWithAttributesAsync_ptsz, (void*, const void*, size_t, cudaMemcpyAttributes* a, void*),
     a->srcLocHint.id, a->dstLocHint.id)
ECHO(cudaMemcpy3DWithAttributesAsync, (cudaMemcpy3DBatchOp * o, unsigned long long, void*), OF_OPERATION(*o))
ECHO(cudaMemcpy3DWithAttributesAsync_ptsz, (cudaMemcpy3DBatchOp * o, unsigned long long, void*),
     OF_OPERATION(*o))
#endif
#if ECHO_MAJOR >= 12
BATCH(cudaMemcpyBatchAsync)
BATCH(cudaMemcpyBatchAsync_ptsz)
BATCH_3D(cudaMemcpy3DBatchAsync)
BATCH_3D(cudaMemcpy3DBatchAsync_ptsz)
#endif
#if ECHO_MAJOR == 12
ECHO(cudaGetDeviceProperties_v2, (void*, int device), device)
#endif
ECHO(cudaGetDeviceProperties, (void*, int device), device)
