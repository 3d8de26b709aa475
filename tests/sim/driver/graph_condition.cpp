// Conditional handles: values that kernels set and conditional nodes look at.
#include "graph.h"

namespace gpufence::sim {

void release_condition(Condition& condition) {
  if (--condition.users == 0) graph_table().conditions.retire(&condition);
}

bool set_condition(uint64_t handle, unsigned value) {
  Condition* condition = graph_table().conditions.check(reinterpret_cast<void*>(handle));
  if (condition == nullptr) return false;
  condition->value = value;
  return true;
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph handle, CUcontext given,
                                        unsigned int initial, unsigned int flags) {
  return with_graph(__func__, handle, [&](Graph& graph) {
    if (out == nullptr || (flags & ~static_cast<unsigned>(CU_GRAPH_COND_ASSIGN_DEFAULT)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    Context* context = given == nullptr ? current_context() : driver().contexts.check(given);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult refused = refusal(*context); refused != CUDA_SUCCESS) return refused;
    Condition* condition = graph_table().conditions.take();
    if (condition == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    condition->graph = &graph;
    condition->context = context;
    condition->initial = initial;
    condition->flags = flags;
    graph.conditions.push_back(condition);
    graph_table().conditions.publish(condition);
    *out = reinterpret_cast<CUgraphConditionalHandle>(condition);
    return CUDA_SUCCESS;
  });
}
