"""What documents say of the code is so: rules, guarantees, the track record, the life of a pod."""

from __future__ import annotations

import re

from tests.house.survey import PACKAGES, ROOT, sources

from berth.invariants import PROMISES


def test_every_rule_that_the_code_names_is_explained() -> None:
    explained = set(re.findall(r"^\| (R\d+) \|", (ROOT / "docs/transaction.md").read_text(), re.MULTILINE))
    assert explained == {f"R{number}" for number in range(1, 20)}
    used = {
        rule for package in PACKAGES for path in sources(package) for rule in re.findall(r"\bR\d+\b", path.read_text())
    }
    assert used
    assert used <= explained


def test_the_guarantees_are_those_that_are_checked() -> None:
    text = (ROOT / "docs/guarantees.md").read_text()
    rows = {
        name: (sentence, how)
        for name, sentence, how in re.findall(r"^\| (I\w+) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    }
    checked = {name for name, (_, how) in rows.items() if how.startswith("yes")}
    assert checked == set(PROMISES)
    assert {name: told.partition("`")[2].partition("`")[0] for name, (told, _) in rows.items() if name in checked} == {
        promise.name: promise.title for promise in PROMISES.values()
    }


def test_each_row_of_the_track_record_is_held_by_a_test() -> None:
    table = (ROOT / "tests/simulation/TRACK_RECORD.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")][2:]
    assert rows
    for row in rows:
        assert len(row) == 5, row[0]
        held_by = re.findall(r"`([\w/-]+)::(\w+)`", row[-1])
        assert held_by, row[0]
        for file, name in held_by:
            folders = [ROOT / "tests" / each for each in ("libs", "services", "")]
            there = [path for each in folders if (path := each / f"{file}.py").exists()]
            assert len(there) == 1, f"{file}: of {row[0]}"
            assert f"def test_{name}(" in there[0].read_text(), f"{file}::{name}: of {row[0]}"


def test_the_life_of_a_pod_names_functions_that_exist() -> None:
    text = (ROOT / "docs/life-of-a-pod.md").read_text()
    hops = re.findall(r"`([\w/]+\.py):(\w+)`", text)
    assert len(hops) > 20
    for file, function in hops:
        found = [*ROOT.glob(f"services/*/src/berth/{file}"), *ROOT.glob(f"libs/*/src/berth/{file}")]
        assert len(found) == 1, file
        assert re.search(rf"def {function}\b", found[0].read_text()), f"{file}:{function}"


def test_what_the_readme_calls_unsupported_is_refused() -> None:
    """The table of what does not work yet follows the solver's list."""
    from berth.placement_solver.core import classes

    text = (ROOT / "README.md").read_text()
    assert bool(classes.UNSUPPORTED_RESOURCES) == (f"`{classes.UNSUPPORTED_RESOURCES}*`" in text)
