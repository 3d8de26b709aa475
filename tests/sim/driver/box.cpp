// See copy.h.
#include <cstring>

#include "access.h"
#include "copy.h"
#include "graph_memory.h"
#include "vmm.h"

namespace gpufence::sim {
namespace {

CUresult look_at(uintptr_t address, uint64_t bytes, Side side, Planned planned, MemoryKind& kind) {
  Found found;
  if (planned == Planned::yes && in_graph_memory(address, bytes)) {
    kind = MemoryKind::device;
    return CUDA_SUCCESS;
  }
  if (!find(address, found)) {
    kind = MemoryKind::pageable;
    // Addresses of a GPU that no allocation covers; else memory of the program, which only it can vouch for.
    return side != Side::device && address != 0 && owner_of(address) == nullptr ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_VALUE;
  }
  const bool within = bytes <= found.bytes + found.beyond - (address - found.base);
  // Mapped, but no GPU was let at it.
  if (found.mapped && !found.host && !mapped_for(nullptr, address)) return CUDA_ERROR_INVALID_VALUE;
  if (found.host) {
    // The rest of a buffer need not be page-locked.
    kind = within ? MemoryKind::pinned : MemoryKind::pageable;
    return within || side != Side::device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  kind = found.managed ? MemoryKind::managed : MemoryKind::device;
  if (!within) return CUDA_ERROR_INVALID_VALUE;
  return found.context != nullptr ? refusal(*found.context) : CUDA_SUCCESS;
}

CUresult array_end(CUarray handle, End& end) {
  const Array* array = array_of(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  set_array(end, *array);
  return CUDA_SUCCESS;
}

}  // namespace

void set_array(End& end, const Array& array) {
  end.array = &array;
  end.base = array.base;
  end.side = Side::device;
  end.pitch = array.row_bytes;
  end.height = array.rows;
}

CUresult place_end(CUmemorytype type, const void* in_host, uint64_t in_device, CUarray in_array, End& end) {
  switch (type) {
    case CU_MEMORYTYPE_ARRAY:
      return array_end(in_array, end);
    case CU_MEMORYTYPE_HOST:
      end.base = reinterpret_cast<uintptr_t>(in_host);
      end.side = Side::host;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
      end.base = in_device;
      end.side = Side::device;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
      end.base = in_device;
      end.side = Side::unified;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Box::check(Planned planned) {
  for (End* end : {&to, &from}) {
    if (const Array* array = end->array; array != nullptr) {
      if (!(Checked(end->x) + width).within(array->row_bytes) ||
          !(Checked(end->y) + height).within(array->rows) || !(Checked(end->z) + depth).within(array->slices))
        return CUDA_ERROR_INVALID_VALUE;
      // "Must be evenly divisible by the array element size."
      if (end->x % array->element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      end->kind = MemoryKind::device;
      if (const CUresult refused = refusal(*array->context); refused != CUDA_SUCCESS) return refused;
      continue;
    }
    // A pitch of 0 is allowed where there is one row, a height of 0 where there is one slice.
    if ((height > 1 || depth > 1 || end->y > 0 || end->z > 0) &&
        !(Checked(end->x) + width).within(end->pitch))
      return CUDA_ERROR_INVALID_VALUE;
    if ((depth > 1 || end->z > 0) && !(Checked(end->y) + height).within(end->height))
      return CUDA_ERROR_INVALID_VALUE;
    const Checked last = end->end(width, height, depth);
    if (!last.fits()) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t first = end->base + end->offset(0, 0);
    const CUresult seen = look_at(first, last.value() - first, end->side, planned, end->kind);
    if (seen != CUDA_SUCCESS) return seen;
  }
  return CUDA_SUCCESS;
}

namespace {

bool mapped(const End& end) {
  return !end.in_parts() || end.array->backing->reachable();
}

}  // namespace

CUresult Box::move() const {
  const bool parts = to.in_parts() || from.in_parts();
  if (parts && !(mapped(to) && mapped(from))) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (uint64_t slice = 0; slice < depth; ++slice)
    for (uint64_t row = 0; row < height; ++row) {
      if (parts)
        move_parts(row, slice);
      else
        memmove(to.at(row, slice), from.at(row, slice), width);
    }
  return CUDA_SUCCESS;
}

void Box::move_parts(uint64_t row, uint64_t slice) const {
  for (uint64_t done = 0; done < width;) {
    uint64_t bytes = width - done;
    const uint8_t* source = from.part(row, slice, done, &bytes);
    uint8_t* target = to.part(row, slice, done, &bytes);
    if (target != nullptr && source != nullptr) memmove(target, source, bytes);
    if (target != nullptr && source == nullptr) memset(target, 0, bytes);
    done += bytes;
  }
}

Operation Box::staged() const {
  auto rows = std::make_shared<std::vector<uint8_t>>(bytes());
  Box in = *this, out = *this;
  in.to = out.from = {reinterpret_cast<uintptr_t>(rows->data()), Side::host, 0, 0, 0, width, height};
  in.move();
  return [rows, out] { return out.move(); };
}

CUresult box_of(const CUDA_MEMCPY3D& params, Box& out) {
  if (params.srcLOD != 0 || params.dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  return box_of_fields(params, out);
}

CUDA_MEMCPY3D params_of(const Box& box) {
  CUDA_MEMCPY3D params{};
  const auto type = [](const End& end) {
    return end.array != nullptr       ? CU_MEMORYTYPE_ARRAY
           : end.side == Side::host   ? CU_MEMORYTYPE_HOST
           : end.side == Side::device ? CU_MEMORYTYPE_DEVICE
                                      : CU_MEMORYTYPE_UNIFIED;
  };
  const auto array = [](const End& end) { return reinterpret_cast<CUarray>(const_cast<Array*>(end.array)); };
  const auto host = [](const End& end) { return reinterpret_cast<void*>(end.base); };
  params.srcXInBytes = box.from.x;
  params.srcY = box.from.y;
  params.srcZ = box.from.z;
  params.srcMemoryType = type(box.from);
  params.dstXInBytes = box.to.x;
  params.dstY = box.to.y;
  params.dstZ = box.to.z;
  params.dstMemoryType = type(box.to);
  if (box.from.array != nullptr) {
    params.srcArray = array(box.from);
  } else {
    if (params.srcMemoryType == CU_MEMORYTYPE_HOST)
      params.srcHost = host(box.from);
    else
      params.srcDevice = box.from.base;
    params.srcPitch = box.from.pitch;
    params.srcHeight = box.from.height;
  }
  if (box.to.array != nullptr) {
    params.dstArray = array(box.to);
  } else {
    if (params.dstMemoryType == CU_MEMORYTYPE_HOST)
      params.dstHost = host(box.to);
    else
      params.dstDevice = box.to.base;
    params.dstPitch = box.to.pitch;
    params.dstHeight = box.to.height;
  }
  params.WidthInBytes = box.width;
  params.Height = box.height;
  params.Depth = box.depth;
  return params;
}

CUresult Fill::check(Context& context, Planned planned) {
  if ((element != 1 && element != 2 && element != 4) || to % element != 0) return CUDA_ERROR_INVALID_VALUE;
  const Checked row_bytes = Checked(width) * element;
  if (height > 1 && (!row_bytes.within(pitch) || pitch % element != 0)) return CUDA_ERROR_INVALID_VALUE;
  const Checked last = End{to, Side::device, 0, 0, 0, pitch, 0}.end(row_bytes, height, 1);
  if (!last.fits()) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t whole = last.value() - to;
  const CUresult seen = look_at(to, whole, Side::device, planned, kind);
  if (seen != CUDA_SUCCESS) return seen;
  if (planned == Planned::yes && in_graph_memory(to, whole)) return CUDA_SUCCESS;
  return may_touch(context, to) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

namespace {

template <class Element>
void fill_rows(const Fill& fill) {
  const auto value = static_cast<Element>(fill.value);
  for (uint64_t row = 0; row < fill.height; ++row) {
    auto* at = reinterpret_cast<Element*>(fill.to + row * fill.pitch);
    if constexpr (sizeof(Element) == 1)
      memset(at, value, fill.width);
    else
      for (uint64_t i = 0; i < fill.width; ++i) at[i] = value;
  }
}

}  // namespace

CUresult Fill::run() const {
  if (element == 1)
    fill_rows<uint8_t>(*this);
  else if (element == 2)
    fill_rows<uint16_t>(*this);
  else
    fill_rows<uint32_t>(*this);
  return CUDA_SUCCESS;
}

}  // namespace gpufence::sim
