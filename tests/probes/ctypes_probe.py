#!/usr/bin/env python3
"""vectors.cu from Python through ctypes, as notebooks and small tools do it.

ctypes opens the library by name and looks every function up with dlsym.
Usage: ctypes_probe.py driver|runtime [LIMIT_MIB]
"""
import ctypes
import os
import sys

MIB = 1 << 20
STEP = 256


class Driver:
    """libcuda.so.1; cuMemAlloc_v2 and its kind must be named with their version."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.check(self.lib.cuInit(0), "cuInit")
        self.contexts = {}

    def error_name(self, code):
        name = ctypes.c_char_p()
        self.lib.cuGetErrorName(code, ctypes.byref(name))
        return name.value.decode() if name.value else str(code)

    def check(self, code, call):
        if code:
            sys.exit(f"{call}: {self.error_name(code)}")

    def count(self):
        n = ctypes.c_int()
        self.check(self.lib.cuDeviceGetCount(ctypes.byref(n)), "cuDeviceGetCount")
        return n.value

    def introduce(self, ordinal):
        device = ctypes.c_int()
        self.check(self.lib.cuDeviceGet(ctypes.byref(device), ordinal), "cuDeviceGet")
        name = ctypes.create_string_buffer(256)
        self.check(self.lib.cuDeviceGetName(name, 256, device), "cuDeviceGetName")
        uuid = (ctypes.c_ubyte * 16)()
        self.check(self.lib.cuDeviceGetUuid(uuid, device), "cuDeviceGetUuid")
        pci = ctypes.create_string_buffer(32)
        self.check(self.lib.cuDeviceGetPCIBusId(pci, 32, device), "cuDeviceGetPCIBusId")
        total = ctypes.c_size_t()
        self.check(self.lib.cuDeviceTotalMem_v2(ctypes.byref(total), device), "cuDeviceTotalMem_v2")
        return name.value.decode(), bytes(uuid), pci.value.decode(), total.value

    def use(self, ordinal):
        if ordinal not in self.contexts:
            context = ctypes.c_void_p()
            self.check(self.lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal), "cuDevicePrimaryCtxRetain")
            self.contexts[ordinal] = context
        self.check(self.lib.cuCtxSetCurrent(self.contexts[ordinal]), "cuCtxSetCurrent")

    def allocate(self, size):
        memory = ctypes.c_uint64()
        code = self.lib.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size))
        return code, memory.value

    def free(self, memory):
        self.check(self.lib.cuMemFree_v2(ctypes.c_uint64(memory)), "cuMemFree_v2")

    def send(self, memory, data):
        self.check(self.lib.cuMemcpyHtoD_v2(ctypes.c_uint64(memory), data, ctypes.c_size_t(len(data))),
                   "cuMemcpyHtoD_v2")

    def fetch(self, memory, size):
        back = ctypes.create_string_buffer(size)
        self.check(self.lib.cuMemcpyDtoH_v2(back, ctypes.c_uint64(memory), ctypes.c_size_t(size)), "cuMemcpyDtoH_v2")
        return back.raw


class Runtime:
    """libcudart.so.13."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcudart.so.13")
        self.lib.cudaGetErrorName.restype = ctypes.c_char_p

    def error_name(self, code):
        return self.lib.cudaGetErrorName(code).decode()

    def check(self, code, call):
        if code:
            sys.exit(f"{call}: {self.error_name(code)}")

    def count(self):
        n = ctypes.c_int()
        self.check(self.lib.cudaGetDeviceCount(ctypes.byref(n)), "cudaGetDeviceCount")
        return n.value

    def introduce(self, ordinal):
        # cudaDeviceProp is 1 KiB and begins with char name[256], a 16-byte UUID, 8 bytes LUID and its mask, total.
        prop = (ctypes.c_ubyte * 2048)()
        self.check(self.lib.cudaGetDeviceProperties(prop, ordinal), "cudaGetDeviceProperties")
        raw = bytes(prop)
        pci = ctypes.create_string_buffer(32)
        self.check(self.lib.cudaDeviceGetPCIBusId(pci, 32, ordinal), "cudaDeviceGetPCIBusId")
        total = int.from_bytes(raw[288:296], sys.byteorder)
        return raw[:256].split(b"\0")[0].decode(), raw[256:272], pci.value.decode(), total

    def use(self, ordinal):
        self.check(self.lib.cudaSetDevice(ordinal), "cudaSetDevice")

    def allocate(self, size):
        memory = ctypes.c_void_p()
        code = self.lib.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(size))
        return code, memory.value

    def free(self, memory):
        self.check(self.lib.cudaFree(ctypes.c_void_p(memory)), "cudaFree")

    def send(self, memory, data):
        self.check(self.lib.cudaMemcpy(ctypes.c_void_p(memory), data, ctypes.c_size_t(len(data)), 1), "cudaMemcpy")

    def fetch(self, memory, size):
        back = ctypes.create_string_buffer(size)
        self.check(self.lib.cudaMemcpy(back, ctypes.c_void_p(memory), ctypes.c_size_t(size), 2), "cudaMemcpy")
        return back.raw


def main():
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    print("CUDA_VISIBLE_DEVICES is not set" if mask is None else f"CUDA_VISIBLE_DEVICES is {mask}")
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else sys.maxsize
    cuda = {"driver": Driver, "runtime": Runtime}[sys.argv[1]]()
    count = cuda.count()
    print(f"GPUs: {count}")
    for ordinal in range(count):
        name, uuid, pci, total = cuda.introduce(ordinal)
        u = uuid.hex()
        print(f"CUDA {ordinal}: {name}, GPU-{u[:8]}-{u[8:12]}-{u[12:16]}-{u[16:20]}-{u[20:]}, {pci}, {total // MIB} MiB")
    for ordinal in range(count):
        cuda.use(ordinal)
        sent = bytes((i * 7 + ordinal) % 251 for i in range(4096)) * 1024
        code, memory = cuda.allocate(len(sent))
        cuda.check(code, "allocation")
        cuda.send(memory, sent)
        right = cuda.fetch(memory, len(sent)) == sent
        cuda.free(memory)
        print(f"CUDA {ordinal}: 4 MiB sent and fetched, {'right' if right else 'WRONG'}")
        if not right:
            sys.exit(1)

    cuda.use(0)
    held = []
    code = 0
    while code == 0 and len(held) * STEP < limit:
        code, memory = cuda.allocate(STEP * MIB)
        if code == 0:
            held.append(memory)
    print(f"CUDA 0: held {len(held) * STEP} MiB, then {cuda.error_name(code) if code else 'stopped at the limit'}")
    for memory in held:
        cuda.free(memory)
    code, memory = cuda.allocate(STEP * MIB)
    cuda.check(code, "allocation")
    cuda.free(memory)
    print("CUDA 0: gave it back and got 256 MiB again\ndone")


main()
