// See vmm.h.
#include "vmm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "access.h"
#include "code.h"
#include "shared_file.h"

namespace gpufence::sim {
namespace {

constexpr uint64_t kGranularity = uint64_t{2} << 20;  // bytes, minimal and recommended
constexpr uint64_t kHostMemory = uint64_t{64} << 30;  // most of the host's; addresses of a file, not memory
constexpr char kMagic[8] = {'g', 'p', 'f', 's', 'v', 'm', 'm', '1'};

// What cuMemCreate makes. Its handle is its address.
struct Memory {
  std::atomic<uint32_t> live{0};  // of Handles: until the last reference and mapping are gone
  CUmemAllocationProp props{};
  Device* device = nullptr;  // nullptr: the host's
  uint64_t bytes = 0;
  unsigned references = 0;  // of the program: 0 while only mappings keep it
  unsigned mappings = 0;
  bool imported = false;
  // Where the bytes lie: in the store of its GPU, or in a file of its own once it is shared.
  int file = -1;
  uint64_t offset = 0;  // in the store
};

struct Mapping {
  uint64_t bytes = 0;
  Memory* memory = nullptr;
  uint64_t id = 0;
  std::map<const Device*, CUmemAccess_flags> access;
};

struct Reservation {
  uint64_t bytes = 0;
  std::map<uintptr_t, Mapping> mappings;
};

// One file for all that a GPU's memory holds: a descriptor an allocation would be too many.
struct Store {
  int file = -1;
  uint64_t bytes = 0;
  std::map<uint64_t, uint64_t> taken;  // offset → bytes
};

// Memory that was released here while another process had it.
struct Lent {
  size_t gpu;
  uint64_t bytes;
  int file;
};

// Behind the memory of an allocation that is shared, in the same file. Whoever imports it holds a lock on
// this part for as long as he has it, so that the kernel knows who does.
struct Label {
  char magic[8];
  uint64_t bytes, host_index;
  CUmemAllocationProp props;
};

struct Virtual {
  std::mutex lock;  // of all of it
  Handles<Memory> handles;
  std::map<uintptr_t, Reservation> reservations;
  std::map<const Device*, Store> stores;
  std::vector<Lent> lent;
  std::atomic<bool> used{false};
  std::atomic<uint64_t> changes{0};
  uint64_t next_id = 1;
};
Virtual& vm() {
  static auto* made = new Virtual;  // leaked, as all state that exit handlers reach
  return *made;
}

bool multiple(uint64_t value, uint64_t of) {
  return value % of == 0;
}

// ---- Backing; under the lock ----

bool take_from_store(Memory& memory) {
  Store& store = vm().stores[memory.device];
  if (store.file < 0) {
    store.bytes = memory.device != nullptr
                      ? (memory.device->gpu->memory_bytes / kGranularity + 1) * kGranularity
                      : kHostMemory;
    store.file = memfd_create("gpufence-sim-vmm", MFD_CLOEXEC);
    if (store.file < 0 || ftruncate(store.file, static_cast<off_t>(store.bytes)) != 0) return false;
  }
  uint64_t at = 0;
  for (const auto& [offset, bytes] : store.taken) {
    if (offset - at >= memory.bytes) break;
    at = offset + bytes;
  }
  if (store.bytes - at < memory.bytes) return false;
  store.taken[at] = memory.bytes;
  memory.offset = at;
  return true;
}

void give_to_store(Memory& memory) {
  Store& store = vm().stores[memory.device];
  store.taken.erase(memory.offset);
  (void)fallocate(store.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(memory.offset),
                  static_cast<off_t>(memory.bytes));
}

bool held_elsewhere(int file, uint64_t bytes) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(bytes);
  lock.l_len = 1;
  return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// Without references and mappings it goes.
void free_if_unused(Memory& memory) {
  if (memory.references != 0 || memory.mappings != 0) return;
  if (memory.file < 0)
    give_to_store(memory);
  else if (memory.imported)
    close(memory.file);
  if (memory.device != nullptr && !memory.imported) {
    if (memory.file >= 0 && held_elsewhere(memory.file, memory.bytes)) {
      vm().lent.push_back({memory.device->host_index, memory.bytes, memory.file});
    } else {
      if (memory.file >= 0) close(memory.file);
      driver().occupancy.release(memory.device->host_index, memory.bytes);
    }
  } else if (!memory.imported && memory.file >= 0) {
    close(memory.file);
  }
  vm().handles.retire(&memory);
}

void* place(const Memory& memory, uintptr_t address, uint64_t bytes, uint64_t from = 0) {
  const int file = memory.file >= 0 ? memory.file : vm().stores[memory.device].file;
  void* at = mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, static_cast<off_t>(memory.offset + from));
  if (at == MAP_FAILED) return nullptr;
  madvise(at, bytes, MADV_DONTFORK);
  madvise(at, bytes, MADV_DONTDUMP);
  return at;
}

bool reserve_at(uintptr_t address, uint64_t bytes) {
  return mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// ---- Looking up; under the lock ----

Reservation* reservation_of(uintptr_t address, uintptr_t* base) {
  auto at = vm().reservations.upper_bound(address);
  if (at == vm().reservations.begin()) return nullptr;
  --at;
  *base = at->first;
  return address - at->first < at->second.bytes ? &at->second : nullptr;
}

Mapping* mapping_of(uintptr_t address, uintptr_t* base, Reservation** of = nullptr) {
  uintptr_t reserved = 0;
  Reservation* reservation = reservation_of(address, &reserved);
  if (reservation == nullptr) return nullptr;
  auto at = reservation->mappings.upper_bound(address);
  if (at == reservation->mappings.begin()) return nullptr;
  --at;
  *base = at->first;
  if (of != nullptr) *of = reservation;
  return address - at->first < at->second.bytes ? &at->second : nullptr;
}

// The mappings that the range is made of, none of them in part and no gap between; empty if it is not so.
std::vector<std::pair<uintptr_t, Mapping*>> whole_mappings(uintptr_t address, uint64_t bytes) {
  std::vector<std::pair<uintptr_t, Mapping*>> found;
  for (uintptr_t at = address; at < address + bytes;) {
    uintptr_t base = 0;
    Mapping* mapping = mapping_of(at, &base);
    if (mapping == nullptr || base != at || mapping->bytes > address + bytes - at) return {};
    found.emplace_back(at, mapping);
    at += mapping->bytes;
  }
  return found;
}

Memory* memory_of(CUmemGenericAllocationHandle handle) {
  Memory* memory = vm().handles.check(reinterpret_cast<const void*>(handle));
  return memory != nullptr && memory->references != 0 ? memory : nullptr;
}

// "Intended only to be used as backing tile pool for sparse CUDA arrays."
bool is_for_tiles(const CUmemAllocationProp& props) {
  return (props.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) != 0;
}

CUresult check(const CUmemAllocationProp& props, Device** device) {
  *device = nullptr;
  if (props.type != CU_MEM_ALLOCATION_TYPE_PINNED || props.win32HandleMetaData != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  switch (props.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      *device = driver().device(props.location.id);
      if (*device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
      if (props.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  constexpr int kKnown = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 |
                         CU_MEM_HANDLE_TYPE_WIN32_KMT | CU_MEM_HANDLE_TYPE_FABRIC;
  if ((props.requestedHandleTypes & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  // There is no fabric here, nor Windows.
  if ((props.requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  if ((props.allocFlags.usage & ~(CU_MEM_CREATE_USAGE_TILE_POOL | CU_MEM_CREATE_USAGE_HW_DECOMPRESS)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if ((props.allocFlags.usage & CU_MEM_CREATE_USAGE_HW_DECOMPRESS) != 0) {
    say_once(
        "the simulator has no memory for decompression in hardware; memory without that usage works: it "
        "answered CUDA_ERROR_NOT_SUPPORTED");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (is_for_tiles(props) && *device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

// ---- The calls ----

CUresult reserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint,
                 unsigned long long flags) {
  if (out == nullptr || flags != 0 || bytes == 0 || !multiple(bytes, page_bytes()) ||
      !multiple(hint, page_bytes()))
    return CUDA_ERROR_INVALID_VALUE;
  if (alignment != 0 && !std::has_single_bit(alignment)) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t align = std::max<uint64_t>(alignment, kGranularity);
  if (bytes > UINT64_MAX / 2 || align > UINT64_MAX / 4) return CUDA_ERROR_OUT_OF_MEMORY;
  uintptr_t at = 0;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (hint != 0 && multiple(hint, align)) {
    void* made = mmap(reinterpret_cast<void*>(hint), bytes, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (made == reinterpret_cast<void*>(hint))
      at = hint;
    else if (made != MAP_FAILED)
      munmap(made, bytes);  // a kernel before 4.17 takes it as a wish
  }
  if (at == 0) {
    void* made = mmap(nullptr, bytes + align, PROT_NONE, kFlags, -1, 0);
    if (made == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto begin = reinterpret_cast<uintptr_t>(made);
    at = (begin + align - 1) / align * align;
    if (at != begin) munmap(made, at - begin);
    if (begin + align != at) munmap(reinterpret_cast<void*>(at + bytes), begin + align - at);
  }
  std::lock_guard<std::mutex> held(vm().lock);
  vm().used = true;
  vm().reservations[at].bytes = bytes;
  *out = at;
  return CUDA_SUCCESS;
}

CUresult unreserve(CUdeviceptr address, size_t bytes) {
  std::lock_guard<std::mutex> held(vm().lock);
  const auto found = vm().reservations.find(address);
  if (found == vm().reservations.end() || found->second.bytes != bytes || !found->second.mappings.empty())
    return CUDA_ERROR_INVALID_VALUE;
  vm().reservations.erase(found);
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}

bool give_file(Memory& memory);

CUresult create(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* props,
                unsigned long long flags) {
  if (out == nullptr || props == nullptr || flags != 0 || bytes == 0 || !multiple(bytes, kGranularity))
    return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  if (const CUresult bad = check(*props, &device); bad != CUDA_SUCCESS) return bad;
  if (device != nullptr) {
    const uint64_t fail_at = device->gpu->fail_alloc_at;
    if (fail_at != 0 && ++device->allocations == fail_at) return CUDA_ERROR_OUT_OF_MEMORY;
    settle_lent_memory();
    if (!reserve(*device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::lock_guard<std::mutex> held(vm().lock);
  Memory* memory = vm().handles.take();
  if (memory != nullptr) {
    memory->props = *props;
    memory->device = device;
    memory->bytes = bytes;
    memory->references = 1;
  }
  if (memory == nullptr || !take_from_store(*memory)) {
    if (device != nullptr) driver().occupancy.release(device->host_index, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // Tiles lie where nobody can move them: if this is to be shared, it has a file of its own from the start.
  if (is_for_tiles(*props) && props->requestedHandleTypes != 0 && !give_file(*memory)) {
    give_to_store(*memory);
    driver().occupancy.release(device->host_index, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  vm().handles.publish(memory);
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(memory);
  return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> held(vm().lock);
  Memory* memory = memory_of(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  --memory->references;
  free_if_unused(*memory);
  return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long flags) {
  // "Note: currently must be zero" (offset).
  if (flags != 0 || bytes == 0 || offset != 0 || !multiple(address, kGranularity) ||
      !multiple(bytes, kGranularity))
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(vm().lock);
  Memory* memory = memory_of(handle);
  uintptr_t base = 0;
  Reservation* reservation = reservation_of(address, &base);
  if (memory == nullptr || is_for_tiles(memory->props) || reservation == nullptr || bytes > memory->bytes ||
      bytes > reservation->bytes - (address - base))
    return CUDA_ERROR_INVALID_VALUE;
  // "Can only create mappings on VA range reservations that are not currently mapped."
  const auto next = reservation->mappings.lower_bound(address);
  if (next != reservation->mappings.end() && next->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  if (next != reservation->mappings.begin()) {
    const auto& [before, mapping] = *std::prev(next);
    if (address - before < mapping.bytes) return CUDA_ERROR_INVALID_VALUE;
  }
  if (place(*memory, address, bytes) == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  reservation->mappings[address] = {bytes, memory, vm().next_id++, {}};
  ++memory->mappings;
  ++vm().changes;
  return CUDA_SUCCESS;
}

CUresult unmap(CUdeviceptr address, size_t bytes) {
  synchronise_all();  // work that is under way still has what goes now
  std::lock_guard<std::mutex> held(vm().lock);
  const auto found = whole_mappings(address, bytes);
  if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [at, mapping] : found) {
    Memory& memory = *mapping->memory;
    reserve_at(at, mapping->bytes);
    uintptr_t base = 0;
    reservation_of(at, &base)->mappings.erase(at);
    --memory.mappings;
    free_if_unused(memory);
  }
  ++vm().changes;
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions, size_t count) {
  if (descriptions == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  synchronise_all();
  std::lock_guard<std::mutex> held(vm().lock);
  const auto found = whole_mappings(address, bytes);
  if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
  // All or nothing.
  for (size_t i = 0; i < count; ++i) {
    const CUmemLocation& location = descriptions[i].location;
    if (!is_access(descriptions[i].flags)) return CUDA_ERROR_INVALID_VALUE;
    if (location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA) {
      for (const auto& [at, mapping] : found)
        if (mapping->memory->device != nullptr) return CUDA_ERROR_INVALID_VALUE;
      continue;
    }
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    const Device* device = driver().device(location.id);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    for (const auto& [at, mapping] : found) {
      const Device* owner = mapping->memory->device;
      if (owner != nullptr && owner != device && descriptions[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
          !can_access_peer(*device, *owner))
        return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  for (size_t i = 0; i < count; ++i)
    if (descriptions[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      for (const auto& [at, mapping] : found)
        mapping->access[driver().device(descriptions[i].location.id)] = descriptions[i].flags;
  ++vm().changes;
  return CUDA_SUCCESS;
}

// Under the lock. nullptr: the most that any GPU has.
CUmemAccess_flags access_of(const Mapping& mapping, const Device* device) {
  CUmemAccess_flags most = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  for (const auto& [who, flags] : mapping.access)
    if (who == device || device == nullptr) most = std::max(most, flags);
  return most;
}

CUresult get_access(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(vm().lock);
  uintptr_t base = 0;
  const Mapping* mapping = mapping_of(address, &base);
  if (mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA) {
    *flags = mapping->memory->device == nullptr ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  }
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = driver().device(location->id);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *flags = access_of(*mapping, device);
  return CUDA_SUCCESS;
}

// Under the lock, with nothing under way: moves the memory into a file that can be given away.
bool give_file(Memory& memory) {
  if (memory.file >= 0) return true;
  Label label{
      {}, memory.bytes, memory.device != nullptr ? memory.device->host_index : SIZE_MAX, memory.props};
  memcpy(label.magic, kMagic, sizeof kMagic);
  const int file = memfd_create("gpufence-sim-shared", MFD_CLOEXEC);
  if (file < 0) return false;
  const Store& store = vm().stores[memory.device];
  if (ftruncate(file, static_cast<off_t>(memory.bytes + page_bytes())) != 0 ||
      pwrite(file, &label, sizeof label, static_cast<off_t>(memory.bytes)) != sizeof label) {
    close(file);
    return false;
  }
  // Only what was written to: the rest of both files is holes.
  off_t at = static_cast<off_t>(memory.offset);
  const off_t end = at + static_cast<off_t>(memory.bytes);
  std::vector<char> piece(1 << 20);
  while ((at = lseek(store.file, at, SEEK_DATA)) >= 0 && at < end) {
    const off_t hole = std::min(lseek(store.file, at, SEEK_HOLE), end);
    while (at < hole) {
      const ssize_t got =
          pread(store.file, piece.data(), std::min(piece.size(), static_cast<size_t>(hole - at)), at);
      if (got <= 0 || pwrite(file, piece.data(), static_cast<size_t>(got),
                             at - static_cast<off_t>(memory.offset)) != got) {
        close(file);
        return false;
      }
      at += got;
    }
  }
  give_to_store(memory);
  memory.file = file;
  memory.offset = 0;
  for (auto& [base, reservation] : vm().reservations)
    for (auto& [address, mapping] : reservation.mappings)
      if (mapping.memory == &memory) place(memory, address, mapping.bytes);
  return true;
}

CUresult export_memory(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                       unsigned long long flags) {
  if (out == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  synchronise_all();
  std::lock_guard<std::mutex> held(vm().lock);
  Memory* memory = memory_of(handle);
  if (memory == nullptr || (memory->props.requestedHandleTypes & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!give_file(*memory)) return CUDA_ERROR_OUT_OF_MEMORY;
  return give_descriptor(memory->file, out);
}

CUresult import_memory(CUmemGenericAllocationHandle* out, void* handle, CUmemAllocationHandleType type) {
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  int given = -1;
  Label label{};
  if (!read_label(handle, kMagic, &given, &label)) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  if (label.host_index != SIZE_MAX) {
    device = visible_at(label.host_index);
    if (device == nullptr) return CUDA_ERROR_NOT_SUPPORTED;  // "cannot support the memory described"
  }
  // A description of our own, for a lock of our own.
  const int file = open(("/proc/self/fd/" + std::to_string(given)).c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(label.bytes);
  lock.l_len = 1;
  if (file < 0 || fcntl(file, F_OFD_SETLK, &lock) != 0) {
    if (file >= 0) close(file);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  std::lock_guard<std::mutex> held(vm().lock);
  vm().used = true;
  Memory* memory = vm().handles.take();
  if (memory == nullptr) {
    close(file);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  memory->props = label.props;
  if (device != nullptr) memory->props.location.id = device->ordinal;
  memory->device = device;
  memory->bytes = label.bytes;
  memory->references = 1;
  memory->imported = true;
  memory->file = file;
  vm().handles.publish(memory);
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(memory);
  return CUDA_SUCCESS;
}

CUresult retain(CUmemGenericAllocationHandle* out, void* address) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(vm().lock);
  uintptr_t base = 0;
  Mapping* mapping = mapping_of(reinterpret_cast<uintptr_t>(address), &base);
  if (mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++mapping->memory->references;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(mapping->memory);
  return CUDA_SUCCESS;
}

}  // namespace

bool find_mapped(uintptr_t address, Found& found) {
  if (!vm().used.load(std::memory_order_acquire)) return false;
  std::lock_guard<std::mutex> held(vm().lock);
  uintptr_t base = 0;
  Reservation* reservation = nullptr;
  const Mapping* mapping = mapping_of(address, &base, &reservation);
  if (mapping == nullptr) return false;
  found = {};
  reservation_of(address, &found.range);
  found.range_bytes = reservation->bytes;
  found.device = mapping->memory->device != nullptr ? mapping->memory->device : driver().visible.front();
  found.base = base;
  found.bytes = mapping->bytes;
  found.id = buffer_id(mapping->id, kOfMappings);
  found.host = mapping->memory->device == nullptr;
  found.mapped = true;
  found.handle_types = mapping->memory->props.requestedHandleTypes;
  for (auto next = std::next(reservation->mappings.find(base));
       next != reservation->mappings.end() && next->first == base + found.bytes + found.beyond; ++next)
    found.beyond += next->second.bytes;
  return true;
}

bool mapped_for(const Device* device, uintptr_t address) {
  std::lock_guard<std::mutex> held(vm().lock);
  uintptr_t base = 0;
  const Mapping* mapping = mapping_of(address, &base);
  return mapping != nullptr && access_of(*mapping, device) != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

void add_mapped_regions(const Context& context, std::vector<ptx::Region>& regions) {
  if (!vm().used.load(std::memory_order_acquire)) return;
  std::lock_guard<std::mutex> held(vm().lock);
  for (const auto& [base, reservation] : vm().reservations)
    for (const auto& [address, mapping] : reservation.mappings)
      if (const CUmemAccess_flags access = access_of(mapping, context.device);
          access != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        regions.push_back({address, address + mapping.bytes, access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
}

uint64_t mapping_changes() {
  return vm().changes.load();
}

bool keep_tiles(CUmemGenericAllocationHandle handle, const Device* device, uint64_t offset, uint64_t bytes,
                unsigned times) {
  std::lock_guard<std::mutex> held(vm().lock);
  Memory* memory = memory_of(handle);
  if (memory == nullptr || !is_for_tiles(memory->props) || memory->device != device ||
      offset > memory->bytes || bytes > memory->bytes - offset)
    return false;
  memory->mappings += times;
  return true;
}

// Mappings keep it, whatever the program released.
void let_go_of_tiles(CUmemGenericAllocationHandle handle, unsigned times) {
  std::lock_guard<std::mutex> held(vm().lock);
  Memory* memory = vm().handles.check(reinterpret_cast<const void*>(handle));
  memory->mappings -= times;
  free_if_unused(*memory);
}

bool lay_tiles(CUmemGenericAllocationHandle handle, uint64_t offset, uintptr_t address, uint64_t bytes) {
  std::lock_guard<std::mutex> held(vm().lock);
  return place(*vm().handles.check(reinterpret_cast<const void*>(handle)), address, bytes, offset) != nullptr;
}

void settle_lent_memory() {
  if (!vm().used.load(std::memory_order_acquire)) return;
  std::lock_guard<std::mutex> held(vm().lock);
  std::erase_if(vm().lent, [](const Lent& lent) {
    if (held_elsewhere(lent.file, lent.bytes)) return false;
    close(lent.file);
    driver().occupancy.release(lent.gpu, lent.bytes);
    return true;
  });
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  return initialised(__func__, [&] { return reserve(out, bytes, alignment, hint, flags); });
}
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return initialised(__func__, [&] { return unreserve(address, bytes); });
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* props,
                     unsigned long long flags) {
  return initialised(__func__, [&] { return create(out, bytes, props, flags); });
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return initialised(__func__, [&] { return release(handle); });
}
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return initialised(__func__, [&] { return map(address, bytes, offset, handle, flags); });
}
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return initialised(__func__, [&] { return unmap(address, bytes); });
}
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions,
                        size_t count) {
  return initialised(__func__, [&] { return set_access(address, bytes, descriptions, count); });
}
CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return initialised(__func__, [&] { return get_access(flags, location, address); });
}
CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return initialised(__func__, [&] { return export_memory(out, handle, type, flags); });
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* handle,
                                        CUmemAllocationHandleType type) {
  return initialised(__func__, [&] { return import_memory(out, handle, type); });
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  return initialised(__func__, [&] { return retain(out, address); });
}
CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* props,
                                       CUmemAllocationGranularity_flags which) {
  return initialised(__func__, [&] {
    if (out == nullptr || props == nullptr ||
        (which != CU_MEM_ALLOC_GRANULARITY_MINIMUM && which != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
      return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    if (const CUresult bad = check(*props, &device); bad != CUDA_SUCCESS) return bad;
    *out = kGranularity;
    return CUDA_SUCCESS;
  });
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                CUmemGenericAllocationHandle handle) {
  return initialised(__func__, [&] {
    std::lock_guard<std::mutex> held(vm().lock);
    const Memory* memory = memory_of(handle);
    if (out == nullptr || memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = memory->props;
    return CUDA_SUCCESS;
  });
}
