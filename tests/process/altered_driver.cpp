// A libcuda.so.1 that passes everything on to the simulated one and alters a single answer on the way, as a
// careless hook would: the runtime has to notice. ALTERED_DRIVER says which, ALTERED_DRIVER_REAL where the
// true one is.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

void* true_driver() {
  static void* library = dlopen(getenv("ALTERED_DRIVER_REAL"), RTLD_NOW | RTLD_LOCAL);
  return library;
}

template <typename Function>
Function true_entry(const char* symbol) {
  return reinterpret_cast<Function>(dlsym(true_driver(), symbol));
}

CUresult one_gpu_less(int* count) {
  const CUresult result = true_entry<CUresult (*)(int*)>("cuDeviceGetCount")(count);
  --*count;
  return result;
}

CUresult other_uuid(CUuuid* uuid, CUdevice device) {
  const CUresult result = true_entry<CUresult (*)(CUuuid*, CUdevice)>("cuDeviceGetUuid")(uuid, device);
  uuid->bytes[15] ^= 1;
  return result;
}

CUresult other_bus(int* value, CUdevice_attribute attribute, CUdevice device) {
  const CUresult result = true_entry<CUresult (*)(int*, CUdevice_attribute, CUdevice)>(
      "cuDeviceGetAttribute")(value, attribute, device);
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) ++*value;
  return result;
}

CUresult other_version(int* version) {
  const CUresult result = true_entry<CUresult (*)(int*)>("cuDriverGetVersion")(version);
  *version += 10;
  return result;
}

CUresult no_table(const void**, const CUuuid*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

// Names and totals may be altered: a fence does.
CUresult half_the_memory(size_t* bytes, CUdevice device) {
  const CUresult result = true_entry<CUresult (*)(size_t*, CUdevice)>("cuDeviceTotalMem_v2")(bytes, device);
  *bytes /= 2;
  return result;
}

template <typename Function>
void replace(std::string_view asked, const char* name, std::string_view what, const char* change, void** out,
             Function with) {
  if (asked == name && what == change) *out = reinterpret_cast<void*>(with);
}

}  // namespace

#undef cuGetProcAddress
extern "C" __attribute__((visibility("default"))) CUresult cuGetProcAddress_v2(
    const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  const CUresult result =
      true_entry<GetProcAddress>("cuGetProcAddress_v2")(name, out, version, flags, status);
  const char* what = getenv("ALTERED_DRIVER");
  if (result != CUDA_SUCCESS || what == nullptr) return result;
  replace(name, "cuDeviceGetCount", what, "count", out, one_gpu_less);
  replace(name, "cuDeviceGetUuid", what, "uuid", out, other_uuid);
  replace(name, "cuDeviceGetAttribute", what, "pci", out, other_bus);
  replace(name, "cuDriverGetVersion", what, "version", out, other_version);
  replace(name, "cuGetExportTable", what, "table", out, no_table);
  replace(name, "cuDeviceTotalMem", what, "total", out, half_the_memory);
  return result;
}
