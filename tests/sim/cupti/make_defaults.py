#!/usr/bin/env python3
"""Writes a weak default for every function that CUPTI's headers declare: the simulator has no such thing.

  make_defaults.py CUPTI_INCLUDE OUT      no header of CUPTI's is included by OUT: signatures don't matter to it
"""
import pathlib
import re
import sys

NOT_SUPPORTED = 27  # CUPTI_ERROR_NOT_SUPPORTED


def main():
    headers, out = map(pathlib.Path, sys.argv[1:])
    names = set()
    for header in headers.glob("cupti*.h"):
        names |= set(re.findall(r"\bCUptiResult\s+CUPTIAPI\s+(cupti\w+)\s*\(", header.read_text(errors="replace")))
    if len(names) < 50:
        sys.exit(f"make_defaults: only {len(names)} functions in {headers}: are these CUPTI's headers?")
    out.write_text("".join(
        f'extern "C" __attribute__((weak, visibility("default"))) int {name}() {{ return {NOT_SUPPORTED}; }}\n'
        for name in sorted(names)))


if __name__ == "__main__":
    main()
