// The array chapter. CUDA says nowhere how large an array is: its elements' bytes are counted, as its formats
// and extents say them. An array without memory of its own (sparse, deferred mapping) holds what is mapped to
// it, which vmm.cpp counts.
#include "hooks/charge.h"

#include <algorithm>

namespace gpufence::hooks {
namespace {

constexpr unsigned kNeeds = dispatch::kMemory;

// Bits of an element, of one channel where it has several; a block of 4 × 4 elements counts 16 of them. What
// is not known counts as the largest that there is.
struct Element {
  unsigned bits = 32;
  bool per_channel = true;
};

Element element_of(CUarray_format format) noexcept {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return {8, true};
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return {16, true};
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return {32, true};
    case CU_AD_FORMAT_NV12:
      return {12, false};  // a byte of luma, and two of chroma for each four elements
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
      return {8, false};
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
      return {16, false};
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT_101010_2:
      return {32, false};
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return {64, false};
    case CU_AD_FORMAT_BC1_UNORM:
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
      return {4, false};
    case CU_AD_FORMAT_BC2_UNORM:
    case CU_AD_FORMAT_BC2_UNORM_SRGB:
    case CU_AD_FORMAT_BC3_UNORM:
    case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM:
    case CU_AD_FORMAT_BC5_SNORM:
    case CU_AD_FORMAT_BC6H_UF16:
    case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM:
    case CU_AD_FORMAT_BC7_UNORM_SRGB:
      return {8, false};
    default:
      return {32, true};
  }
}

// Saturates: what is more than memory can be is refused as such.
std::uint64_t times(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX / 2 : product;
}

bool has_memory(unsigned flags) noexcept {
  return (flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0;
}

// Bytes of one level; of a level below the first each extent is halved, but for the number of layers.
std::uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& of, unsigned level) noexcept {
  const auto extent = [level](std::uint64_t whole) { return std::max<std::uint64_t>(whole >> level, 1); };
  const bool layers = (of.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const std::uint64_t depth = layers ? std::max<std::uint64_t>(of.Depth, 1) : extent(of.Depth);
  const Element element = element_of(of.Format);
  std::uint64_t width = extent(of.Width), height = extent(of.Height);
  if (of.Format >= CU_AD_FORMAT_BC1_UNORM && of.Format <= CU_AD_FORMAT_BC7_UNORM_SRGB) {
    width = (width + 3) / 4 * 4;
    height = (height + 3) / 4 * 4;
  }
  const std::uint64_t bits = element.bits * (element.per_channel ? std::max(of.NumChannels, 1U) : 1U);
  return times(times(times(width, height), depth), bits) / 8;
}

// Handles and addresses stand in one table; no address has this bit.
std::uint64_t key_of(const void* handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle) | std::uint64_t{1} << 63;
}

CUresult destroy_again(std::uint64_t key) {
  return real<&::cuArrayDestroy>(reinterpret_cast<CUarray>(key & ~(std::uint64_t{1} << 63)));
}
CUresult destroy_levels_again(std::uint64_t key) {
  return real<&::cuMipmappedArrayDestroy>(
      reinterpret_cast<CUmipmappedArray>(key & ~(std::uint64_t{1} << 63)));
}

template <class Create>
CUresult created(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& of, const char* api, const void* caller,
                 Create create) noexcept {
  return charged(
      bytes_of(of, 0), api, caller, create, [&] { return key_of(*out); }, destroy_again);
}

template <class Size>
CUDA_ARRAY3D_DESCRIPTOR flat(Size width, Size height, CUarray_format format, unsigned channels) noexcept {
  CUDA_ARRAY3D_DESCRIPTOR of{};
  of.Width = width;
  of.Height = height;
  of.Format = format;
  of.NumChannels = channels;
  return of;
}

}  // namespace

HOOK(cuArrayCreate_v2, kNeeds, (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray)) {
  const auto create = [&] { return real<&::cuArrayCreate_v2>(pHandle, pAllocateArray); };
  if (pHandle == nullptr || pAllocateArray == nullptr) return create();
  const auto& of = *pAllocateArray;
  return created(pHandle, flat(of.Width, of.Height, of.Format, of.NumChannels), "cuArrayCreate",
                 __builtin_return_address(0), create);
}
HOOK(cuArrayCreate, kNeeds, (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR_v1* pAllocateArray)) {
  const auto create = [&] { return real<&::cuArrayCreate>(pHandle, pAllocateArray); };
  if (pHandle == nullptr || pAllocateArray == nullptr) return create();
  const auto& of = *pAllocateArray;
  return created(pHandle, flat(of.Width, of.Height, of.Format, of.NumChannels), "cuArrayCreate",
                 __builtin_return_address(0), create);
}
HOOK(cuArray3DCreate_v2, kNeeds, (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray)) {
  const auto create = [&] { return real<&::cuArray3DCreate_v2>(pHandle, pAllocateArray); };
  if (pHandle == nullptr || pAllocateArray == nullptr || !has_memory(pAllocateArray->Flags)) return create();
  return created(pHandle, *pAllocateArray, "cuArray3DCreate", __builtin_return_address(0), create);
}
HOOK(cuArray3DCreate, kNeeds, (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1* pAllocateArray)) {
  const auto create = [&] { return real<&::cuArray3DCreate>(pHandle, pAllocateArray); };
  if (pHandle == nullptr || pAllocateArray == nullptr || !has_memory(pAllocateArray->Flags)) return create();
  CUDA_ARRAY3D_DESCRIPTOR of = flat(pAllocateArray->Width, pAllocateArray->Height, pAllocateArray->Format,
                                    pAllocateArray->NumChannels);
  of.Depth = pAllocateArray->Depth;
  of.Flags = pAllocateArray->Flags;
  return created(pHandle, of, "cuArray3DCreate", __builtin_return_address(0), create);
}

HOOK(cuMipmappedArrayCreate, kNeeds,
     (CUmipmappedArray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
      unsigned int numMipmapLevels)) {
  const auto create = [&] {
    return real<&::cuMipmappedArrayCreate>(pHandle, pMipmappedArrayDesc, numMipmapLevels);
  };
  if (pHandle == nullptr || pMipmappedArrayDesc == nullptr || !has_memory(pMipmappedArrayDesc->Flags))
    return create();
  // "numMipmapLevels … is clamped to the range [1, 1 + floor(log2(max(width, height, depth)))]"
  const CUDA_ARRAY3D_DESCRIPTOR& of = *pMipmappedArrayDesc;
  const bool layers = (of.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const std::uint64_t largest =
      std::max({of.Width, of.Height, layers ? std::size_t{1} : of.Depth, std::size_t{1}});
  const unsigned most = static_cast<unsigned>(64 - __builtin_clzll(largest));
  std::uint64_t bytes = 0;
  for (unsigned level = 0; level < std::clamp(numMipmapLevels, 1U, most); ++level)
    bytes += bytes_of(of, level);
  return charged(
      bytes, "cuMipmappedArrayCreate", __builtin_return_address(0), create, [&] { return key_of(*pHandle); },
      destroy_levels_again);
}

HOOK(cuArrayDestroy, kNeeds, (CUarray hArray)) {
  return freed(key_of(hArray), [&] { return real<&::cuArrayDestroy>(hArray); });
}
HOOK(cuMipmappedArrayDestroy, kNeeds, (CUmipmappedArray hMipmappedArray)) {
  return freed(key_of(hMipmappedArray), [&] { return real<&::cuMipmappedArrayDestroy>(hMipmappedArray); });
}

}  // namespace gpufence::hooks
