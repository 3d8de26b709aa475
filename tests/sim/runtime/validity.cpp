// The stand-in's own validity check. The genuine runtime answers 103 when device count, UUIDs, PCI ids or
// driver version were changed between it and the driver; so does this one, by a table that the simulated
// driver keeps for it (tests/sim/driver/truth.h). A driver without that table is not simulated, and this
// runtime is not made for it.
#include <string.h>

#include "tests/sim/driver/truth.h"
#include "tests/sim/runtime/runtime.h"

namespace gpufence::sim::runtime {
namespace {

bool same_device(const TruthTable& truth, int ordinal, const cudaDeviceProp& told) {
  unsigned char uuid[16];
  int domain = 0;
  int bus = 0;
  int device = 0;
  if (truth.device_uuid(ordinal, uuid) != 0 || truth.device_pci(ordinal, &domain, &bus, &device) != 0)
    return false;
  return memcmp(uuid, &told.uuid, sizeof uuid) == 0 && domain == told.pciDomainID && bus == told.pciBusID &&
         device == told.pciDeviceID;
}

}  // namespace

cudaError_t check_validity(const Runtime& runtime) {
  CUuuid id;
  static_assert(sizeof id.bytes == sizeof kTruthTableId - 1);
  memcpy(id.bytes, kTruthTableId, sizeof id.bytes);
  const void* table = nullptr;
  if (runtime.driver().cuGetExportTable(&table, &id) != CUDA_SUCCESS || table == nullptr) {
    return cudaErrorSoftwareValidityNotEstablished;
  }
  const auto& truth = *static_cast<const TruthTable*>(table);
  if (truth.size < sizeof(TruthTable) || truth.driver_version() != runtime.driver_version() ||
      truth.device_count() != runtime.count()) {
    return cudaErrorSoftwareValidityNotEstablished;
  }
  for (int ordinal = 0; ordinal < runtime.count(); ++ordinal) {
    if (!same_device(truth, ordinal, runtime.properties(ordinal)))
      return cudaErrorSoftwareValidityNotEstablished;
  }
  tell_tools(truth.tools);
  return cudaSuccess;
}

}  // namespace gpufence::sim::runtime
