// Memory of cuMemAlloc in several processes. A handle is of a whole allocation, whichever of its bytes was
// named; the pages that it lies in are mapped where it is opened, so that neighbours in them are shared too,
// as NVIDIA's guide warns ("CUDA IPC APIs will share the entire underlying memory block", CUDA C++
// programming guide, "Interprocess Communication"). Bytes count against the process that allocated them.
#include "ipc.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "ptx/run.h"
#include "queue.h"
#include "shared_file.h"

namespace gpufence::sim {
namespace {

constexpr char kMagic[8] = {'g', 'p', 'f', 's', 'i', 'p', 'c', 'm'};

// In the file of a heap, behind its memory: what of it may be opened. A handle names one of the entries.
struct Entry {
  uint64_t id, offset, bytes;  // id 0: none
};
constexpr uint32_t kMostEntries = 1u << 20;

struct Handle {
  char magic[8];
  int32_t pid, file;
  uint64_t inode, process;  // `process`: random, as pids come again
  uint64_t entries_at;      // in the file
  uint64_t id;
  uint32_t entry, host_index;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

struct Import {
  uint64_t bytes = 0;
  uint64_t id = 0, process = 0;
  uint32_t host_index = 0;  // the exporter's GPU
  unsigned opened = 0;      // how often
  uint64_t number = 0;      // of the imports there ever were
  Device* device = nullptr;
  Context* context = nullptr;
  void* pages = nullptr;
  size_t page_bytes = 0;
};

// Leaked, as all state that exit handlers reach.
struct Table {
  std::mutex lock;
  uint64_t process = 0;
  std::map<uintptr_t, std::vector<uint32_t>> unused;  // entries, by where the file's memory lies
  std::map<uintptr_t, uint32_t> used;                 // how many entries there ever were
  std::map<uintptr_t, Import> imports;                // by address
  uint64_t number = 0;                                // of imports, ever
};
Table& table() {
  static auto* made = new Table;
  return *made;
}

uint64_t up_to_page(uint64_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

off_t place_of(uint64_t entries_at, uint32_t entry) {
  return static_cast<off_t>(entries_at + (entry - 1) * sizeof(Entry));
}

// The program may have closed the descriptor, and have another file under its number.
bool still_there(const Backing& backing) {
  struct stat status {};
  return fstat(backing.file, &status) == 0 && status.st_ino == backing.inode;
}

// Under the device's lock and the table's.
CUresult enter(const Backing& backing, Block& block, uint64_t id) {
  if (block.exported != 0) return CUDA_SUCCESS;
  std::vector<uint32_t>& unused = table().unused[backing.base];
  uint32_t& used = table().used[backing.base];
  if (unused.empty() && used == kMostEntries) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint32_t entry = unused.empty() ? used + 1 : unused.back();
  const Entry written = {id, backing.offset, block.bytes};
  if (pwrite(backing.file, &written, sizeof written, place_of(up_to_page(backing.bytes), entry)) !=
      sizeof written)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (unused.empty())
    ++used;
  else
    unused.pop_back();
  block.exported = entry;
  return CUDA_SUCCESS;
}

CUresult give_handle(CUipcMemHandle* out, CUdeviceptr pointer) {
  Found found;
  if (out == nullptr || !find(pointer, found) || !exportable(found)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> of_device(found.device->lock);
  Heap& heap = heap_of(*found.device, found.base);
  Block* block = heap.at(found.base);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;  // freed meanwhile
  const Backing backing = heap.backing_of(*block);
  if (!still_there(backing)) return CUDA_ERROR_MAP_FAILED;
  std::lock_guard<std::mutex> held(table().lock);
  if (table().process == 0 && getrandom(&table().process, sizeof table().process, 0) < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  if (const CUresult entered = enter(backing, *block, found.id); entered != CUDA_SUCCESS) return entered;
  Handle handle{{},
                getpid(),
                backing.file,
                backing.inode,
                table().process,
                up_to_page(backing.bytes),
                found.id,
                block->exported,
                static_cast<uint32_t>(found.device->host_index)};
  memcpy(handle.magic, kMagic, sizeof kMagic);
  memset(out, 0, sizeof *out);
  memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

// The pages of the entry, mapped; the answer is where the allocation begins in them.
CUresult map(const Handle& handle, Import& import, uintptr_t* address) {
  const int file = open_of(handle.pid, handle.file, handle.inode);
  if (file < 0) return CUDA_ERROR_INVALID_HANDLE;  // its process is gone
  Entry entry{};
  const bool known =
      handle.entry != 0 && handle.entry <= kMostEntries &&
      pread(file, &entry, sizeof entry, place_of(handle.entries_at, handle.entry)) == sizeof entry &&
      entry.id == handle.id;
  CUresult result = CUDA_ERROR_INVALID_HANDLE;  // freed
  if (known) {
    const uint64_t first = entry.offset / page_bytes() * page_bytes();
    const uint64_t bytes = up_to_page(entry.offset + entry.bytes) - first;
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file,
                       static_cast<off_t>(first));
    result = CUDA_ERROR_MAP_FAILED;
    if (pages != MAP_FAILED) {
      madvise(pages, bytes, MADV_DONTFORK);
      madvise(pages, bytes, MADV_DONTDUMP);
      import.bytes = entry.bytes;
      import.pages = pages;
      import.page_bytes = bytes;
      *address = reinterpret_cast<uintptr_t>(pages) + (entry.offset - first);
      result = CUDA_SUCCESS;
    }
  }
  close(file);
  return result;
}

CUresult open_handle(Context& context, CUdeviceptr* out, const CUipcMemHandle& given, unsigned flags) {
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  Handle handle;
  memcpy(&handle, &given, sizeof handle);
  if (memcmp(handle.magic, kMagic, sizeof kMagic) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(table().lock);
  // A process's own; NVIDIA does not say, drivers answer so (github.com/openucx/ucx pull request 11603).
  if (handle.process == table().process) return CUDA_ERROR_INVALID_CONTEXT;
  Device* device = visible_at(handle.host_index);
  // "cuDeviceCanAccessPeer can determine if a mapping is possible."
  if (device == nullptr || (device != context.device && !can_access_peer(*context.device, *device)))
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  for (auto& [address, import] : table().imports) {
    if (import.process != handle.process || import.host_index != handle.host_index) continue;
    if (import.context == &context && import.id == handle.id) {
      ++import.opened;
      *out = address;
      return CUDA_SUCCESS;
    }
    // "CUipcMemHandles from each CUdevice in a given process may only be opened by one CUcontext per CUdevice
    // per other process."
    if (import.context != &context && import.context->device == context.device)
      return CUDA_ERROR_INVALID_CONTEXT;
  }
  Import import;
  import.id = handle.id;
  import.process = handle.process;
  import.host_index = handle.host_index;
  import.opened = 1;
  import.number = ++table().number;
  import.device = device;
  import.context = &context;
  uintptr_t address = 0;
  if (const CUresult bad = map(handle, import, &address); bad != CUDA_SUCCESS) return bad;
  table().imports[address] = import;
  ++context.memory_changes;
  *out = address;
  return CUDA_SUCCESS;
}

CUresult close_handle(CUdeviceptr pointer) {
  {
    std::lock_guard<std::mutex> held(table().lock);
    const auto import = table().imports.find(pointer);
    if (import == table().imports.end()) return CUDA_ERROR_INVALID_VALUE;
    if (import->second.opened > 1) {
      --import->second.opened;
      return CUDA_SUCCESS;
    }
  }
  // As cuMemFree: work that is under way still has the memory. Peers of the context reach it too.
  synchronise_all();
  std::lock_guard<std::mutex> held(table().lock);
  const auto import = table().imports.find(pointer);
  if (import == table().imports.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--import->second.opened > 0) return CUDA_SUCCESS;
  ++import->second.context->memory_changes;
  munmap(import->second.pages, import->second.page_bytes);
  table().imports.erase(import);
  return CUDA_SUCCESS;
}

}  // namespace

bool exportable(const Found& found) {
  return !found.host && !found.managed && !found.mapped && !found.imported && found.pool == nullptr;
}

void withdraw(const Backing& backing, Block& block) {
  std::lock_guard<std::mutex> held(table().lock);
  const Entry none{};
  if (still_there(backing) && pwrite(backing.file, &none, sizeof none,
                                     place_of(up_to_page(backing.bytes), block.exported)) == sizeof none)
    table().unused[backing.base].push_back(block.exported);
  block.exported = 0;
}

bool find_imported(uintptr_t address, Found& found) {
  std::lock_guard<std::mutex> held(table().lock);
  auto import = table().imports.upper_bound(address);
  if (import == table().imports.begin()) return false;
  --import;
  if (address - import->first >= import->second.bytes) return false;
  found = {};
  found.device = import->second.device;
  found.base = import->first;
  found.bytes = import->second.bytes;
  found.id = buffer_id(import->second.number, kOfImports);
  found.context = import->second.context;
  found.imported = true;
  return true;
}

void add_imported_regions(const Context& owner, std::vector<ptx::Region>& regions) {
  std::lock_guard<std::mutex> held(table().lock);
  for (const auto& [address, import] : table().imports)
    if (import.context == &owner)
      regions.push_back(
          {address, address + (import.bytes + Heap::kGranule - 1) / Heap::kGranule * Heap::kGranule, true});
}

void close_imports_of(Context& context) {
  std::lock_guard<std::mutex> held(table().lock);
  for (auto import = table().imports.begin(); import != table().imports.end();) {
    if (import->second.context != &context) {
      ++import;
      continue;
    }
    munmap(import->second.pages, import->second.page_bytes);
    import = table().imports.erase(import);
  }
}

int open_of(int32_t pid, int32_t file, uint64_t inode) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, file);
  // Asked first: to open what is there by now may have an effect.
  struct stat status {};
  const auto is_it = [&] { return S_ISREG(status.st_mode) && status.st_ino == inode; };
  if (stat(path, &status) != 0 || !is_it()) return -1;
  const int opened = open(path, O_RDWR | O_CLOEXEC);
  if (opened >= 0 && fstat(opened, &status) == 0 && is_it()) return opened;
  if (opened >= 0) close(opened);
  return -1;
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr pointer) {
  return in_context(__func__, [&](Context&) { return give_handle(out, pointer); });
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return in_context(__func__, [&](Context& context) { return open_handle(context, out, handle, flags); });
}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return in_context(__func__, [&](Context& context) { return open_handle(context, out, handle, flags); });
}
CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  return in_context(__func__, [&](Context&) { return close_handle(pointer); });
}
