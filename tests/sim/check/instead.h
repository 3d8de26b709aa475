// What works on the simulated machine in the place of a call or an instruction that does not. For the line
// that says so (GF601), before the start or at the call.
#pragma once
#include <string_view>

namespace gpufence::sim {

struct Instead {
  std::string_view begins;
  std::string_view remedy;
};

// The first that fits counts.
constexpr Instead kInsteadOfCalls[] = {
    {"cuGraphicsGL", "OpenGL needs a GPU with a display"},
    {"cuGL", "OpenGL needs a GPU with a display"},
    {"cudaGL", "OpenGL needs a GPU with a display"},
    {"cudaGraphicsGL", "OpenGL needs a GPU with a display"},
    {"cuGraphics", "graphics need a GPU with a display"},
    {"cudaGraphics", "graphics need a GPU with a display"},
    {"cuGraphAddExternalSemaphores", "event record and event wait nodes work"},
    {"cuGraphExternalSemaphores", "event record and event wait nodes work"},
    {"cuGraphExecExternalSemaphores", "event record and event wait nodes work"},
    {"cudaGraphAddExternalSemaphores", "event record and event wait nodes work"},
    {"cudaGraphExternalSemaphores", "event record and event wait nodes work"},
    {"cudaGraphExecExternalSemaphores", "event record and event wait nodes work"},
    {"cuGraphAddBatchMemOp", "memset, memcpy and event nodes work"},
    {"cuGraphBatchMemOp", "memset, memcpy and event nodes work"},
    {"cuGraphExecBatchMemOp", "memset, memcpy and event nodes work"},
    {"cuEGL", "EGL streams need a GPU"},
    {"cudaEGL", "EGL streams need a GPU"},
    {"cuVDPAU", "VDPAU needs a GPU with a display"},
    {"cudaVDPAU", "VDPAU needs a GPU with a display"},
    {"cuImportExternal",
     "share memory by cuIpcGetMemHandle or cuMemExportToShareableHandle, events by cuIpcGetEventHandle"},
    {"cudaImportExternal", "share memory by cudaIpcGetMemHandle, events by cudaIpcGetEventHandle"},
    {"cuExternalMemory", "share memory by cuIpcGetMemHandle or cuMemExportToShareableHandle"},
    {"cudaExternalMemory", "share memory by cudaIpcGetMemHandle"},
    {"cuSignalExternalSemaphores", "let streams wait by events, between processes by cuIpcGetEventHandle"},
    {"cuWaitExternalSemaphores", "let streams wait by events, between processes by cuIpcGetEventHandle"},
    {"cudaSignalExternalSemaphores",
     "let streams wait by events, between processes by cudaIpcGetEventHandle"},
    {"cudaWaitExternalSemaphores", "let streams wait by events, between processes by cudaIpcGetEventHandle"},
    {"cuDestroyExternal", "share memory by cuIpcGetMemHandle, events by cuIpcGetEventHandle"},
    {"cudaDestroyExternal", "share memory by cudaIpcGetMemHandle, events by cudaIpcGetEventHandle"},
    {"cuMulticast", "map each GPU's memory by cuMemMap and copy between them"},
    {"cuTexRef", "texture objects (cuTexObjectCreate) work"},
    {"cuModuleGetTexRef", "texture objects (cuTexObjectCreate) work"},
    {"cuSurfRef", "surface objects (cuSurfObjectCreate) work"},
    {"cuModuleGetSurfRef", "surface objects (cuSurfObjectCreate) work"},
    {"cuCheckpoint", "checkpoints need a GPU"},
    {"cuCoredump", "core dumps of the GPU need a GPU"},
    {"cuGreenCtx", "share a GPU between streams by their priorities"},
    {"cuCtxFromGreenCtx", "share a GPU between streams by their priorities"},
    {"cuStreamGetGreenCtx", "share a GPU between streams by their priorities"},
    {"cuDevResource", "share a GPU between streams by their priorities"},
    {"cuDevSmResource", "share a GPU between streams by their priorities"},
    {"cuDeviceGetDevResource", "share a GPU between streams by their priorities"},
    {"cuCtxGetDevResource", "share a GPU between streams by their priorities"},
    {"cuTensorMap", "copy tiles by cp.async or by plain loads and stores"},
    {"cuMemBatchDecompress", "decompress by a kernel or on the host"},
    {"cuMemMapArrayAsync", "arrays that are wholly there are simulated: cuArray3DCreate"},
    {"cuStreamBatchMemOp", "compile it for CUDA 11.7 or newer, whose second version of the call works"},
    {"cuStreamWaitValue", "compile it for CUDA 11.7 or newer, whose second version of the call works"},
    {"cuStreamWriteValue", "compile it for CUDA 11.7 or newer, whose second version of the call works"},
    {"cuMemGetHandleForAddressRange", "share memory by cuMemExportToShareableHandle"},
    {"cuFlushGPUDirectRDMAWrites", "no other device writes to a simulated GPU"},
    {"cudaDeviceFlushGPUDirectRDMAWrites", "no other device writes to a simulated GPU"},
    {"cuLaunchCooperativeKernelMultiDevice", "launch on each GPU by cuLaunchCooperativeKernel"},
};

constexpr Instead kInsteadOfInstructions[] = {
    {"wmma.", "tensor cores are not simulated: compile the path for GPUs without them"},
    {"mma.", "tensor cores are not simulated: compile the path for GPUs without them"},
    {"wgmma.", "tensor cores are not simulated: compile the path for GPUs without them"},
    {"tcgen05.", "tensor cores are not simulated: compile the path for GPUs without them"},
    {"ldmatrix", "tensor cores are not simulated: compile the path for GPUs without them"},
    {"stmatrix", "tensor cores are not simulated: compile the path for GPUs without them"},
    {"movmatrix", "tensor cores are not simulated: compile the path for GPUs without them"},
    {"cp.async.bulk", "copy by cp.async or by plain loads and stores"},
    {"cp.reduce.async.bulk", "reduce by atomics"},
    {"tex.", "texture objects work, with samplers of their own, without several samples or depths"},
    {"tld4.", "texture objects work, with samplers of their own, without depths"},
    {"multimem.", "map each GPU's memory and add up by plain loads"},
    {"griddepcontrol", "launch without programmatic serialization"},
    {"undefined function cudaGraphLaunch", "launch the graph from the host"},
    {"undefined function cudaGraphKernelNode",
     "change the node from the host: cudaGraphExecKernelNodeSetParams"},
    {"setmaxnreg", "compile the path for GPUs before compute capability 9.0"},
};

template <unsigned long N>
constexpr std::string_view instead_of(std::string_view name, const Instead (&table)[N]) {
  for (const Instead& entry : table)
    if (name.substr(0, entry.begins.size()) == entry.begins) return entry.remedy;
  return "run it on a GPU";
}

constexpr std::string_view instead_of_call(std::string_view name) {
  return instead_of(name, kInsteadOfCalls);
}
// `why`: as the interpreter says it, "unsupported instruction wmma.load.a.sync… in f, line 12 of the PTX".
constexpr std::string_view instead_of_instruction(std::string_view why) {
  constexpr std::string_view kBefore = "unsupported instruction ";
  if (why.substr(0, kBefore.size()) == kBefore) why.remove_prefix(kBefore.size());
  return instead_of(why, kInsteadOfInstructions);
}

}  // namespace gpufence::sim
