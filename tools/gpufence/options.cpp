// Why no library reads these: those at hand take `-d -3` for two options, and go on reading options behind
// the program's name or stop at the first unknown one, which hides a mistyped option inside the program's
// words.
#include "tools/gpufence/options.h"

#include <algorithm>

namespace gpufence::command {
namespace {

using policies::Error;

constexpr std::size_t kHelpColumn = 30;

}  // namespace

tl::expected<ReadOptions, Error> read_options(std::span<const OptionSpec> specs,
                                              std::span<const std::string> words, std::string_view see) {
  ReadOptions read;
  const std::string remedy = "see " + std::string(see);
  const auto unknown = [&](const std::string& written) {
    return tl::unexpected(Error{written, "this version has no such option", remedy});
  };
  const auto add = [&](const OptionSpec& spec, std::string written,
                       std::string value) -> tl::expected<void, Error> {
    const bool before = std::any_of(read.given.begin(), read.given.end(),
                                    [&](const GivenOption& given) { return given.spec == &spec; });
    if (before && !spec.repeatable && !spec.value.empty())
      return tl::unexpected(Error{written, "is given twice", "write it once"});
    read.given.push_back({&spec, std::move(written), std::move(value)});
    return {};
  };
  // The value of an option that has none attached: the next word.
  const auto next_word = [&](const OptionSpec& spec, const std::string& written,
                             std::size_t& at) -> tl::expected<std::string, Error> {
    if (at + 1 >= words.size() || words[at + 1].substr(0, 2) == "--")
      return tl::unexpected(Error{written, "needs a value",
                                  "write --" + std::string(spec.name) + ' ' + std::string(spec.value)});
    return words[++at];
  };

  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    read.end = at;
    if (word == "--") {
      read.end = at + 1;
      return read;
    }
    if (word.size() < 2 || word[0] != '-') return read;

    if (word[1] == '-') {
      const std::size_t equals = word.find('=');
      const std::string written = word.substr(0, equals);
      const auto spec = std::find_if(specs.begin(), specs.end(), [&](const OptionSpec& candidate) {
        return written.substr(2) == candidate.name;
      });
      if (spec == specs.end()) return unknown(written);
      std::string value;
      if (equals != std::string::npos) {
        if (spec->value.empty()) return tl::unexpected(Error{written, "takes no value", remedy});
        value = word.substr(equals + 1);
      } else if (!spec->value.empty() && spec->value.front() != '[') {
        auto next = next_word(*spec, written, at);
        if (!next) return tl::unexpected(next.error());
        value = *std::move(next);
      }
      if (auto added = add(*spec, written, std::move(value)); !added) return tl::unexpected(added.error());
      continue;
    }

    for (std::size_t letter = 1; letter < word.size(); ++letter) {
      const std::string written = std::string("-") + word[letter];
      const auto spec = std::find_if(specs.begin(), specs.end(), [&](const OptionSpec& candidate) {
        return candidate.letter != 0 && candidate.letter == word[letter];
      });
      if (spec == specs.end()) return unknown(written);
      if (spec->value.empty()) {
        if (auto added = add(*spec, written, {}); !added) return tl::unexpected(added.error());
        continue;
      }
      std::string value = word.substr(letter + 1);
      if (value.empty()) {
        auto next = next_word(*spec, written, at);
        if (!next) return tl::unexpected(next.error());
        value = *std::move(next);
      } else if (value[0] == '=') {
        value.erase(0, 1);
      }
      if (auto added = add(*spec, written, std::move(value)); !added) return tl::unexpected(added.error());
      break;
    }
  }
  read.end = words.size();
  return read;
}

std::string help_of(std::span<const OptionSpec> specs) {
  std::string text;
  for (const OptionSpec& spec : specs) {
    if (!spec.heading.empty()) text += ' ' + std::string(spec.heading) + '\n';
    std::string line = spec.letter != 0 ? std::string("  -") + spec.letter + ", " : std::string("      ");
    line += "--" + std::string(spec.name);
    if (!spec.value.empty()) line += (spec.value.front() == '[' ? "" : " ") + std::string(spec.value);
    line += line.size() + 2 > kHelpColumn ? "\n" + std::string(kHelpColumn, ' ')
                                          : std::string(kHelpColumn - line.size(), ' ');
    for (const char c : spec.help) {
      line += c;
      if (c == '\n') line += std::string(kHelpColumn, ' ');
    }
    text += line + '\n';
  }
  return text;
}

}  // namespace gpufence::command
