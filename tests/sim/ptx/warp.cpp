// How the lanes of a warp part, meet, wait and end (exec.h says what the words mean), and the frames they run
// in.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "exec.h"

namespace gpufence::sim::ptx {

void AlignedFree::operator()(std::byte* bytes) const {
  std::free(bytes);
}

Bytes aligned_bytes(size_t size) {
  size = (std::max<size_t>(size, 64) + 63) / 64 * 64;
  auto* bytes = static_cast<std::byte*>(std::aligned_alloc(64, size));
  if (bytes != nullptr) std::memset(bytes, 0, size);
  return Bytes(bytes);
}

// --- faults
// -----------------------------------------------------------------------------------------------------------

const Op* fault(Warp& warp, const Op* op, Fault::Kind kind, unsigned lane, uint64_t address,
                std::string_view more) {
  warp.state = Warp::State::faulted;
  LaunchState& state = *warp.worker->state;
  const std::scoped_lock lock(state.fault_lock);
  state.stop.store(true, std::memory_order_relaxed);
  if (state.fault.kind != Fault::Kind::none) return nullptr;
  Fault& told = state.fault;
  told.kind = kind;
  told.address = address;
  for (size_t k = 0; k < 3; ++k) {
    told.block[k] = warp.block->ctaid[k];
    told.thread[k] = warp.tid[k][lane];
  }
  const char* what = "";
  switch (kind) {
    case Fault::Kind::illegal_address:
      what = "illegal address";
      break;
    case Fault::Kind::misaligned_address:
      what = "misaligned address";
      break;
    case Fault::Kind::illegal_instruction:
      what = "illegal instruction";
      break;
    case Fault::Kind::invalid_pc:
      what = "call of what is no function";
      break;
    case Fault::Kind::trap:
      what = "trap";
      break;
    case Fault::Kind::assertion:
      what = "assertion failed";
      break;
    case Fault::Kind::stack_overflow:
      what = "stack overflow";
      break;
    case Fault::Kind::deadlock:
      what = "deadlock: every thread of the block waits";
      break;
    case Fault::Kind::out_of_memory:
      what = "the host has no memory for the kernel's state";
      break;
    case Fault::Kind::unsupported:
      what = "unsupported";
      break;
    default:
      what = "ended";
      break;
  }
  told.text = what;
  if (kind == Fault::Kind::illegal_address || kind == Fault::Kind::misaligned_address ||
      kind == Fault::Kind::invalid_pc) {
    char hex[32];
    std::snprintf(hex, sizeof hex, " 0x%llx", static_cast<unsigned long long>(address));
    told.text += hex;
  }
  if (!more.empty()) told.text.append(": ").append(more);
  if (op != nullptr && warp.frame != nullptr && warp.frame->code != nullptr) {
    const Code& code = *warp.frame->code;
    const Code::Source& source = code.sources[op->source];
    told.text.append(" by ").append(code.opcodes[source.opcode]);
    told.text += " in " + warp.launch->module->functions[warp.frame->function].name + ", line " +
                 std::to_string(source.line) + " of the PTX";
  }
  told.text += ", block (" + std::to_string(told.block[0]) + "," + std::to_string(told.block[1]) + "," +
               std::to_string(told.block[2]) + ") thread (" + std::to_string(told.thread[0]) + "," +
               std::to_string(told.thread[1]) + "," + std::to_string(told.thread[2]) + ")";
  return nullptr;
}

// --- records and splits
// -----------------------------------------------------------------------------------------------

Record* new_record(Warp& warp, const Op* at, uint32_t expected) {
  Worker& worker = *warp.worker;
  if (worker.free_records.empty()) {
    worker.spare_records.push_back(std::make_unique<Record>());
    worker.free_records.push_back(worker.spare_records.back().get());
  }
  Record* record = worker.free_records.back();
  worker.free_records.pop_back();
  *record = Record{};
  record->at = at;
  record->expected = expected;
  record->parent = warp.record;
  record->place = static_cast<uint32_t>(warp.records.size());
  warp.records.push_back(record);
  return record;
}

void drop_record(Warp& warp, Record* record) {
  Record* last = warp.records.back();
  warp.records[record->place] = last;
  last->place = record->place;
  warp.records.pop_back();
  warp.worker->free_records.push_back(record);
}

namespace {

void load(Warp& warp, const Split& split) {
  warp.active = split.active;
  warp.frame = split.frame;
  warp.record = split.record;
  warp.registers = split.frame->registers;
  warp.pc = split.pc;
}

// Lanes that arrived at record go on at its place, as a split of their own.
Split onward(Record& record, uint32_t lanes) {
  Split split;
  split.pc = record.at;
  split.active = lanes;
  split.record = record.parent;
  split.frame = record.callee != nullptr ? record.callee->caller : nullptr;
  return split;
}

// The frame in which a branch's record lies: that of the nearest call, or the entry's.
Frame* frame_of(Warp& warp, const Record* record) {
  for (const Record* r = record; r != nullptr; r = r->parent) {
    if (r->callee != nullptr) return r == record ? r->callee->caller : r->callee;
  }
  return &warp.entry;
}

}  // namespace

const Op* next_split(Warp& warp) {
  for (size_t i = warp.splits.size(); i-- > 0;) {
    if (warp.splits[i].state != Split::State::ready) continue;
    const Split split = warp.splits[i];
    warp.splits.erase(warp.splits.begin() + static_cast<std::ptrdiff_t>(i));
    load(warp, split);
    return split.pc;
  }
  warp.active = 0;
  warp.state = warp.live == 0 ? Warp::State::done : Warp::State::blocked;
  return nullptr;
}

const Op* arrive(Warp& warp) {
  Record& record = *warp.record;
  record.arrived |= warp.active;
  if (record.arrived != record.expected) return next_split(warp);
  if (record.callee != nullptr) return_results(record, record.expected);
  const Op* at = record.at;
  warp.active = record.expected;
  if (record.callee != nullptr) {
    warp.frame = record.callee->caller;
    warp.registers = warp.frame->registers;
    drop_frame(warp, record.callee);
  }
  warp.record = record.parent;
  drop_record(warp, &record);
  return at;
}

const Op* diverge(Warp& warp, const Op* op, uint32_t taken) {
  const uint32_t fall = warp.active & ~taken;
  const Op* target = op + op->jump;
  const Op* next = op + 1;
  if (op->merge != 0) {
    const Op* merge = op + op->merge;
    // A loop's branch parts lanes again and again; they all meet at one place.
    if (warp.record == nullptr || warp.record->callee != nullptr || warp.record->at != merge) {
      warp.record = new_record(warp, merge, warp.active);
    }
    if (target == merge) {
      warp.record->arrived |= taken;
      warp.active = fall;
      return next;
    }
    if (next == merge) {
      warp.record->arrived |= fall;
      warp.active = taken;
      return target;
    }
  }
  Split split;
  split.pc = target;
  split.active = taken;
  split.frame = warp.frame;
  split.record = warp.record;
  warp.splits.push_back(split);
  warp.active = fall;
  return next;
}

const Op* leave(Warp& warp, uint32_t lanes, const Op* next) {
  warp.live &= ~lanes;
  const uint32_t rest = warp.active & ~lanes;
  for (Record* record = warp.record; record != nullptr;) {
    Record* parent = record->parent;
    record->expected &= ~lanes;
    if (record->expected == 0) {
      if (record->callee != nullptr) drop_frame(warp, record->callee);
      drop_record(warp, record);
    } else if (record->expected == record->arrived) {
      if (record->callee != nullptr) return_results(*record, record->arrived);
      Split split = onward(*record, record->arrived);
      if (split.frame == nullptr) split.frame = frame_of(warp, record);
      warp.splits.push_back(split);
      if (record->callee != nullptr) drop_frame(warp, record->callee);
      drop_record(warp, record);
    }
    record = parent;
  }
  // Lanes that wait for those that left need not wait any more: they look again.
  for (Split& split : warp.splits) {
    if (split.state == Split::State::at_sync) split.state = Split::State::ready;
  }
  Block& block = *warp.block;
  block.live -= static_cast<uint32_t>(__builtin_popcount(lanes));
  for (uint8_t id = 0; id < 16; ++id) {
    if (block.barriers[id].waiting != 0) complete_barrier(block, id);
  }
  warp.active = rest;
  return rest != 0 ? next : next_split(warp);
}

const Op* give_way(Warp& warp, const Op* next) {
  warp.fuel = kFuel;
  warp.turns += warp.polls != 0 ? kLongPatience / kPatience + 1 : 1;
  warp.polls = 0;
  // Other lanes of this warp first: they may hold what these spin for.
  if (!warp.splits.empty() || !warp.records.empty()) {
    if (warp.turns >= kLongPatience) {
      release_waiting(warp);
      warp.turns = 0;
    }
    Split self;
    self.pc = next;
    self.active = warp.active;
    self.frame = warp.frame;
    self.record = warp.record;
    for (size_t i = 0; i < warp.splits.size(); ++i) {
      if (warp.splits[i].state != Split::State::ready) continue;
      const Split split = warp.splits[i];
      warp.splits.erase(warp.splits.begin() + static_cast<std::ptrdiff_t>(i));
      warp.splits.push_back(self);
      load(warp, split);
      return nullptr;  // pc is set; other warps run before
    }
  }
  warp.pc = next;
  return nullptr;
}

const Op* park(Warp& warp, const Op* op, Split::State state, uint32_t lanes, uint8_t barrier) {
  Split split;
  split.pc = op;
  split.active = warp.active;
  split.frame = warp.frame;
  split.record = warp.record;
  split.state = state;
  split.barrier = barrier;
  split.lanes = lanes;
  warp.splits.push_back(split);
  return next_split(warp);
}

bool release_waiting(Warp& warp) {
  bool any = false;
  for (size_t i = 0; i < warp.records.size(); ++i) {
    Record& record = *warp.records[i];
    if (record.arrived == 0) continue;
    const uint32_t lanes = record.arrived;
    if (record.callee != nullptr) return_results(record, lanes);
    Split split = onward(record, lanes);
    if (split.frame == nullptr) split.frame = frame_of(warp, &record);
    warp.splits.push_back(split);
    record.expected &= ~lanes;
    record.arrived = 0;
    any = true;
  }
  if (any && warp.state == Warp::State::blocked) {
    warp.pc = next_split(warp);
    if (warp.pc != nullptr) warp.state = Warp::State::ready;
  }
  return any;
}

// --- frames
// -----------------------------------------------------------------------------------------------------------

void fill_constants(const LaunchState& state, Frame& frame, bool local_only) {
  const Code& code = *frame.code;
  if (!local_only) {
    const uint32_t words[4] = {~0U, 0, 0, 0};
    std::memcpy(frame.registers, words, sizeof words);
  }
  for (const Constant& constant : code.constants) {
    uint64_t value = 0;
    switch (constant.kind) {
      case Constant::Kind::literal:
        value = 0;
        break;
      case Constant::Kind::global: {
        const auto& addresses = state.launch->global_addresses;
        value = constant.index < addresses.size() ? addresses[constant.index] : 0;
        break;
      }
      case Constant::Kind::shared:
        value = state.shared_offsets[constant.index];
        break;
      case Constant::Kind::local:
        value = frame.local_base;
        break;
      case Constant::Kind::function:
        value = function_address(constant.index);
        break;
    }
    if (local_only && constant.kind != Constant::Kind::local) continue;
    value += static_cast<uint64_t>(constant.value);
    std::byte* row = frame.registers + constant.row;
    for (unsigned i = 0; i < kLanes; ++i) {
      switch (constant.bytes) {
        case 2:
          reinterpret_cast<uint16_t*>(row)[i] = static_cast<uint16_t>(value);
          break;
        case 4:
          reinterpret_cast<uint32_t*>(row)[i] = static_cast<uint32_t>(value);
          break;
        default:
          reinterpret_cast<uint64_t*>(row)[i] = value;
          break;
      }
    }
  }
}

Frame* new_frame(Warp& warp, uint32_t function) {
  Worker& worker = *warp.worker;
  auto& free = worker.frames[function];
  const Code* code = warp.launch->module->functions[function].code.get();
  Frame* frame = nullptr;
  if (free.empty()) {
    auto made = std::make_unique<Frame>();
    made->storage = aligned_bytes(code->frame_bytes);
    if (made->storage == nullptr) return nullptr;
    made->registers = made->storage.get();
    made->code = code;
    made->function = function;
    frame = made.release();
    fill_constants(*warp.launch, *frame, false);
  } else {
    frame = free.back().release();
    free.pop_back();
  }
  frame->caller = warp.frame;
  frame->depth = warp.frame->depth + 1;
  frame->local_base = warp.frame->local_base + (warp.frame->code->local_bytes + 15) / 16 * 16;
  if (code->local_bytes != 0) fill_constants(*warp.launch, *frame, true);
  return frame;
}

void drop_frame(Warp& warp, Frame* frame) {
  warp.worker->frames[frame->function].push_back(std::unique_ptr<Frame>(frame));
}

void return_results(Record& record, uint32_t lanes) {
  const Code& callee = *record.callee->code;
  const Code& caller = *record.callee->caller->code;
  const size_t count = std::min(record.call->results.size(), callee.result_offsets.size());
  for (size_t k = 0; k < count; ++k) {
    const uint32_t words = (std::min(record.call->result_bytes[k], callee.result_sizes[k]) + 3) / 4;
    auto* from = reinterpret_cast<const uint32_t*>(record.callee->registers + callee.param_area) +
                 callee.result_offsets[k] / 4 * kLanes;
    auto* to = reinterpret_cast<uint32_t*>(record.callee->caller->registers + caller.param_area) +
               record.call->results[k] / 4 * kLanes;
    for (uint32_t w = 0; w < words; ++w) {
      for (unsigned i = 0; i < kLanes; ++i) {
        if ((lanes >> i & 1) != 0) to[w * kLanes + i] = from[w * kLanes + i];
      }
    }
  }
}

bool reserve_local(Warp& warp, uint32_t bytes) {
  if (bytes > warp.local_capacity) {
    const uint32_t capacity = std::max<uint32_t>({bytes, 2 * warp.local_capacity, 256});
    Bytes bigger = aligned_bytes(size_t{capacity} * kLanes);
    if (bigger == nullptr) return false;
    if (warp.local_storage != nullptr)
      std::memcpy(bigger.get(), warp.local_storage.get(), size_t{warp.local_capacity} * kLanes);
    warp.local_storage = std::move(bigger);
    warp.local_capacity = capacity;
    warp.local = warp.local_storage.get();
  }
  warp.local_bytes = std::max(warp.local_bytes, bytes);
  return true;
}

// --- memory
// -----------------------------------------------------------------------------------------------------------

const Region* find_region(Warp& warp, uint64_t address) {
  const Region* region = warp.launch->memory != nullptr ? warp.launch->memory->find(address) : nullptr;
  if (region == nullptr && address >= warp.launch->workspace.begin && address < warp.launch->workspace.end)
    region = &warp.launch->workspace;
  if (region == nullptr) return nullptr;
  warp.region_begin = region->begin;
  warp.region_size = region->end - region->begin;
  warp.region_writable = region->writable;
  return region;
}

namespace {

// No call of memcpy: sanitizers watch that, and what a program races on is its own affair.
void copy_bytes(std::byte* to, const std::byte* from, uint32_t bytes) {
  for (uint32_t k = 0; k < bytes; ++k) *static_cast<volatile std::byte*>(to + k) = from[k];
}

std::byte* linear(Warp& warp, uint64_t address, uint32_t bytes, bool write) {
  const uint64_t window = address & kWindowMask, at = address & ~kWindowMask;
  if (window == 0) {
    const Region* region = find_region(warp, address);
    if (region == nullptr || bytes > region->end - address || (write && !region->writable)) return nullptr;
    return reinterpret_cast<std::byte*>(address);
  }
  if (window == kSharedWindow && at < warp.shared_bytes && bytes <= warp.shared_bytes - at)
    return warp.shared + at;
  if (window == kParamWindow && !write && at < warp.param_bytes && bytes <= warp.param_bytes - at)
    return const_cast<std::byte*>(warp.params) + at;
  return nullptr;
}

}  // namespace

bool read_generic(Warp& warp, unsigned lane, uint64_t address, void* to, uint32_t bytes) {
  if ((address & kWindowMask) == kLocalWindow) {
    const uint64_t at = address & ~kWindowMask;
    if (at >= warp.local_bytes || bytes > warp.local_bytes - at) return false;
    for (uint32_t k = 0; k < bytes; ++k) {
      static_cast<std::byte*>(to)[k] = warp.local[((at + k) >> 2) * 128 + lane * 4 + ((at + k) & 3)];
    }
    return true;
  }
  const std::byte* from = linear(warp, address, bytes, false);
  if (from == nullptr) return false;
  copy_bytes(static_cast<std::byte*>(to), from, bytes);
  return true;
}

bool write_generic(Warp& warp, unsigned lane, uint64_t address, const void* from, uint32_t bytes) {
  if ((address & kWindowMask) == kLocalWindow) {
    const uint64_t at = address & ~kWindowMask;
    if (at >= warp.local_bytes || bytes > warp.local_bytes - at) return false;
    for (uint32_t k = 0; k < bytes; ++k) {
      warp.local[((at + k) >> 2) * 128 + lane * 4 + ((at + k) & 3)] = static_cast<const std::byte*>(from)[k];
    }
    return true;
  }
  std::byte* to = linear(warp, address, bytes, true);
  if (to == nullptr) return false;
  copy_bytes(to, static_cast<const std::byte*>(from), bytes);
  return true;
}

}  // namespace gpufence::sim::ptx
