// `gpufence last`: what the last run had to say, and the reports of its processes, made here for those that
// could not make their own.
#include <algorithm>
#include <array>
#include <string>

#include <nlohmann/json.hpp>

#include "journal/run_directory.h"
#include "policies/size.h"
#include "tools/gpufence/command.h"
#include "tools/gpufence/options.h"
#include "tools/gpufence/past_run.h"
#include "tools/gpufence/process.h"
#include "tools/gpufence/subcommands.h"

namespace gpufence::command {
namespace {

constexpr std::array kOptions{
    OptionSpec{0, "json", "", "as JSON, with stable keys"},
    OptionSpec{'h', "help", "", "this text"},
};

constexpr std::size_t kMostReports = 10;

std::string counted(std::size_t number, const char* one, const char* many) {
  return std::to_string(number) + ' ' + (number == 1 ? one : many);
}

std::string text_of(const PastRun& run) {
  std::string text = "run " + run.name;
  if (!run.reports.empty()) {
    text += ", " + counted(run.reports.size(), "process", "processes");
    if (run.reports.front().began_ns != 0) text += ", " + journal::time_text(run.reports.front().began_ns);
  }
  text += '\n';
  for (const FoundOnce& finding : run.findings) {
    const journal::Record& first = finding.first;
    text += "gpufence[" + std::to_string(first.pid) + "] " + first.code + ' ' + first.severity + ": " +
            escaped(first.message + first.stack);
    if (finding.count > 1) text += " (×" + std::to_string(finding.count);
    if (finding.pids.size() > 1) {
      text += std::string(finding.count > 1 ? ", in " : " (in ") + std::to_string(finding.pids.size()) +
              " processes";
      if (finding.bytes) text += ", " + policies::format_size(*finding.bytes) + " together";
    }
    if (finding.count > 1 || finding.pids.size() > 1) text += ')';
    text += '\n';
  }
  for (std::size_t i = 0; i < std::min(run.reports.size(), kMostReports); ++i) {
    journal::Report report = run.reports[i];
    report.program = escaped(report.program);
    text += journal::to_text(report);
  }
  if (run.reports.size() > kMostReports)
    text += counted(run.reports.size() - kMostReports, "more process", "more processes") + ": --json\n";
  return text;
}

std::string json_text(const PastRun& run) {
  using nlohmann::ordered_json;
  ordered_json out = {{"schema", 1},
                      {"run_id", run.name},
                      {"findings", ordered_json::array()},
                      {"processes", ordered_json::array()}};
  for (const FoundOnce& finding : run.findings) {
    ordered_json one = ordered_json::parse(finding.first.line);
    one["count"] = finding.count;
    one["processes"] = finding.pids.size();
    one["bytes_together"] = finding.bytes ? ordered_json(*finding.bytes) : ordered_json(nullptr);
    out["findings"].push_back(std::move(one));
  }
  for (const journal::Report& report : run.reports)
    out["processes"].push_back(ordered_json::parse(journal::to_json_line(report)));
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

// The name of the run that a word means: its whole name, the one that begins so, or one of its processes.
std::optional<std::string> run_meant(const std::string& word, const std::string& directory,
                                     const std::vector<std::string>& runs) {
  for (const std::string& run : runs)
    if (run == word) return run;
  if (journal::is_run_name(word) && word.find('/') != std::string::npos &&
      std::find(runs.begin(), runs.end(), word.substr(0, word.find('/'))) != runs.end())
    return word;
  if (const auto pid = process_number(word)) return run_of_process(directory, runs, *pid);
  for (const std::string& run : runs)
    if (!word.empty() && run.starts_with(word)) return run;
  return std::nullopt;
}

}  // namespace

std::string last_help() {
  return "gpufence last [--json] [RUN|PID]   findings and report of the last run that had something to say, "
         "or "
         "of\n                                   that one; exit status 1: there is none\n" +
         help_of(kOptions);
}

int last(std::span<const std::string> words, const Environment& environment) {
  const auto failed = [](int status, const Error& error) {
    say(error);
    return status;
  };
  const auto read = read_options(kOptions, words, "gpufence last -h");
  if (!read) return failed(kUsage, read.error());
  bool json = false;
  for (const GivenOption& given : read->given) {
    if (given.spec->name == "json") json = true;
    if (given.spec->name == "help") return print(last_help());
  }
  if (words.size() > read->end + 1)
    return failed(kUsage, {words[read->end + 1], "last takes one run or PID", "see gpufence last -h"});

  const std::string directory = runs_directory(environment);
  if (directory.empty())
    return failed(kNothing, {"last", "neither XDG_STATE_HOME nor HOME names a directory", "set one of them"});
  const std::vector<std::string> runs = past_runs(directory);
  std::optional<std::string> name;
  if (read->end < words.size()) {
    name = run_meant(words[read->end], directory, runs);
    if (!name)
      return failed(kNothing, {words[read->end], "no such run has left anything in " + directory,
                               "see the names there, or leave it out for the last one"});
  } else if (!runs.empty()) {
    name = runs.front();
  }
  const PastRun run = name ? read_run(directory, *name) : PastRun{};
  if (run.findings.empty() && run.reports.empty())
    return failed(kNothing, {"last", "no run has left anything in " + directory,
                             "start a program with gpufence run --report"});
  return print(json ? json_text(run) : text_of(run));
}

}  // namespace gpufence::command
