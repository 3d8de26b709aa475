// Layout and rules of the shared file (occupancy.h says what it is for).
// - A GPU has its own lock word: 0 free, else who holds it: slot + 1, with a stamp of the process above it so
//   that a reused slot is not taken for its predecessor. No pthread mutex: glibc aborts on a damaged one.
// - Under a lock the slot is written before the total, so after a death in between the total is counted
// again.
// - Slot locks live as long as the mapping keeps their file description; fork must not hand that to a child:
//   MADV_DONTFORK, and no fork while a descriptor is open (pthread_atfork).
#include "occupancy.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace gpufence::sim {
namespace {

constexpr uint64_t kMagic = 0x32656d6973667067;  // "gpfsime2"
constexpr size_t kSlots = 2048;
constexpr uint64_t kMicrosecond = 1'000, kMillisecond = 1'000'000;  // in nanoseconds

// Held while a descriptor of the file is open; fork waits for it. Leaked with everything else.
std::mutex descriptor_open;

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

void nap(uint64_t ns) {
  const timespec t{0, static_cast<long>(ns)};
  nanosleep(&t, nullptr);
}

std::string file_path(const Machine& machine) {
  const char* dir = getenv("GPUFENCE_SIM_DIR");
  if (dir == nullptr || *dir == '\0') dir = "/dev/shm";
  return std::string(dir) + "/gpufence-sim-" + std::to_string(geteuid()) + "-" + machine.key;
}

void say(const std::string& line) {
  const std::string text = "gpufence: " + line + "\n";
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

struct Occupancy::Area {
  std::atomic<uint64_t> magic;
  uint64_t units;
  uint64_t slots;
  std::atomic<uint64_t> slots_ever;  // no slot at or above this one was ever taken
  char key[32];
  std::atomic<uint64_t> lock[kMaxUnits];
  std::atomic<uint64_t> used[kMaxUnits];
  // Then a row a slot: pid (0: free), the GPUs that it lost, and bytes by unit.

  static constexpr size_t kBytes = 2;  // where they begin in a row
  static size_t row_words(size_t of_units) { return kBytes + of_units; }
  static size_t size(size_t of_units) {
    return sizeof(Area) + kSlots * row_words(of_units) * sizeof(uint64_t);
  }
  std::atomic<uint64_t>* row(size_t slot, size_t of_units) {
    return reinterpret_cast<std::atomic<uint64_t>*>(this + 1) + slot * row_words(of_units);
  }
  void format(const Machine& machine) {
    units = machine.units();
    slots = kSlots;
    snprintf(key, sizeof key, "%s", machine.key.c_str());
    magic.store(kMagic, std::memory_order_release);
  }
  bool is_of(const Machine& machine) const {
    return magic.load(std::memory_order_acquire) == kMagic && units == machine.units() && slots == kSlots &&
           memcmp(key, machine.key.c_str(), machine.key.size() + 1) == 0;
  }
};

namespace {

struct flock slot_range(const Machine& machine, size_t slot, short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  const size_t row_bytes = Occupancy::Area::row_words(machine.units()) * sizeof(uint64_t);
  range.l_start = static_cast<off_t>(sizeof(Occupancy::Area) + slot * row_bytes);
  range.l_len = static_cast<off_t>(row_bytes);
  return range;
}

bool wrong_content(int fd, const Machine& machine) {
  alignas(Occupancy::Area) char bytes[sizeof(Occupancy::Area)];
  if (pread(fd, bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) return true;
  return !reinterpret_cast<const Occupancy::Area*>(bytes)->is_of(machine);
}

// Makes the file aside and moves it into place, so that nobody ever sees half of it. With `over` it replaces.
bool publish(const std::string& path, const Machine& machine, bool over) {
  char suffix[64];
  snprintf(suffix, sizeof suffix, ".%d.%llx", getpid(), static_cast<unsigned long long>(now_ns()));
  const std::string aside = path + suffix;
  const int fd = open(aside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const size_t size = Occupancy::Area::size(machine.units());
  bool done = false;
  // Allocate first: a full tmpfs lets ftruncate pass and then kills at the first touch.
  if (posix_fallocate(fd, 0, static_cast<off_t>(size)) == 0) {
    alignas(Occupancy::Area) char bytes[sizeof(Occupancy::Area)] = {};
    reinterpret_cast<Occupancy::Area*>(bytes)->format(machine);
    done = pwrite(fd, bytes, sizeof bytes, 0) == static_cast<ssize_t>(sizeof bytes) &&
           renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, path.c_str(), over ? 0 : RENAME_NOREPLACE) == 0;
  }
  const int why = errno;
  if (!done) unlink(aside.c_str());
  close(fd);
  errno = why;
  return done || (!over && why == EEXIST);
}

// Replaces a file that is ours but damaged. One process does it: it holds the damaged file's lock meanwhile.
void replace_damaged(int fd, const std::string& path, const Machine& machine) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  whole.l_start = static_cast<off_t>(1) << 40;
  whole.l_len = 1;
  for (int tries = 0; fcntl(fd, F_OFD_SETLK, &whole) != 0; ++tries) {
    if (tries == 100) return;
    nap(10 * kMillisecond);
  }
  struct stat mine, there;
  if (fstat(fd, &mine) == 0 && stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
      mine.st_dev == there.st_dev)
    publish(path, machine, true);
}

// The file of the machine, open, or -1.
int open_file(const std::string& path, const Machine& machine) {
  for (int tries = 0; tries < 4; ++tries) {
    const int fd = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
      if (errno != ENOENT || !publish(path, machine, false)) return -1;
      continue;
    }
    struct stat s;
    // Only what this user made: a link or another's file in a sticky directory is not it, and stays.
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid()) {
      close(fd);
      errno = EPERM;
      return -1;
    }
    if (static_cast<uint64_t>(s.st_size) == Occupancy::Area::size(machine.units()) &&
        !wrong_content(fd, machine))
      return fd;
    replace_damaged(fd, path, machine);
    close(fd);
  }
  errno = EBUSY;
  return -1;
}

}  // namespace

// A descriptor of the file for asking after the lives of slots. No fork while one is open.
class Occupancy::Probe {
 public:
  explicit Probe(Occupancy& o) : owner_(o), held_(descriptor_open) {
    if (o.file_inode_ == 0) return;
    fd_ = open(o.path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat s;
    if (fd_ >= 0 && (fstat(fd_, &s) != 0 || s.st_ino != o.file_inode_ || s.st_dev != o.file_device_)) {
      close(fd_);  // removed or replaced: those who still map the old one can't be asked after any more
      fd_ = -1;
    }
  }
  Probe(const Probe&) = delete;
  ~Probe() {
    if (fd_ >= 0) close(fd_);
  }
  // Locks a slot whose process is dead, so that nobody takes it meanwhile; false: it lives, or nobody can
  // tell.
  bool seize(size_t slot) {
    struct flock range = slot_range(owner_.machine_, slot, F_WRLCK);
    if (fd_ < 0 || slot == owner_.slot_ || fcntl(fd_, F_OFD_SETLK, &range) != 0) return false;
    seized_ = slot;
    return true;
  }
  void let_go() {
    struct flock range = slot_range(owner_.machine_, seized_, F_UNLCK);
    fcntl(fd_, F_OFD_SETLK, &range);
    seized_ = kSlots;
  }
  bool is_dead(size_t slot) {
    if (slot == seized_) return true;
    struct flock range = slot_range(owner_.machine_, slot, F_WRLCK);
    return fd_ >= 0 && fcntl(fd_, F_OFD_GETLK, &range) == 0 && range.l_type == F_UNLCK;
  }

 private:
  Occupancy& owner_;
  std::lock_guard<std::mutex> held_;
  int fd_ = -1;
  size_t seized_ = kSlots;
};

void keep_forks_out() {
  static const int registered = pthread_atfork(
      [] { descriptor_open.lock(); }, [] { descriptor_open.unlock(); }, [] { descriptor_open.unlock(); });
  (void)registered;
}

Occupancy::Occupancy(const Machine& machine) : machine_(machine), path_(file_path(machine)) {
  keep_forks_out();
  const size_t units = machine.units();
  if (units == 0 || !join()) {
    const int why = errno;
    auto* own = static_cast<Area*>(calloc(1, Area::size(units)));
    if (own == nullptr) abort();  // not even 200 KiB at start: nothing of this process would work
    own->format(machine);
    own->slots_ever.store(1);
    area_.store(own);
    if (units != 0)
      say("simulated GPUs: " + path_ + ": " + strerror(why) +
          "; other processes are not seen; make it writable or set GPUFENCE_SIM_DIR to a directory that is");
  }
  lock_word_ = (now_ns() << 16) | (slot_ + 1);
  // What a dead predecessor left in this slot goes.
  for (size_t gpu = 0; gpu < units; ++gpu) {
    if (area_.load()->row(slot_, units)[Area::kBytes + gpu].load() == 0) continue;
    Area* area = lock(gpu, nullptr);
    area->row(slot_, units)[Area::kBytes + gpu].store(0);
    recount(*area, gpu);
    area->lock[gpu].store(0, std::memory_order_release);
  }
  area_.load()->row(slot_, units)[1].store(0);
  area_.load()->row(slot_, units)[0].store(static_cast<uint64_t>(getpid()));
}

void Occupancy::mark_lost(size_t gpu) {
  area_.load()->row(slot_, machine_.units())[1].fetch_or(uint64_t{1} << gpu);
}

bool Occupancy::join() {
  std::lock_guard<std::mutex> held(descriptor_open);
  const int fd = open_file(path_, machine_);
  if (fd < 0) return false;
  const size_t units = machine_.units();
  struct stat s;
  void* at = fstat(fd, &s) == 0 ? mmap(nullptr, Area::size(units), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                : MAP_FAILED;
  if (at == MAP_FAILED) {
    close(fd);
    return false;
  }
  madvise(at, Area::size(units), MADV_DONTFORK);
  auto* area = static_cast<Area*>(at);
  // Slots that say free first: asking the kernel about a thousand others takes half a millisecond.
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t slot = 0; slot < kSlots; ++slot) {
      if (pass == 0 && area->row(slot, units)[0].load() != 0) continue;
      struct flock range = slot_range(machine_, slot, F_WRLCK);
      if (fcntl(fd, F_OFD_SETLK, &range) != 0) continue;
      close(fd);  // the mapping keeps the description, and with it the lock, alive
      slot_ = slot;
      uint64_t ever = area->slots_ever.load();
      while (ever < slot + 1 && !area->slots_ever.compare_exchange_weak(ever, slot + 1)) {
      }
      file_device_ = s.st_dev;
      file_inode_.store(s.st_ino);
      area_.store(area);
      return true;
    }
  }
  close(fd);
  munmap(at, Area::size(units));
  errno = EUSERS;
  return false;
}

// Takes the GPU's lock word and returns the area it was taken in. A dead holder's lock is broken; a live one
// that does not move (SIGSTOP) is waited for two seconds, and then this process counts alone: a simulated
// card must not hang a program.
Occupancy::Area* Occupancy::lock(size_t gpu, Probe* probe) {
  uint64_t waiting_since = 0;
  for (unsigned round = 0;; ++round) {
    Area* area = area_.load(std::memory_order_acquire);
    std::atomic<uint64_t>& word = area->lock[gpu];
    uint64_t holder = 0;
    if (word.compare_exchange_strong(holder, lock_word_, std::memory_order_acquire)) return area;
    if (round < 200) {
      sched_yield();
      continue;
    }
    nap(50 * kMicrosecond);
    if (round % 40 != 0 || holder == lock_word_) continue;
    const size_t slot = (holder & 0xffff) - 1;
    bool dead = slot >= kSlots || slot == slot_;  // damaged, or a predecessor in this slot
    if (!dead) {
      if (probe != nullptr) {
        dead = probe->is_dead(slot);
      } else {
        Probe own(*this);
        dead = own.is_dead(slot);
      }
    }
    if (dead && word.compare_exchange_strong(holder, lock_word_, std::memory_order_acquire)) {
      recount(*area, gpu);
      return area;
    }
    const uint64_t now = now_ns();
    if (waiting_since == 0) waiting_since = now;
    if (now - waiting_since > 2000 * kMillisecond) leave("a process holds the lock and does not move");
  }
}

void Occupancy::recount(Area& area, size_t gpu) {
  const size_t units = machine_.units();
  uint64_t sum = area.row(slot_, units)[Area::kBytes + gpu].load();
  const size_t ever = std::min<size_t>(area.slots_ever.load(), kSlots);
  for (size_t slot = 0; slot < ever; ++slot)
    if (slot != slot_ && area.row(slot, units)[0].load() != 0)
      sum += area.row(slot, units)[Area::kBytes + gpu].load();
  area.used[gpu].store(sum);
}

// Gives back what dead processes held, on every GPU, and counts this GPU again.
void Occupancy::reap(size_t gpu) {
  last_reap_ns_.store(now_ns());
  if (file_inode_ == 0) return;
  const size_t units = machine_.units();
  Probe probe(*this);
  Area* area = area_.load();
  const size_t ever = std::min<size_t>(area->slots_ever.load(), kSlots);
  for (size_t slot = 0; slot < ever; ++slot) {
    std::atomic<uint64_t>* row = area->row(slot, units);
    if (row[0].load() == 0 || !probe.seize(slot)) continue;
    for (size_t g = 0; g < units; ++g) {
      if (row[Area::kBytes + g].load() == 0) continue;
      Area* locked = lock(g, &probe);
      row[Area::kBytes + g].store(0);
      recount(*locked, g);
      locked->lock[g].store(0, std::memory_order_release);
    }
    row[1].store(0);
    row[0].store(0);
    probe.let_go();
  }
  Area* locked = lock(gpu, &probe);
  recount(*locked, gpu);
  locked->lock[gpu].store(0, std::memory_order_release);
}

// Goes on alone, with what this process holds. The old mapping stays: other threads may still be in it.
void Occupancy::leave(const char* why) {
  static std::mutex leaving;
  std::lock_guard<std::mutex> one(leaving);
  if (file_inode_ == 0) return;
  const size_t units = machine_.units();
  auto* own = static_cast<Area*>(calloc(1, Area::size(units)));
  if (own == nullptr) return;
  own->format(machine_);
  for (size_t gpu = 0; gpu < units; ++gpu) {
    const uint64_t mine = area_.load()->row(slot_, units)[Area::kBytes + gpu].load();
    own->row(slot_, units)[Area::kBytes + gpu].store(mine);
    own->used[gpu].store(mine);
  }
  own->row(slot_, units)[1].store(area_.load()->row(slot_, units)[1].load());
  file_inode_.store(0);
  area_.store(own);
  say("simulated GPUs: " + path_ + ": " + why +
      "; other processes are not seen; end that process or remove the file");
}

bool Occupancy::reserve(size_t gpu, uint64_t bytes) {
  const uint64_t total = machine_.unit(gpu).memory_bytes;
  for (bool again = true;; again = false) {
    Area* area = lock(gpu, nullptr);
    std::atomic<uint64_t>& mine = area->row(slot_, machine_.units())[Area::kBytes + gpu];
    const uint64_t used = area->used[gpu].load(std::memory_order_relaxed);
    const bool fits = used <= total && bytes <= total - used;
    if (fits) {
      mine.store(mine.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
      area->used[gpu].store(used + bytes, std::memory_order_relaxed);
    }
    area->lock[gpu].store(0, std::memory_order_release);
    if (fits || !again) return fits;
    reap(gpu);
  }
}

void Occupancy::release(size_t gpu, uint64_t bytes) {
  Area* area = lock(gpu, nullptr);
  std::atomic<uint64_t>& mine = area->row(slot_, machine_.units())[Area::kBytes + gpu];
  const uint64_t held = mine.load(std::memory_order_relaxed),
                 used = area->used[gpu].load(std::memory_order_relaxed);
  mine.store(held - std::min(held, bytes), std::memory_order_release);
  area->used[gpu].store(used - std::min(used, bytes), std::memory_order_relaxed);
  area->lock[gpu].store(0, std::memory_order_release);
}

uint64_t Occupancy::used(size_t gpu) {
  Area* area = area_.load(std::memory_order_acquire);
  const uint64_t total = area->used[gpu].load(std::memory_order_relaxed);
  if (total == area->row(slot_, machine_.units())[Area::kBytes + gpu].load(std::memory_order_relaxed))
    return total;
  // Others hold some of it: are they alive? Exact with few neighbours, every 20 ms with many (1 µs each).
  if (area->slots_ever.load() <= 16 || now_ns() - last_reap_ns_.load() > 20 * kMillisecond) reap(gpu);
  return std::min(area_.load()->used[gpu].load(), machine_.unit(gpu).memory_bytes);
}

std::vector<Holder> holders(const Machine& machine) {
  std::vector<Holder> found;
  const size_t units = machine.units();
  if (units == 0) return found;
  const int fd = open(file_path(machine).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return found;
  struct stat s;
  const size_t size = Occupancy::Area::size(units);
  if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
      static_cast<size_t>(s.st_size) == size && !wrong_content(fd, machine)) {
    std::vector<uint64_t> words(size / sizeof(uint64_t));
    if (pread(fd, words.data(), size, 0) == static_cast<ssize_t>(size)) {
      const uint64_t* row = words.data() + sizeof(Occupancy::Area) / sizeof(uint64_t);
      for (size_t slot = 0; slot < kSlots; ++slot, row += Occupancy::Area::row_words(units)) {
        const uint64_t* bytes = row + Occupancy::Area::kBytes;
        if (row[0] == 0 ||
            (row[1] == 0 && std::all_of(bytes, bytes + units, [](uint64_t b) { return b == 0; })))
          continue;
        struct flock range = slot_range(machine, slot, F_WRLCK);
        if (fcntl(fd, F_OFD_GETLK, &range) != 0 || range.l_type == F_UNLCK) continue;
        found.push_back({static_cast<pid_t>(row[0]), std::vector<uint64_t>(bytes, bytes + units), row[1]});
      }
    }
  }
  close(fd);
  return found;
}

}  // namespace gpufence::sim
