// A PTX module as the simulated driver sees it: what it defines and needs, and each function decoded for
// run.h. Knows nothing of drivers, contexts or devices: device addresses come in at the launch, so that one
// module serves every simulated GPU. Immutable once made, hence shared between threads without locks.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace gpufence::sim::ptx {

struct Error {
  // invalid: the text is damaged or contradicts itself (CUDA_ERROR_INVALID_PTX); unsupported: GF601;
  // undefined: a symbol that no module of the link defines; too_large: beyond the bounds below.
  enum class Kind { invalid, unsupported, undefined, too_large };
  Kind kind = Kind::invalid;
  std::string text;   // "unsupported instruction wmma.load.a.sync…", without place
  unsigned line = 0;  // 1-based, of the text given to parse(); 0: of no single line

  [[nodiscard]] std::string what() const;  // "line 12: …"
};

enum class Linkage { local, visible, weak, external, common };
enum class Space { global, constant, shared };

// One .param of a function: kernel parameters are laid out by natural alignment, in order.
struct Param {
  std::string name;
  uint32_t offset = 0;  // bytes from the start of the parameter block
  uint32_t size = 0;    // bytes
  uint32_t align = 1;
};

struct Code;  // the decoded instructions: decode.h

struct Function {
  std::string name;
  bool is_entry = false;
  bool is_defined = false;  // has a body here, or is one of run.h's builtins (builtins.cpp)
  Linkage linkage = Linkage::local;
  std::vector<Param> params;
  std::vector<Param> results;  // of .func only
  uint32_t param_bytes = 0;    // size of the parameter block

  // Of an entry, with all functions that it can reach; recursion and indirect calls counted once.
  uint32_t static_shared_bytes = 0;
  uint32_t const_bytes = 0;
  uint32_t local_bytes = 0;                    // a thread's, per frame added up along the deepest call chain
  uint32_t registers = 0;                      // 32-bit registers a thread; an estimate, as ptxas is not here
  std::array<uint32_t, 3> max_threads{};       // .maxntid; 0: not given
  std::array<uint32_t, 3> required_threads{};  // .reqntid
  std::array<uint32_t, 3> required_cluster{};  // .reqnctapercluster
  uint32_t min_blocks_per_multiprocessor = 0;  // .minnctapersm
  bool prints = false;                         // may call printf
  bool uses_heap = false;                      // may call malloc or free
  bool reserved_shared = false;                // has 1 KiB of shared memory that is the system's

  // Not empty: this function, or one that it calls, holds what the interpreter cannot do. A launch then
  // faults with Fault::Kind::unsupported and this text, before anything ran.
  std::string unsupported;

  // The interpreter's own.
  std::string unsupported_here;  // what the body itself holds, without its calls
  std::shared_ptr<const Code> code;
  std::vector<std::pair<uint32_t, uint32_t>> shared_places;  // of an entry: index in Module::globals, offset
  uint32_t dynamic_shared_place = 0;                         // where dynamic shared memory begins
};

// A word of an initialiser that holds an address known only on a device.
struct Relocation {
  uint64_t offset = 0;  // of the word, in the initialiser
  uint32_t bytes = 8;   // how many bytes of the value are stored there, from bit `shift` on
  uint32_t shift = 0;   // of PTX's mask() operator: 8 × byte
  bool is_function = false;
  uint32_t target = 0;  // index in Module::functions or Module::globals
  int64_t addend = 0;
};

struct Global {
  std::string name;
  Space space = Space::global;
  Linkage linkage = Linkage::local;
  bool is_defined =
      true;  // false: .extern, not found in the link; also `.extern .shared x[]`, dynamic shared memory
  bool is_texture = false;  // .texref, .surfref, .samplerref: named, without memory
  bool is_managed = false;  // .attribute(.managed)
  uint64_t size = 0;        // bytes
  uint32_t align = 1;
  std::vector<uint8_t> initial;  // the first bytes; the rest, up to size, is zero
  std::vector<Relocation> relocations;
};

struct Module {
  int version_major = 0, version_minor = 0;  // .version
  std::string target;                        // "sm_75"
  uint32_t target_sm = 0;                    // 75
  uint32_t address_bits = 64;

  std::vector<Function> functions;  // a function's address on a device is function_address(its index)
  std::vector<Global> globals;      // in order of declaration; shared ones take no device memory
  uint64_t const_bytes = 0;         // sizes added up, aligned
  uint64_t global_bytes = 0;

  [[nodiscard]] const Function* function(std::string_view name) const;
  [[nodiscard]] const Global* global(std::string_view name) const;

  // The bytes with which a device memory is filled for globals[index], whole size, when the module's globals
  // lie at `addresses` (by index; those of shared and texture symbols are ignored).
  [[nodiscard]] std::vector<uint8_t> image(size_t index, const std::vector<uint64_t>& addresses) const;
};

// What a function pointer holds: one value a function of a module, the same on every device.
[[nodiscard]] uint64_t function_address(size_t index);

// Bounds of what parse() takes; a program beyond them gets Error::Kind::too_large.
constexpr size_t kMaxText = size_t{256} << 20;
constexpr uint64_t kMaxGlobalBytes = uint64_t{64} << 30;

// Reads one PTX text (a trailing NUL is allowed). An instruction that the interpreter cannot do is no error:
// its function is marked. Damage is an error. Takes bounded time and memory on any input.
[[nodiscard]] tl::expected<std::shared_ptr<const Module>, Error> parse(std::string_view text);

// Joins modules as nvlink does: .extern to .visible, .weak and .common, local names stay apart. One
// definition too many is an error; a symbol that is nowhere defined is an error only where an entry can reach
// it or it is data. A module alone may be given too.
[[nodiscard]] tl::expected<std::shared_ptr<const Module>, Error> link(
    const std::vector<std::shared_ptr<const Module>>& modules);

}  // namespace gpufence::sim::ptx
