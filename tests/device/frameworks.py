#!/usr/bin/env python3
"""What a framework does under a cap: a right sum, out of memory where the cap is, and on it goes. Prints a line each.

  frameworks.py torch|cupy|jax
"""
import sys

LARGE = 6 << 30  # bytes; the cap is 4 GiB


def torch():
    import torch as t
    a = t.arange(1_000_000, dtype=t.float64, device="cuda")
    print("right" if a.sum().item() == 499999500000.0 else "WRONG")
    try:
        t.empty(LARGE, dtype=t.uint8, device="cuda")
        print("NO out of memory")
    except t.cuda.OutOfMemoryError:
        print("out of memory")
    print("right after it" if (a * 2).sum().item() == 999999000000.0 else "WRONG after it")


def cupy():
    import cupy as c
    a = c.arange(1_000_000, dtype=c.float64)
    print("right" if float(a.sum()) == 499999500000.0 else "WRONG")
    try:
        c.empty(LARGE, dtype=c.uint8)
        print("NO out of memory")
    except c.cuda.memory.OutOfMemoryError:
        print("out of memory")
    print("right after it" if float((a * 2).sum()) == 999999000000.0 else "WRONG after it")


def jax():
    import jax.numpy as j
    a = j.arange(1000, dtype=j.float32)
    print("right" if float(a.sum()) == 499500.0 else "WRONG")
    try:
        j.zeros(LARGE, dtype=j.uint8).block_until_ready()
        print("NO out of memory")
    except Exception as error:
        print("out of memory" if "RESOURCE_EXHAUSTED" in str(error) else f"another error: {error}")
    print("right after it" if float((a * 2).sum()) == 999000.0 else "WRONG after it")


if __name__ == "__main__":
    {"torch": torch, "cupy": cupy, "jax": jax}[sys.argv[1]]()
