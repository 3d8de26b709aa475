"""What nvidia-ml-py tells a Python program. Usage: nvml_client.py [hold MIB]: takes that much on CUDA 0 first."""
import ctypes
import os
import sys

import pynvml as nvml

MIB = 1 << 20
# nvidia-ml-py's own NVML_P2P_CAPS_INDEX_READ is a tuple by a stray comma.
READ = 0


def hold(size):
    cuda = ctypes.CDLL("libcuda.so.1")
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    for result in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                   cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size))):
        if result != 0:
            sys.exit(f"CUDA error {result}")


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        return str(error)


if len(sys.argv) > 2:
    hold(int(sys.argv[2]) * MIB)
nvml.nvmlInit()
count = nvml.nvmlDeviceGetCount()
print(f"{count} GPUs, driver {nvml.nvmlSystemGetDriverVersion()}, CUDA {nvml.nvmlSystemGetCudaDriverVersion_v2()}")
gpus = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
for i, gpu in enumerate(gpus):
    memory = nvml.nvmlDeviceGetMemoryInfo(gpu)
    newer = nvml.nvmlDeviceGetMemoryInfo(gpu, nvml.nvmlMemory_v2)
    assert (memory.total, memory.used, memory.free) == (newer.total, newer.used, newer.free), "memory v1 is not v2"
    for same in (nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(gpu)),
                 nvml.nvmlDeviceGetHandleByPciBusId(nvml.nvmlDeviceGetPciInfo(gpu).busId)):
        assert nvml.nvmlDeviceGetIndex(same) == i, "found by another way, it is another GPU"
    held = " ".join(f"{'self' if p.pid == os.getpid() else 'other'}={p.usedGpuMemory // MIB}"
                    for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu))
    capability = ".".join(map(str, nvml.nvmlDeviceGetCudaComputeCapability(gpu)))
    print(f"{nvml.nvmlDeviceGetIndex(gpu)}: {nvml.nvmlDeviceGetName(gpu)} {nvml.nvmlDeviceGetPciInfo(gpu).busId} "
          f"minor {nvml.nvmlDeviceGetMinorNumber(gpu)} cc {capability} "
          f"{memory.total // MIB} {memory.used // MIB} {memory.free // MIB} MiB [{held}] "
          f"{nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)} C "
          f"{nvml.nvmlDeviceGetPowerUsage(gpu) // 1000} W MIG {nvml.nvmlDeviceGetMigMode(gpu)} "
          f"peers {[nvml.nvmlDeviceGetP2PStatus(gpu, other, READ) for other in gpus]}")
print("beyond:", attempt(nvml.nvmlDeviceGetHandleByIndex, count))
print("set:", attempt(nvml.nvmlDeviceSetPersistenceMode, gpus[0], 1) if gpus else "no GPU")
print("near the first:", [nvml.nvmlDeviceGetName(gpu) for gpu in
                          nvml.nvmlDeviceGetTopologyNearestGpus(gpus[0], nvml.NVML_TOPOLOGY_SYSTEM)])
nvml.nvmlShutdown()
