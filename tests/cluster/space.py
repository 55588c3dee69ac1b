"""A machine of its own for the node: network, mounts and process ids apart from those of this machine.

Whatever a kubelet, a container runtime and their containers leave behind (mounts, processes, addresses, packet filters)
lives in these namespaces, and the kernel takes all of it away with their first process. That one ends when the pipe to
it is closed: by us, or because we are gone, however that came about. Control groups are shared with the machine; those
that kubelet made are removed then, and the folder.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.requirements import HOST_ADDRESS, LINK, NODE_ADDRESS, kubelet_groups

NODE_LINK = "uplink"
DEADLINE_S = 60.0
AWAY_S = 300.0
"""Gigabytes of images are removed, on a machine that may be busy."""
# bash as first process: it takes over orphans and reaps them. Folders that node and runtime write to at fixed places
# are covered, so that the machine's own stay as they are.
_INIT = """
set -e
mount --make-rshared / # in here only; kubelet hands mounts on to containers
mount -t tmpfs -o mode=755 tmpfs /run
for name in lib log; do
  mkdir -p /run/over/$name/upper /run/over/$name/work
  mount -t overlay -o lowerdir=/var/$name,upperdir=/run/over/$name/upper,workdir=/run/over/$name/work overlay /var/$name
done
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
echo ready
while read -r line; do :; done
"""
# Around it: waits for its end and tidies up. Groups can be removed once the kernel is done with their last process.
_KEEPER = """
unshare --mount --net --pid --uts --ipc --fork --kill-child=SIGKILL --mount-proc bash -c "$INIT"
for try in $(seq 300); do
  left=$(find /sys/fs/cgroup -maxdepth 2 -type d '(' -name kubepods -o -name kubepods.slice ')')
  [ -n "$left" ] || break
  find $left -depth -type d -exec rmdir {} + 2>/dev/null
  sleep 0.1
done
rm -rf -- "$FOLDER"
"""


class Space:
    """The namespaces, their folder `home`, and a wire: `NODE_ADDRESS` at the node's end, `HOST_ADDRESS` at ours."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="berth-node-"))
        self._process: subprocess.Popen[str] | None = None
        self._pid = 0

    def start(self) -> None:
        """Make them. Raises RuntimeError with what went wrong."""
        self._process = subprocess.Popen(
            ["bash", "-c", _KEEPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours; the end of the pipe is theirs
            text=True,
            env={**os.environ, "INIT": _INIT, "FOLDER": str(self.home)},
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError("the node's namespaces cannot be made; what failed is above")
        self._pid = _child(_child(self._process.pid))
        self._wire()

    def _wire(self) -> None:
        run("ip", "link", "add", LINK, "type", "veth", "peer", "name", NODE_LINK, "netns", str(self._pid))
        run("ip", "address", "add", f"{HOST_ADDRESS}/30", "dev", LINK)
        run("ip", "link", "set", LINK, "up")
        self.run("ip", "address", "add", f"{NODE_ADDRESS}/30", "dev", NODE_LINK)
        self.run("ip", "link", "set", NODE_LINK, "up")
        self.run("ip", "route", "add", "default", "via", HOST_ADDRESS)

    @property
    def pid(self) -> int:
        """Their first process, as this machine knows it."""
        return self._pid

    def inside(self, *command: str) -> list[str]:
        """The command, to be run in there."""
        target = ["--target", str(self._pid), "--mount", "--net", "--pid", "--uts", "--ipc"]
        return ["nsenter", *target, "--", *command]

    def run(self, *command: str, stdin: bytes = b"", timeout_s: float = DEADLINE_S) -> str:
        """What it prints. Raises RuntimeError with what it says when it fails."""
        return run(*self.inside(*command), stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None:
        """Away with everything; twice does no harm. Raises RuntimeError when something stays."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(AWAY_S)
        process.stdout.close()
        if left := kubelet_groups():
            raise RuntimeError(f"these control groups stay behind: {', '.join(map(str, left))}")


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def run(*command: str, stdin: bytes = b"", timeout_s: float = DEADLINE_S) -> str:
    """What it prints. Raises RuntimeError with what it says when it fails."""
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=timeout_s)
    if done.returncode:
        raise RuntimeError(f"{_shown(command)}: {done.stderr.decode(errors='replace').strip()[-2000:]}")
    return done.stdout.decode(errors="replace")


def _shown(command: Sequence[str]) -> str:
    own = command[command.index("--") + 1 :] if command[0] == "nsenter" else command
    return " ".join(own)[:200]
