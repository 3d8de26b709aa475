#!/usr/bin/env python3
"""Wrong devices as people met them from Python: a framework (framework.cu) below, threads, ranks, masks and forks above.

Usage: reports.py LIBRARY late_mask|ordinal N|rank|rank_first|ranks WHAT COUNT|pin_memory|stream|event|pointer|
                          triton|fork|one_of_many
"""
import ctypes
import os
import subprocess
import sys
import threading

N = 256


def load(path):
    lib = ctypes.CDLL(path)
    for name in ("empty", "zeros", "pin", "stream", "event"):
        getattr(lib, f"framework_{name}").restype = ctypes.c_void_p
    for name, types in {"add": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p],
                        "record": [ctypes.c_void_p, ctypes.c_void_p],
                        "to_host": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int],
                        "free": [ctypes.c_void_p]}.items():
        getattr(lib, f"framework_{name}").argtypes = types
    return lib


def name_thread(name):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME, as frameworks name their threads


def in_thread(name, body):
    def run():
        name_thread(name)
        body()
    thread = threading.Thread(target=run, name=name)
    thread.start()
    thread.join()


def step(lib):
    """One step of a training loop on the current GPU."""
    to, by = lib.framework_zeros(N), lib.framework_zeros(N)
    print("step", lib.framework_add(to, by, N, None), lib.framework_synchronize())


def main():
    path, what, *rest = sys.argv[1:]
    if what == "ranks":  # a launcher: a process a rank, all of them with every GPU before them
        count = int(rest[1])
        ranks = [subprocess.Popen([sys.executable, sys.argv[0], path, rest[0]], env={**os.environ, "LOCAL_RANK": str(i)})
                 for i in range(count)]
        sys.exit(max(rank.wait() for rank in ranks))
    lib = load(path)
    if what == "late_mask":
        print("available", lib.framework_is_available())
        os.environ["CUDA_VISIBLE_DEVICES"] = "2"
        print("set_device", lib.framework_set_device(0))
        step(lib)
    elif what == "ordinal":
        print("set_device", lib.framework_set_device(int(rest[0])))
    elif what == "rank":
        # The loader's thread pins what it has read, and the current GPU belongs to a thread.
        lib.framework_set_device(int(os.environ["LOCAL_RANK"]))
        step(lib)
        in_thread("pin_memory", lambda: lib.framework_pin(N))
    elif what == "rank_first":
        lib.framework_init()  # something that needs a context, before the rank says where it belongs
        lib.framework_set_device(int(os.environ["LOCAL_RANK"]))
        step(lib)
    elif what == "pin_memory":
        lib.framework_init()
        lib.framework_set_device(1)
        step(lib)
        in_thread("pin_memory", lambda: lib.framework_pin(N))
    elif what == "stream":
        lib.framework_set_device(0)
        stream = lib.framework_stream()
        lib.framework_set_device(1)
        to, by = lib.framework_zeros(N), lib.framework_zeros(N)
        print("add", lib.framework_add(to, by, N, stream))
    elif what == "event":
        lib.framework_set_device(0)
        event = lib.framework_event()
        lib.framework_set_device(1)
        print("record", lib.framework_record(event, lib.framework_stream()))
    elif what == "pointer":
        lib.framework_set_device(0)
        by = lib.framework_zeros(N)
        lib.framework_set_device(1)
        to = lib.framework_zeros(N)
        print("add", lib.framework_add(to, by, N, None), lib.framework_synchronize())
    elif what == "triton":
        # Its launcher asks the driver for the address by which a kernel of the current GPU may use the memory.
        lib.framework_set_device(0)
        memory = lib.framework_zeros(N)
        lib.framework_set_device(1)
        lib.framework_zeros(N)
        cuda = ctypes.CDLL("libcuda.so.1")
        address = ctypes.c_uint64()
        code = cuda.cuPointerGetAttribute(ctypes.byref(address), 3, ctypes.c_uint64(memory))
        print("cannot be accessed (cpu tensor?)" if code else "accessible")
    elif what == "fork":
        lib.framework_init()
        child = os.fork()
        if child == 0:
            print("child", "no memory" if lib.framework_zeros(N) is None else "memory", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    elif what == "one_of_many":
        for _ in range(3):
            step(lib)


main()
