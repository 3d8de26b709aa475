// NVML under its exported names: without this macro nvml.h renames the first versions to the newest ones
// (nvmlDeviceGetCount to nvmlDeviceGetCount_v2 and the like), and old clients reach those too.
#pragma once

#define NVML_NO_UNVERSIONED_FUNC_DEFS  // NOLINT: NVIDIA's name
#include <nvml.h>
