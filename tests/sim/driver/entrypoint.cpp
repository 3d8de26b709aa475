// Entry points by name and version, and the table of our own that cuGetExportTable knows. NVIDIA's export
// tables are not here: for their ids the answer is CUDA_ERROR_NOT_FOUND, which is the truth.
#include <dlfcn.h>

#include <cstring>
#include <string_view>

#include "code.h"
#include "driver.h"
#include "exports.h"
#include "inside.h"
#include "tools.h"
#include "truth.h"

using namespace gpufence::sim;

namespace {

CUresult proc_address(const char* symbol, void** out, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  const Lookup found = look_up_export(symbol, version, this_machine().driver_version,
                                      flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  if (status != nullptr)
    *status = found.address != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : found.name_known       ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (found.address == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = found.address;
  return CUDA_SUCCESS;
}

Device* visible(int ordinal) {
  return ready() ? driver().device(ordinal) : nullptr;
}

// NVIDIA's compilers ask for tables too, and do without.
bool is_compiler(void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  std::string_view name = info.dli_fname;
  name.remove_prefix(name.rfind('/') + 1);  // the whole name where there is none
  return name.starts_with("libnvrtc") || name.starts_with("libnvJitLink");
}

constinit ToolsTable the_tools = {
    sizeof(ToolsTable), {nullptr}, [] { return static_cast<void*>(current_context()); }};

constinit const TruthTable kTruth = {
    sizeof(TruthTable),
    [] { return this_machine().driver_version; },
    [] { return ready() ? static_cast<int>(driver().visible.size()) : -1; },
    [](int ordinal, unsigned char out[16]) {
      const Device* device = visible(ordinal);
      if (device == nullptr) return -1;
      const Gpu& gpu = *device->gpu;  // as cuDeviceGetUuid tells it
      memcpy(out, (gpu.is_instance() ? this_machine().gpus[gpu.parent] : gpu).uuid.data(), 16);
      return 0;
    },
    [](int ordinal, int* domain, int* bus, int* slot) {
      const Device* device = visible(ordinal);
      if (device == nullptr) return -1;
      *domain = static_cast<int>(device->gpu->pci_domain);
      *bus = static_cast<int>(device->gpu->pci_bus);
      *slot = static_cast<int>(device->gpu->pci_device);
      return 0;
    },
    &the_tools,
};

}  // namespace

CUresult cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags) {
  return always(__func__, [&] { return proc_address(symbol, out, version, flags, nullptr); });
}

CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  return always(__func__, [&] { return proc_address(symbol, out, version, flags, status); });
}

CUresult cuGetExportTable(const void** out, const CUuuid* id) {
  void* caller = __builtin_return_address(0);
  return always(__func__, [&] {
    if (out == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto is = [&](const char* known) { return memcmp(id->bytes, known, sizeof id->bytes) == 0; };
    *out = is(kTruthTableId)    ? static_cast<const void*>(&kTruth)
           : is(kInsideTableId) ? static_cast<const void*>(&kInside)
           : is(kToolsTableId)  ? &the_tools
                                : nullptr;
    // Only NVIDIA's own libraries ask for other tables, first of all its runtime, which many of them hold:
    // better said than left to its error.
    if (*out == nullptr && !is_compiler(caller)) {
      say_once(
          "this program brings NVIDIA's own CUDA runtime, which refuses a simulated driver; compile it with "
          "nvcc "
          "-cudart shared, or link our libcudart_static.a: nvcc -L<the simulator's directory>");
    }
    return *out == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  });
}

// ---- Profiler control: there is no profiler, which is no error ----

#include <cudaProfiler.h>
[[gnu::visibility("default")]] CUresult cuProfilerStart() {
  return in_context(__func__, [](Context&) { return CUDA_SUCCESS; });
}

[[gnu::visibility("default")]] CUresult cuProfilerStop() {
  return in_context(__func__, [](Context&) { return CUDA_SUCCESS; });
}
