// Executable graphs: what a graph was when it was instantiated, with its kernels planned, and how it is run.
// Nodes become work in the launch stream and in queues of the executable graph's own, so that branches run
// side by side. Bodies of conditional nodes run within the conditional node's work, one node after the other.
#pragma once
#include <memory>
#include <vector>

#include "graph.h"
#include "graph_memory.h"
#include "queue.h"

namespace gpufence::sim {

struct ExecGraph;

struct ExecNode {
  const GraphNode* origin = nullptr;  // in the graph that was instantiated; may be gone
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<const Task> task;
  std::shared_ptr<const KernelPlan> plan;  // of a kernel
  bool enabled = true;
  std::vector<std::pair<size_t, CUgraphEdgeData>> after;  // by place in ExecGraph::nodes
  std::vector<ExecGraph> inner;
};

struct ExecGraph {
  std::vector<ExecNode> nodes;  // in the order in which they were added to the graph
  std::vector<size_t> order;    // in which they can be run
};

// What has to be there until the last launch is over, whatever becomes of the executable graph.
struct ExecHold {
  ExecHold() = default;
  ExecHold(const ExecHold&) = delete;
  ~ExecHold();
  UserReferences references;
  std::vector<Condition*> conditions;
};

struct GraphExec {
  std::atomic<uint32_t> live{0};
  unsigned long long flags = 0;
  ExecGraph graph;
  std::shared_ptr<unsigned> count;  // Graph::execs
  GraphMemories allocated;          // by its nodes
  GraphMemories left;               // of these, what no node of it frees
  GraphMemories freed;              // of other graphs
  std::shared_ptr<ExecHold> hold;
  Ticket last;                                 // of its last launch
  std::vector<std::unique_ptr<Stream>> lanes;  // its own queues
};

// With the graphs' lock held: all that a graph is, as an executable one has it. `error`: the node at fault.
CUresult build(const Graph& graph, ExecGraph& out, CUgraphInstantiateResult* result, const GraphNode** error);
// What the nodes hold besides themselves, anew, with these references.
void take_hold(GraphExec& exec, const UserReferences& references);

}  // namespace gpufence::sim
