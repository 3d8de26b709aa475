// See unwind.h. The format: the DWARF standard, chapter 6.4, and the Linux Standard Base for .eh_frame.
#include "observe/unwind.h"

#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "observe/memory.h"
#include "observe/objects.h"

namespace gpufence::observe {
namespace {

constexpr unsigned kRegisters = 17;
constexpr unsigned kStackPointer = 7;
constexpr unsigned kPlace = 16;
constexpr std::uintptr_t kLargestFrame = 64 << 20;  // bytes; more is a register that was overwritten
constexpr unsigned kMostSteps = 4096;               // of the rules of one function
constexpr unsigned kMostOperations = 256;           // of one expression

// Reads forward; after the first byte that is not there everything reads as zero.
class Cursor {
 public:
  Cursor(Memory& memory, std::uintptr_t at, std::uintptr_t end) noexcept
      : memory_(&memory), at_(at), end_(end) {}

  [[nodiscard]] std::uintptr_t at() const noexcept { return at_; }
  [[nodiscard]] std::uintptr_t end() const noexcept { return end_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bool more() const noexcept { return !failed_ && at_ < end_; }
  void skip(std::uint64_t bytes) noexcept {
    if (bytes > end_ - at_) failed_ = true;
    at_ = failed_ ? end_ : at_ + bytes;
  }

  template <class T>
  T fixed() noexcept {
    T value{};
    if (failed_ || sizeof value > end_ - at_ || !memory_->read(at_, &value, sizeof value)) {
      failed_ = true;
      return T{};
    }
    at_ += sizeof value;
    return value;
  }
  std::uint8_t byte() noexcept { return fixed<std::uint8_t>(); }

  std::uint64_t uleb() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const std::uint8_t part = byte();
      if (shift < 64) value |= std::uint64_t{part & 0x7fu} << shift;
      if ((part & 0x80) == 0) return value;
    }
    failed_ = true;
    return 0;
  }
  std::int64_t sleb() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70;) {
      const std::uint8_t part = byte();
      if (shift < 64) value |= std::uint64_t{part & 0x7fu} << shift;
      shift += 7;
      if ((part & 0x80) != 0) continue;
      if ((part & 0x40) != 0 && shift < 64) value |= ~std::uint64_t{0} << shift;
      return static_cast<std::int64_t>(value);
    }
    failed_ = true;
    return 0;
  }

  // A pointer as `encoding` says (DW_EH_PE_*); `data` is what data-relative ones count from.
  std::uintptr_t pointer(std::uint8_t encoding, std::uintptr_t data) noexcept {
    if (encoding == 0xff) return 0;
    const std::uintptr_t here = at_;
    std::uintptr_t value = 0;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = fixed<std::uint64_t>();
        break;
      case 0x01:
        value = uleb();
        break;
      case 0x02:
        value = fixed<std::uint16_t>();
        break;
      case 0x03:
        value = fixed<std::uint32_t>();
        break;
      case 0x09:
        value = static_cast<std::uintptr_t>(sleb());
        break;
      case 0x0a:
        value = static_cast<std::uintptr_t>(std::intptr_t{fixed<std::int16_t>()});
        break;
      case 0x0b:
        value = static_cast<std::uintptr_t>(std::intptr_t{fixed<std::int32_t>()});
        break;
      default:
        failed_ = true;
        return 0;
    }
    switch (encoding & 0x70) {
      case 0x00:
        break;
      case 0x10:
        value += here;
        break;
      case 0x30:
        value += data;
        break;
      default:
        failed_ = true;
        return 0;
    }
    if ((encoding & 0x80) != 0) {
      const std::optional<std::uintptr_t> target = memory_->get<std::uintptr_t>(value);
      failed_ = failed_ || !target;
      value = target.value_or(0);
    }
    return value;
  }

 private:
  Memory* memory_;
  std::uintptr_t at_, end_;
  bool failed_ = false;
};

// How a register of the caller is found.
struct Rule {
  enum class Kind : std::uint8_t {
    same,
    undefined,
    at_offset,
    is_offset,
    in_register,
    at_expression,
    is_expression
  };
  Kind kind = Kind::same;
  std::int64_t value = 0;         // offset from the frame's address, or a register
  std::uintptr_t expression = 0;  // where it stands, its length first
};

struct Row {
  std::array<Rule, kRegisters> rule{};
  // The frame's address (CFA): a register and an offset, or an expression.
  unsigned base = 0;
  std::int64_t offset = 0;
  std::uintptr_t expression = 0;
};

struct Function {
  std::uint64_t code_step = 1;
  std::int64_t data_step = 1;
  unsigned return_register = kPlace;
  bool is_signal_frame = false;
  bool has_lengths = false;
  std::uint8_t encoding = 0;
  std::uintptr_t first = 0;                               // of its code
  std::uintptr_t common = 0, common_end = 0;              // instructions that all functions of its kind share
  std::uintptr_t instructions = 0, instructions_end = 0;  // its own
};

class Walker {
 public:
  explicit Walker(const Registers& from) noexcept : registers_(from.value) {}

  [[nodiscard]] std::uintptr_t place() const noexcept { return registers_[kPlace]; }
  [[nodiscard]] bool after_call() const noexcept { return after_call_; }
  // The lowest address of the frame.
  [[nodiscard]] std::uintptr_t stack() const noexcept { return registers_[kStackPointer]; }

  // To the caller; false at the end, or where nothing says how.
  bool step() noexcept {
    // After a call that does not return nothing of the function may be left: looked up by the call.
    const std::uintptr_t at = place() - (after_call_ ? 1 : 0);
    Function function;
    if (!find(at, function)) return false;
    row_ = Row{};
    if (!run({memory_, function.common, function.common_end}, function, at, nullptr)) return false;
    initial_ = row_;
    if (!run({memory_, function.instructions, function.instructions_end}, function, at, &initial_))
      return false;
    return apply(function);
  }

 private:
  bool find(std::uintptr_t at, Function& function) noexcept {
    std::optional<Object> object;
    try {
      object = object_at(at);
    } catch (...) {
      return false;
    }
    if (!object || object->unwinding == 0) return false;
    // The table: pairs of where a function begins and where its rules stand, in order.
    const std::uintptr_t header = object->unwinding;
    Cursor head(memory_, header, ~std::uintptr_t{0});
    const std::uint8_t version = head.byte(), frame = head.byte(), counting = head.byte(),
                       table = head.byte();
    (void)head.pointer(frame, header);
    const std::uintptr_t count = head.pointer(counting, header);
    constexpr std::uint8_t kDataRelative4 = 0x3b;
    if (head.failed() || version != 1 || table != kDataRelative4 || count == 0) return false;
    const auto entry = [&](std::uintptr_t index) {
      return memory_.get<std::array<std::int32_t, 2>>(head.at() + index * 8);
    };
    std::uintptr_t low = 0, high = count;
    while (high - low > 1) {
      const std::uintptr_t middle = low + (high - low) / 2;
      const auto one = entry(middle);
      if (!one) return false;
      (header + static_cast<std::uintptr_t>(std::intptr_t{(*one)[0]}) <= at ? low : high) = middle;
    }
    const auto one = entry(low);
    return one && read(header + static_cast<std::uintptr_t>(std::intptr_t{(*one)[1]}), at, function);
  }

  // The description of a function that holds `at`, and the one of its kind.
  bool read(std::uintptr_t description, std::uintptr_t at, Function& function) noexcept {
    Cursor sized(memory_, description, ~std::uintptr_t{0});
    const auto length = sized.fixed<std::uint32_t>();
    constexpr std::uint32_t kLong = 0xffffffff;  // 64-bit lengths: of objects beyond 4 GiB
    if (sized.failed() || length == 0 || length == kLong) return false;
    Cursor own(memory_, sized.at(), sized.at() + length);
    const std::uintptr_t here = own.at();
    const auto back = own.fixed<std::uint32_t>();
    if (own.failed() || back == 0 || !read_kind(here - back, function)) return false;
    function.first = own.pointer(function.encoding, 0);
    const std::uintptr_t size = own.pointer(function.encoding & 0x0f, 0);
    if (function.has_lengths) own.skip(own.uleb());
    if (own.failed() || at < function.first || at - function.first >= size) return false;
    function.instructions = own.at();
    function.instructions_end = own.end();
    return true;
  }

  bool read_kind(std::uintptr_t description, Function& function) noexcept {
    Cursor sized(memory_, description, ~std::uintptr_t{0});
    const auto length = sized.fixed<std::uint32_t>();
    if (sized.failed() || length == 0 || length == 0xffffffff) return false;
    Cursor kind(memory_, sized.at(), sized.at() + length);
    if (kind.fixed<std::uint32_t>() != 0) return false;
    const std::uint8_t version = kind.byte();
    if (version != 1 && version != 3) return false;
    std::array<char, 8> letters{};
    for (std::size_t i = 0;; ++i) {
      const auto letter = static_cast<char>(kind.byte());
      if (letter == '\0') break;
      if (i + 1 == letters.size()) return false;
      letters[i] = letter;
    }
    function.code_step = kind.uleb();
    function.data_step = kind.sleb();
    function.return_register = static_cast<unsigned>(version == 1 ? kind.byte() : kind.uleb());
    function.has_lengths = letters[0] == 'z';
    std::uintptr_t after = kind.at();
    if (function.has_lengths) {
      const std::uint64_t extra = kind.uleb();
      after = kind.at() + extra;
      for (const char* letter = letters.data() + 1; *letter != '\0'; ++letter) {
        switch (*letter) {
          case 'R':
            function.encoding = kind.byte();
            break;
          case 'P': {
            const std::uint8_t encoding = kind.byte();
            (void)kind.pointer(encoding & 0x7f, 0);
            break;
          }
          case 'L':
            (void)kind.byte();
            break;
          case 'S':
            function.is_signal_frame = true;
            break;
          case 'B':  // of other processors
            break;
          default:
            return false;
        }
      }
    } else if (letters[0] != '\0') {
      return false;
    }
    if (kind.failed() || after < kind.at() || after > kind.end() || function.return_register >= kRegisters)
      return false;
    function.common = after;
    function.common_end = kind.end();
    return true;
  }

  // Instructions up to the place: what comes behind it in the function is not yet so.
  bool run(Cursor code, const Function& function, std::uintptr_t at, const Row* initial) noexcept {
    std::uintptr_t place = function.first;
    std::size_t kept = 0;
    const auto advance = [&](std::uint64_t steps) {
      place += steps * function.code_step;
      return place <= at;
    };
    // Of a register that we do not keep (vectors) nothing is noted.
    Rule ignored;
    const auto rule_of = [&](std::uint64_t number) -> Rule& {
      ignored = {};
      return number < kRegisters ? row_.rule[number] : ignored;
    };
    const auto expression = [&] {
      const std::uintptr_t where = code.at();
      code.skip(code.uleb());
      return where;
    };
    const auto scaled = [&](std::int64_t value) {
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) *
                                       static_cast<std::uint64_t>(function.data_step));
    };
    using Kind = Rule::Kind;
    for (unsigned steps = 0; code.more(); ++steps) {
      if (steps == kMostSteps) return false;
      const std::uint8_t operation = code.byte();
      const std::uint8_t low = operation & 0x3f;
      switch (operation & 0xc0) {
        case 0x40:
          if (!advance(low)) return true;
          continue;
        case 0x80:
          rule_of(low) = {Kind::at_offset, scaled(static_cast<std::int64_t>(code.uleb())), 0};
          continue;
        case 0xc0:
          if (initial == nullptr) return false;
          if (low < kRegisters) row_.rule[low] = initial->rule[low];
          continue;
        default:
          break;
      }
      switch (operation) {
        case 0x00:  // nop
          break;
        case 0x01:  // set_loc
          place = code.pointer(function.encoding, 0);
          if (place > at) return !code.failed();
          break;
        case 0x02:  // advance_loc1, 2, 4
          if (!advance(code.byte())) return !code.failed();
          break;
        case 0x03:
          if (!advance(code.fixed<std::uint16_t>())) return !code.failed();
          break;
        case 0x04:
          if (!advance(code.fixed<std::uint32_t>())) return !code.failed();
          break;
        case 0x05: {  // offset_extended
          const std::uint64_t number = code.uleb();
          rule_of(number) = {Kind::at_offset, scaled(static_cast<std::int64_t>(code.uleb())), 0};
          break;
        }
        case 0x06: {  // restore_extended
          const std::uint64_t number = code.uleb();
          if (initial == nullptr) return false;
          if (number < kRegisters) row_.rule[number] = initial->rule[number];
          break;
        }
        case 0x07:  // undefined
          rule_of(code.uleb()) = {Kind::undefined, 0, 0};
          break;
        case 0x08:  // same_value
          rule_of(code.uleb()) = {};
          break;
        case 0x09: {  // register
          const std::uint64_t number = code.uleb();
          const std::uint64_t other = code.uleb();
          if (other >= kRegisters) return false;
          rule_of(number) = {Kind::in_register, static_cast<std::int64_t>(other), 0};
          break;
        }
        case 0x0a:  // remember_state
          if (kept == kept_.size()) return false;
          kept_[kept++] = row_;
          break;
        case 0x0b:  // restore_state
          if (kept == 0) return false;
          row_ = kept_[--kept];
          break;
        case 0x0c:  // def_cfa
          row_.base = static_cast<unsigned>(code.uleb());
          row_.offset = static_cast<std::int64_t>(code.uleb());
          row_.expression = 0;
          break;
        case 0x0d:  // def_cfa_register
          row_.base = static_cast<unsigned>(code.uleb());
          row_.expression = 0;
          break;
        case 0x0e:  // def_cfa_offset
          row_.offset = static_cast<std::int64_t>(code.uleb());
          break;
        case 0x0f:  // def_cfa_expression
          row_.expression = expression();
          break;
        case 0x10: {  // expression
          const std::uint64_t number = code.uleb();
          rule_of(number) = {Kind::at_expression, 0, expression()};
          break;
        }
        case 0x11: {  // offset_extended_sf
          const std::uint64_t number = code.uleb();
          rule_of(number) = {Kind::at_offset, scaled(code.sleb()), 0};
          break;
        }
        case 0x12:  // def_cfa_sf
          row_.base = static_cast<unsigned>(code.uleb());
          row_.offset = scaled(code.sleb());
          row_.expression = 0;
          break;
        case 0x13:  // def_cfa_offset_sf
          row_.offset = scaled(code.sleb());
          break;
        case 0x14: {  // val_offset
          const std::uint64_t number = code.uleb();
          rule_of(number) = {Kind::is_offset, scaled(static_cast<std::int64_t>(code.uleb())), 0};
          break;
        }
        case 0x15: {  // val_offset_sf
          const std::uint64_t number = code.uleb();
          rule_of(number) = {Kind::is_offset, scaled(code.sleb()), 0};
          break;
        }
        case 0x16: {  // val_expression
          const std::uint64_t number = code.uleb();
          rule_of(number) = {Kind::is_expression, 0, expression()};
          break;
        }
        case 0x2e:  // GNU_args_size
          (void)code.uleb();
          break;
        case 0x2f: {  // GNU_negative_offset_extended
          const std::uint64_t number = code.uleb();
          rule_of(number) = {Kind::at_offset, scaled(static_cast<std::int64_t>(0 - code.uleb())), 0};
          break;
        }
        default:
          return false;
      }
    }
    return !code.failed();
  }

  // `start`: what stands on the stack of values at first, if anything.
  std::optional<std::uintptr_t> evaluate(std::uintptr_t where, std::optional<std::uintptr_t> start) noexcept {
    Cursor sized(memory_, where, ~std::uintptr_t{0});
    const std::uint64_t length = sized.uleb();
    if (sized.failed() || length > 4096) return std::nullopt;
    Cursor code(memory_, sized.at(), sized.at() + length);
    const std::uintptr_t begin = code.at();
    std::array<std::uintptr_t, 16> values{};
    std::size_t height = 0;
    if (start) values[height++] = *start;
    const auto jump = [&](std::int16_t by) {
      const std::uintptr_t to = code.at() + static_cast<std::uintptr_t>(std::intptr_t{by});
      if (to < begin || to > code.end()) return false;
      code = Cursor(memory_, to, code.end());
      return true;
    };
    for (unsigned operations = 0; code.more(); ++operations) {
      if (operations == kMostOperations) return std::nullopt;
      const std::uint8_t operation = code.byte();
      std::uintptr_t pushed = 0;
      if (operation >= 0x30 && operation <= 0x4f) {  // lit0 …
        pushed = operation - 0x30u;
      } else if (operation >= 0x70 && operation <= 0x8f) {  // breg0 …
        const unsigned number = operation - 0x70u;
        if (number >= kRegisters) return std::nullopt;
        pushed = registers_[number] + static_cast<std::uintptr_t>(code.sleb());
      } else {
        switch (operation) {
          case 0x03:
            pushed = code.fixed<std::uint64_t>();
            break;
          case 0x08:
            pushed = code.byte();
            break;
          case 0x09:
            pushed = static_cast<std::uintptr_t>(std::intptr_t{code.fixed<std::int8_t>()});
            break;
          case 0x0a:
            pushed = code.fixed<std::uint16_t>();
            break;
          case 0x0b:
            pushed = static_cast<std::uintptr_t>(std::intptr_t{code.fixed<std::int16_t>()});
            break;
          case 0x0c:
            pushed = code.fixed<std::uint32_t>();
            break;
          case 0x0d:
            pushed = static_cast<std::uintptr_t>(std::intptr_t{code.fixed<std::int32_t>()});
            break;
          case 0x0e:
          case 0x0f:
            pushed = code.fixed<std::uint64_t>();
            break;
          case 0x10:
            pushed = code.uleb();
            break;
          case 0x11:
            pushed = static_cast<std::uintptr_t>(code.sleb());
            break;
          case 0x12:  // dup
            if (height == 0) return std::nullopt;
            pushed = values[height - 1];
            break;
          case 0x13:  // drop
            if (height == 0) return std::nullopt;
            --height;
            continue;
          case 0x14:  // over
            if (height < 2) return std::nullopt;
            pushed = values[height - 2];
            break;
          case 0x16:  // swap
            if (height < 2) return std::nullopt;
            std::swap(values[height - 1], values[height - 2]);
            continue;
          case 0x2f:  // skip
            if (!jump(code.fixed<std::int16_t>())) return std::nullopt;
            continue;
          case 0x28: {  // bra
            const auto by = code.fixed<std::int16_t>();
            if (height == 0) return std::nullopt;
            if (values[--height] != 0 && !jump(by)) return std::nullopt;
            continue;
          }
          case 0x96:  // nop
            continue;
          case 0x06:    // deref
          case 0x19:    // abs
          case 0x1f:    // neg
          case 0x20:    // not
          case 0x23: {  // plus_uconst
            if (height == 0) return std::nullopt;
            std::uintptr_t& top = values[height - 1];
            if (operation == 0x06) {
              const auto read = memory_.get<std::uintptr_t>(top);
              if (!read) return std::nullopt;
              top = *read;
            }
            if (operation == 0x19 && static_cast<std::intptr_t>(top) < 0) top = 0 - top;
            if (operation == 0x1f) top = 0 - top;
            if (operation == 0x20) top = ~top;
            if (operation == 0x23) top += code.uleb();
            continue;
          }
          default: {
            if (height < 2) return std::nullopt;
            const std::uintptr_t right = values[--height];
            const auto result = binary(operation, values[height - 1], right);
            if (!result) return std::nullopt;
            values[height - 1] = *result;
            continue;
          }
        }
      }
      if (height == values.size()) return std::nullopt;
      values[height++] = pushed;
    }
    if (code.failed() || height == 0) return std::nullopt;
    return values[height - 1];
  }

  static std::optional<std::uintptr_t> binary(std::uint8_t operation, std::uintptr_t left,
                                              std::uintptr_t right) noexcept {
    const auto signed_left = static_cast<std::intptr_t>(left),
               signed_right = static_cast<std::intptr_t>(right);
    switch (operation) {
      case 0x1a:
        return left & right;
      case 0x1c:
        return left - right;
      case 0x1e:
        return left * right;
      case 0x21:
        return left | right;
      case 0x22:
        return left + right;
      case 0x24:
        return right < 64 ? left << right : 0;
      case 0x25:
        return right < 64 ? left >> right : 0;
      case 0x26:
        return static_cast<std::uintptr_t>(signed_left >> (right < 64 ? right : 63));
      case 0x27:
        return left ^ right;
      case 0x29:
        return left == right ? 1 : 0;
      case 0x2a:
        return signed_left >= signed_right ? 1 : 0;
      case 0x2b:
        return signed_left > signed_right ? 1 : 0;
      case 0x2c:
        return signed_left <= signed_right ? 1 : 0;
      case 0x2d:
        return signed_left < signed_right ? 1 : 0;
      case 0x2e:
        return left != right ? 1 : 0;
      default:
        return std::nullopt;
    }
  }

  bool apply(const Function& function) noexcept {
    std::optional<std::uintptr_t> frame;
    if (row_.expression != 0)
      frame = evaluate(row_.expression, std::nullopt);
    else if (row_.base < kRegisters)
      frame = registers_[row_.base] + static_cast<std::uintptr_t>(row_.offset);
    if (!frame) return false;
    // Callers stand above. Only a signal's handler may run on a stack of its own.
    const std::uintptr_t below = registers_[kStackPointer];
    if (!function.is_signal_frame && (*frame <= below || *frame - below > kLargestFrame)) return false;

    std::array<std::uintptr_t, kRegisters> above = registers_;
    above[kStackPointer] = *frame;
    for (unsigned number = 0; number < kRegisters; ++number) {
      const Rule& rule = row_.rule[number];
      const std::uintptr_t offset = *frame + static_cast<std::uintptr_t>(rule.value);
      std::optional<std::uintptr_t> value;
      switch (rule.kind) {
        case Rule::Kind::same:
          continue;
        case Rule::Kind::undefined:
          if (number == function.return_register) return false;  // the outermost
          continue;
        case Rule::Kind::at_offset:
          value = memory_.get<std::uintptr_t>(offset);
          break;
        case Rule::Kind::is_offset:
          value = offset;
          break;
        case Rule::Kind::in_register:
          value = registers_[static_cast<std::size_t>(rule.value)];
          break;
        case Rule::Kind::at_expression:
          value = evaluate(rule.expression, frame);
          if (value) value = memory_.get<std::uintptr_t>(*value);
          break;
        case Rule::Kind::is_expression:
          value = evaluate(rule.expression, frame);
          break;
      }
      if (!value) return false;
      above[number] = *value;
    }
    above[kPlace] = above[function.return_register];
    if (above[kPlace] == 0) return false;
    registers_ = above;
    after_call_ = !function.is_signal_frame;
    return true;
  }

  Memory memory_;
  std::array<std::uintptr_t, kRegisters> registers_;
  bool after_call_ = false;
  Row row_, initial_;
  std::array<Row, 8> kept_;
};

}  // namespace

void walk([[maybe_unused]] const Registers& from,
          [[maybe_unused]] bool (*visit)(std::uintptr_t at, bool after_call, void* data),
          [[maybe_unused]] void* data) noexcept {
#if defined(__x86_64__)
  const std::unique_ptr<Walker> walker(new (std::nothrow) Walker(from));
  if (walker == nullptr) return;
  for (std::size_t frames = 0; frames < kMostWalked; ++frames) {
    if (!visit(walker->place(), walker->after_call(), data) || !walker->step()) return;
  }
#endif
}

const std::uintptr_t* return_of_frame([[maybe_unused]] const Registers& from,
                                      [[maybe_unused]] std::uintptr_t address) noexcept {
#if defined(__x86_64__)
  const std::unique_ptr<Walker> walker(new (std::nothrow) Walker(from));
  if (walker == nullptr || walker->stack() > address) return nullptr;
  for (std::size_t frames = 0; frames < kMostWalked && walker->step(); ++frames) {
    if (walker->stack() <= address) continue;
    // A call leaves it right below the caller's frame; that it does stand there is the proof.
    const auto* place = reinterpret_cast<const std::uintptr_t*>(walker->stack()) - 1;
    return *place == walker->place() ? place : nullptr;
  }
#endif
  return nullptr;
}

}  // namespace gpufence::observe
