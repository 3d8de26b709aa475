// See journal.h.
#include "journal/journal.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <functional>
#include <mutex>

#include <spdlog/logger.h>
#include <spdlog/sinks/sink.h>

#include "journal/log_file.h"
#include "journal/process_file.h"
#include "journal/record.h"
#include "journal/run_directory.h"
#include "journal/stack.h"
#include "journal/write.h"

namespace gpufence::journal {
namespace {

constexpr std::size_t kMostRuns = 200;      // kept in a state directory
constexpr std::size_t kMostOfACode = 500;   // told apart and recorded; the rest is counted by its code alone
constexpr std::size_t kMostCounted = 1000;  // findings whose counts are recorded at the end

// A descriptor, not a FILE: the host's stdio buffers and locks are its own. One write a line keeps lines
// whole. Every line has one form, so spdlog's patterns stay out: their formatters, and the locales behind
// them, are a third of what would be loaded at each program's start.
class DescriptorSink : public spdlog::sinks::sink {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}

  void log(const spdlog::details::log_msg& message) override {
    const std::string line = "gpufence[" + std::to_string(::getpid()) + "] " +
                             std::string(message.payload.data(), message.payload.size()) + '\n';
    const std::lock_guard guard(lock_);
    write_quietly(descriptor_, line);
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  std::mutex lock_;
  int descriptor_;
};

spdlog::level::level_enum level_of(Severity severity) {
  switch (severity) {
    case Severity::info:
      return spdlog::level::info;
    case Severity::warning:
      return spdlog::level::warn;
    case Severity::error:
      return spdlog::level::err;
    case Severity::off:
      break;
  }
  return spdlog::level::off;
}

std::string in_color(Severity severity, bool color) {
  const std::string word(text(severity));
  if (!color) return word;
  const char* lead = severity == Severity::error     ? "\033[31m"
                     : severity == Severity::warning ? "\033[33m"
                                                     : "\033[36m";
  return lead + word + "\033[0m";
}

Speaker speaker(const Settings& settings) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return {
      settings.run_id, getpid(), settings.rank,
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL + static_cast<std::uint64_t>(now.tv_nsec)};
}

}  // namespace

std::string on_one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string_view text(Severity severity) {
  switch (severity) {
    case Severity::info:
      return "info";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
    case Severity::off:
      break;
  }
  return "off";
}

struct Journal::State {
  explicit State(const Settings& settings)
      : logger("gpufence", std::make_shared<DescriptorSink>(settings.descriptor)) {
    logger.set_level(spdlog::level::trace);  // the level is looked at before
  }

  struct Said {
    std::uint64_t count = 1;
    std::optional<Finding> finding;  // kept for its count at the end
  };
  std::mutex lock;
  std::map<std::string, std::uint64_t> counts;
  std::map<std::string, Said> said;
  std::map<std::string, std::size_t> kinds;  // of `said`, by code
  bool spoke = false;
  unsigned lines = 0;
  std::uint64_t cut = 0;
  spdlog::logger logger;

  // The run's directory and what its processes share: found out once, by the first thread that speaks.
  std::once_flag looked, shared;
  bool directory = false;
  RunShare* share = nullptr;
  std::atomic<bool> log_failed{false}, lost{false};

  std::atomic<bool> keeping{false};  // a thread makes the file, or made it
  std::atomic<ProcessFile*> kept{nullptr};
  std::atomic<bool> counters_given{false}, counters_kept{false};

  void add(const std::string& code) {  // under the lock
    const std::uint64_t count = ++counts[code];
    if (ProcessFile* file = kept.load(); file != nullptr) file->count(code, count);
  }
};

Journal::Journal(const Settings& settings) : state_(std::make_unique<State>(settings)), settings_(settings) {}
Journal::~Journal() = default;

void Journal::say(const Finding& finding) {
  const WithoutCancellation whole;
  {
    const std::lock_guard guard(state_->lock);
    state_->add(finding.code);
    std::string key = std::string(finding.code) + finding.once;
    if (const auto known = state_->said.find(key); known != state_->said.end()) {
      ++known->second.count;
      return;
    }
    // A loop that goes wrong in a new way each time must not fill the disk.
    if (state_->kinds[finding.code] == kMostOfACode) return;
    ++state_->kinds[finding.code];
    const auto place = state_->said.try_emplace(std::move(key)).first;
    if (settings_.ignored.contains(finding.code)) return;
    state_->spoke = true;
    if (state_->said.size() <= kMostCounted) place->second.finding = finding;
  }
  look_for_directory();
  std::call_once(state_->shared, [&] {
    if (state_->directory) state_->share = RunShare::open(settings_.run_directory);
  });
  if (state_->share != nullptr)
    state_->share->note(finding.code, finding.severity);
  else if (settings_.must_keep && !state_->lost.exchange(true))
    print(
        {.code = "GF502",
         .severity = Severity::error,
         .message = "findings can't be kept in " + settings_.run_directory + ": --fail-on will not see them"},
        1);
  keep_report();
  record(finding, 1);
  if (finding.severity < settings_.stderr_level) return;
  if (RunShare* share = state_->share; share != nullptr) {
    if (!share->first(std::hash<std::string>{}(key_of(finding))) || !share->take_line(settings_.stderr_lines))
      return;
  } else {
    const std::lock_guard guard(state_->lock);
    if (state_->lines == settings_.stderr_lines) {
      ++state_->cut;
      return;
    }
    ++state_->lines;
  }
  print(finding, 1);
}

void Journal::look_for_directory() {
  std::call_once(state_->looked, [&] {
    if (settings_.run_directory.empty()) return;
    // Twice: a process that had nothing to say may be taking away what was empty.
    state_->directory =
        make_private_directory(settings_.run_directory) || make_private_directory(settings_.run_directory);
    if (state_->directory) prune_runs(settings_.state_directory, kMostRuns);
  });
}

void Journal::keep_report() noexcept {
  if (!settings_.report || !state_->directory) return;
  if (state_->keeping.exchange(true)) {
    if (!state_->counters_given.load()) refresh(false);  // counts as they are at this finding
    return;
  }
  ProcessFile* file = ProcessFile::create(settings_.run_directory, getpid());
  if (file == nullptr) return;
  try {
    describe(*file);
    const std::lock_guard guard(state_->lock);
    for (const auto& [code, count] : state_->counts) file->count(code, count);
    state_->kept.store(file);
  } catch (...) {
    // Then it is a report without names.
  }
}

void* Journal::counters(std::size_t gpus) noexcept {
  try {
    if (settings_.report_wanted) look_for_directory();
  } catch (...) {
    return nullptr;
  }
  if (!settings_.report_wanted || gpus > kMostRows) return nullptr;
  keep_report();
  ProcessFile* file = state_->kept.load();
  if (file == nullptr || state_->counters_given.exchange(true)) return nullptr;
  return file->counters();
}

void Journal::refresh(bool counters_kept) noexcept {
  state_->counters_kept = counters_kept;
  ProcessFile* file = state_->kept.load();
  if (file == nullptr) return;
  try {
    describe(*file);
  } catch (...) {
  }
}

void Journal::describe(ProcessFile& file) {
  if (settings_.keep_work) settings_.keep_work(file.work());
  file.describe(settings_.report(), state_->counters_kept);
}

void Journal::chosen_by(std::size_t row, const std::function<std::string()>& call) noexcept {
  ProcessFile* file = state_->kept.load();
  if (file == nullptr) return;
  try {
    file->chosen_by(row, call());
  } catch (...) {
  }
}

// Neither is done under the lock: a disk may be slow, and other threads only count.
void Journal::record(const Finding& finding, std::uint64_t count) {
  if (!state_->directory && settings_.log.empty()) return;
  const std::string line = to_json_line(finding, speaker(settings_), count);
  if (state_->directory) {
    const std::string path = settings_.run_directory + '/' + kRecordsFile;
    if (!append_line(path, line, 0600, kMostRecordBytes) && errno == ENOENT &&
        make_private_directory(settings_.run_directory))
      append_line(path, line, 0600, kMostRecordBytes);
  }
  if (settings_.log.empty()) return;
  struct stat status {};
  const bool is_pipe = ::stat(settings_.log.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  if (append_line(settings_.log,
                  is_pipe ? to_json_line_within(finding, speaker(settings_), count, PIPE_BUF) : line, 0644))
    return;
  const std::string reason = std::strerror(errno);
  if (state_->log_failed.exchange(true)) return;
  const Finding lost{.code = "GF502",
                     .severity = Severity::error,
                     .message = "the log " + settings_.log + " can't be written (" + reason +
                                "): findings are missing there; write another --log"};
  count_one(lost.code);
  if (lost.severity >= settings_.stderr_level) print(lost, 1);
}

void Journal::print(const Finding& finding, std::uint64_t count) {
  if (settings_.json) {
    write_quietly(settings_.descriptor, to_json_line_within(finding, speaker(settings_), count, PIPE_BUF));
    return;
  }
  // Put together here: a formatter takes kilobytes of a stack that may be small.
  std::string line;
  if (*finding.code != '\0')
    line = std::string(finding.code) + ' ' + in_color(finding.severity, settings_.color) + ": ";
  line += on_one_line(finding.message) + stack_text(finding.stack, finding.python);
  state_->logger.log(level_of(finding.severity), spdlog::string_view_t(line));
}

void Journal::count_one(const char* code) {
  const std::lock_guard guard(state_->lock);
  state_->add(code);
}

bool Journal::counted_again(const char* code, const std::string& once) {
  const std::lock_guard guard(state_->lock);
  const auto said = state_->said.find(std::string(code) + once);
  if (said == state_->said.end()) return false;
  state_->add(code);
  ++said->second.count;
  return true;
}

void Journal::count(const char* code, const std::string& once) {
  const std::lock_guard guard(state_->lock);
  state_->add(code);
  if (const auto said = state_->said.find(std::string(code) + once); said != state_->said.end())
    ++said->second.count;
}

void Journal::close() {
  std::vector<State::Said> repeated;
  std::uint64_t cut = 0;
  {
    const std::lock_guard guard(state_->lock);
    std::swap(cut, state_->cut);
    for (auto& [key, said] : state_->said) {
      if (said.count > 1 && said.finding) repeated.push_back(said);
      said.finding.reset();
    }
  }
  for (const State::Said& said : repeated) record(*said.finding, said.count);
  if (ProcessFile* file = state_->kept.load(); file != nullptr) {
    describe(*file);
    file->end(settings_.report().duration_ns);
    const bool nothing = [&] {
      const std::lock_guard guard(state_->lock);
      return !state_->spoke && !settings_.report_wanted;
    }();
    if (nothing) file->remove(settings_.state_directory, settings_.run_directory);
  }
  if (state_->share != nullptr) cut = state_->share->cut_to_say();
  if (cut == 0 || settings_.stderr_level == Severity::off) return;
  const char* where = state_->directory ? " more: gpufence last" : " more: --log FILE keeps them";
  print({.severity = Severity::info, .message = std::to_string(cut) + where}, cut);
}

std::map<std::string, std::uint64_t> Journal::counts() const {
  const std::lock_guard guard(state_->lock);
  return state_->counts;
}

void Journal::reset_after_fork() {
  (void)state_.release();  // leaked: a thread of the parent may have been inside
  state_ = std::make_unique<State>(settings_);
}

}  // namespace gpufence::journal
