// What is documented and a GPU does, and the simulated machine does not: each of these stands in README.md's
// list of known differences.
#include <cstring>

#include "driver.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // texture references, on purpose

namespace conform {
namespace {

CONFORMS(Base, MultiprocessorsAreAResource,
         "cuda.h, cuDeviceGetDevResource: get the type resources available to the device; "
         "CUdevSmResource::smCount: the amount of streaming multiprocessors available in this resource") {
  OK(cuInit(0));
  CUdevResource resource{};
  OK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_EQ(static_cast<int>(resource.sm.smCount), attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
}

CONFORMS(Base, CoreDumpSettingsTellTheirSize,
         "cuda.h, cuCoredumpGetAttributeGlobal: if value is NULL, the size of the memory region (in bytes) "
         "expected for attrib will be placed in size; CU_COREDUMP_ENABLE_ON_EXCEPTION: bool") {
  OK(cuInit(0));
  size_t size = 0;
  OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, nullptr, &size));
  EXPECT_EQ(size, sizeof(bool));
}

CONFORMS(
    Base, TensorMapsAreEncoded,
    "cuda.h, cuTensorMapEncodeTiled: creates a descriptor for Tensor Memory Access (TMA) object specified by "
    "the parameters describing a tiled region; supported on devices of compute capability 9.0 or higher") {
  Primary here;
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9, "compute capability 9.0");
  Memory memory(64 * 64 * 4);
  CUtensorMap map, untouched;
  memset(&map, 0, sizeof map);
  memset(&untouched, 0, sizeof untouched);
  const cuuint64_t extent[] = {64, 64}, stride[] = {64 * 4};
  const cuuint32_t box[] = {16, 16}, step[] = {1, 1};
  OK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2,
                            reinterpret_cast<void*>(CUdeviceptr{memory}), extent, stride, box, step,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                            CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  EXPECT_NE(memcmp(&map, &untouched, sizeof map), 0);
}

CONFORMS(Mapped, MulticastObjectsHaveAGranularity,
         "cuda.h, cuMulticastGetGranularity: calculates either the minimal or recommended granularity for a "
         "given set of multicast object properties") {
  OK(cuInit(0));
  NEEDS(devices() >= 2 && attribute(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED) == 1, "two GPUs with multicast");
  CUmulticastObjectProp prop{};
  prop.numDevices = 2;
  prop.size = 2 * kMiB;
  prop.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t least = 0;
  OK(cuMulticastGetGranularity(&least, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
  EXPECT_GT(least, 0u);
}

CONFORMS(Arrays, TextureReferencesKeepTheirFormat,
         "cuda.h, cuTexRefCreate: creates a texture reference and returns its handle; cuTexRefSetFormat: "
         "specifies the format of the data to be read; cuTexRefGetFormat returns it") {
  Primary here;
  CUtexref reference = nullptr;
  CUarray_format format{};
  int channels = 0;
  OK(cuTexRefCreate(&reference));
  OK(cuTexRefSetFormat(reference, CU_AD_FORMAT_UNSIGNED_INT16, 2));
  OK(cuTexRefGetFormat(&format, &channels, reference));
  EXPECT_EQ(format, CU_AD_FORMAT_UNSIGNED_INT16);
  EXPECT_EQ(channels, 2);
  if (reference != nullptr) {
    OK(cuTexRefDestroy(reference));
  }
}

CONFORMS(Graphs, NodesWriteValues,
         "cuda.h, cuGraphAddBatchMemOpNode: creates a new batch memory operation node; the paramArray inside "
         "nodeParams is copied; CU_STREAM_MEM_OP_WRITE_VALUE_32") {
  Primary here;
  Memory word(4);
  OK(cuMemsetD32(word, 1, 1));
  CUstreamBatchMemOpParams operation{};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = word;
  operation.writeValue.value = 2;
  CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
  params.ctx = here.context;
  params.count = 1;
  params.paramArray = &operation;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params));
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  EXPECT_EQ(word_at(word), 2u);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

}  // namespace
}  // namespace conform
