"""CPU normalisation and resource amplification of one node: the annotations that it is to show.

Each has a key of the ConfigMap. An annotation is ours while its key is there (that of normalisation also while the
node's label speaks of it, that of amplification while normalisation is ours, which multiplies it): then it is what the
rules say, also where somebody wrote another value. What the rules cannot say stays as it is. Once nobody asks for an
annotation any more, what we wrote goes; what somebody else has written over it is his.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import (
    ANNOTATION_AMPLIFICATION_RATIO,
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    LABEL_CPU_NORMALIZATION_ENABLED,
)
from berth.contracts.state import Node
from berth.rules import amplification, cpu_normalization
from berth.rules.node_strategies.config import AMPLIFICATION, NORMALIZATION, RATIO_KINDS, Config
from berth.slo_manager.core.render import chosen

S = TypeVar("S")
_KEYS: Final = {kind.section: kind.key for kind in RATIO_KINDS}


class Ratios(NamedTuple):
    """What the annotations of a node come to. A value of None: the node has no such annotation.

    `wanted` is what they are to be; those that are not named stay as they are. `lacking` is what of it the node does
    not show. `record` is what is to be remembered as ours, `strategies` which strategy of some nodes won.
    """

    wanted: Mapping[str, str | None]
    lacking: Mapping[str, str | None]
    record: Mapping[str, str | None]
    strategies: Mapping[str, str]
    problems: Sequence[Problem]


def ratios_of(node: Node, cpu_info: str | None, config: Config, before: Mapping[str, str | None]) -> Ratios:
    """Decide about a node.

    Args:
        node: with labels and annotations.
        cpu_info: which CPUs it has, as its NodeResourceTopology says; None: it does not.
        config: the strategies.
        before: what is remembered of this node as ours.
    """
    decision = _Decision(node, config, before)
    is_normalised = NORMALIZATION in config.given or LABEL_CPU_NORMALIZATION_ENABLED in node.labels
    if is_normalised:
        decision.normalise(cpu_info)
    else:
        decision.release(ANNOTATION_CPU_NORMALIZATION_RATIO, cpu_normalization.needs_write)
    if is_normalised or AMPLIFICATION in config.given:
        decision.amplify()
    else:
        decision.release(ANNOTATION_AMPLIFICATION_RATIO, amplification.needs_write)
    return Ratios(decision.wanted, decision.lacking, decision.record, decision.strategies, decision.problems)


class _Decision:
    """One node while it is decided on; `then` are its annotations as they will be."""

    def __init__(self, node: Node, config: Config, before: Mapping[str, str | None]) -> None:
        self.then = dict(node.annotations)
        self.wanted: dict[str, str | None] = {}
        self.lacking: dict[str, str | None] = {}
        self.record: dict[str, str | None] = {}
        self.strategies: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._node = node
        self._config = config
        self._before = before

    def normalise(self, cpu_info: str | None) -> None:
        """The ratio of the node's CPUs, as its strategy has it."""
        name, strategy = ANNOTATION_CPU_NORMALIZATION_RATIO, self._strategy(NORMALIZATION, cpu_normalization.Strategy)
        if strategy is None:
            self._keep(name)
            return
        text = cpu_normalization.annotation_for(strategy, self._node.labels, cpu_info)
        if isinstance(text, Problem):
            self._fail(name, NORMALIZATION, text)
        else:
            self._want(name, text, cpu_normalization.needs_write)

    def amplify(self) -> None:
        """The ratios of resources, that of cpu times the one of its CPUs."""
        name, strategy = ANNOTATION_AMPLIFICATION_RATIO, self._strategy(AMPLIFICATION, amplification.Strategy)
        if strategy is None:
            self._keep(name)
            return
        configured = strategy.resource_amplification_ratio or {}
        ratios = amplification.ratios_for(configured, self.then, is_enabled=bool(strategy.enable))
        if isinstance(ratios, Problem):
            self._fail(name, AMPLIFICATION, ratios)
        else:
            self._want(name, amplification.ratios_text(ratios) if ratios else None, amplification.needs_write)

    def release(self, name: str, needs_write: Callable[[str | None, str | None], bool]) -> None:
        """Nobody asks for an annotation any more."""
        shown, written = self._node.annotations.get(name), self._before.get(name)
        if shown is not None and written is not None and not needs_write(shown, written):
            self.record[name] = written
            self._change(name, None)

    def _strategy(self, section: str, shape: type[S]) -> S | None:
        known = self._config.sections.get(section)
        if known is None:
            return None
        return msgspec.convert(chosen(section, known, self._node.labels, self.strategies, self.problems), shape)

    def _want(self, name: str, value: str | None, needs_write: Callable[[str | None, str | None], bool]) -> None:
        self.wanted[name] = self.record[name] = value
        if needs_write(self._node.annotations.get(name), value):
            self._change(name, value)

    def _change(self, name: str, value: str | None) -> None:
        self.wanted[name] = self.lacking[name] = value
        self.then.pop(name, None)
        if value is not None:
            self.then[name] = value

    def _fail(self, name: str, section: str, problem: Problem) -> None:
        """It stays as it is; the problem names its field whole, one of the node or one below the ConfigMap's key."""
        is_of_node = problem.field.startswith("metadata.")
        field = problem.field if is_of_node else f"data[{_KEYS[section]}].{problem.field}"
        self.problems.append(Problem(field=field, message=problem.message))
        self._keep(name)

    def _keep(self, name: str) -> None:
        """It stays as it is, and as much ours as it was."""
        if name in self._before:
            self.record[name] = self._before[name]
