// The device chapter: what is told of a GPU agrees with its cap; an ordinal or PCI id that does not exist in
// this view is explained. Count, UUIDs, PCI ids and driver version are never touched (hooks/init.cpp says
// why).
#include "hooks/mask.h"
#include "hooks/remap.h"

namespace gpufence::hooks {
namespace {

template <class Bytes>
CUresult told_total(CUresult result, Bytes* bytes, CUdevice device) noexcept {
  const Visible* seen = visible();
  if (result != CUDA_SUCCESS || bytes == nullptr || seen == nullptr || !seen->has(device)) return result;
  const policies::Cap* cap = seen->cap(device);
  if (cap != nullptr && cap->bytes < *bytes) *bytes = static_cast<Bytes>(cap->bytes);
  return result;
}

}  // namespace

HOOK(cuDeviceTotalMem, dispatch::kCap | dispatch::kMemory, (unsigned int* bytes, CUdevice dev)) {
  return told_total(real<&::cuDeviceTotalMem>(bytes, dev), bytes, dev);
}

HOOK(cuDeviceTotalMem_v2, dispatch::kCap | dispatch::kMemory, (size_t * bytes, CUdevice dev)) {
  return told_total(real<&::cuDeviceTotalMem_v2>(bytes, dev), bytes, dev);
}

HOOK(cuDeviceGet, dispatch::kFindings | dispatch::kRemap, (CUdevice * device, int ordinal)) {
  note_use("cuDeviceGet", __builtin_return_address(0));
  check_mask("cuDeviceGet", __builtin_return_address(0));
  note_not_remapped("cuDeviceGet", __builtin_return_address(0));
  const CUresult result = real<&::cuDeviceGet>(device, ordinal);
  if (result == CUDA_ERROR_INVALID_DEVICE && (rules().needs & dispatch::kFindings) != 0)
    say_no_such_ordinal(ordinal, observe::current("cuDeviceGet", __builtin_return_address(0)));
  return result;
}

HOOK(cuDeviceGetByPCIBusId, dispatch::kFindings, (CUdevice * dev, const char* pciBusId)) {
  const CUresult result = real<&::cuDeviceGetByPCIBusId>(dev, pciBusId);
  if (result == CUDA_ERROR_INVALID_DEVICE && pciBusId != nullptr) {
    const observe::Call call = observe::current("cuDeviceGetByPCIBusId", __builtin_return_address(0));
    explain({.code = "GF105", .call = call}, [&](const Visible& to) {
      return "the GPU at PCI " + std::string(pciBusId) + " asked for, " + observe::list_text(to.devices);
    });
  }
  return result;
}

}  // namespace gpufence::hooks
