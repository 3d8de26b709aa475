// Lanes of a warp that look at each other: shfl, vote, match, redux, elect, bar.warp. Each lane names in its
// member mask those that it must meet; several sets of lanes with masks of their own may come to one
// instruction together, each apart from the others. Lanes that come early wait.
#include "control.h"

namespace gpufence::sim::ptx {
namespace {

struct Meeting {
  uint32_t lanes = 0;      // of the split that runs: those that execute the instruction
  uint32_t here = 0;       // these, and those that wait at it
  uint32_t complete = 0;   // of `here`: those whose members have all come, with the same mask
  bool alike = true;       // their masks
  uint32_t masks[kLanes];  // without lanes that have exited

  // Those among `left` that name the same members as the first of them; and these members, as far as they
  // are.
  [[nodiscard]] uint32_t group(uint32_t left) const {
    if (alike) return left;
    const uint32_t mask = masks[__builtin_ctz(left)];
    uint32_t same = 0;
    for (unsigned i = 0; i < kLanes; ++i) same |= static_cast<uint32_t>(masks[i] == mask) << i;
    return same & left;
  }
  [[nodiscard]] uint32_t members(uint32_t group) const { return masks[__builtin_ctz(group)] & group; }
};

// Which of an instruction's r[] are rows and which are predicates, a bit each.
struct Operands {
  unsigned read_rows = 0, read_predicates = 0, written_rows = 0, written_predicates = 0;
  unsigned row_words = 1;  // of a lane, in what is read
};

Operands operands(const Op* op) {
  if (op->run == op_shfl) return {.read_rows = 0b11100, .written_rows = 0b1, .written_predicates = 0b10};
  if (op->run == op_vote && op->small[0] == 3) return {.read_predicates = 0b10, .written_rows = 0b1};
  if (op->run == op_vote) return {.read_predicates = 0b10, .written_predicates = 0b1};
  if (op->run == op_match)
    return {.read_rows = 0b100,
            .written_rows = 0b1,
            .written_predicates = op->small[0] != 0 ? 0b10u : 0u,
            .row_words = op->small[1] / 4u};
  if (op->run == op_redux) return {.read_rows = 0b100, .written_rows = 0b1};
  if (op->run == op_elect) return {.written_rows = 0b1, .written_predicates = 0b10};
  return {};
}

void copy_lanes(const Op* op, const Frame& from, const Frame& to, uint32_t lanes, unsigned rows,
                unsigned words, unsigned predicates) {
  for (unsigned k = 0; k < 5; ++k) {
    const auto* source = reinterpret_cast<const uint32_t*>(from.registers + op->r[k]);
    auto* sink = reinterpret_cast<uint32_t*>(to.registers + op->r[k]);
    if ((predicates >> k & 1) != 0) *sink = (*sink & ~lanes) | (*source & lanes);
    if ((rows >> k & 1) == 0) continue;
    for (unsigned i = 0; i < kLanes * words; ++i) {
      if ((lanes >> i / words & 1) != 0) sink[i] = source[i];
    }
  }
}

// The rows of a call's frame have room for lanes that came by another call, unless one calls the other.
bool apart(const Frame* one, const Frame* other) {
  for (const Frame* f = one; f != nullptr; f = f->caller) {
    if (f == other) return false;
  }
  for (const Frame* f = other; f != nullptr; f = f->caller) {
    if (f == one) return false;
  }
  return true;
}

// Whether a split waits at this meeting: also one that called the function elsewhere.
bool attends(const Warp& warp, const Op* op, const Split& split) {
  if (split.state != Split::State::at_sync) return false;
  if (split.pc == op) return split.frame == warp.frame || apart(split.frame, warp.frame);
  return op->run == op_warp_sync &&
         split.pc->run == op_warp_sync;  // bar.warp.sync may stand at different places
}

Meeting meet(const Warp& warp, const Op* op) {
  Meeting meeting;
  meeting.lanes = meeting.here = exec_mask(warp, op);
  if (meeting.lanes == 0) return meeting;
  const uint32_t* masks = row<uint32_t>(warp, op->r[5]);
  const uint32_t first = masks[__builtin_ctz(meeting.lanes)] & warp.live;
  uint32_t others = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    meeting.masks[i] = masks[i] & warp.live;
    others |= (meeting.masks[i] ^ first) & (0U - (meeting.lanes >> i & 1));
  }
  if (others == 0 && (first & ~meeting.lanes) == 0) {
    meeting.complete = meeting.lanes;
    return meeting;
  }
  meeting.alike = false;
  for (const Split& split : warp.splits) {
    if (!attends(warp, op, split)) continue;
    meeting.here |= split.lanes;
    if (split.frame != warp.frame) {
      const Operands all = operands(op);
      copy_lanes(op, *split.frame, *warp.frame, split.lanes, all.read_rows, all.row_words,
                 all.read_predicates);
    }
    const auto* theirs = reinterpret_cast<const uint32_t*>(split.frame->registers + split.pc->r[5]);
    for (unsigned i = 0; i < kLanes; ++i) {
      if ((split.lanes >> i & 1) != 0) meeting.masks[i] = theirs[i] & warp.live;
    }
  }
  for (uint32_t left = meeting.here; left != 0;) {
    const uint32_t group = meeting.group(left);
    left &= ~group;
    if ((meeting.masks[__builtin_ctz(group)] & ~group) == 0) meeting.complete |= group;
  }
  return meeting;
}

// Complete lanes go on behind the instruction, the others wait at it.
const Op* part(Warp& warp, const Op* op, const Meeting& meeting) {
  const size_t count = meeting.alike ? 0 : warp.splits.size();
  for (size_t k = 0; k < count; ++k) {
    Split& split = warp.splits[k];
    if (!attends(warp, op, split) || (split.lanes & meeting.complete) == 0) continue;
    if (split.frame != warp.frame) {
      const Operands all = operands(op);
      copy_lanes(op, *warp.frame, *split.frame, split.lanes & meeting.complete, all.written_rows, 1,
                 all.written_predicates);
    }
    Split stays = split;
    stays.lanes = stays.active = split.lanes & ~meeting.complete;
    split.state = Split::State::ready;
    split.active &= ~stays.lanes;
    ++split.pc;
    if (stays.lanes != 0) warp.splits.push_back(stays);
  }
  const uint32_t stay = meeting.lanes & ~meeting.complete;
  if (stay == 0) return op + 1;
  if (stay == meeting.lanes) return park(warp, op, Split::State::at_sync, stay);
  Split stays;
  stays.pc = op;
  stays.active = stays.lanes = stay;
  stays.frame = warp.frame;
  stays.record = warp.record;
  stays.state = Split::State::at_sync;
  warp.splits.push_back(stays);
  warp.active &= ~stay;
  return op + 1;
}

void store(uint32_t* d, uint32_t lanes, uint32_t value) {
  for (unsigned i = 0; i < kLanes; ++i) d[i] = (lanes >> i & 1) != 0 ? value : d[i];
}
void store(uint32_t& p, uint32_t lanes, bool value) {
  p = (p & ~lanes) | (value ? lanes : 0);
}

}  // namespace

const Op* op_shfl(Warp& warp, const Op* op) {
  const Meeting meeting = meet(warp, op);
  const uint32_t lanes = meeting.complete;
  const uint32_t* a = row<uint32_t>(warp, op->r[2]);
  const uint32_t* b = row<uint32_t>(warp, op->r[3]);
  const uint32_t* c = row<uint32_t>(warp, op->r[4]);
  alignas(64) uint32_t result[kLanes];
  uint32_t inside = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const uint32_t segment = c[lane] >> 8 & 0x1f, clamp = c[lane] & 0x1f, by = b[lane] & 0x1f;
    const uint32_t last = (lane & segment) | (clamp & ~segment), first = lane & segment;
    uint32_t from = 0;
    bool in = false;
    switch (op->small[0]) {
      case 0:
        from = lane - by;
        in = static_cast<int32_t>(from) >= static_cast<int32_t>(last);
        break;
      case 1:
        from = lane + by;
        in = from <= last;
        break;
      case 2:
        from = lane ^ by;
        in = from <= last;
        break;
      default:
        from = first | (by & ~segment);
        in = from <= last;
        break;
    }
    if (!in) from = lane;
    result[lane] = a[from & 31];
    inside |= static_cast<uint32_t>(in) << lane;
  }
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  for (unsigned i = 0; i < kLanes; ++i) d[i] = (lanes >> i & 1) != 0 ? result[i] : d[i];
  uint32_t& p = predicate(warp, op->r[1]);
  p = (p & ~lanes) | (inside & lanes);
  return part(warp, op, meeting);
}

const Op* op_vote(Warp& warp, const Op* op) {
  const Meeting meeting = meet(warp, op);
  const uint32_t asked = predicate(warp, op->r[1]) ^ (op->small[1] != 0 ? ~0U : 0U);
  for (uint32_t left = meeting.complete; left != 0;) {
    const uint32_t group = meeting.group(left), members = meeting.members(group), p = asked & members;
    left &= ~group;
    if (op->small[0] == 3)
      store(row<uint32_t>(warp, op->r[0]), group, p);
    else
      store(predicate(warp, op->r[0]), group,
            op->small[0] == 0   ? p == members
            : op->small[0] == 1 ? p != 0
                                : p == members || p == 0);
  }
  return part(warp, op, meeting);
}

const Op* op_match(Warp& warp, const Op* op) {
  const Meeting meeting = meet(warp, op);
  alignas(64) uint64_t a[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) {
    a[i] = op->small[1] == 8 ? row<uint64_t>(warp, op->r[2])[i] : row<uint32_t>(warp, op->r[2])[i];
  }
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  uint32_t matched = 0;
  for (uint32_t left = meeting.complete; left != 0;) {
    const uint32_t group = meeting.group(left), members = meeting.members(group);
    left &= ~group;
    for (unsigned i = 0; i < kLanes; ++i) {
      if ((group >> i & 1) == 0) continue;
      uint32_t same = 0;
      for (unsigned k = 0; k < kLanes; ++k) same |= static_cast<uint32_t>(a[k] == a[i]) << k;
      same &= members;
      const bool all = same == members;
      matched |= static_cast<uint32_t>(all) << i;
      d[i] = op->small[0] == 0 || all ? same : 0;
    }
  }
  if (op->small[0] != 0) {
    uint32_t& p = predicate(warp, op->r[1]);
    p = (p & ~meeting.complete) | matched;
  }
  return part(warp, op, meeting);
}

const Op* op_redux(Warp& warp, const Op* op) {
  const Meeting meeting = meet(warp, op);
  const uint32_t* a = row<uint32_t>(warp, op->r[2]);
  const bool is_signed = op->small[1] != 0;
  const auto less = [is_signed](uint32_t x, uint32_t y) {
    return is_signed ? static_cast<int32_t>(x) < static_cast<int32_t>(y) : x < y;
  };
  uint32_t result[kLanes] = {};
  for (uint32_t left = meeting.complete; left != 0;) {
    const uint32_t group = meeting.group(left);
    left &= ~group;
    uint32_t members = meeting.members(group);
    if (members == 0) members = group;
    uint32_t sum = a[__builtin_ctz(members)];
    for (members &= members - 1; members != 0; members &= members - 1) {
      const uint32_t next = a[__builtin_ctz(members)];
      switch (static_cast<AtomicKind>(op->small[0])) {
        case AtomicKind::add:
          sum += next;
          break;
        case AtomicKind::and_:
          sum &= next;
          break;
        case AtomicKind::or_:
          sum |= next;
          break;
        case AtomicKind::xor_:
          sum ^= next;
          break;
        case AtomicKind::min:
          sum = less(next, sum) ? next : sum;
          break;
        default:
          sum = less(sum, next) ? next : sum;
          break;
      }
    }
    store(result, group, sum);
  }
  // At the end: a and d may be one register.
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  for (unsigned i = 0; i < kLanes; ++i) d[i] = (meeting.complete >> i & 1) != 0 ? result[i] : d[i];
  return part(warp, op, meeting);
}

const Op* op_warp_sync(Warp& warp, const Op* op) {
  return part(warp, op, meet(warp, op));
}

const Op* op_activemask(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  for (unsigned i = 0; i < kLanes; ++i) d[i] = (lanes >> i & 1) != 0 ? lanes : d[i];
  return op + 1;
}

const Op* op_elect(Warp& warp, const Op* op) {
  const Meeting meeting = meet(warp, op);
  for (uint32_t left = meeting.complete; left != 0;) {
    const uint32_t group = meeting.group(left), members = meeting.members(group);
    left &= ~group;
    const auto leader = static_cast<uint32_t>(__builtin_ctz(members != 0 ? members : group));
    store(row<uint32_t>(warp, op->r[0]), group, leader);
    uint32_t& p = predicate(warp, op->r[1]);
    p = (p & ~group) | (1U << leader & group);
  }
  return part(warp, op, meeting);
}

}  // namespace gpufence::sim::ptx
