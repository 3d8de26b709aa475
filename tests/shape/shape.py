#!/usr/bin/env python3
"""What the binaries and the tree must look like, whatever the code does. One check a call:

  shape.py CHECK --gate FILE --core FILE --hooks FILE --source DIR

A preloaded object with an unmet symbol version ends every program on the host, so the gate's needs are checked in
every build type; the include rule and the exports are what keeps the layers and the host's symbols apart.
"""
import argparse
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "interpose" / "gate"))
from make_gate import section  # noqa: E402

NODE = re.compile(r"^(libcudart\.so\.(11\.0|12|13)|GPUFENCE_1|GLIBC_2\.2\.5|GLIBC_2\.34)$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-Wd", library))


def version_needs(library):
    """[(file, version)]: what the object asks of others; what it defines is no need."""
    found, inside, file = [], False, ""
    for line in run("readelf", "-WV", library).splitlines():
        if line.startswith("Version "):
            inside = line.startswith("Version needs")
        if not inside:
            continue
        if match := re.search(r"File: (\S+)", line):
            file = match.group(1)
        elif match := re.search(r"Name: (\S+)", line):
            found.append((file, match.group(1)))
    return found


def dynamic_symbols(library):
    """(name, version or '', defined)"""
    out = []
    for line in run("nm", "-D", library).splitlines():
        fields = line.split()
        kind, name = fields[-2], fields[-1]
        plain, _, version = name.partition("@")
        out.append((plain, version.lstrip("@"), kind not in "Uwv"))
    return out


def number(version):
    return tuple(int(part) for part in version.removeprefix("GLIBC_").split("."))


def gate_needs(a):
    """The gate needs libc alone, of 2.17 or older, and has neither constructor nor destructor."""
    assert needed(a.gate) == ["libc.so.6"], f"NEEDED {needed(a.gate)}"
    needs = version_needs(a.gate)
    assert needs, "no version needs could be read"
    for file, version in needs:
        assert file == "libc.so.6" and number(version) <= (2, 17), f"needs {version} of {file}"
    dynamic = run("readelf", "-Wd", a.gate)
    for tag in ("(INIT)", "(FINI)", "(INIT_ARRAY)", "(FINI_ARRAY)", "(PREINIT_ARRAY)", "(TEXTREL)", "(RPATH)", "(RUNPATH)"):
        assert tag not in dynamic, f"the gate has {tag}"
    for section in (".init_array", ".ctors", ".init ", ".fini_array"):
        assert section not in run("readelf", "-WS", a.gate), f"the gate has a section {section}"


def gate_imports(a):
    """Only what is harmless in every program, sanitized ones included: no string function, nothing of dl."""
    imports = {name for name, _, defined in dynamic_symbols(a.gate) if not defined}
    assert imports == {"getauxval", "syscall", "environ"} or imports == {"getauxval", "syscall", "environ", "__environ"}, imports


def gate_exports(a):
    """The gate's exports are the records of the core, plus dlsym and dlvsym under the C library's nodes."""
    expected = {tuple(line.split()) for line in pathlib.Path(a.hooks).read_text().splitlines()}
    assert len(expected) > 20, "the hook list is empty"
    for name in ("dlsym", "dlvsym"):
        expected |= {(name, "GLIBC_2.2.5"), (name, "GLIBC_2.34")}
    exports = {(name, version) for name, version, defined in dynamic_symbols(a.gate) if defined}
    exports = {(name, version) for name, version in exports if not NODE.match(name)}  # the nodes themselves
    assert exports == expected, f"only exported: {exports - expected}; only in the records: {expected - exports}"
    names = section(pathlib.Path(a.core), "gpufence_names").decode()
    records = {entry.split(":")[0] for entry in names.split("\0") if entry}
    assert records == {name for name, _ in expected} - {"dlsym", "dlvsym"}, "the gate was made from other records"


def gate_thunks(a):
    """Each exported name is a load of its slot and a jump."""
    names = {line.split()[0] for line in pathlib.Path(a.hooks).read_text().splitlines()}
    symbols = {}
    for line in run("readelf", "-W", "--dyn-syms", a.gate).splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[3] == "FUNC" and fields[7].split("@")[0] in names:
            symbols[fields[7]] = int(fields[1], 16), int(fields[2], 0)
    assert len(symbols) == len(pathlib.Path(a.hooks).read_text().splitlines()), "not every hook is exported"
    code = {}
    for line in run("objdump", "-d", "--no-show-raw-insn", a.gate).splitlines():
        if match := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line):
            code[int(match.group(1), 16)] = (match.group(2), match.group(3))
    slots = set()
    for symbol, (address, size) in symbols.items():
        body = [code[at] for at in range(address, address + size) if at in code]
        assert len(body) == 2, f"{symbol}: {body}"
        (load, operand), (jump, target) = body
        slot = re.fullmatch(r"(0x[0-9a-f]+)\(%rip\),%r11\s+# ([0-9a-f]+).*", operand)
        assert load in ("mov", "movq") and slot, f"{symbol}: {load} {operand}"
        assert jump in ("jmp", "jmpq") and target == "*%r11", f"{symbol}: {jump} {target}"
        slots.add(slot.group(2))
    assert len(slots) == len(symbols), "two names share a slot"


def core_exports(a):
    """The core exports its entry alone, and looks nothing up through the exported dlsym, where it would find us."""
    symbols = dynamic_symbols(a.core)
    assert [name for name, _, defined in symbols if defined] == ["gpufence_core"], [n for n, _, d in symbols if d]
    imports = {name for name, _, defined in symbols if not defined}
    assert not imports & {"dlsym", "dlvsym"}, "the core imports dlsym"
    # They wait for the loader, which may wait for us (observe/objects.h).
    assert not imports & {"dladdr", "dladdr1"}, "the core imports dladdr"
    if not a.sanitized:
        assert not any("libstdc++" in name or "libcuda" in name for name in needed(a.core)), needed(a.core)
    # Nothing that ends the host or takes its signals.
    forbidden = imports & {"exit", "_exit", "sigaction", "signal", "puts", "printf"}
    assert not forbidden, f"the core imports {forbidden}"


def observer_is_apart(a):
    """The optional observer is linked to nothing of NVIDIA's, and exports its entry and the names by which it gives way."""
    if not a.observer:
        return
    expected = {(name, node) for node in ("libcupti.so.12", "libcupti.so.13")
                for name in ("cuptiSubscribe", "cuptiSubscribe_v2", "cuptiActivityRegisterCallbacks", "cuptiActivityEnable",
                             "cuptiFinalize")} | {("gpufence_watch", "GPUFENCE_1")}
    symbols = dynamic_symbols(a.observer)
    exports = {(name, version) for name, version, defined in symbols if defined and version}
    assert exports == expected, exports ^ expected
    imports = {name for name, _, defined in symbols if not defined}
    assert not any(name.startswith(("cu", "dl")) for name in imports), f"the observer imports {imports}"
    if not a.sanitized:
        assert needed(a.observer) == ["libc.so.6"], needed(a.observer)


RULE = {  # folder → what it may include besides itself (design: the house)
    "interpose/abi": set(),
    "interpose/gate": set(),
    "interpose/dispatch": {"abi", "gate"},
    "interpose/ledger": set(),
    "interpose/journal": set(),
    "interpose/observe": {"journal"},
    "interpose/hooks": {"dispatch", "abi", "policies", "ledger", "journal", "observe"},
    "interpose/cupti": {"observe"},
    "policies": set(),
    "tools": {"policies", "ledger", "journal"},
    "tests/sim": {"abi"},
}
LAYERS = {"abi", "gate", "dispatch", "ledger", "journal", "observe", "hooks", "policies", "cupti"}
BELOW = {"fence.h"}  # the composition root is reached from below as dispatch::arm() alone


def include_rule(a):
    """Each folder includes only what the design allows it."""
    source, seen, wrong = pathlib.Path(a.source), 0, []
    for folder, allowed in RULE.items():
        own = folder.split("/")[-1]
        for file in (source / folder).rglob("*"):
            if file.suffix not in (".h", ".cpp", ".c", ".S") or "test" in file.relative_to(source / folder).parts:
                continue
            seen += 1
            for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read_text(), re.M):
                layer = included.removeprefix("interpose/").split("/")[0] if "/" in included else ""
                if included in BELOW or (layer in LAYERS and layer != own and layer not in allowed):
                    wrong.append(f"{file.relative_to(source)} includes {included}")
    assert seen > 30, "no sources found"
    assert not wrong, "\n".join(wrong)


def no_machine_paths(a):
    """Nothing in what is installed or preloaded names the machine it was built on."""
    for library in (a.gate, a.core):
        sections = re.findall(r"\s(\.rodata\S*)\s", run("readelf", "-WS", library))
        constants = b"".join(section(pathlib.Path(library), name) for name in sections)
        assert b"GPUFENCE_GPU_MEM" in constants, "no constants could be read"
        assert str(a.source).encode() not in constants, f"{library} holds {a.source}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    checks = {f.__name__: f for f in (gate_needs, gate_imports, gate_exports, gate_thunks, core_exports, observer_is_apart, include_rule,
                                      no_machine_paths)}
    parser.add_argument("check", choices=checks)
    for option in ("gate", "core", "hooks", "source"):
        parser.add_argument("--" + option, required=True)
    parser.add_argument("--observer", help="libgpufence-cupti.so; left out where it was not built")
    parser.add_argument("--sanitized", action="store_true")
    arguments = parser.parse_args()
    try:
        checks[arguments.check](arguments)
    except AssertionError as error:
        sys.exit(f"{arguments.check}: {error}")
    print(f"{arguments.check}: {checks[arguments.check].__doc__} Holds.")


if __name__ == "__main__":
    main()
