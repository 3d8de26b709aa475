// CUDA arrays: memory whose layout is the driver's own business. Here rows lie one behind the other, and so
// do slices (or layers, or faces); nobody can tell, as arrays are reached by copies, textures and surfaces
// alone.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "driver.h"
#include "ptx/texture.h"

namespace gpufence::sim {

namespace ptx {
struct Region;
}  // namespace ptx

class ArrayBacking;  // sparse.h

// Elements of a tile of a sparse array; none: its rows lie one behind the other.
struct TileExtent {
  uint32_t width = 0, height = 1, depth = 1;
};

struct Array {
  std::atomic<uint32_t> live{0};
  Context* context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  bool is_part = false;    // a level or a plane, whose memory is another's
  Block* block = nullptr;  // its own memory
  uintptr_t base = 0;      // of its first element
  uint64_t row_bytes = 0;  // from one row to the next
  uint64_t rows = 1;       // from one slice to the next
  uint64_t slices = 1;     // or layers, or faces
  uint64_t slice_bytes = 0;
  unsigned element_bytes = 0;
  std::vector<Array*> parts;              // planes, made with it
  std::shared_ptr<ArrayBacking> backing;  // sparse, or of deferred mapping: instead of a block
  TileExtent tile;

  [[nodiscard]] uint64_t bytes() const { return slice_bytes * slices; }
};

struct MipmappedArray {
  std::atomic<uint32_t> live{0};
  Context* context = nullptr;
  Block* block = nullptr;
  std::vector<Array*> levels;
  std::shared_ptr<ArrayBacking> backing;  // as an array's
};

// The live array of that handle, or nullptr.
Array* array_of(CUarray handle);
MipmappedArray* mipmapped_of(CUmipmappedArray handle);
// What textures and surfaces see of it.
ptx::Image image_of(const Array& array);
// Of elements with so many channels; false: there is no such, or none that lies texel by texel in memory.
bool texels_of(CUarray_format format, unsigned channels, ptx::TexelFormat* out);
// Addresses of these that kernels may reach without their being a block of the context.
void add_array_regions(Context& context, std::vector<ptx::Region>& regions);
// With their context.
void destroy_arrays_of(Context& context);

}  // namespace gpufence::sim
