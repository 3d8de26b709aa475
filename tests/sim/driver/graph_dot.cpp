// cuGraphDebugDotPrint: a graph as Graphviz reads it. Children and bodies are clusters of their own.
#include <cstdio>
#include <string>

#include "graph.h"

namespace gpufence::sim {
namespace {

const char* name_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "WAIT_EVENT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "CONDITIONAL";
    default:
      return "EMPTY";
  }
}

std::string hex(const void* pointer) {
  char text[32];
  snprintf(text, sizeof text, "%p", pointer);
  return text;
}
std::string hex(CUdeviceptr address) {
  return hex(reinterpret_cast<void*>(address));
}

std::string three(const unsigned (&dim)[3]) {
  // Braces mean something in a record's label.
  return "\\{" + std::to_string(dim[0]) + "," + std::to_string(dim[1]) + "," + std::to_string(dim[2]) + "\\}";
}

const char* place_of(const End& end) {
  return end.array != nullptr || end.kind == MemoryKind::device ? "Device"
         : end.kind == MemoryKind::managed                      ? "Managed"
                                                                : "Host";
}

std::string kernel_name(const KernelTask& task) {
  std::lock_guard<std::mutex> held(code_table().lock);
  Function* function = nullptr;
  return resolve(task.handle(), *task.context, &function) == CUDA_SUCCESS ? function->code->name : "?";
}

class Dot {
 public:
  explicit Dot(unsigned flags) : flags_(flags) {}

  void graph(const Graph& graph, const std::string& prefix, const std::string& label) {
    text += "subgraph cluster_" + prefix + " {\nlabel=\"" + label + "\";\n";
    std::map<const GraphNode*, size_t> ids;
    for (const GraphNode* node : graph.nodes) ids[node] = ids.size();
    const auto name = [&](const GraphNode* node) {
      return "\"" + prefix + "_node_" + std::to_string(ids[node]) + "\"";
    };
    for (const GraphNode* node : graph.nodes)
      text += name(node) + " [shape=\"record\" label=\"{" + described(*node, ids[node]) + "}\"];\n";
    for (const GraphNode* node : graph.nodes)
      for (const GraphEdge& edge : node->to) {
        text += name(node) + " -> " + name(edge.node);
        if (edge.data.type != 0) text += " [style=\"dashed\"]";
        text += ";\n";
      }
    text += "}\n";
    for (const GraphNode* node : graph.nodes)
      for (size_t i = 0; i < node->inner.size(); ++i) {
        const std::string inner = prefix + "_" + std::to_string(ids[node]) + "_" + std::to_string(i);
        this->graph(*node->inner[i], inner,
                    std::string(node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? "body " : "child ") +
                        std::to_string(i) + " of node " + std::to_string(ids[node]));
      }
  }

  std::string text;

 private:
  bool wants(CUgraphDebugDot_flags which) const {
    return (flags_ & (which | static_cast<unsigned>(CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE))) != 0;
  }

  std::string described(const GraphNode& node, size_t id) const {
    std::string label = std::to_string(id) + " | " + name_of(node.type);
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES)) label += " | handle " + hex(&node);
    const Task& task = *node.task;
    if (const auto* kernel = std::get_if<KernelTask>(&task)) {
      label += " | " + kernel_name(*kernel);
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES)) label += " | function " + hex(kernel->handle());
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
        label += " | grid " + three(kernel->request.grid) + " | block " + three(kernel->request.block) +
                 " | shared " + std::to_string(kernel->request.shared);
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES))
        label += std::string(" | cooperative ") + (kernel->request.cooperative ? "1" : "0") + " | priority " +
                 std::to_string(kernel->request.priority);
    } else if (const auto* copy = std::get_if<CopyTask>(&task)) {
      label += std::string(" | ") + place_of(copy->box.from) + " to " + place_of(copy->box.to);
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
        label += " | from " + hex(CUdeviceptr{copy->box.from.base}) + " | to " +
                 hex(CUdeviceptr{copy->box.to.base}) + " | width " + std::to_string(copy->box.width) +
                 " | height " + std::to_string(copy->box.height) + " | depth " +
                 std::to_string(copy->box.depth);
    } else if (const auto* fill = std::get_if<FillTask>(&task)) {
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
        label += " | to " + hex(fill->params.dst) + " | value " + std::to_string(fill->params.value) +
                 " | element " + std::to_string(fill->params.elementSize) + " | width " +
                 std::to_string(fill->params.width) + " | height " + std::to_string(fill->params.height);
    } else if (const auto* host = std::get_if<HostTask>(&task)) {
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS))
        label += " | function " + hex(reinterpret_cast<void*>(host->function)) + " | data " + hex(host->data);
    } else if (const auto* event = std::get_if<EventTask>(&task)) {
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS)) label += " | event " + hex(event->event);
    } else if (const auto* alloc = std::get_if<AllocTask>(&task)) {
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
        label +=
            " | address " + hex(alloc->params.dptr) + " | bytes " + std::to_string(alloc->params.bytesize);
    } else if (const auto* freed = std::get_if<FreeTask>(&task)) {
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS)) label += " | address " + hex(freed->address);
    } else if (const auto* conditional = std::get_if<ConditionalTask>(&task)) {
      constexpr const char* kTypes[] = {"IF", "WHILE", "SWITCH"};
      label += std::string(" | ") + kTypes[conditional->params.type];
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS))
        label += " | handle " + hex(CUdeviceptr{conditional->params.handle}) + " | bodies " +
                 std::to_string(conditional->params.size);
    }
    return label;
  }

  unsigned flags_;
};

}  // namespace
}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned int flags) {
  return with_graph(__func__, handle, [&](Graph& graph) {
    if (path == nullptr || flags >= 2u * CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS)
      return CUDA_ERROR_INVALID_VALUE;
    Dot dot(flags);
    dot.graph(graph, "graph", "");
    const std::string text = "digraph dot {\n" + dot.text + "}\n";
    FILE* file = fopen(path, "we");
    if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
    const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
    return (fclose(file) == 0) && written ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
  });
}
