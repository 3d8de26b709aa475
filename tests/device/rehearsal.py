#!/usr/bin/env python3
"""tests/device/run on the simulated machine: that each part is gone through and none answers by itself. What is
expected here is what the simulated machine is known to answer.

  rehearsal.py BUILD_DIR
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

RUN = pathlib.Path(__file__).resolve().parent / "run"
REHEARSED = "rehearsed on the simulated machine: no answer about hardware"


def start(*arguments, **environment):
    return subprocess.run([sys.executable, RUN, *map(str, arguments)], env={**os.environ, **environment}, text=True,
                          capture_output=True)


def rehearse(build, *arguments):
    with tempfile.TemporaryDirectory(prefix="gpufence-rehearsal-") as out:
        process = start("--build", build, "--rehearse", *arguments, OUT=out)
        assert process.returncode == 0, process.stdout + process.stderr
        return (pathlib.Path(out) / "report.txt").read_text(), json.loads((pathlib.Path(out) / "report.json").read_text())


def goes_through_every_part(build):
    text, told = rehearse(build)
    assert text.startswith(f"gpufence on this machine ({REHEARSED})") and text.endswith(REHEARSED + "\n"), text
    assert told["rehearsed"] and told["note"] == REHEARSED
    questions = {q["number"]: q for q in told["questions"]}
    assert sorted(questions) == list(range(1, 13))
    for q in questions.values():
        assert bool(q["facts"]) != bool(q["could_not"]), q
        assert f"{q['number']}. {q['question']}" in text
    facts = {number: dict(q["facts"]) for number, q in questions.items()}
    assert facts[1]["exports asked for by name and version"] == "637"
    assert facts[1]["same address as the export"] == "637"
    assert facts[2]["by cuInit"] == "1 times"
    # NVIDIA's own runtime refuses the simulated driver, with or without the fence.
    assert "cudaErrorSymbolNotFound" in facts[3]["the static runtime 13, no fence"]
    assert "total 1024 MiB" in facts[3]["libcudart.so.13, cap of 1 GiB"]
    assert facts[4]["float1 4096x4096"].startswith("computed 67108864, ")
    assert len(facts[4]) == 20
    assert facts[5]["after 1 bytes more"].startswith("reserved 33554432, ")
    assert facts[6]["launched once"].startswith("reserved 67108864, ") and facts[6]["trimmed"].startswith("reserved 0, ")
    assert facts[7]["with the thread's mode relaxed"] == (
        "pool attribute CUDA_SUCCESS, cuMemGetInfo CUDA_SUCCESS, capture still active, its end CUDA_SUCCESS")
    assert "NVML: this process 268435456" in facts[8]["with the primary context"]
    assert facts[9]["prefetched to the host"].startswith("free memory fell by 0 ")
    assert facts[10]["“0,0”"] == "CUDA_ERROR_NO_DEVICE"
    assert facts[10]["“0,-1”"].startswith("1 GPUs: GPU-")
    assert len(facts[11]) >= 10
    assert set(facts[12]) >= {"torch"} or any(name.startswith("torch ") for name in facts[12])
    fence = dict(told["fence"])
    assert fence["run -d 1"] == "status 0, that GPU alone"
    assert "held at most 1073741824 bytes, GF401 said" in fence["run -m 1GiB, driver API"]
    assert fence["cudaSetDevice(99)"].startswith("GF101: ")
    assert told["changed by the fence"] == []
    for program in ("driver", "runtime"):
        assert len(told["conformance"][program]["passed"]) >= 60, told["conformance"][program]["failed"]


def loses_only_the_part_that_hangs(build):
    _, told = rehearse(build, "--limit", "managed=0.05", "--limit", "cost=0")
    could_not = {q["number"]: q["could_not"] for q in told["questions"] if q["could_not"]}
    assert could_not[9] == "could not be asked: it took longer than the time of this part", could_not
    assert 11 in could_not
    assert 8 not in could_not and 10 not in could_not


def loses_only_the_check_that_hangs(build):
    with tempfile.TemporaryDirectory(prefix="gpufence-rehearsal-") as directory:
        machine = pathlib.Path(directory) / "slow.toml"
        machine.write_text('[[gpu]]\nmodel = "h100"\n[[slow]]\ncall = "cuGraphDebugDotPrint"\nms = 100000\n')
        with tempfile.TemporaryDirectory(prefix="gpufence-rehearsal-") as out:
            process = start("--build", build, f"--rehearse={machine}", "--conformance-seconds", 20, "--out", out,
                            *(f"--limit={part}=1" for part in ("pools", "cost", "managed", "masks", "conformance under the fence")))
            told = json.loads((pathlib.Path(out) / "report.json").read_text())
    driver = told["conformance"]["driver"]
    hung = [name for name, words in driver["failed"].items() if words == "it took longer than its program had"]
    assert hung == ["Graphs.DotFilesDescribeTheGraph"], driver["failed"]
    assert len(driver["passed"]) > 200
    assert process.returncode == 1 and "failed: Graphs.DotFilesDescribeTheGraph" in process.stdout


def says_that_there_is_no_gpu(build):
    process = start("--build", build, LD_LIBRARY_PATH=str(build / "sim"), GPUFENCE_SIM="")
    assert process.returncode == 77, process
    assert process.stdout.startswith("no GPU (cuInit(0): CUDA_ERROR_NO_DEVICE): ") and process.stdout.count("\n") == 1


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    for check in (goes_through_every_part, loses_only_the_part_that_hangs, loses_only_the_check_that_hangs,
                  says_that_there_is_no_gpu):
        check(build)
        print(f"{check.__name__}: holds")


if __name__ == "__main__":
    main()
