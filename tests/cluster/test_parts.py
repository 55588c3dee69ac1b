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
from tests.cluster.latencies import counted, median, percentile_us
from tests.cluster.report import BEGIN, END, MEASURED, Report

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


def test_a_report_of_some_acts_has_a_place_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "document.md"
    path.write_text(f"{MEASURED}\nold\n{END}\n{BEGIN}\nkept\n{END}\n")
    report = Report()
    for title in ("The cluster", "Installed", "An act"):
        report.section(title)
        report.step("something was reached")
    report.table(["", "ms"], [["alone", "1.5"]])
    report.write(path, MEASURED)
    text = path.read_text()
    assert "- something was reached\n\n|  | ms |\n| --- | --- |\n| alone | 1.5 |\n" in text
    assert "kept" in text
    assert not [word for word in ("old", "Installed") if word in text]


def test_latencies_are_counted_within_a_while(tmp_path: Path) -> None:
    path = tmp_path / "seconds"
    seconds = [
        {"at": 10.5, "counts": {"1": 7}},
        {"at": 12, "counts": {"1": 98, "9": 2}},
        {"at": 13, "counts": {"2": 1}},
    ]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in seconds) + '{"at": 13')
    counts = counted(path, 10, 12)
    assert counts == {1: 98, 9: 2}
    assert (percentile_us(counts, 50), percentile_us(counts, 99)) == (40, 200)
    assert median([3, 1, 2]) == 2


def test_the_document_has_a_place_for_the_report() -> None:
    text = DOCUMENT.read_text()
    for begin in (MEASURED, BEGIN):
        assert "begin:" not in text.partition(begin)[2].partition(END)[0]
        assert END in text.partition(begin)[2]
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
