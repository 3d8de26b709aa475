// Branches, calls, barriers, exchange between lanes, ends.
#include "decoder.h"

namespace gpufence::sim::ptx {

// --- branches
// ---------------------------------------------------------------------------------------------------------

void Decoder::bra(Ins& ins) {
  ins.op.take("uni");
  if (!arity(ins, 1)) return;
  if (ins[0].kind != Operand::Kind::name) return void(invalid("expected a label"));
  const bool guarded = !ins.statement.guard.empty();
  Draft& draft = alu(ins, guarded ? op_branch_if : op_branch);
  draft.flow = guarded ? Draft::Flow::branch_if : Draft::Flow::branch;
  draft.label = ins[0].name;
  if (guarded && ok()) join();  // where those that go on may be met by others
}

bool Decoder::begin_guarded(const Ins& ins, uint32_t* branch) {
  if (ins.statement.guard.empty() || !ok()) return false;
  Draft& draft = emit(op_branch_if);
  guard(draft, ins);
  draft.op.guard_xor = ~draft.op.guard_xor;
  draft.flow = Draft::Flow::branch_if;
  *branch = static_cast<uint32_t>(drafts_.size() - 1);
  join();
  return true;
}

void Decoder::end_guarded(bool guarded, uint32_t branch) {
  if (!guarded || !ok()) return;
  drafts_[branch].target = static_cast<uint32_t>(drafts_.size());
  join();
}

void Decoder::brx(Ins& ins) {
  if (!ins.op.take("idx")) return void(unsupported(""));
  ins.op.take("uni");
  if (!arity(ins, 2)) return;
  const Place index = source(ins[0], Type::u32);
  const auto targets = branch_targets_.find(ins[1].name);
  if (targets == branch_targets_.end())
    return void(invalid("unknown branch targets " + std::string(ins[1].name)));
  uint32_t branch = 0;
  const bool guarded = begin_guarded(ins, &branch);
  if (!ok()) return;
  if (!ins.op.rest().empty()) return void(unsupported(""));
  std::vector<std::string_view> labels;
  for (uint32_t k = 0; k < targets->second->count; ++k)
    labels.push_back(body_.operands[targets->second->first + k].name);
  Draft& draft = emit(op_branch_table);
  draft.flow = Draft::Flow::table;
  use(draft, 0, index);
  draft.op.imm = static_cast<int64_t>(table_labels_.size());
  table_labels_.push_back(std::move(labels));
  end_guarded(guarded, branch);
}

// --- calls
// ------------------------------------------------------------------------------------------------------------

// call (results), function, (arguments), prototype: all but the function may be missing.
void Decoder::call(Ins& ins) {
  ins.op.take("uni");
  if (!ins.op.rest().empty()) return void(unsupported(""));
  size_t next = 0;
  const Operand* results = nullptr;
  const Operand* arguments = nullptr;
  if (next < ins.count && ins[next].kind == Operand::Kind::group) results = &ins[next++];
  if (next >= ins.count || ins[next].kind != Operand::Kind::name) return void(invalid("a call of nothing"));
  const Operand& target = ins[next++];
  if (next < ins.count && ins[next].kind == Operand::Kind::group) arguments = &ins[next++];
  CallSite site;
  const auto collect = [&](const Operand* list, std::vector<uint32_t>* places, std::vector<uint32_t>* sizes) {
    for (uint32_t k = 0; list != nullptr && k < list->count; ++k) {
      const Operand& operand = body_.operands[list->first + k];
      Variable* variable = operand.kind == Operand::Kind::name ? find(operand.name) : nullptr;
      if (variable == nullptr) return invalid("a call's operand that is no parameter");
      if (variable->space != Space::param || variable->kernel)
        return unsupported("a call with registers as parameters");
      places->push_back(variable->offset);
      sizes->push_back(variable->size);
    }
    return true;
  };
  if (!collect(results, &site.results, &site.result_bytes) ||
      !collect(arguments, &site.arguments, &site.argument_bytes))
    return;
  Variable* variable = find(target.name);
  Handler handler = op_call;
  Place pointer = 0;
  if (variable != nullptr && variable->space == Space::reg) {
    site.indirect = true;
    pointer = source(target, Type::u64);
    handler = op_call_indirect;
    code_->calls_indirectly = true;
  } else {
    const auto symbol = symbols_.find(target.name);
    if (symbol == symbols_.end() || !symbol->second.is_function)
      return void(invalid("a call of " + std::string(target.name) + ", which is no function"));
    site.function = symbol->second.index;
    code_->functions_used.push_back(site.function);
    const Function& callee = module_.functions[site.function];
    if (const Handler builtin = builtin_named(callee.name);
        builtin != nullptr && callee.linkage == Linkage::external)
      handler = builtin;
    if (callee.params.size() != site.arguments.size())
      return void(invalid("a call of " + callee.name + " with other parameters than it has"));
  }
  uint32_t branch = 0;
  const bool guarded = begin_guarded(ins, &branch);
  if (!ok()) return;
  Draft& draft = emit(handler);
  if (site.indirect) use(draft, 0, pointer);
  draft.op.imm = static_cast<int64_t>(code_->calls.size());
  code_->calls.push_back(std::move(site));
  if (handler == op_call_indirect) join();
  end_guarded(guarded, branch);
}

// --- barriers
// ---------------------------------------------------------------------------------------------------------

void Decoder::barrier(Ins& ins) {
  Opcode& op = ins.op;
  const bool is_bar = op.base() == "bar";
  if (is_bar && op.take("warp")) {
    if (!op.take("sync")) return void(unsupported(""));
    if (!arity(ins, 1)) return;
    const Place mask = source(ins[0], Type::b32);
    if (!ok()) return;
    use(alu(ins, op_warp_sync), 5, mask);
    return;
  }
  if (op.take("cluster")) return void(unsupported(""));
  op.take("cta");
  uint8_t what = 0;
  bool reduces = false;
  if (op.take("red")) {
    reduces = true;
    what = op.take("popc") ? 2 : op.take("and") ? 3 : op.take("or") ? 4 : 0;
    if (what == 0) return void(unsupported(""));
  } else if (op.take("arrive")) {
    what = 1;
  } else if (!op.take("sync")) {
    return void(unsupported(""));
  }
  op.take("aligned");
  Type type = reduces ? op.take_type() : Type::none;
  if (reduces && type != (what == 2 ? Type::u32 : Type::pred)) return void(unsupported(""));
  const size_t first = reduces ? 1 : 0;
  if (!arity(ins, first + 1 + (reduces ? 1 : 0) + (what == 1 ? 1 : 0), first + 2 + (reduces ? 1 : 0))) return;
  const bool counted = ins.count == first + 2 + (reduces ? 1 : 0);
  Place d = 0;
  if (reduces) d = what == 2 ? dest(ins[0], Type::u32) : predicate_dest(ins[0]);
  const Place id = source(ins[first], Type::u32);
  const Place count = counted ? source(ins[first + 1], Type::u32) : 0;
  bool negated = false;
  const Place p = reduces ? predicate_source(ins[ins.count - 1], &negated) : 0;
  uint32_t branch = 0;
  const bool guarded = begin_guarded(ins, &branch);
  if (!ok()) return;
  if (!op.rest().empty()) return void(unsupported(""));
  Draft& draft = emit(op_barrier);
  if (reduces) def(draft, 0, d);
  use(draft, 1, id);
  if (counted) use(draft, 2, count);
  if (reduces) use(draft, 3, p);
  draft.op.small[0] = what;
  draft.op.small[1] = counted ? 1 : 0;
  draft.op.small[2] = negated ? 1 : 0;
  end_guarded(guarded, branch);
}

// --- exchange
// ---------------------------------------------------------------------------------------------------------

void Decoder::shfl(Ins& ins) {
  Opcode& op = ins.op;
  const bool sync = op.take("sync");
  const std::string_view mode = op.take_any({"up", "down", "bfly", "idx"});
  const Type type = op.take_type();
  if (mode.empty() || bytes_of(type) != 4) return void(unsupported(""));
  if (!arity(ins, sync ? 5 : 4)) return;
  const Place a = source(ins[1], Type::b32), b = source(ins[2], Type::u32), c = source(ins[3], Type::u32);
  // Without .sync, whoever is there takes part.
  const Place mask = sync ? source(ins[4], Type::b32) : literal(4, 0);
  Place d = 0, p = predicate_sink_;
  if (ins[0].kind == Operand::Kind::pair) {
    d = dest(body_.operands[ins[0].first], Type::b32);
    p = predicate_dest(body_.operands[ins[0].first + 1]);
  } else {
    d = dest(ins[0], Type::b32);
  }
  if (!ok()) return;
  Draft& draft = alu(ins, op_shfl);
  def(draft, 0, d);
  def(draft, 1, p);
  use(draft, 2, a);
  use(draft, 3, b);
  use(draft, 4, c);
  use(draft, 5, mask);
  draft.op.small[0] = mode == "up" ? 0 : mode == "down" ? 1 : mode == "bfly" ? 2 : 3;
}

void Decoder::vote(Ins& ins) {
  Opcode& op = ins.op;
  if (!op.take("sync")) return void(unsupported("vote without .sync"));
  const std::string_view mode = op.take_any({"all", "any", "uni", "ballot"});
  const Type type = op.take_type();
  if (mode.empty() || type != (mode == "ballot" ? Type::b32 : Type::pred)) return void(unsupported(""));
  if (!arity(ins, 3)) return;
  bool negated = false;
  const Place p = predicate_source(ins[1], &negated);
  const Place mask = source(ins[2], Type::b32);
  const Place d = mode == "ballot" ? dest(ins[0], Type::b32) : predicate_dest(ins[0]);
  if (!ok()) return;
  Draft& draft = alu(ins, op_vote);
  def(draft, 0, d);
  use(draft, 1, p);
  use(draft, 5, mask);
  draft.op.small[0] = mode == "all" ? 0 : mode == "any" ? 1 : mode == "uni" ? 2 : 3;
  draft.op.small[1] = negated ? 1 : 0;
}

void Decoder::match(Ins& ins) {
  Opcode& op = ins.op;
  const bool all = op.take("all");
  if ((!all && !op.take("any")) || !op.take("sync")) return void(unsupported(""));
  const Type type = op.take_type();
  if (bytes_of(type) != 4 && bytes_of(type) != 8) return void(unsupported(""));
  if (!arity(ins, 3)) return;
  const Place a = source(ins[1], type), mask = source(ins[2], Type::b32);
  Place d = 0, p = predicate_sink_;
  if (ins[0].kind == Operand::Kind::pair) {
    d = dest(body_.operands[ins[0].first], Type::b32);
    p = predicate_dest(body_.operands[ins[0].first + 1]);
  } else {
    d = dest(ins[0], Type::b32);
  }
  if (!ok()) return;
  Draft& draft = alu(ins, op_match);
  def(draft, 0, d);
  if (all) def(draft, 1, p);
  use(draft, 2, a);
  use(draft, 5, mask);
  draft.op.small[0] = all ? 1 : 0;
  draft.op.small[1] = static_cast<uint8_t>(bytes_of(type));
}

void Decoder::redux(Ins& ins) {
  Opcode& op = ins.op;
  if (!op.take("sync")) return void(unsupported(""));
  const std::string_view what = op.take_any({"add", "min", "max", "and", "or", "xor"});
  const Type type = op.take_type();
  if (what.empty() || bytes_of(type) != 4 || is_float(type)) return void(unsupported(""));
  if (!arity(ins, 3)) return;
  const Place a = source(ins[1], Type::b32), mask = source(ins[2], Type::b32), d = dest(ins[0], Type::b32);
  if (!ok()) return;
  Draft& draft = alu(ins, op_redux);
  def(draft, 0, d);
  use(draft, 2, a);
  use(draft, 5, mask);
  const AtomicKind kind = what == "add"   ? AtomicKind::add
                          : what == "min" ? AtomicKind::min
                          : what == "max" ? AtomicKind::max
                          : what == "and" ? AtomicKind::and_
                          : what == "or"  ? AtomicKind::or_
                                          : AtomicKind::xor_;
  draft.op.small[0] = static_cast<uint8_t>(kind);
  draft.op.small[1] = is_signed(type) ? 1 : 0;
}

// --- the chapter
// ------------------------------------------------------------------------------------------------------

void Decoder::plain_control(Ins& ins, Handler handler, Draft::Flow flow) {
  const bool guarded = !ins.statement.guard.empty();
  if (flow == Draft::Flow::end && guarded) flow = Draft::Flow::end_if;
  alu(ins, handler).flow = flow;
  if (flow == Draft::Flow::end_if && ok()) join();
}

bool Decoder::in_control(Ins& ins) {
  Opcode& op = ins.op;
  const std::string_view base = op.base();
  if (base == "bra")
    bra(ins);
  else if (base == "brx")
    brx(ins);
  else if (base == "call")
    call(ins);
  else if (base == "bar" || base == "barrier")
    barrier(ins);
  else if (base == "shfl")
    shfl(ins);
  else if (base == "vote")
    vote(ins);
  else if (base == "match")
    match(ins);
  else if (base == "redux")
    redux(ins);
  else if (base == "ret") {
    op.take("uni");
    if (arity(ins, 0)) plain_control(ins, op_ret, Draft::Flow::end);
  } else if (base == "exit") {
    if (arity(ins, 0)) plain_control(ins, op_exit, Draft::Flow::end);
  } else if (base == "trap" || base == "brkpt") {
    if (arity(ins, 0)) plain_control(ins, op_trap, Draft::Flow::end);
  } else if (base == "activemask") {
    if (op.take_type() != Type::b32) return unsupported(""), true;
    if (!arity(ins, 1)) return true;
    const Place d = dest(ins[0], Type::b32);
    if (ok()) def(alu(ins, op_activemask), 0, d);
  } else if (base == "elect") {
    if (!op.take("sync") || !arity(ins, 2) || ins[0].kind != Operand::Kind::pair)
      return unsupported(""), true;
    const Place mask = source(ins[1], Type::b32);
    const Place d = dest(body_.operands[ins[0].first], Type::b32),
                p = predicate_dest(body_.operands[ins[0].first + 1]);
    if (!ok()) return true;
    Draft& draft = alu(ins, op_elect);
    def(draft, 0, d);
    def(draft, 1, p);
    use(draft, 5, mask);
  } else if (base == "membar" || base == "fence") {
    if (op.take("proxy") || op.take("mbarrier_init")) return unsupported(""), true;
    op.take_any({"acq_rel", "sc", "acquire", "release"});
    op.take_any({"cta", "cluster", "gpu", "gl", "sys"});
    if (arity(ins, 0)) plain_control(ins, op_fence);
  } else if (base == "nanosleep") {
    op.take_type();
    if (!arity(ins, 1)) return true;
    (void)source(ins[0], Type::u32);
    plain_control(ins, op_nanosleep);
  } else if (base == "pmevent" || base == "griddepcontrol" || base == "setmaxnreg") {
    // Of profilers, of launches that overlap, of register files: here each kernel begins after the last one
    // ended.
    if (base == "griddepcontrol")
      op.take_any({"launch_dependents", "wait"});
    else if (base == "setmaxnreg")
      return unsupported(""), true;
    plain_control(ins, op_nop);
  } else {
    return false;
  }
  return true;
}

}  // namespace gpufence::sim::ptx
