// How queues are drained, and what waits for what. Lock order: a context's `order`, then one queue's lock;
// the pool's and the store's alone.
#include "queue.h"

#include "output.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

namespace gpufence::sim {

struct Item {
  uint64_t number = 0;
  std::vector<Ticket> after;
  Operation run;                       // may be empty: the item only waits
  std::function<void(CUresult)> host;  // instead of `run`
  std::function<void()> due;           // see enqueue()
  bool always = false;                 // `host` runs in a dead context too
};

struct Queue {
  std::mutex lock;
  std::condition_variable progress;
  std::atomic<uint64_t> submitted{0};       // written under `lock`
  std::atomic<uint64_t> completed{0};       // written under `lock`
  std::map<const Queue*, uint64_t> behind;  // what wait_for() named, under `lock`
  std::deque<Item> items;  // those for the worker; numbers missing here are run by their callers
  bool draining = false;   // a worker has it
  bool closed = true;      // takes no more work: its context is gone
  Context* context = nullptr;
  uint64_t lease = 0;                // counts the streams that had it, under `lock`
  std::atomic<bool> retired{false};  // its stream is gone
  bool blocking = true;              // takes part in the legacy stream's rules
};

constinit thread_local bool in_host_function = false;
constinit static std::atomic<bool> exiting{false};  // the process, by exit()

namespace {

// ---- Workers ----

struct Worker {
  std::condition_variable wake;
  Queue* next = nullptr;
};

// Leaked: workers are detached and outlive main.
struct Pool {
  static constexpr size_t kMostIdle = 32;
  std::mutex lock;
  std::vector<Worker*> idle;
};

Pool& pool() {
  static Pool& made = *new Pool;
  return made;
}

// Under the queue's lock. The next one is due before anybody can see that this one is done.
void complete_held(Queue& queue, uint64_t number) {
  if (!queue.items.empty() && queue.items.front().number == number + 1 && queue.items.front().due) {
    const std::vector<Ticket>& after = queue.items.front().after;
    if (std::all_of(after.begin(), after.end(), [](const Ticket& ticket) { return ticket.done(); }))
      queue.items.front().due();
  }
  queue.completed.store(number, std::memory_order_release);
  queue.progress.notify_all();
}

void complete(Queue& queue, uint64_t number) {
  std::lock_guard<std::mutex> held(queue.lock);
  complete_held(queue, number);
}

void run(Queue& queue, Item& item) {
  Context& context = *queue.context;
  CUresult state = context.fault.load(std::memory_order_acquire);
  // A context that is being destroyed still completes its work, until it is told to end.
  if (state == CUDA_SUCCESS && context.cancel.load(std::memory_order_acquire))
    state = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (item.host && (state == CUDA_SUCCESS || item.always)) {
    flush_output(context);
    in_host_function = true;
    item.host(state);
    in_host_function = false;
  } else if (item.run && state == CUDA_SUCCESS) {
    if (const CUresult fault = item.run(); fault != CUDA_SUCCESS) fail(context, fault);
  }
  item.host = nullptr;
  item.run = nullptr;
  item.due = nullptr;
}

void drain(Queue& queue) {
  std::unique_lock<std::mutex> held(queue.lock);
  while (!queue.items.empty()) {
    Item item = std::move(queue.items.front());
    queue.items.pop_front();
    queue.progress.wait(held, [&] { return queue.completed.load() + 1 == item.number; });
    held.unlock();
    for (const Ticket& ticket : item.after) ticket.wait();
    run(queue, item);
    held.lock();
    complete_held(queue, item.number);
  }
  queue.draining = false;
}

void* work(void* first) {
  pthread_setname_np(pthread_self(), "cuda-stream");
  auto* queue = static_cast<Queue*>(first);
  Worker self;
  for (;;) {
    drain(*queue);
    std::unique_lock<std::mutex> held(pool().lock);
    if (pool().idle.size() >= Pool::kMostIdle) return nullptr;
    self.next = nullptr;
    pool().idle.push_back(&self);
    self.wake.wait(held, [&] { return self.next != nullptr; });
    queue = self.next;
  }
}

// Detached, as nobody could join it at exit, and deaf to signals: those are for the program's own threads.
bool start_worker(Queue& queue) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, work, &queue) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return started;
}

void give_to_worker(Queue& queue) {
  {
    std::lock_guard<std::mutex> held(pool().lock);
    if (!pool().idle.empty()) {
      Worker* worker = pool().idle.back();
      pool().idle.pop_back();
      worker->next = &queue;
      worker->wake.notify_one();
      return;
    }
  }
  if (!start_worker(queue)) drain(queue);
}

// ---- Submission ----

bool is_legacy(const Stream& stream) {
  return &stream == &stream.context->legacy;
}

// What the legacy stream's rules make the stream's next operation wait for; under the context's `order`.
void add_legacy_rules(Stream& stream, std::vector<Ticket>& after) {
  Context& context = *stream.context;
  if (is_legacy(stream)) {
    for (Queue* other : context.queues)
      if (other->blocking && other != stream.queue)
        if (const Ticket ticket{other, other->submitted.load()}; !ticket.done()) after.push_back(ticket);
  } else {
    if (const Ticket ticket{context.legacy.queue, context.legacy.queue->submitted.load()}; !ticket.done())
      after.push_back(ticket);
  }
}

void add_barrier(Stream& stream, std::vector<Ticket>& after) {
  Context& context = *stream.context;
  const uint64_t number = context.held_until.load(std::memory_order_acquire);
  if (__builtin_expect(number == 0, 1) || &stream == &context.barrier || &stream == &context.gathering)
    return;
  if (const Ticket ticket{context.barrier.queue, number}; !ticket.done()) after.push_back(ticket);
}

enum class How { worker, worker_unless_idle, caller };
enum class Given { to_worker, to_caller, refused };

// Gives the item its number, which the caller may read afterwards, and hands it to a worker, or leaves it to
// the caller, who then has to complete() it.
Given submit(Stream& stream, Item& item, How how) {
  Queue& queue = *stream.queue;
  add_barrier(stream, item.after);
  std::unique_lock<std::mutex> order(stream.context->order, std::defer_lock);
  if (queue.blocking) {
    order.lock();
    add_legacy_rules(stream, item.after);
  }
  std::unique_lock<std::mutex> held(queue.lock);
  if (queue.closed) return Given::refused;
  const bool nothing_before = item.after.empty() && queue.completed.load() == queue.submitted.load();
  item.number = queue.submitted.load() + 1;
  queue.submitted.store(item.number);
  if (how == How::caller || (how == How::worker_unless_idle && nothing_before)) return Given::to_caller;
  if (nothing_before && item.due) item.due();
  queue.items.push_back(std::move(item));
  const bool start = !queue.draining;
  queue.draining = true;
  held.unlock();
  if (order.owns_lock()) order.unlock();
  if (start) give_to_worker(queue);
  return Given::to_worker;
}

// Completes the number even if the thread is cancelled in the operation.
struct Completion {
  Queue& queue;
  uint64_t number;
  ~Completion() { complete(queue, number); }
};

CUresult finish_here(Stream& stream, Item& item) {
  Queue& queue = *stream.queue;
  Context& context = *stream.context;
  Ticket{&queue, item.number - 1}.wait();
  for (const Ticket& ticket : item.after) ticket.wait();
  flush_output(context);
  Completion completion{queue, item.number};
  if (const CUresult refused = refusal(context); refused != CUDA_SUCCESS) return refused;
  const CUresult result = item.run();
  item.run = nullptr;
  if (result != CUDA_SUCCESS) fail(context, result);
  return result;
}

// ---- The store of queues ----

struct Store {
  std::mutex lock;
  std::vector<Queue*> unused;
};

Store& store() {
  static Store& made = *new Store;
  return made;
}

void put_back(Queue* queue) {
  std::lock_guard<std::mutex> held(store().lock);
  store().unused.push_back(queue);
}

// Takes the queues of destroyed streams out whose work is done; under `order`.
void sweep(Context& context) {
  auto& queues = context.queues;
  auto gone = std::partition(queues.begin(), queues.end(), [](Queue* queue) {
    if (!queue->retired.load()) return true;
    std::lock_guard<std::mutex> held(queue->lock);
    return queue->draining || queue->completed.load() != queue->submitted.load();
  });
  for (auto it = gone; it != queues.end(); ++it) put_back(*it);
  queues.erase(gone, queues.end());
  context.sweep_at = std::max<size_t>(64, queues.size() * 2);
}

void open(Stream& stream) {
  Queue* queue = nullptr;
  {
    std::lock_guard<std::mutex> held(store().lock);
    if (!store().unused.empty()) {
      queue = store().unused.back();
      store().unused.pop_back();
    }
  }
  if (queue == nullptr) queue = new Queue;
  {
    std::lock_guard<std::mutex> held(queue->lock);
    queue->context = stream.context;
    queue->blocking = (stream.flags & CU_STREAM_NON_BLOCKING) == 0;
    queue->retired = false;
    queue->closed = false;
    stream.lease = ++queue->lease;
    queue->behind.clear();
  }
  stream.queue = queue;
  stream.context->queues.push_back(queue);
}

std::vector<Ticket> all_work(Context& context) {
  std::vector<Ticket> work;
  std::lock_guard<std::mutex> order(context.order);
  for (Queue* queue : context.queues)
    if (const Ticket ticket{queue, queue->submitted.load()}; !ticket.done()) work.push_back(ticket);
  return work;
}

bool wait_until(const std::vector<Ticket>& work, uint64_t deadline_ns) {
  bool done = true;
  for (const Ticket& ticket : work) done = ticket.wait_until(deadline_ns) && done;
  return done;
}

}  // namespace

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

bool Ticket::done() const {
  return queue == nullptr || queue->completed.load(std::memory_order_acquire) >= number;
}

void Ticket::wait() const {
  if (done()) return;
  std::unique_lock<std::mutex> held(queue->lock);
  queue->progress.wait(held, [&] { return done(); });
}

bool Ticket::wait_until(uint64_t deadline_ns) const {
  if (done()) return true;
  const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
  std::unique_lock<std::mutex> held(queue->lock);
  return queue->progress.wait_until(held, deadline, [&] { return done(); });
}

void enqueue(Stream& stream, Operation operation, std::function<void()> due) {
  Item item;
  item.run = std::move(operation);
  item.due = std::move(due);
  submit(stream, item, How::worker);
}

void enqueue_short(Stream& stream, Operation operation) {
  Item item;
  item.run = std::move(operation);
  if (submit(stream, item, How::worker_unless_idle) == Given::to_caller) finish_here(stream, item);
}

CUresult run_here(Stream& stream, Operation operation) {
  Item item;
  item.run = std::move(operation);
  if (submit(stream, item, How::caller) == Given::refused) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return finish_here(stream, item);
}

CUresult run_here_after(Stream& stream, std::initializer_list<Context*> contexts, Operation operation) {
  Item item;
  item.run = std::move(operation);
  for (Context* context : contexts) {
    const std::vector<Ticket> work = all_work(*context);
    item.after.insert(item.after.end(), work.begin(), work.end());
  }
  if (submit(stream, item, How::caller) == Given::refused) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return finish_here(stream, item);
}

void enqueue_host(Stream& stream, bool always, std::function<void(CUresult)> function) {
  Item item;
  item.host = std::move(function);
  item.always = always;
  submit(stream, item, How::worker);
}

void fail(Context& context, CUresult fault) {
  CUresult none = CUDA_SUCCESS;
  context.fault.compare_exchange_strong(none, fault);
  context.cancel.store(true, std::memory_order_release);
}

namespace {

// Leaves out what is done: whoever waits for nothing may be due at once.
Item behind(std::vector<Ticket> after) {
  Item item;
  item.after = std::move(after);
  std::erase_if(item.after, [](const Ticket& ticket) { return ticket.done(); });
  return item;
}

Ticket give(Stream& stream, Item& item) {
  return submit(stream, item, How::worker) == Given::refused ? Ticket{} : Ticket{stream.queue, item.number};
}

}  // namespace

Ticket enqueue_behind(Stream& stream, std::vector<Ticket> after, Operation operation,
                      std::function<void()> due) {
  Item item = behind(std::move(after));
  item.run = std::move(operation);
  item.due = std::move(due);
  return give(stream, item);
}

Ticket enqueue_host_behind(Stream& stream, std::vector<Ticket> after,
                           std::function<void(CUresult)> function) {
  Item item = behind(std::move(after));
  item.host = std::move(function);
  return give(stream, item);
}

std::shared_ptr<Mark> mark_behind(Stream& stream, std::vector<Ticket> after) {
  auto made = std::make_shared<Mark>();
  Item item = behind(std::move(after));
  item.run = [made] {
    made->ns.store(now_ns(), std::memory_order_release);
    return CUDA_SUCCESS;
  };
  const Given given = submit(stream, item, How::worker_unless_idle);
  if (given == Given::refused) return made;
  made->ticket = {stream.queue, item.number};
  if (given == Given::to_caller) finish_here(stream, item);
  return made;
}

std::shared_ptr<Mark> mark(Stream& stream) {
  return mark_behind(stream, {});
}

std::shared_ptr<Mark> mark(Context& context) {
  return mark_behind(context.gathering, all_work(context));
}

void hold_back(Context& context) {
  context.held_until.store(context.barrier.queue->submitted.load(), std::memory_order_release);
}

bool ordered_behind(const Stream& stream, const Ticket& ticket) {
  std::lock_guard<std::mutex> held(stream.queue->lock);
  const auto known = stream.queue->behind.find(ticket.queue);
  return known != stream.queue->behind.end() && known->second >= ticket.number;
}

void wait_for(Stream& stream, const Ticket& ticket) {
  if (ticket.queue != nullptr) {
    std::lock_guard<std::mutex> held(stream.queue->lock);
    uint64_t& number = stream.queue->behind[ticket.queue];
    number = std::max(number, ticket.number);
  }
  if (ticket.done()) return;
  Item item;
  item.after.push_back(ticket);
  submit(stream, item, How::worker);
}

bool idle(Stream& stream) {
  if (!Ticket{stream.queue, stream.queue->submitted.load()}.done()) return false;
  if (!is_legacy(stream)) return true;
  std::vector<Ticket> after;
  std::lock_guard<std::mutex> order(stream.context->order);
  add_legacy_rules(stream, after);
  return after.empty();
}

void synchronise(Stream& stream) {
  std::vector<Ticket> after;
  if (is_legacy(stream)) {
    std::lock_guard<std::mutex> order(stream.context->order);
    add_legacy_rules(stream, after);
  }
  Ticket{stream.queue, stream.queue->submitted.load()}.wait();
  for (const Ticket& ticket : after) ticket.wait();
  flush_output(*stream.context);
}

void synchronise(Context& context) {
  for (const Ticket& ticket : all_work(context)) ticket.wait();
  flush_output(context);
}

void notice_exit() {
  // Exit handlers run in reverse: this one before the runtime's that releases the context, as a runtime
  // registers that at its start, before it has one.
  [[maybe_unused]] static const int registered = atexit([] { exiting = true; });
}

void let_end(Context& context) {
  constexpr uint64_t kPatience = 5'000'000'000, kAtExit = 100'000'000;
  // Once is enough: an exit handler unloads code, then releases the context.
  if (!context.overdue)
    context.overdue = !wait_until(all_work(context), now_ns() + (exiting ? kAtExit : kPatience));
}

void open_queue(Stream& stream) {
  std::lock_guard<std::mutex> order(stream.context->order);
  if (stream.context->queues.size() >= stream.context->sweep_at) sweep(*stream.context);
  open(stream);
}

void retire_queue(Queue& queue) {
  queue.retired.store(true);
}

bool has_queue(const Stream& stream) {
  if (stream.queue == nullptr) return false;
  std::lock_guard<std::mutex> held(stream.queue->lock);
  return stream.queue->lease == stream.lease && !stream.queue->closed;
}

void retire_queue_of(const Stream& stream) {
  if (stream.queue == nullptr) return;
  std::lock_guard<std::mutex> held(stream.queue->lock);
  if (stream.queue->lease == stream.lease) stream.queue->retired = true;
}

void open_queues(Context& context) {
  std::lock_guard<std::mutex> order(context.order);
  context.legacy.context = &context;
  open(context.legacy);
  context.held_until = 0;
  for (Stream* own : {&context.gathering, &context.barrier}) {
    own->context = &context;
    own->flags = CU_STREAM_NON_BLOCKING;
    open(*own);
  }
}

void close_queues(Context& context) {
  // A kernel without end is told to stop, what still waits is dropped, and a host function that does not
  // return keeps its worker and nothing else.
  let_end(context);
  context.cancel.store(true, std::memory_order_release);
  constexpr uint64_t kOnceTold = 1'000'000'000;
  wait_until(all_work(context), now_ns() + kOnceTold);
  std::lock_guard<std::mutex> order(context.order);
  for (Queue* queue : context.queues) {
    std::lock_guard<std::mutex> held(queue->lock);
    queue->closed = true;
    // Callbacks are promised to be called once.
    for (Item& item : queue->items) {
      item.run = nullptr;
      item.due = nullptr;
    }
    queue->retired = true;
  }
  sweep(context);
  // Those that a host function holds for ever are leaked with it.
  context.queues.clear();
  context.per_thread.clear();
}

}  // namespace gpufence::sim
