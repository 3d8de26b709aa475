// PTX text as statements, before anything is resolved: the seam between reading (lexer.cpp, parse.cpp) and
// decoding (decode.cpp). All names point into the text that is being read, which outlives these.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/module.h"

namespace gpufence::sim::ptx {

enum class Type : uint8_t {
  none,
  pred,
  b8,
  u8,
  s8,
  b16,
  u16,
  s16,
  f16,
  bf16,
  b32,
  u32,
  s32,
  f32,
  f16x2,
  bf16x2,
  b64,
  u64,
  s64,
  f64,
  b128
};

// Of the text after its dot; none where it names no type.
Type type_named(std::string_view name);
constexpr unsigned bytes_of(Type type) {
  switch (type) {
    case Type::b8:
    case Type::u8:
    case Type::s8:
      return 1;
    case Type::b16:
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16:
      return 2;
    case Type::b32:
    case Type::u32:
    case Type::s32:
    case Type::f32:
    case Type::f16x2:
    case Type::bf16x2:
      return 4;
    case Type::b64:
    case Type::u64:
    case Type::s64:
    case Type::f64:
      return 8;
    case Type::b128:
      return 16;
    default:
      return 0;
  }
}
constexpr bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}
constexpr bool is_float(Type type) {
  return type == Type::f32 || type == Type::f64 || type == Type::f16 || type == Type::bf16 ||
         type == Type::f16x2 || type == Type::bf16x2;
}

struct Operand {
  enum class Kind : uint8_t {
    name,     // register, variable, label, function or special register; negated: "!p"
    integer,  // value
    single,   // value holds 32 bits: 0f…
    real,     // value holds the 64 bits of a double: 0d… and decimal literals
    memory,   // [name + value] or [value]; an address in brackets
    list,     // {a, b, …}: children
    group,    // (a, b, …) of call: children
    pair,     // a|b: two children
    sink,     // _
  };
  Kind kind = Kind::sink;
  bool negated = false;
  std::string_view name;
  int64_t value = 0;
  uint32_t first = 0, count = 0;  // children, in Body::operands
};

struct Statement {
  enum class Kind : uint8_t { instruction, label, open, close, branch_targets, prototype };
  Kind kind = Kind::instruction;
  bool guard_negated = false;
  unsigned line = 0;
  std::string_view opcode;  // with all its dots; or the label's name
  std::string_view guard;   // predicate register, or empty
  uint32_t first = 0, count = 0;
  uint32_t declarations = 0;  // of `open`: unused; kept so that scopes know where they are
};

// .reg, .local, .param and .shared inside a body, in order of appearance, interleaved with the statements.
struct Declaration {
  enum class Space : uint8_t { reg, local, param, shared };
  Space space = Space::reg;
  Type type = Type::none;
  std::string_view name;
  uint32_t repeat = 0;  // %r<12>: 12; 0: the name itself
  uint64_t size = 0;    // bytes, of variables
  uint32_t align = 1;
  uint32_t global = 0;  // index in Module::globals of a shared variable
  uint32_t before = 0;  // index of the statement that it stands before
};

struct Body {
  std::vector<Statement> statements;
  std::vector<Operand> operands;  // those of a statement are contiguous; children come before
  std::vector<Declaration> declarations;
};

}  // namespace gpufence::sim::ptx
