// mbarrier objects: barriers in shared memory that count arrivals and bytes. A block's warps take turns on
// one host thread, so that plain loads and stores do. What is asynchronous elsewhere is done at once here:
// nobody has to wait for more than arrivals.
#include <algorithm>

#include "control.h"

namespace gpufence::sim::ptx {
namespace {

// The 64 bits in shared memory, which the manual leaves to the implementation. Of a state that arrive
// returns: the phase, and how many arrivals were pending.
struct Object {
  uint64_t pending : 20, expected : 20;
  int64_t bytes : 23;
  uint64_t phase : 1;
};
static_assert(sizeof(Object) == 8);

constexpr uint32_t kMostArrivals = (1U << 20) - 1;

void complete(Object* object) {
  if (object->pending != 0 || object->bytes != 0) return;
  object->phase ^= 1;
  object->pending = object->expected;
}

void arrive(Object* object, uint32_t count) {
  object->pending -= std::min<uint64_t>(count, object->pending);
}

}  // namespace

const Op* op_mbarrier(Warp& warp, const Op* op) {
  const auto what = static_cast<Mbarrier>(op->small[0]);
  const uint32_t lanes = exec_mask(warp, op);
  const bool waits = what == Mbarrier::test || what == Mbarrier::test_parity;
  if (waits) {
    warp.fuel -= kPollCost;
    ++warp.polls;
  }
  uint32_t done = 0;
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(left));
    uint64_t address =
        (op->small[1] != 0 ? row<uint64_t>(warp, op->r[4])[i] : row<uint32_t>(warp, op->r[4])[i]) +
        static_cast<uint64_t>(op->imm);
    if (op->small[2] != 0) address |= kSharedWindow;
    if ((address & 7) != 0) return fault(warp, op, Fault::Kind::misaligned_address, i, address);
    const uint64_t at = address & ~kWindowMask;
    if ((address & kWindowMask) != kSharedWindow || at + sizeof(Object) > warp.shared_bytes)
      return fault(warp, op, Fault::Kind::illegal_address, i, address);
    auto* const object = reinterpret_cast<Object*>(warp.shared + at);
    const uint32_t count = row<uint32_t>(warp, op->r[1])[i];
    const uint64_t state = uint64_t{object->phase} << 63 | uint64_t{object->pending};
    switch (what) {
      case Mbarrier::init:
        if (count == 0 || count > kMostArrivals)
          return fault(warp, op, Fault::Kind::illegal_instruction, i, address,
                       "a count of no arrivals, or of too many");
        *object = Object{count, count, 0, 0};
        break;
      case Mbarrier::inval:
        *object = Object{};
        break;
      case Mbarrier::drop:
      case Mbarrier::drop_no_complete:
        object->expected -= std::min<uint64_t>(count, object->expected);
        [[fallthrough]];
      case Mbarrier::arrive:
      case Mbarrier::arrive_no_complete:
        arrive(object, count);
        if (what == Mbarrier::arrive || what == Mbarrier::drop) complete(object);
        break;
      case Mbarrier::drop_expect:
        object->expected -= std::min<uint64_t>(1, object->expected);
        [[fallthrough]];
      case Mbarrier::arrive_expect:
        object->bytes += count;
        arrive(object, 1);
        complete(object);
        break;
      case Mbarrier::expect:
        object->bytes += count;
        break;
      case Mbarrier::complete:
        object->bytes -= count;
        complete(object);
        break;
      case Mbarrier::test:
        done |= static_cast<uint32_t>(object->phase != row<uint64_t>(warp, op->r[2])[i] >> 63) << i;
        break;
      case Mbarrier::test_parity:
        done |= static_cast<uint32_t>(object->phase != (count & 1)) << i;
        break;
    }
    if (op->small[3] != 0) row<uint64_t>(warp, op->r[0])[i] = state;
  }
  if (waits) {
    uint32_t& p = predicate(warp, op->r[0]);
    p = (p & ~lanes) | done;
  }
  return op + 1;
}

const Op* op_mbarrier_pending(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  const uint64_t* state = row<uint64_t>(warp, op->r[1]);
  for (unsigned i = 0; i < kLanes; ++i) d[i] = (lanes >> i & 1) != 0 ? state[i] & kMostArrivals : d[i];
  return op + 1;
}

}  // namespace gpufence::sim::ptx
