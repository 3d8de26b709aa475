// The memory chapter: the cuMemAlloc family and its frees. v1 names are here because ctypes users reach them;
// their sizes and addresses are 32 bits wide.
#include "hooks/charge.h"
#include "hooks/stores.h"

namespace gpufence::hooks {
namespace {

CUresult free_again(std::uint64_t address) {
  return real<&::cuMemFree_v2>(static_cast<CUdeviceptr>(address));
}

constexpr unsigned kNeeds = dispatch::kMemory;

// The driver rounds a row up to a step of its own. It is learned once for each element size, by the smallest
// allocation there is, so that what is reserved before the driver is asked is what it will take.
constinit std::atomic<std::uint64_t> learned_step[3]{};

std::uint64_t pitch_step(const Place& place, unsigned element) noexcept {
  std::atomic<std::uint64_t>& step = learned_step[element / 8];
  if (const std::uint64_t known = step.load(std::memory_order_relaxed); known != 0) return known;
  constexpr std::uint64_t kRoom = 4096;  // more than any step seen
  CUdeviceptr probe = 0;
  std::size_t pitch = 0;
  if (!reserve_unseen(place, kRoom).ok()) return 0;
  if (real<&::cuMemAllocPitch_v2>(&probe, &pitch, 1, 1, element) == CUDA_SUCCESS) {
    free_again(probe);
    step.store(pitch, std::memory_order_relaxed);
  }
  place.seen->ledger->cancel(place.row, kRoom);
  return step.load(std::memory_order_relaxed);
}

// Reserved by the learned step, settled to the driver's own pitch. What the program gets to see is written
// last.
template <class Pointer, class Size, class Allocate>
CUresult charged_pitch(Pointer* out, Size* pitch, std::uint64_t width, std::uint64_t height, unsigned element,
                       const char* api, const void* caller, Allocate allocate) noexcept {
  // What the driver refuses by itself is its to answer, cap or not.
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0 ||
      (element != 4 && element != 8 && element != 16))
    return allocate(out, pitch);
  const std::optional<Place> place = place_of_current_context();
  if (!place) return allocate(out, pitch);
  const std::uint64_t step = pitch_step(*place, element);
  std::uint64_t row = width;
  std::uint64_t bytes = 0;
  const bool overflows = step != 0 && __builtin_add_overflow(width, step - 1, &row);
  if (step != 0) row -= row % step;
  if (overflows || __builtin_mul_overflow(row, height, &bytes)) bytes = UINT64_MAX;
  ledger::Booked answer = reserve(*place, bytes);
  if (!answer.ok()) return refuse(*place, bytes, answer, observe::current(api, caller));
  Pointer got = 0;
  Size real_pitch = 0;
  const CUresult result = allocate(&got, &real_pitch);
  ledger::Ledger& books = *place->seen->ledger;
  if (result != CUDA_SUCCESS) {
    books.cancel(place->row, bytes);
    return result;
  }
  const std::uint64_t taken = static_cast<std::uint64_t>(real_pitch) * height;
  if (taken > bytes) answer = reserve(*place, taken - bytes);
  const bool fits = answer.ok();
  if (taken < bytes) books.cancel(place->row, bytes - taken);
  const std::uint64_t booked = taken <= bytes || fits ? taken : bytes;
  if (!fits ||
      !books.commit(got, {place->row, taken, place->context, 0, observe::current(api, caller).caller})) {
    free_again(got);
    books.cancel(place->row, booked);
    return fits ? CUDA_ERROR_OUT_OF_MEMORY : refuse(*place, taken, answer, observe::current(api, caller));
  }
  *out = got;
  *pitch = real_pitch;
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
  return charged_pitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes, "cuMemAllocPitch",
                       __builtin_return_address(0), [&](CUdeviceptr* out, size_t* pitch) {
                         return real<&::cuMemAllocPitch_v2>(out, pitch, WidthInBytes, Height,
                                                            ElementSizeBytes);
                       });
}

HOOK(cuMemAllocPitch, kNeeds,
     (CUdeviceptr_v1 * dptr, unsigned int* pPitch, unsigned int WidthInBytes, unsigned int Height,
      unsigned int ElementSizeBytes)) {
  return charged_pitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes, "cuMemAllocPitch",
                       __builtin_return_address(0), [&](CUdeviceptr_v1* out, unsigned int* pitch) {
                         return real<&::cuMemAllocPitch>(out, pitch, WidthInBytes, Height, ElementSizeBytes);
                       });
}

HOOK(cuMemAllocManaged, kNeeds, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags)) {
  if (dptr == nullptr || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return real<&::cuMemAllocManaged>(dptr, bytesize, flags);
  return charged(
      bytesize, "cuMemAllocManaged", __builtin_return_address(0),
      [&] { return real<&::cuMemAllocManaged>(dptr, bytesize, flags); },
      [&] { return static_cast<std::uint64_t>(*dptr); }, free_again);
}

// Memory of pools and graphs may be freed by it too, and has then been waited for.
HOOK(cuMemFree_v2, kNeeds, (CUdeviceptr dptr)) {
  const CUresult result = freed(dptr, [&] { return real<&::cuMemFree_v2>(dptr); });
  Stores::get().freed();
  Stores::get().synchronised();
  return result;
}

HOOK(cuMemFree, kNeeds, (CUdeviceptr_v1 dptr)) {
  return freed(dptr, [&] { return real<&::cuMemFree>(dptr); });
}

// CUDA lets stream-ordered frees take what cuMemAlloc gave. Whatever else they are given has no holding here.
HOOK(cuMemFreeAsync, kNeeds, (CUdeviceptr dptr, CUstream hStream)) {
  Stores::get().freed();
  return freed(dptr, [&] { return real<&::cuMemFreeAsync>(dptr, hStream); });
}

HOOK(cuMemFreeAsync_ptsz, kNeeds, (CUdeviceptr dptr, CUstream hStream)) {
  Stores::get().freed();
  return freed(dptr, [&] { return real<&::cuMemFreeAsync_ptsz>(dptr, hStream); });
}

}  // namespace gpufence::hooks
