"""A real containerd of the test's own, with its plugin interface on, and as much of its CRI as makes a pod.

It lives in namespaces of its own: with its first process the kernel takes away all containers, mounts and shims.
Control groups are shared with the machine: all of them are below one, which is removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
from tests.cluster.images import of_binary

from berth.testing.kube_server import Daemon, KubeMissingError, find_binary
from berth.testing.kube_server.daemon import Janitor

BINARIES = ("containerd", "containerd-shim-runc-v2", "ctr", "pause")
PAUSE_IMAGE = "example.test/pause:1"
GROUPS = Path("/sys/fs/cgroup")
NODE = 2
"""Of CRI's namespace modes: no network of its own, so that no CNI plugin is needed."""
_INIT = """
mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run || exit 1
while true; do
  "$@" &
  wait $!
done
"""


def lacking() -> list[str]:
    """What this machine lacks, with what to do about it."""
    if sys.platform != "linux":
        return ["Linux: containers run nowhere else"]
    found = [] if os.geteuid() == 0 else ["root: containers are made here"]
    packages = {"unshare": "util-linux", "mount": "mount", "runc": "runc", "bash": "bash"}
    found += [f"{name}: apt-get install {package}" for name, package in packages.items() if not shutil.which(name)]
    for name in BINARIES:
        try:
            find_binary(name)
        except KubeMissingError as error:
            found.append(str(error))
    if not found and (said := _refused()):
        found.append(f"the right to make namespaces and to mount: {said}")
    if not found and not any(os.access(each, os.W_OK) for each in (GROUPS / "cpuset", GROUPS / "cgroup.procs")):
        found.append(f"control groups that can be written, in {GROUPS}")
    return found


def _refused() -> str:
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "mount", "-t", "tmpfs", "tmpfs", "/run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


class ContainerRuntime:
    """containerd, its CRI socket, and the socket of its plugins (`nri`)."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="berth-nri-"))
        self.nri = self.home / "nri.sock"
        self.group = self.home.name
        self.socket = self.home / "containerd.sock"
        self._janitor = Janitor(self.home)
        (self.home / "config.toml").write_text(_config(self.home))
        binary = find_binary("containerd")
        space = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
        path = f"PATH={binary.parent}:{os.environ['PATH']}"
        command = ["env", path, str(binary), "--config", str(self.home / "config.toml")]
        self._daemon = Daemon(
            "containerd",
            [*space, "bash", "-c", _INIT, "init", *command],
            self.home / "containerd.log",
            self._serves,
            self._janitor,
        )

    def start(self) -> None:
        """Serve; the pause image is there then."""
        self._daemon.start()
        if not any(line == PAUSE_IMAGE for line in self.ctr("images", "list", "--quiet").split()):
            self.load(PAUSE_IMAGE, find_binary("pause"))

    def kill(self) -> None:
        """kill -9, and every container with it."""
        self._daemon.kill()

    def restart(self) -> None:
        """kill -9 of containerd alone: containers run on, and it is started again."""
        before = self._containerd()
        os.kill(before, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while self._containerd() in (0, before) or not self._serves():
            assert time.monotonic() < deadline, f"containerd does not come back:\n{self.log()}"
            time.sleep(0.05)

    def inside(self) -> list[str]:
        """Before a command: it runs in containerd's namespaces, and on the machine's network."""
        return ["nsenter", "--target", str(self._first()), "--mount", "--pid", "--ipc", "--uts", "--"]

    @property
    def root(self) -> Path:
        """The machine's files as containerd sees them."""
        return Path(f"/proc/{self._first()}/root")

    def _first(self) -> int:
        """The first process of the namespaces."""
        return int(Path(f"/proc/{self._daemon.pid}/task/{self._daemon.pid}/children").read_text().split()[0])

    def load(self, name: str, binary: Path) -> None:
        """An image of one static binary."""
        archive = self.home / "image.tar"
        archive.write_bytes(of_binary(name, binary))
        self.ctr("images", "import", "--local", str(archive))

    def _containerd(self) -> int:
        """Its process; 0: there is none now."""
        config = str(self.home / "config.toml").encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"/containerd") and config in words:
                    return int(folder.name)
        return 0

    def close(self) -> None:
        """Away with everything."""
        self._daemon.kill()
        deadline = time.monotonic() + 10
        while (left := self._groups()) and time.monotonic() < deadline:
            for each in left:
                with contextlib.suppress(OSError):
                    each.rmdir()
        self._janitor.close()
        assert not left, f"these control groups stay behind: {left}"

    def log(self) -> str:
        """The end of its log."""
        return self._daemon.tail()

    def ctr(self, *arguments: str) -> str:
        """containerd's own client. Raises CalledProcessError."""
        command = [str(find_binary("ctr")), "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def spec(self, container: str) -> dict[str, Any]:
        """The OCI specification that a container was created with."""
        return dict(json.loads(self.ctr("containers", "info", container))["Spec"])

    def run_pod(
        self, name: str, *, labels: Mapping[str, str] = {}, annotations: Mapping[str, str] = {"berth.test/a": "b"}
    ) -> tuple[str, bytes]:
        """A pod's id and configuration."""
        metadata = field(1, name) + field(2, f"uid-{name}") + field(3, "work")
        security = field(1, field(1, NODE))
        linux = field(1, f"/{self.group}") + field(2, security)
        config = field(1, metadata) + field(3, str(self.home)) + field(8, linux)
        config += b"".join(field(6, entry(key, value)) for key, value in labels.items())
        config += b"".join(field(7, entry(key, value)) for key, value in annotations.items())
        return self._call("RunPodSandbox", field(1, config)), config

    def run_container(
        self,
        pod: tuple[str, bytes],
        name: str,
        env: Mapping[str, str],
        *,
        cpu_quota_us: int = 0,
        image: str = PAUSE_IMAGE,
    ) -> str:
        """The id of a container of the pod, started; what it prints is in `NAME.log` of the home."""
        config = field(1, field(1, name)) + field(2, field(1, image))
        config += b"".join(field(6, entry(key, value)) for key, value in env.items())
        limits = field(1, 100_000) + field(2, cpu_quota_us) if cpu_quota_us else b""
        config += field(11, f"{name}.log") + field(15, field(1, limits) if limits else b"")
        container = self._call("CreateContainer", field(1, pod[0]) + field(2, config) + field(3, pod[1]))
        self._call("StartContainer", field(1, container))
        return container

    def remove_pod(self, pod: tuple[str, bytes]) -> None:
        """Stop and remove it, with its containers."""
        self._call("StopPodSandbox", field(1, pod[0]))
        self._call("RemovePodSandbox", field(1, pod[0]))

    def _call(self, method: str, request: bytes) -> str:
        """The first field of the answer, a string of fewer than 128 bytes. Raises grpc.RpcError."""
        with grpc.insecure_channel(f"unix:{self.socket}") as channel:
            answer: bytes = channel.unary_unary(f"/runtime.v1.RuntimeService/{method}")(request, timeout=60)
        return answer[2 : 2 + answer[1]].decode() if answer else ""

    def _serves(self) -> bool:
        try:
            with grpc.insecure_channel(f"unix:{self.socket}") as channel:
                channel.unary_unary("/runtime.v1.RuntimeService/Version")(b"", timeout=2)
        except grpc.RpcError:
            time.sleep(0.1)
            return False
        return True

    def _groups(self) -> list[Path]:
        roots = [GROUPS, *GROUPS.glob("*/")]
        tops = [root / self.group for root in roots if (root / self.group).is_dir()]
        return [each for top in tops for each in _deepest_first(top)]


def processes_with(env: str) -> Iterator[Path]:
    """Folders in /proc of processes that have this in their environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if env.encode() in (folder / "environ").read_bytes().split(b"\0"):
                yield folder


def status_of(process: Path, name: str) -> str:
    """A line of its status."""
    lines = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return lines[name].strip()


def field(number: int, value: str | bytes | int) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def entry(key: str, value: str) -> bytes:
    """An entry of a map."""
    return field(1, key) + field(2, value)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _deepest_first(folder: Path) -> Iterator[Path]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _deepest_first(each)
    yield folder


def _config(home: Path) -> str:
    runtime = "io.containerd.cri.v1.runtime"
    return f"""
version = 3
root = "{home}/root"
state = "/run/containerd"
[grpc]
address = "{home}/containerd.sock"
[plugins."io.containerd.nri.v1.nri"]
disable = false
socket_path = "{home}/nri.sock"
plugin_path = "{home}/plugins"
plugin_config_path = "{home}/plugins.d"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins."{runtime}"]
restrict_oom_score_adj = true # a container may lack CAP_SYS_RESOURCE, and so may this machine
[plugins."{runtime}".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."{runtime}".containerd.runtimes.runc.options]
SystemdCgroup = false
"""
