// Streams as queues of work. Every piece of work that a stream is given has a ticket, a number that counts
// up; the work of a queue completes in that order, so that "everything up to n is done" is one comparison. A
// queue with work is drained by a worker thread of its own; idle queues hold no thread. Queues are never
// freed, only used again with their numbers running on: a ticket stays good for ever, whatever becomes of its
// stream.
//
// To give a stream work, resolve the handle with stream_of() (driver.h), check the arguments, then enqueue()
// what is to happen later, or run_here() what the caller has to see done. Default streams, events and other
// streams' work are waited for in here, by NVIDIA's rules ("Stream synchronization behavior", CUDA driver
// API).
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <vector>

#include "driver.h"

namespace gpufence::sim {

// One piece of work, run once everything that it has to wait for is done: by a worker, or by run_here's
// caller. An answer other than CUDA_SUCCESS is a fault and kills the stream's context (fail() below). It must
// call no export of the driver. It is skipped when its context is dead or destroyed by then. What it captured
// is released before the work counts as done.
using Operation = std::function<CUresult()>;

// Gives the stream work and returns at once. Without a thread to be had on the host it runs before return.
// `due` is called once nothing of its stream or of those it waits for stands before it, if that is so before
// its turn comes: on any thread, under a lock that no call of this file may be made in.
void enqueue(Stream& stream, Operation operation, std::function<void()> due = nullptr);

// The same for work that takes less time than waking a worker: done before return if the stream has nothing
// to wait for.
void enqueue_short(Stream& stream, Operation operation);

// Runs it on the calling thread, in the stream's order, and returns when it is done: how synchronous calls
// behave. The answer is the operation's, or that of the context if it is dead.
CUresult run_here(Stream& stream, Operation operation);

// As run_here, after all work that these contexts have (cuMemcpyPeer between two GPUs).
CUresult run_here_after(Stream& stream, std::initializer_list<Context*> contexts, Operation operation);

// Calls host code of the program on the worker, where CUDA calls answer CUDA_ERROR_NOT_PERMITTED. `always`:
// also in a dead context, which it is told by its argument (cuStreamAddCallback); else only in a healthy one
// (cuLaunchHostFunc).
void enqueue_host(Stream& stream, bool always, std::function<void(CUresult)> function);

// Kills a context: the code is what every call that touches it answers from now on. The first fault stays.
// For work that has no answer to give, as device code found at fault after its launch was over.
void fail(Context& context, CUresult fault);

// A point in a queue: good for ever, and done once all work up to there is.
struct Ticket {
  Queue* queue = nullptr;  // nullptr: nothing to wait for
  uint64_t number = 0;

  [[nodiscard]] bool done() const;
  void wait() const;
  // False if it was not done by then, CLOCK_MONOTONIC nanoseconds.
  [[nodiscard]] bool wait_until(uint64_t deadline_ns) const;
};

// What an event holds of its last record.
struct Mark {
  Ticket ticket;
  std::atomic<uint64_t> ns{0};  // CLOCK_MONOTONIC, when the work before it was done
};
// Of the stream's work so far; its time is taken when that is done.
std::shared_ptr<Mark> mark(Stream& stream);
// For the parts of one launch of a graph: work that waits for these besides what stands before it in its
// stream. Its own end, which the next parts may wait for. An empty operation only waits.
Ticket enqueue_behind(Stream& stream, std::vector<Ticket> after, Operation operation,
                      std::function<void()> due = nullptr);
Ticket enqueue_host_behind(Stream& stream, std::vector<Ticket> after, std::function<void(CUresult)> function);
// As mark(), of what is behind these.
std::shared_ptr<Mark> mark_behind(Stream& stream, std::vector<Ticket> after);
// As mark(), of all work of the context.
std::shared_ptr<Mark> mark(Context& context);
// All later work of the stream waits for it.
void wait_for(Stream& stream, const Ticket& ticket);
// All later work of the context waits for what is in its stream `barrier`.
void hold_back(Context& context);
// True if the stream was told to wait for that, or for later work of that queue.
bool ordered_behind(const Stream& stream, const Ticket& ticket);

// True if all work of the stream is done; of the legacy stream: of all blocking streams too, as the next
// operation would wait for them.
bool idle(Stream& stream);
void synchronise(Stream& stream);
void synchronise(Context& context);
// The same for a context's last moments and for code that is unloaded: gives up after five seconds on work
// that has no end; in exit handlers after a tenth of one, as nobody is left to see results, and a real
// process does not wait at all.
void let_end(Context& context);
// So that let_end() knows: at a context's beginning.
void notice_exit();

uint64_t now_ns();

// For contexts and streams as they come and go.
void open_queue(Stream& stream);  // context and flags are set
void retire_queue(Queue& queue);  // its work goes on
// For a stream that may outlive its context, whose end takes the queues: whether it still has its own, and
// its end.
bool has_queue(const Stream& stream);
void retire_queue_of(const Stream& stream);
void open_queues(Context& context);  // the legacy stream
// Lets the context's work end, the endless one by force, and forgets its default streams.
void close_queues(Context& context);

}  // namespace gpufence::sim
