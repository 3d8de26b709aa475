#!/usr/bin/env python3
"""Makes, from the gate's hook list and the ABI table, what the probe of the ways needs.

  make_ways.py GATE_HOOKS.txt DRIVER_EXPORTS.inc RUNTIME_EXPORTS.inc OUT_DIR
writes driver_names.txt, runtime_names.txt and nvml_names.txt ("exported node base version per-thread" a line), and
linked_driver.c, linked_runtime.c and linked_nvml.c: programs that are linked against every name and say in which object each one was bound.
"""
import pathlib
import re
import sys

PROGRAM = """/* Linked against every hooked name of a library, as compiled programs are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
{declarations}
static const struct {{ const char *name; void *address; }} names[] = {{
{rows}
}};
int main(void) {{
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {{
    Dl_info info;
    if (!dladdr(names[i].address, &info)) return 1;
    const char *slash = strrchr(info.dli_fname, '/');
    printf("%s %s\\n", names[i].name, slash ? slash + 1 : info.dli_fname);
  }}
  return 0;
}}
"""


def main():
    hooks, exports, runtime_exports, out = map(pathlib.Path, sys.argv[1:])
    asked = {}
    for symbol, base, version, twin in re.findall(r"^GPUFENCE_DRIVER_EXPORT\((\w+), (\w+), (\d+), (\d)\)$",
                                                  exports.read_text(), re.M):
        asked[symbol] = (base, version, twin)
    table = [line.split() for line in hooks.read_text().splitlines()]
    driver = [(name, node, *asked[name]) for name, node in table if name in asked]
    # Names of later releases are hooked as well; the runtime here has none of them.
    known = set(re.findall(r"^GPUFENCE_RUNTIME_EXPORT\((\w+)\)$", runtime_exports.read_text(), re.M))
    runtime = [(name, node, "-", "0", "0") for name, node in table if node == "libcudart.so.13" and name in known]
    nvml = [(name, node, "-", "0", "0") for name, node in table if name.startswith("nvml")]
    for kind, rows in (("driver", driver), ("runtime", runtime), ("nvml", nvml)):
        (out / f"{kind}_names.txt").write_text("".join(" ".join(row) + "\n" for row in rows))
        (out / f"linked_{kind}.c").write_text(PROGRAM.format(
            declarations="\n".join(f"extern void {row[0]}(void);" for row in rows),
            rows="\n".join(f'  {{"{row[0]}", (void *){row[0]}}},' for row in rows)))


if __name__ == "__main__":
    main()
