// See stack.h.
#include "journal/stack.h"

#include <array>
#include <cstdio>

namespace gpufence::journal {
namespace {

constexpr std::size_t kMostPart = 1400;   // bytes; two parts and a message are less than PIPE_BUF
constexpr std::size_t kMostSymbol = 120;  // bytes

// Not in the middle of a character.
std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

bool is_folded(std::string_view object) {
  return is_cuda_library(object) || is_foreign_call_library(object) || object.starts_with("libpython") ||
         object.starts_with("python");
}

// Without a formatter, which takes kilobytes of a stack that may be small.
std::string hexadecimal(std::uint64_t number) {
  std::array<char, 24> digits{};
  (void)std::snprintf(digits.data(), digits.size(), "0x%llx", static_cast<unsigned long long>(number));
  return digits.data();
}

std::string text(const Site& frame) {
  if (frame.object.empty()) return "unknown code at " + hexadecimal(frame.offset);
  std::string out = shortened(frame.object, kMostSymbol) + '+' + hexadecimal(frame.offset);
  if (!frame.symbol.empty()) out += " (" + shortened(frame.symbol, kMostSymbol) + ')';
  return out;
}

// "; stack: a < b < … 2 more"
std::string part(const char* name, const std::vector<std::string>& frames) {
  std::string out = std::string("; ") + name + ": ";
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (out.size() + frames[i].size() > kMostPart)
      return out + (i == 0 ? "" : " < ") + "… " + std::to_string(frames.size() - i) + " more";
    out += (i == 0 ? "" : " < ") + frames[i];
  }
  return out;
}

}  // namespace

bool is_cuda_library(std::string_view file) noexcept {
  for (const std::string_view name :
       {"libcuda.so", "libcudart.so", "libgpufence", "libnvidia-", "libcupti", "libcublas", "libcudnn",
        "libcufft", "libcurand", "libcusolver", "libcusparse", "libnccl", "libnpp", "libnvrtc",
        "libnvJitLink", "libnvjpeg", "libcutensor"}) {
    if (file.starts_with(name)) return true;
  }
  return false;
}

bool is_foreign_call_library(std::string_view file) noexcept {
  return file.starts_with("libffi") || file.starts_with("_ctypes") || file.starts_with("_cffi_backend");
}

std::string text(const PythonFrame& frame) {
  const std::size_t slash = frame.file.rfind('/');
  const std::string file = slash == std::string::npos ? frame.file : frame.file.substr(slash + 1);
  return shortened(file, kMostSymbol) + ':' + (frame.line > 0 ? std::to_string(frame.line) : "?") + " (" +
         shortened(frame.function, kMostSymbol) + ')';
}

std::string stack_text(const std::vector<Site>& stack, const std::vector<PythonFrame>& python) {
  std::vector<std::string> native;
  for (std::size_t i = 0; i < stack.size();) {
    std::size_t end = i + 1;
    while (is_folded(stack[i].object) && end < stack.size() && stack[end].object == stack[i].object) ++end;
    native.push_back(end - i == 1 ? text(stack[i])
                                  : "… " + std::to_string(end - i) + " frames in " +
                                        shortened(stack[i].object, kMostSymbol));
    i = end;
  }
  std::vector<std::string> lines;
  for (const PythonFrame& frame : python) lines.push_back(text(frame));
  return (native.empty() ? "" : part("stack", native)) + (lines.empty() ? "" : part("python", lines));
}

}  // namespace gpufence::journal
