"""In which order files are written, so that at no moment a child does not fit into its parent, or burst into a quota.

Burst that shrinks comes first, since a quota below it is refused. Then whatever grows, from the top down; then every
final value, from the bottom up; then what depends on nothing, burst among it, from the top down. A process that dies in
between leaves values that all fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from berth.node_qos_enforcer.core.cgroup_files import Bandwidth, Version, parse_bandwidth, parse_bandwidth_v1
from berth.node_qos_enforcer.core.knob_texts import MAX, first_pass, is_same, number_value, quota_value, text_of
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.strategies.knobs import CPU_BURST, Knob
from berth.node_qos_enforcer.core.strategies.seam import Ref


class Change(NamedTuple):
    """A file that has one text and is to have another. `period` is the text of version 1's period, for a quota.
    `is_step`: the value is one on the way to that which is wanted."""

    ref: Ref
    knob: Knob
    version: Version
    path: str
    now: str
    value: str
    period: str = ""
    is_step: bool = False

    @property
    def depth(self) -> int:
        """How deep its group is."""
        return self.ref.group.count("/")

    @property
    def text(self) -> str:
        """What is to be written in the end. Raises Malformed."""
        if self.knob.kind == "line":
            return f"{self.ref.key} {self.value}".strip()
        return text_of(self.knob, self.version, self.value, period_us=self._period_us())

    @property
    def is_done(self) -> bool:
        """Whether the file has it already. Raises Malformed."""
        if self.knob.kind == "line" and self.value == self.knob.default:
            return all(line.split(" ", 1)[0] != self.ref.key for line in self.now.splitlines()) or self._has_text()
        return self._has_text()

    def _has_text(self) -> bool:
        return is_same(self.knob, self.now, self.text)

    def growing(self) -> str | None:
        """What is written on the way down; None: nothing. Raises Malformed."""
        merged = first_pass(self.knob.within, self._now_value(), self.value)
        if merged is None:
            return None
        return text_of(self.knob, self.version, merged, period_us=self._period_us())

    def shrinks(self) -> bool:
        """Whether a number becomes less."""
        try:
            return _amount(self.value) < _amount(number_value(self.now, self.knob.name))
        except (Malformed, ValueError):
            return False

    def _now_value(self) -> str:
        if self.knob.kind == "quota":
            return quota_value(self._bandwidth())
        if self.knob.kind == "number":
            return number_value(self.now, self.knob.name)
        return self.now

    def _bandwidth(self) -> Bandwidth:
        return parse_bandwidth_v1(self.now, self.period) if self.version == 1 else parse_bandwidth(self.now)

    def _period_us(self) -> int:
        return self._bandwidth().period_us if self.knob.kind == "quota" else 0


class Step(NamedTuple):
    """A write. `is_last`: the file has its final text then."""

    change: Change
    text: str
    is_last: bool


def steps(changes: Iterable[Change]) -> list[Step]:
    """All writes in their order. Raises nothing: a file whose text makes no sense is written in the end only."""
    down = sorted(changes, key=lambda each: (each.depth, each.path))
    levelled = [each for each in down if each.knob.within]
    lowered = [each for each in down if each.knob.name == CPU_BURST and each.shrinks()]
    others = [each for each in down if not each.knob.within and each not in lowered]
    found = [Step(each, each.text, True) for each in reversed(lowered)]
    for each in levelled:
        try:
            text = each.growing()
        except Malformed:
            text = None
        if text is not None:
            found.append(Step(each, text, False))
    found += [Step(each, each.text, True) for each in reversed(levelled)]
    return found + [Step(each, each.text, True) for each in others]


def _amount(value: str) -> float:
    return float("inf") if value == MAX else int(value)
