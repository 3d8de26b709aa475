// One function a subcommand: words after its name → exit status.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/gpufence/environment.h"

namespace gpufence::command {

int run(std::span<const std::string> words, const Environment& environment);
int devices(std::span<const std::string> words, const Environment& environment);
int explain(std::span<const std::string> words);
int hooks(std::span<const std::string> words, const Environment& environment);
int inspect(std::span<const std::string> words, const Environment& environment);
int last(std::span<const std::string> words, const Environment& environment);
int status(std::span<const std::string> words, const Environment& environment);

// What `-V`, `gpufence` alone and `--help-all` print, for the subcommands that have them as options too.
std::string version_text();
std::string all_help();
[[nodiscard]] std::string devices_help();
[[nodiscard]] std::string explain_help();
[[nodiscard]] std::string hooks_help();
[[nodiscard]] std::string inspect_help();
[[nodiscard]] std::string last_help();
[[nodiscard]] std::string status_help();

// Whether `explain` knows it: "GF203".
[[nodiscard]] bool is_code(std::string_view code);

}  // namespace gpufence::command
