"""How the shell puts its parts together: what one part tells another."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.services.worlds.writer.world import World

from berth.cluster_writer import shell
from berth.cluster_writer.outbox import BUSY_ABOVE
from berth.testing.views import eventually


@pytest.fixture
async def parts(world: World, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The parts of a writer that acts, and what each was made with."""
    made: dict[str, Any] = {}

    def noted(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def make_and_note(*args: Any, **more: Any) -> Any:
            made[name], made[f"{name}_with"] = make(*args, **more), more
            return made[name]

        return make_and_note

    for name in ("Outbox", "KubeLease", "BindExecutor", "WaveRunner"):
        monkeypatch.setattr(shell, name, noted(name.lower(), getattr(shell, name)))
    await world.writer()
    await eventually(lambda: "waverunner" in made and made["waverunner"].is_acting, what="it acts")
    return SimpleNamespace(**made)


async def test_events_give_way_to_binds_that_are_under_way(parts: SimpleNamespace) -> None:
    """Not to those that only wait: they may wait for hours."""
    is_busy, under_way = parts.outbox_with["is_busy"], 0
    parts.bindexecutor.under_way = lambda: under_way
    assert not is_busy()
    under_way = BUSY_ABOVE
    assert not is_busy()
    under_way = BUSY_ABOVE + 1
    assert is_busy()


@pytest.mark.parametrize("is_held", [True, False])
async def test_what_was_suspected_ends_with_the_lease_under_which_it_was(parts: SimpleNamespace, is_held: bool) -> None:
    parts.waverunner.suspected_loss = "minor 0 is claimed twice"
    parts.kubelease_with["on_change"](is_held)
    assert parts.waverunner.suspected_loss == ""
    assert not parts.waverunner.is_acting, "the ledger is compared with the Lease before anything begins"
