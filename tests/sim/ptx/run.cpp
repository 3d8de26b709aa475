// One grid on host threads. A worker takes blocks in order and runs the warps of its resident blocks in turn;
// a block that takes long lets the next one in, so that blocks may wait for each other as far as a device
// would hold them at once. Helpers are threads that stay; they come only to launches that are worth waking
// them.
#include "ptx/run.h"

#include <algorithm>
#include <cfenv>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <deque>
#include <thread>

#include <pthread.h>
#include <unistd.h>
#include <csignal>

#include "exec.h"

namespace gpufence::sim::ptx {

AccessMap::AccessMap(std::vector<Region> regions) : regions_(std::move(regions)) {
  std::erase_if(regions_, [](const Region& region) { return region.begin >= region.end; });
  std::sort(regions_.begin(), regions_.end(),
            [](const Region& a, const Region& b) { return a.begin < b.begin; });
}

const Region* AccessMap::find(uint64_t address) const {
  auto above = std::upper_bound(regions_.begin(), regions_.end(), address,
                                [](uint64_t a, const Region& region) { return a < region.begin; });
  if (above == regions_.begin()) return nullptr;
  const Region& region = *--above;
  return address < region.end ? &region : nullptr;
}

uint32_t blocks_per_multiprocessor(const Function& function, uint32_t threads, uint32_t dynamic_shared,
                                   const DeviceTraits& device) {
  if (threads == 0 || threads > 1024) return 0;
  const uint32_t warps = (threads + kLanes - 1) / kLanes;
  uint32_t blocks =
      std::min(device.max_blocks_per_multiprocessor, device.max_warps_per_multiprocessor / warps);
  // 64 Ki registers, handed out to warps in pieces of 256.
  const uint32_t registers = (std::max(function.registers, 16U) * kLanes + 255) / 256 * 256 * warps;
  blocks = std::min(blocks, 65536U / registers);
  const uint64_t shared = uint64_t{function.static_shared_bytes} + dynamic_shared;
  // 1 KiB of a block's shared memory is the system's.
  if (shared != 0)
    blocks = static_cast<uint32_t>(
        std::min<uint64_t>(blocks, device.shared_bytes_per_multiprocessor / (shared + 1024)));
  return blocks;
}

namespace {

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

void fail(LaunchState& state, Fault::Kind kind, std::string text) {
  const std::scoped_lock lock(state.fault_lock);
  state.stop.store(true, std::memory_order_relaxed);
  if (state.fault.kind != Fault::Kind::none) return;
  state.fault.kind = kind;
  state.fault.text = std::move(text);
}

// --- blocks
// -----------------------------------------------------------------------------------------------------------

bool make_block(Worker& worker, Block& block) {
  const LaunchState& state = *worker.state;
  const Launch& launch = *state.launch;
  const Function& function = *launch.function;
  const Code& code = *function.code;
  block.shared = aligned_bytes(state.shared_bytes + 64);
  if (block.shared == nullptr) return false;
  block.warps.resize(state.warps_per_block);
  for (uint32_t w = 0; w < state.warps_per_block; ++w) {
    Warp& warp = block.warps[w];
    warp.index = w;
    warp.block = &block;
    warp.worker = &worker;
    warp.launch = &state;
    warp.shared = block.shared.get();
    warp.shared_bytes = state.shared_bytes;
    warp.params = state.params.data();
    warp.param_bytes = static_cast<uint32_t>(function.param_bytes);
    warp.entry.storage = aligned_bytes(code.frame_bytes);
    if (warp.entry.storage == nullptr) return false;
    warp.entry.registers = warp.entry.storage.get();
    warp.entry.code = &code;
    warp.entry.function = static_cast<uint32_t>(launch.function - launch.module->functions.data());
    fill_constants(state, warp.entry, false);
    if (code.local_bytes != 0 && !reserve_local(warp, code.local_bytes)) return false;
    for (uint32_t i = 0; i < kLanes; ++i) {
      const uint32_t t = w * kLanes + i;
      warp.tid[0][i] = t % launch.block[0];
      warp.tid[1][i] = t / launch.block[0] % launch.block[1];
      warp.tid[2][i] = t / launch.block[0] / launch.block[1];
    }
  }
  return true;
}

void start_block(Block& block, const LaunchState& state, uint64_t index) {
  const Launch& launch = *state.launch;
  block.ctaid[0] = static_cast<uint32_t>(index % launch.grid[0]);
  block.ctaid[1] = static_cast<uint32_t>(index / launch.grid[0] % launch.grid[1]);
  block.ctaid[2] = static_cast<uint32_t>(index / launch.grid[0] / launch.grid[1]);
  block.live = state.threads_per_block;
  block.warps_done = 0;
  block.active = true;
  for (Barrier& barrier : block.barriers) barrier = Barrier{};
  if (state.shared_bytes != state.user_shared_bytes)
    std::memset(block.shared.get() + state.shared_bytes - kReservedShared, 0, kReservedShared);
  for (uint32_t w = 0; w < state.warps_per_block; ++w) {
    Warp& warp = block.warps[w];
    const uint32_t lanes = std::min(kLanes, state.threads_per_block - w * kLanes);
    warp.live = lanes == kLanes ? ~0U : (1U << lanes) - 1;
    warp.active = warp.live;
    warp.frame = &warp.entry;
    warp.registers = warp.entry.registers;
    warp.record = nullptr;
    warp.pc = launch.function->code->ops.data();
    warp.state = Warp::State::ready;
    warp.fuel = kFuel;
    warp.turns = 0;
    warp.polls = 0;
    warp.splits.clear();
    warp.records.clear();
  }
}

// Until the warp gives way, waits, ends or faults.
inline void run_warp(Warp& warp) {
  const Op* op = warp.pc;
  while (op != nullptr) op = op->run(warp, op);
}

enum class Turn { progress, finished, faulted, stuck };

// Each ready warp once.
Turn run_block(Block& block) {
  bool ran = false;
  for (Warp& warp : block.warps) {
    if (warp.state != Warp::State::ready) continue;
    ran = true;
    run_warp(warp);
    if (warp.state == Warp::State::faulted) return Turn::faulted;
    if (warp.state == Warp::State::done) ++block.warps_done;
  }
  if (block.warps_done == block.warps.size()) return Turn::finished;
  if (ran) return Turn::progress;
  // Nobody can go on: those that wait for company go on without.
  bool released = false;
  for (Warp& warp : block.warps) {
    if (warp.state == Warp::State::blocked) released = release_waiting(warp) || released;
  }
  return released ? Turn::progress : Turn::stuck;
}

// --- workers
// ----------------------------------------------------------------------------------------------------------

struct Recruiter;

void work(LaunchState& state, Recruiter* recruiter);

// Threads that wait for launches. One pool a process, leaked: a launch may run while the process exits.
struct Pool {
  std::mutex lock;
  std::condition_variable wake;
  std::deque<std::shared_ptr<Recruiter>> open;  // launches that want helpers
  unsigned threads = 0;
  pid_t owner = 0;

  static Pool& get() {
    static auto* pool = new Pool;
    return *pool;
  }

  void loop() {
    std::unique_lock hold(lock);
    for (;;) {
      while (open.empty()) wake.wait(hold);
      help(hold);
    }
  }
  void help(std::unique_lock<std::mutex>& hold);
};

struct Recruiter {
  LaunchState* state = nullptr;
  unsigned wanted = 0;  // helpers still to come
  unsigned helping = 0;
  bool called = false;
  std::condition_variable left;
  uint64_t started = now_ns();
  std::weak_ptr<Recruiter> self;

  // Called by the launching thread only, between turns: a short launch is over before helpers are awake.
  void maybe_call() {
    if (called || wanted == 0 || now_ns() - started < 20000) return;
    call();
  }
  void call() {
    called = true;
    if (wanted == 0) return;
    Pool& pool = Pool::get();
    const std::scoped_lock hold(pool.lock);
    if (pool.owner != getpid()) {  // after a fork there are no threads
      pool.owner = getpid();
      pool.threads = 0;
    }
    while (pool.threads < wanted) {
      // Signals are the program's: its handlers must not run on our threads.
      sigset_t all, before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      try {
        std::thread([] { Pool::get().loop(); }).detach();
        ++pool.threads;
      } catch (const std::exception&) {
        wanted = pool.threads;  // the host has no more threads
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    if (wanted == 0) return;
    pool.open.push_back(self.lock());
    pool.wake.notify_all();
  }
  // No helper comes any more, and those that came are gone.
  void dismiss() {
    if (!called) return;
    Pool& pool = Pool::get();
    std::unique_lock hold(pool.lock);
    std::erase_if(pool.open, [this](const auto& each) { return each.get() == this; });
    while (helping != 0) left.wait(hold);
  }
};

void Pool::help(std::unique_lock<std::mutex>& hold) {
  const std::shared_ptr<Recruiter> recruiter = open.front();
  if (--recruiter->wanted == 0) open.pop_front();
  ++recruiter->helping;
  hold.unlock();
  work(*recruiter->state, nullptr);
  hold.lock();
  if (--recruiter->helping == 0) recruiter->left.notify_all();
}

void run_all(Worker& worker, LaunchState& state, Recruiter* recruiter) {
  std::vector<Block*> spare;
  std::vector<Block*> running;
  const auto admit = [&] {
    const uint64_t index = state.next_block.fetch_add(1, std::memory_order_relaxed);
    if (index >= state.blocks) return false;
    if (spare.empty()) {
      worker.blocks.push_back(std::make_unique<Block>());
      if (!make_block(worker, *worker.blocks.back())) {
        fail(state, Fault::Kind::out_of_memory, "the host has no memory for the kernel's state");
        return false;
      }
      spare.push_back(worker.blocks.back().get());
    }
    start_block(*spare.back(), state, index);
    running.push_back(spare.back());
    spare.pop_back();
    return true;
  };
  while (running.size() < state.first_blocks && admit()) {
  }
  bool more = true;
  uint64_t rounds = 0, patience = 64;
  for (;;) {
    if (running.empty()) {
      if (!more || !(more = admit())) return;
    }
    for (size_t i = 0; i < running.size();) {
      if (state.stop.load(std::memory_order_relaxed)) return;
      Block& block = *running[i];
      const Turn turn = run_block(block);
      if (turn == Turn::faulted) return;
      if (turn == Turn::stuck) {
        Warp& warp = block.warps.front();
        const Op* op = nullptr;
        for (Warp& each : block.warps) {
          if (each.state == Warp::State::blocked && !each.splits.empty() && op == nullptr) {
            op = each.splits.front().pc;
            each.frame = each.splits.front().frame;
            fault(each, op, Fault::Kind::deadlock,
                  static_cast<unsigned>(__builtin_ctz(each.splits.front().active)));
          }
        }
        if (op == nullptr) fault(warp, nullptr, Fault::Kind::deadlock, 0);
        return;
      }
      if (turn != Turn::finished) {
        ++i;
        continue;
      }
      block.active = false;
      spare.push_back(&block);
      if (state.launch->watcher != nullptr) state.launch->watcher->block_ended();
      // A block that waited beside it goes on; a new one comes in its place while there are any.
      running[i] = running.back();
      running.pop_back();
      if (recruiter != nullptr) recruiter->maybe_call();
      if (running.empty() && more) more = admit();
    }
    if (running.empty()) continue;
    if (recruiter != nullptr) recruiter->maybe_call();
    if (state.launch->cancel != nullptr && state.launch->cancel->load(std::memory_order_relaxed)) {
      fail(state, Fault::Kind::cancelled, "cancelled");
      return;
    }
    if (more && ++rounds >= patience && running.size() < state.resident_blocks) {
      more = admit();
      rounds = 0;
      if (!state.launch->cooperative) patience = std::min<uint64_t>(patience + patience / 4, 4096);
    }
  }
}

void work(LaunchState& state, Recruiter* recruiter) {
  // Kernels round to nearest and keep subnormals, whatever the calling program set.
  std::fenv_t before;
  std::fegetenv(&before);
  std::fesetenv(FE_DFL_ENV);
  Worker worker;
  worker.state = &state;
  worker.frames.resize(state.module->functions.size());
  run_all(worker, state, recruiter);
  std::fesetenv(&before);
  // Frames of calls that a fault cut short.
  for (auto& block : worker.blocks) {
    for (Warp& warp : block->warps) {
      for (Record* record : warp.records) {
        if (record->callee != nullptr) drop_frame(warp, record->callee);
      }
    }
  }
}

unsigned host_cores() {
  static const auto cores = static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return cores;
}

bool out_of_bounds(const Launch& launch, std::string* why) {
  uint64_t blocks = 1, threads = 1, cluster = 1;
  for (size_t k = 0; k < 3; ++k) {
    if (launch.grid[k] == 0 || launch.block[k] == 0 || launch.cluster[k] == 0) {
      *why = "a dimension is 0";
      return true;
    }
    if (__builtin_mul_overflow(blocks, uint64_t{launch.grid[k]}, &blocks)) {
      *why = "more than 2^64 blocks";
      return true;
    }
    threads *= launch.block[k];
    cluster *= launch.cluster[k];
    if (threads > 1024) {
      *why = "more than 1024 threads a block";
      return true;
    }
    if (launch.grid[k] % launch.cluster[k] != 0) {
      *why = "the grid is no multiple of the cluster";
      return true;
    }
  }
  if (cluster > 16) *why = "more than 16 blocks a cluster";
  return cluster > 16;
}

}  // namespace

Fault run(const Launch& launch) {
  Fault refused;
  refused.kind = Fault::Kind::invalid_configuration;
  if (launch.module == nullptr || launch.function == nullptr || !launch.function->is_entry) {
    refused.text = "no kernel";
    return refused;
  }
  if (out_of_bounds(launch, &refused.text)) return refused;
  const Function& function = *launch.function;
  if (!function.unsupported.empty() || function.code == nullptr) {
    refused.kind = Fault::Kind::unsupported;
    refused.text =
        function.unsupported.empty() ? "kernel " + function.name + " has no body" : function.unsupported;
    return refused;
  }
  if (function.param_bytes != 0 && launch.params == nullptr) {
    refused.text = "no parameters";
    return refused;
  }
  LaunchState state;
  state.launch = &launch;
  state.module = launch.module;
  state.memory = launch.memory;
  state.threads_per_block = launch.block[0] * launch.block[1] * launch.block[2];
  state.warps_per_block = (state.threads_per_block + kLanes - 1) / kLanes;
  state.blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const uint64_t shared = launch.dynamic_shared_bytes != 0
                              ? uint64_t{function.dynamic_shared_place} + launch.dynamic_shared_bytes
                              : function.static_shared_bytes;
  if (shared > (uint64_t{16} << 20)) {
    refused.text = "more shared memory than any device has";
    return refused;
  }
  state.shared_bytes = state.user_shared_bytes = static_cast<uint32_t>(shared);
  if (function.reserved_shared) state.shared_bytes = (state.shared_bytes + 127) / 128 * 128 + kReservedShared;
  // Dynamic shared memory begins behind the static one.
  state.shared_offsets.assign(launch.module->globals.size(), function.dynamic_shared_place);
  for (const auto& [global, offset] : function.shared_places) state.shared_offsets[global] = offset;
  if (function.param_bytes != 0) {
    const auto* bytes = static_cast<const std::byte*>(launch.params);
    state.params.assign(bytes, bytes + function.param_bytes);
  }
  const uint32_t multiprocessors = std::max(1U, launch.device.multiprocessors);
  const uint64_t resident =
      uint64_t{std::max(1U, blocks_per_multiprocessor(function, state.threads_per_block,
                                                      launch.dynamic_shared_bytes, launch.device))} *
      multiprocessors;
  unsigned threads = launch.host_threads != 0 ? launch.host_threads : host_cores();
  threads = static_cast<unsigned>(std::min<uint64_t>(threads, state.blocks));
  Bytes workspace;
  auto recruiter = std::make_shared<Recruiter>();
  recruiter->self = recruiter;
  recruiter->state = &state;
  if (launch.cooperative) {
    if (state.blocks > resident) {
      refused.text = "a cooperative grid of more blocks than the device holds at once";
      return refused;
    }
    workspace = aligned_bytes(256);
    if (workspace == nullptr) {
      refused.kind = Fault::Kind::out_of_memory;
      refused.text = "the host has no memory for the kernel's state";
      return refused;
    }
    const uint32_t size = 256;  // its first word says how large it is; barriers count in the second
    std::memcpy(workspace.get(), &size, sizeof size);
    state.workspace = {reinterpret_cast<uint64_t>(workspace.get()),
                       reinterpret_cast<uint64_t>(workspace.get()) + 256, true};
    // All blocks are to live from the start: each worker takes its share; one that waits in vain takes more,
    // as helpers may be busy elsewhere.
    state.first_blocks = static_cast<uint32_t>((state.blocks + threads - 1) / threads);
    state.resident_blocks = static_cast<uint32_t>(state.blocks);
    recruiter->wanted = threads - 1;
    recruiter->call();
  } else {
    state.resident_blocks =
        static_cast<uint32_t>(std::clamp<uint64_t>(resident / std::max(1U, threads), 1, 4096));
    recruiter->wanted = threads - 1;
  }
  work(state, recruiter.get());
  recruiter->dismiss();
  return state.fault;
}

}  // namespace gpufence::sim::ptx
