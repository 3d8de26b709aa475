// Graphs and captures through the runtime's own entry points: twins for a default stream per thread, and what
// failures leave as the thread's last error. Source: cuda_runtime_api.h.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>

// What programs compiled with a default stream per thread call; the headers rename to them.
extern "C" {
cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaMemsetAsync_ptsz(void* memory, int value, size_t count, cudaStream_t stream);
cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);
cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec, cudaStream_t stream);
}

namespace {

#define OK(call) EXPECT_EQ(call, cudaSuccess)

TEST(RuntimeGraphs, KeepFailuresAsTheLastError) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaGraphCreate(&graph, 5), cudaErrorInvalidValue);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t node = nullptr;
  cudaKernelNodeParams kernel{};
  EXPECT_EQ(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
  char byte = 0;
  EXPECT_EQ(
      cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, &byte, &byte, 1, static_cast<cudaMemcpyKind>(9)),
      cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(
      cudaGraphAddMemcpyNodeToSymbol(&node, graph, nullptr, 0, &byte, &byte, 1, 0, cudaMemcpyHostToDevice),
      cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGraphMemTrim(77), cudaErrorInvalidDevice);
  cudaGetLastError();
  OK(cudaGraphDestroy(graph));
}

TEST(RuntimeGraphs, HaveTwinsForADefaultStreamPerThread) {
  void* memory = nullptr;
  OK(cudaMalloc(&memory, 64));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  cudaGetLastError();
  OK(cudaStreamBeginCapture_ptsz(nullptr, cudaStreamCaptureModeRelaxed));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  OK(cudaStreamIsCapturing_ptsz(nullptr, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  // It is a blocking stream: the legacy one is barred.
  EXPECT_EQ(cudaStreamIsCapturing(nullptr, &status), cudaErrorStreamCaptureImplicit);
  cudaGetLastError();
  OK(cudaMemsetAsync_ptsz(memory, 3, 64, nullptr));
  OK(cudaStreamEndCapture_ptsz(nullptr, &graph));
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphUpload_ptsz(exec, nullptr));
  OK(cudaGraphLaunch_ptsz(exec, nullptr));
  OK(cudaStreamSynchronize_ptsz(nullptr));
  char byte = 0;
  OK(cudaMemcpy(&byte, static_cast<char*>(memory) + 63, 1, cudaMemcpyDeviceToHost));
  EXPECT_EQ(byte, 3);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
}

TEST(RuntimeGraphs, TellCopiesInTheRuntimesWords) {
  void* memory = nullptr;
  int host[4] = {};
  OK(cudaMalloc(&memory, 64));
  cudaGraph_t graph = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t node = nullptr;
  OK(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, memory, host, sizeof host, cudaMemcpyHostToDevice));
  cudaMemcpy3DParms told{};
  OK(cudaGraphMemcpyNodeGetParams(node, &told));
  EXPECT_EQ(told.kind, cudaMemcpyHostToDevice);
  EXPECT_EQ(told.srcPtr.ptr, host);
  EXPECT_EQ(told.dstPtr.ptr, memory);
  EXPECT_EQ(told.extent.width, sizeof host);
  EXPECT_EQ(told.extent.height, 1u);
  // What was told may be set again.
  OK(cudaGraphMemcpyNodeSetParams(node, &told));
  OK(cudaGraphMemcpyNodeSetParams1D(node, host, memory, 8, cudaMemcpyDefault));
  OK(cudaGraphMemcpyNodeGetParams(node, &told));
  EXPECT_EQ(told.kind, cudaMemcpyDefault);
  EXPECT_EQ(told.extent.width, 8u);
  OK(cudaGraphDestroy(graph));
}

TEST(RuntimeGraphs, WithExternalSemaphoresAreRefusedAloud) {
  testing::internal::CaptureStderr();
  cudaGraphNode_t node = nullptr;
  cudaGraph_t graph = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  const cudaExternalSemaphoreWaitNodeParams params{};
  EXPECT_EQ(cudaGraphAddExternalSemaphoresWaitNode(&node, graph, nullptr, 0, &params), cudaErrorNotSupported);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(
      said.find("GF601 warning: the simulator has no cudaGraphAddExternalSemaphoresWaitNode: it answered "
                "cudaErrorNotSupported; event record and event wait nodes work"),
      std::string::npos)
      << said;
}

}  // namespace
