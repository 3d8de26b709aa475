// Reads a PTX text into a Module: directives, variables with their initialisers, function heads and bodies as
// statements; decode.cpp then makes code of the bodies. Loops instead of recursion, and every loop ends with
// the text (lexer.h), so that any bytes are safe to give.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "decode.h"
#include "lexer.h"
#include "syntax.h"

namespace gpufence::sim::ptx {

Type type_named(std::string_view name) {
  static const auto& kTypes = *new std::unordered_map<std::string_view, Type>{
      // never destroyed: threads outlive exit()

      {"pred", Type::pred}, {"b8", Type::b8},       {"u8", Type::u8},         {"s8", Type::s8},
      {"b16", Type::b16},   {"u16", Type::u16},     {"s16", Type::s16},       {"f16", Type::f16},
      {"bf16", Type::bf16}, {"b32", Type::b32},     {"u32", Type::u32},       {"s32", Type::s32},
      {"f32", Type::f32},   {"f16x2", Type::f16x2}, {"bf16x2", Type::bf16x2}, {"b64", Type::b64},
      {"u64", Type::u64},   {"s64", Type::s64},     {"f64", Type::f64},       {"b128", Type::b128}};
  const auto found = kTypes.find(name);
  return found == kTypes.end() ? Type::none : found->second;
}

std::string Error::what() const {
  return line != 0 ? "line " + std::to_string(line) + ": " + text : text;
}

namespace {

constexpr uint64_t kMaxParamBytes = 32764;      // of one function: CUDA 12.1's limit
constexpr uint64_t kMaxLocalBytes = 512 << 10;  // a thread's, as hardware allows
constexpr uint64_t kMaxSharedBytes = 16 << 20;  // of one variable; launches check the device's limit
constexpr size_t kMaxDepth = 64;                // of nested scopes and initialiser braces
constexpr uint32_t kMaxRegisters = 1 << 20;     // of one function

constexpr uint64_t round_up(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

struct PendingName {
  size_t global, relocation;
  std::string_view name;
  unsigned line;
};

struct Variable {
  std::string_view name;
  Type type = Type::none;
  uint64_t size = 0;
  uint32_t align = 1;
  bool open = false;  // [] without initialiser
  bool is_managed = false;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(text), module_(std::make_shared<Module>()) {}

  tl::expected<std::shared_ptr<const Module>, Error> run() {
    while (!in_.failed() && in_.peek().kind != Token::Kind::end) top();
    if (!in_.failed() && module_->version_major == 0) in_.fail("no .version: this is not PTX", 1);
    for (const PendingName& pending : pending_) resolve(pending);
    if (!in_.failed()) decode();
    if (in_.failed()) return tl::unexpected(in_.error());
    if (auto error = finish(*module_)) return tl::unexpected(*error);
    return std::shared_ptr<const Module>(std::move(module_));
  }

 private:
  void top() {
    const Token word = in_.peek();
    if (word.kind != Token::Kind::word) {
      if (in_.accept('@')) {  // @@DWARF of old compilers
        if (in_.peek().is('@')) return in_.skip_line();
        return in_.fail("expected a directive");
      }
      if (in_.accept(';')) return;
      return in_.fail("expected a directive");
    }
    if (word.is(".loc") || word.is(".file")) return in_.skip_line();
    if (word.is(".version")) return version();
    if (word.is(".target")) return target();
    if (word.is(".address_size")) {
      in_.take();
      module_->address_bits = static_cast<uint32_t>(integer("32 or 64"));
      if (!in_.failed() && module_->address_bits != 32 && module_->address_bits != 64)
        in_.fail(".address_size must be 32 or 64");
      return;
    }
    if (word.is(".section")) {
      in_.take();
      in_.expect_word("a section's name");
      return in_.skip_block();
    }
    if (word.is(".pragma")) return to_semicolon();
    if (word.is(".alias")) return alias();
    Linkage linkage = Linkage::local;
    for (bool more = true; more;) {
      more = true;
      if (in_.peek().is(".extern"))
        linkage = Linkage::external;
      else if (in_.peek().is(".visible"))
        linkage = Linkage::visible;
      else if (in_.peek().is(".weak"))
        linkage = Linkage::weak;
      else if (in_.peek().is(".common"))
        linkage = Linkage::common;
      else
        more = false;
      if (more) in_.take();
    }
    const Token kind = in_.peek();
    if (kind.is(".entry") || kind.is(".func")) return function(linkage);
    if (kind.is(".global") || kind.is(".const") || kind.is(".shared")) {
      in_.take();
      const Space space = kind.is(".global")  ? Space::global
                          : kind.is(".const") ? Space::constant
                                              : Space::shared;
      return globals(space, linkage);
    }
    if (kind.is(".tex")) {  // deprecated form of `.global .texref`
      in_.take();
      return globals(Space::global, linkage, true);
    }
    in_.fail("unknown directive " +
             std::string(kind.kind == Token::Kind::word ? kind.text : std::string_view("after linkage")));
  }

  void version() {
    in_.take();
    // The lexer reads 8.5 as a decimal literal; major and minor are wanted.
    const Token number = in_.take();
    if (number.kind == Token::Kind::real) {
      const double value = std::bit_cast<double>(number.value);
      if (value >= 1 && value < 1000) {
        module_->version_major = static_cast<int>(value);
        module_->version_minor = static_cast<int>((value - module_->version_major) * 10 + 0.5);
        return;
      }
    }
    in_.fail("expected .version major.minor", number.line);
  }

  void target() {
    in_.take();
    do {
      const std::string_view word = in_.expect_word("a target");
      if (word.substr(0, 3) != "sm_") continue;
      module_->target = word;
      module_->target_sm = 0;
      for (size_t i = 3; i < word.size() && i < 7 && word[i] >= '0' && word[i] <= '9'; ++i) {
        module_->target_sm = module_->target_sm * 10 + static_cast<uint32_t>(word[i] - '0');
      }
    } while (in_.accept(','));
  }

  void alias() {
    in_.take();
    const unsigned line = in_.peek().line;
    const std::string_view name = in_.expect_word("a name");
    in_.expect(',');
    const std::string_view of = in_.expect_word("a function");
    in_.expect(';');
    if (!in_.failed()) aliases_.push_back({name, of, line});
  }

  void to_semicolon() {
    while (in_.peek().kind != Token::Kind::end && !in_.peek().is(';')) in_.take();
    in_.expect(';');
  }

  int64_t integer(const char* what) {
    const bool minus = in_.accept('-');
    const bool invert = !minus && in_.accept('~');
    const Token token = in_.take();
    if (token.kind != Token::Kind::integer) {
      in_.fail(std::string("expected ") + what, token.line);
      return 0;
    }
    const auto bits = static_cast<uint64_t>(token.value);
    return static_cast<int64_t>(minus ? 0 - bits : invert ? ~bits : bits);
  }

  uint32_t alignment() {
    const int64_t align = integer("an alignment");
    if (in_.failed()) return 1;
    if (align <= 0 || align > 1024 || (align & (align - 1)) != 0) {
      in_.fail(".align must be a power of two of at most 1024");
      return 1;
    }
    return static_cast<uint32_t>(align);
  }

  // [.align N] [.attribute(…)] [.ptr …] [.v2] .type, in any order; the name comes next.
  Variable variable_head(uint64_t* elements_of_vector, bool* is_texture = nullptr) {
    Variable variable;
    uint32_t vector = 1, align = 0;
    while (in_.peek().kind == Token::Kind::word && in_.peek().text.front() == '.') {
      const std::string_view word = in_.take().text;
      if (word == ".align")
        align = alignment();
      else if (word == ".v2")
        vector = 2;
      else if (word == ".v4")
        vector = 4;
      else if (word == ".v8")
        vector = 8;
      else if (word == ".attribute")
        attribute(&variable);
      else if (word == ".ptr")
        pointer();
      else if (word == ".param" || word == ".reg")
        continue;
      else if (is_texture != nullptr && (word == ".texref" || word == ".surfref" || word == ".samplerref")) {
        *is_texture = true;
        variable.type = Type::b64;
      } else if ((variable.type = type_named(word.substr(1))) == Type::none) {
        in_.fail("unknown type " + std::string(word));
        return variable;
      }
    }
    if (!in_.failed() && (variable.type == Type::none)) in_.fail("expected a type");
    *elements_of_vector = vector;
    variable.size = uint64_t{bytes_of(variable.type)} * vector;
    variable.align = std::max<uint32_t>({align, align != 0 ? 1 : static_cast<uint32_t>(variable.size), 1});
    return variable;
  }

  void attribute(Variable* variable) {
    in_.expect('(');
    while (!in_.failed() && !in_.peek().is(')')) {
      if (in_.take().is(".managed")) variable->is_managed = true;
    }
    in_.expect(')');
  }

  void pointer() {
    while (in_.peek().is(".global") || in_.peek().is(".const") || in_.peek().is(".shared") ||
           in_.peek().is(".local") || in_.peek().is(".align")) {
      if (in_.take().is(".align")) alignment();
    }
  }

  // name [n][m]…; sets the size, `open` for a first dimension left out.
  void variable_name(Variable* variable, uint64_t limit) {
    variable->name = in_.expect_word("a name");
    bool first = true;
    while (in_.accept('[')) {
      if (first && in_.peek().is(']')) {
        variable->open = true;
      } else {
        const int64_t n = integer("a dimension");
        uint64_t size = 0;
        if (n < 0 || __builtin_mul_overflow(variable->size, static_cast<uint64_t>(n), &size)) {
          return in_.fail("a dimension out of bounds");
        }
        variable->size = size;
      }
      in_.expect(']');
      first = false;
    }
    if (!in_.failed() && variable->size > limit) {
      in_.fail(std::string(variable->name) + " has " + std::to_string(variable->size) +
                   " bytes, more than the " + std::to_string(limit) + " that fit",
               0, Error::Kind::too_large);
    }
  }

  void globals(Space space, Linkage linkage, bool is_texture = false) {
    uint64_t vector = 1;
    const Variable head = variable_head(&vector, &is_texture);
    do {
      Variable variable = head;
      variable_name(&variable, space == Space::shared ? kMaxSharedBytes : kMaxGlobalBytes);
      if (in_.failed()) return;
      Global global;
      global.name = variable.name;
      global.space = space;
      global.linkage = linkage;
      global.is_texture = is_texture;
      global.is_managed = variable.is_managed;
      global.size = variable.open ? 0 : variable.size;
      global.align = variable.align;
      global.is_defined = linkage != Linkage::external;
      const size_t index = add_global(std::move(global));
      if (in_.failed()) return;
      if (in_.accept('=')) {
        initialiser(index, head.type, variable.open);
      } else if (variable.open && linkage != Linkage::external && space != Space::shared) {
        in_.fail(std::string(variable.name) + "[] needs an initialiser");
      }
    } while (in_.accept(','));
    in_.expect(';');
  }

  size_t add_global(Global global) {
    const auto known = symbols_.find(global.name);
    if (known != symbols_.end()) {
      if (known->second.is_function) {
        in_.fail(global.name + " is a function already");
        return 0;
      }
      Global& there = module_->globals[known->second.index];
      // A declaration and its definition, in either order.
      if (there.is_defined && global.is_defined) in_.fail(global.name + " is defined twice");
      if (global.is_defined) there = std::move(global);
      return known->second.index;
    }
    module_->globals.push_back(std::move(global));
    symbols_[module_->globals.back().name] = {false, static_cast<uint32_t>(module_->globals.size() - 1)};
    return module_->globals.size() - 1;
  }

  void put(std::vector<uint8_t>* bytes, uint64_t value, unsigned count) {
    for (unsigned i = 0; i < count; ++i) bytes->push_back(static_cast<uint8_t>(value >> 8 * i));
  }

  // One value, or braces of them. Nested braces only group: PTX fills rows as far as they are written.
  void initialiser(size_t index, Type type, bool open) {
    Global& global = module_->globals[index];
    const unsigned width = std::max(1U, bytes_of(type));
    size_t depth = 0;
    do {
      if (in_.accept('{')) {
        if (++depth > kMaxDepth) return in_.fail("braces nested too deep");
        if (!in_.peek().is('}')) continue;
      }
      if (!in_.peek().is('}') && !in_.peek().is(',')) initial_value(index, type, width);
      while (depth > 0 && in_.accept('}')) --depth;
      if (in_.failed()) return;
      if (!open && global.initial.size() > global.size)
        return in_.fail("more values than " + global.name + " has room for");
      if (depth > 0) {
        if (!in_.peek().is(',') && !in_.peek().is('}')) return in_.fail("expected ',' or '}'");
        in_.accept(',');
      }
    } while (depth > 0 && !in_.failed());
    if (open) global.size = global.initial.size();
  }

  void initial_value(size_t index, Type type, unsigned width) {
    std::vector<uint8_t>& bytes = module_->globals[index].initial;
    const Token token = in_.peek();
    if (token.kind == Token::Kind::single || token.kind == Token::Kind::real || token.is('-') ||
        token.is('+') || token.is('~') || token.kind == Token::Kind::integer) {
      const bool minus = in_.accept('-');
      if (!minus) in_.accept('+');
      const bool invert = in_.accept('~');
      const Token number = in_.take();
      auto bits = static_cast<uint64_t>(number.value);
      if (number.kind == Token::Kind::single) {
        if (type == Type::f64)
          bits =
              std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
        if (minus) bits ^= type == Type::f64 ? uint64_t{1} << 63 : uint64_t{1} << 31;
      } else if (number.kind == Token::Kind::real) {
        if (minus) bits ^= uint64_t{1} << 63;
        if (type == Type::f32)
          bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
      } else if (number.kind == Token::Kind::integer) {
        if (in_.peek().is('(')) return masked_symbol(index, bits, width);
        bits = minus ? 0 - bits : invert ? ~bits : bits;
        if (type == Type::f32) bits = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(bits)));
        if (type == Type::f64)
          bits = std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(bits)));
      } else {
        return in_.fail("expected a value", number.line);
      }
      if (width > 8) return in_.fail("128-bit initialisers are not known");
      return put(&bytes, bits, width);
    }
    if (token.kind == Token::Kind::word) {
      Relocation relocation;
      relocation.offset = bytes.size();
      relocation.bytes = std::min(width, 8U);
      symbol(index, relocation);
      return put(&bytes, 0, std::min(width, 8U));
    }
    in_.fail("expected a value");
  }

  // 0xFF00(symbol): the bytes of an address that a mask names, for packed structures of bytes.
  void masked_symbol(size_t index, uint64_t mask, unsigned width) {
    std::vector<uint8_t>& bytes = module_->globals[index].initial;
    const int shift = mask == 0 ? -1 : __builtin_ctzll(mask);
    if (shift < 0 || shift % 8 != 0 || width > 8 ||
        (mask >> shift) != (width == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * width) - 1)) {
      return in_.fail("a mask that does not name bytes of the element's size");
    }
    in_.expect('(');
    Relocation relocation;
    relocation.offset = bytes.size();
    relocation.bytes = width;
    relocation.shift = static_cast<uint32_t>(shift);
    symbol(index, relocation);
    in_.expect(')');
    put(&bytes, 0, width);
  }

  // name, generic(name), either with + or - an offset; the name may be defined later.
  void symbol(size_t index, Relocation relocation) {
    const unsigned line = in_.peek().line;
    std::string_view name = in_.expect_word("a symbol");
    if (name == "generic" && in_.accept('(')) {
      name = in_.expect_word("a symbol");
      if (in_.peek().is('+') || in_.peek().is('-')) relocation.addend = offset();
      in_.expect(')');
    }
    if (in_.peek().is('+') || in_.peek().is('-')) relocation.addend += offset();
    if (in_.failed()) return;
    Global& global = module_->globals[index];
    global.relocations.push_back(relocation);
    pending_.push_back({index, global.relocations.size() - 1, name, line});
  }

  int64_t offset() {
    const bool minus = in_.peek().is('-');
    in_.take();
    const auto value = static_cast<uint64_t>(integer("an offset"));
    return static_cast<int64_t>(minus ? 0 - value : value);
  }

  void resolve(const PendingName& pending) {
    if (in_.failed()) return;
    const auto found = symbols_.find(pending.name);
    if (found == symbols_.end())
      return in_.fail("undefined symbol " + std::string(pending.name), pending.line, Error::Kind::undefined);
    Relocation& relocation = module_->globals[pending.global].relocations[pending.relocation];
    relocation.is_function = found->second.is_function;
    relocation.target = found->second.index;
    if (!relocation.is_function && module_->globals[relocation.target].space == Space::shared) {
      in_.fail("the address of a shared variable as an initial value", pending.line);
    }
  }

  void param_list(std::vector<Param>* params, uint32_t* total) {
    uint64_t end = 0;
    if (in_.accept(')')) return;
    do {
      uint64_t vector = 1;
      Variable variable = variable_head(&vector);
      if (in_.failed()) return;
      variable_name(&variable, kMaxParamBytes);
      if (variable.type == Type::pred) return in_.fail("a predicate as a parameter");
      if (in_.peek().is('<')) return in_.fail("a range of parameters");
      end = round_up(end, variable.align);
      params->push_back({std::string(variable.name), static_cast<uint32_t>(end),
                         static_cast<uint32_t>(variable.size), variable.align});
      end += variable.size;
      if (end > kMaxParamBytes)
        return in_.fail("more than 32764 bytes of parameters", 0, Error::Kind::too_large);
    } while (in_.accept(','));
    in_.expect(')');
    if (total != nullptr) *total = static_cast<uint32_t>(end);
  }

  std::array<uint32_t, 3> triple() {
    std::array<uint32_t, 3> values{1, 1, 1};
    for (size_t i = 0; i < 3; ++i) {
      const int64_t value = integer("a dimension");
      if (value <= 0 || value > INT32_MAX) {
        in_.fail("a dimension out of bounds");
        break;
      }
      values[i] = static_cast<uint32_t>(value);
      if (i == 2 || !in_.accept(',')) break;
    }
    return values;
  }

  void function(Linkage linkage) {
    Function function;
    function.is_entry = in_.take().is(".entry");
    function.linkage = linkage;
    const unsigned line = in_.peek().line;
    while (in_.peek().is(".attribute")) {
      in_.take();
      Variable ignored;
      attribute(&ignored);
    }
    if (!function.is_entry && in_.accept('(')) param_list(&function.results, nullptr);
    function.name = in_.expect_word("a function's name");
    if (in_.accept('(')) param_list(&function.params, &function.param_bytes);
    while (!in_.failed() && !in_.peek().is('{') && !in_.peek().is(';')) {
      const std::string_view word = in_.expect_word("a body or ';'");
      if (word == ".maxntid")
        function.max_threads = triple();
      else if (word == ".reqntid")
        function.required_threads = triple();
      else if (word == ".reqnctapercluster")
        function.required_cluster = triple();
      else if (word == ".minnctapersm")
        function.min_blocks_per_multiprocessor =
            static_cast<uint32_t>(std::clamp<int64_t>(integer("a number of blocks"), 0, 1024));
      else if (word == ".maxnctapersm" || word == ".maxnreg" || word == ".maxclusterrank")
        integer("a number");
      else if (word == ".noreturn" || word == ".explicitcluster" || word == ".blocksareclusters" ||
               word == ".pragma") {
        if (word == ".pragma") {
          in_.take();
          in_.expect(';');
        }
      } else if (word == ".abi_preserve" || word == ".abi_preserve_control")
        integer("a number");
      else
        in_.fail("unknown directive " + std::string(word));
    }
    if (in_.failed()) return;
    const bool has_body = in_.peek().is('{');
    const size_t index = add_function(std::move(function), has_body, line);
    if (in_.failed()) return;
    if (!has_body) {
      in_.accept(';');
      return;
    }
    bodies_.emplace_back(index, Body{});
    body(&bodies_.back().second, &module_->functions[index]);
  }

  size_t add_function(Function function, bool has_body, unsigned line) {
    function.is_defined = has_body;
    const auto known = symbols_.find(function.name);
    if (known == symbols_.end()) {
      module_->functions.push_back(std::move(function));
      // Keys point into the text, as names move when the vector grows.
      symbols_[module_->functions.back().name] = {true, static_cast<uint32_t>(module_->functions.size() - 1)};
      return module_->functions.size() - 1;
    }
    if (!known->second.is_function) {
      in_.fail(function.name + " is a variable already", line);
      return 0;
    }
    Function& there = module_->functions[known->second.index];
    if (has_body && there.is_defined) in_.fail(function.name + " is defined twice", line);
    if (has_body) {
      if (function.linkage == Linkage::local && there.linkage != Linkage::external)
        function.linkage = there.linkage;
      there = std::move(function);
    }
    return known->second.index;
  }

  // --- bodies
  // ---------------------------------------------------------------------------------------------------

  void body(Body* body, Function* function) {
    in_.expect('{');
    size_t depth = 1;
    uint32_t registers = 0;
    while (!in_.failed() && depth > 0) {
      const Token token = in_.peek();
      if (body->statements.size() > (size_t{1} << 24))
        return in_.fail("a function of too many statements", 0, Error::Kind::too_large);
      if (token.is('{') || token.is('}')) {
        in_.take();
        Statement statement;
        statement.kind = token.is('{') ? Statement::Kind::open : Statement::Kind::close;
        statement.line = token.line;
        depth = token.is('{') ? depth + 1 : depth - 1;
        if (depth > kMaxDepth) return in_.fail("scopes nested too deep");
        if (depth > 0) body->statements.push_back(statement);
      } else if (token.is('@')) {
        instruction(body);
      } else if (token.is(';')) {
        in_.take();
      } else if (token.kind == Token::Kind::word) {
        if (token.text.front() == '.')
          declaration(body, &registers);
        else
          label_or_instruction(body);
      } else if (token.kind == Token::Kind::end) {
        return in_.fail("function " + function->name + " without its '}'");
      } else {
        return in_.fail("expected an instruction");
      }
    }
  }

  void declaration(Body* body, uint32_t* registers) {
    const Token word = in_.peek();
    if (word.is(".loc") || word.is(".file")) return in_.skip_line();
    if (word.is(".pragma")) return to_semicolon();
    if (word.is(".section")) {
      in_.take();
      in_.expect_word("a section's name");
      return in_.skip_block();
    }
    if (word.is(".global") || word.is(".const")) {
      in_.take();
      return globals(word.is(".global") ? Space::global : Space::constant, Linkage::local);
    }
    Declaration::Space space = Declaration::Space::reg;
    if (word.is(".local"))
      space = Declaration::Space::local;
    else if (word.is(".param"))
      space = Declaration::Space::param;
    else if (word.is(".shared"))
      space = Declaration::Space::shared;
    else if (!word.is(".reg"))
      return in_.fail("unknown directive " + std::string(word.text));
    in_.take();
    uint64_t vector = 1;
    const Variable head = variable_head(&vector);
    if (in_.failed()) return;
    do {
      Variable variable = head;
      if (space == Declaration::Space::reg && vector > 1) return in_.fail("vector registers are not known");
      variable_name(&variable, space == Declaration::Space::local    ? kMaxLocalBytes
                               : space == Declaration::Space::shared ? kMaxSharedBytes
                                                                     : kMaxParamBytes);
      Declaration made;
      made.space = space;
      made.type = variable.type;
      made.name = variable.name;
      made.size = variable.open ? 0 : variable.size;
      made.align = variable.align;
      made.before = static_cast<uint32_t>(body->statements.size());
      uint32_t count = 1;
      if (in_.accept('<')) {
        const int64_t n = integer("a number of registers");
        in_.expect('>');
        if (n < 0 || n > kMaxRegisters)
          return in_.fail("a number of registers out of bounds", 0, Error::Kind::too_large);
        made.repeat = count = static_cast<uint32_t>(n);
        if (n == 0) count = 0;
      }
      if (in_.failed()) return;
      if (space == Declaration::Space::reg) {
        *registers += count;
        if (*registers > kMaxRegisters) return in_.fail("too many registers", 0, Error::Kind::too_large);
      } else if (made.repeat != 0) {
        return in_.fail("a range of variables");
      }
      if (space == Declaration::Space::shared) {
        Global global;
        global.name = variable.name;
        global.space = Space::shared;
        global.size = made.size;
        global.align = variable.align;
        global.is_defined = !variable.open;
        // Two functions may each have their own of one name: such a name means nothing outside its function.
        made.global = static_cast<uint32_t>(module_->globals.size());
        module_->globals.push_back(std::move(global));
      }
      body->declarations.push_back(made);
      if (in_.accept('=')) return in_.fail("an initial value inside a function");
    } while (in_.accept(','));
    in_.expect(';');
  }

  void label_or_instruction(Body* body) {
    const Token word = in_.take();
    if (in_.accept(':')) {
      Statement statement;
      statement.kind = Statement::Kind::label;
      statement.line = word.line;
      statement.opcode = word.text;
      if (in_.peek().is(".branchtargets") || in_.peek().is(".calltargets")) {
        const bool branch = in_.take().is(".branchtargets");
        statement.kind = branch ? Statement::Kind::branch_targets : Statement::Kind::prototype;
        operands(body, &statement);
        in_.expect(';');
      } else if (in_.peek().is(".callprototype")) {
        statement.kind = Statement::Kind::prototype;
        to_semicolon();  // what it says stands in the call's operands too
      }
      body->statements.push_back(statement);
      return;
    }
    Statement statement;
    statement.line = word.line;
    statement.opcode = word.text;
    finish_instruction(body, statement);
  }

  void instruction(Body* body) {
    Statement statement;
    in_.expect('@');
    statement.guard_negated = in_.accept('!');
    statement.guard = in_.expect_word("a predicate");
    statement.line = in_.peek().line;
    statement.opcode = in_.expect_word("an instruction");
    finish_instruction(body, statement);
  }

  void finish_instruction(Body* body, Statement statement) {
    if (in_.failed()) return;
    operands(body, &statement);
    in_.expect(';');
    if (!in_.failed()) body->statements.push_back(statement);
  }

  void operands(Body* body, Statement* statement) {
    std::array<Operand, 16> list;
    size_t count = 0;
    if (!in_.peek().is(';')) {
      do {
        // `call.uni (r), f, (a), p` and `call f` differ in where commas stand; all are lists.
        if (in_.peek().is(';')) break;
        if (statement->kind == Statement::Kind::branch_targets ||
            statement->kind == Statement::Kind::prototype) {
          body->operands.push_back(operand(body, 0));
          if (statement->count++ == 0) statement->first = static_cast<uint32_t>(body->operands.size() - 1);
          continue;
        }
        if (count == list.size()) return in_.fail("too many operands");
        list[count++] = operand(body, 0);
      } while (in_.accept(',') && !in_.failed());
    }
    if (statement->kind != Statement::Kind::instruction) return;
    statement->first = static_cast<uint32_t>(body->operands.size());
    statement->count = static_cast<uint32_t>(count);
    body->operands.insert(body->operands.end(), list.begin(),
                          list.begin() + static_cast<std::ptrdiff_t>(count));
  }

  Operand operand(Body* body, int depth) {
    Operand operand;
    const Token token = in_.peek();
    if (token.is('{') || token.is('(')) {
      if (depth >= 2) {
        in_.fail("operands nested too deep");
        return operand;
      }
      in_.take();
      operand.kind = token.is('{') ? Operand::Kind::list : Operand::Kind::group;
      const char end = token.is('{') ? '}' : ')';
      std::vector<Operand> children;
      if (!in_.peek().is(end)) {
        do {
          children.push_back(this->operand(body, depth + 1));
        } while (in_.accept(',') && !in_.failed());
      }
      in_.expect(end);
      operand.first = static_cast<uint32_t>(body->operands.size());
      operand.count = static_cast<uint32_t>(children.size());
      body->operands.insert(body->operands.end(), children.begin(), children.end());
      return paired(body, operand, depth);
    }
    if (in_.accept('[')) {
      operand.kind = Operand::Kind::memory;
      if (in_.peek().kind == Token::Kind::word) {
        operand.name = in_.take().text;
        if (in_.peek().is('+') || in_.peek().is('-')) operand.value = offset();
      } else {
        operand.value = integer("an address");
      }
      if (in_.accept(',')) {  // tex: [texture, {coordinates}]
        const Operand rest = this->operand(body, depth + 1);
        operand.first = static_cast<uint32_t>(body->operands.size());
        operand.count = 1;
        body->operands.push_back(rest);
        // [texture, sampler, {coordinates}]: more than one child says so; which they are, nobody asks.
        while (in_.accept(',') && !in_.failed()) {
          (void)this->operand(body, depth + 1);
          ++operand.count;
        }
      }
      in_.expect(']');
      return operand;
    }
    if (in_.accept('!')) {
      operand.kind = Operand::Kind::name;
      operand.negated = true;
      operand.name = in_.expect_word("a predicate");
      return operand;
    }
    if (token.kind == Token::Kind::word) {
      in_.take();
      operand.kind = token.text == "_" ? Operand::Kind::sink : Operand::Kind::name;
      operand.name = token.text;
      if (in_.peek().is('+') || in_.peek().is('-')) operand.value = offset();
    } else {
      const bool minus = in_.accept('-');
      if (!minus) in_.accept('+');
      const bool invert = in_.accept('~');
      const Token number = in_.take();
      auto bits = static_cast<uint64_t>(number.value);
      switch (number.kind) {
        case Token::Kind::integer:
          operand.kind = Operand::Kind::integer;
          operand.value = static_cast<int64_t>(minus ? 0 - bits : invert ? ~bits : bits);
          break;
        case Token::Kind::single:
          operand.kind = Operand::Kind::single;
          operand.value = static_cast<int64_t>(minus ? bits ^ uint64_t{1} << 31 : bits);
          break;
        case Token::Kind::real:
          operand.kind = Operand::Kind::real;
          operand.value = static_cast<int64_t>(minus ? bits ^ uint64_t{1} << 63 : bits);
          break;
        default:
          in_.fail("expected an operand", number.line);
          return operand;
      }
    }
    return paired(body, operand, depth);
  }

  // a|b: with what may stand behind it.
  Operand paired(Body* body, const Operand& left, int depth) {
    if (!in_.peek().is('|') || depth >= 2) return left;
    in_.take();
    const Operand right = this->operand(body, 2);
    Operand pair;
    pair.kind = Operand::Kind::pair;
    pair.first = static_cast<uint32_t>(body->operands.size());
    pair.count = 2;
    body->operands.push_back(left);
    body->operands.push_back(right);
    return pair;
  }

  void decode() {
    for (const auto& [name, of, line] : aliases_) {
      const auto from = symbols_.find(name), to = symbols_.find(of);
      if (to == symbols_.end() || !to->second.is_function)
        return in_.fail("alias of what is no function: " + std::string(of), line);
      if (from == symbols_.end()) {
        symbols_[std::string(name)] = to->second;
      } else {
        from->second = to->second;
      }
    }
    // Later versions have words that this list lacks.
    const bool knows_words =
        module_->version_major < 9 || (module_->version_major == 9 && module_->version_minor == 0);
    std::unordered_set<std::string_view> known;
    for (const auto& [index, body] : bodies_) {
      for (const Statement& statement : body.statements) {
        if (!knows_words || statement.kind != Statement::Kind::instruction ||
            !known.insert(statement.opcode).second)
          continue;
        if (std::string text = unknown_word(statement.opcode); !text.empty())
          return in_.fail(std::move(text), statement.line);
      }
    }
    for (auto& [index, body] : bodies_) {
      Function& function = module_->functions[index];
      auto code = decode_body(*module_, symbols_, function, body);
      if (!code) return in_.fail(code.error().text, code.error().line, code.error().kind);
      function.code = std::move(*code);
      body = Body{};  // the text's statements are no longer needed
    }
  }

  struct Alias {
    std::string_view name, of;
    unsigned line;
  };

  Lexer in_;
  std::shared_ptr<Module> module_;
  Symbols symbols_;
  std::vector<PendingName> pending_;
  std::vector<Alias> aliases_;
  std::vector<std::pair<size_t, Body>> bodies_;
};

}  // namespace

tl::expected<std::shared_ptr<const Module>, Error> parse(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  if (text.size() > kMaxText)
    return tl::unexpected(Error{Error::Kind::too_large, "a PTX text of more than 256 MiB", 0});
  return Parser(text).run();
}

}  // namespace gpufence::sim::ptx
