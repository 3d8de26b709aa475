// See python.h. The offsets are those that CPython's own headers give on 64-bit machines.
#include "observe/python.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "observe/memory.h"
#include "observe/objects.h"

namespace gpufence::observe {
namespace {

constexpr std::size_t kMostText = 512;        // characters of a name
constexpr std::size_t kMostTable = 1 << 20;   // bytes of a table of lines
constexpr std::size_t kMostFrames = 100'000;  // looked at, with those that are not shown

// Bytes from the beginning of each structure.
struct Layout {
  int first, last;  // minor versions
  // PyThreadState
  unsigned thread_id;
  unsigned frame;       // the innermost frame, or
  int in_frame_holder;  // what holds it, with it there; -1: nothing does
  // PyFrameObject, since 3.11 _PyInterpreterFrame
  unsigned back, code, position;
  unsigned owner;  // 0: frames have none
  // PyCodeObject
  unsigned lines, first_line, file, function;
  unsigned bytecode, first_traceable;  // 0: positions are numbers
  // str
  unsigned ascii, compact;
};
constexpr Layout kLayouts[] = {
    {8, 9, 176, 24, -1, 24, 32, 104, 0, 120, 40, 104, 112, 0, 0, 48, 72},
    {10, 10, 176, 24, -1, 24, 32, 96, 0, 120, 40, 104, 112, 0, 0, 48, 72},
    {11, 11, 152, 56, 8, 48, 32, 56, 69, 136, 72, 112, 120, 184, 168, 48, 72},
    {12, 12, 136, 56, 0, 8, 0, 56, 70, 136, 68, 112, 120, 192, 176, 40, 56},
    {13, 13, 152, 72, -1, 8, 0, 56, 70, 136, 68, 112, 120, 200, 184, 40, 56},
};
// Every object, bytes and str.
constexpr unsigned kType = 8, kSize = 16, kBytes = 32, kLength = 16, kState = 32;
constexpr std::uint8_t kOwnedByGenerator = 1, kOwnedByCStack = 3;

struct Interpreter {
  const Layout* layout = nullptr;
  std::uintptr_t thread = 0;  // PyThreadState
  std::uintptr_t code_type = 0, text_type = 0, frame_type = 0;
};

const Layout* layout_of(const char* version) {
  if (version == nullptr || std::strncmp(version, "3.", 2) != 0) return nullptr;
  const long minor = std::strtol(version + 2, nullptr, 10);
  for (const Layout& layout : kLayouts) {
    if (minor >= layout.first && minor <= layout.last) return &layout;
  }
  return nullptr;
}

// Asked while no object can be unloaded.
bool look_at(const Object& object, void* data) {
  const std::uintptr_t this_thread = find_symbol(object, "PyGILState_GetThisThreadState");
  const std::uintptr_t version = find_symbol(object, "Py_GetVersion");
  if (this_thread == 0 || version == 0) return false;
  Interpreter found;
  found.code_type = find_symbol(object, "PyCode_Type");
  found.text_type = find_symbol(object, "PyUnicode_Type");
  found.frame_type = find_symbol(object, "PyFrame_Type");
  if (found.code_type == 0 || found.text_type == 0 || found.frame_type == 0) return false;
  found.layout = layout_of(reinterpret_cast<const char* (*)()>(version)());
  if (found.layout == nullptr) return false;
  found.thread = reinterpret_cast<std::uintptr_t>(reinterpret_cast<void* (*)()>(this_thread)());
  if (found.thread == 0) return false;  // not initialised, ended, or not a thread of its
  *static_cast<Interpreter*>(data) = found;
  return true;
}

class Reader {
 public:
  explicit Reader(const Interpreter& of) noexcept : of_(of), layout_(*of.layout) {}

  std::vector<journal::PythonFrame> frames(std::size_t most) {
    std::vector<journal::PythonFrame> out;
    if (word(of_.thread + layout_.thread_id) != static_cast<std::uintptr_t>(pthread_self())) return out;
    std::uintptr_t frame = word(of_.thread + layout_.frame);
    if (layout_.in_frame_holder >= 0 && frame != 0)
      frame = word(frame + static_cast<std::uintptr_t>(layout_.in_frame_holder));
    for (std::size_t seen = 0; frame != 0 && !failed_ && out.size() < most && seen < kMostFrames; ++seen) {
      if (!read(frame, out)) break;
      frame = word(frame + layout_.back);
    }
    return out;
  }

 private:
  template <class T>
  T get(std::uintptr_t at) {
    const std::optional<T> value = memory_.get<T>(at);
    if (!value) failed_ = true;
    return value.value_or(T{});
  }
  std::uintptr_t word(std::uintptr_t at) { return get<std::uintptr_t>(at); }

  // False: it is none.
  bool read(std::uintptr_t frame, std::vector<journal::PythonFrame>& out) {
    const bool has_owner = layout_.owner != 0;
    if (!has_owner && word(frame + kType) != of_.frame_type) return false;
    const std::uint8_t owner = has_owner ? get<std::uint8_t>(frame + layout_.owner) : 0;
    if (owner == kOwnedByCStack) return !failed_;  // a step of the interpreter's own
    const std::uintptr_t code = word(frame + layout_.code);
    if (failed_ || word(code + kType) != of_.code_type) return false;
    std::int64_t position = 0;  // in code units of two bytes; before the first: it has not begun
    if (has_owner) {
      const std::uintptr_t first = code + layout_.bytecode;
      position =
          (static_cast<std::int64_t>(word(frame + layout_.position)) - static_cast<std::int64_t>(first)) / 2;
      if (owner != kOwnedByGenerator && position < get<std::int32_t>(code + layout_.first_traceable))
        return !failed_;
    } else {
      position = get<std::int32_t>(frame + layout_.position);
      if (layout_.last < 10) position /= 2;
    }
    journal::PythonFrame one;
    const auto file = text(word(code + layout_.file));
    const auto function = text(word(code + layout_.function));
    if (failed_ || !file || !function) return false;
    one.file = *file;
    one.function = *function;
    one.line = line(code, position);
    out.push_back(std::move(one));
    return true;
  }

  // UTF-8, without what could end a line; the end of a long one, where a file's name is.
  std::optional<std::string> text(std::uintptr_t at) {
    if (word(at + kType) != of_.text_type) return std::nullopt;
    const auto length = get<std::uint64_t>(at + kLength);
    const auto state = get<std::uint32_t>(at + kState);
    const unsigned width = state >> 2 & 7;
    const bool compact = (state >> 5 & 1) != 0, ascii = (state >> 6 & 1) != 0;
    if (failed_ || !compact || (width != 1 && width != 2 && width != 4) || length > (1u << 30))
      return std::nullopt;
    const std::uint64_t first = length > kMostText ? length - kMostText : 0;
    std::string out = first > 0 ? "…" : "";
    const std::uintptr_t from = at + (ascii ? layout_.ascii : layout_.compact);
    for (std::uint64_t i = first; i < length && !failed_; ++i) {
      const std::uintptr_t here = from + i * width;
      append(out, width == 1   ? get<std::uint8_t>(here)
                  : width == 2 ? get<std::uint16_t>(here)
                               : get<std::uint32_t>(here));
    }
    if (failed_) return std::nullopt;
    return journal::on_one_line(std::move(out));
  }

  static void append(std::string& out, std::uint32_t point) {
    // Lone surrogates stand for bytes that were no text.
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) point = '?';
    const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (point < 0x80) {
      put(point);
    } else if (point < 0x800) {
      put(0xc0 | point >> 6);
      put(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
      put(0xe0 | point >> 12);
      put(0x80 | (point >> 6 & 0x3f));
      put(0x80 | (point & 0x3f));
    } else {
      put(0xf0 | point >> 18);
      put(0x80 | (point >> 12 & 0x3f));
      put(0x80 | (point >> 6 & 0x3f));
      put(0x80 | (point & 0x3f));
    }
  }

  // 0: not known.
  int line(std::uintptr_t code, std::int64_t position) {
    const int first = get<std::int32_t>(code + layout_.first_line);
    const std::uintptr_t table = word(code + layout_.lines);
    const auto size = get<std::uint64_t>(table + kSize);
    if (failed_ || size > kMostTable) return 0;
    const std::uintptr_t begin = table + kBytes, end = begin + size;
    if (position < 0) return first;
    const int found = layout_.last < 10    ? line_of_pairs(begin, end, first, position * 2)
                      : layout_.last == 10 ? line_of_ranges(begin, end, first, position * 2)
                                           : line_of_locations(begin, end, first, position);
    return failed_ ? 0 : found;
  }

  // 3.8, 3.9: steps of bytecode and of lines (CPython's Objects/lnotab_notes.txt).
  int line_of_pairs(std::uintptr_t at, std::uintptr_t end, int line, std::int64_t position) {
    std::int64_t address = 0;
    for (; at + 1 < end && !failed_; at += 2) {
      address += get<std::uint8_t>(at);
      if (address > position) break;
      line += get<std::int8_t>(at + 1);
    }
    return line;
  }

  // 3.10: ranges of bytecode, and how far their line is from the one before; -128: of no line.
  int line_of_ranges(std::uintptr_t at, std::uintptr_t end, int line, std::int64_t position) {
    std::int64_t address = 0;
    for (; at + 1 < end && !failed_; at += 2) {
      const int step = get<std::int8_t>(at + 1);
      address += get<std::uint8_t>(at);
      if (step != -128) line += step;
      if (position < address) return step == -128 ? 0 : line;
    }
    return line;
  }

  std::uint32_t variable(std::uintptr_t& at) {
    std::uint32_t value = 0;
    for (unsigned shift = 0; shift < 32 && !failed_; shift += 6) {
      const auto part = get<std::uint8_t>(at++);
      value |= std::uint32_t{part & 0x3fu} << shift;
      if ((part & 0x40) == 0) break;
    }
    return value;
  }
  int signed_variable(std::uintptr_t& at) {
    const std::uint32_t value = variable(at);
    return (value & 1) != 0 ? -static_cast<int>(value >> 1) : static_cast<int>(value >> 1);
  }

  // 3.11 and later: an entry a range, its kind in four bits (CPython's Objects/locations.md).
  int line_of_locations(std::uintptr_t at, std::uintptr_t end, int line, std::int64_t position) {
    constexpr unsigned kNone = 15, kLong = 14, kNoColumns = 13, kOneLine = 10;
    std::int64_t address = 0;
    while (at < end && !failed_) {
      const auto head = get<std::uint8_t>(at++);
      const unsigned kind = head >> 3 & 15;
      address += (head & 7) + 1;
      if (kind == kLong) {
        line += signed_variable(at);
        for (int column = 0; column < 3; ++column) (void)variable(at);
      } else if (kind == kNoColumns) {
        line += signed_variable(at);
      } else if (kind >= kOneLine && kind < kNoColumns) {
        line += static_cast<int>(kind - kOneLine);
        at += 2;
      } else if (kind != kNone) {
        at += 1;
      }
      if (position < address) return kind == kNone ? 0 : line;
    }
    return line;
  }

  const Interpreter& of_;
  const Layout& layout_;
  Memory memory_;
  bool failed_ = false;
};

}  // namespace

std::vector<journal::PythonFrame> python_stack(std::size_t most) {
  Interpreter found;
  each_object(look_at, &found);
  if (found.thread == 0) return {};
  return std::make_unique<Reader>(found)->frames(most);
}

}  // namespace gpufence::observe
