// What a program is told of memory agrees with its cap: total is the cap or the card, free is what either has
// left.
#include "hooks/charge.h"
#include "hooks/scopes.h"

#include <algorithm>

namespace gpufence::hooks {
namespace {

template <class Bytes>
CUresult told(CUresult result, Bytes* free, Bytes* total) noexcept {
  if (result != CUDA_SUCCESS) return result;
  const std::optional<Place> place = gpu_of_current_context();
  if (!place) return result;
  const Standing standing = standing_on(*place->seen, place->row);
  if (standing.cap == nullptr) return result;
  if (total != nullptr) *total = static_cast<Bytes>(std::min<std::uint64_t>(*total, standing.cap->bytes));
  if (free != nullptr) *free = static_cast<Bytes>(std::min<std::uint64_t>(*free, standing.left));
  return result;
}

}  // namespace

HOOK(cuMemGetInfo_v2, dispatch::kCap | dispatch::kMemory, (size_t * free, size_t* total)) {
  return told(real<&::cuMemGetInfo_v2>(free, total), free, total);
}

HOOK(cuMemGetInfo, dispatch::kCap | dispatch::kMemory, (unsigned int* free, unsigned int* total)) {
  return told(real<&::cuMemGetInfo>(free, total), free, total);
}

}  // namespace gpufence::hooks
