"""Spread and affinity between pods are kept by each decision, as far as its solver must have known (I17, I18)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.invariants.story import Json, Story

from berth.contracts import subjects

ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LATE_S = 11.0
PEERS = subjects.peers_account("default")
SELECTOR = {"labelSelector": {"matchLabels": {"app": "web"}}}
APART: Json = {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": ZONE, **SELECTOR}]}}}
TOGETHER: Json = {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": ZONE, **SELECTOR}]}}}
SPREAD: Json = {
    "topologySpreadConstraints": [
        {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **SELECTOR},
    ]
}


@pytest.fixture
def story() -> Story:
    """Two nodes in one zone and one in another, for long."""
    made = Story()
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        made.node(name)
        in_zone(made, name, zone)
    made.wait(LATE_S)
    return made


def in_zone(story: Story, node: str, zone: str | None) -> None:
    story.change("nodes", node, {"metadata": {"labels": {ZONE: zone}}})


def pod(story: Story, name: str, terms: Json | None = None, app: str = "web") -> None:
    story.pod(name, terms=terms or {}, app=app)


def place(story: Story, name: str, node: str, **fields: Any) -> None:
    """As a plan does that has to stamp the account of its namespace."""
    accounts = [subjects.node_account(node), PEERS]
    story.place(name, node, accounts=accounts, **fields)


def stranger(story: Story, name: str, node: str, spec: Json | None = None) -> None:
    pod(story, name, {"schedulerName": "other", **(spec or {})})
    story.change("pods", name, {"spec": {"nodeName": node}, "status": {"phase": "Running"}})


def counted(story: Story, law: str) -> tuple[int, dict[str, int]]:
    counts = story.observer.verdicts
    excuses = {excuse: times for (each, excuse), times in counts.excuses.items() if each == law}
    return counts.judgements[law], excuses


# --- apart -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("terms", "times"), [((APART, APART), 2), ((APART, {}), 2), (({}, APART), 1)])
def test_pods_that_keep_each_other_away_are_in_different_domains(
    story: Story, terms: tuple[Json, Json], times: int
) -> None:
    for each, spec in zip(("one", "other"), terms, strict=True):
        pod(story, each, spec)
    place(story, "one", "n1")
    place(story, "other", "n3")
    assert (story.broken, counted(story, "I18")) == ([], (times, {}))
    pod(story, "third", terms[1])
    place(story, "third", "n2")
    assert story.broken == ["I18"]


def test_pods_that_nobody_keeps_away_are_not_judged(story: Story) -> None:
    pod(story, "one")
    pod(story, "other", APART, app="db")
    place(story, "one", "n1")
    assert counted(story, "I18") == (0, {})


def test_what_another_plan_has_decided_is_known_by_the_account_that_both_have_to_stamp(story: Story) -> None:
    """Also where they do not: it is the solver's mistake."""
    pod(story, "one", APART)
    pod(story, "other", APART)
    story.place("one", "n1")
    story.place("other", "n2")
    assert story.broken == ["I18"]


def test_a_pod_that_came_after_the_view_of_the_solver_is_excused(story: Story) -> None:
    pod(story, "other")
    basis = story.version
    pod(story, "one", APART)
    place(story, "one", "n1")
    story.place("other", "n2", basis=basis)
    assert (story.broken, counted(story, "I18")[1]) == ([], {"unseen": 1})


def test_a_plan_that_did_not_know_of_the_term_shares_no_account(story: Story) -> None:
    pod(story, "one")
    story.place("one", "n1")
    pod(story, "other", APART)
    story.place("other", "n2")
    assert (story.broken, counted(story, "I18")[1]) == ([], {"unseen": 1})


def test_after_a_while_everybody_knows(story: Story) -> None:
    pod(story, "one")
    story.place("one", "n1")
    story.wait(LATE_S)
    pod(story, "other", APART)
    story.place("other", "n2", basis=1)
    assert story.broken == ["I18"]


def test_a_bound_pod_is_known_by_the_version_of_its_bind(story: Story) -> None:
    pod(story, "other", APART)
    stranger(story, "one", "n1")
    story.place("other", "n2", basis=story.version - 2)
    assert (story.broken, counted(story, "I18")[1]) == ([], {"stranger unseen": 1})
    pod(story, "third", APART)
    story.place("third", "n2", basis=story.version)
    assert story.broken == ["I18"]


def test_an_owner_that_was_relabelled_keeps_away_whom_it_did_before(story: Story) -> None:
    pod(story, "one", APART, app="db")
    place(story, "one", "n1")
    pod(story, "other", APART)
    basis = story.version
    story.change("pods", "one", {"metadata": {"labels": {"app": "web"}}})
    place(story, "other", "n2", basis=basis)
    assert story.broken == ["I18"]


def test_who_came_to_match_a_moment_ago_is_excused(story: Story) -> None:
    pod(story, "one", app="db")
    place(story, "one", "n1")
    pod(story, "other", APART)
    basis = story.version
    story.change("pods", "one", {"metadata": {"labels": {"app": "web"}}})
    place(story, "other", "n2", basis=basis)
    assert (story.broken, counted(story, "I18")[1]) == ([], {"unseen": 1})


def test_a_zone_that_changed_a_moment_ago_is_excused(story: Story) -> None:
    pod(story, "one", APART)
    place(story, "one", "n1")
    in_zone(story, "n3", "a")
    pod(story, "other", APART)
    place(story, "other", "n3")
    assert (story.broken, counted(story, "I18")[1]) == ([], {"unseen": 1})
    story.wait(LATE_S)
    pod(story, "third", APART)
    place(story, "third", "n3")
    assert story.broken == ["I18"]


def test_who_is_gone_keeps_nobody_away(story: Story) -> None:
    pod(story, "one", APART)
    pod(story, "other", APART)
    place(story, "one", "n1")
    story.delete("pods", "one")
    place(story, "other", "n2")
    assert (story.broken, counted(story, "I18")) == ([], (2, {}))


def test_after_a_loss_decisions_are_in_doubt(story: Story) -> None:
    pod(story, "one", APART)
    pod(story, "other", APART)
    place(story, "one", "n1")
    place(story, "other", "n3")
    story.lose(3)
    place(story, "other", "n2")
    assert (story.broken, counted(story, "I18")[1]) == ([], {"ledger lost": 1})


# --- at rest ---------------------------------------------------------------------------------------------------------


def both_bound(story: Story) -> None:
    for name, node in (("one", "n1"), ("other", "n3")):
        pod(story, name, APART)
        place(story, name, node)
        story.bind(name)
    story.wait(1.0)


def test_at_rest_they_are_still_apart(story: Story) -> None:
    both_bound(story)
    before = counted(story, "I18")[0]
    assert "I18" not in story.finish(quiet=True)
    assert counted(story, "I18") == (before + 2, {})


def test_at_rest_a_zone_that_has_changed_excuses(story: Story) -> None:
    both_bound(story)
    in_zone(story, "n3", "a")
    story.wait(LATE_S)
    assert "I18" not in story.finish(quiet=True)
    assert counted(story, "I18")[1] == {"relabelled": 2}


def test_at_rest_a_decision_that_was_excused_stays_so(story: Story) -> None:
    pod(story, "one")
    story.place("one", "n1")
    pod(story, "other", APART)
    story.place("other", "n2")
    for name in ("one", "other"):
        story.bind(name)
    assert "I18" not in story.finish(quiet=True)
    assert counted(story, "I18")[1] == {"unseen": 2}


# --- together --------------------------------------------------------------------------------------------------------


def test_the_first_of_a_group_goes_anywhere_and_the_others_to_it(story: Story) -> None:
    for name in ("one", "other", "third"):
        pod(story, name, TOGETHER)
    place(story, "one", "n3")
    place(story, "other", "n3")
    assert (story.broken, counted(story, "I18")) == ([], (2, {}))
    place(story, "third", "n1")
    assert story.broken == ["I18"]


def test_company_that_has_just_left_may_have_been_seen(story: Story) -> None:
    for name in ("one", "third"):
        pod(story, name, TOGETHER)
    pod(story, "other", app="web")
    place(story, "one", "n3")
    place(story, "other", "n1")
    basis = story.version
    story.delete("pods", "other")
    place(story, "third", "n2", basis=basis)
    assert (story.broken, counted(story, "I18")[1]) == ([], {"unseen": 1})
    pod(story, "last", TOGETHER)
    story.delete("pods", "third")
    place(story, "last", "n2")
    assert story.broken == ["I18"]


# --- spread ----------------------------------------------------------------------------------------------------------


def test_no_domain_is_ahead_of_another(story: Story) -> None:
    for name in ("one", "other", "third", "last"):
        pod(story, name, SPREAD)
    place(story, "one", "n1")
    place(story, "other", "n3")
    place(story, "third", "n2")
    assert (story.broken, counted(story, "I17")) == ([], (3, {}))
    place(story, "last", "n1")
    assert story.broken == ["I17"]


def test_those_of_one_plan_count_in_their_order(story: Story) -> None:
    for name in ("one", "other"):
        pod(story, name, SPREAD)
    story.commit(story.decision("one", "n1"), story.decision("other", "n2"))
    assert story.broken == ["I17"]


def test_who_is_terminating_does_not_count(story: Story) -> None:
    for name in ("one", "other", "third"):
        pod(story, name, SPREAD)
    place(story, "one", "n1")
    place(story, "other", "n3")
    story.bind("other")
    basis = story.version
    story.change("pods", "other", {"metadata": {"deletionTimestamp": "2026-11-01T00:00:00Z"}})
    place(story, "third", "n2", basis=basis)
    assert (story.broken, counted(story, "I17")[1]) == ([], {"unseen": 1})
    story.delete("pods", "third")
    pod(story, "last", SPREAD)
    place(story, "last", "n2")
    assert story.broken == ["I17"]


def test_who_is_not_spread_itself_shares_no_account(story: Story) -> None:
    pod(story, "one")
    pod(story, "other", SPREAD)
    story.place("one", "n1")
    place(story, "other", "n2")
    assert (story.broken, counted(story, "I17")[1]) == ([], {"unseen": 1})


def test_a_node_without_the_label_takes_nobody(story: Story) -> None:
    in_zone(story, "n3", None)
    pod(story, "one", SPREAD)
    place(story, "one", "n3")
    assert (story.broken, counted(story, "I17")[1]) == ([], {"unseen": 1})
    story.wait(LATE_S)
    pod(story, "other", SPREAD)
    place(story, "other", "n3")
    assert story.broken == ["I17"]
