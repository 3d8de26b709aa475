// The chapter of virtual memory management. Memory is charged where it lies, whatever context is current, and
// given back when its last handle and its last mapping are gone (ledger/mapped.h); a context's end takes none
// of it.
#include <optional>
#include <utility>
#include <vector>

#include "hooks/charge.h"
#include "hooks/reach.h"

namespace gpufence::hooks {
namespace {

constexpr unsigned kNeeds = dispatch::kMemory;
constexpr unsigned kCounted = dispatch::kFindings | dispatch::kReport | dispatch::kPointers;  // as copies are

ledger::Mapped* mapped_memory() noexcept {
  Visible* seen = visible();
  return seen != nullptr ? &seen->mapped : nullptr;
}

void give_back(const std::optional<ledger::Holding>& gone) noexcept {
  if (gone) visible()->ledger->release(*gone);
}

// Memory that is mapped into arrays has no address: once it was, it counts for as long as the process lives.
void note_mapped_arrays(const CUarrayMapInfo* list, unsigned count) noexcept {
  ledger::Mapped* known = mapped_memory();
  if (known == nullptr || list == nullptr) return;
  for (unsigned i = 0; i < count; ++i)
    if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
        list[i].memHandleType == CU_MEM_HANDLE_TYPE_GENERIC)
      known->kept(list[i].memHandle.memHandle);
}

}  // namespace

HOOK(cuMemCreate, kNeeds,
     (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp* prop,
      unsigned long long flags)) {
  const auto create = [&] { return real<&::cuMemCreate>(handle, size, prop, flags); };
  Visible* seen = visible();
  if (handle == nullptr || prop == nullptr || seen == nullptr ||
      prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !seen->has(prop->location.id))
    return create();
  const Place place{seen, static_cast<std::uint32_t>(prop->location.id), nullptr};
  return charged_at(
      place, size, "cuMemCreate", __builtin_return_address(0), create,
      [&](const void* site) {
        if (!seen->mapped.created(*handle, {place.row, size, nullptr, 0, site})) return false;
        seen->ledger->count_allocation(place.row);
        return true;
      },
      [&] { real<&::cuMemRelease>(*handle); });
}

HOOK(cuMemRelease, kNeeds, (CUmemGenericAllocationHandle handle)) {
  ledger::Mapped* known = mapped_memory();
  auto memory = known != nullptr ? known->releasing(handle) : nullptr;
  const CUresult result = real<&::cuMemRelease>(handle);
  if (memory == nullptr) return result;
  if (result == CUDA_SUCCESS)
    give_back(known->released(memory));
  else
    known->not_released(handle, std::move(memory));
  return result;
}

// The addresses may stand for memory of another GPU from then on.
HOOK(cuMemMap, kNeeds | kCounted,
     (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
      unsigned long long flags)) {
  const CUresult result = real<&::cuMemMap>(ptr, size, offset, handle, flags);
  if (result != CUDA_SUCCESS) return result;
  forget_owners_of(ptr, size);
  if (ledger::Mapped* known = mapped_memory(); known != nullptr) known->mapped(handle, ptr, size);
  return result;
}

HOOK(cuMemRetainAllocationHandle, kNeeds, (CUmemGenericAllocationHandle * handle, void* addr)) {
  const CUresult result = real<&::cuMemRetainAllocationHandle>(handle, addr);
  ledger::Mapped* known = mapped_memory();
  if (known != nullptr && result == CUDA_SUCCESS && handle != nullptr)
    known->retained(*handle, reinterpret_cast<std::uintptr_t>(addr));
  return result;
}

HOOK(cuMemUnmap, kNeeds, (CUdeviceptr ptr, size_t size)) {
  ledger::Mapped* known = mapped_memory();
  std::vector<ledger::Mapped::Place> places;
  if (known != nullptr) places = known->unmapping(ptr, size);
  const CUresult result = real<&::cuMemUnmap>(ptr, size);
  if (places.empty()) return result;
  if (result != CUDA_SUCCESS) {
    known->not_unmapped(std::move(places));
    return result;
  }
  for (const ledger::Mapped::Place& place : places) give_back(known->unmapped(place));
  return result;
}

HOOK(cuMemMapArrayAsync, kNeeds, (CUarrayMapInfo * mapInfoList, unsigned int count, CUstream hStream)) {
  const CUresult result = real<&::cuMemMapArrayAsync>(mapInfoList, count, hStream);
  if (result == CUDA_SUCCESS) note_mapped_arrays(mapInfoList, count);
  return result;
}
HOOK(cuMemMapArrayAsync_ptsz, kNeeds, (CUarrayMapInfo * mapInfoList, unsigned int count, CUstream hStream)) {
  const CUresult result = real<&::cuMemMapArrayAsync_ptsz>(mapInfoList, count, hStream);
  if (result == CUDA_SUCCESS) note_mapped_arrays(mapInfoList, count);
  return result;
}

}  // namespace gpufence::hooks
