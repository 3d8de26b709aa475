"""Calls every function of NVML that changes something, found by its name, and says what each answers.

  nvml_setters.py NVML_EXPORTS.inc
Python's way to NVML, as nvidia-ml-py has it: the library opened by its name, each function looked up on that handle.
"""
import ctypes
import re
import sys

VERB = re.compile(r"(Set|Reset|Clear|Modify|Freeze|Create|Destroy|Remove|Discover|Activate|Update|Write)(?![a-z])")
# Sets of events, and sets of GPUs.
NO_SETTER = re.compile(r"EventSet|GpuSet")

nvml = ctypes.CDLL("libnvidia-ml.so.1")
if nvml.nvmlInit_v2() != 0:
    sys.exit("no NVML")
for name in re.findall(r"^GPUFENCE_NVML_EXPORT\((\w+)\)", open(sys.argv[1]).read(), re.M):
    if VERB.search(name) and not NO_SETTER.search(name):
        # Whatever it is given: none of these looks at its arguments before it may.
        print(name, getattr(nvml, name)(None, 0, 0, 0, 0, 0))
