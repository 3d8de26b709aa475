// Memory of graphs. Nodes that allocate take nothing when they are made: memory comes at a launch or an
// upload of the executable, from what the driver keeps for graphs on each GPU, and stays there until that is
// trimmed (stores.h).
#include <new>
#include <utility>

#include "hooks/launch.h"
#include "hooks/stores.h"

namespace gpufence::hooks {
namespace {

USES(cuGraphGetNodes);
USES(cuGraphNodeGetType);
USES(cuGraphMemAllocNodeGetParams);
USES(cuGraphChildGraphNodeGetGraph);

constexpr unsigned kNeeds = dispatch::kMemory;
constexpr int kDeepest = 16;  // child graphs in child graphs

// What an executable allocates, by row, and when its memory was last there: relaunched, it takes no more.
struct Executable {
  std::map<std::uint32_t, std::uint64_t> bytes;
  std::map<std::uint32_t, unsigned> backed_after;  // how often the store was trimmed before that
};

struct Executables {
  std::atomic<bool> any{false};
  std::mutex lock;
  std::map<CUgraphExec, Executable> known;
};
Executables& executables() noexcept {
  alignas(Executables) static unsigned char room[sizeof(Executables)];
  static Executables* const all = new (room) Executables;
  return *all;
}

void add_up(CUgraph graph, const Visible& seen, Executable& out, int depth) {
  std::size_t count = 0;
  if (depth > kDeepest ||
      real<&::cuGraphGetNodes>(graph, static_cast<CUgraphNode*>(nullptr), &count) != CUDA_SUCCESS)
    return;
  std::vector<CUgraphNode> nodes(count);
  if (count == 0 || real<&::cuGraphGetNodes>(graph, nodes.data(), &count) != CUDA_SUCCESS) return;
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    if (real<&::cuGraphNodeGetType>(node, &type) != CUDA_SUCCESS) continue;
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 of{};
    CUgraph child = nullptr;
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
        real<&::cuGraphMemAllocNodeGetParams>(node, &of) == CUDA_SUCCESS &&
        of.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE && seen.has(of.poolProps.location.id))
      out.bytes[static_cast<std::uint32_t>(of.poolProps.location.id)] += of.bytesize;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
        real<&::cuGraphChildGraphNodeGetGraph>(node, &child) == CUDA_SUCCESS)
      add_up(child, seen, out, depth + 1);
  }
}

CUresult instantiated(CUresult result, const CUgraphExec* made, CUgraph graph) noexcept {
  const Visible* seen = visible();
  if (result != CUDA_SUCCESS || made == nullptr || seen == nullptr) return result;
  try {
    Executable executable;
    add_up(graph, *seen, executable, 0);
    if (executable.bytes.empty()) return result;
    Executables& all = executables();
    const std::lock_guard guard(all.lock);
    all.known[*made] = std::move(executable);
    all.any.store(true, std::memory_order_relaxed);
  } catch (...) {
    // Out of host memory: what its launch takes is found at the next look at the store.
  }
  return result;
}

// The stores of several GPUs are entered one within the other, in order.
template <class Call>
CUresult backed(Visible& seen, std::map<std::uint32_t, std::uint64_t>::const_iterator at,
                const Executable& of, const observe::Call& made, Call& call) noexcept {
  if (at == of.bytes.end()) return call();
  Store* store = Stores::get().of_graphs(at->first);
  if (store == nullptr) return backed(seen, std::next(at), of, made, call);
  const auto before = of.backed_after.find(at->first);
  const std::uint64_t more =
      before != of.backed_after.end() && before->second == store->trims() ? 0 : at->second;
  return store->grown(
      seen, more, made, [&] { return backed(seen, std::next(at), of, made, call); }, [] { return false; });
}

template <class Call>
CUresult started(CUgraphExec exec, const char* api, const void* caller, Call call) noexcept {
  Executables& all = executables();
  Visible* seen = visible();
  if (seen == nullptr || !all.any.load(std::memory_order_relaxed)) return call();
  Executable of;
  try {
    const std::lock_guard guard(all.lock);
    const auto found = all.known.find(exec);
    if (found == all.known.end()) return call();
    of = found->second;
  } catch (...) {
    return call();
  }
  const CUresult result = backed(*seen, of.bytes.begin(), of, observe::current(api, caller), call);
  if (result != CUDA_SUCCESS) return result;
  const std::lock_guard guard(all.lock);
  const auto found = all.known.find(exec);
  if (found == all.known.end()) return result;
  for (const auto& [row, bytes] : of.bytes)
    if (Store* store = Stores::get().of_graphs(row)) {
      try {
        found->second.backed_after[row] = store->trims();
      } catch (...) {
      }
    }
  return result;
}

}  // namespace

void forget_executables_after_fork() noexcept {
  Executables& all = executables();
  all.any.store(false);
  new (&all.lock) std::mutex;
}

HOOK(cuGraphInstantiate, kNeeds,
     (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
      size_t bufferSize)) {
  return instantiated(real<&::cuGraphInstantiate>(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
                      phGraphExec, hGraph);
}
HOOK(cuGraphInstantiate_v2, kNeeds,
     (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
      size_t bufferSize)) {
  return instantiated(real<&::cuGraphInstantiate_v2>(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
                      phGraphExec, hGraph);
}
HOOK(cuGraphInstantiateWithFlags, kNeeds,
     (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags)) {
  return instantiated(real<&::cuGraphInstantiateWithFlags>(phGraphExec, hGraph, flags), phGraphExec, hGraph);
}
HOOK(cuGraphInstantiateWithParams, kNeeds,
     (CUgraphExec * phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams)) {
  return instantiated(real<&::cuGraphInstantiateWithParams>(phGraphExec, hGraph, instantiateParams),
                      phGraphExec, hGraph);
}
HOOK(cuGraphInstantiateWithParams_ptsz, kNeeds,
     (CUgraphExec * phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams)) {
  return instantiated(real<&::cuGraphInstantiateWithParams_ptsz>(phGraphExec, hGraph, instantiateParams),
                      phGraphExec, hGraph);
}

HOOK(cuGraphUpload, kNeeds, (CUgraphExec hGraphExec, CUstream hStream)) {
  return started(hGraphExec, "cuGraphUpload", __builtin_return_address(0),
                 [&] { return real<&::cuGraphUpload>(hGraphExec, hStream); });
}
HOOK(cuGraphUpload_ptsz, kNeeds, (CUgraphExec hGraphExec, CUstream hStream)) {
  return started(hGraphExec, "cuGraphUpload", __builtin_return_address(0),
                 [&] { return real<&::cuGraphUpload_ptsz>(hGraphExec, hStream); });
}

// A graph's kernels and copies count as one launch.
HOOK(cuGraphLaunch, kNeeds | dispatch::kFindings | dispatch::kReport | dispatch::kPointers,
     (CUgraphExec hGraphExec, CUstream hStream)) {
  return launched_graph(started(hGraphExec, "cuGraphLaunch", __builtin_return_address(0),
                                [&] { return real<&::cuGraphLaunch>(hGraphExec, hStream); }));
}
HOOK(cuGraphLaunch_ptsz, kNeeds | dispatch::kFindings | dispatch::kReport | dispatch::kPointers,
     (CUgraphExec hGraphExec, CUstream hStream)) {
  return launched_graph(started(hGraphExec, "cuGraphLaunch", __builtin_return_address(0),
                                [&] { return real<&::cuGraphLaunch_ptsz>(hGraphExec, hStream); }));
}

HOOK(cuGraphExecDestroy, kNeeds, (CUgraphExec hGraphExec)) {
  Executables& all = executables();
  std::optional<Executable> taken;
  if (all.any.load(std::memory_order_relaxed)) {
    const std::lock_guard guard(all.lock);
    if (const auto found = all.known.find(hGraphExec); found != all.known.end()) {
      taken = std::move(found->second);
      all.known.erase(found);
    }
  }
  const CUresult result = real<&::cuGraphExecDestroy>(hGraphExec);
  if (taken && result != CUDA_SUCCESS) {
    try {
      const std::lock_guard guard(all.lock);
      all.known[hGraphExec] = *std::move(taken);
    } catch (...) {
    }
  }
  return result;
}

HOOK(cuDeviceGraphMemTrim, kNeeds, (CUdevice device)) {
  const CUresult result = real<&::cuDeviceGraphMemTrim>(device);
  Visible* seen = visible();
  if (result != CUDA_SUCCESS || seen == nullptr || !seen->has(device)) return result;
  if (Store* store = Stores::get().of_graphs(static_cast<std::uint32_t>(device))) {
    store->trimmed();
    store->look(*seen);
  }
  return result;
}

}  // namespace gpufence::hooks
