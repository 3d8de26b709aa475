// Makes code of one function's statements. The class is split over files by chapter: names, operands and the
// layout of the frame in decode.cpp, the flow graph in flow.cpp, instructions in decode_alu.cpp,
// decode_memory.cpp, decode_texture.cpp and decode_control.cpp.
#pragma once
#include <array>
#include <initializer_list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "control.h"
#include "decode.h"
#include "isa.h"

namespace gpufence::sim::ptx {

// One instruction's opcode, cut at its dots. What nobody asked for by the end is a modifier that we do not
// know.
class Opcode {
 public:
  explicit Opcode(std::string_view text);
  [[nodiscard]] std::string_view base() const { return base_; }
  bool take(std::string_view modifier);  // whether it is there
  [[nodiscard]] bool has(std::string_view modifier) const;
  std::string_view take_any(
      std::initializer_list<std::string_view> modifiers);  // the first of them, or empty
  Type take_type();                                        // the next modifier that is a type
  Round take_round();                                      // nearest where none is given
  [[nodiscard]] bool rounded() const { return rounded_; }  // take_round() found one
  [[nodiscard]] std::string_view rest() const;             // a modifier not taken, or empty

 private:
  std::string_view base_;
  std::array<std::string_view, 16> modifiers_{};
  size_t count_ = 0;
  uint32_t taken_ = 0;
  bool too_many_ = false;
  bool rounded_ = false;
};

// A place in the frame before it has an offset: index in Decoder::places_. 0: none.
using Place = uint32_t;

struct Draft {
  Op op;
  Place r[6] = {};
  uint8_t defs = 0, uses = 0;  // which r are places; those in neither keep Op::r as it is
  Place guard = 0;
  bool negated = false;
  enum class Flow : uint8_t { next, branch, branch_if, table, end, end_if, join } flow = Flow::next;
  std::string_view label;
  uint32_t target = 0;  // draft index
};

class Decoder {
 public:
  Decoder(Module& module, const Symbols& symbols, Function& function, const Body& body)
      : module_(module),
        symbols_(symbols),
        function_(function),
        body_(body),
        code_(std::make_shared<Code>()) {}

  tl::expected<std::shared_ptr<const Code>, Error> run();

 private:
  using Space = Declaration::Space;
  struct Variable {
    Space space = Space::reg;
    Type type = Type::none;
    uint32_t offset = 0;  // of param and local
    uint32_t size = 0;
    uint32_t global = 0;
    bool kernel = false;  // a parameter of the entry
    Place place = 0;      // of a register, once used
  };
  struct Range {
    std::string_view prefix;
    Type type;
    uint32_t count;
  };
  struct Scope {
    std::unordered_map<std::string_view, Variable> names;
    std::vector<Range> ranges;
    uint32_t param_top = 0;
  };
  struct PlaceInfo {
    uint8_t bytes = 0;  // 0: predicate word; else of a lane: 2, 4, 8
    enum class Kind : uint8_t { fixed, reg, constant } kind = Kind::reg;
    uint32_t offset = 0;
    uint32_t constant = 0;
  };
  struct Ins {
    const Statement& statement;
    Opcode op;
    const Operand* operands;
    uint32_t count;
    const Operand& operator[](size_t i) const { return operands[i]; }
  };

  // What went wrong; the first of each counts. Both end the function.
  bool unsupported(std::string_view what);
  bool invalid(std::string text);
  [[nodiscard]] bool ok() const { return !stop_; }

  // names
  void declare(const Declaration& declaration);
  Variable* find(std::string_view name);
  Place place(uint8_t bytes);
  Place constant(Constant::Kind kind, uint8_t bytes, uint32_t index, int64_t value);
  Place literal(uint8_t bytes, uint64_t value) {
    return constant(Constant::Kind::literal, bytes, 0, static_cast<int64_t>(value));
  }
  Place sink(uint8_t bytes);
  static uint8_t row_bytes(Type type) {
    return static_cast<uint8_t>(type == Type::pred ? 0 : std::max(2U, bytes_of(type)));
  }

  // operands
  bool arity(const Ins& ins, size_t least, size_t most = 0);
  Place source(const Operand& operand, Type type);  // a row of the type's width
  Place any_source(const Operand& operand, Type type,
                   uint8_t* bytes);  // registers may be wider than the type
  Place symbol_address(std::string_view name, int64_t add, uint8_t bytes);
  Place dest(const Operand& operand, Type type);
  Place any_dest(const Operand& operand, Type type, uint8_t* bytes);
  Place predicate_source(const Operand& operand, bool* negated);
  Place predicate_dest(const Operand& operand);
  bool address(const Operand& operand, Place* at, int64_t* offset, bool* wide);

  // drafts
  Draft& emit(Handler handler);
  void def(Draft& draft, unsigned slot, Place place);
  void use(Draft& draft, unsigned slot, Place place);
  void guard(Draft& draft, const Ins& ins);
  Draft& alu(const Ins& ins, Handler handler);  // emit, with guard; unsupported without a handler
  void join();
  void note_source(const Statement& statement);
  void note_special(Special special) {
    if (special == Special::reserved_smem_offset || special == Special::reserved_smem_cap)
      code_->asks_for_reserved = true;
  }

  // instructions: false, or a failure noted, ends the function
  void instruction(const Statement& statement);
  // Each says whether the mnemonic is one of its chapter's.
  bool in_alu(Ins& ins);
  bool in_memory(Ins& ins);
  bool in_control(Ins& ins);
  bool in_video(Ins& ins);
  bool in_texture(Ins& ins);

  // d and its sources, of these types, in the order of the text. Nothing is emitted when something is wrong.
  Draft* plain(Ins& ins, Handler handler, Type d, std::initializer_list<Type> sources);
  void add_sub(Ins& ins, bool subtract);
  void mul(Ins& ins);
  void mad(Ins& ins, bool is_fma);
  void div(Ins& ins);
  void min_max(Ins& ins, Kind kind);
  void function_of_one(Ins& ins, Kind kind);
  void extended(Ins& ins, Kind kind, unsigned sources);
  void logic(Ins& ins, Kind kind);
  void setp(Ins& ins);
  void set(Ins& ins);
  bool comparison(Ins& ins, Key* key, Combine* combine);
  void cvt(Ins& ins);
  void mov(Ins& ins);
  void pack(Ins& ins, Type type);
  void unpack(Ins& ins, Type type);
  void cvta(Ins& ins);
  void isspacep(Ins& ins);
  bool selected(const Operand& operand, Operand* word, std::string_view* selector);
  void video(Ins& ins, Video video);
  void simd_video(Ins& ins, Video video, unsigned parts);
  void load_store(Ins& ins, bool store);
  void atom(Ins& ins, bool wants_result);
  void cp_async(Ins& ins);
  bool order(Ins& ins, uint8_t* fences);
  bool space(Ins& ins, Where* where);
  void call(Ins& ins);
  void barrier(Ins& ins);
  void bra(Ins& ins);
  void brx(Ins& ins);
  void shfl(Ins& ins);
  void vote(Ins& ins);
  void match(Ins& ins);
  void redux(Ins& ins);
  void mbarrier(Ins& ins);
  void mbarrier_op(Ins& ins, Mbarrier what, const Operand& at, Place count, const Operand* state,
                   Place token);
  bool in_stack(Ins& ins);
  bool geometry(Ins& ins, Geometry* geometry);
  Place object(const Operand& operand, bool with_coordinates);
  bool vector(const Operand& operand, unsigned least, unsigned most, std::vector<const Operand*>* parts);
  void stage(const Ins& ins, const std::vector<std::pair<Place, unsigned>>& rows);
  void lookup(Ins& ins, bool gathers);
  void surface(Ins& ins, SurfaceAccess access);
  void query(Ins& ins, bool of_texture);
  void move(const Ins& ins, Place to, Place from, Type type);
  bool in_packed(Ins& ins);
  Place cluster_predicate();
  void plain_control(Ins& ins, Handler handler, Draft::Flow flow = Draft::Flow::next);
  // A guard becomes a branch around what follows; end_guarded() puts the label.
  bool begin_guarded(const Ins& ins, uint32_t* branch);
  void end_guarded(bool guarded, uint32_t branch);
  Handler float_or_half(const Key& key);

  // flow.cpp
  bool resolve_labels();
  void find_merges();
  void drop_joins();
  void allocate();
  void finish();

  Module& module_;
  const Symbols& symbols_;
  Function& function_;
  const Body& body_;
  std::shared_ptr<Code> code_;
  std::optional<Error> error_;
  bool stop_ = false;
  const Statement* now_ = nullptr;

  std::vector<Scope> scopes_;
  std::vector<PlaceInfo> places_;
  std::map<std::tuple<uint8_t, uint8_t, uint32_t, int64_t>, Place> constants_;
  std::unordered_map<std::string_view, uint32_t> labels_;  // draft index
  std::unordered_map<std::string_view, const Statement*> branch_targets_;
  std::vector<Draft> drafts_;
  std::unordered_map<std::string_view, uint32_t> opcodes_;  // in Code::opcodes
  std::vector<std::vector<std::string_view>> table_labels_;
  std::vector<std::vector<uint32_t>> table_targets_;
  std::vector<uint32_t> merges_;  // by draft; 0: none
  uint32_t param_top_ = 0, param_most_ = 0, local_top_ = 0;
  Place true_ = 0, false_ = 0, predicate_sink_ = 0;
  Place stack_used_ = 0, stack_begin_ = 0;  // of alloca
};

}  // namespace gpufence::sim::ptx
