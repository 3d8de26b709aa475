#!/usr/bin/env python3
"""Runs the conformance programs on simulated machines, and looks whether the checks themselves are in shape.

  conformance.py run PROGRAM --sim DIR --machine M [--machine M…]   every check of the program on every machine: none
      fails but the known differences (README.md), which must; and each runs on one machine at least. With --fence
      GPUFENCE the same under a fence that watches for everything: it changes nothing
  conformance.py shape PROGRAM… --minimum N    each check names a source, no two have the same one or the same body, and
      no group has fewer than twelve
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LEAST_OF_A_GROUP = 12


def known_differences():
    """Names of checks in the table of README.md."""
    return set(re.findall(r"^\| `([A-Z]\w*\.[A-Z]\w*)`", (HERE / "README.md").read_text(), re.M))


def listed(programs):
    """(group, name, source) of every check."""
    checks = []
    for program in programs:
        out = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
        checks += [tuple(line.split("\t")) for line in out.splitlines()]
    return checks


def results(report):
    """name → (outcome, words): passed, failed or skipped; what a failed check said, or what a skipped one needs."""
    seen = {}
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            failures = [f["failure"] for f in test.get("failures", [])]
            if failures:
                outcome = ("failed", "\n".join(failures) + "\n  source: " + test.get("source", "none"))
            elif test["result"] == "SKIPPED":
                outcome = ("skipped", test.get("skipped", "no reason"))
            else:
                outcome = ("passed", "")
            seen[f"{suite['name']}.{test['name']}"] = outcome
    return seen


def run_on(program, sim, machine, fence=None):
    with tempfile.TemporaryDirectory(prefix="gpufence-conformance-") as scratch:
        path = pathlib.Path(scratch) / "report.json"
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("GPUFENCE_", "CUDA_", "GTEST_"))}
        environment |= {"GPUFENCE_SIM": machine, "GPUFENCE_SIM_DIR": scratch, "LD_LIBRARY_PATH": sim, "XDG_STATE_HOME": scratch}
        fenced = [fence, "run", "--diagnose", "all", "-q", "--"] if fence else []
        process = subprocess.run([*fenced, program, f"--gtest_output=json:{path}"], env=environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if not path.exists():
            sys.exit(f"{program} on {machine} ended with {process.returncode}:\n{process.stdout[-4000:]}")
        return results(json.loads(path.read_text()))


def run(program, sim, machines, fence=None):
    wrong, ran = [], set()
    different = known_differences()
    names = {f"{group}.{name}" for group, name, _ in listed([program])}
    for machine in machines:
        seen = run_on(program, sim, machine, fence)
        for lost in sorted(names - seen.keys()):
            wrong.append(f"{lost} was not run on {machine}")
        for name, (outcome, words) in seen.items():
            if outcome != "skipped":
                ran.add(name)
            if outcome == "failed" and name not in different:
                wrong.append(f"{name} on {machine}:\n{words}")
            if outcome == "passed" and name in different:
                wrong.append(f"{name} passes on {machine}: take it out of the known differences in README.md")
        counts = collections.Counter(outcome for outcome, _ in seen.values())
        print(f"{machine}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    wrong += [f"{name} was skipped on every machine" for name in sorted(names - ran - different)]
    return wrong


def bodies():
    """(file:line, body without layout) of every check in the sources."""
    found = []
    for path in sorted([*HERE.glob("*.cpp"), *HERE.glob("*.cu")]):
        text = path.read_text()
        for start in re.finditer(r"^CONFORMS(?:_ALONE)?\(", text, re.M):
            at, depth, body = start.end(), 0, None
            while True:
                c = text[at]
                if c == '"':
                    at = re.compile(r'"(?:[^"\\]|\\.)*"').match(text, at).end() - 1
                elif c == "'":
                    at = re.compile(r"'(?:[^'\\]|\\.)+'").match(text, at).end() - 1
                elif c == "{":
                    body = at if body is None else body
                    depth += 1
                elif c == "}":
                    depth -= 1
                    if depth == 0:
                        break
                at += 1
            line = text.count("\n", 0, start.start()) + 1
            found.append((f"{path.name}:{line}", "".join(text[body:at + 1].split())))
    return found


def shape(programs, minimum):
    wrong = []
    checks = listed(programs)
    by_source, by_body = collections.defaultdict(list), collections.defaultdict(list)
    for group, name, source in checks:
        where, _, sentence = source.partition(": ")
        if not re.search(r"\.h\b|CUDA|PTX|NVML", where) or len(sentence) < 10:
            wrong.append(f"{group}.{name} names no source: “{source}”")
        by_source["".join(source.split()).lower()].append(f"{group}.{name}")
    for where, body in bodies():
        by_body[body].append(where)
    for twins in [*by_source.values(), *by_body.values()]:
        if len(twins) > 1:
            wrong.append("alike: " + ", ".join(twins))
    if sum(map(len, by_body.values())) != len(checks):
        wrong.append(f"{len(checks)} checks are listed, but {sum(map(len, by_body.values()))} are in the sources")
    counts = collections.Counter(group for group, _, _ in checks)
    for group, count in sorted(counts.items()):
        print(f"{group}: {count}")
        if count < LEAST_OF_A_GROUP:
            wrong.append(f"{group} has only {count} checks")
    print(f"together: {len(checks)}")
    if len(checks) < minimum:
        wrong.append(f"there are only {len(checks)} checks")
    unknown = known_differences() - {f"{group}.{name}" for group, name, _ in checks}
    wrong += [f"README.md has a difference of no check: {name}" for name in sorted(unknown)]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("program")
    runs.add_argument("--sim", required=True)
    runs.add_argument("--machine", action="append", required=True)
    runs.add_argument("--fence", help="the command gpufence")
    shapes = commands.add_parser("shape")
    shapes.add_argument("programs", nargs="+")
    shapes.add_argument("--minimum", type=int, required=True)
    a = parser.parse_args()
    wrong = run(a.program, a.sim, a.machine, a.fence) if a.command == "run" else shape(a.programs, a.minimum)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
