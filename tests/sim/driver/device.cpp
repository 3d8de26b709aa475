// Devices: enumeration, identity and attributes. Numbers that no program can check without hardware are those
// of an H100; capabilities that the simulator lacks read as absent, so that programs take the way that works.
#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "driver.h"

using namespace gpufence::sim;

namespace {

bool attribute(const Gpu& gpu, CUdevice_attribute which, int& out) {
  constexpr int kTexture = 131072, kTexture2D = 65536, kTexture3D = 16384, kSurface = 32768, kLayers = 2048;
  const bool hopper = gpu.cc_major >= 9, ampere = gpu.cc_major >= 8;
  // clang-format off
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: out = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: out = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: out = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: out = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: out = INT_MAX; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: out = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: out = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: out = 49152; break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: out = 65536; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: out = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: out = INT_MAX; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: out = 65536; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: out = 1980000; break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: out = 512; break;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: out = gpu.multiprocessors; break;
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT: out = 0; break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: out = 0; break;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: out = CU_COMPUTEMODE_DEFAULT; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH: out = kTexture; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH: out = kTexture; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT: out = kTexture2D; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH: out = kTexture3D; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT: out = kTexture3D; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH: out = kTexture3D; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS: out = kLayers; break;
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: out = 512; break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: out = ampere ? 1 : 0; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: out = static_cast<int>(gpu.pci_bus); break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: out = static_cast<int>(gpu.pci_device); break;
    case CU_DEVICE_ATTRIBUTE_TCC_DRIVER: out = 0; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: out = 2619000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: out = hopper ? 5120 : 384; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: out = hopper ? 50 << 20 : 40 << 20; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: out = ampere ? 2048 : 1024; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: out = 3; break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS: out = kLayers; break;
    case CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE: out = 8192; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE: out = 8192; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: out = static_cast<int>(gpu.pci_domain); break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: out = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS: out = 2046; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH: out = kTexture; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT: out = kTexture2D; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH: out = kTexture3D; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT: out = kTexture3D; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH: out = kTexture3D; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS: out = kLayers; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS: out = kLayers; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS: out = 2046; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH: out = 268435456; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH: out = kTexture; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT: out = 65000; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH: out = 2097120; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: out = gpu.cc_major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: out = gpu.cc_minor; break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH: out = kSurface; break;
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: out = hopper ? 233472 : ampere ? 167936 : 65536; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: out = 65536; break;
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD: out = 0; break;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID: out = static_cast<int>(gpu.pci_domain << 8 | gpu.pci_bus); break;
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED: out = 0; break;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: out = gpu.cc_minor == 0 ? 2 : 64; break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS: out = 0; break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: out = hopper ? 232448 : ampere ? 166912 : 65536; break;
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: out = ampere ? 32 : 16; break;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE: out = ampere ? 30 << 20 : 0; break;
    case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE: out = ampere ? 128 << 20 : 0; break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: out = ampere ? 1024 : 0; break;
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_NUMA_CONFIG: out = CU_DEVICE_NUMA_CONFIG_NONE; break;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID: out = -1; break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: out = gpu.numa_node; break;
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT: out = hopper ? 4 : 1; break;
    case CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID: out = 0x233010de; break;
    case CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID: out = 0x16c110de; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      out = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
      break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED: out = 1; break;
    case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED: out = 1; break;
    default:
      if (which < 1 || which >= CU_DEVICE_ATTRIBUTE_MAX) return false;
      out = 0;  // clusters, fabrics, multicast: not simulated
  }
  // clang-format on
  return true;
}

// Runs body with the device of that ordinal.
template <class Body>
CUresult with_device(const char* name, CUdevice ordinal, bool arguments_good, Body&& body) {
  return initialised(name, [&] {
    if (!arguments_good) return CUDA_ERROR_INVALID_VALUE;
    Device* device = driver().device(ordinal);
    return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(*device);
  });
}

void copy_uuid(CUuuid* out, const Gpu& gpu) {
  memcpy(out->bytes, gpu.uuid.data(), sizeof out->bytes);
}

}  // namespace

int gpufence::sim::device_attribute(const Device& device, CUdevice_attribute which) {
  int value = 0;
  return attribute(*device.gpu, which, value) ? value : 0;
}

CUresult cuDeviceGetCount(int* count) {
  return initialised(__func__, [&] {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(driver().visible.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return with_device(__func__, ordinal, device != nullptr, [&](Device&) {
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice ordinal) {
  return with_device(__func__, ordinal, name != nullptr && length > 0, [&](Device& device) {
    snprintf(name, static_cast<size_t>(length), "%s", device.gpu->name.c_str());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice ordinal) {
  return with_device(__func__, ordinal, bytes != nullptr, [&](Device& device) {
    *bytes = device.gpu->memory_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice ordinal) {
  return with_device(__func__, ordinal, bytes != nullptr, [&](Device& device) {
    *bytes = static_cast<unsigned>(std::min<uint64_t>(device.gpu->memory_bytes, UINT_MAX));
    return CUDA_SUCCESS;
  });
}

// Of an instance: the first version tells the UUID of its GPU, the second "its MIG UUID which uniquely
// identifies the subscribed MIG compute instance" (cuDeviceGetUuid_v2).
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal) {
  return with_device(__func__, ordinal, uuid != nullptr, [&](Device& device) {
    copy_uuid(uuid, device.gpu->is_instance() ? driver().machine.gpus[device.gpu->parent] : *device.gpu);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice ordinal) {
  return with_device(__func__, ordinal, uuid != nullptr, [&](Device& device) {
    copy_uuid(uuid, *device.gpu);
    return CUDA_SUCCESS;
  });
}

// Windows has LUIDs; Linux has not.
CUresult cuDeviceGetLuid(char* luid, unsigned int* node_mask, CUdevice ordinal) {
  return with_device(__func__, ordinal, luid != nullptr && node_mask != nullptr,
                     [&](Device&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice ordinal) {
  return with_device(__func__, ordinal, value != nullptr, [&](Device& device) {
    return attribute(*device.gpu, which, *value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuDeviceGetProperties(CUdevprop* out, CUdevice ordinal) {
  return with_device(__func__, ordinal, out != nullptr, [&](Device& device) {
    const Gpu& gpu = *device.gpu;
    attribute(gpu, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, out->maxThreadsPerBlock);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, out->maxThreadsDim[0]);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, out->maxThreadsDim[1]);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, out->maxThreadsDim[2]);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, out->maxGridSize[0]);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, out->maxGridSize[1]);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, out->maxGridSize[2]);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, out->sharedMemPerBlock);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, out->totalConstantMemory);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_WARP_SIZE, out->SIMDWidth);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_MAX_PITCH, out->memPitch);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, out->regsPerBlock);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, out->clockRate);
    attribute(gpu, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, out->textureAlign);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice ordinal) {
  return with_device(__func__, ordinal, major != nullptr && minor != nullptr, [&](Device& device) {
    *major = device.gpu->cc_major;
    *minor = device.gpu->cc_minor;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice ordinal) {
  return with_device(__func__, ordinal, id != nullptr, [&](Device& device) {
    const std::string text = pci_text(*device.gpu);
    if (length < static_cast<int>(text.size()) + 1) return CUDA_ERROR_INVALID_VALUE;
    memcpy(id, text.c_str(), text.size() + 1);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* out, const char* id) {
  return initialised(__func__, [&] {
    if (out == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // [domain]:[bus]:[device].[function], [domain]:[bus]:[device] or [bus]:[device].[function]
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
      domain = 0;
      if (sscanf(id, "%x:%x.%x", &bus, &slot, &function) != 3) return CUDA_ERROR_INVALID_VALUE;
    }
    for (const Device* device : driver().visible) {
      const Gpu& gpu = *device->gpu;
      if (gpu.pci_domain != domain || gpu.pci_bus != bus || gpu.pci_device != slot || function != 0) continue;
      *out = device->ordinal;
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
  });
}
