// See process_file.h. Everything in the file is of fixed size and zero until it is written, so that it can be
// read at any moment.
#include "journal/process_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "journal/run_directory.h"
#include "journal/write.h"

namespace gpufence::journal {
namespace {

constexpr std::array<char, 8> kMagic = {'G', 'F', 'P', 'R', 'O', 'C', '2', '\0'};
constexpr unsigned kMostImages = 100;  // programs that one pid becomes by exec, each with a file of its own

template <std::size_t N>
void put(std::array<char, N>& to, const std::string& text) noexcept {
  const std::size_t size = std::min(text.size(), N - 1);
  std::memcpy(to.data(), text.data(), size);
  std::memset(to.data() + size, 0, N - size);
}

template <std::size_t N>
std::string text_of(const std::array<char, N>& from) {
  return {from.data(), strnlen(from.data(), N)};
}

std::string path_of(const std::string& directory, unsigned pid, unsigned image) {
  return directory + '/' + std::to_string(pid) + '.' + std::to_string(image) + ".process";
}

}  // namespace

ProcessFile* ProcessFile::create(const std::string& directory, int pid) noexcept {
  try {
    int file = -1;
    unsigned image = 0;
    std::string path;
    for (; file < 0 && image < kMostImages; ++image) {
      path = path_of(directory, static_cast<unsigned>(pid), image);
      file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
      if (file < 0 && errno != EEXIST) return nullptr;
    }
    if (file < 0) return nullptr;
    // Blocks, not only a size: the first touch of a hole on a full disk is SIGBUS.
    void* mapped = MAP_FAILED;
    if (is_local_disk(file) && allocate_quietly(file, sizeof(ProcessFile)))
      mapped = ::mmap(nullptr, sizeof(ProcessFile), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (mapped == MAP_FAILED) {
      ::unlink(path.c_str());
      return nullptr;
    }
    auto* made = static_cast<ProcessFile*>(mapped);
    made->pid_ = static_cast<std::uint32_t>(pid);
    made->image_ = image - 1;
    made->magic_ = kMagic;
    return made;
  } catch (...) {
    return nullptr;
  }
}

void ProcessFile::describe(const Report& report, bool counted) noexcept {
  began_ns_ = report.began_ns;
  fenced_after_ns_.store(report.fenced_after_ns);
  // Where nobody counts in here, it is told what the report knows by now.
  const bool told = !counted && !report.rows.empty() && report.rows[0].counted;
  counted_.store(counted || told ? 1 : 0);
  worked_.store(!report.rows.empty() && report.rows[0].launches ? 1 : 0);
  put(run_id_, report.run_id);
  put(program_, report.program);
  put(how_, report.how);
  put(reach_, report.reach);
  std::size_t used = 0;
  for (const std::string& note : report.notes) {
    if (used + note.size() + 1 >= notes_.size()) break;
    std::memcpy(notes_.data() + used, note.data(), note.size());
    used += note.size();
    notes_[used++] = '\n';
  }
  notes_[used] = '\0';
  const std::size_t rows = std::min(report.rows.size(), rows_.size());
  for (std::size_t i = 0; i < rows; ++i) {
    const ReportRow& from = report.rows[i];
    Row& row = rows_[i];
    row.ordinal = from.ordinal;
    row.host_index = from.host_index;
    row.cap = from.cap.value_or(0);
    row.capped = from.cap ? 1 : 0;
    put(row.uuid, from.uuid);
    put(row.pci, from.pci);
    put(row.name, from.name);
    put(row.full_name, from.full_name);
    put(row.cap_rule, from.cap_rule);
    if (!from.chosen_by.empty()) put(row.chosen_by, from.chosen_by);
    if (!told) continue;
    counters_[i].peak.store(from.peak);
    counters_[i].allocations.store(from.allocations);
    counters_[i].refusals.store(from.refusals);
  }
  rows_count_ = static_cast<std::uint32_t>(rows);
}

void ProcessFile::chosen_by(std::size_t row, const std::string& call) noexcept {
  if (row < rows_.size()) put(rows_[row].chosen_by, call);
}

void ProcessFile::count(const std::string& code, std::uint64_t count) noexcept {
  for (Code& place : codes_) {
    if (place.code[0] == '\0') put(place.code, code);
    if (code != place.code.data()) continue;
    place.count.store(count);
    return;
  }
}

void ProcessFile::end(std::uint64_t duration_ns) noexcept {
  duration_ns_.store(duration_ns);
  ended_.store(1);
}

void ProcessFile::remove(const std::string& state, const std::string& directory) noexcept {
  try {
    ::unlink(path_of(directory, pid_, image_).c_str());
  } catch (...) {
    // Then it stays.
  }
  remove_if_empty(state, directory);
}

ProcessFile::Counters* ProcessFile::counters() noexcept {
  return counters_.data();
}

ProcessFile::Work* ProcessFile::work() noexcept {
  return work_.data();
}

std::optional<Report> ProcessFile::read(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  // Read, not mapped: it may be cut off at any time.
  const auto from = std::make_unique<ProcessFile>();
  std::size_t got = 0;
  while (got < sizeof(ProcessFile)) {
    const ssize_t part =
        ::read(file, reinterpret_cast<unsigned char*>(from.get()) + got, sizeof(ProcessFile) - got);
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) break;
    got += static_cast<std::size_t>(part);
  }
  ::close(file);
  if (got < sizeof(ProcessFile) || from->magic_ != kMagic) return std::nullopt;
  Report report;
  report.pid = static_cast<int>(from->pid_);
  report.began_ns = from->began_ns_;
  report.duration_ns = from->duration_ns_.load();
  report.fenced_after_ns = from->fenced_after_ns_.load();
  report.ended = from->ended_.load() != 0;
  report.run_id = text_of(from->run_id_);
  report.program = text_of(from->program_);
  report.how = text_of(from->how_);
  report.reach = text_of(from->reach_);
  std::string notes = text_of(from->notes_);
  for (std::size_t end = 0; (end = notes.find('\n')) != std::string::npos; notes.erase(0, end + 1))
    report.notes.push_back(notes.substr(0, end));
  for (const Code& place : from->codes_) {
    if (place.code[0] != '\0') report.findings[text_of(place.code)] = place.count.load();
  }
  from->rows_count_ = std::min<std::uint32_t>(from->rows_count_, kMostRows);
  for (std::size_t i = 0; i < from->rows_count_; ++i) {
    const Row& row = from->rows_[i];
    ReportRow made;
    made.ordinal = row.ordinal;
    made.host_index = row.host_index;
    made.uuid = text_of(row.uuid);
    made.pci = text_of(row.pci);
    made.name = text_of(row.name);
    made.full_name = text_of(row.full_name);
    made.counted = from->counted_.load() != 0;
    made.peak = from->counters_[i].peak.load();
    made.allocations = from->counters_[i].allocations.load();
    made.refusals = from->counters_[i].refusals.load();
    if (from->worked_.load() != 0) {
      std::uint64_t launches = 0, copies = 0, threads = 0;
      for (std::size_t shard = 0; shard < kWorkShards; ++shard) {
        const Work& work = from->work_[shard * from->rows_count_ + i];
        launches += work.launches.load();
        copies += work.copies.load();
        threads += work.threads.load();
      }
      made.launches = launches;
      made.copies = copies;
      made.threads = threads;
    }
    if (row.capped != 0) made.cap = row.cap;
    made.cap_rule = text_of(row.cap_rule);
    made.chosen_by = text_of(row.chosen_by);
    report.rows.push_back(std::move(made));
  }
  return report;
}

}  // namespace gpufence::journal
