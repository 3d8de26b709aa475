// Copies and memsets apart from the calls that ask for them: what is to be moved or filled, whether that can
// be, and the work itself. Calls run it in streams, graphs as nodes.
#pragma once
#include <cstdint>

#include "array.h"
#include "checked.h"
#include "driver.h"
#include "queue.h"
#include "sparse.h"

namespace gpufence::sim {

// How the caller says an address is to be read: as a device's, as any of the host's, or "find out".
enum class Side { device, host, unified };

// What memory is to a copy.
enum class MemoryKind { pageable, pinned, device, managed };

// Whose memory a check admits besides what is allocated.
enum class Planned {
  no,
  yes
};  // yes: of a graph's allocation node too, which has an address before it is run

// One end of a copy; of one row, of rows, or of slices. In bytes and rows.
struct End {
  uintptr_t base;
  Side side;
  uint64_t x, y, z, pitch, height;
  MemoryKind kind = MemoryKind::pageable;
  const Array* array = nullptr;  // instead of a base: its rows and slices are its own

  uint64_t offset(uint64_t row, uint64_t slice) const { return ((z + slice) * height + y + row) * pitch + x; }
  uint8_t* at(uint64_t row, uint64_t slice) const {
    return reinterpret_cast<uint8_t*>(base + offset(row, slice));
  }
  // Where that many rows and slices end, and with them every offset() between: behind the last byte of the
  // last row of the last slice. None of them 0.
  Checked end(Checked width, uint64_t rows, uint64_t slices) const {
    return ((Checked(z) + (slices - 1)) * height + y + (rows - 1)) * pitch + x + width + base;
  }
  bool in_parts() const { return array != nullptr && array->backing != nullptr; }
  // What lies together from the byte `done` of a row on, at most `bytes` of it (which becomes less); nullptr:
  // a part of a sparse array without memory.
  uint8_t* part(uint64_t row, uint64_t slice, uint64_t done, uint64_t* bytes) const {
    return in_parts() ? part_of(*array, x + done, y + row, z + slice, bytes) : at(row, slice) + done;
  }
};

struct Box {
  End to, from;
  uint64_t width, height, depth;  // bytes, rows, slices

  uint64_t bytes() const { return width * height * depth; }
  // Fills in the ends' kinds. CUDA_ERROR_INVALID_VALUE: some of it is no memory; the fault of a dead context.
  CUresult check(Planned planned = Planned::no);
  CUresult move() const;
  // The source's rows, one behind the other, and what brings them to their places.
  Operation staged() const;

 private:
  // What has no memory is zero, and takes nothing.
  void move_parts(uint64_t row, uint64_t slice) const;
};

// What a copy's fields say of one end, besides its place in it. CUDA_ERROR_INVALID_VALUE: no such type of
// memory; CUDA_ERROR_INVALID_HANDLE: no such array.
CUresult place_end(CUmemorytype type, const void* in_host, uint64_t in_device, CUarray in_array, End& end);
void set_array(End& end, const Array& array);

// The box of CUDA_MEMCPY3D, of either ABI, or of CUDA_MEMCPY3D_PEER.
template <class Copy>
CUresult box_of_fields(const Copy& c, Box& out) {
  out = {{0, Side::host, c.dstXInBytes, c.dstY, c.dstZ, c.dstPitch, c.dstHeight},
         {0, Side::host, c.srcXInBytes, c.srcY, c.srcZ, c.srcPitch, c.srcHeight},
         c.WidthInBytes,
         c.Height,
         c.Depth};
  const CUresult bad = place_end(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, out.to);
  return bad != CUDA_SUCCESS ? bad : place_end(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, out.from);
}

// CUDA_MEMCPY3D's box, unchecked, and back.
CUresult box_of(const CUDA_MEMCPY3D& params, Box& out);
CUDA_MEMCPY3D params_of(const Box& box);

struct Fill {
  uintptr_t to = 0;
  uint64_t pitch = 0;  // bytes
  unsigned value = 0;
  unsigned element = 1;  // bytes: 1, 2 or 4
  uint64_t width = 0;    // elements
  uint64_t height = 0;   // rows
  MemoryKind kind = MemoryKind::device;

  uint64_t bytes() const { return width * element * height; }
  // A memset is the work of the context's GPU alone: another GPU's memory has to be within its reach.
  CUresult check(Context& context, Planned planned = Planned::no);
  CUresult run() const;
};

}  // namespace gpufence::sim
