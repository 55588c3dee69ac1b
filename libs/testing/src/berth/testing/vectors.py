"""The cases of `tests/vectors`: each is run, or stands in the table of what does not apply, and nowhere is one dropped.

`cases` leaves out what the table names and nothing else, and marks each case it gives. `tests/vectors/test_whole.py`
collects the marks and compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

MARK = "vector"
ROOT = next(each for each in Path(__file__).resolve().parents if (each / "tests" / "vectors").is_dir())
FOLDER = ROOT / "tests" / "vectors"
TABLE = FOLDER / "NOT_APPLIED.md"
NOT_RUN = "Cases that are not run"
NOT_CHECKED = "Fields that are not checked"
NOT_COPIED = "Files that are not here"


class Row(NamedTuple):
    """One row of the table: a file, which of its cases (or which field of them), and why."""

    file: str
    which: str
    why: str

    def names(self, case: dict[str, Any]) -> bool:
        """Say whether the row is about this case: `KEY = VALUE`, `KEY contains VALUE`, `has KEY`, `lacks KEY`."""
        word, _, rest = self.which.partition(" ")
        if word in ("has", "lacks"):
            return (found(case, rest) is not None) == (word == "has")
        key, operator, value = re.fullmatch(r"(\S+) (=|contains) (.*)", self.which, re.DOTALL).groups()  # type: ignore[union-attr]
        there = found(case, key)
        if operator == "=":
            return there is not None and str(there) == value
        return there is not None and value in there


def found(case: Any, path: str) -> Any:
    """What stands at a dotted path of a case, None where nothing does."""
    for step in path.split("."):
        case = case.get(step) if isinstance(case, dict) else None
    return case


def rows(heading: str) -> list[Row]:
    """The rows of the table below a heading."""
    text = TABLE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip().strip("`").replace("\\|", "|") for cell in line] for line in lines]
    return [Row(line[0], line[1] if len(line) == 3 else "", line[-1]) for line in cells]


def load(file: str) -> list[dict[str, Any]]:
    """All cases of a file (`quota/scaled_min`)."""
    content = json.loads((FOLDER / f"{file}.json").read_text())
    if isinstance(content, list):
        return content
    if "cases" in content:
        return list(content["cases"])
    return [
        {"name": f"{kind} {at}", "crd": kind, "object": each}
        for kind, of in content.items()
        for at, each in enumerate(of)
    ]


def fixtures(file: str) -> dict[str, Any]:
    """What the cases of a file share."""
    return dict(json.loads((FOLDER / f"{file}.json").read_text())["fixtures"])


def name_of(case: dict[str, Any], at: int) -> str:
    """The name of a case; those of Berth's own files are called by their text or their place."""
    return str(case.get("name", case.get("text", at)))


def split(file: str) -> Iterator[tuple[int, dict[str, Any], list[Row]]]:
    """Each case of a file, its place, and the rows that say it is not run."""
    about = [row for row in rows(NOT_RUN) if row.file == file]
    for at, case in enumerate(load(file)):
        yield at, case, [row for row in about if row.names(case)]


def cases(file: str, only: Callable[[dict[str, Any]], bool] = lambda case: True) -> list[Any]:
    """The cases of a file that apply, as parameters of a test; `only` leaves others to another test."""
    mark = getattr(pytest.mark, MARK)
    return [
        pytest.param(case, id=name_of(case, at), marks=mark(file, at))
        for at, case, listed in split(file)
        if not listed and only(case)
    ]
