"""Of which priorities those are who might have to leave, whatever came and went before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.nominating import nominate

from berth.contracts import names
from berth.testing.builders import PodBuilder, pod


def shown(name: str, priority: int, **fields: Any) -> PodBuilder:
    return pod(name).template(priority=priority, **fields)


steps = st.lists(
    st.tuples(
        st.sampled_from(["waits", "on", "ended", "protected", "mirror", "gone", "anew"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(-2, 2),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.integers(-3, 3))
def test_it_is_what_a_look_at_each_would_say(solving: type[Any], seen: list[tuple[str, str, int]], asked: int) -> None:
    run = solving()
    run.node("n0")
    expected: dict[str, int] = {}
    for what, name, priority in seen:
        made = shown(name, priority)
        if what == "anew":
            run.cluster.reset_state()
            expected.clear()
            continue
        expected.pop(name, None)
        if what == "gone":
            run.delete_pod(name)
        elif what == "waits":
            run.pod(made)
        elif what == "on":
            run.pod(made.on("n0"))
            expected[name] = priority
        elif what == "ended":
            run.pod(made.on("n0", phase="Succeeded"))
        elif what == "mirror":
            run.pod(made.on("n0").set(mirror=True))
        else:
            run.pod(made.on("n0").label(names.LABEL_QUOTA_PREEMPTIBLE, "false"))
    assert run.cluster.leavers.have_below(asked) == any(each < asked for each in expected.values())


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=4000)
    return made


def test_nominations_count_until_they_end(run: Any) -> None:
    run.pod(shown("waits", 2))
    nominate(run, "waits", "n0", 1)
    assert run.cluster.leavers.have_below(3)
    assert not run.cluster.leavers.have_below(2)
    run.delete_pod("waits")
    run.complete()
    assert not run.cluster.leavers.have_below(3)


def test_nominations_of_ledger_count_on_while_state_is_read_anew(run: Any) -> None:
    """Of a priority that nobody knows, so above everybody."""
    run.pod(shown("waits", 2))
    nominate(run, "waits", "n0", 1)
    run.cluster.reset_state()
    assert not run.cluster.leavers.have_below(3)
    run.pod(shown("waits", 2))
    assert run.cluster.leavers.have_below(3)
