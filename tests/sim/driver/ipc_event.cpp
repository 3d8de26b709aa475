// Interprocess events. Each process keeps a file with a cell for each of its own; whoever opens one maps the
// page with its cell. Waiting is a futex in the cell.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <deque>

#include "ipc.h"
#include "shared_file.h"

namespace gpufence::sim {

// Of records, the last few are told apart: one that is done later than eight others after it is none that a
// program could have ordered.
constexpr uint64_t kRecords = 8;

struct SharedEvent::Cell {
  std::atomic<uint64_t> id;        // 0: no event
  std::atomic<uint64_t> recorded;  // how often
  std::atomic<uint32_t> changes;   // a futex
  struct Record {
    std::atomic<uint64_t> done;    // the number of the newest that is done
    std::atomic<uint64_t> number;  // whose `pid` is
    std::atomic<int32_t> pid;
  } records[kRecords];
};

namespace {

using Cell = SharedEvent::Cell;

constexpr char kMagic[8] = {'g', 'p', 'f', 's', 'i', 'p', 'c', 'e'};
constexpr size_t kCellBytes = 512;  // a whole number of them in a page
static_assert(sizeof(Cell) <= kCellBytes);
constexpr uint32_t kMostCells = 1u << 16;

struct Handle {
  char magic[8];
  int32_t pid, file;
  uint64_t inode, id;
  uint32_t place;
};
static_assert(sizeof(Handle) <= sizeof(CUipcEventHandle));

// This process's own cells. Leaked.
struct Cells {
  std::mutex lock;
  int file = -1;
  uint64_t inode = 0;
  uint32_t used = 0;
  std::deque<uint32_t> unused;
};
Cells& cells() {
  static auto* made = new Cells;
  return *made;
}

bool make_file(Cells& all) {
  const int file = memfd_create("gpufence-sim-events", MFD_CLOEXEC);
  struct stat status {};
  if (file >= 0 && ftruncate(file, off_t{kMostCells} * kCellBytes) == 0 && fstat(file, &status) == 0) {
    all.file = file;
    all.inode = status.st_ino;
    return true;
  }
  if (file >= 0) close(file);
  return false;
}

// Places count from 1.
Cell* map_cell(int file, uint32_t place) {
  const uint64_t at = uint64_t{place - 1} * kCellBytes, first = at / page_bytes() * page_bytes();
  void* page =
      mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(first));
  if (page == MAP_FAILED) return nullptr;
  madvise(page, page_bytes(), MADV_DONTFORK);
  return reinterpret_cast<Cell*>(static_cast<char*>(page) + (at - first));
}

void unmap_cell(Cell* cell) {
  const auto address = reinterpret_cast<uintptr_t>(cell);
  munmap(reinterpret_cast<void*>(address / page_bytes() * page_bytes()), page_bytes());
}

// A dead one that its parent has not asked after yet counts as dead.
bool alive(int32_t pid) {
  char path[32], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  if (n <= 0) return false;
  text[n] = 0;
  const char* state = strrchr(text, ')');  // behind the program's name, which may hold anything
  return state != nullptr && state[1] == ' ' && state[2] != 'Z' && state[2] != 'X';
}

}  // namespace

std::shared_ptr<SharedEvent> SharedEvent::make() {
  Cells& all = cells();
  std::lock_guard<std::mutex> held(all.lock);
  uint64_t id = 0;
  if ((all.file < 0 && !make_file(all)) || getrandom(&id, sizeof id, 0) != sizeof id) return nullptr;
  // The longest unused first, and only when many are: a stale handle stays one for long.
  if (all.used == kMostCells && all.unused.empty()) return nullptr;
  const bool again = all.unused.size() > 4096 || all.used == kMostCells;
  const uint32_t place = again ? all.unused.front() : all.used + 1;
  Cell* cell = map_cell(all.file, place);
  if (cell == nullptr) return nullptr;
  if (again)
    all.unused.pop_front();
  else
    ++all.used;
  memset(static_cast<void*>(cell), 0, sizeof *cell);
  cell->id.store(id | 1, std::memory_order_release);
  return std::make_shared<SharedEvent>(cell, place);
}

CUresult SharedEvent::open(const CUipcEventHandle& given, std::shared_ptr<SharedEvent>* out) {
  Handle handle;
  memcpy(&handle, &given, sizeof handle);
  if (memcmp(handle.magic, kMagic, sizeof kMagic) != 0 || handle.place == 0 || handle.place > kMostCells)
    return CUDA_ERROR_INVALID_VALUE;
  {
    // A process's own; NVIDIA does not say, drivers answer so (github.com/ROCm/hip pull request 1984).
    std::lock_guard<std::mutex> held(cells().lock);
    if (handle.inode == cells().inode && handle.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  }
  const int file = open_of(handle.pid, handle.file, handle.inode);
  if (file < 0) return CUDA_ERROR_INVALID_HANDLE;
  Cell* cell = map_cell(file, handle.place);
  close(file);
  if (cell == nullptr) return CUDA_ERROR_MAP_FAILED;
  if (cell->id.load(std::memory_order_acquire) != handle.id) {
    unmap_cell(cell);
    return CUDA_ERROR_INVALID_HANDLE;  // destroyed
  }
  *out = std::make_shared<SharedEvent>(cell, 0);
  return CUDA_SUCCESS;
}

CUresult SharedEvent::give_handle(CUipcEventHandle* out) const {
  std::lock_guard<std::mutex> held(cells().lock);
  struct stat status {};
  if (fstat(cells().file, &status) != 0 || status.st_ino != cells().inode) return CUDA_ERROR_MAP_FAILED;
  Handle handle{{}, getpid(), cells().file, cells().inode, cell_->id, own_place_};
  memcpy(handle.magic, kMagic, sizeof kMagic);
  memset(out, 0, sizeof *out);
  memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

SharedEvent::~SharedEvent() {
  if (own_place_ != 0) {
    std::lock_guard<std::mutex> held(cells().lock);
    cell_->id = 0;
    cells().unused.push_back(own_place_);
  }
  unmap_cell(cell_);
}

uint64_t SharedEvent::record() {
  const uint64_t number = ++cell_->recorded;
  Cell::Record& record = cell_->records[number % kRecords];
  record.pid = getpid();
  record.number.store(number, std::memory_order_release);
  return number;
}

void SharedEvent::complete(uint64_t number) {
  std::atomic<uint64_t>& done = cell_->records[number % kRecords].done;
  uint64_t before = done.load();
  while (before < number && !done.compare_exchange_weak(before, number)) {
  }
  ++cell_->changes;
  syscall(SYS_futex, &cell_->changes, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

uint64_t SharedEvent::last() const {
  return cell_->recorded.load(std::memory_order_acquire);
}

bool SharedEvent::done(uint64_t number) const {
  const Cell::Record& record = cell_->records[number % kRecords];
  if (number == 0 || record.done.load(std::memory_order_acquire) >= number) return true;
  const int32_t pid = record.pid;
  return record.number.load(std::memory_order_acquire) == number && pid != getpid() && !alive(pid);
}

void SharedEvent::wait(uint64_t number, const std::function<bool()>& give_up) const {
  for (;;) {
    const uint32_t seen = cell_->changes.load(std::memory_order_acquire);
    if (done(number) || give_up()) return;
    // Now and then, to see a death and a fault.
    const timespec patience{0, 20'000'000};
    syscall(SYS_futex, &cell_->changes, FUTEX_WAIT, seen, &patience, nullptr, 0);
  }
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  return in_context(__func__, [&](Context&) {
    Event* event = driver().events.check(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || (event->flags & CU_EVENT_INTERPROCESS) == 0) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard<std::mutex> held(event->lock);
    return event->shared == nullptr ? CUDA_ERROR_INVALID_HANDLE : event->shared->give_handle(out);
  });
}
CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  return in_context(__func__, [&](Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<SharedEvent> shared;
    if (const CUresult bad = SharedEvent::open(handle, &shared); bad != CUDA_SUCCESS) return bad;
    // "Behaves like a locally created event with the CU_EVENT_DISABLE_TIMING flag specified."
    return create_event(context, CU_EVENT_DISABLE_TIMING, std::move(shared), out);
  });
}
