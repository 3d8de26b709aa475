// What memory costs that a cap has to count: arrays, pools, graph memory; and whether a pool can be read
// inside a capture.
#include <vector>

#include "ask.h"

namespace ask {

void array_sizes() {
  start();
  struct Case {
    const char* what;
    size_t width, height, depth;
    CUarray_format format;
    unsigned channels, flags, channel_bytes;
  };
  const Case cases[] = {
      {"float1 4096x4096", 4096, 4096, 0, CU_AD_FORMAT_FLOAT, 1, 0, 4},
      {"float1 4097x4097", 4097, 4097, 0, CU_AD_FORMAT_FLOAT, 1, 0, 4},
      {"float4 2048x2048", 2048, 2048, 0, CU_AD_FORMAT_FLOAT, 4, 0, 4},
      {"float2 1000x1000", 1000, 1000, 0, CU_AD_FORMAT_FLOAT, 2, 0, 4},
      {"half1 4096x4096", 4096, 4096, 0, CU_AD_FORMAT_HALF, 1, 0, 2},
      {"half4 1023x1025", 1023, 1025, 0, CU_AD_FORMAT_HALF, 4, 0, 2},
      {"uint8x1 8192x8192", 8192, 8192, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 1},
      {"uint8x4 3000x2000", 3000, 2000, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0, 1},
      {"uint16x2 2500x2500", 2500, 2500, 0, CU_AD_FORMAT_UNSIGNED_INT16, 2, 0, 2},
      {"int32x1 131072 (1D)", 131072, 0, 0, CU_AD_FORMAT_SIGNED_INT32, 1, 0, 4},
      {"int32x4 65536 (1D)", 65536, 0, 0, CU_AD_FORMAT_SIGNED_INT32, 4, 0, 4},
      {"float1 256x256x256", 256, 256, 256, CU_AD_FORMAT_FLOAT, 1, 0, 4},
      {"float4 100x100x100", 100, 100, 100, CU_AD_FORMAT_FLOAT, 4, 0, 4},
      {"uint8x1 513x513x65", 513, 513, 65, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 1},
      {"float1 1024x1024, 16 layers", 1024, 1024, 16, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED, 4},
      {"half2 4096, 64 layers (1D)", 4096, 0, 64, CU_AD_FORMAT_HALF, 2, CUDA_ARRAY3D_LAYERED, 2},
      {"float1 cube of 1024", 1024, 1024, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP, 4},
      {"uint8x4 2048x2048 for surfaces", 2048, 2048, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4,
       CUDA_ARRAY3D_SURFACE_LDST, 1},
      {"float1 4096x4096 for gather", 4096, 4096, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_TEXTURE_GATHER, 4},
      {"int16x1 1x1", 1, 1, 0, CU_AD_FORMAT_SIGNED_INT16, 1, 0, 2},
  };
  CUarray first = nullptr;  // what the driver takes for itself with the first array is not the arrays'
  CUDA_ARRAY3D_DESCRIPTOR small{};
  small.Width = small.Height = 8;
  small.Format = CU_AD_FORMAT_FLOAT;
  small.NumChannels = 1;
  NEED(cuArray3DCreate(&first, &small));
  for (const Case& c : cases) {
    CUDA_ARRAY3D_DESCRIPTOR d{};
    d.Width = c.width;
    d.Height = c.height;
    d.Depth = c.depth;
    d.Format = c.format;
    d.NumChannels = c.channels;
    d.Flags = c.flags;
    const size_t computed = c.width * (c.height == 0 ? 1 : c.height) * (c.depth == 0 ? 1 : c.depth) *
                            c.channels * c.channel_bytes;
    std::string twin = "no twin";
    CUarray deferred = nullptr;
    d.Flags = c.flags | CUDA_ARRAY3D_DEFERRED_MAPPING;
    if (const CUresult made = cuArray3DCreate(&deferred, &d); made == CUDA_SUCCESS) {
      CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
      const CUresult told = cuArrayGetMemoryRequirements(&needs, deferred, 0);
      twin = told == CUDA_SUCCESS ? std::to_string(needs.size) : name_of(told);
      cuArrayDestroy(deferred);
    } else {
      twin = name_of(made);
    }
    d.Flags = c.flags;
    // Several, so that what the driver takes in larger pieces shows as a mean.
    constexpr int kSeveral = 4;
    CUarray arrays[kSeveral] = {};
    const long long before = free_bytes();
    CUresult made = CUDA_SUCCESS;
    for (CUarray& array : arrays)
      if (made == CUDA_SUCCESS) made = cuArray3DCreate(&array, &d);
    const long long fell = before - free_bytes();
    for (const CUarray array : arrays)
      if (array != nullptr) cuArrayDestroy(array);
    if (made != CUDA_SUCCESS)
      fact(c.what, "%s", name_of(made).c_str());
    else
      fact(c.what, "computed %zu, deferred twin %s, free memory fell by %lld for %d", computed, twin.c_str(),
           fell, kSeveral);
  }
}

namespace {

CUmemPoolProps props(size_t most = 0) {
  CUmemPoolProps p{};
  p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  p.maxSize = most;
  return p;
}

unsigned long long told(CUmemoryPool pool, CUmemPool_attribute which) {
  cuuint64_t value = 0;
  NEED(cuMemPoolGetAttribute(pool, which, &value));
  return value;
}

unsigned long long reserved(CUmemoryPool pool) {
  return told(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

CUmemoryPool new_pool(size_t most = 0) {
  const CUmemPoolProps p = props(most);
  CUmemoryPool pool = nullptr;
  NEED(cuMemPoolCreate(&pool, &p));
  cuuint64_t keep = UINT64_MAX;
  NEED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  return pool;
}

}  // namespace

void pools() {
  start();
  const CUmemoryPool pool = new_pool();
  std::vector<CUdeviceptr> held;
  for (const size_t bytes :
       {size_t{1}, kMiB, kMiB, 2 * kMiB, 8 * kMiB, 31 * kMiB, 32 * kMiB, 33 * kMiB, 100 * kMiB, 500 * kMiB}) {
    CUdeviceptr memory = 0;
    const long long before = free_bytes();
    NEED(cuMemAllocFromPoolAsync(&memory, bytes, pool, nullptr));
    NEED(cuCtxSynchronize());
    held.push_back(memory);
    fact("after " + std::to_string(bytes) + " bytes more",
         "reserved %llu, used %llu, free memory fell by %lld", reserved(pool),
         told(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), before - free_bytes());
  }
  for (size_t i = 0; i < held.size(); i += 2) NEED(cuMemFreeAsync(held[i], nullptr));
  NEED(cuCtxSynchronize());
  fact("after every other was freed", "reserved %llu, used %llu", reserved(pool),
       told(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  NEED(cuMemPoolTrimTo(pool, 0));
  fact("after a trim to 0 with the others in use", "reserved %llu", reserved(pool));
  for (size_t i = 1; i < held.size(); i += 2) NEED(cuMemFreeAsync(held[i], nullptr));
  NEED(cuCtxSynchronize());
  NEED(cuMemPoolTrimTo(pool, 40 * kMiB));
  fact("after all were freed and a trim to 40 MiB", "reserved %llu", reserved(pool));
  NEED(cuMemPoolTrimTo(pool, 0));
  fact("after a trim to 0", "reserved %llu", reserved(pool));
  for (const size_t most : {kMiB, 10 * kMiB, 100 * kMiB}) {
    const CUmemoryPool small = new_pool(most);
    CUdeviceptr memory = 0;
    size_t got = 0;
    CUresult result = CUDA_SUCCESS;
    for (; got < 4 * most && result == CUDA_SUCCESS; got += result == CUDA_SUCCESS ? most / 4 : 0)
      result = cuMemAllocFromPoolAsync(&memory, most / 4, small, nullptr);
    fact("maxSize of " + std::to_string(most), "gave %zu in quarters, then %s; reserved %llu", got,
         name_of(result).c_str(), reserved(small));
  }
}

void graph_memory() {
  start();
  const auto told_of = [](CUgraphMem_attribute which) {
    cuuint64_t value = 0;
    NEED(cuDeviceGetGraphMemAttribute(0, which, &value));
    return static_cast<unsigned long long>(value);
  };
  const auto say = [&](const char* when) {
    fact(when, "reserved %llu, used %llu, free memory %lld", told_of(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT),
         told_of(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), free_bytes());
  };
  CUgraph graph = nullptr;
  NEED(cuGraphCreate(&graph, 0));
  say("at first");
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps = props();
  params.bytesize = 64 * kMiB;
  CUgraphNode made = nullptr, freed = nullptr;
  NEED(cuGraphAddMemAllocNode(&made, graph, nullptr, 0, &params));
  NEED(cuGraphAddMemFreeNode(&freed, graph, &made, 1, params.dptr));
  say("with nodes for 64 MiB");
  CUgraphExec exec = nullptr;
  NEED(cuGraphInstantiateWithFlags(&exec, graph, 0));
  say("instantiated");
  CUstream stream = nullptr;
  NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  NEED(cuGraphUpload(exec, stream));
  NEED(cuStreamSynchronize(stream));
  say("uploaded");
  NEED(cuGraphLaunch(exec, stream));
  NEED(cuStreamSynchronize(stream));
  say("launched once");
  NEED(cuGraphLaunch(exec, stream));
  NEED(cuStreamSynchronize(stream));
  say("launched twice");
  NEED(cuDeviceGraphMemTrim(0));
  say("trimmed");
  NEED(cuGraphExecDestroy(exec));
  say("exec destroyed");
  NEED(cuDeviceGraphMemTrim(0));
  say("trimmed again");
}

void capture_reads() {
  start();
  CUmemoryPool pool = nullptr;
  NEED(cuDeviceGetDefaultMemPool(&pool, 0));
  CUstream stream = nullptr;
  NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (const bool relaxed : {true, false}) {
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (relaxed) NEED(cuThreadExchangeStreamCaptureMode(&mode));
    cuuint64_t value = 0;
    const CUresult read = cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
    size_t free = 0, total = 0;
    const CUresult info = cuMemGetInfo(&free, &total);
    if (relaxed) NEED(cuThreadExchangeStreamCaptureMode(&mode));
    CUstreamCaptureStatus status{};
    NEED(cuStreamIsCapturing(stream, &status));
    CUgraph graph = nullptr;
    const CUresult end = cuStreamEndCapture(stream, &graph);
    fact(relaxed ? "with the thread's mode relaxed" : "with the thread's mode as it is",
         "pool attribute %s, cuMemGetInfo %s, capture %s, its end %s", name_of(read).c_str(),
         name_of(info).c_str(), status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? "still active" : "invalidated",
         name_of(end).c_str());
    if (graph != nullptr) cuGraphDestroy(graph);
  }
}

}  // namespace ask
