// Names, operands and drafts: what every instruction's decoding is made of.
#include "decode.h"

#include <algorithm>
#include <bit>

#include "decoder.h"

namespace gpufence::sim::ptx {
namespace {

constexpr uint32_t kMaxParamArea = 64 << 10;  // of all calls of one function, a lane
constexpr uint32_t kMaxLocal = 512 << 10;

}  // namespace

// --- opcodes
// ----------------------------------------------------------------------------------------------------------

Opcode::Opcode(std::string_view text) {
  size_t at = text.find('.');
  base_ = text.substr(0, at);
  while (at != std::string_view::npos) {
    const size_t next = text.find('.', at + 1);
    const std::string_view modifier =
        text.substr(at + 1, next == std::string_view::npos ? next : next - at - 1);
    if (count_ == modifiers_.size()) {
      too_many_ = true;
      return;
    }
    modifiers_[count_++] = modifier;
    at = next;
  }
}

bool Opcode::has(std::string_view modifier) const {
  return std::find(modifiers_.begin(), modifiers_.begin() + static_cast<std::ptrdiff_t>(count_), modifier) !=
         modifiers_.begin() + static_cast<std::ptrdiff_t>(count_);
}

bool Opcode::take(std::string_view modifier) {
  for (size_t i = 0; i < count_; ++i) {
    if ((taken_ >> i & 1) == 0 && modifiers_[i] == modifier) {
      taken_ |= 1U << i;
      return true;
    }
  }
  return false;
}

std::string_view Opcode::take_any(std::initializer_list<std::string_view> modifiers) {
  for (const std::string_view modifier : modifiers) {
    if (take(modifier)) return modifier;
  }
  return {};
}

Type Opcode::take_type() {
  for (size_t i = 0; i < count_; ++i) {
    if ((taken_ >> i & 1) != 0) continue;
    const Type type = type_named(modifiers_[i]);
    if (type == Type::none) continue;
    taken_ |= 1U << i;
    return type;
  }
  return Type::none;
}

Round Opcode::take_round() {
  static constexpr std::pair<std::string_view, Round> kRounds[] = {{"rn", Round::nearest},
                                                                   {"rz", Round::zero},
                                                                   {"rm", Round::down},
                                                                   {"rp", Round::up},
                                                                   {"rni", Round::integer_nearest},
                                                                   {"rzi", Round::integer_zero},
                                                                   {"rmi", Round::integer_down},
                                                                   {"rpi", Round::integer_up}};
  for (const auto& [name, round] : kRounds) {
    if (!take(name)) continue;
    rounded_ = true;
    return round;
  }
  return Round::nearest;
}

std::string_view Opcode::rest() const {
  if (too_many_) return "of too many parts";
  for (size_t i = 0; i < count_; ++i) {
    if ((taken_ >> i & 1) == 0) return modifiers_[i];
  }
  return {};
}

// --- failures
// ---------------------------------------------------------------------------------------------------------

bool Decoder::unsupported(std::string_view what) {
  if (!stop_) {
    function_.unsupported_here =
        "unsupported instruction " + std::string(now_ != nullptr ? now_->opcode : std::string_view("?"));
    if (!what.empty()) function_.unsupported_here += " (" + std::string(what) + ")";
    function_.unsupported_here += " in " + function_.name + ", line " +
                                  std::to_string(now_ != nullptr ? now_->line : 0) + " of the PTX";
  }
  stop_ = true;
  return false;
}

bool Decoder::invalid(std::string text) {
  if (!stop_) error_ = Error{Error::Kind::invalid, std::move(text), now_ != nullptr ? now_->line : 0};
  stop_ = true;
  return false;
}

// --- names
// ------------------------------------------------------------------------------------------------------------

void Decoder::declare(const Declaration& declaration) {
  Scope& scope = scopes_.back();
  if (declaration.space == Space::reg) {
    if (declaration.type == Type::b128) return void(unsupported("128-bit registers"));
    if (declaration.repeat != 0) {
      scope.ranges.push_back({declaration.name, declaration.type, declaration.repeat});
      return;
    }
  }
  Variable variable;
  variable.space = declaration.space;
  variable.type = declaration.type;
  variable.size = static_cast<uint32_t>(declaration.size);
  const auto place_at = [&](uint32_t* top, uint32_t least, uint32_t limit) {
    const uint32_t align = std::max(declaration.align, least);
    variable.offset = (*top + align - 1) / align * align;
    if (uint64_t{variable.offset} + declaration.size > limit) {
      unsupported("more local memory or parameters than fit");
      return;
    }
    *top = variable.offset + variable.size;
  };
  if (declaration.space == Space::local) place_at(&local_top_, 1, kMaxLocal);
  // Whole words, so that a parameter can be copied by words.
  if (declaration.space == Space::param) place_at(&param_top_, 8, kMaxParamArea);
  param_most_ = std::max(param_most_, param_top_);
  if (declaration.space == Space::shared) {
    variable.global = declaration.global;
    code_->shared_used.push_back(declaration.global);
  }
  scope.names[declaration.name] = variable;
}

Decoder::Variable* Decoder::find(std::string_view name) {
  // %r12 of `.reg .b32 %r<13>`: the name without its digits is the range's.
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  const std::string_view prefix = name.substr(0, digits), number = name.substr(digits);
  for (size_t i = scopes_.size(); i-- > 0;) {
    Scope& scope = scopes_[i];
    const auto found = scope.names.find(name);
    if (found != scope.names.end()) return &found->second;
    if (number.empty() || number.size() > 7 || (number.size() > 1 && number.front() == '0')) continue;
    for (const Range& range : scope.ranges) {
      if (range.prefix != prefix) continue;
      uint32_t value = 0;
      for (const char c : number) value = value * 10 + static_cast<uint32_t>(c - '0');
      if (value >= range.count) continue;
      Variable variable;
      variable.space = Space::reg;
      variable.type = range.type;
      return &(scope.names[name] = variable);
    }
  }
  return nullptr;
}

Place Decoder::place(uint8_t bytes) {
  places_.push_back({bytes, PlaceInfo::Kind::reg, 0, 0});
  return static_cast<Place>(places_.size() - 1);
}

Place Decoder::constant(Constant::Kind kind, uint8_t bytes, uint32_t index, int64_t value) {
  if (kind == Constant::Kind::literal && bytes < 8)
    value = static_cast<int64_t>(static_cast<uint64_t>(value) & ((uint64_t{1} << 8 * bytes) - 1));
  const auto key = std::tuple{static_cast<uint8_t>(kind), bytes, index, value};
  const auto known = constants_.find(key);
  if (known != constants_.end()) return known->second;
  Constant made;
  made.kind = kind;
  made.bytes = bytes;
  made.index = index;
  made.value = value;
  code_->constants.push_back(made);
  places_.push_back(
      {bytes, PlaceInfo::Kind::constant, 0, static_cast<uint32_t>(code_->constants.size() - 1)});
  constants_[key] = static_cast<Place>(places_.size() - 1);
  return static_cast<Place>(places_.size() - 1);
}

// Where a result goes that nobody wants: a register of its own, dead at once.
Place Decoder::sink(uint8_t bytes) {
  return bytes == 0 ? predicate_sink_ : place(bytes);
}

// --- operands
// ---------------------------------------------------------------------------------------------------------

bool Decoder::arity(const Ins& ins, size_t least, size_t most) {
  if (!ok()) return false;
  if (ins.count >= least && ins.count <= std::max(least, most)) return true;
  // Newer PTX gives known names more operands; fewer are damage.
  if (ins.count > std::max(least, most) || !ins.op.rest().empty()) return unsupported("of so many operands");
  return invalid("an operand is missing for " + std::string(ins.statement.opcode));
}

Place Decoder::symbol_address(std::string_view name, int64_t add, uint8_t bytes) {
  const Variable* variable = find(name);
  if (variable != nullptr) {
    switch (variable->space) {
      case Space::local:
        return constant(Constant::Kind::local, bytes, 0, variable->offset + add);
      case Space::param:
        // A kernel's parameters have addresses; those of calls are rows, and compilers copy them before they
        // index.
        if (!variable->kernel) return unsupported("the address of a call's parameter"), 0;
        return literal(bytes, variable->offset + static_cast<uint64_t>(add));
      case Space::shared:
        return constant(Constant::Kind::shared, bytes, variable->global, add);
      default:
        return 0;
    }
  }
  const auto symbol = symbols_.find(name);
  if (symbol == symbols_.end()) return 0;
  if (symbol->second.is_function) {
    code_->functions_used.push_back(symbol->second.index);
    return constant(Constant::Kind::function, bytes, symbol->second.index, add);
  }
  if (module_.globals[symbol->second.index].space == ptx::Space::shared) {
    auto& used = code_->shared_used;
    if (std::find(used.begin(), used.end(), symbol->second.index) == used.end())
      used.push_back(symbol->second.index);
    return constant(Constant::Kind::shared, bytes, symbol->second.index, add);
  }
  return constant(Constant::Kind::global, bytes, symbol->second.index, add);
}

Place Decoder::any_source(const Operand& operand, Type type, uint8_t* bytes) {
  if (!ok()) return 0;
  *bytes = row_bytes(type);
  switch (operand.kind) {
    case Operand::Kind::name: {
      if (operand.negated) return invalid("a negated operand that is no predicate"), 0;
      Variable* variable = find(operand.name);
      if (variable != nullptr && variable->space == Space::reg) {
        if (operand.value != 0) return invalid("an offset to a register outside an address"), 0;
        if (variable->type == Type::pred)
          return invalid("predicate " + std::string(operand.name) + " where a number belongs"), 0;
        *bytes = row_bytes(variable->type);
        if (variable->place == 0) variable->place = place(*bytes);
        return variable->place;
      }
      Special special{};
      uint32_t number = 0;
      if (special_named(operand.name, &special, &number)) {
        note_special(special);
        const Place at = place(*bytes);
        Draft& draft = emit(op_special);
        def(draft, 0, at);
        draft.op.small[0] = static_cast<uint8_t>(special);
        draft.op.small[1] = *bytes;
        draft.op.imm = number;
        return at;
      }
      if (operand.name == "WARP_SZ") return literal(*bytes, kLanes);
      const Place at = *bytes >= 4 ? symbol_address(operand.name, operand.value, *bytes) : 0;
      if (at == 0) {
        // Vectors like %tid, and what later versions of PTX may have.
        if (operand.name.front() == '%' &&
            (module_.version_major > 9 || (module_.version_major == 9 && module_.version_minor > 0) ||
             operand.name.ends_with("id") || operand.name.starts_with("%pm")))
          return unsupported("unknown register " + std::string(operand.name)), 0;
        return invalid("Unknown symbol '" + std::string(operand.name) + "'"), 0;
      }
      return at;
    }
    case Operand::Kind::integer: {
      if (type == Type::f32) return literal(4, std::bit_cast<uint32_t>(static_cast<float>(operand.value)));
      if (type == Type::f64) return literal(8, std::bit_cast<uint64_t>(static_cast<double>(operand.value)));
      uint64_t value = static_cast<uint64_t>(operand.value);
      if (bytes_of(type) == 1) value &= 0xff;  // 8-bit values lie in registers of 16
      return literal(*bytes, value);
    }
    case Operand::Kind::single:
      if (type == Type::f64)
        return literal(8, std::bit_cast<uint64_t>(static_cast<double>(
                              std::bit_cast<float>(static_cast<uint32_t>(operand.value)))));
      if (*bytes < 4) return invalid("a single-precision literal where 16 bits belong"), 0;
      return literal(*bytes, static_cast<uint32_t>(operand.value));
    case Operand::Kind::real:
      if (type == Type::f32)
        return literal(4, std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.value))));
      if (*bytes < 8) return invalid("a double-precision literal where fewer bits belong"), 0;
      return literal(8, static_cast<uint64_t>(operand.value));
    default:
      return unsupported("such an operand"), 0;
  }
}

Place Decoder::source(const Operand& operand, Type type) {
  if (!ok()) return 0;
  uint8_t bytes = 0;
  const Place at = any_source(operand, type, &bytes);
  if (ok() && bytes != row_bytes(type)) unsupported("a register of another size than the type");
  return at;
}

Place Decoder::any_dest(const Operand& operand, Type type, uint8_t* bytes) {
  if (!ok()) return 0;
  *bytes = row_bytes(type);
  if (operand.kind == Operand::Kind::sink) return sink(*bytes);
  if (operand.kind != Operand::Kind::name || operand.negated || operand.value != 0)
    return invalid("a result that is no register"), 0;
  Variable* variable = find(operand.name);
  if (variable == nullptr || variable->space != Space::reg)
    return invalid("Unknown symbol '" + std::string(operand.name) + "'"), 0;
  if (variable->type == Type::pred)
    return invalid("predicate " + std::string(operand.name) + " where a number belongs"), 0;
  *bytes = row_bytes(variable->type);
  if (variable->place == 0) variable->place = place(*bytes);
  return variable->place;
}

Place Decoder::dest(const Operand& operand, Type type) {
  uint8_t bytes = 0;
  const Place at = any_dest(operand, type, &bytes);
  if (ok() && bytes != row_bytes(type)) unsupported("a register of another size than the type");
  return at;
}

Place Decoder::predicate_source(const Operand& operand, bool* negated) {
  if (!ok()) return 0;
  *negated = operand.negated;
  if (operand.kind == Operand::Kind::integer) return operand.value != 0 ? true_ : false_;
  if (operand.kind == Operand::Kind::name) {
    Variable* variable = find(operand.name);
    if (variable != nullptr && variable->space == Space::reg && variable->type == Type::pred) {
      if (variable->place == 0) variable->place = place(0);
      return variable->place;
    }
    if (variable == nullptr && operand.name == "%is_explicit_cluster") return cluster_predicate();
  }
  return invalid("expected a predicate"), 0;
}

// The one special register that is a predicate.
Place Decoder::cluster_predicate() {
  const Place number = place(4), p = place(0);
  Draft& read = emit(op_special);
  def(read, 0, number);
  read.op.small[0] = static_cast<uint8_t>(Special::is_explicit_cluster);
  read.op.small[1] = 4;
  Key key;
  key.kind = Kind::setp;
  key.from = Type::u32;
  key.compare = Compare::ne;
  Draft& draft = emit(isa().compare(key));
  def(draft, 0, p);
  def(draft, 1, predicate_sink_);
  use(draft, 2, number);
  use(draft, 3, literal(4, 0));
  use(draft, 4, true_);
  return p;
}

Place Decoder::predicate_dest(const Operand& operand) {
  if (!ok()) return 0;
  if (operand.kind == Operand::Kind::sink) return predicate_sink_;
  bool negated = false;
  if (operand.kind != Operand::Kind::name) return invalid("expected a predicate"), 0;
  const Place at = predicate_source(operand, &negated);
  if (negated) invalid("a negated predicate as a result");
  return at;
}

bool Decoder::address(const Operand& operand, Place* at, int64_t* offset, bool* wide) {
  if (!ok()) return false;
  if (operand.kind != Operand::Kind::memory) return invalid("expected an address in brackets");
  *offset = operand.value;
  *wide = true;
  if (operand.name.empty()) {
    *at = literal(8, 0);
    return true;
  }
  Variable* variable = find(operand.name);
  if (variable != nullptr && variable->space == Space::reg) {
    const uint8_t bytes = row_bytes(variable->type);
    if (variable->type == Type::pred || bytes < 4)
      return invalid("an address in a register of less than 32 bits");
    if (variable->place == 0) variable->place = place(bytes);
    *at = variable->place;
    *wide = bytes == 8;
    return true;
  }
  *at = symbol_address(operand.name, 0, 8);
  return *at != 0 || invalid("unknown name " + std::string(operand.name));
}

// --- drafts
// -----------------------------------------------------------------------------------------------------------

Draft& Decoder::emit(Handler handler) {
  drafts_.emplace_back();
  Draft& draft = drafts_.back();
  draft.op.run = handler;
  draft.op.source = static_cast<uint32_t>(code_->sources.size() - 1);
  draft.guard = true_;
  return draft;
}

void Decoder::def(Draft& draft, unsigned slot, Place at) {
  draft.r[slot] = at;
  draft.defs |= static_cast<uint8_t>(1U << slot);
}
void Decoder::use(Draft& draft, unsigned slot, Place at) {
  draft.r[slot] = at;
  draft.uses |= static_cast<uint8_t>(1U << slot);
}

void Decoder::guard(Draft& draft, const Ins& ins) {
  if (ins.statement.guard.empty() || !ok()) return;
  Operand name;
  name.kind = Operand::Kind::name;
  name.name = ins.statement.guard;
  bool negated = false;
  draft.guard = predicate_source(name, &negated);
  draft.op.guard_xor = ins.statement.guard_negated ? ~0U : 0;
}

Draft& Decoder::alu(const Ins& ins, Handler handler) {
  if (handler == nullptr) unsupported("");
  const std::string_view rest = ins.op.rest();
  if (!rest.empty()) unsupported("." + std::string(rest));
  Draft& draft = emit(handler);
  guard(draft, ins);
  return draft;
}

void Decoder::note_source(const Statement& statement) {
  const auto known = opcodes_.find(statement.opcode);
  uint32_t opcode = 0;
  if (known != opcodes_.end()) {
    opcode = known->second;
  } else {
    opcode = static_cast<uint32_t>(code_->opcodes.size());
    code_->opcodes.emplace_back(statement.opcode);
    opcodes_[statement.opcode] = opcode;
  }
  code_->sources.push_back({statement.line, opcode});
}

void Decoder::join() {
  emit(op_join).flow = Draft::Flow::join;
}

// --- the function
// -----------------------------------------------------------------------------------------------------

void Decoder::instruction(const Statement& statement) {
  Ins ins{statement, Opcode(statement.opcode), body_.operands.data() + statement.first, statement.count};
  if (in_packed(ins) || !ok() || in_alu(ins)) return;
  if (!ok() || in_memory(ins)) return;
  if (!ok() || in_control(ins)) return;
  if (!ok() || in_video(ins)) return;
  if (!ok() || in_texture(ins)) return;
  if (!ok() || in_stack(ins)) return;
  if (ok()) unsupported("");
}

tl::expected<std::shared_ptr<const Code>, Error> Decoder::run() {
  places_.emplace_back();  // 0: none
  code_->opcodes.emplace_back("the function's end");
  code_->sources.push_back({0, 0});
  const auto fixed = [&](uint32_t offset) {
    places_.push_back({0, PlaceInfo::Kind::fixed, offset, 0});
    return static_cast<Place>(places_.size() - 1);
  };
  true_ = fixed(kTrue);
  false_ = fixed(kFalse);
  predicate_sink_ = fixed(kPredicateSink);
  scopes_.emplace_back();
  for (const Param& param : function_.params) {
    Variable variable;
    variable.space = Space::param;
    variable.size = param.size;
    variable.kernel = function_.is_entry;
    variable.offset = function_.is_entry ? param.offset : param_top_;
    if (!function_.is_entry) {
      code_->param_offsets.push_back(param_top_);
      code_->param_sizes.push_back(param.size);
      param_top_ += (param.size + 7) / 8 * 8;
    }
    scopes_.back().names[param.name] = variable;
  }
  for (const Param& result : function_.results) {
    Variable variable;
    variable.space = Space::param;
    variable.size = result.size;
    variable.offset = param_top_;
    code_->result_offsets.push_back(param_top_);
    code_->result_sizes.push_back(result.size);
    param_top_ += (result.size + 7) / 8 * 8;
    scopes_.back().names[result.name] = variable;
  }
  param_most_ = param_top_;
  for (const Statement& statement : body_.statements) {
    if (statement.kind == Statement::Kind::branch_targets) branch_targets_[statement.opcode] = &statement;
  }

  const auto allocates = [](const Statement& statement) {
    return statement.kind == Statement::Kind::instruction &&
           (statement.opcode.starts_with("alloca.") || statement.opcode.starts_with("stack"));
  };
  if (std::any_of(body_.statements.begin(), body_.statements.end(), allocates)) {
    Declaration area;
    area.space = Space::local;
    area.name = "alloca's";  // no identifier: nobody can name it
    area.size = kAllocaBytes;
    area.align = 16;
    declare(area);
    stack_begin_ = constant(Constant::Kind::local, 4, 0, scopes_.back().names[area.name].offset);
    stack_used_ = place(4);
    Key key;
    key.kind = Kind::mov;
    key.type = Type::b32;
    Draft& draft = emit(isa().integer(key));
    def(draft, 0, stack_used_);
    use(draft, 1, literal(4, 0));
  }

  size_t next_declaration = 0;
  for (size_t i = 0; i <= body_.statements.size() && ok(); ++i) {
    for (; next_declaration < body_.declarations.size() && body_.declarations[next_declaration].before <= i;
         ++next_declaration) {
      declare(body_.declarations[next_declaration]);
    }
    if (i == body_.statements.size() || !ok()) break;
    const Statement& statement = body_.statements[i];
    now_ = &statement;
    switch (statement.kind) {
      case Statement::Kind::open:
        scopes_.emplace_back();
        scopes_.back().param_top = param_top_;
        break;
      case Statement::Kind::close:
        if (scopes_.size() == 1) {
          invalid("'}' without its '{'");
          break;
        }
        param_top_ = scopes_.back().param_top;
        scopes_.pop_back();
        break;
      case Statement::Kind::label:
        if (labels_.contains(statement.opcode)) {
          unsupported("label " + std::string(statement.opcode) + " twice in one function");
          break;
        }
        labels_[statement.opcode] = static_cast<uint32_t>(drafts_.size());
        join();
        break;
      case Statement::Kind::instruction: {
        note_source(statement);
        instruction(statement);
        break;
      }
      default:
        break;
    }
  }
  if (ok()) {
    emit(op_end_of_code).flow = Draft::Flow::end;
    if (resolve_labels()) {
      find_merges();
      drop_joins();
      allocate();
      finish();
    }
  }
  if (error_) return tl::unexpected(*error_);
  if (!ok()) return std::shared_ptr<const Code>();
  return std::shared_ptr<const Code>(code_);
}

tl::expected<std::shared_ptr<const Code>, Error> decode_body(Module& module, const Symbols& symbols,
                                                             Function& function, const Body& body) {
  return Decoder(module, symbols, function, body).run();
}

}  // namespace gpufence::sim::ptx
