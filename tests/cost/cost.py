#!/usr/bin/env python3
"""What the fence costs, beside what was promised (design: what it must cost) and what peers cost.

Every row is measured in one run, no preload and fence in turns, and is a difference of medians. On a loaded machine
read the rows with care; nothing here fails a build unless a row is over three times its budget (--gross).

  cost.py BUILD_DIR [--rounds N] [--gross] [--real] [--quick] [--json FILE]

On the simulated driver, which costs little itself, or with --real on the driver of this machine.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile


def run(command, environment):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, env=environment).stdout


class Bench:
    """What is measured how: on which driver, how often."""

    def __init__(self, build, real, quick, rounds):
        self.build, self.real, self.quick, self.rounds = build, real, quick, rounds

    def environment(self, gpus="1"):
        if self.real:
            return {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
        return {**os.environ, "GPUFENCE_SIM": gpus, "LD_LIBRARY_PATH": str(self.build / "sim")}


def calls(bench, live, fence, rounds=None, gpus=1):
    """name → (without, with) in ns, medians over rounds in turns."""
    build = bench.build
    plain = bench.environment(f"{gpus}x64GiB")
    fenced = {**plain, **fence, "LD_PRELOAD": str(build / "lib/libgpufence.so")}
    seen = {}
    for _ in range(rounds or bench.rounds):
        for side, environment in enumerate((plain, fenced)):
            for line in run([build / "cost/calls", live, 10 if bench.quick else 1], environment).splitlines():
                name, value = line.split()
                seen.setdefault(name, ([], []))[side].append(float(value))
    return {name: tuple(statistics.median(side) for side in sides) for name, sides in seen.items()}


def spawn(bench, rounds, program, fence, preloads):
    environment = {**bench.environment(), **fence}
    out = run([bench.build / "cost/spawn", rounds, *preloads, "--", *program], environment)
    return list(map(float, out.split()))


def private_kib(bench, fence, preload):
    """Private memory of a CUDA process after its first call."""
    environment = {**bench.environment(), **fence}
    if preload:
        environment["LD_PRELOAD"] = preload
    process = subprocess.Popen([str(bench.build / "probes/hold"), "0", "1"], env=environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    rollup = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    process.kill()
    process.wait()
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_"))


def main():
    # What the runs leave (records, reports) goes with them.
    state = tempfile.TemporaryDirectory(prefix="gpufence-cost-")
    os.environ["GPUFENCE_RUN"] = "cost"  # as the launcher names a run
    os.environ["XDG_STATE_HOME"] = os.environ["GPUFENCE_SIM_DIR"] = state.name
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gross", action="store_true", help="exit 1 if a row is over three times its budget")
    parser.add_argument("--real", action="store_true", help="on the driver that the loader finds, and its first GPU")
    parser.add_argument("--quick", action="store_true", help="half a minute on a GPU: fewer rows, rounds and starts")
    parser.add_argument("--json", type=pathlib.Path, help="the rows there, too")
    a = parser.parse_args()
    a.build = a.build.resolve()
    bench = Bench(a.build, a.real, a.quick, 2 if a.quick else a.rounds)
    gate, empty = str(a.build / "lib/libgpufence.so"), str(a.build / "cost/libempty.so")
    cap = {"GPUFENCE_GPU_MEM_PER_PROCESS": "60GiB"}
    rows = []

    for live, budget, peers in ((0, 80, "600 to 4,600"), (4096, 120, "2,400 to 28,800"), (1_000_000, 200, "2,400 to 28,800")):
        if live > 0 and a.quick:
            break
        measured = calls(bench, live, cap, None if live < 1_000_000 else 3)
        without, fenced = measured["alloc_free"]
        rows.append((f"cuMemAlloc+cuMemFree, process cap, {live:,} live", without, fenced, budget, peers, "ns"))
        if live == 0:
            rows.append(("cuMemGetInfo, process cap", *measured["mem_get_info"], 15, "459 to 2,700", "ns"))
            rows.append(("cuCtxSetCurrent, process cap", *measured["ctx_set_current"], 1, "0 to 15", "ns"))
            rows.append(("cuLaunchKernel, process cap, default findings", *measured["launch"], 0, "25 to 325", "ns"))
    in_run = {"GPUFENCE_GPU_MEM": "60GiB", "GPUFENCE_LEDGER_DIR": state.name}
    shared = calls(bench, 0, in_run)
    rows.append(("cuMemAlloc+cuMemFree, run cap", *shared["alloc_free"], 250, "–", "ns"))
    rows.append(("cuMemGetInfo, run cap", *shared["mem_get_info"], None, "–", "ns"))
    scopes = {**in_run, **cap, "GPUFENCE_GPU_MEM_PER_USER": "60GiB", "GPUFENCE_GPU_MEM_PER_JOB": "60GiB", "GPUFENCE_JOB": "1"}
    rows.append(("cuMemAlloc+cuMemFree, four scopes", *calls(bench, 0, scopes)["alloc_free"], 500, "–", "ns"))
    rows.append(("cuMemAllocAsync+cuMemFreeAsync, process cap", *calls(bench, 0, cap)["alloc_free_async"], 200,
                 "680 to 2,460", "ns"))
    many = 1 if a.real else 4  # a real machine shows the GPU that it has
    if not a.quick:
        several = calls(bench, 0, cap, gpus=many)
        rows.append((f"cuMemAlloc+cuMemFree, process cap, {many} GPUs visible", *several["alloc_free"], 80, "600 to 4,600", "ns"))
        rows.append((f"cuMemGetInfo, process cap, {many} GPUs visible", *several["mem_get_info"], 15, "459 to 2,700", "ns"))
        off = calls(bench, 0, {"GPUFENCE_DIAGNOSE": "off"}, gpus=many)
        rows.append(("cuLaunchKernel, neither report nor diagnosis", *off["launch"], 0, "25 to 325", "ns"))
    default = calls(bench, 0, {}, gpus=many)
    rows.append((f"cuLaunchKernel, default findings, {many} GPUs", *default["launch"], 20, "25 to 325", "ns"))
    rows.append((f"cuCtxSetCurrent, default findings, {many} GPUs", *default["ctx_set_current"], 5, "0 to 15", "ns"))
    for gpus in (1,) if a.quick else (1, 4):
        counted = calls(bench, 0, {"GPUFENCE_REPORT_FILE": "/dev/null"}, gpus=gpus)
        rows.append((f"cuLaunchKernel, counted for the report, {gpus} GPUs", *counted["launch"], 20, "25 to 325", "ns"))
    pointers = calls(bench, 10_000, {"GPUFENCE_DIAGNOSE": "all"}, gpus=many)
    rows.append(("cuLaunchKernel of 8 pointers, all findings, 10,000 live", *pointers["launch_pointers"], 250, "25 to 325",
                 "ns"))
    bare = default if a.quick and a.real else calls(bench, 0, {})
    rows.append(("cuMemAlloc+cuMemFree, nothing asked for", *bare["alloc_free"], 2, "–", "ns"))

    none, blank, gated = spawn(bench, 200 if a.quick else 1500, ["/bin/true"], {}, ["-", empty, gate])
    rows.append(("/bin/true, the gate over an empty preload", blank, gated, 10, "31 to 779 over none", "µs"))
    rows.append(("/bin/true, an empty preload over none", none, blank, None, "", "µs"))
    plain, fenced = spawn(bench, 5 if a.quick else 300, [str(a.build / "probes/list_gpus")], cap, ["-", gate])
    rows.append(("start of a CUDA program", plain, fenced, 300, "531 to 1,516", "µs"))
    rows.append(("private memory of a CUDA process", private_kib(bench, cap, ""), private_kib(bench, cap, gate), 1536,
                 "2 MB and more", "KiB"))

    print(f"{'what':50} {'without':>10} {'with':>10} {'added':>9} {'budget':>7}   peers added")
    gross = []
    for what, without, fenced, budget, peers, unit in rows:
        added = fenced - without
        print(f"{what:50} {without:10.1f} {fenced:10.1f} {added:9.1f} {budget if budget is not None else '–':>7} {unit:3} {peers}")
        if budget and added > 3 * budget:
            gross.append(what)
    if a.json:
        keys = ("what", "without", "with", "budget", "peers", "unit")
        a.json.write_text(json.dumps([dict(zip(keys, row)) for row in rows], indent=1))
    if gross and a.gross:
        sys.exit("over three times the budget: " + "; ".join(gross))


if __name__ == "__main__":
    main()
