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

struct Array {
  std::atomic<uint32_t> live{0};
  Context* context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  Block* block = nullptr;  // its own memory; nullptr: a level or a plane, whose memory is another's
  uintptr_t base = 0;      // of its first element
  uint64_t row_bytes = 0;  // from one row to the next
  uint64_t rows = 1;       // from one slice to the next
  uint64_t slices = 1;     // or layers, or faces
  unsigned element_bytes = 0;
  std::vector<Array*> parts;  // planes, made with it

  [[nodiscard]] uint64_t bytes() const { return row_bytes * rows * slices; }
};

struct MipmappedArray {
  std::atomic<uint32_t> live{0};
  Context* context = nullptr;
  Block* block = nullptr;
  std::vector<Array*> levels;
};

// The live array of that handle, or nullptr.
Array* array_of(CUarray handle);
MipmappedArray* mipmapped_of(CUmipmappedArray handle);
// What textures and surfaces see of it.
ptx::Image image_of(const Array& array);
// Of elements with so many channels; false: there is no such, or none that lies texel by texel in memory.
bool texels_of(CUarray_format format, unsigned channels, ptx::TexelFormat* out);
// With their context.
void destroy_arrays_of(Context& context);

}  // namespace gpufence::sim
