// The command: picks the subcommand and knows nothing else.
#include <unistd.h>

#include <string>
#include <vector>

#include "tools/gpufence/command.h"
#include "tools/gpufence/cuda_order.h"
#include "tools/gpufence/environment.h"
#include "tools/gpufence/subcommands.h"

namespace gpufence::command {

namespace {

std::string help_text() {
  return "gpufence run [OPTIONS] [--] PROGRAM [ARG…]   start a program inside the fence\n"
         "gpufence status [--json] [PID]                am I fenced, how, with which view and cap\n"
         "gpufence last [--json] [RUN|PID]              findings and report of the last run, also of a "
         "killed "
         "one\n"
         "gpufence explain [CODE]                       what a finding means, what to do, when it is "
         "harmless\n"
         "gpufence devices [--json]                     every GPU: numbers, names, memory, who holds it\n"
         "gpufence inspect [--json] PROGRAM|PID         how it reaches CUDA; can it be fenced, simulated\n"
         "gpufence hooks [--json] [NAME…]               every entry point: hooked, or why not\n"
         "gpufence SUBCOMMAND -h                        its options;  --help-all: all of them;  -V: "
         "version\n";
}

constexpr const char* kExamples =
    "gpufence run -d 2,0 -- python3 train.py           host GPUs 2 and 0, as CUDA 0 and 1\n"
    "gpufence run -d 1 -m 8GiB --report -- ./app       8 GiB of host GPU 1, and a report at the end\n"
    "gpufence run --sim 4 -- ./app                     on four simulated GPUs, no driver needed\n";

int start(const std::vector<std::string>& words, const Environment& environment) {
  if (words.empty()) return print(kExamples);
  const std::span<const std::string> rest = std::span(words).subspan(1);
  const std::string& first = words.front();
  if (first == "run") return run(rest, environment);
  if (first == "devices") return devices(rest, environment);
  if (first == "status") return status(rest, environment);
  if (first == "last") return last(rest, environment);
  if (first == "explain") return explain(rest);
  if (first == "inspect") return inspect(rest, environment);
  if (first == "hooks") return hooks(rest, environment);
  if (first == kCudaOrderCommand) return answer_cuda_order(rest);
  if (first == "-h" || first == "--help") return print(help_text());
  if (first == "--help-all") return print(all_help());
  if (first == "-V" || first == "--version") return print(version_text());
  say({first, first[0] == '-' ? "this version has no such option" : "this version has no such subcommand",
       "see gpufence -h; a program is started by gpufence run -- PROGRAM"});
  return kUsage;
}

}  // namespace
}  // namespace gpufence::command

int main(int argc, char** argv) {
  using namespace gpufence::command;
  fill_standard_descriptors();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return start(words, Environment(environ));
}
