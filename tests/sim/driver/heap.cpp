// Two-level segregated fit with boundary links (as in M. Masmano, "TLSF", ECRTS 2004), its tables beside the
// memory instead of in it.
#include "heap.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>

// LeakSanitizer's, there only in a program that has it: it looks for pointers in globals, stacks and malloc's
// memory, and in what it is told of.
extern "C" [[gnu::weak]] void __lsan_register_root_region(const void* begin, size_t bytes);

namespace gpufence::sim {
namespace {

// A class holds sizes that share the top five bits. Searching rounds up, so that whatever is found fits.
int class_of(uint64_t granules) {
  if (granules < 16) return static_cast<int>(granules);
  const int top = 63 - std::countl_zero(granules);
  return (top - 3) * 16 + static_cast<int>((granules >> (top - 4)) & 15);
}

int class_that_fits(uint64_t granules) {
  if (granules < 16) return static_cast<int>(granules);
  const int top = 63 - std::countl_zero(granules);
  return class_of(granules + (uint64_t{1} << (top - 4)) - 1);
}

// Host memory is given back once a free block may hold this much of it: rarely enough to keep frees quick.
constexpr uint64_t kGiveBackGranules = (uint64_t{16} << 20) / Heap::kGranule;

// Every range of every heap, for owner_of. Only ever grows: ranges are never unmapped.
struct Owned {
  std::atomic<uintptr_t> base, bytes;
  std::atomic<void*> owner;
  std::atomic<int> file;
  std::atomic<uint64_t> inode;
};
constexpr uint32_t kMaxRanges = 1024;
constinit Owned owned[kMaxRanges] = {};
constinit std::atomic<uint32_t> owned_count{0};
constinit std::mutex owned_lock;

uint64_t inode_of(int file) {
  struct stat status {};
  return fstat(file, &status) == 0 ? status.st_ino : 0;
}

// A child has none of the memory; with the descriptors it would hold it after the parent's end.
void close_files_in_children() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    for (uint32_t i = 0; i < owned_count.load(); ++i)
      if (inode_of(owned[i].file) == owned[i].inode) close(owned[i].file);
  });
  (void)registered;
}

bool own(uintptr_t base, uint64_t bytes, void* owner, int file, uint64_t inode) {
  close_files_in_children();
  std::lock_guard<std::mutex> held(owned_lock);
  const uint32_t n = owned_count.load();
  if (n == kMaxRanges) return false;
  owned[n].base.store(base);
  owned[n].bytes.store(bytes);
  owned[n].owner.store(owner);
  owned[n].file.store(file);
  owned[n].inode.store(inode);
  owned_count.store(n + 1, std::memory_order_release);
  return true;
}

}  // namespace

void* owner_of(uintptr_t address) {
  const uint32_t n = owned_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < n; ++i)
    if (address - owned[i].base.load(std::memory_order_relaxed) <
        owned[i].bytes.load(std::memory_order_relaxed))
      return owned[i].owner.load(std::memory_order_relaxed);
  return nullptr;
}

void* reserve_lazily(uint64_t bytes, bool below_4gib, int* file) {
  // A file in memory rather than an anonymous mapping: those are refused beyond what the host could ever hold
  // (8 × 80 GiB on a small one), with the sanitizers' runtimes too.
  const int fd = memfd_create("gpufence-sim", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  void* at = MAP_FAILED;
  const auto length = static_cast<size_t>(bytes);
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    const int flags = MAP_SHARED | MAP_NORESERVE;
    if (!below_4gib) {
      at = mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, fd, 0);
    } else {
      constexpr uintptr_t kStep = uintptr_t{16} << 20;
      for (uintptr_t hint = kStep; hint + length <= (uintptr_t{1} << 32) && at == MAP_FAILED; hint += kStep) {
        at = mmap(reinterpret_cast<void*>(hint), length, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE,
                  fd, 0);
        if (at != MAP_FAILED &&
            at != reinterpret_cast<void*>(hint)) {  // a kernel before 4.17 takes it as a wish
          munmap(at, length);
          at = MAP_FAILED;
          break;
        }
      }
    }
  }
  const bool keep = file != nullptr && at != MAP_FAILED;
  if (keep) *file = fd;
  if (!keep) close(fd);
  if (at == MAP_FAILED) return nullptr;
  // As on a real card: a child has none of it, and a core dump leaves it out.
  madvise(at, length, MADV_DONTFORK);
  madvise(at, length, MADV_DONTDUMP);
  return at;
}

void* reserve_for_handles(uint64_t bytes) {
  void* at = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at != MAP_FAILED ? at : reserve_lazily(bytes, false);  // where the host does not overcommit
}

void tell_leak_checker(const void* begin, size_t bytes) {
  if (__lsan_register_root_region != nullptr) __lsan_register_root_region(begin, bytes);
}

bool Heap::add_range(uint64_t bytes) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  const uint64_t granules = bytes / kGranule;
  std::vector<uint64_t> level_words;
  uint64_t table_bytes = granules * sizeof(Block*);
  for (uint64_t bits = granules;;) {
    const uint64_t words = (bits + 63) / 64;
    level_words.push_back(words);
    table_bytes += words * sizeof(uint64_t);
    if (words == 1) break;
    bits = words;
  }
  int file = -1;
  void* base = reserve_lazily(bytes, below_4gib_, &file);
  if (base == nullptr) return false;
  const uint64_t inode = inode_of(file);
  void* tables = reserve_lazily(table_bytes, false);
  if (tables == nullptr || !own(reinterpret_cast<uintptr_t>(base), bytes, owner_, file, inode)) {
    if (tables != nullptr) munmap(tables, static_cast<size_t>(table_bytes));
    munmap(base, static_cast<size_t>(bytes));
    close(file);
    return false;
  }
  Range range{reinterpret_cast<uintptr_t>(base), granules, static_cast<Block**>(tables), {}, file, inode};
  auto* words = reinterpret_cast<uint64_t*>(range.blocks + granules);
  for (uint64_t count : level_words) {
    range.starts.push_back(words);
    words += count;
  }
  ranges_.push_back(range);
  Block* whole = take_block();
  whole->address = range.base;
  whole->granules = granules;
  whole->range = static_cast<uint32_t>(ranges_.size() - 1);
  mark(ranges_.back(), 0, whole);
  put_free(whole);
  return true;
}

void Heap::mark(Range& range, uint64_t granule, Block* block) {
  range.blocks[granule] = block;
  for (uint64_t* level : range.starts) {
    uint64_t& word = level[granule / 64];
    const bool was_empty = word == 0;
    word |= uint64_t{1} << (granule % 64);
    if (!was_empty) return;
    granule /= 64;
  }
}

void Heap::unmark(Range& range, uint64_t granule) {
  range.blocks[granule] = nullptr;
  for (uint64_t* level : range.starts) {
    uint64_t& word = level[granule / 64];
    word &= ~(uint64_t{1} << (granule % 64));
    if (word != 0) return;
    granule /= 64;
  }
}

Block* Heap::start_at_or_below(Range& range, uint64_t granule) {
  for (size_t up = 0; up < range.starts.size(); ++up) {
    // Bits at or below the place; above the first level, strictly below, as the word itself had none.
    const uint64_t bit = granule % 64;
    const uint64_t upto = up == 0 ? ~uint64_t{0} >> (63 - bit) : (uint64_t{1} << bit) - 1;
    const uint64_t found = range.starts[up][granule / 64] & upto;
    granule /= 64;
    if (found == 0) continue;
    granule = granule * 64 + static_cast<uint64_t>(63 - std::countl_zero(found));
    for (size_t down = up; down-- > 0;)
      granule = granule * 64 + static_cast<uint64_t>(63 - std::countl_zero(range.starts[down][granule]));
    return range.blocks[granule];
  }
  return nullptr;
}

Heap::Range* Heap::range_of(uintptr_t address) {
  for (Range& range : ranges_)
    if (address - range.base < range.granules * kGranule) return &range;
  return nullptr;
}

Block* Heap::at(uintptr_t address) {
  Range* range = range_of(address);
  if (range == nullptr || (address - range->base) % kGranule != 0) return nullptr;
  Block* block = range->blocks[(address - range->base) / kGranule];
  return block != nullptr && block->live ? block : nullptr;
}

Block* Heap::containing(uintptr_t address) {
  Range* range = range_of(address);
  if (range == nullptr) return nullptr;
  Block* block = start_at_or_below(*range, (address - range->base) / kGranule);
  return block != nullptr && block->live && address - block->address < block->bytes ? block : nullptr;
}

Backing Heap::backing_of(const Block& block) const {
  const Range& range = ranges_[block.range];
  return {range.file, range.inode, range.granules * kGranule, block.address - range.base, range.base};
}

Block* Heap::take_block() {
  if (spare_ == nullptr) return &storage_.emplace_back();
  Block* block = spare_;
  spare_ = block->free_next;
  *block = Block{};
  return block;
}

void Heap::put_free(Block* block) {
  const int c = class_of(block->granules);
  block->live = false;
  block->free_prev = nullptr;
  block->free_next = classes_[c];
  if (block->free_next != nullptr) block->free_next->free_prev = block;
  classes_[c] = block;
  nonempty_[c / 64] |= uint64_t{1} << (c % 64);
}

void Heap::take_free(Block* block) {
  const int c = class_of(block->granules);
  if (block->free_prev != nullptr) block->free_prev->free_next = block->free_next;
  if (block->free_next != nullptr) block->free_next->free_prev = block->free_prev;
  if (classes_[c] == block) {
    classes_[c] = block->free_next;
    if (classes_[c] == nullptr) nonempty_[c / 64] &= ~(uint64_t{1} << (c % 64));
  }
}

Block* Heap::find_free(uint64_t granules) {
  const int least = class_that_fits(granules);
  for (int word = least / 64; word < kClasses / 64; ++word) {
    uint64_t bits = nonempty_[word];
    if (word == least / 64) bits &= ~uint64_t{0} << (least % 64);
    if (bits != 0) return classes_[word * 64 + std::countr_zero(bits)];
  }
  // The request's own class may hold one that fits, as when the whole card is asked for.
  for (Block* block = classes_[class_of(granules)]; block != nullptr; block = block->free_next)
    if (block->granules >= granules) return block;
  return nullptr;
}

Block* Heap::allocate(uint64_t bytes, uint64_t room) {
  if (bytes >= kTooMuch) return nullptr;  // before anything is rounded up
  const uint64_t granules = (bytes + kGranule - 1) / kGranule;
  Block* block = find_free(granules);
  if (block == nullptr) {
    const uint64_t more = ranges_.empty() ? room : room / 8;
    if (!add_range(std::max(granules * kGranule, more)) && !add_range(granules * kGranule)) return nullptr;
    block = find_free(granules);
  }
  take_free(block);
  if (block->granules > granules) {
    Range& range = ranges_[block->range];
    Block* rest = take_block();
    rest->address = block->address + granules * kGranule;
    rest->granules = block->granules - granules;
    rest->dirty = std::min(block->dirty, rest->granules);
    rest->range = block->range;
    rest->below = block;
    rest->above = block->above;
    if (rest->above != nullptr) rest->above->below = rest;
    block->above = rest;
    block->granules = granules;
    mark(range, (rest->address - range.base) / kGranule, rest);
    put_free(rest);
  }
  block->bytes = bytes;
  block->dirty = 0;
  block->live = true;
  block->managed = false;
  block->exported = 0;
  block->pool = nullptr;
  block->id = next_id_++;
  return block;
}

void Heap::free(Block* block) {
  Range& range = ranges_[block->range];
  block->dirty = block->granules;
  auto join = [&](Block* lower, Block* upper) {
    lower->granules += upper->granules;
    lower->dirty += upper->dirty;
    lower->above = upper->above;
    if (lower->above != nullptr) lower->above->below = lower;
    unmark(range, (upper->address - range.base) / kGranule);
    upper->free_next = spare_;
    spare_ = upper;
  };
  if (Block* above = block->above; above != nullptr && !above->live) {
    take_free(above);
    join(block, above);
  }
  if (Block* below = block->below; below != nullptr && !below->live) {
    take_free(below);
    join(below, block);
    block = below;
  }
  block->context = nullptr;
  if (block->dirty >= kGiveBackGranules) give_pages_back(block);
  put_free(block);
}

void Heap::give_pages_back(Block* block) {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t from = (block->address + page - 1) / page * page;
  const uintptr_t to = (block->address + block->granules * kGranule) / page * page;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_REMOVE);
  block->dirty = 0;
}

}  // namespace gpufence::sim
