// Branches, calls, barriers, ends.
#include <sched.h>

#include <ctime>

#include "control.h"

namespace gpufence::sim::ptx {
namespace {

inline bool burn(Warp& warp) {
  return --warp.fuel <= 0;
}

}  // namespace

const Op* op_branch(Warp& warp, const Op* op) {
  const Op* target = op + op->jump;
  if (op->jump <= 0 && burn(warp)) return give_way(warp, target);
  return target;
}

const Op* op_branch_if(Warp& warp, const Op* op) {
  const uint32_t taken = exec_mask(warp, op);
  if (taken == 0) return op + 1;
  if (taken == warp.active) {
    const Op* target = op + op->jump;
    if (op->jump <= 0 && burn(warp)) return give_way(warp, target);
    return target;
  }
  const Op* next = diverge(warp, op, taken);
  if (op->jump <= 0 && burn(warp)) return give_way(warp, next);
  return next;
}

// Lanes of one target go on together; the others come back here, each set in its turn.
const Op* op_branch_table(Warp& warp, const Op* op) {
  const uint32_t lanes = warp.active;
  const BranchTable& table = warp.frame->code->tables[static_cast<size_t>(op->imm)];
  const uint32_t* index = row<uint32_t>(warp, op->r[0]);
  const uint32_t first = index[__builtin_ctz(lanes)];
  if (first >= table.jumps.size()) {
    return fault(warp, op, Fault::Kind::illegal_instruction, static_cast<unsigned>(__builtin_ctz(lanes)), 0,
                 "an index beyond the branch targets");
  }
  uint32_t same = 0;
  for (unsigned i = 0; i < kLanes; ++i) same |= static_cast<uint32_t>(index[i] == first) << i;
  same &= lanes;
  const Op* target = op + table.jumps[first];
  if (same != lanes) {
    const Op* merge = op->merge != 0 ? op + op->merge : nullptr;
    if (merge != nullptr &&
        (warp.record == nullptr || warp.record->callee != nullptr || warp.record->at != merge)) {
      warp.record = new_record(warp, merge, lanes);
    }
    Split rest;
    rest.pc = op;
    rest.active = lanes & ~same;
    rest.frame = warp.frame;
    rest.record = warp.record;
    warp.splits.push_back(rest);
    warp.active = same;
  }
  if (target <= op && burn(warp)) return give_way(warp, target);
  return target;
}

const Op* op_join(Warp& warp, const Op* op) {
  if (warp.record != nullptr && warp.record->callee == nullptr && warp.record->at == op) return arrive(warp);
  return op + 1;
}

namespace {

const Op* enter(Warp& warp, const Op* op, uint32_t index, uint32_t lanes) {
  const CallSite& site = warp.frame->code->calls[static_cast<size_t>(op->imm)];
  const Function& function = warp.launch->module->functions[index];
  const auto lane = static_cast<unsigned>(__builtin_ctz(lanes));
  if (!function.unsupported.empty())
    return fault(warp, op, Fault::Kind::unsupported, lane, 0, function.unsupported);
  if (function.code == nullptr)
    return fault(warp, op, Fault::Kind::unsupported, lane, 0, "undefined function " + function.name);
  if (function.is_entry)
    return fault(warp, op, Fault::Kind::invalid_pc, lane, function_address(index),
                 "a kernel called as a function");
  const Code& callee = *function.code;
  if (callee.param_offsets.size() != site.arguments.size()) {
    return fault(warp, op, Fault::Kind::invalid_pc, lane, function_address(index),
                 "called with other parameters than it has");
  }
  if (warp.frame->depth >= kMaxDepth) return fault(warp, op, Fault::Kind::stack_overflow, lane);
  Frame* frame = new_frame(warp, index);
  if (frame == nullptr) return fault(warp, op, Fault::Kind::out_of_memory, lane);
  const uint64_t stack = uint64_t{frame->local_base} + callee.local_bytes;
  if (stack > kStackBytes || !reserve_local(warp, static_cast<uint32_t>(stack))) {
    drop_frame(warp, frame);
    return fault(warp, op, Fault::Kind::stack_overflow, lane);
  }
  const Code& caller = *warp.frame->code;
  for (size_t k = 0; k < site.arguments.size(); ++k) {
    const size_t words = (std::min(site.argument_bytes[k], callee.param_sizes[k]) + 3) / 4;
    const std::byte* from = warp.registers + caller.param_area + size_t{site.arguments[k]} / 4 * 4 * kLanes;
    std::byte* to = frame->registers + callee.param_area + size_t{callee.param_offsets[k]} / 4 * 4 * kLanes;
    __builtin_memcpy(to, from, words * 4 * kLanes);
  }
  Record* record = new_record(warp, op + 1, lanes);
  record->callee = frame;
  record->call = &site;
  warp.record = record;
  warp.frame = frame;
  warp.registers = frame->registers;
  warp.active = lanes;
  const Op* first = callee.ops.data();
  if (burn(warp)) return give_way(warp, first);
  return first;
}

}  // namespace

const Op* op_call(Warp& warp, const Op* op) {
  return enter(warp, op, warp.frame->code->calls[static_cast<size_t>(op->imm)].function, warp.active);
}

const Op* op_call_indirect(Warp& warp, const Op* op) {
  const uint32_t lanes = warp.active;
  const uint64_t* targets = row<uint64_t>(warp, op->r[0]);
  const auto lane = static_cast<unsigned>(__builtin_ctz(lanes));
  const uint64_t target = targets[lane];
  const uint64_t index = ((target & ~kWindowMask) >> 4) - 1;
  if ((target & kWindowMask) != kFunctionWindow || (target & 15) != 0 ||
      index >= warp.launch->module->functions.size()) {
    return fault(warp, op, Fault::Kind::invalid_pc, lane, target);
  }
  uint32_t same = 0;
  for (unsigned i = 0; i < kLanes; ++i) same |= static_cast<uint32_t>(targets[i] == target) << i;
  same &= lanes;
  if (same != lanes) {  // a join stands behind every indirect call
    if (warp.record == nullptr || warp.record->callee != nullptr || warp.record->at != op + 1) {
      warp.record = new_record(warp, op + 1, lanes);
    }
    Split rest;
    rest.pc = op;
    rest.active = lanes & ~same;
    rest.frame = warp.frame;
    rest.record = warp.record;
    warp.splits.push_back(rest);
  }
  const Function& function = warp.launch->module->functions[index];
  if (const Handler builtin = function.code == nullptr ? builtin_named(function.name) : nullptr) {
    warp.active = same;
    return builtin(warp, op);
  }
  return enter(warp, op, static_cast<uint32_t>(index), same);
}

const Op* op_ret(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  if (lanes == 0) return op + 1;
  if (warp.frame->caller == nullptr) return leave(warp, lanes, op + 1);
  const uint32_t rest = warp.active & ~lanes;
  if (rest != 0) {
    Split others;
    others.pc = op + 1;
    others.active = rest;
    others.frame = warp.frame;
    others.record = warp.record;
    warp.splits.push_back(others);
  }
  // Branch records of this function that these lanes will not come to (lanes that were let go early leave
  // some).
  while (warp.record->callee == nullptr) {
    Record* record = warp.record;
    warp.record = record->parent;
    record->expected &= ~lanes;
    if (record->expected == record->arrived) {
      if (record->arrived != 0) {
        Split onward;
        onward.pc = record->at;
        onward.active = record->arrived;
        onward.frame = warp.frame;
        onward.record = record->parent;
        warp.splits.push_back(onward);
      }
      drop_record(warp, record);
    }
  }
  warp.active = lanes;
  return arrive(warp);
}

const Op* op_exit(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  return lanes == 0 ? op + 1 : leave(warp, lanes, op + 1);
}

const Op* op_trap(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  return lanes == 0 ? op + 1
                    : fault(warp, op, Fault::Kind::trap, static_cast<unsigned>(__builtin_ctz(lanes)));
}

const Op* op_nop(Warp&, const Op* op) {
  return op + 1;
}

const Op* op_alloca(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const uint32_t* size = row<uint32_t>(warp, op->r[1]);
  const uint32_t* begin = row<uint32_t>(warp, op->r[3]);
  const auto align = static_cast<uint32_t>(op->imm);
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const uint64_t at = (uint64_t{begin[i]} + row<uint32_t>(warp, op->r[2])[i] + align - 1) / align * align;
    const uint64_t used = at + size[i] - begin[i];
    if (used > kAllocaBytes) return fault(warp, op, Fault::Kind::stack_overflow, i);
    row<uint32_t>(warp, op->r[0])[i] = static_cast<uint32_t>(at);
    row<uint32_t>(warp, op->r[4])[i] = static_cast<uint32_t>(used);
  }
  return op + 1;
}

const Op* op_nanosleep(Warp& warp, const Op* op) {
  // Somebody else's turn; time itself passes fast enough here.
  if (exec_mask(warp, op) == 0) return op + 1;
  ++warp.polls;
  return give_way(warp, op + 1);
}

const Op* op_end_of_code(Warp& warp, const Op* op) {
  return op_ret(warp, op);
}

// --- barriers
// ---------------------------------------------------------------------------------------------------------

bool complete_barrier(Block& block, uint8_t id) {
  Barrier& barrier = block.barriers[id];
  if (barrier.arrived == 0) return false;
  if (barrier.arrived < (barrier.needed != 0 ? barrier.needed : block.live)) return false;
  const Barrier done = barrier;
  barrier = Barrier{};
  if (done.waiting == 0) return true;
  for (Warp& warp : block.warps) {
    bool woken = false;
    for (Split& split : warp.splits) {
      if (split.state != Split::State::at_barrier || split.barrier != id) continue;
      const Op* op = split.pc;
      if (op->small[0] == 2) {
        auto* d = reinterpret_cast<uint32_t*>(split.frame->registers + op->r[0]);
        for (unsigned i = 0; i < kLanes; ++i) {
          if ((split.lanes >> i & 1) != 0) d[i] = done.count;
        }
      } else if (op->small[0] > 2) {
        auto& d = *reinterpret_cast<uint32_t*>(split.frame->registers + op->r[0]);
        const bool value = op->small[0] == 3 ? done.all : done.any;
        d = (d & ~split.lanes) | (value ? split.lanes : 0);
      }
      split.pc = op + 1;
      split.state = Split::State::ready;
      woken = true;
    }
    if (woken && warp.state == Warp::State::blocked) {
      warp.state = Warp::State::ready;
      warp.pc = next_split(warp);
    }
  }
  return true;
}

const Op* op_barrier(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  if (lanes == 0) return op + 1;
  const auto lane = static_cast<unsigned>(__builtin_ctz(lanes));
  const uint32_t id = row<uint32_t>(warp, op->r[1])[lane];
  if (id >= 16) return fault(warp, op, Fault::Kind::illegal_instruction, lane, 0, "a barrier of 16 or more");
  Block& block = *warp.block;
  Barrier& barrier = block.barriers[id];
  if (op->small[1] != 0) {
    const uint32_t count = row<uint32_t>(warp, op->r[2])[lane];
    if (count == 0 || count % kLanes != 0) {
      return fault(warp, op, Fault::Kind::illegal_instruction, lane, 0,
                   "a barrier's thread count that is no multiple of 32");
    }
    barrier.needed = count;
  }
  // With a thread count, hardware counts whole warps: a last one of fewer lanes stands for 32.
  const auto here = static_cast<uint32_t>(__builtin_popcount(lanes));
  barrier.arrived += op->small[1] != 0 && lanes == warp.live ? kLanes : here;
  if (op->small[0] >= 2) {
    const uint32_t p = (predicate(warp, op->r[3]) ^ (op->small[2] != 0 ? ~0U : 0U)) & lanes;
    barrier.count += static_cast<uint32_t>(__builtin_popcount(p));
    barrier.all = barrier.all && p == lanes;
    barrier.any = barrier.any || p != 0;
  }
  if (op->small[0] == 1) {
    complete_barrier(block, static_cast<uint8_t>(id));
    return op + 1;
  }
  ++barrier.waiting;
  Split split;
  split.pc = op;
  split.active = warp.active;
  split.frame = warp.frame;
  split.record = warp.record;
  split.state = Split::State::at_barrier;
  split.barrier = static_cast<uint8_t>(id);
  split.lanes = lanes;
  warp.splits.push_back(split);
  complete_barrier(block, static_cast<uint8_t>(id));
  return next_split(warp);
}

}  // namespace gpufence::sim::ptx
