#!/usr/bin/env python3
"""The base system's own programs under /etc/ld.so.preload: same output, same status, with the gate and without.

  base_system.py GATE          needs root, for namespaces of its own: the host's files stay as they are
Each dynamic program of /usr/bin and /usr/sbin is run with --version, every third with --help, without the gate and with
it. What differs is run again, three times alone; a program whose answers differ without the gate as well (a time, a number of a process) is
left out and counted. Exit 77 where there are no namespaces to be had.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

AT_LEAST = 200  # runs compared; a Debian without extras has more
# Programs that act without being asked to, or never end by themselves.
LEFT_ALONE = re.compile(r"reboot|halt|poweroff|shutdown|init$|telinit|systemctl|systemd|runlevel|agetty|getty|login|dockerd?|"
                        r"containerd|kubelet|sshd|nologin|sulogin|unshare|chroot|pivot_root|switch_root|yes$|gpg-agent|ssh-agent|"
                        r"dirmngr|keyboxd|scdaemon|Xvfb|Xorg|udevadm|wipefs|mkfs|mkswap|swapo|fsck|blkdiscard|ldconfig|unix_update|"
                        r"unix_chkpwd")


def enter():
    """The rest of this program in namespaces where nothing it starts can reach the host."""
    flags = ["--mount", "--pid", "--fork", "--mount-proc", "--net", "--ipc", "--uts", "--kill-child"]
    if os.geteuid() != 0 or subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode:
        print("no namespaces here (they need root): nothing was compared")
        sys.exit(77)
    os.execvp("unshare", ["unshare", *flags, sys.executable, __file__, "--inside", *sys.argv[1:]])


def make_room():
    """A writable /etc and scratch directory; everything else is read-only from now on."""
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpufence-base-"))
    mount = lambda *options: subprocess.run(["mount", *options], check=True)
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "tmpfs", str(scratch))
    shutil.copytree("/etc", scratch / "etc", symlinks=True, ignore_dangling_symlinks=True)
    mount("--bind", str(scratch / "etc"), "/etc")
    subprocess.run(["mount", "-o", "remount,bind,ro", "/"], check=True)
    (scratch / "home").mkdir()
    return scratch


def programs():
    found = {}
    for directory in ("/usr/bin", "/usr/sbin"):
        for path in sorted(pathlib.Path(directory).iterdir()):
            real = path.resolve()
            if LEFT_ALONE.search(path.name) or str(real.parent) not in ("/usr/bin", "/usr/sbin") or not os.access(real, os.X_OK):
                continue
            head = real.read_bytes()[:4096]
            # Dynamic ELF programs; one file under several names is tried once.
            if head[:4] == b"\177ELF" and b"/ld-linux" in head:
                found.setdefault(real, path)
    return sorted(found.values())


def run(program, option, scratch):
    environment = {"PATH": "/usr/bin:/usr/sbin:/bin:/sbin", "HOME": str(scratch / "home"), "TMPDIR": str(scratch / "home"),
                   "LC_ALL": "C", "TERM": "dumb"}
    try:
        done = subprocess.run([str(program), option], stdin=subprocess.DEVNULL, capture_output=True, timeout=4,
                              env=environment, cwd=scratch / "home")
        # Lines in order of their text: some programs (groff) ask several others at once.
        return done.returncode, sorted(done.stdout.split(b"\n")), sorted(done.stderr.split(b"\n"))
    except subprocess.TimeoutExpired as late:
        return "still running", late.stdout, late.stderr


def all_runs(scratch, gate, cases):
    """Every case with the file as it is now; nothing else runs meanwhile."""
    preload = pathlib.Path("/etc/ld.so.preload")
    if gate:
        preload.write_text(gate + "\n")
    elif preload.exists():
        preload.unlink()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda case: run(*case, scratch), cases))


def mapped(gate):
    maps = subprocess.run(["cat", "/proc/self/maps"], capture_output=True, text=True, check=True).stdout
    return gate in maps


def main():
    if sys.argv[1:2] != ["--inside"]:
        enter()
    gate = str(pathlib.Path(sys.argv[2]).resolve())
    scratch = make_room()
    found = programs()
    cases = [(program, "--version") for program in found] + [(program, "--help") for program in found[::3]]
    without = all_runs(scratch, "", cases)
    assert not mapped(gate)
    fenced = all_runs(scratch, gate, cases)
    assert mapped(gate), "/etc/ld.so.preload has no effect here"
    differ = [i for i, (a, b) in enumerate(zip(without, fenced)) if a != b]
    unsteady = 0
    faults = []
    if differ:
        again = [cases[i] for i in differ]
        alone = [all_runs(scratch, "", again) for _ in range(3)]
        ours = all_runs(scratch, gate, again)
        for i, case in enumerate(again):
            answers = [answer[i] for answer in alone]
            if any(answer != answers[0] for answer in answers):
                unsteady += 1
            elif ours[i] != answers[0]:
                faults.append((case, answers[0], ours[i]))
    for (program, option), a, c in faults:
        print(f"{program} {option}:\n  alone  {str(a)[:600]}\n  fenced {str(c)[:600]}")
    print(f"{len(cases)} runs of {len(found)} programs, {unsteady} differ by themselves, {len(faults)} differ with the gate")
    sys.exit(1 if faults or len(cases) - unsteady < AT_LEAST else 0)


if __name__ == "__main__":
    main()
