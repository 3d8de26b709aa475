// Takes memory by one of CUDA's ways, a step at a time, until the first refusal; gives all of it back,
// synchronises and trims. Usage: families WAY STEP_BYTES. Prints what was obtained, the answer, and what is
// free in the end:
//   alloc 1073741824 CUDA_ERROR_OUT_OF_MEMORY free 1073741824
// Ways: alloc alloc_v1 pitch managed async async_ptsz pool vmm vmm_mapped array array3d mipmap graph
// graph_node captured keeps destroyed
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef __CUDA_API_VERSION_INTERNAL

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "check.h"

// With the macro above cuda.h has the exported names, which these are.
namespace {

std::vector<std::function<void()>> undo;
CUstream stream;

CUresult alloc(size_t step) {
  CUdeviceptr memory = 0;
  const CUresult result = cuMemAlloc_v2(&memory, step);
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuMemFree_v2(memory)); });
  return result;
}

CUresult alloc_v1(size_t step) {
  CUdeviceptr_v1 memory = 0;
  const CUresult result = cuMemAlloc(&memory, static_cast<unsigned>(step));
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuMemFree(memory)); });
  return result;
}

CUresult pitch(size_t step) {
  CUdeviceptr memory = 0;
  size_t row = 0;
  const CUresult result = cuMemAllocPitch_v2(&memory, &row, 4096, step / 4096, 4);
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuMemFree_v2(memory)); });
  return result;
}

CUresult managed(size_t step) {
  CUdeviceptr memory = 0;
  const CUresult result = cuMemAllocManaged(&memory, step, CU_MEM_ATTACH_GLOBAL);
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuMemFree_v2(memory)); });
  return result;
}

void trim(CUmemoryPool pool) {
  undo.insert(undo.begin(), [=] {
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemPoolTrimTo(pool, 0));
  });
}

CUresult async(size_t step) {
  CUmemoryPool pool = nullptr;
  if (undo.empty()) {
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    trim(pool);
  }
  CUdeviceptr memory = 0;
  const CUresult result = cuMemAllocAsync(&memory, step, stream);
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuMemFreeAsync(memory, stream)); });
  return result;
}

CUresult async_ptsz(size_t step) {
  CUmemoryPool pool = nullptr;
  if (undo.empty()) {
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    trim(pool);
  }
  CUdeviceptr memory = 0;
  const CUresult result = cuMemAllocAsync_ptsz(&memory, step, stream);
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuMemFreeAsync_ptsz(memory, stream)); });
  return result;
}

CUresult pool(size_t step) {
  static CUmemoryPool own = nullptr;
  if (own == nullptr) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    CHECK(cuMemPoolCreate(&own, &props));
    undo.push_back([] {
      CHECK(cuStreamSynchronize(stream));
      CHECK(cuMemPoolDestroy(own));
    });
  }
  CUdeviceptr memory = 0;
  const CUresult result = cuMemAllocFromPoolAsync(&memory, step, own, stream);
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuMemFreeAsync(memory, stream)); });
  return result;
}

// The pool is destroyed at once; what was allocated from it lives on.
CUresult destroyed(size_t step) {
  if (undo.empty()) undo.push_back([] { CHECK(cuStreamSynchronize(stream)); });
  CUmemoryPool own = nullptr;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CHECK(cuMemPoolCreate(&own, &props));
  CUdeviceptr memory = 0;
  const CUresult result = cuMemAllocFromPoolAsync(&memory, step, own, stream);
  CHECK(cuMemPoolDestroy(own));
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuMemFreeAsync(memory, stream)); });
  return result;
}

CUmemAllocationProp on_gpu_0() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  return prop;
}

CUresult vmm(size_t step) {
  const CUmemAllocationProp prop = on_gpu_0();
  CUmemGenericAllocationHandle memory = 0;
  const CUresult result = cuMemCreate(&memory, step, &prop, 0);
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuMemRelease(memory)); });
  return result;
}

// Held by the mapping alone, and by a handle that was asked for again.
CUresult vmm_mapped(size_t step) {
  const CUmemAllocationProp prop = on_gpu_0();
  CUmemGenericAllocationHandle memory = 0, again = 0;
  const CUresult result = cuMemCreate(&memory, step, &prop, 0);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr address = 0;
  CHECK(cuMemAddressReserve(&address, step, 0, 0, 0));
  CHECK(cuMemMap(address, step, 0, memory, 0));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address)));
  undo.push_back([=] {
    CHECK(cuMemUnmap(address, step));
    CHECK(cuMemRelease(again));
    CHECK(cuMemAddressFree(address, step));
  });
  return result;
}

CUresult array(size_t step) {
  CUDA_ARRAY_DESCRIPTOR_v2 of{};
  of.Width = 4096;
  of.Height = step / 4096 / 4;
  of.Format = CU_AD_FORMAT_FLOAT;
  of.NumChannels = 1;
  CUarray made = nullptr;
  const CUresult result = cuArrayCreate_v2(&made, &of);
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuArrayDestroy(made)); });
  return result;
}

CUresult array3d(size_t step) {
  CUDA_ARRAY3D_DESCRIPTOR_v2 of{};
  of.Width = 512;
  of.Height = 512;
  of.Depth = step / 512 / 512 / 8;
  of.Format = CU_AD_FORMAT_HALF;
  of.NumChannels = 4;
  CUarray made = nullptr;
  const CUresult result = cuArray3DCreate_v2(&made, &of);
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuArrayDestroy(made)); });
  return result;
}

CUresult mipmap(size_t step) {
  CUDA_ARRAY3D_DESCRIPTOR_v2 of{};
  of.Width = 4096;
  of.Height = step / 4096 / 4;
  of.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  of.NumChannels = 4;
  CUmipmappedArray made = nullptr;
  const CUresult result = cuMipmappedArrayCreate(&made, &of, 1);
  if (result == CUDA_SUCCESS) undo.push_back([=] { CHECK(cuMipmappedArrayDestroy(made)); });
  return result;
}

// Launches what the graph allocates, and frees it outside.
CUresult launched(CUgraph graph, CUdeviceptr memory) {
  if (undo.empty())
    undo.push_back([] {
      CHECK(cuStreamSynchronize(stream));
      CHECK(cuDeviceGraphMemTrim(0));
    });
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  const CUresult result = cuGraphLaunch(exec, stream);
  if (result == CUDA_SUCCESS) {
    CHECK(cuStreamSynchronize(stream));
    undo.push_back([=] {
      CHECK(cuMemFreeAsync(memory, stream));
      CHECK(cuGraphExecDestroy(exec));
      CHECK(cuGraphDestroy(graph));
    });
  }
  return result;
}

CUresult graph(size_t step) {
  CUgraph made = nullptr;
  CUgraphNode node = nullptr;
  CHECK(cuGraphCreate(&made, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS_v1 params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  params.bytesize = step;
  CHECK(cuGraphAddMemAllocNode(&node, made, nullptr, 0, &params));
  return launched(made, params.dptr);
}

CUresult graph_node(size_t step) {
  CUgraph made = nullptr;
  CUgraphNode node = nullptr;
  CHECK(cuGraphCreate(&made, 0));
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.alloc.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  params.alloc.bytesize = step;
  CHECK(cuGraphAddNode_v2(&node, made, nullptr, nullptr, 0, &params));
  return launched(made, params.alloc.dptr);
}

CUresult captured(size_t step) {
  CUgraph made = nullptr;
  CUdeviceptr memory = 0;
  CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuMemAllocAsync(&memory, step, stream));
  CHECK(cuStreamEndCapture(stream, &made));
  return launched(made, memory);
}

// A pool that keeps all that it ever had, then memory of another kind.
CUresult keeps(size_t step) {
  if (undo.empty()) {
    CUmemoryPool own = nullptr;
    CHECK(cuDeviceGetDefaultMemPool(&own, 0));
    cuuint64_t all = UINT64_MAX;
    CHECK(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    std::vector<CUdeviceptr> memory(12);
    for (CUdeviceptr& one : memory) CHECK(cuMemAllocAsync(&one, step, stream));
    for (const CUdeviceptr one : memory) CHECK(cuMemFreeAsync(one, stream));
    CHECK(cuStreamSynchronize(stream));
  }
  return alloc(step);
}

struct Way {
  const char* name;
  CUresult (*take)(size_t step);
};
constexpr Way kWays[] = {
    {"alloc", alloc},           {"alloc_v1", alloc_v1},     {"pitch", pitch},       {"managed", managed},
    {"async", async},           {"async_ptsz", async_ptsz}, {"pool", pool},         {"vmm", vmm},
    {"vmm_mapped", vmm_mapped}, {"array", array},           {"array3d", array3d},   {"mipmap", mipmap},
    {"graph", graph},           {"graph_node", graph_node}, {"captured", captured}, {"keeps", keeps},
    {"destroyed", destroyed}};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const Way* way = nullptr;
  for (const Way& known : kWays)
    if (std::strcmp(known.name, argv[1]) == 0) way = &known;
  if (way == nullptr) return 2;
  const size_t step = std::strtoull(argv[2], nullptr, 10);
  CHECK(cuInit(0));
  CUdevice device;
  CUcontext context;
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuCtxCreate_v4(&context, nullptr, 0, device));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  size_t obtained = 0;
  CUresult answer = CUDA_SUCCESS;
  while ((answer = way->take(step)) == CUDA_SUCCESS && obtained < size_t{20} << 30) obtained += step;
  while (!undo.empty()) {
    undo.back()();
    undo.pop_back();
  }
  size_t free = 0, total = 0;
  CHECK(cuMemGetInfo_v2(&free, &total));
  std::printf("%s %zu %s free %zu\n", way->name, obtained, name_of(answer), free);
  return 0;
}
