// The memory chapter: the cuMemAlloc family and its frees. v1 names are here because ctypes users reach them;
// their sizes and addresses are 32 bits wide.
#include "hooks/charge.h"

namespace gpufence::hooks {
namespace {

CUresult free_again(std::uint64_t address) {
  return real<&::cuMemFree_v2>(static_cast<CUdeviceptr>(address));
}

constexpr unsigned kNeeds = dispatch::kMemory;

// The driver chooses the pitch: what the request asked for is reserved, what it came to is settled
// afterwards.
template <class Pointer, class Size, class Allocate>
CUresult charged_pitch(Pointer* out, Size* pitch, std::uint64_t width, std::uint64_t height, const char* api,
                       const void* caller, Allocate allocate) noexcept {
  std::uint64_t bytes = 0;
  if (out == nullptr || pitch == nullptr || __builtin_mul_overflow(width, height, &bytes)) return allocate();
  const auto address = [&] { return static_cast<std::uint64_t>(*out); };
  const CUresult result = charged(bytes, api, caller, allocate, address, free_again);
  const std::optional<Place> place = place_of_current_context();
  if (result != CUDA_SUCCESS || !place) return result;
  std::optional<ledger::Holding> holding = place->seen->ledger->take(address());
  if (!holding) return result;
  const std::uint64_t real_bytes = static_cast<std::uint64_t>(*pitch) * height;
  const std::uint64_t more = real_bytes > bytes ? real_bytes - bytes : 0;
  if (!reserve(*place, more)) {
    free_again(address());
    place->seen->ledger->release(*holding);
    return refuse(*place, real_bytes, observe::current(api, caller));
  }
  holding->bytes += more;
  place->seen->ledger->put_back(address(), *holding);
  return result;
}

}  // namespace

HOOK(cuMemAlloc_v2, kNeeds, (CUdeviceptr * dptr, size_t bytesize)) {
  if (dptr == nullptr) return real<&::cuMemAlloc_v2>(dptr, bytesize);
  return charged(
      bytesize, "cuMemAlloc", __builtin_return_address(0),
      [&] { return real<&::cuMemAlloc_v2>(dptr, bytesize); },
      [&] { return static_cast<std::uint64_t>(*dptr); }, free_again);
}

HOOK(cuMemAlloc, kNeeds, (CUdeviceptr_v1 * dptr, unsigned int bytesize)) {
  if (dptr == nullptr) return real<&::cuMemAlloc>(dptr, bytesize);
  return charged(
      bytesize, "cuMemAlloc", __builtin_return_address(0),
      [&] { return real<&::cuMemAlloc>(dptr, bytesize); }, [&] { return static_cast<std::uint64_t>(*dptr); },
      free_again);
}

HOOK(cuMemAllocPitch_v2, kNeeds,
     (CUdeviceptr * dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
      unsigned int ElementSizeBytes)) {
  return charged_pitch(
      dptr, pPitch, WidthInBytes, Height, "cuMemAllocPitch", __builtin_return_address(0),
      [&] { return real<&::cuMemAllocPitch_v2>(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes); });
}

HOOK(cuMemAllocPitch, kNeeds,
     (CUdeviceptr_v1 * dptr, unsigned int* pPitch, unsigned int WidthInBytes, unsigned int Height,
      unsigned int ElementSizeBytes)) {
  return charged_pitch(
      dptr, pPitch, WidthInBytes, Height, "cuMemAllocPitch", __builtin_return_address(0),
      [&] { return real<&::cuMemAllocPitch>(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes); });
}

HOOK(cuMemAllocManaged, kNeeds, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags)) {
  if (dptr == nullptr) return real<&::cuMemAllocManaged>(dptr, bytesize, flags);
  return charged(
      bytesize, "cuMemAllocManaged", __builtin_return_address(0),
      [&] { return real<&::cuMemAllocManaged>(dptr, bytesize, flags); },
      [&] { return static_cast<std::uint64_t>(*dptr); }, free_again);
}

HOOK(cuMemFree_v2, kNeeds, (CUdeviceptr dptr)) {
  return freed(dptr, [&] { return real<&::cuMemFree_v2>(dptr); });
}

HOOK(cuMemFree, kNeeds, (CUdeviceptr_v1 dptr)) {
  return freed(dptr, [&] { return real<&::cuMemFree>(dptr); });
}

}  // namespace gpufence::hooks
