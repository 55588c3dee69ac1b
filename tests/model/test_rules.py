"""The model, docs/transaction.md and the code speak of the same rules, in the same words."""

from __future__ import annotations

import re
from pathlib import Path

from tests.model.evictions import rules as evictions
from tests.model.rules import SENTENCES, SWITCHES

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/transaction.md"
EVICTIONS = ROOT / "docs/evictions.md"
ROW = re.compile(r"^\| ([RE]\d+) \| [^|]+ \| ([^|]+?) \| [^|]+ \|$", re.MULTILINE)
NAMED = re.compile(r"\bR(\d{1,2})\b")
NAMED_OF_EVICTIONS = re.compile(r"\bE\d{1,2}\b")
SOURCES = ("libs/bus", "libs/transaction", "services/cluster-writer", "services/placement-solver")


def rules_named(text: str) -> set[str]:
    return {f"R{number}" for number in NAMED.findall(text)}


def test_the_document_has_the_rules_of_the_model() -> None:
    assert dict(ROW.findall(DOCUMENT.read_text())) == SENTENCES


def test_the_document_names_no_other_rule() -> None:
    assert rules_named(DOCUMENT.read_text()) == set(SENTENCES)


def test_every_rule_has_a_switch() -> None:
    assert set(SWITCHES.values()) == set(SENTENCES)


def test_the_code_names_every_rule_where_it_follows_it_and_no_other() -> None:
    found: dict[str, set[str]] = {}
    for folder in SOURCES:
        for path in sorted((ROOT / folder / "src").rglob("*.py")):
            for rule in rules_named(path.read_text()):
                found.setdefault(rule, set()).add(path.name)
    assert set(found) == set(SENTENCES), {rule: sorted(paths) for rule, paths in found.items() if rule not in SENTENCES}


def test_the_rules_of_evictions_are_those_of_their_document() -> None:
    text = EVICTIONS.read_text()
    assert dict(ROW.findall(text)) == evictions.SENTENCES
    assert set(NAMED_OF_EVICTIONS.findall(text)) == set(evictions.SENTENCES)
    assert rules_named(text) <= set(SENTENCES)
    assert set(evictions.SWITCHES.values()) == {*evictions.SENTENCES, "R10"}


def test_the_code_names_no_other_rule_of_evictions() -> None:
    for folder in SOURCES:
        for path in sorted((ROOT / folder / "src").rglob("*.py")):
            assert set(NAMED_OF_EVICTIONS.findall(path.read_text())) <= set(evictions.SENTENCES), path
