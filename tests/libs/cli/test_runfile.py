from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from berth.cli import runfile
from berth.cli.runfile import Run, RunFile, chosen, folder


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_a_run_is_found_while_it_lasts_and_its_file_is_private() -> None:
    assert chosen() is None
    with RunFile(nats_url="nats://x", kube_url="http://y", command="up"):
        found = chosen()
        assert found is not None
        assert (found.nats_url, found.kube_url, found.command) == ("nats://x", "http://y", "up")
        (file,) = folder().iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder().stat().st_mode) == 0o700
    assert chosen() is None
    assert list(folder().iterdir()) == []


def write(run: Run) -> Path:
    file = folder() / f"{run.pid}.json"
    file.write_bytes(msgspec.json.encode(run))
    return file


def run_of(pid: int, started: float) -> Run:
    return Run(nats_url="nats://old", kube_url="", pid=pid, process_started=started, command="up")


def test_a_run_whose_process_is_gone_is_forgotten() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    started = psutil.Process(child.pid).create_time()
    child.wait()
    file = write(run_of(child.pid, started))
    assert chosen() is None
    assert not file.exists()


def test_a_process_id_that_was_used_again_is_another_run() -> None:
    me = psutil.Process()
    write(run_of(me.pid, me.create_time() - 1000))
    assert chosen() is None


def test_a_malformed_file_is_skipped() -> None:
    (folder() / "1.json").write_text("{")
    assert chosen() is None


def test_without_a_runtime_folder_a_private_one_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(runfile.tempfile, "gettempdir", lambda: str(tmp_path))
    assert folder().parent == tmp_path
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700


def test_where_nothing_can_be_written_a_run_goes_on_unannounced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "berth").write_text("in the way")
    with RunFile(nats_url="nats://x", kube_url="", command="up"):
        assert chosen() is None
