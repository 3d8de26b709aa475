// The flow graph of a function: where lanes that part meet again (immediate post-dominators), and which
// registers may share a row (liveness). Sharing is what keeps a warp's frame in the first-level cache.
#include <algorithm>

#include "decoder.h"

namespace gpufence::sim::ptx {
namespace {

constexpr size_t kMaxLivenessWords = size_t{8}
                                     << 20;  // 64 MiB; beyond, every register keeps a row of its own
constexpr uint32_t kMaxFrame = 64 << 20;

struct Blocks {
  std::vector<uint32_t> start;  // of each block, in drafts; one more at the end
  std::vector<uint32_t> of_draft;
  std::vector<std::vector<uint32_t>> successors;  // kExit included
};
constexpr uint32_t kExit = ~0U;

}  // namespace

bool Decoder::resolve_labels() {
  const auto find_label = [&](std::string_view name, unsigned line, uint32_t* target) {
    const auto found = labels_.find(name);
    if (found == labels_.end()) {
      error_ = Error{Error::Kind::invalid, "unknown label " + std::string(name), line};
      stop_ = true;
      return false;
    }
    *target = found->second;
    return true;
  };
  for (Draft& draft : drafts_) {
    if (draft.flow == Draft::Flow::branch || draft.flow == Draft::Flow::branch_if) {
      // Without a name: around a guarded call or barrier, and its target is known.
      if (!draft.label.empty() &&
          !find_label(draft.label, code_->sources[draft.op.source].line, &draft.target))
        return false;
    }
  }
  for (size_t t = 0; t < table_labels_.size(); ++t) {
    table_targets_.emplace_back();
    for (const std::string_view name : table_labels_[t]) {
      uint32_t target = 0;
      if (!find_label(name, 0, &target)) return false;
      table_targets_.back().push_back(target);
    }
  }
  return true;
}

namespace {

template <class Drafts, class Tables>
Blocks cut(const Drafts& drafts, const Tables& tables) {
  const size_t n = drafts.size();
  std::vector<bool> leader(n + 1, false);
  leader[0] = true;
  for (size_t i = 0; i < n; ++i) {
    const Draft& draft = drafts[i];
    using Flow = Draft::Flow;
    if (draft.flow == Flow::branch || draft.flow == Flow::branch_if) leader[draft.target] = true;
    if (draft.flow == Flow::table) {
      for (const uint32_t target : tables[static_cast<size_t>(draft.op.imm)]) leader[target] = true;
    }
    if (draft.flow != Flow::next && draft.flow != Flow::join) leader[i + 1] = true;
  }
  Blocks blocks;
  blocks.of_draft.resize(n);
  for (size_t i = 0; i < n; ++i) {
    if (leader[i]) blocks.start.push_back(static_cast<uint32_t>(i));
    blocks.of_draft[i] = static_cast<uint32_t>(blocks.start.size() - 1);
  }
  blocks.start.push_back(static_cast<uint32_t>(n));
  const size_t count = blocks.start.size() - 1;
  blocks.successors.resize(count);
  for (size_t b = 0; b < count; ++b) {
    const uint32_t last = blocks.start[b + 1] - 1;
    const Draft& draft = drafts[last];
    auto& to = blocks.successors[b];
    using Flow = Draft::Flow;
    switch (draft.flow) {
      case Flow::branch:
        to.push_back(blocks.of_draft[draft.target]);
        break;
      case Flow::table:
        for (const uint32_t target : tables[static_cast<size_t>(draft.op.imm)])
          to.push_back(blocks.of_draft[target]);
        break;
      case Flow::end:
        to.push_back(kExit);
        break;
      case Flow::branch_if:
        to.push_back(blocks.of_draft[draft.target]);
        [[fallthrough]];
      default:
        if (draft.flow == Flow::end_if) to.push_back(kExit);
        if (last + 1 < n)
          to.push_back(blocks.of_draft[last + 1]);
        else
          to.push_back(kExit);
        break;
    }
    std::sort(to.begin(), to.end());
    to.erase(std::unique(to.begin(), to.end()), to.end());
  }
  return blocks;
}

// Immediate post-dominator of each block: kExit where lanes meet only at the end, or never come there.
std::vector<uint32_t> post_dominators(const Blocks& blocks) {
  const auto count = static_cast<uint32_t>(blocks.successors.size());
  std::vector<std::vector<uint32_t>> predecessors(count + 1);  // the last is the exit's
  for (uint32_t b = 0; b < count; ++b) {
    for (const uint32_t s : blocks.successors[b]) predecessors[s == kExit ? count : s].push_back(b);
  }
  // Postorder from the exit, against the flow.
  std::vector<uint32_t> order, number(count + 1, kExit);
  std::vector<std::pair<uint32_t, uint32_t>> stack{{count, 0}};
  std::vector<bool> seen(count + 1, false);
  seen[count] = true;
  while (!stack.empty()) {
    auto& [block, next] = stack.back();
    if (next < predecessors[block].size()) {
      const uint32_t p = predecessors[block][next++];
      if (!seen[p]) {
        seen[p] = true;
        stack.emplace_back(p, 0);
      }
    } else {
      number[block] = static_cast<uint32_t>(order.size());
      order.push_back(block);
      stack.pop_back();
    }
  }
  std::vector<uint32_t> idom(count + 1, kExit);
  idom[count] = count;
  // Cooper, Harvey and Kennedy: "A simple, fast dominance algorithm".
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order.size(); i-- > 0;) {
      const uint32_t block = order[i];
      if (block == count) continue;
      uint32_t fresh = kExit;
      for (const uint32_t s : blocks.successors[block]) {
        uint32_t a = s == kExit ? count : s;
        if (number[a] == kExit || idom[a] == kExit) continue;  // never ends, or not known yet
        if (fresh == kExit) {
          fresh = a;
          continue;
        }
        uint32_t b = fresh;
        while (a != b) {
          while (number[a] < number[b]) a = idom[a];
          while (number[b] < number[a]) b = idom[b];
        }
        fresh = a;
      }
      if (idom[block] != fresh) {
        idom[block] = fresh;
        changed = true;
      }
    }
  }
  for (uint32_t& each : idom) {
    if (each == count) each = kExit;
  }
  idom.resize(count);
  return idom;
}

}  // namespace

void Decoder::find_merges() {
  merges_.assign(drafts_.size(), 0);
  const Blocks blocks = cut(drafts_, table_targets_);
  const std::vector<uint32_t> idom = post_dominators(blocks);
  for (size_t i = 0; i < drafts_.size(); ++i) {
    const Draft::Flow flow = drafts_[i].flow;
    if (flow != Draft::Flow::branch_if && flow != Draft::Flow::table) continue;
    const uint32_t merge = idom[blocks.of_draft[i]];
    // A block that others merge in begins with a join: behind a label or a conditional branch there is one.
    if (merge != kExit && drafts_[blocks.start[merge]].flow == Draft::Flow::join)
      merges_[i] = blocks.start[merge];
  }
}

void Decoder::drop_joins() {
  std::vector<bool> needed(drafts_.size(), false);
  for (size_t i = 0; i < drafts_.size(); ++i) {
    if (merges_[i] != 0) needed[merges_[i]] = true;
    if (drafts_[i].op.run == op_call_indirect) needed[i + 1] = true;
  }
  std::vector<uint32_t> now_at(drafts_.size() + 1);
  std::vector<Draft> kept;
  std::vector<uint32_t> merges;
  kept.reserve(drafts_.size());
  for (size_t i = 0; i < drafts_.size(); ++i) {
    now_at[i] = static_cast<uint32_t>(kept.size());
    if (drafts_[i].flow == Draft::Flow::join && !needed[i]) continue;
    kept.push_back(drafts_[i]);
    merges.push_back(merges_[i]);
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].flow == Draft::Flow::branch || kept[i].flow == Draft::Flow::branch_if)
      kept[i].target = now_at[kept[i].target];
    if (merges[i] != 0) merges[i] = now_at[merges[i]];
  }
  for (auto& targets : table_targets_) {
    for (uint32_t& target : targets) target = now_at[target];
  }
  drafts_ = std::move(kept);
  merges_ = std::move(merges);
}

void Decoder::allocate() {
  // Number the registers.
  std::vector<uint32_t> number(places_.size(), kExit);
  std::vector<Place> registers;
  for (Place p = 0; p < places_.size(); ++p) {
    if (places_[p].kind != PlaceInfo::Kind::reg || p == 0) continue;
    number[p] = static_cast<uint32_t>(registers.size());
    registers.push_back(p);
  }
  const Blocks blocks = cut(drafts_, table_targets_);
  const size_t count = blocks.successors.size(), words = (registers.size() + 63) / 64;
  const auto each_use = [&](const Draft& draft, auto f) {
    for (unsigned k = 0; k < 6; ++k) {
      if ((draft.uses >> k & 1) != 0 && number[draft.r[k]] != kExit) f(number[draft.r[k]]);
    }
    if (number[draft.guard] != kExit) f(number[draft.guard]);
  };
  const auto each_def = [&](const Draft& draft, auto f) {
    for (unsigned k = 0; k < 6; ++k) {
      if ((draft.defs >> k & 1) != 0 && number[draft.r[k]] != kExit) f(number[draft.r[k]]);
    }
  };
  // First and last point at which each may hold something wanted: 2i reads, 2i + 1 writes.
  std::vector<uint32_t> first(registers.size(), kExit), last(registers.size(), 0);
  const auto touch = [&](uint32_t r, size_t point) {
    first[r] = std::min(first[r], static_cast<uint32_t>(point));
    last[r] = std::max(last[r], static_cast<uint32_t>(point));
  };
  if (count * words * 2 > kMaxLivenessWords || drafts_.size() > (size_t{1} << 30)) {
    for (uint32_t r = 0; r < registers.size(); ++r) {
      first[r] = 0;
      last[r] = kExit;
    }
  } else {
    std::vector<uint64_t> in(count * words), out(count * words);
    std::vector<std::vector<uint32_t>> predecessors(count);
    for (uint32_t b = 0; b < count; ++b) {
      for (const uint32_t s : blocks.successors[b]) {
        if (s != kExit) predecessors[s].push_back(b);
      }
    }
    std::vector<bool> waiting(count, true);
    std::vector<uint32_t> queue;
    for (uint32_t b = 0; b < count; ++b) queue.push_back(b);
    std::vector<uint64_t> live(words);
    while (!queue.empty()) {
      const uint32_t b = queue.back();
      queue.pop_back();
      waiting[b] = false;
      std::fill(live.begin(), live.end(), 0);
      for (const uint32_t s : blocks.successors[b]) {
        if (s == kExit) continue;
        for (size_t w = 0; w < words; ++w) live[w] |= in[s * words + w];
      }
      std::copy(live.begin(), live.end(), out.begin() + static_cast<std::ptrdiff_t>(b * words));
      for (uint32_t i = blocks.start[b + 1]; i-- > blocks.start[b];) {
        const Draft& draft = drafts_[i];
        // A guarded write leaves the old value in some lanes.
        if (draft.guard == true_)
          each_def(draft, [&](uint32_t r) { live[r / 64] &= ~(uint64_t{1} << r % 64); });
        each_use(draft, [&](uint32_t r) { live[r / 64] |= uint64_t{1} << r % 64; });
      }
      if (std::equal(live.begin(), live.end(), in.begin() + static_cast<std::ptrdiff_t>(b * words))) continue;
      std::copy(live.begin(), live.end(), in.begin() + static_cast<std::ptrdiff_t>(b * words));
      for (const uint32_t p : predecessors[b]) {
        if (waiting[p]) continue;
        waiting[p] = true;
        queue.push_back(p);
      }
    }
    const auto each_bit = [&](const std::vector<uint64_t>& set, size_t b, auto f) {
      for (size_t w = 0; w < words; ++w) {
        for (uint64_t bits = set[b * words + w]; bits != 0; bits &= bits - 1)
          f(static_cast<uint32_t>(w * 64 + static_cast<size_t>(__builtin_ctzll(bits))));
      }
    };
    for (size_t b = 0; b < count; ++b) {
      each_bit(in, b, [&](uint32_t r) { touch(r, size_t{blocks.start[b]} * 2); });
      each_bit(out, b, [&](uint32_t r) { touch(r, size_t{blocks.start[b + 1]} * 2 - 1); });
    }
    for (size_t i = 0; i < drafts_.size(); ++i) {
      each_use(drafts_[i], [&](uint32_t r) { touch(r, 2 * i); });
      each_def(drafts_[i], [&](uint32_t r) { touch(r, 2 * i + 1); });
    }
  }
  // Linear scan; predicates and each width have rows of their own, so that rows are the same or apart.
  std::vector<uint32_t> order(registers.size());
  for (uint32_t r = 0; r < order.size(); ++r) order[r] = r;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return first[a] < first[b]; });
  std::vector<uint32_t> by_end(order);
  std::sort(by_end.begin(), by_end.end(), [&](uint32_t a, uint32_t b) { return last[a] < last[b]; });
  std::vector<uint32_t> free[9], row(registers.size()), rows(9, 0);
  size_t expired = 0;
  uint32_t live_words = 0, most_words = 0;
  const auto size_of = [&](uint32_t r) -> uint32_t { return places_[registers[r]].bytes; };
  for (const uint32_t r : order) {
    if (first[r] == kExit) continue;  // never touched
    for (; expired < by_end.size() && last[by_end[expired]] < first[r]; ++expired) {
      const uint32_t gone = by_end[expired];
      if (first[gone] == kExit) continue;
      free[size_of(gone)].push_back(row[gone]);
      live_words -= (size_of(gone) + 3) / 4;
    }
    auto& spare = free[size_of(r)];
    if (spare.empty()) {
      row[r] = rows[size_of(r)]++;
    } else {
      row[r] = spare.back();
      spare.pop_back();
    }
    live_words += (size_of(r) + 3) / 4;
    most_words = std::max(most_words, live_words);
  }
  code_->registers = std::clamp(most_words + 6, 16U, 255U);
  // The frame: head, predicates, rows by width, literals, parameter area.
  uint64_t top = kFrameHead;
  const uint64_t predicates = top;
  top = (top + uint64_t{rows[0]} * 4 + 63) / 64 * 64;
  uint64_t start[9] = {};
  for (const unsigned bytes : {4U, 8U, 2U}) {
    start[bytes] = top;
    top += uint64_t{rows[bytes]} * bytes * kLanes;
  }
  for (uint32_t r = 0; r < registers.size(); ++r) {
    const uint32_t bytes = size_of(r);
    places_[registers[r]].offset = static_cast<uint32_t>(
        bytes == 0 ? predicates + uint64_t{row[r]} * 4 : start[bytes] + uint64_t{row[r]} * bytes * kLanes);
  }
  for (PlaceInfo& info : places_) {
    if (info.kind != PlaceInfo::Kind::constant) continue;
    info.offset = static_cast<uint32_t>(top);
    code_->constants[info.constant].row = info.offset;
    top += uint64_t{info.bytes} * kLanes;
  }
  code_->param_area = static_cast<uint32_t>(top);
  code_->param_area_bytes = (param_most_ + 7) / 8 * 8;
  top += uint64_t{code_->param_area_bytes} * kLanes;
  if (top > kMaxFrame) unsupported("more registers than fit");
  code_->frame_bytes = static_cast<uint32_t>(top);
  code_->local_bytes = (local_top_ + 15) / 16 * 16;
}

void Decoder::finish() {
  if (!ok()) return;
  code_->ops.reserve(drafts_.size());
  for (size_t i = 0; i < drafts_.size(); ++i) {
    Draft& draft = drafts_[i];
    for (unsigned k = 0; k < 6; ++k) {
      if (((draft.uses | draft.defs) >> k & 1) != 0) draft.op.r[k] = places_[draft.r[k]].offset;
    }
    draft.op.guard = places_[draft.guard].offset;
    const auto here = static_cast<int64_t>(i);
    if (draft.flow == Draft::Flow::branch || draft.flow == Draft::Flow::branch_if)
      draft.op.jump = static_cast<int32_t>(int64_t{draft.target} - here);
    if (merges_[i] != 0) draft.op.merge = static_cast<int32_t>(int64_t{merges_[i]} - here);
    if (draft.flow == Draft::Flow::table) {
      BranchTable table;
      for (const uint32_t target : table_targets_[static_cast<size_t>(draft.op.imm)])
        table.jumps.push_back(static_cast<int32_t>(int64_t{target} - here));
      // Each brx.idx has a table of its own, as jumps count from it.
      draft.op.imm = static_cast<int64_t>(code_->tables.size());
      code_->tables.push_back(std::move(table));
    }
    code_->ops.push_back(draft.op);
  }
}

}  // namespace gpufence::sim::ptx
