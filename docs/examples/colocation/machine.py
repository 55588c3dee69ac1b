"""A node of files, for a simulated cluster: what the kernel would show, so that a node agent has something to hold.

The pods of the node have control groups below FOLDER, as kubelet makes them. What is used is in FOLDER/load, which may
be written to at any time: cores and GiB of the service, GiB of each batch pod.

    python docs/examples/colocation/machine.py FOLDER [NODE URL]
"""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

CPUS, MEMORY_GIB, GIB, STEP_S = 8, 16, 1 << 30, 0.25
CLASSES = {"Guaranteed": "kubepods", "Burstable": "kubepods/burstable", "BestEffort": "kubepods/besteffort"}


def write(path: Path, text: str) -> None:
    """A file, with a line end, so that nobody reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(file, f"{text}\n".encode(), 0)
    os.ftruncate(file, len(text) + 1)
    os.close(file)


def group(path: Path, cpu_s: float, memory: int) -> None:
    """What the kernel writes is written again; what an agent writes stays."""
    write(path / "cpu.stat", f"usage_usec {int(cpu_s * 1e6)}\nuser_usec 0\nsystem_usec 0")
    write(
        path / "memory.stat",
        f"anon {memory}\nfile 0\ninactive_file 0\nactive_file 0\nactive_anon {memory}\ninactive_anon 0\nunevictable 0",
    )
    for name, text in (("cpu.max", "max 100000"), ("cpuset.cpus", ""), ("cpu.weight", "1"), ("memory.max", "max")):
        if not (path / name).exists():
            write(path / name, text)


def machine(root: Path) -> None:
    """What does not change."""
    write(root / "sys/devices/system/cpu/online", f"0-{CPUS - 1}")
    write(root / "sys/devices/system/node/online", "0")
    write(root / "sys/devices/system/node/node0/cpulist", f"0-{CPUS - 1}")
    for cpu in range(CPUS):
        write(root / f"sys/devices/system/cpu/cpu{cpu}/topology/core_id", str(cpu // 2))
        write(root / f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", "0")
    write(root / "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids")
    write(root / "load", "1 1 1")


def pods(url: str, node: str) -> dict[str, str]:
    """Class by uid, of the node's pods."""
    with urllib.request.urlopen(f"{url}/api/v1/pods?fieldSelector=spec.nodeName%3D{node}") as answer:  # noqa: S310 - the one that was named
        found = json.load(answer)["items"]
    return {
        each["metadata"]["uid"]: "BestEffort" if "cpu" not in requests(each) else "Guaranteed"
        for each in found
        if each["status"].get("phase") not in ("Succeeded", "Failed")
    }


def requests(pod: dict) -> dict:
    """Of its one container."""
    return pod["spec"]["containers"][0].get("resources", {}).get("requests", {})


def look(root: Path, there: dict[str, str], used_s: dict[str, float], elapsed_s: float) -> None:
    """The files as they are now."""
    base, (cores, service, batch) = root / "sys/fs/cgroup", map(float, (root / "load").read_text().split())
    memory = {uid: int(GIB * (batch if kind == "BestEffort" else service)) for uid, kind in there.items()}
    for uid, kind in there.items():
        used_s[uid] = used_s.get(uid, 0.0) + elapsed_s * (cores if kind != "BestEffort" else 0.5)
        group(base / CLASSES[kind] / f"pod{uid}", used_s[uid], memory[uid])
    for kind, path in CLASSES.items():
        of_class = [uid for uid, each in there.items() if each == kind or kind == "Guaranteed"]
        group(base / path, sum(used_s[uid] for uid in of_class), sum(memory[uid] for uid in of_class))
    for folder in base.glob("kubepods/**/pod*"):
        if folder.name.removeprefix("pod") not in there:
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
    ticks = int(100 * (sum(used_s.values()) + 1))
    write(root / "proc/stat", f"cpu  {ticks} 0 0 5000 0 0 0 0 0 0\ncpu0 {ticks} 0 0 5000 0 0 0 0 0 0")
    left = MEMORY_GIB * GIB - sum(memory.values()) - GIB // 2
    write(
        root / "proc/meminfo",
        f"MemTotal: {MEMORY_GIB << 20} kB\nMemFree: {left >> 10} kB\nMemAvailable: {left >> 10} kB",
    )


def main() -> None:
    """Until Ctrl-C."""
    root = Path(sys.argv[1])
    machine(root)
    look(root, {}, {}, 0.0)
    if len(sys.argv) < 4:
        return
    node, url = sys.argv[2:4]
    used_s: dict[str, float] = {}
    before = time.monotonic()
    while True:
        now = time.monotonic()
        look(root, pods(url, node), used_s, now - before)
        before = now
        time.sleep(STEP_S)


if __name__ == "__main__":
    main()
