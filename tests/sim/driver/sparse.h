// Arrays that get their memory after they were made: sparse ones, a tile at a time, and those of deferred
// mapping, as a whole (cuMemMapArrayAsync). Such an array is a stretch of addresses, tile behind tile, onto
// which memory of cuMemCreate is laid; where none lies it reads as zeros and takes no stores. Tiles have 64
// KiB in Vulkan's standard shapes, as NVIDIA says neither.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "array.h"
#include "driver.h"
#include "ptx/texture.h"

namespace gpufence::sim {

class ArrayBacking {
 public:
  // Places the levels (of an array: itself) in addresses of their own, and tells each where it lies; nullptr:
  // the host has no addresses left.
  static std::shared_ptr<ArrayBacking> of(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& d,
                                          const std::vector<Array*>& levels, bool mipmapped);
  ArrayBacking(const ArrayBacking&) = delete;
  ~ArrayBacking() { release(); }

  // Whether there is any; for what is asked often.
  static bool any();

  // Gives memory and addresses back. The object itself goes with the last array that knows it.
  void release();

  [[nodiscard]] const Device* device() const { return context_.device; }
  [[nodiscard]] bool sparse() const { return sparse_; }
  // Whether work may look at it at all: an array of deferred mapping has all of its memory, or none.
  [[nodiscard]] bool reachable() const;
  // In the words of ptx::Image: where its tiles' memory is told of.
  void show(ptx::Image& image) const;
  void add_region(std::vector<ptx::Region>& regions) const;
  // False: no memory lies there.
  [[nodiscard]] bool resident(uintptr_t address) const;

  [[nodiscard]] CUDA_ARRAY_SPARSE_PROPERTIES properties() const;
  [[nodiscard]] CUDA_ARRAY_MEMORY_REQUIREMENTS requirements() const;

  // The tiles that an entry of cuMemMapArrayAsync's list means, in the order in which memory goes to them;
  // empty: it means none.
  [[nodiscard]] std::vector<uint32_t> tiles_of(const CUarrayMapInfo& info,
                                               const std::vector<const Array*>& levels) const;
  // Takes memory that keep_tiles() kept once a tile, from `offset` on; 0: takes away. To be called in the
  // order of a stream. False: the host has no more mappings.
  bool lay(const std::vector<uint32_t>& tiles, CUmemGenericAllocationHandle memory, uint64_t offset);

 private:
  explicit ArrayBacking(Context& context) : context_(context) {}
  [[nodiscard]] uintptr_t table() const { return base_ + bytes_; }  // a byte a tile
  void mark(uint32_t tile, bool resident);

  Context& context_;
  bool sparse_ = false;
  uint32_t layers_ = 1;
  TileExtent tile_;
  // Levels that do not fill a tile lie together, for each layer apart, or for all (an array's).
  bool single_tail_ = false;
  uint32_t first_in_tail_ = 0;
  uint64_t tail_from_ = 0, tail_bytes_ = 0;  // bytes: of one layer, unless it is the only one

  uintptr_t base_ = 0;
  uint64_t bytes_ = 0;     // whole tiles
  uint64_t reserved_ = 0;  // with the table
  mutable std::mutex lock_;
  std::unordered_map<uint32_t, CUmemGenericAllocationHandle> memory_;  // by tile; under the lock
};

// The memory of an array's row from the byte x on, as far as it lies together and at most *bytes, which
// becomes less; nullptr: there is none.
uint8_t* part_of(const Array& array, uint64_t x, uint64_t y, uint64_t z, uint64_t* bytes);

}  // namespace gpufence::sim
