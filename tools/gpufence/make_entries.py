#!/usr/bin/env python3
"""Makes the list of entry points that `gpufence hooks` shows from interpose/abi: the exports of the driver, of the
runtime and of NVML, and why an export is not hooked. The command includes nothing of interpose/, so it
gets the list as data; which of them are hooked it reads from the core that it will preload.

  make_entries.py ABI_DIR OUT_FILE
"""
import pathlib
import re
import sys


def names(file, macro):
    found = re.findall(rf"^{macro}\((\w+)", file.read_text(), re.M)
    if not found:
        sys.exit(f"make_entries: {file} holds no {macro}")
    return found


def main():
    abi, out = map(pathlib.Path, sys.argv[1:])
    driver = names(abi / "driver_exports.inc", "GPUFENCE_DRIVER_EXPORT")
    version = re.search(r"GPUFENCE_ABI_CUDA_VERSION (\d+)", (abi / "driver_exports.inc").read_text()).group(1)
    reasons = {name: (kind.lower(), reason) for file in ("unhooked.inc", "unhooked_nvml.inc", "unhooked_runtime.inc")
               for kind, name, reason in re.findall(r'^GPUFENCE_(LEFT_ALONE|PASSED_THROUGH)\((\w+), "([^"]*)"\)$',
                                                    (abi / file).read_text(), re.M)}
    text = f"#define GPUFENCE_ENTRIES_CUDA_VERSION {version}\n"
    for library, names_of_it in (("driver", driver),
                                 ("runtime", names(abi / "runtime_exports.inc", "GPUFENCE_RUNTIME_EXPORT")),
                                 ("nvml", names(abi / "nvml_exports.inc", "GPUFENCE_NVML_EXPORT"))):
        for name in names_of_it:
            kind, reason = reasons.get(name, ("passed_through", ""))
            text += f'GPUFENCE_ENTRY({library}, {name}, {kind}, "{reason}")\n'
    out.write_text(text + "#undef GPUFENCE_ENTRY\n")


if __name__ == "__main__":
    main()
