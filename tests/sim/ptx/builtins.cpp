// What device code calls and nobody defines in PTX: printf, malloc, free, assert, and
// cudaGraphSetConditional. Arguments lie in the caller's parameter area as for any call.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>

#include "control.h"

namespace gpufence::sim::ptx {
namespace {

constexpr size_t kMaxString = 64 << 10;  // of a %s, and of a format
constexpr int kMaxWidth = 1024;
constexpr size_t kMaxText = 1 << 20;  // of one call

uint64_t argument(const Warp& warp, const CallSite& site, size_t index, unsigned lane) {
  if (index >= site.arguments.size()) return 0;
  const std::byte* base = warp.registers + warp.frame->code->param_area +
                          size_t{site.arguments[index]} / 4 * 4 * kLanes + size_t{lane} * 4;
  uint32_t low = 0, high = 0;
  std::memcpy(&low, base, 4);
  if (site.argument_bytes[index] >= 8) std::memcpy(&high, base + 4 * kLanes, 4);
  return uint64_t{high} << 32 | low;
}

void result(const Warp& warp, const CallSite& site, unsigned lane, uint64_t value) {
  if (site.results.empty()) return;
  std::byte* base = warp.registers + warp.frame->code->param_area + size_t{site.results[0]} / 4 * 4 * kLanes +
                    size_t{lane} * 4;
  const auto low = static_cast<uint32_t>(value), high = static_cast<uint32_t>(value >> 32);
  std::memcpy(base, &low, 4);
  if (site.result_bytes[0] >= 8) std::memcpy(base + 4 * kLanes, &high, 4);
}

const CallSite& site_of(const Warp& warp, const Op* op) {
  return warp.frame->code->calls[static_cast<size_t>(op->imm)];
}

// False: *address is where reading failed.
bool read_string(Warp& warp, unsigned lane, uint64_t* address, std::string* text) {
  for (; text->size() < kMaxString; ++*address) {
    char c = 0;
    if (!read_generic(warp, lane, *address, &c, 1)) return false;
    if (c == '\0') return true;
    text->push_back(c);
  }
  return true;
}

// One thread's printf. Reads its arguments one after the other from `at`, each aligned to its size.
class Printer {
 public:
  Printer(Warp& warp, unsigned lane, uint64_t at) : warp_(warp), lane_(lane), at_(at) {}

  bool format(const std::string& format) {
    for (size_t i = 0; i < format.size() && text.size() < kMaxText;) {
      if (format[i] != '%') {
        text += format[i++];
        continue;
      }
      if (i + 1 < format.size() && format[i + 1] == '%') {
        text += '%';
        i += 2;
        continue;
      }
      if (!conversion(format, &i)) return false;
    }
    return true;
  }

  std::string text;
  uint64_t failed_at = 0;
  int count = 0;

 private:
  template <class T>
  bool take(T* value) {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    if (!read_generic(warp_, lane_, at_, value, sizeof(T))) {
      failed_at = at_;
      return false;
    }
    at_ += sizeof(T);
    return true;
  }

  bool number_or_star(const std::string& format, size_t* i, int* value) {
    if (*i < format.size() && format[*i] == '*') {
      ++*i;
      ++count;
      return take(value);
    }
    int number = 0;
    while (*i < format.size() && std::isdigit(static_cast<unsigned char>(format[*i])) != 0) {
      number = std::min(number * 10 + (format[*i] - '0'), kMaxWidth);
      ++*i;
    }
    *value = number;
    return true;
  }

  bool conversion(const std::string& format, size_t* i) {
    const size_t start = (*i)++;
    std::string spec = "%";
    while (*i < format.size() && std::strchr("-+ #0", format[*i]) != nullptr && spec.size() < 8)
      spec += format[(*i)++];
    int width = 0, precision = -1;
    if (!number_or_star(format, i, &width)) return false;
    if (*i < format.size() && format[*i] == '.') {
      ++*i;
      if (!number_or_star(format, i, &precision)) return false;
    }
    width = std::clamp(width, -kMaxWidth, kMaxWidth);
    precision = std::clamp(precision, -1, kMaxWidth);
    unsigned longs = 0, shorts = 0;
    for (; *i < format.size() && std::strchr("hlLqjzt", format[*i]) != nullptr; ++*i) {
      if (format[*i] == 'h')
        ++shorts;
      else
        longs += format[*i] == 'l' ? 1 : 2;
    }
    if (*i >= format.size()) {
      text.append(format, start);
      return true;
    }
    const char letter = format[(*i)++];
    spec += "*";
    if (precision >= 0) spec += ".*";
    switch (letter) {
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
      case 'c':
        return integer(spec, letter, width, precision, longs, shorts);
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A': {
        double value = 0;
        ++count;
        if (!take(&value)) return false;
        spec += letter;
        put(spec, width, precision, value);
        return true;
      }
      case 'p': {
        uint64_t value = 0;
        ++count;
        if (!take(&value)) return false;
        char digits[24];
        std::snprintf(digits, sizeof digits, "0x%llx", static_cast<unsigned long long>(value));
        put(spec.substr(0, spec.find('*')) + "*s", width, -1, static_cast<const char*>(digits));
        return true;
      }
      case 's': {
        uint64_t address = 0;
        ++count;
        if (!take(&address)) return false;
        std::string string;
        if (address == 0)
          string = "(null)";
        else if (!read_string(warp_, lane_, &address, &string)) {
          failed_at = address;
          return false;
        }
        spec += letter;
        put(spec, width, precision, string.c_str());
        return true;
      }
      default:
        text.append(format, start, *i - start);  // no conversion: printed as it is
        return true;
    }
  }

  bool integer(std::string spec, char letter, int width, int precision, unsigned longs, unsigned shorts) {
    int64_t value = 0;
    ++count;
    if (longs > 0) {
      if (!take(&value)) return false;
    } else {
      int32_t word = 0;
      if (!take(&word)) return false;
      value =
          letter == 'd' || letter == 'i' ? int64_t{word} : static_cast<int64_t>(static_cast<uint32_t>(word));
      if (shorts == 1)
        value = letter == 'd' || letter == 'i' ? int64_t{static_cast<int16_t>(word)}
                                               : int64_t{static_cast<uint16_t>(word)};
      if (shorts >= 2)
        value = letter == 'd' || letter == 'i' ? int64_t{static_cast<int8_t>(word)}
                                               : int64_t{static_cast<uint8_t>(word)};
    }
    if (letter == 'c') {
      put(spec + 'c', width, precision, static_cast<int>(value & 0xff));
    } else {
      put(spec + "ll" + letter, width, precision, static_cast<long long>(value));
    }
    return true;
  }

  template <class T>
  void put(const std::string& spec, int width, int precision, T value) {
    char small[256];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    const auto write = [&](char* to, size_t size) {
      return precision >= 0 ? std::snprintf(to, size, spec.c_str(), width, precision, value)
                            : std::snprintf(to, size, spec.c_str(), width, value);
    };
#pragma GCC diagnostic pop
    const int length = write(small, sizeof small);
    if (length < 0) return;
    if (static_cast<size_t>(length) < sizeof small) {
      text.append(small, static_cast<size_t>(length));
      return;
    }
    std::string large(static_cast<size_t>(length) + 1, '\0');
    write(large.data(), large.size());
    text.append(large, 0, static_cast<size_t>(length));
  }

  Warp& warp_;
  unsigned lane_;
  uint64_t at_;
};

const Op* call_vprintf(Warp& warp, const Op* op) {
  const CallSite& site = site_of(warp, op);
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    uint64_t format_at = argument(warp, site, 0, lane);
    std::string format;
    if (!read_string(warp, lane, &format_at, &format))
      return fault(warp, op, Fault::Kind::illegal_address, lane, format_at, "printf's format");
    Printer printer(warp, lane, argument(warp, site, 1, lane));
    if (!printer.format(format))
      return fault(warp, op, Fault::Kind::illegal_address, lane, printer.failed_at, "printf's arguments");
    if (warp.launch->launch->sinks != nullptr) warp.launch->launch->sinks->print(printer.text);
    result(warp, site, lane, static_cast<uint32_t>(printer.count));
  }
  return op + 1;
}

const Op* call_malloc(Warp& warp, const Op* op) {
  const CallSite& site = site_of(warp, op);
  Sinks* sinks = warp.launch->launch->sinks;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    result(warp, site, lane, sinks != nullptr ? sinks->heap_allocate(argument(warp, site, 0, lane)) : 0);
  }
  return op + 1;
}

const Op* call_free(Warp& warp, const Op* op) {
  const CallSite& site = site_of(warp, op);
  Sinks* sinks = warp.launch->launch->sinks;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    const uint64_t address = argument(warp, site, 0, lane);
    if (address != 0 && (sinks == nullptr || !sinks->heap_free(address))) {
      return fault(warp, op, Fault::Kind::illegal_address, lane, address, "free of what malloc did not give");
    }
  }
  return op + 1;
}

const Op* call_assertfail(Warp& warp, const Op* op) {
  const CallSite& site = site_of(warp, op);
  const uint32_t lanes = warp.active;
  std::string first;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    std::string message, file, function;
    uint64_t message_at = argument(warp, site, 0, lane), file_at = argument(warp, site, 1, lane),
             function_at = argument(warp, site, 3, lane);
    (void)read_string(warp, lane, &message_at, &message);
    (void)read_string(warp, lane, &file_at, &file);
    (void)read_string(warp, lane, &function_at, &function);
    std::string line = file + ":" + std::to_string(static_cast<int32_t>(argument(warp, site, 2, lane))) +
                       ": " + function + ": block: [" + std::to_string(warp.block->ctaid[0]) + "," +
                       std::to_string(warp.block->ctaid[1]) + "," + std::to_string(warp.block->ctaid[2]) +
                       "], thread: [" + std::to_string(warp.tid[0][lane]) + "," +
                       std::to_string(warp.tid[1][lane]) + "," + std::to_string(warp.tid[2][lane]) +
                       "] Assertion `" + message + "` failed.\n";
    if (warp.launch->launch->sinks != nullptr) warp.launch->launch->sinks->print(line);
    if (first.empty()) first = std::move(message);
  }
  return fault(warp, op, Fault::Kind::assertion, static_cast<unsigned>(__builtin_ctz(lanes)), 0, first);
}

const Op* call_set_conditional(Warp& warp, const Op* op) {
  const CallSite& site = site_of(warp, op);
  Sinks* sinks = warp.launch->launch->sinks;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    const uint64_t handle = argument(warp, site, 0, lane);
    if (sinks == nullptr ||
        !sinks->set_condition(handle, static_cast<uint32_t>(argument(warp, site, 1, lane))))
      return fault(warp, op, Fault::Kind::illegal_address, lane, handle,
                   "cudaGraphSetConditional of what is no conditional handle");
  }
  return op + 1;
}

}  // namespace

Handler builtin_named(std::string_view name) {
  if (name == "vprintf") return call_vprintf;
  if (name == "malloc") return call_malloc;
  if (name == "free") return call_free;
  if (name == "__assertfail") return call_assertfail;
  if (name == "cudaGraphSetConditional") return call_set_conditional;
  return nullptr;
}

}  // namespace gpufence::sim::ptx
