#!/usr/bin/env python3
"""Makes the gate's hook table and version script from the hook records of the linked core.

The core leaves one "name:node:chapter:needs" string a hook in its section gpufence_names (dispatch/hook.h); LTO
objects hold none, the linked core does. Sorted by name and node, because the gate looks names up by bisection.

  make_gate.py CORE OUT_DIR      writes gate_hooks.inc, gate.map and gate_hooks.txt
"""
import pathlib
import struct
import sys

NODES = {0: "GPUFENCE_1", 1: "GPUFENCE_1", 11: "libcudart.so.11.0", 12: "libcudart.so.12", 13: "libcudart.so.13"}


def section(library, wanted):
    """A section's bytes. Read here because GNU's and LLVM's objcopy disagree on how to write one to a pipe."""
    data = library.read_bytes()
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + size * i) for i in range(count)]
    for name, _, _, _, offset, length in headers:
        start = headers[names][4] + name
        if data[start:data.index(b"\0", start)].decode() == wanted:
            return data[offset:offset + length]
    return b""


def hooks(core):
    data = section(core, "gpufence_names")
    found = []
    for entry in filter(None, data.split(b"\0")):
        name, node, _, _ = entry.decode().split(":")
        found.append((name, int(node)))
    if not found:
        sys.exit(f"make_gate: {core} holds no hook records")
    if len(set(found)) != len(found):
        sys.exit("make_gate: hooked twice: " + ", ".join(sorted({f"{n}:{v}" for n, v in found if found.count((n, v)) > 1})))
    return sorted(found)


def write(path, text):
    # An unchanged table must not relink the gate.
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    core, out = map(pathlib.Path, sys.argv[1:])
    table = hooks(core)
    write(out / "gate_hooks.inc",
          "".join(f"GATE_HOOK({index}, {name}, {node}, {NODES[node]})\n" for index, (name, node) in enumerate(table)))
    write(out / "gate_hooks.txt", "".join(f"{name} {NODES[node]}\n" for name, node in table))
    script = "GLIBC_2.2.5 { global: dlsym; dlvsym; };\nGLIBC_2.34 { global: dlsym; dlvsym; };\n"
    for version in ("libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13", "GPUFENCE_1"):
        names = [name for name, node in table if NODES[node] == version]
        body = "".join(f" {name};" for name in names)
        script += f"{version} {{{' global:' + body if body else ''}{' local: *;' if version == 'GPUFENCE_1' else ''} }};\n"
    write(out / "gate.map", script)


if __name__ == "__main__":
    main()
