"""Where a running `berth up` can be found: one small file per run in the user's runtime folder, for nobody else.

A file whose process is gone is ignored and removed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from pathlib import Path

import msgspec
import psutil

from berth.cli.errors import CliError
from berth.cli.output import columns
from berth.telemetry.redaction import redacted_text


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A control plane that runs on this machine. `process_started` guards against a process id used again.

    Its cluster is at `kube_url`, or where `kubeconfig` and `context` say.
    """

    nats_url: str
    kube_url: str
    pid: int
    process_started: float
    command: str
    kubeconfig: str = ""
    context: str = ""

    @property
    def shown(self) -> str:
        """For people: which run it is."""
        return f"berth {self.command}, run {self.pid}, bus {redacted_text(self.nats_url)}"


def folder() -> Path:
    """The folder of run files, made private. Raises OSError when that is impossible."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir() and os.access(runtime, os.W_OK):
        path = Path(runtime) / "berth"
    else:
        path = Path(tempfile.gettempdir()) / f"berth-runs-{os.getuid() if hasattr(os, 'getuid') else 0}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        raise OSError(f"{path} is not a folder of this user")
    path.chmod(0o700)
    return path


class RunFile:
    """Announces this process for as long as the context lasts. Where no file can be written, nothing is announced."""

    def __init__(self, *, nats_url: str, kube_url: str, command: str, kubeconfig: str = "", context: str = "") -> None:
        me = psutil.Process()
        self._run = Run(
            nats_url=nats_url,
            kube_url=kube_url,
            pid=me.pid,
            process_started=me.create_time(),
            command=command,
            kubeconfig=kubeconfig,
            context=context,
        )
        self._path: Path | None = None

    def __enter__(self) -> RunFile:
        with contextlib.suppress(OSError):
            path = folder() / f"{self._run.pid}.json"
            temporary = path.with_suffix(".new")
            temporary.unlink(missing_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(self._run))
            self._path = temporary.replace(path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def runs() -> list[Run]:
    """The runs that are alive, the newest first."""
    try:
        files = list(folder().glob("*.json"))
    except OSError:
        return []
    found = []
    for file in files:
        try:
            run = msgspec.json.decode(file.read_bytes(), type=Run)
        except (OSError, msgspec.MsgspecError):
            continue
        if _is_alive(run):
            found.append(run)
        else:
            file.unlink(missing_ok=True)
    return sorted(found, key=lambda run: -run.process_started)


def chosen(wanted: str = "") -> Run | None:
    """The run that is wanted, by its process id; without a wish the only one, None when there is none.

    Raises CliError when there are several to choose from, or none is the one wanted.
    """
    alive = runs()
    if wanted:
        for run in alive:
            if str(run.pid) == wanted:
                return run
        raise CliError(f"--run {wanted}: no run has this number; {_listed(alive)}")
    if len(alive) > 1:
        raise CliError(f"several runs are on this machine, choose one with --run; {_listed(alive)}")
    return alive[0] if alive else None


def _listed(alive: list[Run]) -> str:
    if not alive:
        return "nothing is running here"
    rows = [
        (f"--run {run.pid}", f"berth {run.command}", f"since {_clock(run.process_started)}", f"bus {run.nats_url}")
        for run in alive
    ]
    return "there are\n" + "\n".join(columns(rows, indent="  "))


def _clock(unix_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(unix_s))


def _is_alive(run: Run) -> bool:
    try:
        return abs(psutil.Process(run.pid).create_time() - run.process_started) < 1.0
    except psutil.Error:
        return False
