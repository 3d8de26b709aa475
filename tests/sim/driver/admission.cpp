// See admission.h. A block's end and a kernel that becomes due look at each other's counters with sequential
// consistency, so that one of the two sees that there is room.
#include "admission.h"

#include <algorithm>

namespace gpufence::sim {

bool Admission::fits(const PendingKernel& kernel) const {
  Room held;
  for (const PendingKernel* other : running_) {
    const uint64_t left = other->blocks_ - std::min(other->blocks_, other->ended_.load());
    // What one of its blocks left, a higher priority gets before the blocks that it still has to start.
    if (other->priority_ > kernel.priority_ && left >= other->resident_ &&
        ended_.load() != kernel.ended_before_)
      return true;
    const uint64_t live = std::min(left, other->resident_);
    held.warps += live * other->block_.warps;
    held.blocks += live * other->block_.blocks;
    held.shared += live * other->block_.shared;
  }
  // An empty GPU takes anything: a launch is checked for what it never holds.
  if (held.blocks == 0) return true;
  return held.warps + kernel.block_.warps <= total_.warps &&
         held.blocks + kernel.block_.blocks <= total_.blocks &&
         held.shared + kernel.block_.shared <= total_.shared;
}

void Admission::admit() {
  for (auto each = pending_.begin(); each != pending_.end();) {
    PendingKernel& kernel = **each;
    if (!fits(kernel)) {
      ++each;
      continue;
    }
    each = pending_.erase(each);
    running_.push_back(&kernel);
    kernel.state_ = PendingKernel::State::running;
    kernel.admitted_.notify_all();
  }
  highest_pending_ = pending_.empty() ? INT_MAX : pending_.front()->priority_;
}

PendingKernel::PendingKernel(std::shared_ptr<Admission> admission, Room block, uint64_t blocks,
                             uint64_t resident, int priority)
    : admission_(std::move(admission)),
      block_(block),
      blocks_(blocks),
      resident_(resident),
      priority_(priority) {}

PendingKernel::~PendingKernel() {
  std::lock_guard<std::mutex> held(admission_->lock_);
  std::erase(admission_->pending_, this);
  std::erase(admission_->running_, this);
  admission_->admit();
}

void PendingKernel::due() {
  Admission& all = *admission_;
  std::lock_guard<std::mutex> held(all.lock_);
  if (state_ != State::early) return;
  state_ = State::pending;
  ended_before_ = all.ended_.load();
  const auto after =
      std::upper_bound(all.pending_.begin(), all.pending_.end(), priority_,
                       [](int priority, const PendingKernel* other) { return priority < other->priority_; });
  all.pending_.insert(after, this);
  all.highest_pending_ = all.pending_.front()->priority_;
  all.admit();
}

void PendingKernel::enter() {
  due();
  std::unique_lock<std::mutex> held(admission_->lock_);
  admitted_.wait(held, [this] { return state_ == State::running; });
}

void PendingKernel::block_ended() {
  Admission& all = *admission_;
  const uint64_t ended = ++ended_;
  ++all.ended_;
  const int highest = all.highest_pending_.load();
  if (highest == INT_MAX) return;
  // While it has blocks to start, only a higher priority gains by the end of one.
  if (blocks_ - ended >= resident_ && highest >= priority_) return;
  std::lock_guard<std::mutex> held(all.lock_);
  all.admit();
}

}  // namespace gpufence::sim
