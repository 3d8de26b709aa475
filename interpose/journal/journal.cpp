// See journal.h.
#include "journal/journal.h"

#include <mutex>
#include <set>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "journal/write.h"

namespace gpufence::journal {
namespace {

// A descriptor, not a FILE: the host's stdio buffers and locks are its own. One write a line keeps lines
// whole.
class DescriptorSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write_quietly(descriptor_, {line.data(), line.size()});
  }
  void flush_() override {}

 private:
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

}  // namespace

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
    logger.set_pattern("gpufence[%P] %v");
    logger.set_level(level_of(settings.stderr_level));
  }
  std::mutex lock;
  std::map<std::string, std::uint64_t> counts;
  std::set<std::string> said;
  unsigned lines = 0;
  std::uint64_t cut = 0;
  spdlog::logger logger;
};

Journal::Journal(const Settings& settings) : state_(std::make_unique<State>(settings)), settings_(settings) {}
Journal::~Journal() = default;

void Journal::say(const Finding& finding) {
  {
    const std::lock_guard guard(state_->lock);
    ++state_->counts[finding.code];
    if (!state_->said.insert(std::string(finding.code) + finding.once).second) return;
    if (finding.severity < settings_.stderr_level) return;
    if (state_->lines == settings_.stderr_lines) {
      ++state_->cut;
      return;
    }
    ++state_->lines;
  }
  state_->logger.log(level_of(finding.severity), "{} {}: {}", finding.code, text(finding.severity),
                     finding.message);
}

void Journal::count(const char* code) {
  const std::lock_guard guard(state_->lock);
  ++state_->counts[code];
}

bool Journal::counted_again(const char* code, const std::string& once) {
  const std::lock_guard guard(state_->lock);
  if (!state_->said.contains(std::string(code) + once)) return false;
  ++state_->counts[code];
  return true;
}

void Journal::close() {
  std::uint64_t cut = 0;
  {
    const std::lock_guard guard(state_->lock);
    std::swap(cut, state_->cut);
  }
  if (cut > 0)
    state_->logger.log(spdlog::level::warn, "{} more findings; the report (--report) counts them by code",
                       cut);
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
