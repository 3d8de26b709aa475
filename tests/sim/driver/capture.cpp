// See capture.h.
#include "capture.h"

#include <algorithm>

#include "graph_memory.h"

namespace gpufence::sim {

constinit std::atomic<unsigned> captures_running{0};

namespace {

constinit thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Which thread this is, among those that live.
const void* this_thread() {
  static constinit thread_local char here = 0;
  return &here;
}

// ---- All with the graphs' lock held ----

// Leaked, as all state that exit handlers reach.
std::vector<std::shared_ptr<Capture>>& running() {
  static auto* made = new std::vector<std::shared_ptr<Capture>>;
  return *made;
}

bool blocking(const Stream& stream) {
  return (stream.flags & CU_STREAM_NON_BLOCKING) == 0;
}

void invalidate(Capture& capture) {
  if (capture.invalid) return;
  capture.invalid = true;
  for (Stream* stream : capture.streams) stream->capture.load()->frontier.clear();
  capture.dropped.clear();
  if (capture.graph == nullptr) return;
  --capture.graph->captures;
  if (capture.own_graph) destroy_graph(*capture.graph);
  capture.graph = nullptr;
}

void enter(Stream& stream, const std::shared_ptr<Capture>& capture, std::vector<GraphEdge> frontier) {
  auto* state = new StreamCapture{capture, std::move(frontier), {}, {}};
  capture->streams.push_back(&stream);
  if (blocking(stream)) ++stream.context->blocking_captures;
  stream.capture.store(state, std::memory_order_release);
}

void take_out(Stream& stream) {
  delete stream.capture.exchange(nullptr);
  if (blocking(stream)) --stream.context->blocking_captures;
}

void end(Capture& capture) {
  for (Stream* stream : capture.streams) take_out(*stream);
  capture.streams.clear();
  capture.ended = true;
  --captures_running;
  std::erase_if(running(), [&](const auto& each) { return each.get() == &capture; });
}

// The stream's capture; CUDA_ERROR_STREAM_CAPTURE_INVALIDATED if it is invalid.
CUresult capture_of(Stream& stream, StreamCapture** out) {
  *out = stream.capture.load(std::memory_order_acquire);
  // Ended by another thread meanwhile.
  if (*out == nullptr) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return (*out)->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

// Nodes may have been destroyed in the graph that is captured into.
void forget_dead(std::vector<GraphEdge>& edges, const Graph* graph) {
  std::erase_if(edges, [&](const GraphEdge& edge) {
    return graph_table().nodes.check(edge.node) == nullptr || edge.node->graph != graph;
  });
}

void add_to(std::vector<GraphEdge>& edges, const GraphEdge& more) {
  for (const GraphEdge& edge : edges)
    if (edge.node == more.node) return;
  edges.push_back(more);
}

CUresult captured(Stream& stream, CUgraphNodeType type, Task task) {
  StreamCapture* state = nullptr;
  if (const CUresult bad = capture_of(stream, &state); bad != CUDA_SUCCESS) return bad;
  GraphNode* node = nullptr;
  forget_dead(state->frontier, state->capture->graph);
  // A dependency of another kind than the next node's may be is an ordinary one.
  for (GraphEdge& edge : state->frontier)
    if (!edge_fits(edge.node->type, type, edge.data)) edge.data = {};
  const CUresult added = add_node(*state->capture->graph, type, std::move(task), state->frontier, &node);
  if (added == CUDA_SUCCESS) state->frontier = {{node, {}}};
  return added;
}

template <class Body>
CUresult locked(Body&& body) {
  std::lock_guard<std::mutex> held(graph_table().lock);
  return body();
}

// What the node is ordered behind, itself included.
void add_ancestors(const GraphNode* node, std::set<const GraphNode*>& out) {
  std::vector<const GraphNode*> left{node};
  while (!left.empty()) {
    const GraphNode* next = left.back();
    left.pop_back();
    if (!out.insert(next).second) continue;
    for (const GraphEdge& edge : next->from) left.push_back(edge.node);
  }
}

// A node that a forked stream ends in, and that the origin does not come behind.
bool unjoined(Capture& capture) {
  std::set<const GraphNode*> joined;
  StreamCapture& origin = *capture.origin->capture.load();
  forget_dead(origin.frontier, capture.graph);
  for (const GraphEdge& edge : origin.frontier) add_ancestors(edge.node, joined);
  for (Stream* stream : capture.streams) {
    StreamCapture& state = *stream->capture.load();
    forget_dead(state.frontier, capture.graph);
    for (const GraphEdge& edge : state.frontier)
      if (joined.count(edge.node) == 0 && capture.dropped.count(edge.node) == 0) return true;
  }
  return false;
}

CUresult begin(Stream& stream, Graph* graph, std::vector<GraphEdge> frontier, CUstreamCaptureMode mode) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (is_capturing(stream)) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->own_graph = graph == nullptr;
  capture->graph = graph != nullptr ? graph : make_graph();
  if (capture->graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  ++capture->graph->captures;
  capture->id = driver().next_id++;
  capture->mode = mode;
  capture->thread = this_thread();
  capture->origin = &stream;
  running().push_back(capture);
  ++captures_running;
  enter(stream, capture, std::move(frontier));
  return CUDA_SUCCESS;
}

CUresult end_call(Stream& stream, CUgraph* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  StreamCapture* state = stream.capture.load();
  if (state == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = state->capture;
  if (capture->origin != &stream) {
    invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  const bool was_invalid = capture->invalid;
  const bool loose = !was_invalid && unjoined(*capture);
  if (loose) invalidate(*capture);
  Graph* graph = capture->graph;
  if (graph != nullptr) --graph->captures;
  end(*capture);
  if (was_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (loose) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *out = handle_of(graph);
  return CUDA_SUCCESS;
}

struct Told {
  CUstreamCaptureStatus* status;
  cuuint64_t* id = nullptr;
  CUgraph* graph = nullptr;
  const CUgraphNode** nodes = nullptr;
  const CUgraphEdgeData** data = nullptr;
  size_t* count = nullptr;
  bool has_data = false;  // the call can tell edge data
};

CUresult tell(Stream& stream, const Told& told) {
  if (told.status == nullptr || (told.data != nullptr && told.nodes == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  StreamCapture* state = stream.capture.load();
  if (state == nullptr) {
    *told.status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  Capture& capture = *state->capture;
  if (capture.invalid) {
    *told.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_SUCCESS;
  }
  forget_dead(state->frontier, capture.graph);
  if (told.nodes != nullptr && told.data == nullptr)
    for (const GraphEdge& edge : state->frontier)
      if (!is_default(edge.data)) return CUDA_ERROR_LOSSY_QUERY;
  *told.status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (told.id != nullptr) *told.id = capture.id;
  if (told.graph != nullptr) *told.graph = handle_of(capture.graph);
  state->told_nodes.clear();
  state->told_data.clear();
  for (const GraphEdge& edge : state->frontier) {
    state->told_nodes.push_back(handle_of(edge.node));
    state->told_data.push_back(edge.data);
  }
  if (told.nodes != nullptr) *told.nodes = state->told_nodes.data();
  if (told.data != nullptr) *told.data = state->told_data.data();
  if (told.count != nullptr) *told.count = state->told_nodes.size();
  return CUDA_SUCCESS;
}

CUresult update(Stream& stream, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                unsigned flags) {
  if ((flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES && flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES) ||
      (nodes == nullptr && count != 0))
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_capturing(stream)) return CUDA_ERROR_ILLEGAL_STATE;
  StreamCapture* state = nullptr;
  if (const CUresult bad = capture_of(stream, &state); bad != CUDA_SUCCESS) return bad;
  Capture& capture = *state->capture;
  // The arrays may be those that we told of this stream.
  std::vector<GraphEdge> more;
  if (const CUresult bad = read_edges(*capture.graph, nodes, data, count, more); bad != CUDA_SUCCESS)
    return bad;
  forget_dead(state->frontier, capture.graph);
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    for (const GraphEdge& edge : state->frontier) capture.dropped.insert(edge.node);
    state->frontier.clear();
  }
  for (const GraphEdge& edge : more) add_to(state->frontier, edge);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult capture_kernel(Stream& stream, CUfunction function, const KernelRequest& request) {
  KernelTask task;
  KernelRequest with_priority = request;
  // "Priorities are copied from stream priority during stream capture" (cuGraphInstantiate).
  if (!with_priority.with_priority) with_priority.priority = stream.priority;
  with_priority.with_priority = true;
  const CUresult bad = kernel_task(*stream.context, function, nullptr, with_priority, task);
  if (bad != CUDA_SUCCESS) return bad;
  return locked([&] { return captured(stream, CU_GRAPH_NODE_TYPE_KERNEL, std::move(task)); });
}

CUresult capture_copy(Stream& stream, const Box& box) {
  CopyTask task;
  task.context = stream.context;
  task.params = params_of(box);
  task.box = box;
  if (const CUresult bad = task.box.check(Planned::yes); bad != CUDA_SUCCESS) return bad;
  return locked([&] { return captured(stream, CU_GRAPH_NODE_TYPE_MEMCPY, task); });
}

CUresult capture_fill(Stream& stream, const Fill& fill) {
  FillTask task;
  const CUDA_MEMSET_NODE_PARAMS_v2 params{fill.to,
                                          fill.pitch,
                                          fill.value,
                                          fill.element,
                                          static_cast<size_t>(fill.width),
                                          fill.height,
                                          reinterpret_cast<CUcontext>(stream.context)};
  if (const CUresult bad = fill_task(*stream.context, params, task); bad != CUDA_SUCCESS) return bad;
  return locked([&] { return captured(stream, CU_GRAPH_NODE_TYPE_MEMSET, task); });
}

CUresult capture_host(Stream& stream, CUhostFn function, void* data) {
  return locked([&] { return captured(stream, CU_GRAPH_NODE_TYPE_HOST, HostTask{function, data}); });
}

CUresult capture_alloc(Stream& stream, const CUmemPoolProps& props, size_t bytes, CUdeviceptr* out) {
  return locked([&] {
    StreamCapture* state = nullptr;
    if (const CUresult bad = capture_of(stream, &state); bad != CUDA_SUCCESS) return bad;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 params{};
    params.poolProps = props;
    params.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    params.poolProps.maxSize = 0;
    params.bytesize = bytes;
    AllocTask task;
    if (const CUresult bad = alloc_task(*state->capture->graph, params, task); bad != CUDA_SUCCESS)
      return bad;
    const CUresult added = captured(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::move(task));
    if (added == CUDA_SUCCESS) *out = params.dptr;
    return added;
  });
}

CUresult capture_free(Stream& stream, CUdeviceptr address) {
  return locked([&] {
    StreamCapture* state = nullptr;
    if (const CUresult bad = capture_of(stream, &state); bad != CUDA_SUCCESS) return bad;
    FreeTask task;
    if (const CUresult bad = free_task(*state->capture->graph, address, task); bad != CUDA_SUCCESS)
      return bad;
    return captured(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, std::move(task));
  });
}

CUresult capture_graph(Stream& stream, Graph* child) {
  const CUresult added = captured(stream, CU_GRAPH_NODE_TYPE_GRAPH, ChildTask{});
  if (added != CUDA_SUCCESS) {
    destroy_graph(*child);
    return added;
  }
  GraphNode* node = stream.capture.load()->frontier.front().node;
  child->owner = node;
  node->inner = {child};
  return CUDA_SUCCESS;
}

CUresult capture_event_record(Stream& stream, Event& event, CUevent handle, bool external) {
  return locked([&] {
    EventTask task;
    if (const CUresult bad = event_task(handle, task); bad != CUDA_SUCCESS) return bad;
    if (external) return captured(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, task);
    StreamCapture* state = nullptr;
    if (const CUresult bad = capture_of(stream, &state); bad != CUDA_SUCCESS) return bad;
    auto made = std::make_shared<CapturedEvent>();
    made->capture = state->capture;
    made->nodes = state->frontier;
    std::lock_guard<std::mutex> held(event.lock);
    event.mark = nullptr;
    event.captured = std::move(made);
    return CUDA_SUCCESS;
  });
}

CUresult capture_event_wait(Stream& stream, CUevent handle, bool external) {
  return locked([&] {
    EventTask task;
    if (const CUresult bad = event_task(handle, task); bad != CUDA_SUCCESS) return bad;
    if (external) return captured(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, task);
    StreamCapture* state = nullptr;
    if (const CUresult bad = capture_of(stream, &state); bad != CUDA_SUCCESS) return bad;
    Capture& mine = *state->capture;
    Event* event = driver().events.check(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<const CapturedEvent> what;
    {
      std::lock_guard<std::mutex> held(event->lock);
      what = event->captured;
    }
    if (what == nullptr || what->capture->ended) {
      // "Only implicit in-stream ordering dependencies are allowed to cross the boundary."
      invalidate(mine);
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (what->capture.get() != &mine) {
      invalidate(mine);
      invalidate(*what->capture);
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    std::vector<GraphEdge> nodes = what->nodes;
    forget_dead(nodes, mine.graph);
    for (const GraphEdge& edge : nodes) add_to(state->frontier, edge);
    return CUDA_SUCCESS;
  });
}

CUresult join_capture(Stream& stream, const std::shared_ptr<const CapturedEvent>& event) {
  return locked([&] {
    const std::shared_ptr<Capture>& capture = event->capture;
    if (capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
    if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (&stream == &stream.context->legacy) {
      invalidate(*capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (is_capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    std::vector<GraphEdge> nodes = event->nodes;
    forget_dead(nodes, capture->graph);
    enter(stream, capture, std::move(nodes));
    return CUDA_SUCCESS;
  });
}

CUresult refuse_in_capture(Stream& stream) {
  return locked([&] {
    StreamCapture* state = nullptr;
    if (const CUresult bad = capture_of(stream, &state); bad != CUDA_SUCCESS) return bad;
    invalidate(*state->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  });
}

CUresult refuse_legacy_stream(Context& context) {
  return locked([&] {
    for (const auto& capture : running())
      for (const Stream* stream : capture->streams)
        if (stream->context == &context && blocking(*stream)) {
          invalidate(*capture);
          break;
        }
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  });
}

CUresult refuse_captured_event(Event& event) {
  std::shared_ptr<const CapturedEvent> what;
  {
    std::lock_guard<std::mutex> held(event.lock);
    what = event.captured;
  }
  if (what == nullptr) return CUDA_SUCCESS;
  return locked([&] {
    if (!what->capture->ended) invalidate(*what->capture);
    return CUDA_ERROR_CAPTURED_EVENT;
  });
}

void leave_capture(Stream& stream) {
  std::lock_guard<std::mutex> held(graph_table().lock);
  StreamCapture* state = stream.capture.load();
  if (state == nullptr) return;
  const std::shared_ptr<Capture> capture = state->capture;
  invalidate(*capture);
  if (capture->origin == &stream) {
    end(*capture);
    return;
  }
  std::erase(capture->streams, &stream);
  take_out(stream);
}

void end_captures_of(Context& context) {
  std::lock_guard<std::mutex> held(graph_table().lock);
  const std::vector<std::shared_ptr<Capture>> all = running();
  for (const auto& capture : all)
    if (std::any_of(capture->streams.begin(), capture->streams.end(),
                    [&](const Stream* stream) { return stream->context == &context; })) {
      invalidate(*capture);
      end(*capture);
    }
}

bool invalidate_captures_of(Context& context) {
  if (captures_running.load(std::memory_order_acquire) == 0) return false;
  std::lock_guard<std::mutex> held(graph_table().lock);
  bool any = false;
  for (const auto& capture : running())
    for (const Stream* stream : capture->streams)
      if (stream->context == &context) {
        invalidate(*capture);
        any = true;
        break;
      }
  return any;
}

CUresult refusal_of_captures() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  std::lock_guard<std::mutex> held(graph_table().lock);
  bool prohibited = false;
  for (const auto& capture : running()) {
    const bool here = capture->thread == this_thread() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool elsewhere =
        thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!here && !elsewhere) continue;
    invalidate(*capture);
    prohibited = true;
  }
  return prohibited ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

namespace {

enum class Null { legacy, per_thread };

// For calls about the capture itself, which never break one.
template <class Body>
CUresult with_stream(const char* name, Null null, CUstream handle, Body&& body) {
  return in_context(name, [&](Context& current) {
    Stream* stream = nullptr;
    const CUresult found = stream_of(handle, null == Null::per_thread, current, &stream, InCapture::ignored);
    if (found != CUDA_SUCCESS) return found;
    std::lock_guard<std::mutex> held(graph_table().lock);
    return body(*stream);
  });
}

bool is_legacy(const Stream& stream) {
  return &stream == &stream.context->legacy;
}

CUresult begin_call(const char* name, Null null, CUstream handle, CUstreamCaptureMode mode) {
  return with_stream(name, null, handle, [&](Stream& stream) {
    // "Capture may not be initiated if stream is CU_STREAM_LEGACY."
    return is_legacy(stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : begin(stream, nullptr, {}, mode);
  });
}

CUresult begin_to_graph(const char* name, Null null, CUstream handle, CUgraph into, const CUgraphNode* nodes,
                        const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode) {
  return with_stream(name, null, handle, [&](Stream& stream) {
    if (is_legacy(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    Graph* graph = graph_of(into);
    std::vector<GraphEdge> frontier;
    if (graph == nullptr || (nodes == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
    const CUresult bad = read_edges(*graph, nodes, data, count, frontier);
    return bad != CUDA_SUCCESS ? bad : begin(stream, graph, std::move(frontier), mode);
  });
}

CUresult end_call(const char* name, Null null, CUstream handle, CUgraph* out) {
  return with_stream(name, null, handle,
                     [&](Stream& stream) { return gpufence::sim::end_call(stream, out); });
}

CUresult info(const char* name, Null null, CUstream handle, const Told& told) {
  return with_stream(name, null, handle, [&](Stream& stream) {
    // "The blocking stream capture is not invalidated."
    if (is_legacy(stream) && stream.context->blocking_captures != 0)
      return told.status == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return tell(stream, told);
  });
}

CUresult update_call(const char* name, Null null, CUstream handle, const CUgraphNode* nodes,
                     const CUgraphEdgeData* data, size_t count, unsigned flags) {
  return with_stream(name, null, handle,
                     [&](Stream& stream) { return update(stream, nodes, data, count, flags); });
}

}  // namespace

// The first form has no mode: it is as global as the default.
CUresult cuStreamBeginCapture(CUstream stream) {
  return begin_call(__func__, Null::legacy, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  return begin_call(__func__, Null::per_thread, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return begin_call(__func__, Null::legacy, stream, mode);
}
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return begin_call(__func__, Null::per_thread, stream, mode);
}
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                     const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode) {
  return begin_to_graph(__func__, Null::legacy, stream, graph, nodes, data, count, mode);
}
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                          const CUgraphEdgeData* data, size_t count,
                                          CUstreamCaptureMode mode) {
  return begin_to_graph(__func__, Null::per_thread, stream, graph, nodes, data, count, mode);
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* out) {
  return end_call(__func__, Null::legacy, stream, out);
}
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* out) {
  return end_call(__func__, Null::per_thread, stream, out);
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return info(__func__, Null::legacy, stream, {status});
}
CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
  return info(__func__, Null::per_thread, stream, {status});
}
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return info(__func__, Null::legacy, stream, {status, id});
}
CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return info(__func__, Null::per_thread, stream, {status, id});
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  return info(__func__, Null::legacy, stream, {status, id, graph, nodes, nullptr, count});
}
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                        CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  return info(__func__, Null::per_thread, stream, {status, id, graph, nodes, nullptr, count});
}
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, const CUgraphEdgeData** data,
                                   size_t* count) {
  return info(__func__, Null::legacy, stream, {status, id, graph, nodes, data, count});
}
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                        CUgraph* graph, const CUgraphNode** nodes,
                                        const CUgraphEdgeData** data, size_t* count) {
  return info(__func__, Null::per_thread, stream, {status, id, graph, nodes, data, count});
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count,
                                           unsigned int flags) {
  return update_call(__func__, Null::legacy, stream, nodes, nullptr, count, flags);
}
CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode* nodes, size_t count,
                                                unsigned int flags) {
  return update_call(__func__, Null::per_thread, stream, nodes, nullptr, count, flags);
}
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes,
                                              const CUgraphEdgeData* data, size_t count, unsigned int flags) {
  return update_call(__func__, Null::legacy, stream, nodes, data, count, flags);
}
CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode* nodes,
                                                   const CUgraphEdgeData* data, size_t count,
                                                   unsigned int flags) {
  return update_call(__func__, Null::per_thread, stream, nodes, data, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return initialised(__func__, [&] {
    if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
      return CUDA_ERROR_INVALID_VALUE;
    std::swap(thread_mode, *mode);
    return CUDA_SUCCESS;
  });
}
