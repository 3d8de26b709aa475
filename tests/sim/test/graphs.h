// What tests of graphs and captures work with: a process with a context, kernels whose order shows in their
// result, and nodes of each kind.
#pragma once
#include <cuda.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "gate.h"
#include "gpus.h"
#include "process.h"

namespace gpufence::sim {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

// step: *at = *at * times + plus. set_if: sets a conditional handle to *at != 0 after taking one off *at.
inline constexpr const char* kGraphPtx = R"(
.version 8.0
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);

.visible .entry step(.param .u64 at, .param .u32 times, .param .u32 plus)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<6>;
  ld.param.u64 %rd1, [at];
  ld.param.u32 %r1, [times];
  ld.param.u32 %r2, [plus];
  ld.global.u32 %r3, [%rd1];
  mad.lo.u32 %r4, %r3, %r1, %r2;
  st.global.u32 [%rd1], %r4;
  ret;
}

.visible .entry count_down(.param .u64 handle, .param .u64 at)
{
  .reg .b64 %rd<4>;
  .reg .b32 %r<6>;
  .reg .pred %p1;
  ld.param.u64 %rd1, [handle];
  ld.param.u64 %rd2, [at];
  ld.global.u32 %r1, [%rd2];
  sub.u32 %r2, %r1, 1;
  st.global.u32 [%rd2], %r2;
  {
  .param .b64 param0;
  st.param.b64 [param0+0], %rd1;
  .param .b32 param1;
  st.param.b32 [param1+0], %r2;
  call.uni cudaGraphSetConditional, (param0, param1);
  }
  ret;
}

.visible .entry choose(.param .u64 handle, .param .u32 value)
{
  .reg .b64 %rd<4>;
  .reg .b32 %r<6>;
  ld.param.u64 %rd1, [handle];
  ld.param.u32 %r2, [value];
  {
  .param .b64 param0;
  st.param.b64 [param0+0], %rd1;
  .param .b32 param1;
  st.param.b32 [param1+0], %r2;
  call.uni cudaGraphSetConditional, (param0, param1);
  }
  ret;
}
)";

// Each test in a process with this machine and a context on its first GPU.
inline void on_machine(const std::string& machine, const std::function<void()>& body) {
  in_child({{"GPUFENCE_SIM", machine}}, [&] {
    OK(cuInit(0));
    context_on(0);
    body();
  });
}

inline CUfunction function_named(const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  OK(cuModuleLoadData(&module, kGraphPtx));
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

inline CUstream stream_of(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, flags));
  return stream;
}

inline CUevent event_of(unsigned flags = CU_EVENT_DISABLE_TIMING) {
  CUevent event = nullptr;
  OK(cuEventCreate(&event, flags));
  return event;
}

inline CUgraph a_graph() {
  CUgraph graph = nullptr;
  OK(cuGraphCreate(&graph, 0));
  return graph;
}

inline CUgraphExec instance_of(CUgraph graph, unsigned long long flags = 0) {
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, flags));
  return exec;
}

// A word of the GPU's.
class Word {
 public:
  explicit Word(unsigned value = 0) {
    OK(cuMemAlloc(&address, 4));
    set(value);
  }
  void set(unsigned value) { OK(cuMemcpyHtoD(address, &value, 4)); }
  unsigned get() const {
    unsigned value = 0;
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&value, address, 4));
    return value;
  }
  CUdeviceptr address = 0;
};

using Nodes = std::vector<CUgraphNode>;

// A launch of step, as nodes and captures take it.
class Step {
 public:
  Step(CUfunction function, CUdeviceptr at, unsigned times, unsigned plus)
      : at_(at), times_(times), plus_(plus) {
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = pointers_;
  }
  Step(const Step&) = delete;
  CUgraphNode add(CUgraph graph, const Nodes& behind = {}) const {
    CUgraphNode node = nullptr;
    OK(cuGraphAddKernelNode(&node, graph, behind.data(), behind.size(), &params));
    return node;
  }
  CUresult launch(CUstream stream) {
    return cuLaunchKernel(params.func, 1, 1, 1, 1, 1, 1, 0, stream, pointers_, nullptr);
  }
  CUDA_KERNEL_NODE_PARAMS params{};

 private:
  CUdeviceptr at_;
  unsigned times_, plus_;
  void* pointers_[3] = {&at_, &times_, &plus_};
};

inline CUgraphNode add_empty(CUgraph graph, const Nodes& behind = {}) {
  CUgraphNode node = nullptr;
  OK(cuGraphAddEmptyNode(&node, graph, behind.data(), behind.size()));
  return node;
}

inline CUgraphNode add_host(CUgraph graph, CUhostFn function, void* data, const Nodes& behind = {}) {
  CUgraphNode node = nullptr;
  const CUDA_HOST_NODE_PARAMS params{function, data};
  OK(cuGraphAddHostNode(&node, graph, behind.data(), behind.size(), &params));
  return node;
}

inline CUgraphNode add_memset(CUgraph graph, CUdeviceptr to, unsigned value, size_t words,
                              const Nodes& behind = {}) {
  CUgraphNode node = nullptr;
  CUcontext context = nullptr;
  OK(cuCtxGetCurrent(&context));
  const CUDA_MEMSET_NODE_PARAMS params{to, 0, value, 4, words, 1};
  OK(cuGraphAddMemsetNode(&node, graph, behind.data(), behind.size(), &params, context));
  return node;
}

// One row.
inline CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.dstMemoryType = copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = to;
  copy.srcDevice = from;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

inline CUgraphNode add_copy(CUgraph graph, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                            const Nodes& behind = {}) {
  CUgraphNode node = nullptr;
  CUcontext context = nullptr;
  OK(cuCtxGetCurrent(&context));
  const CUDA_MEMCPY3D copy = copy_of(to, from, bytes);
  OK(cuGraphAddMemcpyNode(&node, graph, behind.data(), behind.size(), &copy, context));
  return node;
}

inline Nodes nodes_of(CUgraph graph) {
  size_t count = 0;
  OK(cuGraphGetNodes(graph, nullptr, &count));
  Nodes nodes(count);
  OK(cuGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

inline CUgraphNodeType type_of(CUgraphNode node) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  OK(cuGraphNodeGetType(node, &type));
  return type;
}

// Letters, in the order in which host nodes write them.
class Letters {
 public:
  struct Letter {
    Letters* all;
    char letter;
  };
  CUgraphNode add(CUgraph graph, char letter, const Nodes& behind = {}) {
    return add_host(graph, write, new_letter(letter), behind);
  }
  Letter* new_letter(char letter) {
    letters_.push_back(std::make_unique<Letter>(Letter{this, letter}));
    return letters_.back().get();
  }
  std::string read() {
    std::lock_guard<std::mutex> held(lock_);
    return text_;
  }
  static void write(void* data) {
    auto* letter = static_cast<Letter*>(data);
    std::lock_guard<std::mutex> held(letter->all->lock_);
    letter->all->text_ += letter->letter;
  }

 private:
  std::mutex lock_;
  std::string text_;
  std::vector<std::unique_ptr<Letter>> letters_;
};

}  // namespace gpufence::sim
