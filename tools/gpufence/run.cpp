// `gpufence run`: works out the plan, puts it into the environment and becomes the program. Every refusal
// comes before the exec; --dry-run takes the same way and stops one step short of it.
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "journal/run_directory.h"
#include "tools/gpufence/command.h"
#include "tools/gpufence/parent.h"
#include "tools/gpufence/past_run.h"
#include "tools/gpufence/place.h"
#include "tools/gpufence/plan.h"
#include "tools/gpufence/preload.h"
#include "tools/gpufence/program.h"
#include "tools/gpufence/remappable.h"
#include "tools/gpufence/run_options.h"
#include "tools/gpufence/simulable.h"
#include "tools/gpufence/simulation.h"
#include "tools/gpufence/subcommands.h"

namespace gpufence::command {
namespace {

int refuse(const Refusal& refusal) {
  say(refusal.error);
  return refusal.status;
}

int refuse(const Error& error) {
  return refuse(Refusal{kFailed, error});
}

// "20301130-184501-12345": sorts by time, and the pid makes it this host's only one. A run inside a run
// belongs to both, so its name begins with the outer one's.
std::string run_name(const Environment& environment) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 32> stamp{};
  std::strftime(stamp.data(), stamp.size(), "%Y%m%d-%H%M%S", &local);
  const std::string own = std::string(stamp.data()) + '-' + std::to_string(::getpid());
  const auto outer = environment.get_nonempty("GPUFENCE_RUN");
  const std::string both = outer ? *outer + '/' + own : own;
  return journal::is_run_name(both) ? both : own;
}

// Where a new file of this path comes to lie: behind a link that leads to nothing yet, what it leads to.
std::filesystem::path target_of(std::filesystem::path path) {
  for (int links = 0; links < 40; ++links) {
    std::error_code failed;
    const auto target = std::filesystem::read_symlink(path, failed);
    if (failed) return path;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

// The absolute path of a file that can be written to. Nothing is created: a program that never calls CUDA
// has no report, and should leave no empty file.
tl::expected<std::string, Error> output_path(const std::string& option, const std::string& file,
                                             bool dry_run) {
  const std::string what = option + ' ' + file;
  const auto unwritable = [&](int reason) {
    return tl::unexpected(
        Error{what, std::string("can't be written (") + std::strerror(reason) + ')', "write another path"});
  };
  std::error_code failed;
  const std::string path = std::filesystem::absolute(file, failed).string();
  if (failed) return tl::unexpected(Error{what, failed.message(), "write an absolute path"});
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return unwritable(errno);
    const std::string directory = target_of(path).parent_path().string();
    if (::stat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        ::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
      return tl::unexpected(
          Error{what, directory + " is no directory that can be written to", "write another path"});
    return path;
  }
  if (S_ISDIR(status.st_mode))
    return tl::unexpected(Error{what, "is a directory", "write the path of a file"});
  // Who reads a FIFO would see its end when the dry run closes it.
  if (dry_run && S_ISFIFO(status.st_mode)) return path;
  const int report = ::open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (report < 0 && errno == ENXIO && S_ISFIFO(status.st_mode))
    return tl::unexpected(Error{what, "is a FIFO that has no reader", "start the reader first"});
  if (report < 0) return errno == EWOULDBLOCK ? tl::expected<std::string, Error>(path) : unwritable(errno);
  if (S_ISFIFO(status.st_mode)) {
    // Closed here, its reader would end before the report. So the program holds it open, out of the way of
    // the numbers that programs count on.
    if (::fcntl(report, F_DUPFD, 200) < 0) (void)::fcntl(report, F_DUPFD, 10);
  } else if (!S_ISREG(status.st_mode) && ::write(report, "", 0) < 0) {
    // No bytes, and yet /dev/full says that it takes none.
    const int reason = errno;
    ::close(report);
    return unwritable(reason);
  }
  ::close(report);
  return path;
}

// As output_path(), of a path whose %p, %u, %h, %j and %t each process replaces by its own.
tl::expected<std::string, Error> log_path(const std::string& file, bool dry_run) {
  std::size_t first = std::string::npos;
  for (std::size_t at = file.find('%'); at != std::string::npos; at = file.find('%', at + 2)) {
    if (at + 1 == file.size() || std::strchr("puhjt%", file[at + 1]) == nullptr)
      return tl::unexpected(Error{"--log " + file, "what " + file.substr(at, 2) + " stands for is not known",
                                  "write %p, %u, %h, %j or %t, and %% for a percent sign"});
    first = std::min(first, at);
  }
  if (first == std::string::npos) return output_path("--log", file, dry_run);
  // Which file it will be is not known here, and perhaps not even in which directory.
  std::error_code failed;
  const std::string path = std::filesystem::absolute(file, failed).string();
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (failed || (directory.find('%') == std::string::npos &&
                 ::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0))
    return tl::unexpected(
        Error{"--log " + file, directory + " is no directory that can be written to", "write another path"});
  return path;
}

std::string quoted_for_shell(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::strchr("_-./:,=+@%", c) != nullptr;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + '\'';
}

std::string cap_text(const Cap& cap, int position, std::uint64_t card) {
  const policies::Amount amount = cap.rules.at(position);
  if (amount.kind == policies::Amount::Kind::unlimited) return {};
  std::string text = card == 0
                         ? policies::describe(amount)
                         : policies::format_size(amount.resolve(card)) + " of " + policies::format_size(card);
  return text + " (" + cap.decided_by(position, card) + ')';
}

std::string gpus_text(const Plan& plan) {
  std::string text;
  if (plan.visible && plan.visible->empty()) {
    text += "GPUs: none (" + plan.visible_by + ")\n";
  } else if (plan.visible) {
    text +=
        "GPUs, " + plan.visible_by + (plan.view ? ", numbering " + plan.numbering : std::string{}) + ":\n";
    for (std::size_t at = 0; at < plan.visible->size(); ++at) {
      const auto position = static_cast<int>(at);
      const policies::Gpu& gpu = plan.machine[(*plan.visible)[at]];
      std::string line = "  " + policies::full_name(position, gpu);
      const std::string run = cap_text(plan.run_cap, position, gpu.memory);
      const std::string process = cap_text(plan.process_cap, position, gpu.memory);
      if (!run.empty()) line += ": cap " + run;
      if (!process.empty()) line += (run.empty() ? ": " : "; ") + std::string("a process ") + process;
      if (run.empty() && process.empty()) line += ": no cap";
      text += line + '\n';
    }
  } else {
    text += plan.no_host ? "GPUs: unknown, " + plan.no_host->why + '\n'
                         : std::string("GPUs: as without gpufence; CUDA's own order could not be asked\n");
    if (plan.run_cap.rules.caps_anything())
      text += "  cap " + policies::to_text(plan.run_cap.rules) + " (--gpu-mem)\n";
    if (plan.process_cap.rules.caps_anything())
      text += "  a process " + policies::to_text(plan.process_cap.rules) + " (--gpu-mem-per-process)\n";
  }
  if (plan.remap && plan.remap->wrap)
    text += "every ordinal means itself modulo the number of GPUs (" + plan.remap_by + ")\n";
  else if (plan.remap)
    for (const auto& [asked, means] : plan.remap->pairs)
      text += "ordinal " + std::to_string(asked) + " means CUDA " + std::to_string(means) + " (" +
              plan.remap_by + ")\n";
  return text;
}

std::string plan_text(const Plan& plan, const Environment& program_environment, const Program& program) {
  std::string text = gpus_text(plan) + "environment:\n";
  for (const auto& [name, value] : plan.settings)
    text += value ? "  " + name + '=' + quoted_for_shell(program_environment.get(name).value_or("")) + '\n'
                  : "  " + name + " unset\n";
  std::string line = "exec: " + quoted_for_shell(program.path);
  for (std::size_t i = 1; i < program.words.size(); ++i) line += ' ' + quoted_for_shell(program.words[i]);
  return text + line + '\n';
}

// Said before the start, so that nobody hunts an error that the simulated machine will answer with.
void warn_of_obstacles(const Program& program, const Simulation& simulation, const Environment& environment,
                       std::vector<Error>& warnings) {
  constexpr std::size_t kMost = 5;
  const std::string& name = program.words.front();
  Environment its = environment;
  its.set("GPUFENCE_SIM", simulation.spec);
  its.set("LD_LIBRARY_PATH", library_path(simulation, environment));
  const Simulability found = simulability(parts_of(program, "the program", its), simulation.directory, its);
  if (!found.possible) warnings.push_back({name, "can't be simulated: " + found.why, found.remedy});
  for (std::size_t i = 0; i < found.obstacles.size() && i < kMost; ++i)
    warnings.push_back(
        {name, "can't be simulated in full: " + describe(found.obstacles[i]), found.obstacles[i].remedy});
  if (found.obstacles.size() > kMost)
    warnings.push_back({name,
                        "can't be simulated in full: " + std::to_string(found.obstacles.size() - kMost) +
                            " more kernels or calls",
                        "see gpufence inspect " + name});
}

// Returns only if it failed, with the status that says why.
int become(const Program& program, Environment& environment) {
  std::vector<std::string> words = program.words;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<char*> variables = environment.pointers();
  ::execve(program.path.c_str(), arguments.data(), variables.data());
  int reason = errno;

  if (reason == ENOEXEC && program.image == "/bin/sh") {
    // As execvp does: a script without a first line of its own.
    std::string shell = "/bin/sh";
    std::string script = program.path;
    std::vector<char*> shell_arguments{shell.data(), script.data()};
    shell_arguments.insert(shell_arguments.end(), arguments.begin() + 1, arguments.end());
    ::execve(shell.c_str(), shell_arguments.data(), variables.data());
    reason = errno;
  }
  const std::string& name = program.words.front();
  switch (reason) {
    case ENOENT:  // the program itself was found
      return refuse(Refusal{kCannotRun,
                            {name, "its interpreter or loader doesn't exist",
                             "look at its first line, or run readelf -l on it"}});
    case ENOEXEC:
      return refuse(
          Refusal{kCannotRun, {name, "is in no format that this machine runs", "build or copy it again"}});
    case E2BIG:
      return refuse(Refusal{kCannotRun, {name, "arguments and environment are too long", "shorten them"}});
    default:
      return refuse(Refusal{kCannotRun,
                            {name, std::string("can't be executed (") + std::strerror(reason) + ')',
                             "look at its permissions"}});
  }
}

// Whether a process of the run made a finding that --fail-on means, and which.
std::string found(const PastRun& run, const std::string& fail_on, const std::string& ignored) {
  const auto rank = [](std::string_view severity) {
    return severity == "error" ? 2 : severity == "warning" ? 1 : severity == "info" ? 0 : -1;
  };
  const int least = rank(fail_on);
  for (const FoundOnce& finding : run.findings) {
    const journal::Record& first = finding.first;
    if (least >= 0 ? rank(first.severity) >= least : first.code == fail_on) return first.code;
  }
  // Also one whose record a full disk swallowed.
  for (const journal::Report& report : run.reports) {
    if (report.findings.contains(fail_on) && ignored.find(fail_on) == std::string::npos) return fail_on;
  }
  return {};
}

// The program as a child, and what it came to. Its findings must have a place, or nobody could fail on them.
int run_and_look(const Program& program, Environment& environment, const RunOptions& options,
                 const std::string& name) {
  const std::string what = "--fail-on " + *options.fail_on;
  const std::string runs = runs_directory(environment);
  if (runs.empty())
    return refuse(
        Error{what, "neither XDG_STATE_HOME nor HOME says where findings are kept", "set one of them"});
  const std::string directory = runs + '/' + name;
  if (!journal::make_private_directory(directory))
    return refuse(Error{what,
                        directory + " can't be made (" + std::strerror(errno) + "), where findings are kept",
                        "set XDG_STATE_HOME to a directory that can be written to"});
  // Where every process of the run notes that it found something, though a disk be full or its HOME another.
  journal::RunShare* share = journal::RunShare::open(directory);
  if (share == nullptr && journal::is_local_directory(directory)) {
    journal::remove_if_empty(runs, directory);
    return refuse(Error{what, "findings can't be kept in " + directory + ": no space, or no more files",
                        "make room, or set XDG_STATE_HOME to another disk"});
  }
  environment.set("GPUFENCE_FAIL_ON", directory);
  const Ended ended = wait_for_child([&] { return become(program, environment); });
  std::string code;
  if (share != nullptr) {
    const std::string& asked = *options.fail_on;
    code = asked.starts_with("GF") ? share->made(asked, journal::Severity::info)
                                   : share->made("", asked == "info"      ? journal::Severity::info
                                                     : asked == "warning" ? journal::Severity::warning
                                                                          : journal::Severity::error);
    if (share->made("", journal::Severity::info).empty()) ::unlink((directory + "/share").c_str());
  }
  if (code.empty()) code = found(read_run(runs, name), *options.fail_on, options.ignore.value_or(""));
  journal::remove_if_empty(runs, directory);
  if (ended.signal != 0 || ended.status != 0 || code.empty()) return end_as(ended);
  say({what, "a process of the run made " + code, "see gpufence last " + name});
  return kFound;
}

}  // namespace

int run(std::span<const std::string> words, const Environment& caller) {
  auto read = read_run_options(words);
  if (!read) return refuse(read.error());
  const RunOptions& options = *read;
  if (options.help || options.help_all || options.version) {
    return print(options.version ? version_text() : options.help_all ? all_help() : run_help(), kFailed);
  }
  const bool quiet = options.loudness == "error";
  Environment environment = caller;
  for (const std::string& setting : options.env)
    environment.set(setting.substr(0, setting.find('=')), setting.substr(setting.find('=') + 1));

  const auto simulation = open_simulation(options.sim, environment);
  if (!simulation) return refuse(simulation.error());
  NvmlSource nvml;
  std::string driver = "libcuda.so.1";
  Environment asking = environment;
  if (*simulation) {
    nvml = {(*simulation)->directory + "/libnvidia-ml.so.1", true};
    driver = (*simulation)->directory + "/libcuda.so.1";
    asking.set("GPUFENCE_SIM", (*simulation)->spec);
  }
  // Whatever of gpufence was preloaded into this process must show it the host, not a view.
  ::setenv("GPUFENCE", "off", 1);
  const auto host = read_host(nvml, Detail::identities);
  if (*simulation && !host) return refuse(Error{(*simulation)->name, host.error().why, host.error().remedy});

  auto plan = make_plan(options, environment, host,
                        [&](Order order) { return ask_cuda_order(order, asking, driver); });
  if (!plan) return refuse(plan.error());
  if (*simulation) {
    plan->settings.emplace_back("GPUFENCE_SIM", (*simulation)->spec);
    plan->settings.emplace_back("LD_LIBRARY_PATH", library_path(**simulation, environment));
    if (plan->needs_fence.empty()) plan->needs_fence = "--sim";
  }
  if (options.report_file) {
    const auto path = output_path("--report-file", *options.report_file, options.dry_run);
    if (!path) return refuse(path.error());
    plan->settings.emplace_back("GPUFENCE_REPORT_FILE", *path);
  }
  if (options.log) {
    const auto path = log_path(*options.log, options.dry_run);
    if (!path) return refuse(path.error());
    plan->settings.emplace_back("GPUFENCE_LOG", *path);
  }
  const std::string run_id = run_name(environment);
  plan->settings.emplace_back("GPUFENCE_RUN", run_id);
  // Of a program that is not watched nothing is found, and nothing found is what CI takes for success.
  if (options.fail_on == "GF208" && !options.report && !options.report_file)
    return refuse(
        Error{"--fail-on GF208", "it is made with a report alone", "add --report or --report-file FILE"});
  if (options.fail_on && plan->needs_fence.empty()) plan->needs_fence = "--fail-on";

  const auto program =
      find_program(options.program, environment, *simulation ? (*simulation)->directory : "");
  if (!program) return refuse(program.error());
  const std::string& name = options.program.front();
  const auto unfenced = [&](const std::string& why, const std::string& remedy) -> bool {
    if (!plan->needs_fence.empty()) {
      say({name, "can't be fenced, which " + plan->needs_fence + " needs: " + why, remedy});
      return false;
    }
    plan->warnings.push_back({name, "runs unfenced: " + why, remedy});
    return true;
  };
  bool preload = true;
  if (program->unfenceable) {
    if (!unfenced(program->unfenceable->why, program->unfenceable->remedy)) return kCannotRun;
    // Others start children that can be fenced, so the preload stays.
    preload = !program->unfenceable->preload_harms;
  }
  if (*simulation && program->unsimulable)
    return refuse(
        Refusal{kCannotRun,
                {name, "can't be simulated: " + program->unsimulable->why, program->unsimulable->remedy}});
  if (*simulation) warn_of_obstacles(*program, **simulation, environment, plan->warnings);
  if (plan->remap) {
    if (const auto why = why_not_remappable(*program, environment))
      return refuse(Refusal{kCannotRun,
                            {name, plan->remap_by + " can't remap its ordinals: " + why->why, why->remedy}});
  }
  const auto gate = find_gate(own_directory());
  if (!gate) {
    if (gate.error().status == kFailed) return refuse(gate.error());
    // One line is enough for a program that runs unfenced anyway.
    if (!program->unfenceable &&
        !unfenced(gate.error().error.what + ' ' + gate.error().error.why, gate.error().error.remedy))
      return kCannotRun;
    preload = false;
  }
  if (preload) {
    // A core that was itself built with a sanitizer asks for its runtime in every program.
    std::string sanitizer = program->sanitizer;
    if (sanitizer.empty())
      sanitizer = sanitizer_of(gate->substr(0, gate->rfind('/')) + "/libgpufence-core.so");
    plan->settings.insert(
        plan->settings.begin(),
        {"LD_PRELOAD", preload_value(*gate, sanitizer, environment.get("LD_PRELOAD").value_or(""))});
  }

  for (const auto& [variable, value] : plan->settings) {
    if (value)
      environment.set(variable, *value);
    else
      environment.unset(variable);
  }
  if (!quiet)
    for (const Error& warning : plan->warnings) say(warning);
  if (options.dry_run) {
    return print(plan_text(*plan, environment, *program), kFailed);
  }
  if (options.fail_on) return run_and_look(*program, environment, options, run_id);
  return become(*program, environment);
}

}  // namespace gpufence::command
