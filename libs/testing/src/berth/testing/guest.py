"""A machine of its own for a few seconds: another kernel, booted in qemu without KVM, on the files of this machine.

The guest sees this machine's root read-only, with a layer in memory above it, so that a Python that runs here runs
there. It has control groups of version 2 and nothing else running.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

MODULES: Final = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
"""What the guest needs before it can see the files."""
MEMORY_MIB: Final = 1_024
CPUS: Final = 2
_MARK: Final = "guest-exit:"
_INIT: Final = """#!/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in /modules/*; do insmod $module; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 host /lower
mount -t tmpfs memory /upper; mkdir /upper/files /upper/work
mount -t overlay overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work /new
mount -t proc proc /new/proc; mount -t sysfs sys /new/sys; mount -t devtmpfs dev /new/dev
mount -t tmpfs memory /new/tmp; mount -t tmpfs memory /new/run
mount -t cgroup2 cgroup /new/sys/fs/cgroup
mount -t debugfs debug /new/sys/kernel/debug
chroot /new /bin/sh -c {command} >/dev/ttyS1 2>&1 </dev/null
echo "{mark}$?" >/dev/ttyS1
sync; poweroff -f
"""


class GuestError(RuntimeError):
    """The guest did not come to its end."""


class Ran(NamedTuple):
    """How a command in the guest ended, and all that it printed."""

    code: int
    output: str


def run_in_guest(kernel: Path, command: Sequence[str], *, timeout_s: float = 120.0) -> Ran:
    """Boot, run one command as root, and switch off.

    Args:
        kernel: a folder with `boot/vmlinuz-*` and `lib/modules`, as `tools/kernel/assets.sh` makes it.
        command: program and arguments; paths are those of this machine.
        timeout_s: how long all of it may take.

    Raises:
        GuestError: with what the kernel said last, when the command came to no end.
    """
    image = next((kernel / "boot").glob("vmlinuz-*"))
    version = image.name.removeprefix("vmlinuz-")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "initrd").write_bytes(_archive(_files(kernel, version, command)))
        console, answer = work / "console", work / "answer"
        arguments = [
            *("qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"),
            *("-smp", str(CPUS), "-m", str(MEMORY_MIB), "-nodefaults", "-no-reboot", "-display", "none"),
            *("-kernel", str(image), "-initrd", str(work / "initrd")),
            *("-append", "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off random.trust_cpu=on"),
            *("-serial", f"file:{console}", "-serial", f"file:{answer}"),
            *("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
        ]
        try:
            subprocess.run(arguments, timeout=timeout_s, check=True, capture_output=True, text=True)  # noqa: S603
        except subprocess.TimeoutExpired:
            raise GuestError(f"not at its end after {timeout_s} s: {_tail(answer)} {_tail(console)}") from None
        except (OSError, subprocess.CalledProcessError) as error:
            said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
            raise GuestError(f"qemu: {said}") from error
        output, mark, code = answer.read_text(errors="replace").replace("\r", "").rpartition(_MARK)
        if not mark:
            raise GuestError(f"ended too early: {_tail(answer)} {_tail(console)}")
        return Ran(int(code), output)


def _files(kernel: Path, version: str, command: Sequence[str]) -> dict[str, tuple[int, bytes]]:
    """What the guest begins with: mode and content by path; a folder has mode 0o40755."""
    listed = subprocess.run(  # noqa: S603
        ["modprobe", "-d", str(kernel), "-S", version, "--show-depends", "-a", *MODULES],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    modules = list(dict.fromkeys(line.split()[1] for line in listed.splitlines() if line.startswith("insmod ")))
    script = _INIT.format(command=shlex.quote(shlex.join(command)), mark=_MARK)
    folders = ("proc", "sys", "dev", "lower", "upper", "new", "modules", "bin")
    return {
        **dict.fromkeys(folders, (16877, b"")),
        "init": (0o100755, script.encode()),
        "busybox": (0o100755, Path("/bin/busybox").read_bytes()),
        **{f"modules/{place:02d}.ko": (0o100644, Path(path).read_bytes()) for place, path in enumerate(modules)},
    }


def _archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    """The files as a cpio archive, in the kernel's form of it."""
    parts: list[bytes] = []
    for inode, (name, (mode, content)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], start=1):
        encoded = name.encode() + b"\0"
        numbers = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(f"{number:08x}".encode() for number in numbers) + encoded
        parts += [head, b"\0" * (-len(head) % 4), content, b"\0" * (-len(content) % 4)]
    return b"".join(parts)


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-1500:] if path.exists() else ""
