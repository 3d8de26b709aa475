// See user_object.h. Destructors run on a thread of ours ("executed by a shared internal thread",
// cuUserObjectCreate), where CUDA calls are not permitted.
#include "user_object.h"

#include <pthread.h>
#include <signal.h>

#include <climits>
#include <condition_variable>
#include <deque>

namespace gpufence::sim {

struct UserObject {
  std::atomic<uint32_t> live{0};
  std::atomic<uint64_t> references{0};
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
};

namespace {

// Leaked, as all state that exit handlers reach. Its lock is taken under any other.
struct Objects {
  Handles<UserObject> handles;
  std::mutex lock;
  std::condition_variable more;
  std::deque<std::pair<CUhostFn, void*>> dead;
  bool started = false;
};
Objects& objects() {
  static auto* made = new Objects;
  return *made;
}

void* bury(void*) {
  pthread_setname_np(pthread_self(), "cuda-objects");
  in_host_function = true;
  for (;;) {
    std::pair<CUhostFn, void*> next;
    {
      std::unique_lock<std::mutex> held(objects().lock);
      objects().more.wait(held, [] { return !objects().dead.empty(); });
      next = objects().dead.front();
      objects().dead.pop_front();
    }
    next.first(next.second);
  }
}

void end_later(CUhostFn destroy, void* pointer) {
  std::unique_lock<std::mutex> held(objects().lock);
  objects().dead.emplace_back(destroy, pointer);
  if (!objects().started) {
    // Detached and deaf to signals, as the streams' workers.
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    objects().started = pthread_create(&thread, &attributes, bury, nullptr) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
  }
  objects().more.notify_one();
}

bool count_valid(unsigned count) {
  return count != 0 && count <= INT_MAX;
}

void release(UserObject& object, uint64_t count) {
  if (object.references.fetch_sub(count) != count) return;
  const CUhostFn destroy = object.destroy;
  void* pointer = object.pointer;
  if (objects().handles.retire(&object)) end_later(destroy, pointer);
}

template <class Body>
CUresult with_object(const char* name, CUuserObject handle, unsigned count, Body&& body) {
  return initialised(name, [&] {
    UserObject* object = objects().handles.check(handle);
    if (object == nullptr || !count_valid(count)) return CUDA_ERROR_INVALID_VALUE;
    return body(*object);
  });
}

}  // namespace

UserReferences::~UserReferences() {
  for (const auto& [object, count] : held) release(*object, count);
}

void retain_all(const UserReferences& from, UserReferences& to) {
  for (const auto& [object, count] : from.held) {
    object->references += count;
    to.held[object] += count;
  }
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy, unsigned int count,
                            unsigned int flags) {
  return initialised(__func__, [&] {
    if (out == nullptr || destroy == nullptr || !count_valid(count) ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
      return CUDA_ERROR_INVALID_VALUE;
    UserObject* object = objects().handles.take();
    if (object == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    object->pointer = pointer;
    object->destroy = destroy;
    object->references = count;
    objects().handles.publish(object);
    *out = reinterpret_cast<CUuserObject>(object);
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  return with_object(__func__, handle, count, [&](UserObject& object) {
    object.references += count;
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  return with_object(__func__, handle, count, [&](UserObject& object) {
    if (object.references < count) return CUDA_ERROR_INVALID_VALUE;
    release(object, count);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphRetainUserObject(CUgraph handle, CUuserObject object, unsigned int count,
                                 unsigned int flags) {
  return with_object(__func__, object, count, [&](UserObject& retained) {
    std::lock_guard<std::mutex> held(graph_table().lock);
    Graph* graph = graph_of(handle);
    if (graph == nullptr || (flags & ~static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (flags == 0) retained.references += count;
    graph->references->held[&retained] += count;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphReleaseUserObject(CUgraph handle, CUuserObject object, unsigned int count) {
  return with_object(__func__, object, count, [&](UserObject& released) {
    std::lock_guard<std::mutex> held(graph_table().lock);
    Graph* graph = graph_of(handle);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto& references = graph->references->held;
    const auto known = references.find(&released);
    if (known == references.end() || known->second < count) return CUDA_ERROR_INVALID_VALUE;
    if ((known->second -= count) == 0) references.erase(known);
    release(released, count);
    return CUDA_SUCCESS;
  });
}
