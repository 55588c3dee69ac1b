"""How the binaries of Kubernetes are found, and that the script, its modules and the library mean one version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from berth.testing.kube_server import KUBE_VERSION, KubeMissingError, find_binary

TOOLS = Path(__file__).parents[3] / "tools/kube"
SCRIPT = TOOLS / "assets.sh"
BASE = ("kube-apiserver", "etcd", "kubectl")


def fill(folder: Path, *names: str) -> Path:
    """Programs that do nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any of the binaries, and without Go."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "sed", "mkdir", "tail", "env"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tools))
    return tmp_path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, check=False, env=dict(os.environ))


def test_script_and_library_mean_one_version() -> None:
    assert re.findall(r"^readonly KUBE=(\S+)$", SCRIPT.read_text(), re.MULTILINE) == [KUBE_VERSION]
    module = (TOOLS / "modules/kubernetes/go.mod").read_text()
    assert re.findall(r"\sk8s\.io/kubernetes (v\S+)", module) == [KUBE_VERSION]
    staging = re.findall(r"^\t(k8s\.io/\S+) => \1 (\S+)$", module, re.MULTILINE)
    assert len(staging) == 31
    assert {version for _, version in staging} == {KUBE_VERSION.replace("v1.", "v0.")}


def test_modules_name_no_host_of_a_registry() -> None:
    for file in (*TOOLS.rglob("go.mod"), SCRIPT):
        assert not re.search(r"https?://|GOPROXY", file.read_text()), file


def test_without_binaries_the_library_says_what_to_do(nothing: Path) -> None:
    with pytest.raises(KubeMissingError, match="make e2e-assets"):
        find_binary("kube-apiserver")


def test_the_folder_of_the_environment_goes_first(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = fill(nothing / "cache/berth/kube" / KUBE_VERSION / "bin", *BASE)
    assert find_binary("etcd") == built / "etcd"
    own = fill(nothing / "own", "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(own))
    assert find_binary("etcd") == own / "etcd"
    assert find_binary("kubectl") == built / "kubectl"


def test_the_script_takes_the_folder_it_is_given(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = fill(nothing / "own", *BASE)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(own))
    done = run()
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == str(own)
    assert "KUBEBUILDER_ASSETS" in done.stderr


def test_the_script_builds_nothing_twice(nothing: Path) -> None:
    built = fill(nothing / "cache/berth/kube" / KUBE_VERSION / "bin", *BASE)
    done = run()
    assert done.returncode == 0
    assert done.stdout.splitlines() == [str(built)]
    assert "already built" in done.stderr


def test_the_script_takes_what_setup_envtest_has(nothing: Path) -> None:
    folder = fill(nothing / "envtest", *BASE)
    fake = nothing / "tools/setup-envtest"
    fake.write_text(f'#!/usr/bin/env bash\n[[ "$*" == *-i* ]] && exit 1\necho {folder}\n')
    fake.chmod(0o755)
    assert run("--print").returncode == 3
    done = run()
    assert done.stdout.splitlines() == [str(folder)]
    assert "setup-envtest" in done.stderr


def test_the_script_says_what_is_missing(nothing: Path) -> None:
    done = run()
    assert done.returncode == 1
    assert done.stdout == ""
    for way in ("KUBEBUILDER_ASSETS", "setup-envtest", "Go >= 1.24"):
        assert way in done.stderr
    assert run("--print").returncode == 3
    assert run("no-such-binary").returncode != 0
