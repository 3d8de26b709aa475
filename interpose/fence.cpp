// See fence.h. Arming happens at the first intercepted call, in whichever thread comes first; several may, so
// the rules are built aside and published with one compare-and-swap.
#include "fence.h"

#include <pthread.h>
#include <unistd.h>

#include <dlfcn.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "dispatch/dispatch.h"
#include "hooks/choice.h"
#include "hooks/mask.h"
#include "hooks/stores.h"
#include "hooks/watch.h"
#include "journal/log_file.h"
#include "journal/process_file.h"
#include "journal/report.h"
#include "journal/run_directory.h"
#include "journal/write.h"
#include "ledger/scope_path.h"
#include "observe/process.h"

namespace gpufence {
namespace {

using hooks::Rules;
using journal::Severity;

// The journal keeps what the ledger counts; the two know nothing of each other.
static_assert(sizeof(journal::ProcessFile::Counters) == sizeof(ledger::Ledger::Row));
static_assert(sizeof(journal::ProcessFile::Work) == sizeof(observe::Tally::Cell) &&
              journal::kWorkShards == observe::Tally::kShards);

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (from < text.size()) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    parts.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return parts;
}

// Whose a cap can be, and where its amounts stand. The launcher writes what policies say in the same way.
struct CapSource {
  const char* variable;
  const char* option;
  policies::Scope scope;
  bool over_all = false;
};
constexpr CapSource kCapSources[] = {
    {"GPUFENCE_GPU_MEM", "--gpu-mem", policies::Scope::run},
    {"GPUFENCE_GPU_MEM_PER_PROCESS", "--gpu-mem-per-process", policies::Scope::process},
    {"GPUFENCE_GPU_MEM_PER_JOB", "GPUFENCE_GPU_MEM_PER_JOB", policies::Scope::job},
    {"GPUFENCE_GPU_MEM_PER_USER", "GPUFENCE_GPU_MEM_PER_USER", policies::Scope::user},
    {"GPUFENCE_GPU_MEM_TOTAL", "GPUFENCE_GPU_MEM_TOTAL", policies::Scope::run, true},
    {"GPUFENCE_GPU_MEM_TOTAL_PER_JOB", "GPUFENCE_GPU_MEM_TOTAL_PER_JOB", policies::Scope::job, true},
    {"GPUFENCE_GPU_MEM_TOTAL_PER_USER", "GPUFENCE_GPU_MEM_TOTAL_PER_USER", policies::Scope::user, true},
};

constexpr const char* kGroupCap = "GPUFENCE_GPU_MEM_PER_GROUP";  // "students=40GiB": of a group of users
constexpr const char* kOuterCaps = "GPUFENCE_GPU_MEM_OUTER";     // of the runs around this one

// design §2: what happens when the fence can't do its work. Allowed only if nobody asked for a view or a cap.
bool deny_on_error(const Environment& environment) {
  if (::access("/etc/gpufence/require", F_OK) == 0) return true;
  const std::optional<std::string> asked = environment("GPUFENCE_ON_ERROR");
  if (asked && *asked == "deny") return true;
  if (asked && !asked->empty()) return false;
  // An empty view is one without GPUs; other settings mean nothing when they are empty.
  const auto asks = [&](const char* name) { return !environment(name).value_or("").empty(); };
  return environment("GPUFENCE_VIEW") || asks("GPUFENCE_DEVICES") || asks(kGroupCap) || asks(kOuterCaps) ||
         std::any_of(std::begin(kCapSources), std::end(kCapSources),
                     [&](const CapSource& source) { return asks(source.variable); });
}

Severity stderr_level(const std::optional<std::string>& text) {
  if (!text || *text == "warning") return Severity::warning;
  if (*text == "info") return Severity::info;
  if (*text == "error") return Severity::error;
  return *text == "off" ? Severity::off : Severity::warning;
}

bool in_color(const Environment& environment) {
  const std::string asked = environment("GPUFENCE_COLOR").value_or("auto");
  if (asked != "auto") return asked == "always";
  return environment("NO_COLOR").value_or("").empty() && environment("TERM").value_or("dumb") != "dumb" &&
         ::isatty(STDERR_FILENO) == 1;
}

std::string local_time(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &local)};
}

// The user's name as /etc/passwd has it, else the number: the C library's own look-up may load other
// libraries, ask a daemon and wait, which is not for us to do here.
std::string user_name() {
  const std::string id = std::to_string(::geteuid());
  const std::string passwd = observe::read_file("/etc/passwd");
  for (std::size_t at = 0, end = 0; at < passwd.size(); at = end + 1) {
    end = std::min(passwd.find('\n', at), passwd.size());
    const std::string line = passwd.substr(at, end - at);
    const std::size_t name = line.find(':');
    const std::size_t password = name == std::string::npos ? name : line.find(':', name + 1);
    if (password == std::string::npos) continue;
    if (line.compare(password + 1, id.size() + 1, id + ':') == 0) return line.substr(0, name);
  }
  return id;
}

journal::Report make_report(const std::string& run_id);

journal::Settings journal_settings(const Environment& environment) {
  journal::Settings settings;
  settings.stderr_level = stderr_level(environment("GPUFENCE_STDERR"));
  settings.json = environment("GPUFENCE_LOG_FORMAT") == "json";
  settings.color = in_color(environment);
  for (const std::string& code : split(environment("GPUFENCE_IGNORE").value_or("")))
    settings.ignored.insert(code);
  for (const char* name : {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK"}) {
    if (!settings.rank.empty()) break;
    settings.rank = environment(name).value_or("");
  }
  const std::string pid = std::to_string(::getpid());
  settings.run_id = environment("GPUFENCE_RUN").value_or("");
  // Without the launcher a process is a run of its own.
  if (!journal::is_run_name(settings.run_id)) settings.run_id = local_time("%Y%m%d-%H%M%S-") + pid;
  settings.state_directory = journal::state_directory(environment("XDG_STATE_HOME"), environment("HOME"));
  if (!settings.state_directory.empty())
    settings.run_directory = settings.state_directory + '/' + settings.run_id;
  // Somebody waits to hear of findings: wherever this process would keep its own, these go there.
  if (const auto asked = environment("GPUFENCE_FAIL_ON"); asked && asked->starts_with('/')) {
    settings.run_directory = *asked;
    settings.state_directory = asked->substr(0, asked->rfind('/'));
    settings.must_keep = true;
  }
  settings.report = [run_id = settings.run_id] { return make_report(run_id); };
  settings.keep_work = [](void* work) {
    const hooks::Visible* seen = hooks::have_rules() ? hooks::visible() : nullptr;
    if (seen != nullptr && seen->tally != nullptr && seen->tally->devices() <= journal::kMostRows)
      seen->tally->keep_in(static_cast<observe::Tally::Cell*>(work));
  };
  settings.report_wanted =
      environment("GPUFENCE_REPORT") == "stderr" || !environment("GPUFENCE_REPORT_FILE").value_or("").empty();
  if (const auto log = environment("GPUFENCE_LOG"); log && !log->empty()) {
    std::array<char, 256> host{};
    (void)::gethostname(host.data(), host.size() - 1);
    std::string job = environment("SLURM_JOB_ID").value_or("");
    if (job.empty()) job = environment("GPUFENCE_JOB").value_or("none");
    settings.log =
        journal::expand_path(*log, {pid, user_name(), host.data(), job, local_time("%Y%m%d-%H%M%S")});
  }
  return settings;
}

// What was set at the start counts: a program that has cleared or replaced its environment since must not
// lose its cap by that. What it set itself counts where nothing was. Only our own names are asked for.
Environment process_environment() {
  return [&initial = observe::own_initial_environment()](const char* name) -> std::optional<std::string> {
    if (std::strncmp(name, "GPUFENCE", 8) == 0) {
      if (std::optional<std::string> setting = initial.get(name)) return setting;
    }
    const char* value = std::getenv(name);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
}

// ---- The exit report
// --------------------------------------------------------------------------------------------

// Written once by the thread that publishes the rules; leaked, since the report runs at exit.
struct Armed {
  Reporting reporting;
  std::string run_id;
};
constinit std::atomic<const Armed*> armed{nullptr};
// Age of the process at its first CUDA call; 0: none yet. A process that only asks NVML has nothing to
// report.
constinit std::atomic<std::uint64_t> first_cuda_call_ns{0};
constinit std::atomic<pid_t> reporting_pid{0};

std::string program_text() {
  std::string line = observe::read_file("/proc/self/cmdline");
  while (!line.empty() && line.back() == '\0') line.pop_back();
  for (char& c : line) {
    if (c == '\0' || c == '\n') c = ' ';
  }
  line = journal::on_one_line(std::move(line));
  if (line.size() > 200) line = line.substr(0, 200) + "…";
  return line;
}

// By the kernel's list of what is mapped. The loader's own needs its lock, which a thread may hold that waits
// for this one: in a library's constructor, or a function that dl_iterate_phdr calls.
std::string how_text() {
  const std::string maps = observe::read_file("/proc/self/maps");
  std::string runtimes;
  for (const char* runtime : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
    if (maps.find('/' + std::string(runtime)) == std::string::npos) continue;
    runtimes += std::string(runtimes.empty() ? "" : ", ") + runtime;
  }
  return runtimes.empty() ? "driver calls (the runtime, if any, is linked statically)"
                          : "driver calls and the shared runtime (" + runtimes + ")";
}

journal::Report make_report(const std::string& run_id) {
  journal::Report report;
  report.program = program_text();
  report.run_id = run_id;
  report.pid = getpid();
  report.duration_ns = observe::process_age_ns();
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  report.began_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL +
                    static_cast<std::uint64_t>(now.tv_nsec) - report.duration_ns;
  report.fenced_after_ns = first_cuda_call_ns.load();
  report.how = how_text();
  report.reach = "this process";
  if (!hooks::have_rules()) return report;  // what the settings themselves gave rise to
  const Rules& to = hooks::rules();
  if (!to.caps.empty()) report.reach = "the processes of a cap's scope that share " + to.books.directory;
  if (const hooks::Visible* seen = hooks::visible(); seen != nullptr) {
    for (const observe::Device& device : seen->devices) {
      const auto at = static_cast<std::size_t>(device.ordinal);
      const ledger::Balance balance = seen->ledger->balance(at);
      journal::ReportRow row;
      row.ordinal = device.ordinal;
      row.host_index = device.host_index;
      row.uuid = device.uuid;
      row.pci = device.pci;
      row.name = device.name;
      row.full_name = hooks::full_name(device);
      row.counted = (to.needs & dispatch::kMemory) != 0;
      row.peak = balance.peak;
      row.peak_text = policies::format_size(balance.peak);
      row.allocations = balance.allocations;
      row.refusals = balance.refusals;
      if (const policies::Cap* cap = seen->cap(device.ordinal); cap != nullptr) {
        row.cap = cap->bytes;
        row.cap_text = policies::format_size(cap->bytes);
        row.cap_rule = cap->rule;
      }
      const hooks::Visible::Chosen& chosen = seen->chosen[at];
      if (const char* api = chosen.api.load(); api != nullptr)
        row.chosen_by = observe::text({api, chosen.caller.load()});
      if (seen->tally != nullptr) {
        const observe::Work work = seen->tally->work(at);
        row.launches = work.launches;
        row.copies = work.copies;
        row.threads = work.threads;
      }
      report.rows.push_back(std::move(row));
    }
    if (seen->ledger->underflows() > 0) {
      report.findings["GF503"] = seen->ledger->underflows();
    }
  }
  for (const auto& [code, count] : to.journal->counts()) report.findings[code] += count;
  if (const std::string* why = to.deny.load(); why != nullptr)
    report.notes.push_back("CUDA was denied: " + *why);
  if (to.remap)
    report.notes.push_back("the program's ordinals are remapped (" + policies::to_text(*to.remap) +
                           "); GPUs are named by CUDA's own");
  if (!to.caps.empty()) {
    report.notes.emplace_back("caps don't count what contexts and code themselves take, and imported memory");
  }
  return report;
}

void at_exit() noexcept {
  const Armed* from = armed.load(std::memory_order_acquire);
  if (from == nullptr || reporting_pid.load() != getpid()) return;
  try {
    hooks::check_mask_at_exit();
    hooks::say_unused_context();
    hooks::rules().journal->close();
    if (!from->reporting.to_stderr && from->reporting.file.empty()) return;
    if (first_cuda_call_ns.load() == 0) return;
    journal::Report report = make_report(from->run_id);
    journal::note_idle_gpus(report);
    if (from->reporting.to_stderr) journal::write_quietly(2, journal::to_text(report));
    if (from->reporting.file.empty()) return;
    // One line a process, appended: the processes of a run share the file.
    if (!journal::append_line(from->reporting.file, journal::to_json_line(report), 0644)) {
      const std::string reason = std::strerror(errno);
      hooks::say("GF502", Severity::error, [&] {
        return "the report could not be written to " + from->reporting.file + ": " + reason;
      });
    }
  } catch (...) {
    // No memory left for a report: the program's exit status is not ours to change.
  }
}

// Only fork runs this: a child made by vfork or posix_spawn is about to run another program.
void say_forked() noexcept {
  const hooks::Visible* seen = hooks::have_rules() ? hooks::visible() : nullptr;
  if (seen == nullptr || (hooks::rules().needs & dispatch::kFindings) == 0 || hooks::in_dead_child.load())
    return;
  hooks::explain({"GF301", Severity::info, {"fork", observe::outside_libc()}},
                 [](const hooks::Visible& from) {
                   return "forked with CUDA live since " + hooks::started_text(from.started) +
                          ": a child that does not run another program can't use CUDA";
                 });
}

// Books may not be half opened while a fork happens.
void before_fork() noexcept {
  ledger::ScopeBook::before_fork();
}
void in_forking_parent() noexcept {
  ledger::ScopeBook::after_fork();
  say_forked();
}

// CUDA does not live in a forked child, but its exit handlers and locks are inherited.
void in_forked_child() noexcept {
  ledger::ScopeBook::after_fork();
  if (!hooks::have_rules()) return;
  if (hooks::Visible* seen = hooks::visible(); seen != nullptr) {
    seen->ledger->forget_after_fork();
    seen->mapped.forget_after_fork();
    hooks::Stores::get().forget_after_fork();
    hooks::forget_executables_after_fork();
    if (seen->tally != nullptr) seen->tally->forget_after_fork();
    if (seen->owners != nullptr) seen->owners->forget_after_fork();
    hooks::in_dead_child.store((hooks::rules().needs & dispatch::kFindings) != 0);
  } else {
    reporting_pid.store(getpid());  // it may come to use CUDA by itself, then the report is its own
  }
  try {
    hooks::rules().journal->reset_after_fork();
  } catch (...) {
  }
}

// The Slurm job of the cgroup, which a program can't forge, else what the environment says.
std::string job_of(const Environment& environment) {
  const std::string groups = observe::read_file("/proc/self/cgroup");
  for (std::size_t at = groups.find("/job_"); at != std::string::npos; at = groups.find("/job_", at + 1)) {
    const std::size_t from = at + std::strlen("/job_");
    const std::size_t end = groups.find_first_not_of("0123456789", from);
    if (end != from && groups.find("slurm") < at) return groups.substr(from, end - from);
  }
  const std::string slurm = environment("SLURM_JOB_ID").value_or("");
  return !slurm.empty() ? slurm : environment("GPUFENCE_JOB").value_or("");
}

// The run that the launcher named; without it the container, in which all processes are one run; else none.
std::string run_of(const Environment& environment) {
  const std::string named = environment("GPUFENCE_RUN").value_or("");
  if (journal::is_run_name(named)) return named;
  const std::uint64_t container = ledger::container();
  return container != 0 ? "container-" + std::to_string(container) : std::string{};
}

template <class Bad>
void read_caps(const Environment& environment, Rules& rules, const Bad& bad) {
  const auto read = [&](const char* variable, const std::string& text) -> std::optional<policies::CapSpec> {
    const auto amounts = policies::parse_caps(text);
    if (!amounts) {
      bad(std::string(variable) + "=" + text + ": " + amounts.error().text());
      return std::nullopt;
    }
    return amounts->caps_anything() ? std::optional(*amounts) : std::nullopt;
  };
  for (const CapSource& source : kCapSources) {
    const auto text = environment(source.variable);
    if (!text || text->empty()) continue;
    const auto amounts = read(source.variable, *text);
    if (!amounts) continue;
    if (source.over_all && (!amounts->by_position.empty() || !amounts->every ||
                            amounts->every->kind != policies::Amount::Kind::bytes)) {
      bad(std::string(source.variable) + "=" + *text +
          ": a size is meant, 32GiB: it is for all GPUs together");
      continue;
    }
    rules.caps.push_back({*amounts, source.scope, source.option, 0, source.over_all, {}});
  }
  if (const auto text = environment(kGroupCap); text && !text->empty()) {
    const std::size_t equals = text->find('=');
    const std::string name = text->substr(0, equals);
    if (equals == std::string::npos || name.empty()) {
      bad(std::string(kGroupCap) + "=" + *text + ": NAME=SIZE is meant, students=40GiB");
    } else if (const auto amounts = read(kGroupCap, text->substr(equals + 1))) {
      rules.caps.push_back({*amounts, policies::Scope::group, kGroupCap, 0, false, name});
    }
  }
  // Of the runs around this one, from outside, empty where one has none: "8GiB//4GiB".
  unsigned level = 0;
  std::string outer = environment(kOuterCaps).value_or("");
  while (!outer.empty()) {
    ++level;
    const std::size_t end = std::min(outer.find('/'), outer.size());
    if (end != 0)
      if (const auto amounts = read(kOuterCaps, outer.substr(0, end)))
        rules.caps.push_back(
            {*amounts, policies::Scope::run, "--gpu-mem of the outer run", level, false, {}});
    outer.erase(0, end + 1);
  }
  if (rules.caps.empty()) return;
  rules.books.directory = ledger::ledger_directory(environment("GPUFENCE_LEDGER_DIR"));
  rules.books.run = run_of(environment);
  rules.books.job = job_of(environment);
  rules.books.user = ledger::host_user();
  rules.books.may_lack = environment("GPUFENCE_ON_ERROR") == "allow";
}

}  // namespace

Configuration configure(const Environment& environment) {
  Configuration out;
  out.rules = std::make_unique<Rules>();
  Rules& rules = *out.rules;
  journal::Settings settings = journal_settings(environment);
  out.run_id = settings.run_id;
  rules.journal = std::make_unique<journal::Journal>(settings);
  out.reporting.to_stderr = environment("GPUFENCE_REPORT") == "stderr";
  out.reporting.file = environment("GPUFENCE_REPORT_FILE").value_or("");
  if (environment("GPUFENCE") == "off" || environment("GPUFENCE_MODE") == "off") {
    rules.needs = 0;
    out.reporting = {};
    return out;
  }
  const auto bad = [&](const std::string& why) {
    const bool denied = deny_on_error(environment);
    rules.journal->say({"GF502", Severity::error, why + (denied ? "; CUDA is denied" : "; ignored"), why});
    if (!denied || rules.denied_from_start != nullptr) return;
    rules.denied_from_start = std::make_unique<const std::string>(why);
    rules.deny.store(rules.denied_from_start.get());
  };

  for (const auto& [name, known] :
       {std::pair{"GPUFENCE", "off"}, std::pair{"GPUFENCE_MODE", "enforce off"},
        std::pair{"GPUFENCE_ON_ERROR", "deny allow"}, std::pair{"GPUFENCE_NUMBERING", "host view"},
        std::pair{"GPUFENCE_DIAGNOSE", "off default all"}, std::pair{"GPUFENCE_REPORT", "stderr"},
        std::pair{"GPUFENCE_STDERR", "off error warning info"}, std::pair{"GPUFENCE_LOG_FORMAT", "text json"},
        std::pair{"GPUFENCE_COLOR", "auto always never"}}) {
    const auto value = environment(name);
    if (!value || value->empty() ||
        (" " + std::string(known) + " ").find(" " + *value + " ") != std::string::npos)
      continue;
    const std::string why = std::string(name) + "=" + *value + " is ignored: this version knows " + known;
    rules.journal->say({"GF502", Severity::warning, why, why});
  }

  if (const auto text = environment("GPUFENCE_BACKTRACE"); text && !text->empty()) {
    const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), rules.backtrace);
    if (failed != std::errc{} || end != text->data() + text->size() || rules.backtrace < 1 ||
        rules.backtrace > 64) {
      rules.backtrace = 0;
      const std::string why =
          "GPUFENCE_BACKTRACE=" + *text + " is ignored: a number of calls from 1 to 64 is meant";
      rules.journal->say({"GF502", Severity::warning, why, why});
    }
  }

  rules.host_gpus = split(environment("GPUFENCE_GPUS").value_or(""));
  rules.given_mask = environment("GPUFENCE_MASK");
  rules.positions = split(environment("GPUFENCE_POSITIONS").value_or(""));
  if (const auto view = environment("GPUFENCE_VIEW")) {
    rules.view = split(*view);
  } else if (!environment("GPUFENCE_DEVICES").value_or("").empty()) {
    bad("GPUFENCE_DEVICES without the launcher is not known to this build: start the program with gpufence "
        "run --devices");
  }
  if (const auto numbering = environment("GPUFENCE_NUMBERING"); numbering && !numbering->empty()) {
    if (*numbering == "view")
      rules.numbering = hooks::Numbering::view;
    else if (*numbering != "host")
      bad("GPUFENCE_NUMBERING=" + *numbering + ": host or view is meant");
  }
  // A remap that can't be read is no reason to deny: it is no fence, and the program's ordinals stay CUDA's.
  if (const auto text = environment("GPUFENCE_REMAP"); text && !text->empty()) {
    auto remap = policies::parse_remap(*text);
    if (remap) {
      rules.remap = *std::move(remap);
      rules.needs |= dispatch::kRemap;
    } else {
      const policies::Error& error = remap.error();
      const std::string why = "GPUFENCE_REMAP=" + *text + ": '" + error.what + "' " + error.why +
                              "; nothing is remapped; " + error.remedy;
      rules.journal->say({"GF502", Severity::warning, why, why});
    }
  }
  read_caps(environment, rules, bad);
  if (rules.view && rules.numbering == hooks::Numbering::view) rules.needs |= dispatch::kView;
  if (environment("GPUFENCE_DIAGNOSE").value_or("default") != "off") rules.needs |= dispatch::kFindings;
  // Allocations are kept then too, to say where memory of the wrong GPU came from.
  if (environment("GPUFENCE_DIAGNOSE") == "all") rules.needs |= dispatch::kPointers | dispatch::kMemory;
  if (!rules.caps.empty()) rules.needs |= dispatch::kMemory | dispatch::kCap;
  if (out.reporting.to_stderr || !out.reporting.file.empty())
    rules.needs |= dispatch::kMemory | dispatch::kReport;
  return out;
}

unsigned dispatch::arm(bool for_cuda) {
  if (!hooks::have_rules()) {
    const Environment environment = process_environment();
    Configuration configuration = configure(environment);
    auto mine = std::make_unique<Armed>();
    mine->reporting = configuration.reporting;
    mine->run_id = configuration.run_id;
    const Rules* built = configuration.rules.get();
    if (&hooks::publish_rules(std::move(configuration.rules)) == built) {
      reporting_pid.store(getpid());
      armed.store(mine.release(), std::memory_order_release);
      std::atexit(at_exit);
      pthread_atfork(before_fork, in_forking_parent, in_forked_child);
    }
  }
  if (for_cuda && first_cuda_call_ns.load(std::memory_order_relaxed) == 0) {
    std::uint64_t none = 0;
    first_cuda_call_ns.compare_exchange_strong(none, std::max<std::uint64_t>(observe::process_age_ns(), 1));
  }
  return hooks::rules().needs;
}

void dispatch::tool_wanted(const char* name, const void* caller) noexcept {
  hooks::give_way_to_tool(name, caller);
}

void dispatch::cannot_bind(const std::string& why) {
  if (deny_on_error(process_environment())) {
    hooks::deny(why);
  } else {
    hooks::say("GF501", Severity::error, [&] { return "not fenced: " + why; });
  }
}

}  // namespace gpufence
