// ld, st, atom, red, cp.async: state spaces, orders, vectors, registers wider than what they hold.
#include "decoder.h"

namespace gpufence::sim::ptx {
namespace {

enum : uint8_t { kAcquire = 1, kRelease = 2, kPolls = 4 };

}  // namespace

// What each order costs a host of total store order: at most a fence.
bool Decoder::order(Ins& ins, uint8_t* fences) {
  Opcode& op = ins.op;
  const std::string_view order =
      op.take_any({"weak", "relaxed", "volatile", "acquire", "release", "acq_rel", "mmio"});
  op.take_any({"cta", "cluster", "gpu", "sys"});
  *fences = static_cast<uint8_t>((order == "acquire" || order == "acq_rel" ? kAcquire : 0) |
                                 (order == "release" || order == "acq_rel" ? kRelease : 0) |
                                 (!order.empty() && order != "weak" && order != "release" ? kPolls : 0));
  return true;
}

bool Decoder::space(Ins& ins, Where* where) {
  Opcode& op = ins.op;
  const std::string_view space = op.take_any(
      {"global", "const", "shared", "shared::cta", "local", "param", "param::entry", "param::func"});
  if (space.empty())
    *where = Where::generic;
  else if (space == "global" || space == "const")
    *where = Where::global;
  else if (space.starts_with("shared"))
    *where = Where::shared;
  else if (space == "local")
    *where = Where::local;
  else
    *where = Where::frame_param;  // or the kernel's: the name says which
  return true;
}

void Decoder::load_store(Ins& ins, bool store) {
  uint8_t fences = 0;
  Key key;
  key.kind = store ? Kind::st : Kind::ld;
  order(ins, &fences);
  space(ins, &key.where);
  Opcode& op = ins.op;
  op.take("nc");
  op.take("unified");
  // Caches are the host's own; hints about them change nothing that a program can see.
  op.take_any({"ca", "cg", "cs", "cv", "lu", "wb", "wt"});
  op.take_any(
      {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
  op.take_any({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  op.take_any({"L2::64B", "L2::128B", "L2::256B"});
  const bool hint = op.take("L2::cache_hint");
  const std::string_view vector = op.take_any({"v2", "v4"});
  const unsigned parts = vector == "v2" ? 2 : vector == "v4" ? 4 : 1;
  key.type = op.take_type();
  if (bytes_of(key.type) == 0 || bytes_of(key.type) > 8 || bytes_of(key.type) * parts > 16)
    return void(unsupported(""));
  if (!arity(ins, 2, hint ? 3 : 2)) return;
  const Operand& at = ins[store ? 0 : 1];
  const Operand& values = ins[store ? 1 : 0];
  if ((parts > 1) != (values.kind == Operand::Kind::list) || (parts > 1 && values.count != parts))
    return void(invalid("a vector of another length than its modifier"));

  // Parameters have places of their own, known by name.
  Place address_place = 0;
  int64_t offset = 0;
  bool wide = true, fixed = false;
  if (key.where == Where::frame_param) {
    Variable* variable = at.kind == Operand::Kind::memory && !at.name.empty() ? find(at.name) : nullptr;
    if (variable != nullptr && variable->space == Space::param) {
      const uint64_t bytes = uint64_t{bytes_of(key.type)} * parts;
      if (at.value < 0 || static_cast<uint64_t>(at.value) + bytes > variable->size)
        return void(unsupported("beyond the parameter"));
      if (static_cast<uint64_t>(at.value) % bytes_of(key.type) != 0)
        return void(unsupported("a misaligned parameter"));
      offset = variable->offset + at.value;
      fixed = true;
      if (variable->kernel) key.where = Where::kernel_param;
    } else if (function_.is_entry) {
      key.where = Where::kernel_param;
    } else {
      return void(unsupported("a call's parameter by its address"));
    }
    if (store && key.where == Where::kernel_param) return void(unsupported("a kernel's parameter written"));
  }
  if (!fixed && !address(at, &address_place, &offset, &wide)) return;
  key.wide_address = wide;

  Place places[4] = {};
  uint8_t bytes = 0;
  for (unsigned k = 0; k < parts; ++k) {
    const Operand& value = parts > 1 ? body_.operands[values.first + k] : values;
    uint8_t one = 0;
    if (!store && value.kind == Operand::Kind::sink) continue;
    places[k] = store ? any_source(value, key.type, &one) : any_dest(value, key.type, &one);
    if (!ok()) return;
    if (bytes != 0 && one != bytes) return void(unsupported("a vector of registers of different sizes"));
    bytes = one;
  }
  if (bytes == 0) bytes = row_bytes(key.type);
  for (unsigned k = 0; k < parts; ++k) {
    if (places[k] == 0) places[k] = sink(bytes);
  }
  if (bytes < bytes_of(key.type)) return void(unsupported("a register smaller than the type"));
  key.register_bytes = bytes;
  Draft& draft = alu(ins, isa().memory(key));
  for (unsigned k = 0; k < parts; ++k) {
    if (store)
      use(draft, k, places[k]);
    else
      def(draft, k, places[k]);
  }
  if (!fixed) use(draft, 4, address_place);
  draft.op.imm = offset;
  draft.op.small[0] = static_cast<uint8_t>(parts);
  draft.op.small[1] = fences;
}

void Decoder::atom(Ins& ins, bool wants_result) {
  uint8_t fences = 0;
  order(ins, &fences);
  Where where = Where::generic;
  space(ins, &where);
  if (where != Where::generic && where != Where::global && where != Where::shared)
    return void(unsupported(""));
  Opcode& op = ins.op;
  const bool hint = op.take("L2::cache_hint");
  op.take("noftz");
  static constexpr std::pair<std::string_view, AtomicKind> kKinds[] = {
      {"add", AtomicKind::add}, {"min", AtomicKind::min},  {"max", AtomicKind::max},
      {"inc", AtomicKind::inc}, {"dec", AtomicKind::dec},  {"exch", AtomicKind::exch},
      {"cas", AtomicKind::cas}, {"and", AtomicKind::and_}, {"or", AtomicKind::or_},
      {"xor", AtomicKind::xor_}};
  bool found = false;
  AtomicKind kind{};
  for (const auto& [name, each] : kKinds) {
    if (!found && op.take(name)) {
      kind = each;
      found = true;
    }
  }
  const std::string_view vector = op.take_any({"v2", "v4", "v8"});
  const unsigned parts = vector.empty() ? 1 : static_cast<unsigned>(vector[1] - '0');
  const Type type = op.take_type();
  if (!found || bytes_of(type) < 2 || bytes_of(type) > 8) return void(unsupported(""));
  const bool is_half = is_float(type) && type != Type::f32 && type != Type::f64;
  const bool orders = kind == AtomicKind::min || kind == AtomicKind::max;
  if (parts > 1 && (where == Where::shared || bytes_of(type) * parts > 16 || kind > AtomicKind::max ||
                    !(is_half || (type == Type::f32 && !orders))))
    return void(unsupported(""));
  if (parts == 1 && orders && is_half) return void(unsupported(""));
  const size_t sources = kind == AtomicKind::cas ? 2 : 1, first = wants_result ? 1 : 0;
  if (!arity(ins, first + 1 + sources, first + 1 + sources + (hint ? 1 : 0))) return;
  Place at = 0;
  int64_t offset = 0;
  bool wide = true;
  if (!address(ins[first], &at, &offset, &wide)) return;
  const bool result = wants_result && ins[0].kind != Operand::Kind::sink;
  const auto element = [&](const Operand& operand, unsigned k) -> const Operand& {
    return parts > 1 ? body_.operands[operand.first + k] : operand;
  };
  for (const Operand* operand : {&ins[first + 1], result ? &ins[0] : &ins[first + 1]}) {
    if ((operand->kind == Operand::Kind::list) != (parts > 1) || (parts > 1 && operand->count != parts))
      return void(invalid("a vector of another length than its modifier"));
  }
  // A vector is atomic by its elements. Results go to their registers at the end: these may be sources, too.
  Place from[8] = {}, to[8] = {};
  for (unsigned k = 0; k < parts; ++k) {
    const Place b = source(element(ins[first + 1], k), type);
    const Place c = sources == 2 ? source(ins[first + 2], type) : b;
    if (result) to[k] = dest(element(ins[0], k), type);
    if (!ok()) return;
    if (result) from[k] = parts > 1 ? place(row_bytes(type)) : to[k];
    Draft& draft = alu(ins, atomic_handler(kind, type, where, wide));
    if (result) def(draft, 0, from[k]);
    use(draft, 1, b);
    use(draft, 2, c);
    use(draft, 4, at);
    draft.op.imm = offset + static_cast<int64_t>(k) * bytes_of(type);
    draft.op.small[3] = static_cast<uint8_t>(k == 0 ? bytes_of(type) * parts - 1 : 0);
  }
  if (!result || parts == 1) return;
  for (unsigned k = 0; k < parts; ++k) move(ins, to[k], from[k], bytes_of(type) == 2 ? Type::b16 : Type::b32);
}

void Decoder::move(const Ins& ins, Place to, Place from, Type type) {
  Key key;
  key.kind = Kind::mov;
  key.type = type;
  Draft& draft = alu(ins, isa().integer(key));
  def(draft, 0, to);
  use(draft, 1, from);
}

// alloca, stacksave, stackrestore: each function that has them has an area of its own, and how much of it is
// in use.
bool Decoder::in_stack(Ins& ins) {
  Opcode& op = ins.op;
  const std::string_view base = op.base();
  if (base != "alloca" && base != "stacksave" && base != "stackrestore") return false;
  const Type type = op.take_type();
  if (type != Type::u32 && type != Type::u64) return unsupported(""), true;
  if (!arity(ins, base == "alloca" ? 2 : 1, base == "alloca" ? 3 : 1)) return true;
  const auto resize = [&](Place to, Type to_type, Place from, Type from_type) {
    if (!ok()) return;
    Key key;
    key.kind = Kind::cvt;
    key.type = to_type;
    key.from = from_type;
    Draft& draft = alu(ins, isa().convert(key));
    def(draft, 0, to);
    use(draft, 1, from);
    draft.op.small[0] = static_cast<uint8_t>(to_type);
    draft.op.small[1] = static_cast<uint8_t>(from_type);
    draft.op.imm = bytes_of(to_type) | bytes_of(from_type) << 8;
  };
  if (base == "stacksave") {
    resize(dest(ins[0], type), type, stack_used_, Type::u32);
    return true;
  }
  if (base == "stackrestore") {
    resize(stack_used_, Type::u32, source(ins[0], type), type);
    return true;
  }
  int64_t align = 8;
  if (ins.count == 3) {
    if (ins[2].kind != Operand::Kind::integer || ins[2].value <= 0 || ins[2].value > 4096 ||
        (ins[2].value & (ins[2].value - 1)) != 0)
      return invalid("alloca wants its alignment as a power of two"), true;
    align = ins[2].value;
  }
  const Place size = source(ins[1], type), d = dest(ins[0], type);
  if (!ok()) return true;
  const Place bytes = place(4), at = place(4);
  resize(bytes, Type::u32, size, type);
  Draft& draft = alu(ins, op_alloca);
  def(draft, 0, at);
  use(draft, 1, bytes);
  use(draft, 2, stack_used_);
  use(draft, 3, stack_begin_);
  def(draft, 4, stack_used_);
  draft.op.imm = align;
  resize(d, type, at, Type::u32);
  return true;
}

void Decoder::mbarrier_op(Ins& ins, Mbarrier what, const Operand& at, Place count, const Operand* state,
                          Place token) {
  const std::string_view where = ins.op.take_any({"shared", "shared::cta", "shared::cluster"});
  ins.op.take("b64");
  Place address_place = 0;
  int64_t offset = 0;
  bool wide = true;
  if (!address(at, &address_place, &offset, &wide)) return;
  const bool waits = what == Mbarrier::test || what == Mbarrier::test_parity;
  const bool wants = state != nullptr && (waits || state->kind != Operand::Kind::sink);
  const Place d = !wants ? 0 : waits ? predicate_dest(*state) : dest(*state, Type::b64);
  if (!ok()) return;
  Draft& draft = alu(ins, op_mbarrier);
  if (wants) def(draft, 0, d);
  use(draft, 1, count);
  use(draft, 2, token != 0 ? token : literal(8, 0));
  use(draft, 4, address_place);
  draft.op.imm = offset;
  draft.op.small[0] = static_cast<uint8_t>(what);
  draft.op.small[1] = wide ? 1 : 0;
  draft.op.small[2] = where.empty() ? 0 : 1;
  draft.op.small[3] = wants && !waits ? 1 : 0;
}

void Decoder::mbarrier(Ins& ins) {
  Opcode& op = ins.op;
  const std::string_view what = op.take_any({"init", "inval", "arrive", "arrive_drop", "expect_tx",
                                             "complete_tx", "test_wait", "try_wait", "pending_count"});
  op.take_any({"acquire", "release", "relaxed"});
  op.take_any({"cta", "cluster"});
  const Place one = literal(4, 1);
  if (what == "pending_count") {
    op.take("b64");
    if (!arity(ins, 2)) return;
    const Place state = source(ins[1], Type::b64), d = dest(ins[0], Type::b32);
    if (!ok()) return;
    Draft& draft = alu(ins, op_mbarrier_pending);
    def(draft, 0, d);
    use(draft, 1, state);
  } else if (what == "init") {
    if (arity(ins, 2)) mbarrier_op(ins, Mbarrier::init, ins[0], source(ins[1], Type::u32), nullptr, 0);
  } else if (what == "inval") {
    if (arity(ins, 1)) mbarrier_op(ins, Mbarrier::inval, ins[0], one, nullptr, 0);
  } else if (what == "arrive" || what == "arrive_drop") {
    const bool drops = what == "arrive_drop", expects = op.take("expect_tx"), stays = op.take("noComplete");
    if (!arity(ins, expects || stays ? 3 : 2, 3)) return;
    const Mbarrier which = expects ? (drops ? Mbarrier::drop_expect : Mbarrier::arrive_expect)
                           : stays ? (drops ? Mbarrier::drop_no_complete : Mbarrier::arrive_no_complete)
                                   : (drops ? Mbarrier::drop : Mbarrier::arrive);
    mbarrier_op(ins, which, ins[1], ins.count == 3 ? source(ins[2], Type::u32) : one, &ins[0], 0);
  } else if (what == "expect_tx" || what == "complete_tx") {
    if (arity(ins, 2))
      mbarrier_op(ins, what == "expect_tx" ? Mbarrier::expect : Mbarrier::complete, ins[0],
                  source(ins[1], Type::u32), nullptr, 0);
  } else if (what == "test_wait" || what == "try_wait") {
    // A try that waits may end before its time: loops around it poll.
    const bool parity = op.take("parity");
    if (!arity(ins, 3, what == "try_wait" ? 4 : 3)) return;
    if (parity)
      mbarrier_op(ins, Mbarrier::test_parity, ins[1], source(ins[2], Type::u32), &ins[0], 0);
    else
      mbarrier_op(ins, Mbarrier::test, ins[1], one, &ins[0], source(ins[2], Type::b64));
  } else {
    unsupported("");
  }
}

// Done at once: whoever waits for it finds it done.
void Decoder::cp_async(Ins& ins) {
  Opcode& op = ins.op;
  if (!op.take("async")) return void(unsupported(""));
  if (op.take("mbarrier")) {
    // The copies are done. Without .noinc the arrival was added to those expected just before.
    if (!op.take("arrive") || !arity(ins, 1)) return void(unsupported(""));
    if (op.take("noinc")) {
      mbarrier_op(ins, Mbarrier::arrive, ins[0], literal(4, 1), nullptr, 0);
      return;
    }
    op.take_any({"shared", "shared::cta"});
    op.take("b64");
    alu(ins, op_nop);
    return;
  }
  if (op.take("commit_group") || op.take("wait_all")) {
    if (arity(ins, 0)) alu(ins, op_nop);
    return;
  }
  if (op.take("wait_group")) {
    if (arity(ins, 1)) alu(ins, op_nop);
    return;
  }
  const std::string_view cache = op.take_any({"ca", "cg"});
  const std::string_view to = op.take_any({"shared", "shared::cta"});
  op.take_any({"L2::64B", "L2::128B", "L2::256B"});
  if (cache.empty() || to.empty() || !op.take("global") || !arity(ins, 3, 4)) return void(unsupported(""));
  if (ins[2].kind != Operand::Kind::integer || (ins[2].value != 4 && ins[2].value != 8 && ins[2].value != 16))
    return void(unsupported(""));
  Place shared = 0, global = 0, given = 0;
  int64_t shared_offset = 0, global_offset = 0;
  bool shared_wide = true, global_wide = true;
  if (!address(ins[0], &shared, &shared_offset, &shared_wide) ||
      !address(ins[1], &global, &global_offset, &global_wide))
    return;
  if (shared_offset != static_cast<int32_t>(shared_offset) ||
      global_offset != static_cast<int32_t>(global_offset))
    return void(unsupported("an offset of more than 32 bits"));
  if (ins.count == 4) given = source(ins[3], Type::u32);
  if (!ok()) return;
  Draft& draft = alu(ins, op_copy_async);
  use(draft, 0, shared);
  use(draft, 1, global);
  if (ins.count == 4) use(draft, 2, given);
  draft.op.r[3] = static_cast<uint32_t>(shared_offset);
  draft.op.r[4] = static_cast<uint32_t>(global_offset);
  draft.op.imm = ins[2].value;
  draft.op.small[0] = shared_wide ? 1 : 0;
  draft.op.small[1] = global_wide ? 1 : 0;
  draft.op.small[2] = ins.count == 4 ? 1 : 0;
}

bool Decoder::in_memory(Ins& ins) {
  const std::string_view base = ins.op.base();
  if (base == "ld" || base == "ldu")
    load_store(ins, false);
  else if (base == "st")
    load_store(ins, true);
  else if (base == "atom")
    atom(ins, true);
  else if (base == "red")
    atom(ins, false);
  else if (base == "cp")
    cp_async(ins);
  else if (base == "mbarrier")
    mbarrier(ins);
  else if (base == "prefetch" || base == "prefetchu" || base == "applypriority" || base == "discard") {
    // Hints; what the address is does not matter. discard would allow to forget the bytes: they stay.
    ins.op.take_any({"global", "local", "const", "param"});
    ins.op.take_any({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
    alu(ins, op_nop);
  } else {
    return false;
  }
  return true;
}

}  // namespace gpufence::sim::ptx
