#!/usr/bin/env python3
"""Writes interpose/abi/*.inc: what CUDA's libraries export, and by which name and version a program asks for it.

Sources, all of the CUDA toolkit: the exports of the libcuda stub, cuda.h, cudaTypedefs.h and
cudaProfilerTypedefs.h, the exports of libcudart, cuda_runtime_api.h and driver_types.h with the headers of
OpenGL and VDPAU, nvml.h.

cuGetProcAddress takes an un-suffixed name and a CUDA version. Which export that means is mechanical: the
PFN_<name>_v<N> typedefs, sorted by N, pair up with the exports <name>, <name>_v2, <name>_v3 in that order,
once for the default twins and once for _ptds/_ptsz. Whatever does not pair up stops the generator: a new
CUDA release that breaks the rule must be looked at by a person.

  abi_gen.py [--cuda-root DIR] [--nvml-header FILE] [--out DIR]            write
  abi_gen.py … --verify                                                    exit 1 if the files differ
"""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys

PTDS = re.compile(r"_pt(ds|sz)$")
SUFFIX = re.compile(r"^(.*?)(?:_v(\d+))?$")


def exports(library):
    text = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True,
                          text=True).stdout
    names = set()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "TtWi":
            names.add(fields[2].split("@")[0])
    return sorted(names)


def typedef_versions(headers):
    """(base, per_thread) -> sorted CUDA versions."""
    found = {}
    for header in headers:
        for name, version, twin in re.findall(r"\bPFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\s*\)", header.read_text()):
            found.setdefault((name, bool(twin)), set()).add(int(version))
    return {key: sorted(values) for key, values in found.items()}


def split(symbol):
    """cuMemcpyHtoD_v2_ptds -> (cuMemcpyHtoD, 2, True)."""
    per_thread = bool(PTDS.search(symbol))
    base, number = SUFFIX.match(PTDS.sub("", symbol)).groups()
    return base, int(number or 1), per_thread


def driver_rows(stub, headers):
    versions = typedef_versions(headers)
    groups = {}
    for symbol in exports(stub):
        base, number, per_thread = split(symbol)
        groups.setdefault((base, per_thread), []).append((number, symbol))
    rows, problems = [], []
    for key in sorted(groups):
        symbols = [symbol for _, symbol in sorted(groups[key])]
        wanted = versions.pop(key, [])
        if len(wanted) != len(symbols):
            problems.append(f"{key}: exports {symbols}, typedef versions {wanted}")
            continue
        rows += [(symbol, key[0], version, int(key[1])) for symbol, version in zip(symbols, wanted)]
    # Typedefs without an export in the stub (GL, EGL, VDPAU) belong to libraries of their own.
    problems += [f"{key}: typedef versions {value}, no export" for key, value in sorted(versions.items())]
    if problems:
        sys.exit("abi_gen: exports and typedefs do not pair up:\n  " + "\n  ".join(problems))
    return sorted(rows)


def undeclared(rows, include):
    """Exports that no header declares under their exported name; a hook takes its signature from there."""
    source = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaProfiler.h>\n"
    text = subprocess.run(["cc", "-E", "-P", "-I", str(include), "-x", "c", "-"], input=source, check=True,
                          capture_output=True, text=True).stdout
    declared = set(re.findall(r"\bCUresult\s+(cu\w+)\s*\(", text))
    return [symbol for symbol, *_ in rows if symbol not in declared]


def bare(header):
    text = re.sub(r"/\*.*?\*/", "", header.read_text(errors="replace"), flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def types_with_ordinals(header):
    """The structs that hold a device's ordinal, themselves or in what they hold or point to."""
    bodies = {name: body for name, body in re.findall(
        r"\bstruct\s+(?:__device_builtin__\s+)?(\w+)\s*\{(.*?)\n\}", bare(header), re.S)}
    # A location's id is an ordinal if its type says so; these attributes' values are ordinals too.
    found = {"cudaMemLocation", "cudaMemRangeAttribute"}
    found |= {name for name, body in bodies.items()
              if re.search(r"\bint\s+(?:device|srcDevice|dstDevice|peerDevice)\s*;", body)}
    while True:
        more = {name for name, body in bodies.items()
                if name not in found and any(re.search(rf"\b{one}\b", body) for one in found)}
        if not more:
            return found
        found |= more


def ordinal_rows(include, exported):
    """The runtime's functions that may take or return an ordinal, each with what says so."""
    structs = types_with_ordinals(include / "driver_types.h")
    rows = {}
    for header in ("cuda_runtime_api.h", "cuda_gl_interop.h", "cuda_vdpau_interop.h"):
        for name, parameters in re.findall(r"\bcudaError_t\s+CUDARTAPI\s+(\w+)\s*\(([^;]*?)\)\s*;", bare(include / header)):
            why = None
            for parameter in parameters.split(","):
                words = " ".join(re.sub(r"\b__dv\(.*", "", parameter).split())
                if (re.fullmatch(r"int \*?\w*[dD]evice\w*", words)
                        or any(re.search(rf"\b{one}\b", words) for one in structs)):
                    why = why or words
            if why is None and re.search(r"Device|Peer", name):
                why = "its name"
            if why is not None:
                # The per-thread twins have no declaration of their own in every configuration of the header.
                for symbol in (name, name + "_ptds", name + "_ptsz"):
                    if symbol in exported:
                        rows.setdefault(symbol, why)
    return sorted(rows.items())


def head(what, macro, source):
    return (f"// {what}\n// Made by tools/abi_gen from {source}: do not edit.\n"
            f"// Define {macro} before including; it is undefined at the end.\n")


def render(arguments):
    include = arguments.cuda_root / "include"
    stub = arguments.cuda_root / "lib64" / "stubs" / "libcuda.so"
    release = re.search(r"#define CUDA_VERSION (\d+)", (include / "cuda.h").read_text()).group(1)
    rows = driver_rows(stub, [include / "cudaTypedefs.h", include / "cudaProfilerTypedefs.h"])
    missing = undeclared(rows, include)
    if missing:
        sys.exit("abi_gen: exported, but declared neither in cuda.h nor in cudaProfiler.h: " + ", ".join(missing))

    files = {}
    macro = "GPUFENCE_DRIVER_EXPORT"
    files["driver_exports.inc"] = (
        head(f"The {len(rows)} exports of libcuda.so.1, CUDA {release}: exported symbol, name and version to ask\n"
             "// cuGetProcAddress for, 1 if it is the per-thread-default-stream twin (flag 2).", macro,
             "the libcuda stub, cuda.h and cudaTypedefs.h")
        + f"#define GPUFENCE_ABI_CUDA_VERSION {release}\n"
        + "".join(f"{macro}({symbol}, {base}, {version}, {twin})\n" for symbol, base, version, twin in rows)
        + f"#undef {macro}\n")

    names = exports(arguments.cuda_root / "lib64" / "libcudart.so")
    names = [name for name in names if name.startswith(("cuda", "__cuda"))]
    macro = "GPUFENCE_RUNTIME_EXPORT"
    files["runtime_exports.inc"] = (
        head(f"The {len(names)} exports of libcudart.so.{int(release) // 1000}, under the version node of that name.", macro,
             "libcudart.so") + "".join(f"{macro}({name})\n" for name in names) + f"#undef {macro}\n")

    rows = ordinal_rows(include, set(names))
    macro = "GPUFENCE_RUNTIME_ORDINAL"
    files["runtime_ordinals.inc"] = (
        head(f"The {len(rows)} functions of the runtime that may take or return a device's ordinal, and the parameter that\n"
             "// says so.", macro, "cuda_runtime_api.h, driver_types.h, cuda_gl_interop.h and cuda_vdpau_interop.h")
        + "".join(f'{macro}({symbol}, "{why}")\n' for symbol, why in rows) + f"#undef {macro}\n")

    header = arguments.nvml_header.read_text()
    # DECLDIR stands between the result and the name; nvmlErrorString alone returns something else than nvmlReturn_t.
    names = sorted(set(re.findall(r"\bDECLDIR\s+(?:char\s*\*\s*)?(nvml\w+)\s*\(", header)))
    macro = "GPUFENCE_NVML_EXPORT"
    files["nvml_exports.inc"] = (
        head(f"The {len(names)} functions that nvml.h declares.", macro, "nvml.h")
        + "".join(f"{macro}({name})\n" for name in names) + f"#undef {macro}\n")
    return files


def main():
    top = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda-root", type=pathlib.Path, default=pathlib.Path("/usr/local/cuda"))
    parser.add_argument("--nvml-header", type=pathlib.Path, default=top / ".deps/include/nvml.h")
    parser.add_argument("--out", type=pathlib.Path, default=top / "interpose/abi")
    parser.add_argument("--verify", action="store_true")
    arguments = parser.parse_args()

    wrong = 0
    for name, text in render(arguments).items():
        path = arguments.out / name
        if not arguments.verify:
            path.write_text(text)
            continue
        have = path.read_text() if path.exists() else ""
        if have != text:
            wrong += 1
            sys.stdout.writelines(difflib.unified_diff(have.splitlines(True), text.splitlines(True), str(path), "made anew"))
    if wrong:
        sys.exit("abi_gen: interpose/abi is not what these headers give: run tools/abi_gen/abi_gen.py")


if __name__ == "__main__":
    main()
