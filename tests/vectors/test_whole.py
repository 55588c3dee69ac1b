"""The reference cases are all here, and each is run or said not to be."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from berth.testing.vectors import (
    FOLDER,
    MARK,
    NOT_CHECKED,
    NOT_COPIED,
    NOT_RUN,
    ROOT,
    found,
    load,
    name_of,
    rows,
    split,
)

OWN = {"crds", "resources"}
"""Folders of Berth's own cases, which change with it; the others are copies."""
FILES = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("*/*.json"))
COPIES = [file for file in FILES if file.partition("/")[0] not in OWN]
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
COLLECT = """
import json, pathlib, sys, pytest

class Marks:
    def pytest_collection_finish(self, session):
        marks = [mark.args for item in session.items for mark in item.iter_markers("vector")]
        pathlib.Path(sys.argv[1]).write_text(json.dumps(marks))

sys.exit(pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *sys.argv[2:]], plugins=[Marks()]))
"""


def test_every_copy_is_in_the_manifest() -> None:
    assert sorted(MANIFEST) == COPIES


@pytest.mark.parametrize("file", COPIES)
def test_a_copy_is_whole(file: str) -> None:
    content = (FOLDER / f"{file}.json").read_bytes()
    assert {"cases": len(load(file)), "sha256": hashlib.sha256(content).hexdigest()} == MANIFEST[file]


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, int]]:
    """The cases that the default suite collects. Reading what a test file asks for would believe what it drops.

    A run of the whole suite has collected them already; one of a part has the rest collected elsewhere.
    """
    here = {mark.args for item in request.session.items if is_default(item) for mark in item.iter_markers(MARK)}
    if all((file, at) in here for file in FILES for at, _, listed in split(file) if not listed):
        return here
    answer = tmp_path_factory.mktemp("vectors") / "run.json"
    adaptors = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if is_adaptor(path)]
    command = [sys.executable, "-c", COLLECT, str(answer), *map(str, adaptors)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return {(file, at) for file, at in json.loads(answer.read_text())}


def is_default(item: pytest.Item) -> bool:
    return not any(item.get_closest_marker(name) for name in ("e2e", "chaos", "cluster"))


def is_adaptor(path: Path) -> bool:
    return path != Path(__file__) and "berth.testing.vectors" in path.read_text()


@pytest.mark.parametrize("file", FILES)
def test_every_case_is_run_or_listed(file: str, run: set[tuple[str, int]]) -> None:
    forgotten = [name_of(case, at) for at, case, listed in split(file) if not listed and (file, at) not in run]
    assert forgotten == []


def test_every_row_is_about_something() -> None:
    for row in rows(NOT_RUN):
        assert row.why
        assert any(row in listed for _, _, listed in split(row.file)), row
    for row in rows(NOT_CHECKED):
        assert row.why
        assert any(found(case, row.which) is not None for _, case, listed in split(row.file) if not listed), row
    assert all(row.why for row in rows(NOT_COPIED))


def test_what_is_not_here_is_not_here() -> None:
    named = [row.file for row in rows(NOT_COPIED)]
    assert len(named) == len(set(named))
    assert not set(named) & set(FILES)


def test_no_test_reads_a_file_by_itself() -> None:
    """What is dropped then is not seen."""
    readers = [path for path in (ROOT / "tests").rglob("*.py") if '"vectors"' in path.read_text()]
    assert [path.name for path in readers if path != Path(__file__)] == []
