// One table for reading and for help; values with few choices are checked here, so that a mistyped one is
// named together with the choices.
#include "tools/gpufence/run_options.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "tools/gpufence/options.h"
#include "tools/gpufence/subcommands.h"

namespace gpufence::command {
namespace {

using policies::Error;

constexpr std::array kOptions{
    OptionSpec{'d', "devices", "LIST",
               "these GPUs, in this order: CUDA 0 is the first; 2,0 · 0-3 · GPU-8f3a ·\n0000:81:00.0 · "
               "name:A100 · cc:8.0+ · all · none · all,-3 or --devices=-3",
               false, "which GPUs"},
    OptionSpec{0, "numbering", "HOW", "host (default): the mask holds the host's numbers; view: 0,1,…"},
    OptionSpec{0, "order", "HOW", "keep (default) · pci · fastest"},
    OptionSpec{0, "ignore-mask", "", "let --devices leave the CUDA_VISIBLE_DEVICES that was inherited"},
    OptionSpec{0, "remap", "A=B,…",
               "a hard-coded cudaSetDevice(A) means ordinal B, and every other call that takes an\nordinal "
               "likewise; wrap: every ordinal modulo the view. Shared runtime only"},
    OptionSpec{
        'm', "gpu-mem", "CAP",
        "cap for the whole run, the program and all it starts, on each GPU: 8GiB · 50% ·\n0=8GiB,1=4GiB "
        "(by position in what CUDA shows at the start) · unlimited",
        false, "how much memory"},
    OptionSpec{0, "gpu-mem-per-process", "CAP", "cap for each process on each GPU"},
    OptionSpec{0, "diagnose", "LEVEL",
               "off · default · all (pointer arguments at each launch; CUPTI for static runtimes)", false,
               "what is said"},
    OptionSpec{0, "backtrace", "[=N]",
               "call stacks in findings, native and Python, of N calls at most: 1 to 64,\nwithout N 16"},
    OptionSpec{0, "ignore", "GFxxx,…", "findings that are counted and not said"},
    OptionSpec{0, "log", "FILE",
               "every finding of every process to FILE as well, as JSON lines; in it %p is the\npid, %u the "
               "user, %h the host, %j the job, %t the time, %% a percent sign"},
    OptionSpec{0, "log-format", "HOW", "on stderr: text (default) · json"},
    OptionSpec{0, "report", "", "exit report on stderr"},
    OptionSpec{0, "report-file", "FILE",
               "exit report as JSON lines to FILE, which may be a FIFO that has a reader"},
    OptionSpec{'q', "quiet", "", "errors only"},
    OptionSpec{'v', "verbose", "", "notes as well as warnings"},
    OptionSpec{0, "color", "HOW", "auto (default) · always · never; NO_COLOR is honoured"},
    OptionSpec{
        0, "fail-on", "SEVERITY|GFxxx",
        "exit 99 if a process of the run made such a finding (info, warning, error: or\na worse one) and "
        "the program itself succeeded",
        false, "how strictly"},
    OptionSpec{0, "dry-run", "",
               "print GPUs, caps, what decides them, environment and exec line; run nothing", false, "other"},
    OptionSpec{0, "sim", "SPEC", "on simulated GPUs: 4 · 4x80GiB · 8xh100 · machine.toml"},
    OptionSpec{0, "name", "LABEL", "a name for the run"},
    OptionSpec{0, "env", "K=V", "set a variable for the program (repeatable)", true},
    OptionSpec{'h', "help", "", "this text"},
    OptionSpec{0, "help-all", "", "the help of every subcommand"},
    OptionSpec{'V', "version", "", "version, library and CUDA range"},
};

tl::expected<std::string, Error> one_of(const GivenOption& given, const std::vector<const char*>& choices) {
  std::string text;
  for (const char* choice : choices) {
    if (given.value == choice) return given.value;
    text += (text.empty() ? "" : " or ") + std::string(choice);
  }
  return tl::unexpected(Error{given.written + ' ' + given.value, "is no choice", "write " + text});
}

tl::expected<std::string, Error> number_of_frames(const GivenOption& given) {
  constexpr int kDefault = 16, kMost = 64;
  const std::string& text = given.value;
  if (text.empty()) return std::to_string(kDefault);
  int frames = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), frames);
  if (failed != std::errc{} || end != text.data() + text.size() || frames < 1 || frames > kMost)
    return tl::unexpected(Error{given.written + '=' + text, "is no number of calls from 1 to 64",
                                "write --backtrace=16, or --backtrace alone for that"});
  return std::to_string(frames);
}

struct Choice {
  std::string_view name;
  std::vector<const char*> of;
  std::optional<std::string>* to;
};

// "GF203,GF401"
tl::expected<void, Error> are_codes(const GivenOption& given) {
  std::string_view rest = given.value;
  while (true) {
    const std::string_view code = rest.substr(0, rest.find(','));
    if (!is_code(code))
      return tl::unexpected(Error{given.written + ' ' + given.value,
                                  "'" + std::string(code) + "' is no code of a finding",
                                  "see the list: gpufence explain"});
    if (code.size() == rest.size()) return {};
    rest.remove_prefix(code.size() + 1);
  }
}

}  // namespace

tl::expected<RunOptions, Error> read_run_options(std::span<const std::string> words) {
  auto read = read_options(kOptions, words, "gpufence run -h");
  if (!read) return tl::unexpected(read.error());
  RunOptions options;
  for (GivenOption& given : read->given) {
    const std::string_view name = given.spec->name;
    if (name == "devices") options.devices = given.value;
    if (name == "numbering") {
      auto choice = one_of(given, {"host", "view"});
      if (!choice) return tl::unexpected(choice.error());
      options.numbering = *choice;
    }
    if (name == "order") {
      auto choice = one_of(given, {"keep", "pci", "fastest"});
      if (!choice) return tl::unexpected(choice.error());
      options.order = *choice;
    }
    if (name == "ignore-mask") options.ignore_mask = true;
    if (name == "remap") options.remap = given.value;
    if (name == "gpu-mem") options.gpu_mem = given.value;
    if (name == "gpu-mem-per-process") options.gpu_mem_per_process = given.value;
    if (name == "report") options.report = true;
    if (name == "report-file") {
      if (given.value.empty())
        return tl::unexpected(Error{given.written, "names no file", "write --report-file FILE"});
      options.report_file = given.value;
    }
    if (name == "log") {
      if (given.value.empty())
        return tl::unexpected(Error{given.written, "names no file", "write --log FILE"});
      options.log = given.value;
    }
    for (const Choice& choice : {Choice{"log-format", {"text", "json"}, &options.log_format},
                                 Choice{"diagnose", {"off", "default", "all"}, &options.diagnose},
                                 Choice{"color", {"auto", "always", "never"}, &options.color}}) {
      if (name != choice.name) continue;
      auto chosen = one_of(given, choice.of);
      if (!chosen) return tl::unexpected(chosen.error());
      *choice.to = *chosen;
    }
    if (name == "backtrace") {
      auto frames = number_of_frames(given);
      if (!frames) return tl::unexpected(frames.error());
      options.backtrace = *frames;
    }
    if (name == "ignore") {
      if (auto codes = are_codes(given); !codes) return tl::unexpected(codes.error());
      options.ignore = given.value;
    }
    if (name == "fail-on") {
      if (given.value != "info" && given.value != "warning" && given.value != "error" &&
          !is_code(given.value))
        return tl::unexpected(Error{given.written + ' ' + given.value, "is neither a severity nor a code",
                                    "write info, warning, error or a code: gpufence explain lists them"});
      options.fail_on = given.value;
    }
    if (name == "quiet") options.loudness = "error";
    if (name == "verbose") options.loudness = "info";
    if (name == "dry-run") options.dry_run = true;
    if (name == "sim") options.sim = given.value;
    if (name == "name") options.name = given.value;
    if (name == "env") {
      const std::size_t equals = given.value.find('=');
      if (equals == std::string::npos || equals == 0)
        return tl::unexpected(
            Error{given.written + ' ' + given.value, "is no K=V", "write --env NAME=VALUE"});
      options.env.push_back(given.value);
    }
    if (name == "help") options.help = true;
    if (name == "help-all") options.help_all = true;
    if (name == "version") options.version = true;
  }
  options.program.assign(words.begin() + static_cast<std::ptrdiff_t>(read->end), words.end());
  if (options.program.empty() && !options.help && !options.help_all && !options.version)
    return tl::unexpected(
        Error{"run", "no program is named", "write gpufence run [OPTIONS] -- PROGRAM [ARG…]"});
  return options;
}

std::string run_help() {
  return "gpufence run [OPTIONS] [--] PROGRAM [ARG…]\n" + help_of(kOptions);
}

}  // namespace gpufence::command
