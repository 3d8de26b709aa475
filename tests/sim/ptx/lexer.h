// Words, numbers and marks of PTX text. After a failure every token is `end`, so that loops over tokens end
// by themselves and the first error is the one that is told.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ptx/module.h"

namespace gpufence::sim::ptx {

struct Token {
  enum class Kind : uint8_t { end, word, integer, single, real, string, mark };
  Kind kind = Kind::end;
  char mark = 0;  // , ; : { } [ ] ( ) < > = + - | ! @ * ~ /
  unsigned line = 1;
  std::string_view text;  // a word with its dots; a string without its quotes
  int64_t value = 0;      // integers; bits of floating literals

  [[nodiscard]] bool is(char c) const { return kind == Kind::mark && mark == c; }
  [[nodiscard]] bool is(std::string_view word) const { return kind == Kind::word && text == word; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  [[nodiscard]] const Token& peek() const { return token_; }
  Token take() {
    Token token = token_;
    advance();
    return token;
  }
  bool accept(char mark) {
    if (!token_.is(mark)) return false;
    advance();
    return true;
  }
  bool expect(char mark);  // accepts it, or fails
  std::string_view expect_word(const char* what);
  void skip_line();   // to the next line, counted from the current token's start
  void skip_block();  // from the current '{' to behind its '}'
  void fail(std::string text, unsigned line = 0, Error::Kind kind = Error::Kind::invalid);
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] const Error& error() const { return *error_; }

 private:
  void advance();
  void number();

  std::string_view text_;
  size_t at_ = 0;
  size_t token_at_ = 0;
  unsigned line_ = 1;
  Token token_;
  std::optional<Error> error_;
};

}  // namespace gpufence::sim::ptx
