// Instantiating graphs and running them. See graph_exec.h.
#include "graph_exec.h"

#include <algorithm>

#include "capture.h"
#include "output.h"
#include "user_object.h"

namespace gpufence::sim {

ExecHold::~ExecHold() {
  for (Condition* condition : conditions) release_condition(*condition);
}

CUresult build(const Graph& graph, ExecGraph& out, CUgraphInstantiateResult* result,
               const GraphNode** error) {
  std::map<const GraphNode*, size_t> places;
  for (const GraphNode* node : graph.nodes) places[node] = places.size();
  for (const GraphNode* node : graph.nodes) {
    ExecNode made;
    made.origin = node;
    made.type = node->type;
    made.task = node->task;
    for (const GraphEdge& edge : node->from) made.after.emplace_back(places[edge.node], edge.data);
    if (const auto* kernel = std::get_if<KernelTask>(node->task.get()))
      if (const CUresult bad = plan_task(*kernel, &made.plan); bad != CUDA_SUCCESS) return bad;
    for (const Graph* inner : node->inner)
      if (const CUresult bad = build(*inner, made.inner.emplace_back(), result, error); bad != CUDA_SUCCESS)
        return bad;
    out.nodes.push_back(std::move(made));
  }
  // In the order of their addition, as far as the edges let them.
  std::vector<size_t> missing(out.nodes.size());
  std::vector<std::vector<size_t>> next(out.nodes.size());
  std::set<size_t> ready;
  for (size_t i = 0; i < out.nodes.size(); ++i) {
    missing[i] = out.nodes[i].after.size();
    for (const auto& [before, data] : out.nodes[i].after) next[before].push_back(i);
    if (missing[i] == 0) ready.insert(i);
  }
  while (!ready.empty()) {
    const size_t i = *ready.begin();
    ready.erase(ready.begin());
    out.order.push_back(i);
    for (const size_t behind : next[i])
      if (--missing[behind] == 0) ready.insert(behind);
  }
  for (size_t i = 0; i < out.nodes.size(); ++i) {
    if (missing[i] == 0) continue;
    *result = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;  // a circle
    *error = out.nodes[i].origin;
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

namespace {

template <class Each>
void each_node(ExecGraph& graph, Each&& each) {
  for (ExecNode& node : graph.nodes) {
    each(node);
    for (ExecGraph& inner : node.inner) each_node(inner, each);
  }
}

Condition* condition_of(const ConditionalTask& task) {
  return reinterpret_cast<Condition*>(task.params.handle);
}

}  // namespace

void take_hold(GraphExec& exec, const UserReferences& references) {
  auto hold = std::make_shared<ExecHold>();
  retain_all(references, hold->references);
  each_node(exec.graph, [&](ExecNode& node) {
    if (const auto* conditional = std::get_if<ConditionalTask>(node.task.get())) {
      ++condition_of(*conditional)->users;
      hold->conditions.push_back(condition_of(*conditional));
    }
  });
  exec.hold = std::move(hold);
}

namespace {

GraphExec* exec_of(CUgraphExec handle) {
  return graph_table().execs.check(handle);
}

struct Instantiated {
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_ERROR;
  const GraphNode* error = nullptr;
};

CUresult instantiate(GraphExec** out, Graph& graph, unsigned long long flags, Instantiated& told) {
  constexpr unsigned long long kKnown =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool device_launch = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
  if (device_launch && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (device_launch) return lacks("graphs that kernels launch", "those that the host launches work");
  // "Cannot be independently instantiated" when moved; "not instantiable until cuStreamEndCapture" when
  // captured into.
  if (graph.is_moved || graph.is_body || graph.captures != 0) return CUDA_ERROR_INVALID_VALUE;
  // "Only one instantiation of the graph may exist at any point in time."
  if (*graph.execs != 0 && (has_memory_nodes(graph) || has_conditional_nodes(graph)))
    return CUDA_ERROR_INVALID_VALUE;
  for (const Condition* condition : graph.conditions)
    if (!condition->has_node) {
      told.result = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
      return CUDA_ERROR_INVALID_VALUE;
    }
  ExecGraph built;
  if (const CUresult bad = build(graph, built, &told.result, &told.error); bad != CUDA_SUCCESS) return bad;
  GraphExec* exec = graph_table().execs.take();
  if (exec == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  exec->flags = flags & ~static_cast<unsigned long long>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  exec->graph = std::move(built);
  exec->count = graph.execs;
  ++*exec->count;
  each_node(exec->graph, [&](ExecNode& node) {
    if (const auto* alloc = std::get_if<AllocTask>(node.task.get())) {
      exec->allocated.push_back(alloc->memory);
      if (!alloc->memory->freed_by_owner) exec->left.push_back(alloc->memory);
    } else if (const auto* freed = std::get_if<FreeTask>(node.task.get())) {
      if (!freed->of_this_graph) exec->freed.push_back(freed->memory);
    }
  });
  count_exec(exec->allocated, 1);
  take_hold(*exec, *graph.references);
  graph_table().execs.publish(exec);
  told.result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  *out = exec;
  return CUDA_SUCCESS;
}

void destroy(GraphExec& exec) {
  if (!graph_table().execs.retire(&exec)) return;
  --*exec.count;
  count_exec(exec.allocated, -1);
  for (const auto& lane : exec.lanes) retire_queue_of(*lane);
  exec.lanes.clear();
  exec.graph = {};
  exec.allocated = exec.left = exec.freed = {};
  exec.hold = nullptr;
  exec.count = nullptr;
}

// Memory may have gone since the node was added.
CUresult move(const CopyTask& task) {
  Box box = task.box;
  return box.check(Planned::yes) == CUDA_SUCCESS ? box.move() : CUDA_ERROR_ILLEGAL_ADDRESS;
}
CUresult run(const FillTask& task) {
  Fill fill = task.fill;
  return fill.check(*task.context, Planned::yes) == CUDA_SUCCESS ? fill.run() : CUDA_ERROR_ILLEGAL_ADDRESS;
}

// ---- A conditional node's body, within its work ----

struct Bodies {
  std::vector<ExecGraph> graphs;
  CUgraphConditionalNodeType type;
  Condition* condition;
  Context* context;
  bool node_priorities;
  int priority;
};

CUresult run_conditional(const std::vector<ExecGraph>& graphs, CUgraphConditionalNodeType type,
                         const Condition& condition, const Bodies& all);

CUresult run_all(const ExecGraph& graph, const Bodies& all) {
  for (const size_t i : graph.order) {
    const ExecNode& node = graph.nodes[i];
    if (all.context->cancel.load(std::memory_order_acquire)) return CUDA_SUCCESS;
    if (!node.enabled) continue;
    CUresult result = CUDA_SUCCESS;
    if (const auto* kernel = std::get_if<KernelTask>(node.task.get())) {
      const int priority =
          all.node_priorities && kernel->request.with_priority ? kernel->request.priority : all.priority;
      result = prepare_kernel(node.plan, priority).run();
    } else if (const auto* copy = std::get_if<CopyTask>(node.task.get())) {
      result = move(*copy);
    } else if (const auto* fill = std::get_if<FillTask>(node.task.get())) {
      result = run(*fill);
    } else if (const auto* conditional = std::get_if<ConditionalTask>(node.task.get())) {
      result = run_conditional(node.inner, conditional->params.type, *condition_of(*conditional), all);
    } else if (!node.inner.empty()) {
      result = run_all(node.inner.front(), all);
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult run_conditional(const std::vector<ExecGraph>& graphs, CUgraphConditionalNodeType type,
                         const Condition& condition, const Bodies& all) {
  const unsigned value = condition.value;
  switch (type) {
    case CU_GRAPH_COND_TYPE_IF:
      if (value != 0) return run_all(graphs[0], all);
      return graphs.size() > 1 ? run_all(graphs[1], all) : CUDA_SUCCESS;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return value < graphs.size() ? run_all(graphs[value], all) : CUDA_SUCCESS;
    case CU_GRAPH_COND_TYPE_WHILE:
      while (condition.value != 0 && !all.context->cancel.load(std::memory_order_acquire))
        if (const CUresult bad = run_all(graphs[0], all); bad != CUDA_SUCCESS) return bad;
      return CUDA_SUCCESS;
  }
  return CUDA_SUCCESS;
}

// ---- A launch ----

using Tickets = std::vector<Ticket>;

void add(Tickets& to, const Tickets& more) {
  for (const Ticket& ticket : more)
    if (std::none_of(to.begin(), to.end(), [&](const Ticket& known) {
          return known.queue == ticket.queue && known.number == ticket.number;
        }))
      to.push_back(ticket);
}

class Launching {
 public:
  Launching(GraphExec& exec, Stream& stream) : exec_(exec), stream_(stream) {
    lanes_.push_back({&stream, {}, false});
    for (const auto& lane : exec.lanes) lanes_.push_back({lane.get(), {}, false});
  }

  void run() {
    // What all that has nothing before it in the graph comes behind.
    Operation first;
    if (!exec_.hold->conditions.empty())
      first = [hold = exec_.hold] {
        for (Condition* condition : hold->conditions)
          if ((condition->flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0) condition->value = condition->initial;
        return CUDA_SUCCESS;
      };
    const Ticket start = enqueue_behind(stream_, {}, std::move(first));
    lanes_.front().last = start;
    lanes_.front().used = true;
    GraphMemories used = exec_.allocated;
    used.insert(used.end(), exec_.freed.begin(), exec_.freed.end());
    auto running = std::make_shared<RunningMemory>(std::move(used));
    const Tickets ends = graph(exec_.graph, {start});
    exec_.last = enqueue_behind(stream_, ends, [running, hold = exec_.hold] { return CUDA_SUCCESS; });
  }

 private:
  struct Lane {
    Stream* stream;
    Ticket last;
    bool used;
  };

  // Where the next of these goes on, or one that has had nothing yet.
  Lane& lane_for(Context& context, const Tickets& after) {
    constexpr size_t kMost = 16;
    size_t there = 0;
    Lane* free = nullptr;
    for (Lane& lane : lanes_) {
      if (lane.stream->context != &context) continue;
      ++there;
      if (!lane.used && free == nullptr) free = &lane;
      for (const Ticket& ticket : after)
        if (lane.used && lane.last.queue == ticket.queue && lane.last.number == ticket.number) return lane;
    }
    if (free != nullptr) return *free;
    if (there >= kMost) {
      // Any: what stands there already is before it in the order of the graph too.
      size_t skip = turn_++ % there;
      for (Lane& lane : lanes_)
        if (lane.stream->context == &context && skip-- == 0) return lane;
    }
    auto made = std::make_unique<Stream>();
    made->context = &context;
    made->flags = CU_STREAM_NON_BLOCKING;
    open_queue(*made);
    exec_.lanes.push_back(std::move(made));
    return lanes_.emplace_back(Lane{exec_.lanes.back().get(), {}, false});
  }

  // What the graph's end is, each of them.
  Tickets graph(const ExecGraph& graph, const Tickets& before) {
    std::vector<Tickets> ends(graph.nodes.size());
    std::vector<bool> has_next(graph.nodes.size());
    for (const size_t i : graph.order) {
      Tickets after;
      for (const auto& [earlier, data] : graph.nodes[i].after) {
        add(after, ends[earlier]);
        has_next[earlier] = true;
      }
      if (graph.nodes[i].after.empty()) after = before;
      ends[i] = node(graph.nodes[i], after);
    }
    if (graph.nodes.empty()) return before;
    Tickets all;
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      if (!has_next[i]) add(all, ends[i]);
    return all;
  }

  Tickets give(Context& context, const Tickets& after, Operation run, std::function<void()> due = nullptr) {
    Lane& lane = lane_for(context, after);
    lane.last = enqueue_behind(*lane.stream, after, std::move(run), std::move(due));
    lane.used = true;
    return {lane.last};
  }

  Tickets node(const ExecNode& node, const Tickets& after) {
    if (!node.enabled) return after;
    const bool node_priorities = (exec_.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0;
    const Task& task = *node.task;
    Context& home = *stream_.context;
    switch (node.type) {
      case CU_GRAPH_NODE_TYPE_KERNEL: {
        const auto& kernel = std::get<KernelTask>(task);
        PlannedRun made = prepare_kernel(node.plan, node_priorities && kernel.request.with_priority
                                                        ? kernel.request.priority
                                                        : stream_.priority.load());
        return give(*kernel.context, after, std::move(made.run), std::move(made.due));
      }
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        return give(*std::get<CopyTask>(task).context, after,
                    [kept = node.task] { return move(std::get<CopyTask>(*kept)); });
      case CU_GRAPH_NODE_TYPE_MEMSET:
        return give(*std::get<FillTask>(task).context, after,
                    [kept = node.task] { return gpufence::sim::run(std::get<FillTask>(*kept)); });
      case CU_GRAPH_NODE_TYPE_HOST: {
        const auto& host = std::get<HostTask>(task);
        Lane& lane = lane_for(home, after);
        lane.last = enqueue_host_behind(
            *lane.stream, after, [function = host.function, data = host.data](CUresult) { function(data); });
        lane.used = true;
        return {lane.last};
      }
      case CU_GRAPH_NODE_TYPE_GRAPH:
        return graph(node.inner.front(), after);
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
        Event* event = driver().events.check(std::get<EventTask>(task).event);
        if (event == nullptr) return after;
        Lane& lane = lane_for(home, after);
        std::shared_ptr<Mark> made = mark_behind(*lane.stream, after);
        lane.last = made->ticket;
        lane.used = true;
        std::shared_ptr<const CapturedEvent> before;
        std::lock_guard<std::mutex> held(event->lock);
        before = std::move(event->captured);
        event->captured = nullptr;
        event->mark = std::move(made);
        return {lane.last};
      }
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT: {
        Event* event = driver().events.check(std::get<EventTask>(task).event);
        if (event == nullptr) return after;
        Tickets behind = after;
        std::lock_guard<std::mutex> held(event->lock);
        if (event->mark != nullptr) add(behind, {event->mark->ticket});
        return behind;
      }
      case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
        const auto& conditional = std::get<ConditionalTask>(task);
        Context* context = reinterpret_cast<Context*>(conditional.params.ctx);
        auto bodies =
            std::make_shared<Bodies>(Bodies{node.inner, conditional.params.type, condition_of(conditional),
                                            context, node_priorities, stream_.priority});
        return give(*context, after, [bodies, hold = exec_.hold] {
          return run_conditional(bodies->graphs, bodies->type, *bodies->condition, *bodies);
        });
      }
      default:
        return after;  // memory has been there since the launch, and goes when its user is done
    }
  }

  GraphExec& exec_;
  Stream& stream_;
  std::deque<Lane> lanes_;
  size_t turn_ = 0;
};

// What a launch can't be without: contexts, events, memory that nobody freed.
CUresult check(GraphExec& exec) {
  CUresult bad = CUDA_SUCCESS;
  const auto alive = [&](const Context& context) {
    if (bad == CUDA_SUCCESS) bad = refusal(context);
  };
  each_node(exec.graph, [&](ExecNode& node) {
    const Task& task = *node.task;
    if (node.plan != nullptr) {
      alive(*node.plan->context);
      if (bad == CUDA_SUCCESS && node.plan->context->id != node.plan->context_id)
        bad = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else if (const auto* copy = std::get_if<CopyTask>(&task)) {
      alive(*copy->context);
    } else if (const auto* fill = std::get_if<FillTask>(&task)) {
      alive(*fill->context);
    } else if (const auto* event = std::get_if<EventTask>(&task)) {
      if (bad == CUDA_SUCCESS && driver().events.check(event->event) == nullptr)
        bad = CUDA_ERROR_INVALID_VALUE;
    } else if (const auto* freed = std::get_if<FreeTask>(&task)) {
      if (bad == CUDA_SUCCESS && !freed->of_this_graph && !any_live({freed->memory}))
        bad = CUDA_ERROR_INVALID_VALUE;
    }
  });
  return bad;
}

CUresult launch(GraphExec& exec, Stream& stream) {
  if (const CUresult bad = check(exec); bad != CUDA_SUCCESS) return bad;
  if (any_live(exec.allocated)) {
    if ((exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0) return CUDA_ERROR_INVALID_VALUE;
    for (const auto& memory : exec.left) free_graph_memory(memory->address);
  }
  if (const CUresult full = back(exec.allocated); full != CUDA_SUCCESS) return full;
  std::erase_if(exec.lanes, [](const auto& lane) { return !has_queue(*lane); });
  flush_output(*stream.context);
  // "Each launch is ordered behind any previous launches of hGraphExec."
  wait_for(stream, exec.last);
  Launching(exec, stream).run();
  for (const auto& memory : exec.freed) free_graph_memory(memory->address);
  set_live(exec.left);
  return CUDA_SUCCESS;
}

// A graph with what the executable one does.
CUresult graph_again(const ExecGraph& exec, Graph** out) {
  Graph* graph = make_graph();
  if (graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::vector<GraphNode*> made(exec.nodes.size());
  for (const size_t i : exec.order) {
    const ExecNode& node = exec.nodes[i];
    std::vector<GraphEdge> from;
    for (const auto& [before, data] : node.after)
      from.push_back({made[before], node.enabled && exec.nodes[before].enabled ? data : CUgraphEdgeData{}});
    CUresult bad = CUDA_SUCCESS;
    Graph* child = nullptr;
    if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) bad = graph_again(node.inner.front(), &child);
    if (bad == CUDA_SUCCESS)
      bad = node.enabled ? add_node(*graph, node.type, *node.task, from, &made[i])
                         : add_node(*graph, CU_GRAPH_NODE_TYPE_EMPTY, {}, from, &made[i]);
    if (bad != CUDA_SUCCESS) {
      destroy_graph(*graph);
      return bad;
    }
    if (child == nullptr) continue;
    child->owner = made[i];
    made[i]->inner = {child};
  }
  *out = graph;
  return CUDA_SUCCESS;
}

CUresult launch_captured(GraphExec& exec, Stream& stream) {
  bool memory = false;
  each_node(exec.graph, [&](ExecNode& node) {
    memory = memory || node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
             node.type == CU_GRAPH_NODE_TYPE_MEM_FREE || node.type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
  });
  // No child graph may have these.
  if (memory) return CUDA_ERROR_INVALID_VALUE;
  Graph* graph = nullptr;
  if (const CUresult bad = graph_again(exec.graph, &graph); bad != CUDA_SUCCESS) return bad;
  return capture_graph(stream, graph);
}

enum class Null { legacy, per_thread };

template <class Body>
CUresult with_stream(const char* name, Null null, CUstream handle, InCapture in_capture, Body&& body) {
  return in_context(name, [&](Context& current) {
    Stream* stream = nullptr;
    const CUresult found = stream_of(handle, null == Null::per_thread, current, &stream, in_capture);
    if (found != CUDA_SUCCESS) return found;
    std::lock_guard<std::mutex> held(graph_table().lock);
    return body(*stream);
  });
}

CUresult launch_call(const char* name, Null null, CUgraphExec handle, CUstream stream) {
  return with_stream(name, null, stream, InCapture::captured, [&](Stream& into) {
    GraphExec* exec = exec_of(handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return is_capturing(into) ? launch_captured(*exec, into) : launch(*exec, into);
  });
}

CUresult upload_call(const char* name, Null null, CUgraphExec handle, CUstream stream) {
  return with_stream(name, null, stream, InCapture::refused, [&](Stream&) {
    GraphExec* exec = exec_of(handle);
    return exec == nullptr ? CUDA_ERROR_INVALID_VALUE : back(exec->allocated);
  });
}

CUresult instantiate_call(const char* name, CUgraphExec* out, CUgraph handle, unsigned long long flags,
                          Instantiated& told) {
  return with_graph(name, handle, [&](Graph& graph) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GraphExec* exec = nullptr;
    const CUresult made = instantiate(&exec, graph, flags, told);
    if (made == CUDA_SUCCESS) *out = reinterpret_cast<CUgraphExec>(exec);
    return made;
  });
}

// The two first versions, with a node and words about what is wrong.
CUresult instantiate_logged(const char* name, CUgraphExec* out, CUgraph graph, CUgraphNode* error, char* log,
                            size_t log_bytes) {
  Instantiated told;
  const CUresult made = instantiate_call(name, out, graph, 0, told);
  if (error != nullptr) *error = handle_of(told.error);
  if (log != nullptr && log_bytes != 0) {
    const std::string_view words =
        told.result == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE ? "the graph's edges lead in a circle" : "";
    log[words.copy(log, log_bytes - 1)] = '\0';
  }
  return made;
}

CUresult instantiate_with(const char* name, Null null, CUgraphExec* out, CUgraph handle,
                          CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  const auto body = [&](Stream* upload) {
    Graph* graph = graph_of(handle);
    Instantiated told;
    GraphExec* exec = nullptr;
    CUresult made = out == nullptr || graph == nullptr ? CUDA_ERROR_INVALID_VALUE
                                                       : instantiate(&exec, *graph, params->flags, told);
    if (made == CUDA_SUCCESS && upload != nullptr) {
      made = back(exec->allocated);
      if (made != CUDA_SUCCESS) {
        destroy(*exec);
        told.result = CUDA_GRAPH_INSTANTIATE_ERROR;
      }
    }
    params->result_out = told.result;
    params->hErrNode_out = handle_of(told.error);
    if (made == CUDA_SUCCESS) *out = reinterpret_cast<CUgraphExec>(exec);
    return made;
  };
  if (params != nullptr && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
    return with_stream(name, null, params->hUploadStream, InCapture::refused,
                       [&](Stream& upload) { return body(&upload); });
  return with_graphs(name, [&] { return params == nullptr ? CUDA_ERROR_INVALID_VALUE : body(nullptr); });
}

}  // namespace
}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* error, char* log,
                            size_t log_bytes) {
  return instantiate_logged(__func__, out, graph, error, log, log_bytes);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error, char* log,
                               size_t log_bytes) {
  return instantiate_logged(__func__, out, graph, error, log, log_bytes);
}
// "Only supported by cuGraphInstantiateWithParams": an upload has to know its stream.
CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  Instantiated told;
  return instantiate_call(__func__, out, graph,
                          (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0 ? ~0ull : flags, told);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate_with(__func__, Null::legacy, out, graph, params);
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate_with(__func__, Null::per_thread, out, graph, params);
}

namespace {

template <class Body>
CUresult with_exec(const char* name, CUgraphExec handle, Body&& body) {
  return with_graphs(name, [&] {
    GraphExec* exec = exec_of(handle);
    return exec == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*exec);
  });
}

}  // namespace

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* out) {
  return with_exec(__func__, handle, [&](GraphExec& exec) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = exec.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return with_exec(__func__, handle, [](GraphExec& exec) {
    destroy(exec);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return upload_call(__func__, Null::legacy, exec, stream);
}
CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  return upload_call(__func__, Null::per_thread, exec, stream);
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return launch_call(__func__, Null::legacy, exec, stream);
}
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return launch_call(__func__, Null::per_thread, exec, stream);
}
