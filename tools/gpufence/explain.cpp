// `gpufence explain`: what a finding means. The texts are data, made by the build from findings.toml.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "tools/gpufence/command.h"
#include "tools/gpufence/options.h"
#include "tools/gpufence/subcommands.h"

namespace gpufence::command {
namespace {

constexpr std::array kOptions{
    OptionSpec{'h', "help", "", "this text"},
};

struct Explanation {
  std::string_view code, severity, title, meaning, program, remedy, harmless;
  bool planned;  // no part of this version makes it
};

constexpr Explanation kExplanations[] = {
#include "findings.inc"
};

constexpr std::size_t kWidth = 100;  // characters of a line of running text

std::string wrapped(std::string_view text) {
  std::string out = "  ";
  std::size_t column = 2;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column + word.size() > kWidth && column > 2) {
      out += "\n  ";
      column = 2;
    }
    out += word;
    column += word.size() + 1;
    if (!text.empty()) out += ' ';
  }
  for (std::size_t at = 0; (at = out.find(" \n", at)) != std::string::npos;) out.erase(at, 1);
  return out + '\n';
}

std::string indented(std::string_view program) {
  std::string out;
  while (!program.empty()) {
    const std::string_view line = program.substr(0, program.find('\n'));
    program.remove_prefix(std::min(line.size() + 1, program.size()));
    out += (line.empty() ? "" : "    ") + std::string(line) + '\n';
  }
  return out;
}

std::string text_of(const Explanation& of) {
  return std::string(of.code) + ' ' + std::string(of.severity) + ": " + std::string(of.title) + "\n\n" +
         wrapped(of.meaning) + (of.planned ? "  This version does not make it yet.\n" : "") +
         "\nA program that shows it:\n" + indented(of.program) + "\nWhat to do:\n" + wrapped(of.remedy) +
         "\nWhen it is harmless:\n" + wrapped(of.harmless);
}

std::string list() {
  std::string text;
  for (const Explanation& one : kExplanations)
    text += std::string(one.code) + "  " + std::string(one.severity) +
            std::string(9 - one.severity.size(), ' ') + std::string(one.title) +
            (one.planned ? " (not yet)" : "") + '\n';
  return text;
}

}  // namespace

bool is_code(std::string_view code) {
  return std::any_of(std::begin(kExplanations), std::end(kExplanations),
                     [&](const Explanation& one) { return one.code == code; });
}

std::string explain_help() {
  return "gpufence explain [CODE]   what a finding means, what to do, when it is harmless; without a code: "
         "the list\n" +
         help_of(kOptions);
}

int explain(std::span<const std::string> words) {
  const auto usage = [](const Error& error) {
    say(error);
    return kUsage;
  };
  const auto read = read_options(kOptions, words, "gpufence explain -h");
  if (!read) return usage(read.error());
  if (!read->given.empty()) return print(explain_help());
  if (read->end == words.size()) return print(list());
  if (words.size() > read->end + 1)
    return usage({words[read->end + 1], "explain takes one code", "see gpufence explain -h"});
  std::string code = words[read->end];
  std::transform(code.begin(), code.end(), code.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  for (const Explanation& one : kExplanations)
    if (one.code == code || one.code.substr(2) == code) return print(text_of(one));
  return usage({words[read->end], "is no code of a finding", "see the list: gpufence explain"});
}

}  // namespace gpufence::command
