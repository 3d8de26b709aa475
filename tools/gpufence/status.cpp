// `gpufence status`: how the process that asks stands to the fence. This command inherits what its
// surroundings have, LD_PRELOAD and settings alike, so its own process is the sample; another is looked at
// through /proc.
#include <unistd.h>

#include <array>
#include <string>

#include <nlohmann/json.hpp>

#include "tools/gpufence/command.h"
#include "tools/gpufence/options.h"
#include "tools/gpufence/process.h"
#include "tools/gpufence/standing.h"
#include "tools/gpufence/subcommands.h"

namespace gpufence::command {
namespace {

constexpr std::array kOptions{
    OptionSpec{0, "json", "", "as JSON, with stable keys"},
    OptionSpec{'h', "help", "", "this text"},
};

}  // namespace

std::string status_help() {
  return "gpufence status [--json] [PID]   exit status 0: fenced, 1: not, 2: wrong usage\n" +
         help_of(kOptions);
}

int status(std::span<const std::string> words, const Environment& environment) {
  const auto usage = [](const Error& error) {
    say(error);
    return kUsage;
  };
  const auto read = read_options(kOptions, words, "gpufence status -h");
  if (!read) return usage(read.error());
  bool json = false;
  for (const GivenOption& given : read->given) {
    if (given.spec->name == "json") json = true;
    if (given.spec->name == "help") return print(status_help());
  }
  int pid = ::getpid();
  if (read->end < words.size()) {
    const auto given = process_number(words[read->end]);
    if (!given) return usage({words[read->end], "is no PID", "write gpufence status [PID]"});
    if (read->end + 1 < words.size())
      return usage({words[read->end + 1], "status takes one PID", "see gpufence status -h"});
    pid = *given;
  }

  const bool own = pid == ::getpid();
  const auto process = read_process(pid);
  if (!process) {
    say(process.error());
    return kNothing;
  }
  Standing standing = standing_of(*process, own ? environment : process->environment);
  // A shell into which the settings were brought later, or one that took itself out. `run` becomes what it
  // starts, so of that one the parent is outside by nature.
  const std::string own_run = '-' + std::to_string(::getpid());
  const bool started_by_run =
      standing.run.size() > own_run.size() &&
      standing.run.compare(standing.run.size() - own_run.size(), own_run.size(), own_run) == 0;
  if (own && !started_by_run)
    if (const auto parent = read_process(::getppid());
        parent && parent->gates.empty() != process->gates.empty())
      standing.notes.push_back({"pid " + std::to_string(parent->pid) + " (" + parent->program + ')',
                                parent->gates.empty() ? "which started this, is not fenced itself"
                                                      : "which started this, is fenced itself",
                                ""});
  std::string text;
  if (json) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    nlohmann::ordered_json out;
    out["schema"] = 1;
    out["host"] = host.data();
    out["pid"] = own ? nlohmann::json(nullptr) : nlohmann::json(pid);
    add_to(out, standing);
    text = out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  } else {
    text = text_of(standing);
  }
  const int printed = print(text);
  return printed != kDone ? printed : standing.fenced == Fenced::yes ? kDone : kNothing;
}

}  // namespace gpufence::command
