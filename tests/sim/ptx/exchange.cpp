// Lanes of a warp that look at each other: shfl, vote, match, redux, bar.warp. Those named by a member mask
// must all have come to the instruction; sets of lanes that come early wait for the others.
#include "control.h"

namespace gpufence::sim::ptx {
namespace {

// Collects the lanes that the mask names. False: some are still on their way, and *next says what runs
// meanwhile.
bool gather(Warp& warp, const Op* op, uint32_t* lanes, const Op** next) {
  *lanes = exec_mask(warp, op);
  if (*lanes == 0) {
    *next = op + 1;
    return false;
  }
  const uint32_t members = row<uint32_t>(warp, op->r[5])[__builtin_ctz(*lanes)] & warp.live;
  uint32_t here = *lanes;
  if ((here & members) == members) return true;
  const bool any_place = op->run == op_warp_sync;  // bar.warp.sync may stand at different places
  for (const Split& split : warp.splits) {
    if (split.state != Split::State::at_sync) continue;
    if (split.pc == op ? split.frame == warp.frame : any_place && split.pc->run == op_warp_sync)
      here |= split.lanes;
  }
  if ((here & members) != members) {
    *next = park(warp, op, Split::State::at_sync, *lanes);
    return false;
  }
  for (Split& split : warp.splits) {
    if (split.state != Split::State::at_sync || (split.lanes & members) == 0) continue;
    if (split.pc == op ? split.frame == warp.frame : any_place && split.pc->run == op_warp_sync) {
      split.state = Split::State::ready;
      ++split.pc;
    }
  }
  *lanes = here;
  return true;
}

}  // namespace

const Op* op_shfl(Warp& warp, const Op* op) {
  uint32_t lanes = 0;
  const Op* next = nullptr;
  if (!gather(warp, op, &lanes, &next)) return next;
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
  return op + 1;
}

const Op* op_vote(Warp& warp, const Op* op) {
  uint32_t lanes = 0;
  const Op* next = nullptr;
  if (!gather(warp, op, &lanes, &next)) return next;
  const uint32_t members = row<uint32_t>(warp, op->r[5])[__builtin_ctz(lanes)] & lanes;
  const uint32_t p = (predicate(warp, op->r[1]) ^ (op->small[1] != 0 ? ~0U : 0U)) & members;
  if (op->small[0] == 3) {
    uint32_t* d = row<uint32_t>(warp, op->r[0]);
    for (unsigned i = 0; i < kLanes; ++i) d[i] = (lanes >> i & 1) != 0 ? p : d[i];
    return op + 1;
  }
  const bool value = op->small[0] == 0 ? p == members : op->small[0] == 1 ? p != 0 : p == members || p == 0;
  uint32_t& d = predicate(warp, op->r[0]);
  d = (d & ~lanes) | (value ? lanes : 0);
  return op + 1;
}

const Op* op_match(Warp& warp, const Op* op) {
  uint32_t lanes = 0;
  const Op* next = nullptr;
  if (!gather(warp, op, &lanes, &next)) return next;
  const uint32_t members = row<uint32_t>(warp, op->r[5])[__builtin_ctz(lanes)] & lanes;
  alignas(64) uint64_t a[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) {
    a[i] = op->small[1] == 8 ? row<uint64_t>(warp, op->r[2])[i] : row<uint32_t>(warp, op->r[2])[i];
  }
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  uint32_t matched = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    uint32_t same = 0;
    for (unsigned k = 0; k < kLanes; ++k) same |= static_cast<uint32_t>(a[k] == a[i]) << k;
    same &= members;
    if (op->small[0] != 0) {
      const bool all = same == members;
      matched |= static_cast<uint32_t>(all) << i;
      d[i] = all ? members : 0;
    } else {
      d[i] = same;
    }
  }
  if (op->small[0] != 0) {
    uint32_t& p = predicate(warp, op->r[1]);
    p = (p & ~lanes) | (matched & lanes);
  }
  return op + 1;
}

const Op* op_redux(Warp& warp, const Op* op) {
  uint32_t lanes = 0;
  const Op* next = nullptr;
  if (!gather(warp, op, &lanes, &next)) return next;
  const uint32_t members = row<uint32_t>(warp, op->r[5])[__builtin_ctz(lanes)] & lanes;
  const uint32_t* a = row<uint32_t>(warp, op->r[2]);
  bool first = true;
  uint32_t sum = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((members >> i & 1) == 0) continue;
    if (first) {
      sum = a[i];
      first = false;
      continue;
    }
    switch (static_cast<AtomicKind>(op->small[0])) {
      case AtomicKind::add:
        sum += a[i];
        break;
      case AtomicKind::and_:
        sum &= a[i];
        break;
      case AtomicKind::or_:
        sum |= a[i];
        break;
      case AtomicKind::xor_:
        sum ^= a[i];
        break;
      case AtomicKind::min:
        sum = (op->small[1] != 0 ? static_cast<int32_t>(a[i]) < static_cast<int32_t>(sum) : a[i] < sum) ? a[i]
                                                                                                        : sum;
        break;
      default:
        sum = (op->small[1] != 0 ? static_cast<int32_t>(a[i]) > static_cast<int32_t>(sum) : a[i] > sum) ? a[i]
                                                                                                        : sum;
        break;
    }
  }
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  for (unsigned i = 0; i < kLanes; ++i) d[i] = (lanes >> i & 1) != 0 ? sum : d[i];
  return op + 1;
}

const Op* op_warp_sync(Warp& warp, const Op* op) {
  uint32_t lanes = 0;
  const Op* next = nullptr;
  return gather(warp, op, &lanes, &next) ? op + 1 : next;
}

const Op* op_activemask(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  for (unsigned i = 0; i < kLanes; ++i) d[i] = (lanes >> i & 1) != 0 ? lanes : d[i];
  return op + 1;
}

const Op* op_elect(Warp& warp, const Op* op) {
  uint32_t lanes = 0;
  const Op* next = nullptr;
  if (!gather(warp, op, &lanes, &next)) return next;
  const uint32_t members = row<uint32_t>(warp, op->r[5])[__builtin_ctz(lanes)] & lanes;
  const auto leader = static_cast<uint32_t>(__builtin_ctz(members != 0 ? members : lanes));
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  for (unsigned i = 0; i < kLanes; ++i) d[i] = (lanes >> i & 1) != 0 ? leader : d[i];
  uint32_t& p = predicate(warp, op->r[1]);
  p = (p & ~lanes) | (1U << leader & lanes);
  return op + 1;
}

}  // namespace gpufence::sim::ptx
