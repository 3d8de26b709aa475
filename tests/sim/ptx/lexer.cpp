#include "lexer.h"

#include <bit>
#include <cerrno>
#include <cstdlib>

namespace gpufence::sim::ptx {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$' ||
         c == '%' || c == '.';
}
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void Lexer::fail(std::string text, unsigned line, Error::Kind kind) {
  if (!error_) error_ = Error{kind, std::move(text), line != 0 ? line : token_.line};
  at_ = text_.size();
  token_ = Token{Token::Kind::end, 0, token_.line, {}, 0};
}

bool Lexer::expect(char mark) {
  if (accept(mark)) return true;
  if (!failed()) fail(std::string("expected '") + mark + "'");
  return false;
}

std::string_view Lexer::expect_word(const char* what) {
  if (token_.kind == Token::Kind::word) return take().text;
  if (!failed()) fail(std::string("expected ") + what);
  return {};
}

void Lexer::skip_line() {
  if (failed()) return;
  at_ = token_at_;
  while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  line_ = token_.line;
  advance();
}

void Lexer::skip_block() {
  if (!expect('{')) return;
  // Sections hold data only: no strings or comments with braces in them. Depth is a number, not the stack.
  for (size_t depth = 1; depth != 0;) {
    if (token_.kind == Token::Kind::end) return fail("'{' without its '}'");
    const Token token = take();
    if (token.is('{')) ++depth;
    if (token.is('}')) --depth;
  }
}

void Lexer::number() {
  const size_t start = at_;
  token_.kind = Token::Kind::integer;
  const auto bits = [&](unsigned digits, Token::Kind kind) {
    uint64_t value = 0;
    for (unsigned i = 0; i < digits; ++i) {
      const int digit = at_ < text_.size() ? hex_digit(text_[at_]) : -1;
      if (digit < 0) return fail("a floating literal of too few digits");
      value = value << 4 | static_cast<unsigned>(digit);
      ++at_;
    }
    token_.kind = kind;
    token_.value = static_cast<int64_t>(value);
  };
  const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
  if (text_[at_] == '0' && (next == 'f' || next == 'F')) {
    at_ += 2;
    bits(8, Token::Kind::single);
  } else if (text_[at_] == '0' && (next == 'd' || next == 'D')) {
    at_ += 2;
    bits(16, Token::Kind::real);
  } else {
    unsigned base = 10;
    if (text_[at_] == '0' && (next == 'x' || next == 'X')) {
      base = 16;
      at_ += 2;
    } else if (text_[at_] == '0' && (next == 'b' || next == 'B')) {
      base = 2;
      at_ += 2;
    } else if (text_[at_] == '0' && is_digit(next)) {
      base = 8;
      at_ += 1;
    }
    uint64_t value = 0;
    bool overflow = false;
    const size_t digits = at_;
    for (; at_ < text_.size(); ++at_) {
      const int digit = hex_digit(text_[at_]);
      if (digit < 0 || static_cast<unsigned>(digit) >= base) break;
      uint64_t wide = 0;
      if (__builtin_mul_overflow(value, base, &wide) ||
          __builtin_add_overflow(wide, static_cast<uint64_t>(digit), &value)) {
        overflow = true;
      }
    }
    const bool fraction =
        base == 10 && at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E');
    if (fraction) {
      // A copy, as the text need not end in a NUL; 64 characters are more than any double needs.
      const std::string copy(text_.substr(start, 64));
      char* end = nullptr;
      token_.value = std::bit_cast<int64_t>(std::strtod(copy.c_str(), &end));
      token_.kind = Token::Kind::real;
      at_ = start + static_cast<size_t>(end - copy.c_str());
    } else {
      if (at_ == digits && base != 8) return fail("a number without digits");
      if (overflow) return fail("a number of more than 64 bits");
      if (at_ < text_.size() && (text_[at_] == 'U' || text_[at_] == 'u')) ++at_;
      token_.value = static_cast<int64_t>(value);
    }
  }
  if (!failed() && at_ < text_.size() && is_word(text_[at_])) fail("a name that begins with a digit");
}

void Lexer::advance() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '*') {
      at_ += 2;
      while (at_ < text_.size() && !(text_[at_] == '*' && at_ + 1 < text_.size() && text_[at_ + 1] == '/')) {
        if (text_[at_] == '\n') ++line_;
        ++at_;
      }
      at_ = at_ < text_.size() ? at_ + 2 : at_;
    } else {
      break;
    }
  }
  token_ = Token{};
  token_.line = line_;
  token_at_ = at_;
  if (at_ >= text_.size() || failed()) return;
  const char c = text_[at_];
  if (is_digit(c)) return number();
  if (is_word(c)) {
    const size_t start = at_;
    while (at_ < text_.size()) {
      if (is_word(text_[at_])) {
        // Directives may stand without a space between: .reg.b16.
        if (c == '.' && text_[at_] == '.' && at_ != start) break;
        ++at_;
      } else if (text_[at_] == ':' && at_ + 1 < text_.size() && text_[at_ + 1] == ':') {
        at_ += 2;  // .shared::cta, .L2::128B
      } else {
        break;
      }
    }
    token_.kind = Token::Kind::word;
    token_.text = text_.substr(start, at_ - start);
    return;
  }
  if (c == '"') {
    const size_t start = ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') ++at_;
    if (at_ >= text_.size() || text_[at_] != '"') return fail("a string without its end");
    token_.kind = Token::Kind::string;
    token_.text = text_.substr(start, at_ - start);
    ++at_;
    return;
  }
  if (std::string_view(",;:{}[]()<>=+-|!@*~/&^").find(c) == std::string_view::npos) {
    return fail(c >= ' ' && c < 127
                    ? std::string("unexpected '") + c + "'"
                    : std::string("unexpected byte ") + std::to_string(static_cast<unsigned char>(c)));
  }
  ++at_;
  token_.kind = Token::Kind::mark;
  token_.mark = c;
}

}  // namespace gpufence::sim::ptx
