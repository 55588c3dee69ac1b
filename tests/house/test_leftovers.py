"""Nothing from elsewhere, and nothing that was left for later."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.survey import ROOT, TEXTS, files

MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:home|root|Users|work)/\w")
LEFTOVERS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|WIP)\b")


def test_no_file_names_a_machine_or_leaves_work_behind() -> None:
    guilty = []
    for path in files(*TEXTS):
        if path == Path(__file__) or path.name in ("LICENSE", "uv.lock"):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        guilty += [
            f"{path.relative_to(ROOT)}: {match[0]}"
            for rule in (MACHINE_PATHS, LEFTOVERS)
            for match in rule.finditer(text)
        ]
    assert not guilty
