"""One round of all strategies: what each wants now, and what it remembers.

A strategy that is off wants nothing. One that skips its round wants what it wanted before; as long as it has never
decided, its knobs are `undecided`, so that nothing of a former process is undone before it has. One that fails, in
whatever way, is named and skips: the others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.strategies.seam import Component, Decided, Ref, Snapshot, Spec, Strategy, Wanted


class Standing(NamedTuple):
    """How a strategy stands: whether it is asked for, why it does nothing, how many values it wants."""

    name: str
    is_on: bool
    skipped: str = ""
    wanted: int = 0
    facts: Mapping[str, int | float | str] = {}


class Answer(NamedTuple):
    """What a round came to. `parts` are what each strategy wants, in their order; the same object says: as before."""

    parts: tuple[tuple[Wanted, ...], ...]
    undecided: frozenset[str]
    reports: tuple[Problem, ...]
    standings: tuple[Standing, ...]


NOT_INSTALLED = "its component is not installed: k8s/components/{}"


@dataclass
class Round:
    """The strategies with what they remember. `installed` are the components whose rights this agent has."""

    strategies: tuple[Strategy, ...]
    installed: frozenset[Component] = frozenset({"enforce"})
    _memory: dict[str, Any] = field(default_factory=dict)
    _last: dict[str, tuple[Wanted, ...]] = field(default_factory=dict)
    _steady: dict[str, tuple[tuple[str | None, ...], Decided]] = field(default_factory=dict)
    _reads: dict[str, tuple[Ref, ...]] = field(default_factory=dict)
    _basis: object = None

    def reads(self, snapshot: Snapshot, spec: Spec) -> Iterable[Ref]:
        """The files that are to be read for those that are on."""
        self._see(snapshot, spec)
        for each in self.strategies:
            try:
                if self._acts(each) and each.is_on(spec):
                    yield from self._reads_of(each, snapshot, spec)
            except Exception:  # noqa: S112 - it is named as it decides
                continue

    def _reads_of(self, strategy: Strategy, snapshot: Snapshot, spec: Spec) -> tuple[Ref, ...]:
        if strategy.reads_by_turns:
            return tuple(strategy.reads(snapshot, spec))
        if strategy.name not in self._reads:
            self._reads[strategy.name] = tuple(strategy.reads(snapshot, spec))
        return self._reads[strategy.name]

    def _see(self, snapshot: Snapshot, spec: Spec) -> None:
        """Ask everybody anew when what steady ones decide by has changed."""
        node = snapshot.node
        basis = (spec, snapshot.pods, node.driver, node.version, node.capacity, node.allocatable, node.facts, node.cpu)
        if basis != self._basis:
            self._basis = basis
            self._steady.clear()
            self._reads.clear()

    def decide(self, snapshot: Snapshot, spec: Spec) -> Answer:
        """Ask each."""
        parts: list[tuple[Wanted, ...]] = []
        undecided: set[str] = set()
        reports: list[Problem] = []
        standings: list[Standing] = []
        self._see(snapshot, spec)
        for each in self.strategies:
            if (is_on := _is_on(each, spec)) is False:
                self._memory.pop(each.name, None)
                self._last[each.name] = ()
                parts.append(())
                standings.append(Standing(each.name, False))
                continue
            if not self._acts(each):
                parts.append(())
                standings.append(Standing(each.name, True, NOT_INSTALLED.format(each.component)))
                continue
            decided = self._ask(each, snapshot, spec) if is_on is True else is_on
            if not decided.skipped:
                self._last[each.name] = decided.wanted
            if each.name not in self._last:
                undecided |= {knob.partition("/")[0] for knob in each.needs.knobs}
            now = self._last.get(each.name, ())
            parts.append(now)
            reports += decided.reports
            standings.append(Standing(each.name, True, decided.skipped, len(now), decided.facts))
        return Answer(tuple(parts), frozenset(undecided), tuple(reports), tuple(standings))

    def _acts(self, strategy: Strategy) -> bool:
        return strategy.component in self.installed

    def _ask(self, strategy: Strategy, snapshot: Snapshot, spec: Spec) -> Decided:
        memory = self._memory.get(strategy.name, strategy.memory)
        try:
            if not strategy.is_steady:
                decided = strategy.decide(snapshot, spec, memory)
            else:
                texts = tuple([snapshot.found.get(ref) for ref in self._reads_of(strategy, snapshot, spec)])
                known = self._steady.get(strategy.name)
                if known is not None and known[0] == texts:
                    return known[1]
                decided = strategy.decide(snapshot, spec, memory)
                self._steady[strategy.name] = (texts, decided)
        except Exception as error:
            return _failed(strategy, error)
        self._memory[strategy.name] = decided.memory
        return decided


def _is_on(strategy: Strategy, spec: Spec) -> bool | Decided:
    """Whether it is asked for; a round of one that cannot say so."""
    try:
        return strategy.is_on(spec)
    except Exception as error:
        return _failed(strategy, error)


def _failed(strategy: Strategy, error: Exception) -> Decided:
    problem = Problem(field=f"strategies.{strategy.name}", message=f"{type(error).__name__}: {error}"[:200])
    return Decided(reports=(problem,), skipped="it has failed")
