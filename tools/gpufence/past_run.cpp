// See past_run.h. Other processes write here, and a disk may have been full: what can't be read is left out.
#include "tools/gpufence/past_run.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "journal/process_file.h"
#include "journal/run_directory.h"
#include "policies/size.h"

namespace gpufence::command {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  std::ifstream file(path, std::ios::binary);
  if (file) text << file.rdbuf();
  return text.str();
}

// When the process that has this number now was started, in nanoseconds since 1970; 0: there is none.
std::uint64_t began_ns(int pid) {
  const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
  std::size_t at = stat.rfind(')');
  if (at == std::string::npos || stat.compare(at, 4, ") Z ") == 0) return 0;
  for (int field = 2; at != std::string::npos && field < 22; ++field) at = stat.find(' ', at + 1);
  const std::string host = text_of("/proc/stat");
  const std::size_t boot = host.find("btime ");
  if (at == std::string::npos || boot == std::string::npos) return 0;
  const auto ticks_a_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return std::strtoull(host.c_str() + boot + 6, nullptr, 10) * 1'000'000'000 +
         std::strtoull(stat.c_str() + at, nullptr, 10) * (1'000'000'000 / ticks_a_second);
}

bool still_runs(const journal::Report& report) {
  const std::uint64_t began = began_ns(report.pid);
  // btime is in whole seconds.
  constexpr std::uint64_t kSlack = 2'000'000'000;
  return began != 0 && report.began_ns < began + kSlack && began < report.began_ns + kSlack;
}

std::vector<fs::path> files_of(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(directory, failed), end; !failed && at != end;
       at.increment(failed))
    if (at->is_regular_file(failed)) files.push_back(at->path());
  std::sort(files.begin(), files.end());
  return files;
}

std::int64_t last_change(const fs::path& directory) {
  std::error_code failed;
  auto newest = fs::last_write_time(directory, failed);
  for (const fs::path& file : files_of(directory))
    newest = std::max(newest, fs::last_write_time(file, failed));
  return newest.time_since_epoch().count();
}

}  // namespace

std::string runs_directory(const Environment& environment) {
  return journal::state_directory(environment.get("XDG_STATE_HOME"), environment.get("HOME"));
}

std::vector<std::string> past_runs(const std::string& directory) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code failed;
  for (fs::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (at->is_directory(failed) && journal::is_run_name(name))
      found.emplace_back(last_change(at->path()), name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> names;
  for (auto& [changed, name] : found) names.push_back(std::move(name));
  return names;
}

PastRun read_run(const std::string& directory, const std::string& name) {
  PastRun run;
  run.name = name;
  std::vector<journal::Record> records;
  for (const fs::path& file : files_of(directory + '/' + name)) {
    if (file.filename() == journal::kRecordsFile) {
      for (journal::Record& record : journal::read_records(text_of(file)))
        records.push_back(std::move(record));
    } else if (file.extension() == ".process") {
      auto report = journal::ProcessFile::read(file);
      if (!report) continue;
      report->running = !report->ended && still_runs(*report);
      if (!report->running) journal::note_idle_gpus(*report);
      for (journal::ReportRow& row : report->rows) {
        row.peak_text = policies::format_size(row.peak);
        if (row.cap) row.cap_text = policies::format_size(*row.cap);
      }
      run.reports.push_back(*std::move(report));
    }
  }
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& one, const auto& other) { return one.time < other.time; });
  std::stable_sort(run.reports.begin(), run.reports.end(),
                   [](const auto& one, const auto& other) { return one.began_ns < other.began_ns; });
  // A process records a finding when it makes it, and once more with its count at the end.
  std::map<std::string, std::size_t> places;
  std::map<std::pair<std::string, int>, std::uint64_t> counts;
  for (journal::Record& record : records) {
    const auto [place, is_new] = places.try_emplace(record.key, run.findings.size());
    std::uint64_t& counted = counts[{record.key, record.pid}];
    if (is_new) run.findings.push_back({record, 0, {}, {}});
    FoundOnce& finding = run.findings[place->second];
    if (finding.pids.insert(record.pid).second && record.code == "GF202" && record.bytes)
      finding.bytes = finding.bytes.value_or(0) + *record.bytes;
    finding.count += record.count > counted ? record.count - counted : 0;
    counted = std::max(counted, record.count);
  }
  return run;
}

std::optional<std::string> run_of_process(const std::string& directory, const std::vector<std::string>& runs,
                                          int pid) {
  for (const std::string& run : runs) {
    for (const fs::path& file : files_of(directory + '/' + run)) {
      if (file.extension() == ".process" && file.filename().string().starts_with(std::to_string(pid) + '.'))
        return run;
    }
    if (run.ends_with('-' + std::to_string(pid))) return run;
  }
  return std::nullopt;
}

}  // namespace gpufence::command
