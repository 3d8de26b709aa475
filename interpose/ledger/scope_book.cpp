#include "ledger/scope_book.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "ledger/descriptor.h"
#include "ledger/scope_file.h"
#include "ledger/scope_path.h"

namespace gpufence::ledger {

namespace {

constexpr std::uint64_t kMapped = file_bytes(kBookSlots);

constexpr std::uint32_t kFewSlots = 256;
constexpr std::int64_t kOften = 50;  // ms

constinit pthread_mutex_t fork_window = PTHREAD_MUTEX_INITIALIZER;

class NoFork {
 public:
  NoFork() { pthread_mutex_lock(&fork_window); }
  NoFork(const NoFork&) = delete;
  ~NoFork() { pthread_mutex_unlock(&fork_window); }
};

std::int64_t coarse_ms() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

int lock_until(pthread_mutex_t& mutex, const timespec& until) noexcept {
#if defined(__SANITIZE_THREAD__)
  // It knows neither this lock nor that a timed one may find its owner dead; trylock it knows.
  for (;;) {
    const int result = pthread_mutex_trylock(&mutex);
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    if (result != EBUSY) return result;
    if (now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec))
      return ETIMEDOUT;
    ::usleep(100);
  }
#else
  return pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until);
#endif
}

struct flock lock_of(std::uint32_t slot) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = kLocks + static_cast<off_t>(slot);
  range.l_len = 1;
  return range;
}

// Whether the slot's process lives; also if that can't be told.
bool lives(int descriptor, std::uint32_t slot) noexcept {
  struct flock range = lock_of(slot);
  return ::fcntl(descriptor, F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

std::string boot_id() {
  const std::string text = read_small("/proc/sys/kernel/random/boot_id");
  return text.substr(0, text.find('\n'));
}

// "python train.py", cut to what fits
std::string own_name() {
  std::string name = read_small("/proc/self/cmdline");
  while (!name.empty() && name.back() == '\0') name.pop_back();
  for (char& c : name)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  // The program's directory says less than its arguments.
  const std::size_t end = std::min(name.find(' '), name.size());
  const std::size_t slash = name.rfind('/', end);
  return slash == std::string::npos || slash > end ? name : name.substr(slash + 1);
}

// Whether that file is still the one at this path.
bool lies_at(const std::string& path, dev_t device, ino_t inode) noexcept {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && status.st_ino == inode && status.st_dev == device;
}

void sort_holders(std::vector<Holder>& holders) {
  std::sort(holders.begin(), holders.end(),
            [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
}

tl::unexpected<std::string> trouble(const std::string& path, const std::string& why,
                                    const std::string& remedy) {
  return tl::unexpected(path + ": " + why + "; " + remedy);
}
std::string reason() {
  return std::strerror(errno);
}

// A whole new file under a name of its own, then linked into its place: nobody ever sees half of one. False:
// somebody else's is there meanwhile, or it failed with errno.
bool make_file(const std::string& path, const ScopeBook::Options& options) {
  const std::string boot = boot_id();
  std::string fresh = path + ".XXXXXX";
  const Descriptor file(::mkostemp(fresh.data(), O_CLOEXEC));
  if (file.get() < 0) return false;
  // A full tmpfs lets ftruncate pass, and the first touch is a SIGBUS.
  int failed = ::posix_fallocate(file.get(), 0, static_cast<off_t>(file_bytes(kFirstSlots)));
  if (failed == 0 && options.group && ::fchown(file.get(), static_cast<uid_t>(-1), *options.group) != 0)
    failed = errno;
  if (failed == 0 && ::fchmod(file.get(), options.mode) != 0) failed = errno;
  void* at =
      failed == 0 ? ::mmap(nullptr, kSlotsAt, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) : MAP_FAILED;
  if (failed == 0 && at == MAP_FAILED) failed = errno;
  if (at != MAP_FAILED) {
    auto* header = new (at) Header;
    std::memcpy(header->magic, kMagic, sizeof kMagic);
    header->version = kVersion;
    header->header_bytes = sizeof(Header);
    header->slot_bytes = sizeof(Slot);
    header->rows = kBookRows;
    std::strncpy(header->boot, boot.c_str(), sizeof header->boot - 1);
    header->slots.store(kFirstSlots);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    // Normal: error-checking and recursive ones compare thread ids, which two PID namespaces may share.
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&header->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    ::munmap(at, kSlotsAt);
  }
  if (failed == 0 && ::link(fresh.c_str(), path.c_str()) != 0) failed = errno;
  ::unlink(fresh.c_str());
  errno = failed;
  return failed == 0;
}

}  // namespace

struct ScopeBook::Map {
  Header* header = nullptr;
  dev_t device = 0;
  ino_t inode = 0;
  std::uint32_t slot_index = 0;
  Slot* slot = nullptr;
  std::uint32_t row[kBookRows] = {};  // in the file, by row of this process

  [[nodiscard]] Slot* slot_at(std::uint32_t index) const {
    return reinterpret_cast<Slot*>(reinterpret_cast<char*>(header) + kSlotsAt) + index;
  }
};

namespace {

// ---- Under the file's mutex ----

void recount(Header& header, const Slot* slots) noexcept {
  std::uint64_t all = 0;
  const std::uint32_t rows = header.row_count.load();
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < header.highest.load(); ++i)
      if (slots[i].used.load() != 0) sum += slots[i].bytes[row].load();
    header.row[row].bytes.store(sum);
    all += sum;
  }
  header.total.store(all);
}

// The slot goes first: whoever dies in between leaves totals that are too high, and its successor counts
// anew.
void vacate(Header& header, Slot& slot) noexcept {
  slot.used.store(0);
  for (std::uint32_t row = 0; row < header.row_count.load(); ++row) {
    const std::uint64_t bytes = slot.bytes[row].exchange(0);
    header.row[row].bytes.fetch_sub(bytes);
    header.total.fetch_sub(bytes);
  }
}

}  // namespace

ScopeBook::ScopeBook(std::string path, std::vector<std::string> uuids, Options options)
    : path_(std::move(path)),
      uuids_(std::move(uuids)),
      options_(options),
      owed_(std::make_unique<std::atomic<std::uint64_t>[]>(uuids_.size())) {}

void ScopeBook::before_fork() noexcept {
  pthread_mutex_lock(&fork_window);
}
void ScopeBook::after_fork() noexcept {
  pthread_mutex_unlock(&fork_window);
}

tl::expected<void, std::string> ScopeBook::check_file(const std::string& path, int descriptor,
                                                      const Options& options) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return trouble(path, reason(), "look at its directory");
  if (!S_ISREG(status.st_mode)) return trouble(path, "is no ordinary file", "remove it");
  const bool of_group = options.group && status.st_gid == *options.group;
  if (status.st_uid != ::geteuid() && ::geteuid() != 0 && !of_group)
    return trouble(path, "belongs to another user", "remove it, or use another ledger directory");
  if ((status.st_mode & (options.group ? 0007U : 0077U)) != 0)
    return trouble(path, "can be opened by others", "remove it, or chmod it to what gpufence makes");
  if (status.st_size < static_cast<off_t>(file_bytes(kFirstSlots)))
    return trouble(path, "is no ledger of gpufence, or cut off", "remove it when nothing runs that uses it");
  return {};
}

tl::expected<void, std::string> ScopeBook::check_header(const std::string& path, const Header& header,
                                                        int descriptor) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return trouble(path, "is no ledger of gpufence", "remove it");
  if (header.version != kVersion || header.header_bytes != sizeof(Header) ||
      header.slot_bytes != sizeof(Slot) || header.rows != kBookRows)
    return trouble(path, "was made by another version of gpufence",
                   "remove it when nothing runs that uses it");
  // Asked in this order: the file may grow meanwhile, first its bytes, then its slots, then those that are
  // used.
  const std::uint32_t highest = header.highest.load();
  const std::uint32_t room = header.slots.load();
  struct stat status {};
  const bool told = ::fstat(descriptor, &status) == 0;
  if (!told || room < kFirstSlots || room > kBookSlots || highest > room ||
      header.row_count.load() > kBookRows || status.st_size < static_cast<off_t>(file_bytes(room)))
    return trouble(path, "is cut off or damaged", "remove it when nothing runs that uses it");
  return {};
}

tl::expected<std::unique_ptr<ScopeBook::Map>, std::string> ScopeBook::map_file() const {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const NoFork window;
    const Descriptor file(::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) {
      if (errno == ELOOP) return trouble(path_, "is a symbolic link", "remove it");
      if (errno != ENOENT)
        return trouble(path_, "can't be opened (" + reason() + ")",
                       errno == EACCES
                           ? "it belongs to another user: remove it, or use another ledger directory"
                           : "look at its directory");
      if (make_file(path_, options_) || errno == EEXIST) continue;
      return trouble(path_, "can't be made (" + reason() + ")",
                     errno == ENOSPC ? "make room there"
                                     : "set GPUFENCE_LEDGER_DIR to a directory that can be written to");
    }
    struct stat status {};
    if (::fstat(file.get(), &status) == 0 && status.st_nlink == 0) continue;  // removed meanwhile
    if (auto checked = check_file(path_, file.get(), options_); !checked)
      return tl::unexpected(checked.error());

    void* at = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED)
      return trouble(path_, "can't be mapped (" + reason() + ")", "raise the limit of memory");
    ::madvise(at, kMapped, MADV_DONTFORK);  // a child would keep the slot alive
    const auto unmapped = [&](tl::unexpected<std::string> why) {
      ::munmap(at, kMapped);
      return why;
    };
    auto map = std::make_unique<Map>();
    map->header = static_cast<Header*>(at);
    map->device = status.st_dev;
    map->inode = status.st_ino;
    Header& header = *map->header;
    if (auto checked = check_header(path_, header, file.get()); !checked)
      return unmapped(tl::unexpected(checked.error()));
    if (const std::string boot = boot_id();
        !boot.empty() && std::strncmp(header.boot, boot.c_str(), sizeof header.boot) != 0) {
      // From before the machine started: its processes are gone, and so is whoever holds its mutex.
      ::munmap(at, kMapped);
      struct flock whole {};
      whole.l_type = F_WRLCK;
      whole.l_len = static_cast<off_t>(kSlotsAt);
      if (::fcntl(file.get(), F_OFD_SETLKW, &whole) != 0) return trouble(path_, reason(), "remove it");
      if (lies_at(path_, status.st_dev, status.st_ino)) ::unlink(path_.c_str());
      continue;
    }
    if (!acquire(header)) {
      const std::uint32_t holder = std::min<std::uint32_t>(header.owner_slot.load(), kBookSlots - 1);
      const std::int32_t pid = holder < header.slots.load() ? map->slot_at(holder)->pid.load() : 0;
      return unmapped(trouble(path_, "is held by pid " + std::to_string(pid) + ", which does not go on",
                              "let it go on, or end it"));
    }
    const auto taken = take_slot(*map, file.get());
    // Somebody who found nobody alive in it may have removed it just before.
    const bool gone = ::fstat(file.get(), &status) == 0 && status.st_nlink == 0;
    pthread_mutex_unlock(&header.mutex);
    if (taken && gone) {
      ::munmap(at, kMapped);
      continue;
    }
    if (!taken)
      return unmapped(trouble(path_, taken.error(), "end processes of this scope, or make room there"));
    return map;
  }
  return trouble(path_, "is made and removed again and again", "look for who removes it");
}

// Under the mutex. The error is a reason.
tl::expected<void, std::string> ScopeBook::take_slot(Map& map, int descriptor) const {
  Header& header = *map.header;
  for (const bool after_reaping : {false, true}) {
    for (std::uint32_t i = 0; i < kBookSlots && map.slot == nullptr; ++i) {
      if (i == header.slots.load()) {
        const std::uint32_t more = std::min<std::uint32_t>(2 * i, kBookSlots);
        const int failed = ::posix_fallocate(descriptor, 0, static_cast<off_t>(file_bytes(more)));
        if (failed != 0) return tl::unexpected("can't grow (" + std::string(std::strerror(failed)) + ")");
        header.slots.store(more);
      }
      struct flock range = lock_of(i);
      if (map.slot_at(i)->used.load() == 0 && ::fcntl(descriptor, F_OFD_SETLK, &range) == 0) {
        map.slot_index = i;
        map.slot = map.slot_at(i);
      }
    }
    if (map.slot != nullptr) break;
    if (after_reaping) return tl::unexpected("all of its " + std::to_string(kBookSlots) + " slots are taken");
    for (std::uint32_t i = 0; i < kBookSlots; ++i)
      if (!lives(descriptor, i)) vacate(header, *map.slot_at(i));
  }
  std::uint32_t known = header.row_count.load();
  for (std::size_t mine = 0; mine < uuids_.size(); ++mine) {
    std::uint32_t at = 0;
    while (at < known && uuids_[mine] != header.row[at].uuid) ++at;
    if (at == kBookRows)
      return tl::unexpected("it knows " + std::to_string(kBookRows) + " GPUs, and no more fit");
    if (at == known) {
      std::strncpy(header.row[at].uuid, uuids_[mine].c_str(), sizeof header.row[at].uuid - 1);
      header.row[at].bytes.store(0);
      header.row_count.store(++known);
    }
    map.row[mine] = at;
  }
  Slot& slot = *map.slot;
  slot.generation.fetch_add(1);
  slot.pid.store(::getpid());
  slot.pid_namespace.store(pid_namespace());
  std::memset(slot.name, 0, sizeof slot.name);
  std::strncpy(slot.name, own_name().c_str(), sizeof slot.name - 1);
  for (std::atomic<std::uint64_t>& bytes : slot.bytes) bytes.store(0);
  slot.used.store(1);
  header.highest.store(std::max(header.highest.load(), map.slot_index + 1));
  return {};
}

tl::expected<std::unique_ptr<ScopeBook>, std::string> ScopeBook::open(const std::string& path,
                                                                      const std::vector<std::string>& uuids,
                                                                      Options options) {
  if (uuids.size() > kBookRows)
    return tl::unexpected(path + ": " + std::to_string(uuids.size()) +
                          " GPUs are visible, and its rows are " + std::to_string(kBookRows) +
                          "; show the program fewer");
  std::unique_ptr<ScopeBook> book(new ScopeBook(path, uuids, options));
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return tl::unexpected(path + ": " + reason() + "; raise the limit of memory");
  book->alive_ = static_cast<unsigned char*>(page);
  *book->alive_ = 1;
  ::madvise(page, kPage, MADV_WIPEONFORK);
  auto map = book->map_file();
  if (!map) return tl::unexpected(map.error());
  book->map_.store(map->release(), std::memory_order_release);
  book->looked_ms_.store(coarse_ms());
  // The kernel's list of locks is walked for each slot: a crowd that starts at once looks for its dead once.
  const Header& header = *book->map_.load()->header;
  if (header.highest.load() <= kFewSlots || coarse_ms() - header.reaped_ms.load() >= kOften) book->reap();
  return book;
}

ScopeBook::~ScopeBook() {
  if (alive_ == nullptr) return;
  Map* map = map_.load();
  if (map != nullptr && *alive_ != 0) {
    if (Map* locked = lock(); locked != nullptr) {
      vacate(*locked->header, *locked->slot);
      unlock(*locked);
      map = locked;
    }
    ::munmap(map->header, kMapped);
    for (const Map* replaced : replaced_) ::munmap(replaced->header, kMapped);
  }
  delete map;
  for (const Map* replaced : replaced_) delete replaced;
  ::munmap(alive_, kPage);
}

// True: the mutex is ours, and the books are right.
bool ScopeBook::acquire(Header& header) const noexcept {
  int result = pthread_mutex_trylock(&header.mutex);
  if (result == EBUSY) result = wait_for(header);
  if (result == EOWNERDEAD) {
    recount(header, reinterpret_cast<const Slot*>(reinterpret_cast<const char*>(&header) + kSlotsAt));
    result = pthread_mutex_consistent(&header.mutex);
  }
  if (result != 0) return false;
  header.turns.store(header.turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

// In a crowd a turn may be long in coming; while others get theirs nobody has stopped.
int ScopeBook::wait_for(Header& header) const noexcept {
  constexpr int kMostPatience = 30;  // times
  int result = ETIMEDOUT;
  for (int i = 0; i < kMostPatience && result == ETIMEDOUT; ++i) {
    const std::uint32_t turns = header.turns.load(std::memory_order_relaxed);
    timespec until{};
    ::clock_gettime(CLOCK_MONOTONIC, &until);
    const auto patience = options_.patience.count();
    until.tv_sec += static_cast<time_t>(patience / 1000);
    until.tv_nsec += static_cast<long>(patience % 1000) * 1'000'000;
    if (until.tv_nsec >= 1'000'000'000) {
      until.tv_nsec -= 1'000'000'000;
      ++until.tv_sec;
    }
    result = lock_until(header.mutex, until);
    if (header.turns.load(std::memory_order_relaxed) == turns) break;
  }
  return result;
}

// A child that was cloned without fork's handlers has neither the mapping nor the slot.
void ScopeBook::revive() noexcept {
  new (&moving_) std::mutex;
  new (&fork_window) pthread_mutex_t(PTHREAD_MUTEX_INITIALIZER);
  map_.store(nullptr);
  for (std::size_t row = 0; row < uuids_.size(); ++row) owed_[row].store(0);
  owes_.store(false);
  *alive_ = 1;
  try {
    if (auto map = map_file()) map_.store(map->release());
  } catch (...) {
  }
}

ScopeBook::Map* ScopeBook::map() noexcept {
  if (*alive_ == 0) [[unlikely]]
    revive();
  return map_.load(std::memory_order_acquire);
}

ScopeBook::Map* ScopeBook::lock() noexcept {
  for (;;) {
    Map* now = map();
    if (now == nullptr || !acquire(*now->header)) return nullptr;
    if (map_.load(std::memory_order_acquire) == now) {
      now->header->owner_slot.store(now->slot_index, std::memory_order_relaxed);
      if (owes_.load(std::memory_order_relaxed)) pay_owed(*now);
      return now;
    }
    pthread_mutex_unlock(&now->header->mutex);  // moved to another file meanwhile
  }
}

void ScopeBook::unlock(Map& map) noexcept {
  pthread_mutex_unlock(&map.header->mutex);
}

ScopeBook::Answer ScopeBook::reserve(std::uint32_t row, std::uint64_t bytes, std::uint64_t row_limit,
                                     std::uint64_t total_limit) noexcept {
  look_after_file();
  Map* map = lock();
  if (map == nullptr) return Answer::no_answer;
  std::atomic<std::uint64_t>& sum = map->header->row[map->row[row]].bytes;
  std::atomic<std::uint64_t>& all = map->header->total;
  const auto fits = [bytes](std::uint64_t now, std::uint64_t limit) {
    return bytes <= limit && now <= limit - bytes;
  };
  const bool allowed = fits(sum.load(std::memory_order_relaxed), row_limit) &&
                       fits(all.load(std::memory_order_relaxed), total_limit);
  if (allowed) {
    std::atomic<std::uint64_t>& mine = map->slot->bytes[map->row[row]];
    mine.store(mine.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    sum.store(sum.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    all.store(all.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
  unlock(*map);
  return allowed ? Answer::booked : Answer::over;
}

void ScopeBook::give_back(Map& map, std::uint32_t row, std::uint64_t bytes) noexcept {
  std::atomic<std::uint64_t>& mine = map.slot->bytes[map.row[row]];
  const std::uint64_t held = mine.load(std::memory_order_relaxed);
  if (bytes > held) {
    underflows_.fetch_add(1, std::memory_order_relaxed);
    bytes = held;
  }
  mine.store(held - bytes, std::memory_order_relaxed);
  map.header->row[map.row[row]].bytes.fetch_sub(bytes, std::memory_order_relaxed);
  map.header->total.fetch_sub(bytes, std::memory_order_relaxed);
}

void ScopeBook::release(std::uint32_t row, std::uint64_t bytes) noexcept {
  Map* map = lock();
  if (map == nullptr) {
    owed_[row].fetch_add(bytes);
    owes_.store(true);
    return;
  }
  give_back(*map, row, bytes);
  unlock(*map);
}

void ScopeBook::pay_owed(Map& map) noexcept {
  owes_.store(false);
  for (std::uint32_t row = 0; row < uuids_.size(); ++row)
    if (const std::uint64_t bytes = owed_[row].exchange(0); bytes != 0) give_back(map, row, bytes);
}

std::uint64_t ScopeBook::held(std::uint32_t row) noexcept {
  const Map* now = map();
  return now != nullptr ? now->header->row[now->row[row]].bytes.load(std::memory_order_relaxed) : 0;
}
std::uint64_t ScopeBook::held_in_total() noexcept {
  const Map* now = map();
  return now != nullptr ? now->header->total.load(std::memory_order_relaxed) : 0;
}
std::uint64_t ScopeBook::mine(std::uint32_t row) noexcept {
  const Map* now = map();
  return now != nullptr ? now->slot->bytes[now->row[row]].load(std::memory_order_relaxed) : 0;
}

std::size_t ScopeBook::reap() noexcept {
  reaped_ms_.store(coarse_ms(), std::memory_order_relaxed);
  Map* now = map();
  if (now == nullptr) return 0;
  now->header->reaped_ms.store(coarse_ms(), std::memory_order_relaxed);
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || status.st_ino != now->inode ||
      status.st_dev != now->device) {
    move_to_new_file();
    return 0;
  }
  // Asked without the mutex, of which nobody has to wait then; asked again with it of those that seem dead.
  std::size_t reaped = 0;
  std::uint32_t from = 0;
  while (from < now->header->highest.load()) {
    struct Dead {
      std::uint32_t slot, generation;
    } dead[64];
    std::size_t count = 0;
    for (; from < now->header->highest.load() && count < std::size(dead); ++from) {
      const Slot& slot = *now->slot_at(from);
      const std::uint32_t generation = slot.generation.load();
      if (slot.used.load() != 0 && !lives(file.get(), from)) dead[count++] = {from, generation};
    }
    if (count == 0) break;
    Map* locked = lock();
    if (locked == nullptr) return reaped;
    for (std::size_t i = 0; i < count && locked == now; ++i) {
      Slot& slot = *now->slot_at(dead[i].slot);
      if (slot.used.load() == 0 || slot.generation.load() != dead[i].generation ||
          lives(file.get(), dead[i].slot))
        continue;
      vacate(*now->header, slot);
      ++reaped;
    }
    unlock(*locked);
    if (locked != now) break;
  }
  return reaped;
}

void ScopeBook::reap_if_older(std::chrono::milliseconds age) noexcept {
  if (coarse_ms() - reaped_ms_.load(std::memory_order_relaxed) >= age.count()) reap();
}

// A ledger that somebody removed (a logout does) is another's as soon as the next process makes it anew: two
// sums under one cap.
void ScopeBook::look_after_file() noexcept {
  constexpr std::int64_t kEvery = 500;  // ms
  const std::int64_t now = coarse_ms();
  if (now - looked_ms_.load(std::memory_order_relaxed) < kEvery) [[likely]]
    return;
  looked_ms_.store(now, std::memory_order_relaxed);
  const Map* known = map();
  if (known != nullptr && lies_at(path_, known->device, known->inode)) return;
  move_to_new_file();
}

void ScopeBook::move_to_new_file() noexcept {
  const std::lock_guard guard(moving_);
  Map* old = map_.load();
  if (old != nullptr && lies_at(path_, old->device, old->inode)) return;  // another thread was here
  try {
    replaced_.reserve(replaced_.size() + 1);
    auto made = map_file();
    if (!made) return;  // what there is goes on to count for those who have it
    Map* fresh = made->release();
    if (old == nullptr) {
      map_.store(fresh, std::memory_order_release);
      return;
    }
    // What this process holds goes with it, whatever the limits: it is held.
    const bool locked = acquire(*old->header);
    if (acquire(*fresh->header)) {
      for (std::size_t row = 0; row < uuids_.size(); ++row) {
        const std::uint64_t bytes = old->slot->bytes[old->row[row]].load();
        fresh->slot->bytes[fresh->row[row]].fetch_add(bytes);
        fresh->header->row[fresh->row[row]].bytes.fetch_add(bytes);
        fresh->header->total.fetch_add(bytes);
      }
      map_.store(fresh, std::memory_order_release);
      replaced_.push_back(old);
      pthread_mutex_unlock(&fresh->header->mutex);
    } else {
      replaced_.push_back(fresh);
    }
    if (locked) pthread_mutex_unlock(&old->header->mutex);
  } catch (...) {
  }
}

void ScopeBook::remove_if_dead(const std::string& path) noexcept {
  try {
    const Descriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != ::geteuid())
      return;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    if (!check_file(path, file.get(), {})) {
      // Left half-made by a process that was killed. What is younger may be in the making.
      if (now.tv_sec - status.st_mtim.tv_sec > 60) ::unlink(path.c_str());
      return;
    }
    void* at = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) return;
    ::madvise(at, kMapped, MADV_DONTFORK);
    auto& header = *static_cast<Header*>(at);
    if (check_header(path, header, file.get())) {
      // Under the mutex nobody takes a slot; whoever waits for it looks afterwards whether the file is still
      // there.
      const int taken = pthread_mutex_trylock(&header.mutex);
      // What was just made is still to get its first process.
      const bool fresh = header.highest.load() == 0 && now.tv_sec - status.st_mtim.tv_sec <= 60;
      bool empty = !fresh && (taken == 0 || taken == EOWNERDEAD);
      for (std::uint32_t i = 0; empty && i < header.highest.load(); ++i) empty = !lives(file.get(), i);
      if (empty && lies_at(path, status.st_dev, status.st_ino)) ::unlink(path.c_str());
      if (taken == EOWNERDEAD) {
        recount(header, reinterpret_cast<const Slot*>(static_cast<const char*>(at) + kSlotsAt));
        pthread_mutex_consistent(&header.mutex);
      }
      if (taken == 0 || taken == EOWNERDEAD) pthread_mutex_unlock(&header.mutex);
    }
    ::munmap(at, kMapped);
  } catch (...) {
  }
}

tl::expected<ScopeBook::Reading, std::string> ScopeBook::read(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return Reading{};
  if (file.get() < 0) return trouble(path, "can't be opened (" + reason() + ")", "look at whose it is");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size < static_cast<off_t>(file_bytes(kFirstSlots)))
    return trouble(path, "is no ledger of gpufence, or cut off", "remove it when nothing runs that uses it");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED)
    return trouble(path, "can't be mapped (" + reason() + ")", "raise the limit of memory");
  Map map;
  map.header = static_cast<Header*>(at);
  Reading reading;
  if (auto checked = check_header(path, *map.header, file.get()); !checked) {
    ::munmap(at, size);
    return tl::unexpected(checked.error());
  }
  for (std::uint32_t row = 0; row < map.header->row_count.load(); ++row) {
    const Header::Row& known = map.header->row[row];
    reading.rows.push_back({std::string(known.uuid, strnlen(known.uuid, sizeof known.uuid)), {}, 0});
  }
  // The file may have grown since; what was not there at the mapping is not read.
  const std::uint64_t room = (size - kSlotsAt) / sizeof(Slot);
  for (std::uint32_t i = 0; i < map.header->highest.load() && i < room; ++i) {
    const Slot& slot = *map.slot_at(i);
    if (slot.used.load() == 0 || !lives(file.get(), i)) continue;
    reading.processes.push_back(holder_at(map, i, 0));
    for (std::uint32_t row = 0; row < reading.rows.size(); ++row) {
      const std::uint64_t bytes = slot.bytes[row].load();
      if (bytes == 0) continue;
      reading.processes.back().bytes += bytes;
      reading.rows[row].bytes += bytes;
      reading.rows[row].holders.push_back(holder_at(map, i, bytes));
    }
  }
  for (Reading::Row& row : reading.rows) sort_holders(row.holders);
  ::munmap(at, size);
  return reading;
}

std::vector<Holder> ScopeBook::holders(std::uint32_t row) {
  std::vector<Holder> all;
  const Map* now = map();
  if (now == nullptr) return all;
  for (std::uint32_t i = 0; i < now->header->highest.load(); ++i) {
    const Slot& slot = *now->slot_at(i);
    const std::uint64_t bytes = slot.bytes[now->row[row]].load();
    if (slot.used.load() != 0 && bytes != 0) all.push_back(holder_at(*now, i, bytes));
  }
  sort_holders(all);
  return all;
}

Holder ScopeBook::holder_at(const Map& map, std::uint32_t index, std::uint64_t bytes) {
  const Slot& slot = *map.slot_at(index);
  Holder holder;
  holder.pid = slot.pid.load();
  holder.pid_namespace = slot.pid_namespace.load();
  holder.name.assign(slot.name, strnlen(slot.name, sizeof slot.name));
  holder.bytes = bytes;
  return holder;
}

Holder ScopeBook::holder() {
  const Map* now = map();
  const std::uint32_t index = now != nullptr ? now->header->owner_slot.load() : 0;
  return now != nullptr && index < now->header->slots.load() ? holder_at(*now, index, 0) : Holder{};
}

}  // namespace gpufence::ledger
