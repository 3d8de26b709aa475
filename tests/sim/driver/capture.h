// Stream capture: what a stream is given becomes nodes of a graph instead of work ("Creating a Graph Using
// Stream Capture", CUDA C++ programming guide). A capture begins in one stream and takes in others that wait
// for its events; what breaks its rules makes it invalid until it is ended.
#pragma once
#include <set>
#include <vector>

#include "driver.h"
#include "graph.h"

namespace gpufence::sim {

struct Capture {
  unsigned long long id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const void* thread = nullptr;  // that began it
  Graph* graph = nullptr;        // gone once the capture is invalid, if it is the capture's own
  bool own_graph = true;         // false: cuStreamBeginCaptureToGraph
  Stream* origin = nullptr;
  bool invalid = false, ended = false;
  std::vector<Stream*> streams;        // its origin first
  std::set<const GraphNode*> dropped;  // need not be joined: cuStreamUpdateCaptureDependencies took them out
};

// What a capturing stream's next node depends on.
struct StreamCapture {
  std::shared_ptr<Capture> capture;
  std::vector<GraphEdge> frontier;
  // As told last: valid "until the next API call which operates on the stream".
  std::vector<CUgraphNode> told_nodes;
  std::vector<CUgraphEdgeData> told_data;
};

// What an event recorded in a capture holds.
struct CapturedEvent {
  std::shared_ptr<Capture> capture;
  std::vector<GraphEdge> nodes;
};

inline bool is_capturing(const Stream& stream) {
  return stream.capture.load(std::memory_order_acquire) != nullptr;
}

// ---- Instead of work, in a stream that captures: a node, or why not ----

CUresult capture_kernel(Stream& stream, CUfunction function, const KernelRequest& request);
CUresult capture_copy(Stream& stream, const Box& box);
CUresult capture_fill(Stream& stream, const Fill& fill);
CUresult capture_host(Stream& stream, CUhostFn function, void* data);
CUresult capture_alloc(Stream& stream, const CUmemPoolProps& props, size_t bytes, CUdeviceptr* out);
CUresult capture_free(Stream& stream, CUdeviceptr address);
// Which becomes a child of the capture's, or is destroyed. With the graphs' lock held.
CUresult capture_graph(Stream& stream, Graph* graph);
CUresult capture_event_record(Stream& stream, Event& event, CUevent handle, bool external);
CUresult capture_event_wait(Stream& stream, CUevent handle, bool external);
// A stream that does not capture waits for such an event: it takes part from now on.
CUresult join_capture(Stream& stream, const std::shared_ptr<const CapturedEvent>& event);

// ---- What breaks a capture ----

// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, or CUDA_ERROR_STREAM_CAPTURE_INVALIDATED if it was before.
CUresult refuse_in_capture(Stream& stream);
CUresult refuse_legacy_stream(Context& context);
// The event was recorded in a capture: nobody can ask for its end.
CUresult refuse_captured_event(Event& event);
// The stream goes while it captures.
void leave_capture(Stream& stream);
// With their context.
void end_captures_of(Context& context);
// Whether one of the context's streams captures; it and the others are invalid then.
bool invalidate_captures_of(Context& context);

}  // namespace gpufence::sim
