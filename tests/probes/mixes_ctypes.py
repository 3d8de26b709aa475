#!/usr/bin/env python3
"""Records an event of one GPU in a stream of another, which fails, from a call of Python that is of some odd kind.

Usage: mixes_ctypes.py plain|locked|threads|generator|finalises|daemons
"""
import atexit
import ctypes
import sys
import threading
import time

# PyDLL keeps the interpreter's lock during a call, CDLL gives it up.
runtime = (ctypes.PyDLL if sys.argv[1] == "locked" else ctypes.CDLL)("libcudart.so.13")


def make(gpu):
    stream, event = ctypes.c_void_p(), ctypes.c_void_p()
    runtime.cudaSetDevice(gpu)
    runtime.cudaStreamCreate(ctypes.byref(stream))
    runtime.cudaEventCreate(ctypes.byref(event))
    return stream, event


def record():
    error = runtime.cudaEventRecord(event, stream)
    return error


def rows():
    yield record()


class Step:
    def run(self):
        return record()


def in_daemon(name):
    # Each round is a line of its own, so that each is said.
    for line in range(1, 100000):
        exec(compile("\n" * line + "record()", name, "exec"), {"record": record})


stream, event = make(0)[0], make(1)[1]
kind = sys.argv[1]
if kind in ("plain", "locked"):
    Step().run()
if kind == "generator":
    list(rows())
if kind == "threads":
    def work():
        ctypes.CDLL(None).prctl(15, b"worker-2")  # PR_SET_NAME
        runtime.cudaSetDevice(1)
        record()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
if kind == "finalises":
    atexit.register(record)
if kind == "daemons":
    for number in range(4):
        threading.Thread(target=in_daemon, args=(f"daemon-{number}",), daemon=True).start()
    time.sleep(0.3)
print("done")
