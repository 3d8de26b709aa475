// Decoded code: one Op an instruction, its operands resolved to byte offsets in a frame of registers. A
// register of a warp is a row of 32 lanes; a predicate is a word of 32 bits. Literals are rows too, so that
// an Op never asks what kind of operand it has. All references out of a function (globals, functions, shared
// variables) are indices in tables, so that link() can renumber them in a copy.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/module.h"
#include "syntax.h"

namespace gpufence::sim::ptx {

struct Warp;
struct Op;
// Runs one Op for the active lanes and says which is next; nullptr: the warp stops here (Warp::state says
// why).
using Handler = const Op* (*)(Warp&, const Op*);

struct Op {
  Handler run = nullptr;
  uint32_t r[6] = {};      // rows: results first, then sources
  uint32_t guard = 0;      // predicate word; the default is the frame's word of ones
  uint32_t guard_xor = 0;  // ~0 for @!p
  int64_t imm = 0;
  int32_t jump = 0;       // in Ops from this one: a branch's target
  int32_t merge = 0;      // likewise: where lanes that part here meet again; 0: only at the end
  uint32_t source = 0;    // in Code::sources
  uint8_t small[4] = {};  // what else the handler wants
};
static_assert(sizeof(Op) == 64, "one cache line");

// Fixed words at the start of each frame.
constexpr uint32_t kTrue = 0, kFalse = 4, kCarry = 8, kPredicateSink = 12;
constexpr uint32_t kFrameHead = 64;
constexpr unsigned kLanes = 32;
// Of a block's shared memory, behind the program's, in kernels that ask where it is: the system's, zeroed.
constexpr uint32_t kReservedShared = 1024;

struct Constant {
  enum class Kind : uint8_t { literal, global, shared, local, function };
  Kind kind = Kind::literal;
  uint8_t bytes = 4;  // of a lane: 2, 4, 8
  uint32_t row = 0;
  uint32_t index = 0;  // in Module::globals or ::functions
  int64_t value = 0;   // or what is added to the address
};

struct ArgumentCopy {
  uint32_t from = 0, to = 0;  // offsets in parameter areas
  uint32_t bytes = 0;
};

struct CallSite {
  bool indirect = false;
  uint32_t function = 0;  // index in Module::functions, of a direct call
  std::vector<uint32_t>
      arguments;  // offsets in the caller's parameter area; where they go is the callee's to say
  std::vector<uint32_t> argument_bytes;
  std::vector<uint32_t> results;
  std::vector<uint32_t> result_bytes;
};

struct BranchTable {
  std::vector<int32_t> jumps;  // in Ops from the brx.idx
};

enum class Compare : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

// What a video instruction does, by the words of the manual: d = merge or secondary operation (what(a, b),
// c).
struct Video {
  enum class What : uint8_t { add, sub, average, difference, min, max, shl, shr, set };
  enum class Second : uint8_t { none, add, min, max, merge };
  What what{};
  Second second{};
  Compare compare{};
  bool is_simd = false;  // works on all parts of its words at once
  bool a_signed = false, b_signed = false, d_signed = false, saturates = false, wraps = false;
  uint8_t a_bits = 32, b_bits = 32, d_bits = 32;  // of a part
  uint8_t d_part = 0;                             // into which the result is merged
  uint8_t mask = 0;                               // of SIMD: parts that are computed; the others are c's
  uint8_t a_part[4] = {}, b_part[4] = {};         // which are taken; of SIMD counted through a and b
};

// What texture and surface instructions work on, by the words of the manual.
enum class Geometry : uint8_t { one, two, three, layers_of_one, layers_of_two, cube, layers_of_cubes };

// tex and tld4.
struct Lookup {
  enum class Level : uint8_t { base, given, by_gradients };
  Geometry geometry{};
  Level level{};
  bool integer_coordinates = false, integer_level = false;
  bool has_offset = false;
  bool gathers = false;   // tld4: one component of four texels
  uint8_t component = 0;  // which
  Type result = Type::none;
};

// suld, sust and sured.
struct SurfaceAccess {
  enum class What : uint8_t { load, store, store_formatted, reduce };
  enum class Beyond : uint8_t { trap, clamp, zero };  // where a coordinate is out of bounds
  What what{};
  Beyond beyond{};
  Geometry geometry{};
  bool counts_texels = false;  // x, instead of bytes
  Type type = Type::none;      // of one of `parts`
  uint8_t parts = 1;
  uint8_t register_bytes = 4;
  uint8_t reduction = 0;  // AtomicKind
};

struct Code {
  std::vector<Op> ops;
  std::vector<Constant> constants;
  std::vector<CallSite> calls;
  std::vector<BranchTable> tables;
  std::vector<Video> videos;
  std::vector<Lookup> lookups;
  std::vector<SurfaceAccess> surface_accesses;
  // Where an Op came from, for what is told of faults: Op::source counts in `sources`.
  struct Source {
    uint32_t line = 0, opcode = 0;  // opcode: in `opcodes`
  };
  std::vector<Source> sources;
  std::vector<std::string> opcodes;

  uint32_t frame_bytes = 0;  // all of it, parameter area included
  uint32_t sink_row = 0;
  uint32_t param_area = 0;              // offset in the frame: words of 4 bytes, each a row of 32 lanes
  uint32_t param_area_bytes = 0;        // a lane's
  std::vector<uint32_t> param_offsets;  // of a .func: where its parameters and results lie in the area
  std::vector<uint32_t> result_offsets;
  std::vector<uint32_t> param_sizes, result_sizes;
  uint32_t local_bytes = 0;  // a thread's
  uint32_t registers = 0;    // 32-bit registers live at once, an estimate

  std::vector<uint32_t> shared_used;     // indices of globals, shared space, in order of first use
  std::vector<uint32_t> functions_used;  // called directly or named
  bool calls_indirectly = false;
  bool asks_for_reserved = false;  // of shared memory
};

struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
};
struct Symbol {
  bool is_function = false;
  uint32_t index = 0;
};
using Symbols = std::unordered_map<std::string, Symbol, NameHash, std::equal_to<>>;

// Makes code of a body. What the interpreter cannot do goes into function.unsupported; the error is for
// damage.
tl::expected<std::shared_ptr<const Code>, Error> decode_body(Module& module, const Symbols& symbols,
                                                             Function& function, const Body& body);

// Whether each word of an opcode is one of the PTX ISA's: empty, or what ptxas says of the first that is not.
std::string unknown_word(std::string_view opcode);

// Totals of each entry over what it can reach; the places of shared variables; which functions are
// unsupported because of what they call. To be called once a module is complete.
std::optional<Error> finish(Module& module);

// vprintf, malloc, free, __assertfail …: what calls of undefined functions may name.
Handler builtin_named(std::string_view name);

}  // namespace gpufence::sim::ptx
