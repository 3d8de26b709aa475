#!/usr/bin/env python3
"""Makes the stand-in runtime's calls tell a tool of themselves, as the genuine runtime's do under CUPTI.

Every call that the sources define is compiled under another name (told_names.h, behind CUDA's headers), and told.cpp
defines the public one: with a listener it tells of both ends of the call, with CUPTI's own callback id and
parameter struct, both taken from NVIDIA's headers; without one it is a load, a branch and the call.

  make_told.py CUDA_INCLUDE CUPTI_INCLUDE OUT_DIR SOURCE…
"""
import pathlib
import re
import sys

DEFINED = re.compile(r"^(?:GPUFENCE_SIM_RUNTIME_EXPORT )?cudaError_t ((?:__)?cuda[A-Z]\w+)\(", re.M)
# They need no driver and start nothing, so they find no tool either.
STARTS_NOTHING = {"cudaGetLastError", "cudaPeekAtLastError", "cudaRuntimeGetVersion"}
LAUNCH = re.compile(r"^(__)?cudaLaunch(Cooperative)?Kernel(ExC)?(_ptsz)?$")
# Not among NVIDIA's structs; its fields are the parameters, as in all the others.
CHEVRONS = [("cudaKernel_t", "kernel"), ("dim3", "gridDim"), ("dim3", "blockDim"), ("void **", "args"),
            ("size_t", "sharedMem"), ("cudaStream_t", "stream")]


def callback_ids(header):
    """{name: {version: (id, told name)}}"""
    ids = {}
    for told, name, version, number in re.findall(r"CBID_((\w+?)_v(\d+))\s*=\s*(\d+)", header):
        ids.setdefault(name, {})[int(version)] = int(number), told
    return ids


def structs(header):
    """{told name: [(type, field)]}"""
    found = {}
    for body, told in re.findall(r"struct \w+_params_st \{(.*?)\} (\w+)_params;", header, re.S):
        fields = re.findall(r"^\s*(.*?)(\w+)(\[\d*\])?;", body, re.M)
        found[told] = [(kind.strip() + (" *" if array else ""), field) for kind, field, array in fields]
    return found


def wrapper(name, number, told, fields, has_struct):
    parameters = ", ".join(f"{kind} {field}" for kind, field in fields) or "void"
    arguments = ", ".join(field for _, field in fields)
    real = f"gpufence_sim_{name}"
    listener = "tool()" if name in STARTS_NOTHING else "tool_after_start()"
    symbol = f"kernel_name({fields[1 if name.startswith('cudaLaunchKernelExC') else 0][1]})" if LAUNCH.match(name) else "nullptr"
    lines = [f"GPUFENCE_SIM_RUNTIME_EXPORT cudaError_t {name}({parameters}) {{",
             f"  const Listener listener = {listener};",
             f"  if (listener == nullptr) [[likely]] return {real}({arguments});"]
    passed = "nullptr"
    if fields:
        kind = f"{told}_params" if has_struct else "ChevronsParams"
        lines.append(f"  {kind} params{{{arguments}}};")
        passed = "&params"
    lines += [f"  return told(listener, {number}, \"{told}\", {passed}, {symbol}, [&] {{ return {real}({arguments}); }});",
              "}"]
    # CUDA's header holds the public name to this signature, and this the call itself.
    return f"cudaError_t {real}({parameters});\n", "\n".join(lines) + "\n"


def main():
    cuda, cupti, out = map(pathlib.Path, sys.argv[1:4])
    ids = callback_ids((cupti / "cupti_runtime_cbid.h").read_text())
    known = structs((cupti / "generated_cuda_runtime_api_meta.h").read_text())
    declared = (cuda / "cuda_runtime_api.h").read_text()
    names, prototypes, wrappers = [], "", ""
    for name in sorted({name for source in sys.argv[4:] for name in DEFINED.findall(pathlib.Path(source).read_text())}):
        # A name that no longer has a struct but had one is a call of another signature.
        for version in sorted(ids.get(name, {}), reverse=True):
            number, told = ids[name][version]
            if told in known:
                fields, has_struct = known[told], True
            elif name.startswith("__cudaLaunchKernel"):
                fields, has_struct = CHEVRONS, False
            elif re.search(rf"\b{name}\(void\);", declared):
                fields, has_struct = [], False
            else:
                continue
            names.append(name)
            prototype, definition = wrapper(name, number, told, fields, has_struct)
            prototypes += prototype
            wrappers += definition
            break
    if len(names) < 100:
        sys.exit(f"make_told: only {len(names)} calls have callback ids: are these CUPTI's headers?")
    renamed = "".join(f"#define {name} gpufence_sim_{name}\n" for name in names)
    (out / "told_names.h").write_text(
        "extern \"C\" {\n" + prototypes + "}\n"
        "#ifdef GPUFENCE_SIM_RENAMED\n" + renamed + "#endif\n")
    (out / "told.inc").write_text(wrappers)


if __name__ == "__main__":
    main()
