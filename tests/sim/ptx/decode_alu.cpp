// Arithmetic, logic, comparison, conversion and moves: which handler, and in which slots its operands go.
#include <bit>

#include "decoder.h"

namespace gpufence::sim::ptx {
namespace {

bool is_half(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2;
}
bool is_integer(Type type) {
  return type != Type::none && type != Type::pred && !is_float(type) && type != Type::b128;
}
Type unsigned_of(unsigned bytes) {
  return bytes == 2 ? Type::u16 : bytes == 4 ? Type::u32 : Type::u64;
}

// What the half handlers want in Op::small[0].
uint8_t half_flags(const Key& key) {
  return static_cast<uint8_t>((key.ftz ? 1 : 0) | (key.sat ? 2 : 0) | (key.relu ? 4 : 0) | (key.nan ? 8 : 0) |
                              (key.xorsign ? 16 : 0));
}

}  // namespace

Handler Decoder::float_or_half(const Key& key) {
  return is_half(key.type) ? isa().half(key) : isa().floating(key);
}

Draft* Decoder::plain(Ins& ins, Handler handler, Type d, std::initializer_list<Type> sources) {
  if (!arity(ins, sources.size() + 1)) return nullptr;
  Place places[5] = {};
  size_t n = 0;
  for (const Type type : sources) {
    places[n] = source(ins[n + 1], type);
    ++n;
  }
  const Place to = dest(ins[0], d);
  if (!ok()) return nullptr;
  Draft& draft = alu(ins, handler);
  if (!ok()) return nullptr;
  def(draft, 0, to);
  for (size_t i = 0; i < n; ++i) use(draft, static_cast<unsigned>(i + 1), places[i]);
  return &draft;
}

void Decoder::add_sub(Ins& ins, bool subtract) {
  Key key;
  key.kind = subtract ? Kind::sub : Kind::add;
  key.round = ins.op.take_round();
  key.ftz = ins.op.take("ftz");
  key.sat = ins.op.take("sat");
  if (ins.op.take("cc")) {
    key.kind = subtract ? Kind::sub_cc : Kind::add_cc;
    key.type = ins.op.take_type();
    Draft* draft = plain(ins, isa().integer(key), key.type, {key.type, key.type});
    if (draft != nullptr) draft->op.small[0] = 1;
    return;
  }
  key.type = ins.op.take_type();
  if (is_float(key.type)) {
    Draft* draft = plain(ins, float_or_half(key), key.type, {key.type, key.type});
    if (draft != nullptr && is_half(key.type)) draft->op.small[0] = half_flags(key);
    return;
  }
  if (key.ftz || ins.op.rounded()) return void(unsupported(""));
  plain(ins, isa().integer(key), key.type, {key.type, key.type});
}

// addc, subc and the mad family with carry.
void Decoder::extended(Ins& ins, Kind kind, unsigned sources) {
  Key key;
  const bool writes = ins.op.take("cc");
  if (kind == Kind::madc_lo || kind == Kind::mad_cc_lo) {
    if (ins.op.take("hi"))
      kind = kind == Kind::madc_lo ? Kind::madc_hi : Kind::mad_cc_hi;
    else if (!ins.op.take("lo"))
      return void(unsupported(""));
  }
  key.kind = kind;
  key.type = ins.op.take_type();
  Draft* draft = sources == 2 ? plain(ins, isa().integer(key), key.type, {key.type, key.type})
                              : plain(ins, isa().integer(key), key.type, {key.type, key.type, key.type});
  if (draft != nullptr) draft->op.small[0] = writes ? 1 : 0;
}

void Decoder::mul(Ins& ins) {
  Key key;
  const std::string_view part = ins.op.take_any({"wide", "lo", "hi"});
  key.round = ins.op.take_round();
  key.ftz = ins.op.take("ftz");
  key.sat = ins.op.take("sat");
  key.type = ins.op.take_type();
  if (is_float(key.type)) {
    if (!part.empty()) return void(unsupported(""));
    key.kind = Kind::mul_lo;
    Draft* draft = plain(ins, float_or_half(key), key.type, {key.type, key.type});
    if (draft != nullptr && is_half(key.type)) draft->op.small[0] = half_flags(key);
    return;
  }
  if (key.ftz || key.sat || ins.op.rounded() || part.empty() || !is_integer(key.type))
    return void(unsupported(""));
  key.kind = part == "wide" ? Kind::mul_wide : part == "lo" ? Kind::mul_lo : Kind::mul_hi;
  const Type d = part == "wide" ? unsigned_of(2 * bytes_of(key.type)) : key.type;
  plain(ins, isa().integer(key), d, {key.type, key.type});
}

void Decoder::mad(Ins& ins, bool is_fma) {
  Key key;
  if (!is_fma && ins.op.take("cc")) {
    const bool high = ins.op.take("hi");
    if (!high && !ins.op.take("lo")) return void(unsupported(""));
    key.kind = high ? Kind::mad_cc_hi : Kind::mad_cc_lo;
    key.type = ins.op.take_type();
    Draft* draft = plain(ins, isa().integer(key), key.type, {key.type, key.type, key.type});
    if (draft != nullptr) draft->op.small[0] = 1;
    return;
  }
  const std::string_view part = is_fma ? std::string_view{} : ins.op.take_any({"wide", "lo", "hi"});
  key.round = ins.op.take_round();
  key.ftz = ins.op.take("ftz");
  key.sat = ins.op.take("sat");
  key.relu = ins.op.take("relu");
  key.type = ins.op.take_type();
  if (is_float(key.type)) {
    if (!part.empty()) return void(unsupported(""));
    key.kind = Kind::fma;
    if (key.relu && !is_half(key.type)) return void(unsupported(""));
    Draft* draft = plain(ins, float_or_half(key), key.type, {key.type, key.type, key.type});
    if (draft != nullptr && is_half(key.type)) draft->op.small[0] = half_flags(key);
    return;
  }
  if (is_fma || key.ftz || key.relu || ins.op.rounded() || part.empty() || !is_integer(key.type))
    return void(unsupported(""));
  key.kind = part == "wide" ? Kind::mad_wide : part == "lo" ? Kind::mad_lo : Kind::mad_hi;
  if (key.sat && key.kind != Kind::mad_hi) return void(unsupported(""));
  const Type d = part == "wide" ? unsigned_of(2 * bytes_of(key.type)) : key.type;
  plain(ins, isa().integer(key), d, {key.type, key.type, d});
}

void Decoder::div(Ins& ins) {
  Key key;
  key.kind = Kind::div;
  key.approximate = !ins.op.take_any({"approx", "full"}).empty();
  key.round = ins.op.take_round();
  key.ftz = ins.op.take("ftz");
  key.type = ins.op.take_type();
  if (is_float(key.type))
    plain(ins, isa().floating(key), key.type, {key.type, key.type});
  else if (key.ftz || key.approximate || ins.op.rounded())
    unsupported("");
  else
    plain(ins, isa().integer(key), key.type, {key.type, key.type});
}

void Decoder::min_max(Ins& ins, Kind kind) {
  Key key;
  key.kind = kind;
  key.ftz = ins.op.take("ftz");
  key.nan = ins.op.take("NaN");
  key.relu = ins.op.take("relu");
  if (ins.op.take("xorsign")) {
    if (!ins.op.take("abs")) return void(unsupported(""));
    key.xorsign = true;
  }
  key.type = ins.op.take_type();
  if (is_float(key.type)) {
    if (key.relu || ins.count != 3) return void(unsupported(""));
    Draft* draft = plain(ins, float_or_half(key), key.type, {key.type, key.type});
    if (draft != nullptr && is_half(key.type)) draft->op.small[0] = half_flags(key);
    return;
  }
  if (key.ftz || key.nan || key.xorsign) return void(unsupported(""));
  plain(ins, isa().integer(key), key.type, {key.type, key.type});
}

// d = f(a)
void Decoder::function_of_one(Ins& ins, Kind kind) {
  Key key;
  key.kind = kind;
  key.approximate = ins.op.take("approx");
  key.round = ins.op.take_round();
  key.ftz = ins.op.take("ftz");
  key.sat = ins.op.take("sat");
  key.type = ins.op.take_type();
  if (is_float(key.type)) {
    Draft* draft = plain(ins, float_or_half(key), key.type, {key.type});
    if (draft != nullptr && is_half(key.type)) draft->op.small[0] = half_flags(key);
    return;
  }
  if (key.approximate || key.ftz || key.sat || ins.op.rounded()) return void(unsupported(""));
  const bool to_32 = kind == Kind::popc || kind == Kind::clz;
  plain(ins, isa().integer(key), to_32 ? Type::u32 : key.type, {key.type});
}

void Decoder::logic(Ins& ins, Kind kind) {
  Key key;
  key.kind = kind;
  key.type = ins.op.take_type();
  const bool one = kind == Kind::not_ || kind == Kind::cnot || kind == Kind::mov;
  if (is_float(key.type)) return void(unsupported(""));
  if (key.type != Type::pred) {
    if (one)
      plain(ins, isa().integer(key), key.type, {key.type});
    else
      plain(ins, isa().integer(key), key.type, {key.type, key.type});
    return;
  }
  if (!arity(ins, one ? 2 : 3)) return;
  bool a_negated = false, b_negated = false;
  const Place a = predicate_source(ins[1], &a_negated);
  const Place b = one ? a : predicate_source(ins[2], &b_negated);
  const Place d = predicate_dest(ins[0]);
  if (!ok()) return;
  Draft& draft = alu(ins, isa().integer(key));
  def(draft, 0, d);
  use(draft, 1, a);
  use(draft, 2, b);
  draft.op.imm = static_cast<int64_t>((a_negated ? uint64_t{0xffffffff} : 0) |
                                      (b_negated ? uint64_t{0xffffffff} << 32 : 0));
}

bool Decoder::comparison(Ins& ins, Key* key, Combine* combine) {
  static constexpr std::pair<std::string_view, Compare> kCompares[] = {
      {"eq", Compare::eq},   {"ne", Compare::ne},   {"lt", Compare::lt},   {"le", Compare::le},
      {"gt", Compare::gt},   {"ge", Compare::ge},   {"lo", Compare::lt},   {"ls", Compare::le},
      {"hi", Compare::gt},   {"hs", Compare::ge},   {"equ", Compare::equ}, {"neu", Compare::neu},
      {"ltu", Compare::ltu}, {"leu", Compare::leu}, {"gtu", Compare::gtu}, {"geu", Compare::geu},
      {"num", Compare::num}, {"nan", Compare::nan}};
  bool found = false;
  for (const auto& [name, compare] : kCompares) {
    if (!found && ins.op.take(name)) {
      key->compare = compare;
      found = true;
    }
  }
  if (!found) return unsupported("");
  *combine = ins.op.take("and")   ? Combine::and_
             : ins.op.take("or")  ? Combine::or_
             : ins.op.take("xor") ? Combine::xor_
                                  : Combine::none;
  key->ftz = ins.op.take("ftz");
  return true;
}

void Decoder::setp(Ins& ins) {
  Key key;
  key.kind = Kind::setp;
  Combine combine = Combine::none;
  if (!comparison(ins, &key, &combine)) return;
  key.from = ins.op.take_type();
  if (!arity(ins, combine == Combine::none ? 3 : 4)) return;
  const Place a = source(ins[1], key.from), b = source(ins[2], key.from);
  bool negated = false;
  const Place c = combine == Combine::none ? true_ : predicate_source(ins[3], &negated);
  Place p = 0, q = predicate_sink_;
  if (ins[0].kind == Operand::Kind::pair) {
    p = predicate_dest(body_.operands[ins[0].first]);
    q = predicate_dest(body_.operands[ins[0].first + 1]);
  } else {
    p = predicate_dest(ins[0]);
  }
  if (!ok()) return;
  Draft& draft = alu(ins, isa().compare(key));
  def(draft, 0, p);
  def(draft, 1, q);
  use(draft, 2, a);
  use(draft, 3, b);
  use(draft, 4, c);
  draft.op.small[0] = static_cast<uint8_t>(combine);
  draft.op.small[1] = negated ? 1 : 0;
}

void Decoder::set(Ins& ins) {
  Key key;
  key.kind = Kind::set;
  Combine combine = Combine::none;
  if (!comparison(ins, &key, &combine)) return;
  key.type = ins.op.take_type();
  key.from = ins.op.take_type();
  if (!arity(ins, combine == Combine::none ? 3 : 4)) return;
  const Place a = source(ins[1], key.from), b = source(ins[2], key.from);
  bool negated = false;
  const Place c = combine == Combine::none ? true_ : predicate_source(ins[3], &negated);
  const Place d = dest(ins[0], key.type);
  const bool pairs = key.from == Type::f16x2 || key.from == Type::bf16x2;
  if (pairs && key.type != key.from && key.type != Type::u32 && key.type != Type::s32) unsupported("");
  if (!pairs && (bytes_of(key.type) == 0 || key.type == Type::b128 || key.type == Type::f16x2 ||
                 key.type == Type::bf16x2 || key.type == Type::f64))
    unsupported("");
  if (!ok()) return;
  Draft& draft = alu(ins, isa().compare(key));
  def(draft, 0, d);
  use(draft, 1, a);
  use(draft, 2, b);
  use(draft, 3, c);
  draft.op.small[0] = static_cast<uint8_t>(combine);
  draft.op.small[1] = negated ? 1 : 0;
  draft.op.small[2] = static_cast<uint8_t>(std::max(2U, bytes_of(key.type)));
  draft.op.small[3] = key.type == Type::f32      ? 1
                      : key.type == Type::bf16   ? 2
                      : key.type == Type::f16x2  ? 3
                      : key.type == Type::bf16x2 ? 4
                      : key.type == Type::f16    ? 5
                                                 : 0;
}

void Decoder::cvt(Ins& ins) {
  Key key;
  key.kind = Kind::cvt;
  key.round = ins.op.take_round();
  key.ftz = ins.op.take("ftz");
  key.sat = ins.op.take("sat");
  key.relu = ins.op.take("relu");
  key.type = ins.op.take_type();
  key.from = ins.op.take_type();
  const auto flags = static_cast<uint8_t>((key.ftz ? 1 : 0) | (key.sat ? 2 : 0) | (key.relu ? 4 : 0));
  if (key.type == Type::f16x2 || key.type == Type::bf16x2) {
    if (key.from != Type::f32 || key.round > Round::zero) return void(unsupported(""));
    key.kind = Kind::cvt_pack;
    Draft* draft = plain(ins, isa().convert(key), key.type, {Type::f32, Type::f32});
    if (draft == nullptr) return;
    draft->op.small[0] = static_cast<uint8_t>(key.type);
    draft->op.small[2] = static_cast<uint8_t>(key.round);
    draft->op.small[3] = flags;
    return;
  }
  const auto convertible = [](Type type) {
    return (is_integer(type) || type == Type::f32 || type == Type::f64 || type == Type::f16 ||
            type == Type::bf16);
  };
  if (!convertible(key.type) || !convertible(key.from) || !arity(ins, 2)) return void(unsupported(""));
  uint8_t from_bytes = 0, to_bytes = 0;
  const Place a = any_source(ins[1], key.from, &from_bytes);
  const Place d = any_dest(ins[0], key.type, &to_bytes);
  if (!ok()) return;
  if (from_bytes < bytes_of(key.from) || to_bytes < bytes_of(key.type))
    return void(unsupported("a register smaller than the type"));
  // Fast handlers are for registers that the types fill.
  const bool exact = from_bytes == bytes_of(key.from) && to_bytes == bytes_of(key.type);
  key.register_bytes = exact ? 0 : to_bytes;
  Draft& draft = alu(ins, isa().convert(key));
  def(draft, 0, d);
  use(draft, 1, a);
  draft.op.small[0] = static_cast<uint8_t>(key.type);
  draft.op.small[1] = static_cast<uint8_t>(key.from);
  draft.op.small[2] = static_cast<uint8_t>(key.round);
  draft.op.small[3] = flags;
  draft.op.imm = to_bytes | from_bytes << 8;
}

// --- moves
// ------------------------------------------------------------------------------------------------------------

void Decoder::pack(Ins& ins, Type type) {
  const Operand& list = ins[1];
  const unsigned parts = list.count, bytes = parts == 0 ? 0 : bytes_of(type) / parts;
  if ((parts != 2 && parts != 4) || bytes == 0 || bytes * parts != bytes_of(type))
    return void(unsupported(""));
  Place places[4] = {};
  for (unsigned k = 0; k < parts; ++k) {
    places[k] = source(body_.operands[list.first + k], bytes == 1   ? Type::b8
                                                       : bytes == 2 ? Type::b16
                                                                    : Type::b32);
  }
  const Place d = dest(ins[0], type);
  if (!ok()) return;
  Draft& draft = alu(ins, op_pack);
  def(draft, 0, d);
  for (unsigned k = 0; k < parts; ++k) use(draft, 1 + k, places[k]);
  draft.op.small[0] = static_cast<uint8_t>(parts);
  draft.op.small[1] = static_cast<uint8_t>(bytes);
}

void Decoder::unpack(Ins& ins, Type type) {
  const Operand& list = ins[0];
  const unsigned parts = list.count, bytes = parts == 0 ? 0 : bytes_of(type) / parts;
  if ((parts != 2 && parts != 4) || bytes == 0 || bytes * parts != bytes_of(type))
    return void(unsupported(""));
  const Place a = source(ins[1], type);
  Place places[4] = {};
  for (unsigned k = 0; k < parts; ++k) {
    places[k] = dest(body_.operands[list.first + k], bytes == 1   ? Type::b8
                                                     : bytes == 2 ? Type::b16
                                                                  : Type::b32);
  }
  if (!ok()) return;
  Draft& draft = alu(ins, op_unpack);
  for (unsigned k = 0; k < parts; ++k) def(draft, k, places[k]);
  use(draft, 5, a);
  draft.op.small[0] = static_cast<uint8_t>(parts);
  draft.op.small[1] = static_cast<uint8_t>(bytes);
}

void Decoder::mov(Ins& ins) {
  if (ins.op.has("pred")) return logic(ins, Kind::mov);
  Key key;
  key.kind = Kind::mov;
  key.type = ins.op.take_type();
  if (!arity(ins, 2)) return;
  if (ins[1].kind == Operand::Kind::list) return pack(ins, key.type);
  if (ins[0].kind == Operand::Kind::list) return unpack(ins, key.type);
  if (bytes_of(key.type) < 2 || bytes_of(key.type) > 8) return void(unsupported(""));
  // A special register goes straight to its place.
  Special special{};
  uint32_t number = 0;
  if (ins[1].kind == Operand::Kind::name && !ins[1].negated && find(ins[1].name) == nullptr &&
      special_named(ins[1].name, &special, &number)) {
    const Place d = dest(ins[0], key.type);
    if (!ok()) return;
    note_special(special);
    Draft& draft = alu(ins, op_special);
    def(draft, 0, d);
    draft.op.small[0] = static_cast<uint8_t>(special);
    draft.op.small[1] = static_cast<uint8_t>(bytes_of(key.type));
    draft.op.imm = number;
    return;
  }
  plain(ins, isa().integer(key), key.type, {key.type});
}

void Decoder::cvta(Ins& ins) {
  const bool from_generic = ins.op.take("to");
  const std::string_view space =
      ins.op.take_any({"global", "shared", "shared::cta", "local", "const", "param", "param::entry"});
  const Type type = ins.op.take_type();
  if (space.empty() || bytes_of(type) != 8) return void(unsupported(""));
  if (space.starts_with("param") && !function_.is_entry)
    return void(unsupported("the generic address of a function's parameter"));
  const uint64_t window = space.starts_with("shared")  ? kSharedWindow
                          : space == "local"           ? kLocalWindow
                          : space.starts_with("param") ? kParamWindow
                                                       : 0;
  if (window == 0) {
    Key key;
    key.kind = Kind::mov;
    key.type = Type::u64;
    plain(ins, isa().integer(key), Type::u64, {Type::u64});
    return;
  }
  Draft* draft = plain(ins, from_generic ? op_from_generic : op_to_generic, Type::u64, {Type::u64});
  if (draft != nullptr) draft->op.imm = static_cast<int64_t>(window);
}

void Decoder::isspacep(Ins& ins) {
  const std::string_view space = ins.op.take_any(
      {"global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry"});
  if (space.empty() || space == "const") return void(unsupported(""));
  if (!arity(ins, 2)) return;
  const Place a = source(ins[1], Type::u64);
  const Place p = predicate_dest(ins[0]);
  if (!ok()) return;
  Draft& draft = alu(ins, op_isspacep);
  def(draft, 0, p);
  use(draft, 1, a);
  draft.op.imm = static_cast<int64_t>(space.starts_with("shared")  ? kSharedWindow
                                      : space == "local"           ? kLocalWindow
                                      : space.starts_with("param") ? kParamWindow
                                                                   : 0);
}

// --- the chapter
// ------------------------------------------------------------------------------------------------------

bool Decoder::in_alu(Ins& ins) {
  enum class Way {
    add,
    sub,
    addc,
    subc,
    mul,
    mad,
    madc,
    fma,
    div,
    minimum,
    maximum,
    one,
    logic,
    setp,
    set,
    cvt,
    mov,
    cvta,
    isspacep,
    other
  };
  struct Entry {
    Way way;
    Kind kind{};
  };
  static const auto& kEntries =
      *new std::unordered_map<std::string_view, Entry>{// never destroyed: threads outlive exit()

                                                       {"add", {Way::add}},
                                                       {"sub", {Way::sub}},
                                                       {"addc", {Way::addc, Kind::addc}},
                                                       {"subc", {Way::subc, Kind::subc}},
                                                       {"mul", {Way::mul}},
                                                       {"mad", {Way::mad}},
                                                       {"madc", {Way::madc, Kind::madc_lo}},
                                                       {"fma", {Way::fma}},
                                                       {"div", {Way::div}},
                                                       {"min", {Way::minimum, Kind::min}},
                                                       {"max", {Way::maximum, Kind::max}},
                                                       {"abs", {Way::one, Kind::abs}},
                                                       {"neg", {Way::one, Kind::neg}},
                                                       {"popc", {Way::one, Kind::popc}},
                                                       {"clz", {Way::one, Kind::clz}},
                                                       {"brev", {Way::one, Kind::brev}},
                                                       {"rcp", {Way::one, Kind::rcp}},
                                                       {"sqrt", {Way::one, Kind::sqrt}},
                                                       {"rsqrt", {Way::one, Kind::rsqrt}},
                                                       {"sin", {Way::one, Kind::sin}},
                                                       {"cos", {Way::one, Kind::cos}},
                                                       {"ex2", {Way::one, Kind::ex2}},
                                                       {"lg2", {Way::one, Kind::lg2}},
                                                       {"tanh", {Way::one, Kind::tanh}},
                                                       {"and", {Way::logic, Kind::and_}},
                                                       {"or", {Way::logic, Kind::or_}},
                                                       {"xor", {Way::logic, Kind::xor_}},
                                                       {"not", {Way::logic, Kind::not_}},
                                                       {"cnot", {Way::logic, Kind::cnot}},
                                                       {"setp", {Way::setp}},
                                                       {"set", {Way::set}},
                                                       {"cvt", {Way::cvt}},
                                                       {"mov", {Way::mov}},
                                                       {"cvta", {Way::cvta}},
                                                       {"isspacep", {Way::isspacep}},
                                                       {"rem", {Way::other, Kind::rem}},
                                                       {"shl", {Way::other, Kind::shl}},
                                                       {"shr", {Way::other, Kind::shr}},
                                                       {"shf", {Way::other, Kind::shf_l}},
                                                       {"bfind", {Way::other, Kind::bfind}},
                                                       {"bfe", {Way::other, Kind::bfe}},
                                                       {"bfi", {Way::other, Kind::bfi}},
                                                       {"bmsk", {Way::other, Kind::bmsk}},
                                                       {"szext", {Way::other, Kind::szext}},
                                                       {"fns", {Way::other, Kind::fns}},
                                                       {"lop3", {Way::other, Kind::lop3}},
                                                       {"prmt", {Way::other, Kind::prmt}},
                                                       {"dp4a", {Way::other, Kind::dp4a}},
                                                       {"dp2a", {Way::other, Kind::dp2a}},
                                                       {"selp", {Way::other, Kind::selp}},
                                                       {"slct", {Way::other, Kind::slct}},
                                                       {"sad", {Way::other, Kind::sad}},
                                                       {"mul24", {Way::other, Kind::mul24_lo}},
                                                       {"mad24", {Way::other, Kind::mad24_lo}},
                                                       {"copysign", {Way::other, Kind::copysign}},
                                                       {"testp", {Way::other, Kind::testp}}};
  const auto found = kEntries.find(ins.op.base());
  if (found == kEntries.end()) return false;
  const Kind kind = found->second.kind;
  switch (found->second.way) {
    case Way::add:
      add_sub(ins, false);
      return true;
    case Way::sub:
      add_sub(ins, true);
      return true;
    case Way::addc:
    case Way::subc:
      extended(ins, kind, 2);
      return true;
    case Way::madc:
      extended(ins, kind, 3);
      return true;
    case Way::mul:
      mul(ins);
      return true;
    case Way::mad:
      mad(ins, false);
      return true;
    case Way::fma:
      mad(ins, true);
      return true;
    case Way::div:
      div(ins);
      return true;
    case Way::minimum:
    case Way::maximum:
      min_max(ins, kind);
      return true;
    case Way::one:
      function_of_one(ins, kind);
      return true;
    case Way::logic:
      logic(ins, kind);
      return true;
    case Way::setp:
      setp(ins);
      return true;
    case Way::set:
      set(ins);
      return true;
    case Way::cvt:
      cvt(ins);
      return true;
    case Way::mov:
      mov(ins);
      return true;
    case Way::cvta:
      cvta(ins);
      return true;
    case Way::isspacep:
      isspacep(ins);
      return true;
    case Way::other:
      break;
  }
  Key key;
  key.kind = kind;
  switch (kind) {
    case Kind::rem:
      key.type = ins.op.take_type();
      plain(ins, isa().integer(key), key.type, {key.type, key.type});
      break;
    case Kind::shl:
    case Kind::shr:
      key.type = ins.op.take_type();
      plain(ins, isa().integer(key), key.type, {key.type, Type::u32});
      break;
    case Kind::shf_l: {
      key.kind = ins.op.take("l") ? Kind::shf_l : ins.op.take("r") ? Kind::shf_r : Kind::mov;
      key.sat = ins.op.take("clamp");  // the other mode wraps
      if (!key.sat && !ins.op.take("wrap")) unsupported("");
      key.type = ins.op.take_type();
      if (key.kind == Kind::mov || bytes_of(key.type) != 4) unsupported("");
      if (ok()) plain(ins, isa().integer(key), Type::b32, {Type::b32, Type::b32, Type::u32});
      break;
    }
    case Kind::bfind:
      if (ins.op.take("shiftamt")) key.kind = Kind::bfind_amount;
      key.type = ins.op.take_type();
      plain(ins, isa().integer(key), Type::u32, {key.type});
      break;
    case Kind::bfe:
      key.type = ins.op.take_type();
      plain(ins, isa().integer(key), key.type, {key.type, Type::u32, Type::u32});
      break;
    case Kind::bfi:
      key.type = ins.op.take_type();
      plain(ins, isa().integer(key), key.type, {key.type, key.type, Type::u32, Type::u32});
      break;
    case Kind::fns:
      key.type = ins.op.take_type();
      plain(ins, isa().integer(key), Type::b32, {Type::b32, Type::b32, Type::s32});
      break;
    case Kind::bmsk:
    case Kind::szext:
      key.sat = ins.op.take("clamp");
      if (!key.sat && !ins.op.take("wrap")) unsupported("");
      key.type = ins.op.take_type();
      if (ok()) plain(ins, isa().integer(key), Type::b32, {Type::u32, Type::u32});
      break;
    case Kind::lop3: {
      key.type = ins.op.take_type();
      if (!arity(ins, 5)) break;  // with a predicate, .BoolOp, it has seven
      if (ins[4].kind != Operand::Kind::integer || ins[4].value < 0 || ins[4].value > 255) {
        invalid("lop3 wants its table as a literal of 8 bits");
        break;
      }
      const Place a = source(ins[1], Type::b32), b = source(ins[2], Type::b32), c = source(ins[3], Type::b32),
                  d = dest(ins[0], Type::b32);
      if (!ok()) break;
      Draft& draft = alu(ins, bytes_of(key.type) == 4 ? isa().integer(key) : nullptr);
      def(draft, 0, d);
      use(draft, 1, a);
      use(draft, 2, b);
      use(draft, 3, c);
      draft.op.imm = ins[4].value;
      break;
    }
    case Kind::prmt: {
      key.type = ins.op.take_type();
      const std::string_view mode = ins.op.take_any({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
      Draft* draft = plain(ins, bytes_of(key.type) == 4 ? isa().integer(key) : nullptr, Type::b32,
                           {Type::b32, Type::b32, Type::b32});
      if (draft == nullptr) break;
      draft->op.small[0] = mode == "f4e"    ? 1
                           : mode == "b4e"  ? 2
                           : mode == "rc8"  ? 3
                           : mode == "ecl"  ? 4
                           : mode == "ecr"  ? 5
                           : mode == "rc16" ? 6
                                            : 0;
      break;
    }
    case Kind::dp4a:
    case Kind::dp2a: {
      const bool high = kind == Kind::dp2a && ins.op.take("hi");
      if (kind == Kind::dp2a && !high && !ins.op.take("lo")) unsupported("");
      const Type a = ins.op.take_type();
      Type b = ins.op.take_type();
      if (b == Type::none) b = a;
      if (bytes_of(a) != 4 || bytes_of(b) != 4) unsupported("");
      if (!ok()) break;
      Draft* draft = plain(ins, isa().integer(key), Type::u32, {Type::u32, Type::u32, Type::u32});
      if (draft == nullptr) break;
      draft->op.small[0] = is_signed(a) ? 1 : 0;
      draft->op.small[1] = is_signed(b) ? 1 : 0;
      draft->op.small[2] = high ? 1 : 0;
      break;
    }
    case Kind::selp: {
      key.type = ins.op.take_type();
      if (!arity(ins, 4)) break;
      const Place a = source(ins[1], key.type), b = source(ins[2], key.type);
      bool negated = false;
      const Place p = predicate_source(ins[3], &negated);
      const Place d = dest(ins[0], key.type);
      if (!ok()) break;
      Draft& draft = alu(ins, bytes_of(key.type) >= 2 ? isa().integer(key) : nullptr);
      def(draft, 0, d);
      use(draft, 1, a);
      use(draft, 2, b);
      use(draft, 3, p);
      draft.op.imm = negated ? 0xffffffff : 0;
      break;
    }
    case Kind::slct:
      key.ftz = ins.op.take("ftz");
      key.type = ins.op.take_type();
      key.from = ins.op.take_type();
      if (key.from != Type::s32 && key.from != Type::f32) unsupported("");
      if (ok()) plain(ins, isa().integer(key), key.type, {key.type, key.type, key.from});
      break;
    case Kind::sad:
      key.type = ins.op.take_type();
      plain(ins, isa().integer(key), key.type, {key.type, key.type, key.type});
      break;
    case Kind::mul24_lo:
    case Kind::mad24_lo: {
      const bool high = ins.op.take("hi");
      if (!high && !ins.op.take("lo")) unsupported("");
      if (high) key.kind = kind == Kind::mul24_lo ? Kind::mul24_hi : Kind::mad24_hi;
      key.type = ins.op.take_type();
      if (!ok()) break;
      if (kind == Kind::mul24_lo)
        plain(ins, isa().integer(key), key.type, {key.type, key.type});
      else
        plain(ins, isa().integer(key), key.type, {key.type, key.type, key.type});
      break;
    }
    case Kind::copysign:
      key.type = ins.op.take_type();
      plain(ins, isa().floating(key), key.type, {key.type, key.type});
      break;
    case Kind::testp: {
      static constexpr std::string_view kTests[] = {"finite",     "infinite", "number",
                                                    "notanumber", "normal",   "subnormal"};
      uint8_t test = 6;
      for (uint8_t k = 0; k < 6; ++k) {
        if (ins.op.take(kTests[k])) test = k;
      }
      key.type = ins.op.take_type();
      if (test == 6) unsupported("");
      if (!arity(ins, 2)) break;
      const Place a = source(ins[1], key.type), p = predicate_dest(ins[0]);
      if (!ok()) break;
      Draft& draft = alu(ins, isa().floating(key));
      def(draft, 0, p);
      use(draft, 1, a);
      draft.op.small[0] = test;
      break;
    }
    default:
      unsupported("");
      break;
  }
  return true;
}

}  // namespace gpufence::sim::ptx
