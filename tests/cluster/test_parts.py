"""Parts of the whole-node test that can be judged without a node."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from tests.cluster import requirements
from tests.cluster.images import of_binary
from tests.cluster.report import BEGIN, END, Report

DOCUMENT = Path(__file__).parents[2] / "docs/real-node.md"


def test_an_image_of_a_binary_is_what_a_runtime_checks(tmp_path: Path) -> None:
    binary = tmp_path / "tool"
    binary.write_bytes(b"\x7fELF")
    with tarfile.open(fileobj=io.BytesIO(of_binary("example.test/tool:1", binary))) as archive:
        files = {each.name: archive.extractfile(each).read() for each in archive.getmembers()}  # type: ignore[union-attr]
    (entry,) = json.loads(files["manifest.json"])
    assert entry["RepoTags"] == ["example.test/tool:1"]
    config = json.loads(files[entry["Config"]])
    (layer,) = (files[name] for name in entry["Layers"])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as contents:
        (member,) = contents.getmembers()
        assert (f"/{member.name}", member.mode) == (config["config"]["Entrypoint"][0], 0o755)


def test_a_report_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "doc.md"
    path.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    report = Report()
    report.versions["etcd"] = "3.6"
    report.section("First")
    report.step("something")
    report.write(path)
    text = path.read_text()
    assert text.startswith(f"# Before\n\n{BEGIN}\nRun of ")
    assert text.endswith(f"{END}\n\nafter\n")
    assert "| etcd | 3.6 |" in text
    assert "### First" in text
    assert "old" not in text


def test_the_document_has_a_place_for_the_report() -> None:
    text = DOCUMENT.read_text()
    assert text.index(BEGIN) < text.index(END)
    path = DOCUMENT.with_name("architecture.md")
    with pytest.raises(ValueError, match="has no lines"):
        Report().write(path)


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(requirements.shutil, "which", lambda _: None)
    monkeypatch.setattr(requirements, "CNI_FOLDERS", (tmp_path,))
    monkeypatch.setattr(requirements, "CACHE", tmp_path)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(requirements, "_no_disk_space", lambda: iter(()))
    missing = "\n".join(requirements.lacking())
    for text in ("runc: apt-get install runc", "apt-get install containernetworking-plugins", "Go 1.24 or newer"):
        assert text in missing
