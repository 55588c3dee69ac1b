"""What is made of the answers of hooks, good ones and others."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.quota.licences import SEAT, Licences

from berth.quota_manager.core.hooks.answers import SHOWN_MAX, TEXT_LENGTH_MAX, Unusable
from berth.quota_manager.core.hooks.asking import Hooks, NamedHook, Returned
from berth.quota_manager.hooks.loading import named_hook
from berth.rules.quota_hooks.seen import HookedGroup, HookedPod

POD = HookedPod(namespace="ns", labels={"app": "solver"})
GROUP = HookedGroup(name="team", max={SEAT: 3}, used={SEAT: 1})


def answering(answer: Any, name: str = "h") -> NamedHook:
    """A hook that answers everything so."""
    return NamedHook(name, dict.fromkeys(("charges", "refuses", "shows"), lambda *_: answer), frozenset({SEAT}))


class Asked:
    def __init__(self, *hooks: NamedHook, fails_open: bool = False) -> None:
        self.failures: list[tuple[str, str, str]] = []
        self.hooks = Hooks(hooks, self.call, self.failed, fails_open=fails_open)

    def call(self, hook: NamedHook, function: str, arguments: tuple[object, ...]) -> Returned | Unusable:
        return Returned(hook.functions[function](*arguments))

    def failed(self, hook: NamedHook, function: str, problem: Unusable) -> None:
        self.failures.append((hook.name, function, problem.why))


def test_the_example() -> None:
    asked = Asked(named_hook("licences", Licences()))
    assert asked.hooks.charge(POD).surcharge == {SEAT: 1}
    assert asked.hooks.charge(HookedPod(namespace="ns")).surcharge == {}
    (refusal,) = asked.hooks.refusals(POD, GROUP).refusals
    assert (refusal.hook, refusal.message) == ("licences", "group team has no licence")
    assert asked.hooks.shown(GROUP, {}) == {"licences": {"seatsLeft": "2"}}
    assert asked.hooks.resources == {SEAT}
    assert asked.failures == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (7, "charges: must be an object of resource names and quantities"),
        ({SEAT: float("nan")}, f"charges[{SEAT}]: must be a finite number"),
        ({SEAT: float("inf")}, f"charges[{SEAT}]: must be a finite number"),
        ({SEAT: -1}, f"charges[{SEAT}]: must not be negative"),
        ({SEAT: 1 << 64}, f"charges[{SEAT}]: is too large (at most 2**63 - 1)"),
        ({SEAT: True}, f"charges[{SEAT}]: must be a quantity, not a boolean"),
        ({SEAT: object()}, f"charges[{SEAT}]: must be a quantity, not a value of another type"),
        ({SEAT: "many"}, None),
        ({"cpu": 1}, "charges cpu, which is not among its resources"),
        ({"licences.example.com/" + "x" * 1000: 1}, None),
        ({"": 1}, None),
        ({7: 1}, None),
        ({f"{SEAT}{n}": 1 for n in range(300)}, "charges: names 300 resources, at most 256 are accepted"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_surcharge_that_cannot_be_used_is_none(answer: Any, why: str | None) -> None:
    asked = Asked(answering(answer), answering({SEAT: 2}, "other"))
    charge = asked.hooks.charge(POD)
    ((name, function, said),) = asked.failures
    assert (name, function) == ("h", "charges")
    assert why is None or said == why
    assert len(said) <= 2 * TEXT_LENGTH_MAX
    assert charge.has_failed
    assert charge.surcharge == {SEAT: 2}, "the others count"
    assert [each.message for each in charge.refusals] == [f"charges failed: {said}"]
    opened = Asked(answering(answer), answering({SEAT: 2}, "other"), fails_open=True)
    assert opened.hooks.charge(POD)._replace(has_failed=False) == charge._replace(refusals=(), has_failed=False)
    assert opened.failures == asked.failures


@pytest.mark.parametrize("answer", [True, 7, b"no", ["no"], object()])
def test_a_refusal_is_a_text(answer: Any) -> None:
    asked = Asked(answering(answer))
    assert asked.hooks.refusals(POD, GROUP).has_failed
    (refusal,) = asked.hooks.refusals(POD, GROUP).refusals
    assert refusal.message.startswith("refuses failed: answers with ")
    assert Asked(answering(answer), fails_open=True).hooks.refusals(POD, GROUP).refusals == ()


@pytest.mark.parametrize(
    ("answer", "text"), [("x" * 5000, "x" * TEXT_LENGTH_MAX), ("\udcff", "?"), ("a\nb\x1b[31m", "a b [31m")]
)
def test_a_refusal_is_one_that_a_message_can_carry(answer: str, text: str) -> None:
    (refusal,) = Asked(answering(answer)).hooks.refusals(POD, GROUP).refusals
    assert refusal.message == text
    assert Asked(answering("")).hooks.refusals(POD, GROUP).refusals == ()
    assert Asked(answering(None)).hooks.refusals(POD, GROUP).refusals == ()


@pytest.mark.parametrize(
    "answer", [7, "text", {7: "a"}, {"": "a"}, {"x" * 64: "a"}, {"a": 1.5}, {"a": True}, {"a": 1 << 80}, {"a": [1]}]
)
def test_what_cannot_be_shown_is_not(answer: Any) -> None:
    asked = Asked(answering(answer), answering({"a": "b"}, "other"))
    assert asked.hooks.shown(GROUP, {}) == {"other": {"a": "b"}}
    assert [(name, function) for name, function, _ in asked.failures] == [("h", "shows")]


def test_only_so_much_is_shown() -> None:
    shown = Asked(answering({f"f{n:03}": "x" * 5000 for n in range(100)})).hooks.shown(GROUP, {})["h"]
    assert list(shown) == [f"f{n:03}" for n in range(SHOWN_MAX)]
    assert all(len(text) == 128 for text in shown.values())


def test_surcharges_of_several_hooks_add_up_to_what_a_message_can_carry() -> None:
    most = (1 << 63) - 1
    asked = Asked(answering({SEAT: most}, "a"), answering({SEAT: most}, "b"))
    assert asked.hooks.charge(POD).surcharge == {SEAT: most}


def test_a_hook_that_has_not_answered_yet_has_not_failed_and_shows_what_it_has_shown() -> None:
    for fails_open in (False, True):
        hooks = Hooks([answering(1)], lambda *_: Unusable("not yet", is_busy=True), _unexpected, fails_open=fails_open)
        for said in (hooks.charge(POD), hooks.refusals(POD, GROUP)):
            assert (said.is_awaited, said.has_failed, said.refusals) == (True, False, ())
        assert hooks.shown(GROUP, {"h": {"a": "b"}, "gone": {"c": "d"}}) == {"h": {"a": "b"}}


def _unexpected(hook: NamedHook, function: str, problem: Unusable) -> None:
    raise AssertionError(problem)
