// See sparse.h.
#include "sparse.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <utility>

#include "ptx/run.h"
#include "queue.h"
#include "vmm.h"

namespace gpufence::sim {
namespace {

constexpr uint64_t kTile = ptx::Image::kTileBytes;

std::atomic<uint64_t> living{0};

uint64_t whole_tiles(uint64_t bytes) {
  return (bytes + kTile - 1) / kTile * kTile;
}

// Of elements of 1, 2, 4, 8, 16 bytes.
TileExtent tile_extent(unsigned element_bytes, bool is_3d) {
  constexpr TileExtent kFlat[] = {{256, 256, 1}, {256, 128, 1}, {128, 128, 1}, {128, 64, 1}, {64, 64, 1}};
  constexpr TileExtent kDeep[] = {{64, 32, 32}, {32, 32, 32}, {32, 32, 16}, {32, 16, 16}, {16, 16, 16}};
  return (is_3d ? kDeep : kFlat)[std::countr_zero(element_bytes)];
}

bool fills_a_tile(const Array& array, const TileExtent& tile, bool is_3d) {
  return array.descriptor.Width >= tile.width && array.descriptor.Height >= tile.height &&
         (!is_3d || array.descriptor.Depth >= tile.depth);
}

void reserve_again(uintptr_t address, uint64_t bytes) {
  mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  madvise(reinterpret_cast<void*>(address), bytes, MADV_DONTFORK);
}

}  // namespace

std::shared_ptr<ArrayBacking> ArrayBacking::of(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& d,
                                               const std::vector<Array*>& levels, bool mipmapped) {
  std::shared_ptr<ArrayBacking> backing(new ArrayBacking(context));
  ArrayBacking& made = *backing;
  const bool layered = (d.Flags & CUDA_ARRAY3D_LAYERED) != 0, is_3d = !layered && d.Depth != 0;
  made.sparse_ = (d.Flags & CUDA_ARRAY3D_SPARSE) != 0;
  made.layers_ = layered ? static_cast<uint32_t>(d.Depth) : 1;
  made.tile_ = tile_extent(levels.front()->element_bytes, is_3d);
  made.first_in_tail_ = static_cast<uint32_t>(levels.size());
  uint64_t at = 0;
  for (uint32_t k = 0; k < levels.size(); ++k) {
    Array& level = *levels[k];
    if (made.sparse_ && fills_a_tile(level, made.tile_, is_3d)) {
      level.tile = made.tile_;
      const ptx::Image image = image_of(level);
      const uint64_t deep = (level.slices + level.tile.depth - 1) / level.tile.depth;
      level.base = at;
      level.slice_bytes = uint64_t{image.tiles_across} * image.tiles_down * kTile;
      at += level.slice_bytes * deep;
      continue;
    }
    if (made.sparse_) {
      made.first_in_tail_ = std::min(made.first_in_tail_, k);
      if (made.first_in_tail_ == k) made.tail_from_ = at = whole_tiles(at);
    }
    level.base = at;
    // Of a layered tail: where it lies in the first layer.
    const bool by_layer = made.sparse_ && mipmapped && layered;
    at += by_layer ? level.slice_bytes : level.bytes();
    at = (at + Heap::kGranule - 1) / Heap::kGranule * Heap::kGranule;
  }
  made.bytes_ = whole_tiles(at);
  if (made.sparse_ && made.first_in_tail_ < levels.size()) {
    made.single_tail_ = !mipmapped;
    made.tail_bytes_ = made.bytes_ - made.tail_from_;
    if (mipmapped && layered) {
      made.bytes_ = made.tail_from_ + made.tail_bytes_ * made.layers_;
      for (uint32_t k = made.first_in_tail_; k < levels.size(); ++k)
        levels[k]->slice_bytes = made.tail_bytes_;
    }
  }
  made.reserved_ = made.bytes_ + whole_tiles(made.bytes_ / kTile);
  void* reserved = reserve_lazily(made.reserved_, false);
  if (reserved == nullptr) return nullptr;
  made.base_ = reinterpret_cast<uintptr_t>(reserved);
  for (Array* level : levels) level->base += made.base_;
  ++living;
  ++context.memory_changes;
  return backing;
}

bool ArrayBacking::any() {
  return living.load(std::memory_order_acquire) != 0;
}

void ArrayBacking::release() {
  std::unordered_map<uint32_t, CUmemGenericAllocationHandle> memory;
  {
    std::lock_guard<std::mutex> held(lock_);
    if (base_ == 0) return;
    memory.swap(memory_);
    munmap(reinterpret_cast<void*>(base_), reserved_);
    base_ = 0;
  }
  --living;
  for (const auto& [tile, each] : memory) let_go_of_tiles(each, 1);
  ++context_.memory_changes;
}

void ArrayBacking::mark(uint32_t tile, bool resident) {
  __atomic_store_n(reinterpret_cast<uint8_t*>(table() + tile), resident ? 1 : 0, __ATOMIC_RELEASE);
}

bool ArrayBacking::resident(uintptr_t address) const {
  return __atomic_load_n(reinterpret_cast<const uint8_t*>(table() + (address - base_) / kTile),
                         __ATOMIC_ACQUIRE) != 0;
}

bool ArrayBacking::reachable() const {
  return sparse_ || resident(base_);
}

void ArrayBacking::show(ptx::Image& image) const {
  if (!sparse_) return;
  image.sparse_from = base_;
  image.resident = table();
}

void ArrayBacking::add_region(std::vector<ptx::Region>& regions) const {
  std::lock_guard<std::mutex> held(lock_);
  if (base_ != 0 && reachable()) regions.push_back({base_, base_ + reserved_, true});
}

CUDA_ARRAY_SPARSE_PROPERTIES ArrayBacking::properties() const {
  CUDA_ARRAY_SPARSE_PROPERTIES told{};
  told.tileExtent.width = tile_.width;
  told.tileExtent.height = tile_.height;
  told.tileExtent.depth = tile_.depth;
  // "Valid only if miptailSize is non-zero"; of an array "always zero".
  told.miptailFirstLevel = tail_bytes_ != 0 ? first_in_tail_ : 0;
  told.miptailSize = tail_bytes_;
  told.flags = single_tail_ ? CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL : 0;
  return told;
}

CUDA_ARRAY_MEMORY_REQUIREMENTS ArrayBacking::requirements() const {
  CUDA_ARRAY_MEMORY_REQUIREMENTS told{};
  told.size = bytes_;
  told.alignment = kTile;
  return told;
}

std::vector<uint32_t> ArrayBacking::tiles_of(const CUarrayMapInfo& info,
                                             const std::vector<const Array*>& levels) const {
  std::vector<uint32_t> tiles;
  const auto all = [&](uint64_t from, uint64_t bytes) {
    for (uint64_t at = from; at < from + bytes; at += kTile)
      tiles.push_back(static_cast<uint32_t>(at / kTile));
  };
  if (!sparse_) {  // "the contents of subresource will be ignored"
    all(0, bytes_);
    return tiles;
  }
  if (info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
    const auto& tail = info.subresource.miptail;
    const uint32_t layers = single_tail_ ? 1 : layers_;
    if (tail.offset % kTile != 0 || tail.size % kTile != 0 || tail.size == 0 || tail.offset > tail_bytes_ ||
        tail.size > tail_bytes_ - tail.offset || tail.layer >= layers)
      return {};
    all(tail_from_ + tail.layer * tail_bytes_ + tail.offset, tail.size);
    return tiles;
  }
  const auto& part = info.subresource.sparseLevel;
  if (info.subresourceType != CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL || part.level >= levels.size() ||
      part.level >= first_in_tail_ || part.layer >= layers_)
    return {};
  const Array& level = *levels[part.level];
  const ptx::Image image = image_of(level);
  const bool layered = (level.descriptor.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  // "Must be aligned to the corresponding tile dimension"; what ends with the level ends in its last tile.
  const auto range = [](uint32_t offset, uint32_t extent, uint32_t of_tile, uint64_t of_level,
                        uint32_t* first, uint32_t* count) {
    const uint64_t end = uint64_t{offset} + extent, most = (of_level + of_tile - 1) / of_tile * of_tile;
    if (offset % of_tile != 0 || extent == 0 || end > most || (end % of_tile != 0 && end != of_level))
      return false;
    *first = offset / of_tile;
    *count = (extent + of_tile - 1) / of_tile;
    return true;
  };
  uint32_t x = 0, y = 0, z = 0, across = 0, down = 0, deep = 0;
  if (!range(part.offsetX, part.extentWidth, level.tile.width, image.width, &x, &across) ||
      !range(part.offsetY, part.extentHeight, level.tile.height, image.height, &y, &down) ||
      !range(part.offsetZ, part.extentDepth, level.tile.depth, layered ? 1 : image.depth, &z, &deep))
    return {};
  const auto first = static_cast<uint32_t>((level.base - base_) / kTile);
  for (uint32_t k = z; k < z + deep; ++k)
    for (uint32_t j = y; j < y + down; ++j)
      for (uint32_t i = x; i < x + across; ++i)
        tiles.push_back(first + ((k + part.layer) * image.tiles_down + j) * image.tiles_across + i);
  return tiles;
}

bool ArrayBacking::lay(const std::vector<uint32_t>& tiles, CUmemGenericAllocationHandle memory,
                       uint64_t offset) {
  std::vector<CUmemGenericAllocationHandle> before;
  bool laid = true;
  {
    std::lock_guard<std::mutex> held(lock_);
    if (base_ == 0) before.assign(memory != 0 ? tiles.size() : 0, memory);  // it went before its turn came
    // Tiles that follow each other take one mapping.
    for (size_t first = 0; first < tiles.size() && base_ != 0;) {
      size_t end = first + 1;
      while (end < tiles.size() && tiles[end] == tiles[end - 1] + 1) ++end;
      const uintptr_t address = base_ + tiles[first] * kTile;
      if (memory == 0)
        reserve_again(address, (end - first) * kTile);
      else
        laid = lay_tiles(memory, offset + first * kTile, address, (end - first) * kTile) && laid;
      for (; first < end; ++first) {
        const auto known = memory_.find(tiles[first]);
        if (known != memory_.end()) before.push_back(known->second);
        if (memory != 0)
          memory_[tiles[first]] = memory;
        else if (known != memory_.end())
          memory_.erase(known);
        mark(tiles[first], memory != 0);
      }
    }
  }
  for (const CUmemGenericAllocationHandle each : before) let_go_of_tiles(each, 1);
  ++context_.memory_changes;
  return laid;
}

uint8_t* part_of(const Array& array, uint64_t x, uint64_t y, uint64_t z, uint64_t* bytes) {
  const ptx::Image image = image_of(array);
  const uint64_t address = image.address(x, y, z);
  if (image.tile_row_bytes != 0)
    *bytes = std::min<uint64_t>(*bytes, image.tile_row_bytes - x % image.tile_row_bytes);
  if (image.resident == 0) return reinterpret_cast<uint8_t*>(address);
  *bytes = std::min(*bytes, kTile - (address - image.sparse_from) % kTile);
  return array.backing->resident(address) ? reinterpret_cast<uint8_t*>(address) : nullptr;
}

namespace {

// One entry of cuMemMapArrayAsync's list, once it is known to be right.
struct Change {
  Change() = default;
  Change(const Change&) = delete;
  ~Change() {
    // Of a context that died before, or beside an entry that is wrong.
    if (memory != 0) let_go_of_tiles(memory, static_cast<unsigned>(tiles.size()));
  }
  bool happen() {
    const CUmemGenericAllocationHandle given = std::exchange(memory, 0);
    return backing->lay(tiles, given, offset);
  }

  std::shared_ptr<ArrayBacking> backing;
  std::vector<uint32_t> tiles;
  CUmemGenericAllocationHandle memory = 0;
  uint64_t offset = 0;
};

CUresult read_entry(const CUarrayMapInfo& info, const Stream& stream, Change* change) {
  std::vector<const Array*> levels;
  if (info.resourceType == CU_RESOURCE_TYPE_ARRAY) {
    const Array* array = array_of(info.resource.array);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    // "For CUDA arrays obtained using cuMipmappedArrayGetLevel, CUDA_ERROR_INVALID_VALUE will be returned."
    if (array->is_part) return CUDA_ERROR_INVALID_VALUE;
    change->backing = array->backing;
    levels.push_back(array);
  } else if (info.resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    const MipmappedArray* whole = mipmapped_of(info.resource.mipmap);
    if (whole == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    change->backing = whole->backing;
    levels.assign(whole->levels.begin(), whole->levels.end());
  }
  const Device* device = stream.context->device;
  const bool maps = info.memOperationType == CU_MEM_OPERATION_TYPE_MAP;
  if (change->backing == nullptr || change->backing->device() != device ||
      (!maps && info.memOperationType != CU_MEM_OPERATION_TYPE_UNMAP) || info.flags != 0 ||
      info.reserved[0] != 0 || info.reserved[1] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  // "Must have exactly one bit set, and the corresponding device must match the device associated with the
  // stream."
  if (!std::has_single_bit(info.deviceBitMask) || std::countr_zero(info.deviceBitMask) != device->ordinal)
    return CUDA_ERROR_INVALID_VALUE;
  change->tiles = change->backing->tiles_of(info, levels);
  if (change->tiles.empty()) return CUDA_ERROR_INVALID_VALUE;
  if (!maps) return info.memHandle.memHandle == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  const auto count = static_cast<unsigned>(change->tiles.size());
  if (info.memHandleType != CU_MEM_HANDLE_TYPE_GENERIC || info.offset % kTile != 0 ||
      !keep_tiles(info.memHandle.memHandle, device, info.offset, count * kTile, count))
    return CUDA_ERROR_INVALID_VALUE;
  change->memory = info.memHandle.memHandle;
  change->offset = info.offset;
  return CUDA_SUCCESS;
}

CUresult map_arrays(const char* name, const CUarrayMapInfo* list, unsigned count, CUstream handle,
                    bool per_thread) {
  return in_context(name, [&](Context& current) {
    Stream* stream = nullptr;
    const CUresult found = stream_of(handle, per_thread, current, &stream);
    if (found != CUDA_SUCCESS) return found;
    if (list == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    const auto changes = std::make_shared<std::deque<Change>>();
    for (unsigned i = 0; i < count; ++i) {
      const CUresult bad = read_entry(list[i], *stream, &changes->emplace_back());
      if (bad != CUDA_SUCCESS) return bad;
    }
    enqueue_short(*stream, [changes] {
      bool laid = true;
      for (Change& change : *changes) laid = change.happen() && laid;
      return laid ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    });
    return CUDA_SUCCESS;
  });
}

// The backing of an array, or of a mipmapped one, if it is of that kind; nullptr for one that is not, and for
// a level.
const ArrayBacking* backing_of(CUarray handle, bool sparse) {
  const Array* array = array_of(handle);
  return array != nullptr && !array->is_part && array->backing != nullptr &&
                 array->backing->sparse() == sparse
             ? array->backing.get()
             : nullptr;
}
const ArrayBacking* backing_of(CUmipmappedArray handle, bool sparse) {
  const MipmappedArray* whole = mipmapped_of(handle);
  return whole != nullptr && whole->backing != nullptr && whole->backing->sparse() == sparse
             ? whole->backing.get()
             : nullptr;
}
bool is_array(CUarray handle) {
  return array_of(handle) != nullptr;
}
bool is_array(CUmipmappedArray handle) {
  return mipmapped_of(handle) != nullptr;
}

template <class Handle>
CUresult tell_properties(const char* name, CUDA_ARRAY_SPARSE_PROPERTIES* out, Handle handle) {
  return in_context(name, [&](Context&) {
    if (!is_array(handle)) return CUDA_ERROR_INVALID_HANDLE;
    const ArrayBacking* backing = backing_of(handle, true);
    if (out == nullptr || backing == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = backing->properties();
    return CUDA_SUCCESS;
  });
}

template <class Handle>
CUresult tell_requirements(const char* name, CUDA_ARRAY_MEMORY_REQUIREMENTS* out, Handle handle,
                           CUdevice device) {
  return in_context(name, [&](Context&) {
    if (!is_array(handle)) return CUDA_ERROR_INVALID_HANDLE;
    if (driver().device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const ArrayBacking* backing = backing_of(handle, false);
    if (out == nullptr || backing == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = backing->requirements();
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuMemMapArrayAsync(CUarrayMapInfo* list, unsigned int count, CUstream stream) {
  return map_arrays(__func__, list, count, stream, false);
}
CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo* list, unsigned int count, CUstream stream) {
  return map_arrays(__func__, list, count, stream, true);
}
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUarray array) {
  return tell_properties(__func__, out, array);
}
CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUmipmappedArray array) {
  return tell_properties(__func__, out, array);
}
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray array, CUdevice device) {
  return tell_requirements(__func__, out, array, device);
}
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUmipmappedArray array,
                                               CUdevice device) {
  return tell_requirements(__func__, out, array, device);
}
