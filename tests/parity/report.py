"""What a run of worlds came to, counted and printed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import yaml
from tests.parity.comparing import Difference
from tests.parity.world import Trace, World


@dataclass
class Report:
    """Sums over worlds. `seconds`: how long kube-scheduler and the API server took for them."""

    seconds: float = 0.0
    worlds: int = 0
    pods: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    not_yet: Counter[str] = field(default_factory=Counter)
    incomparable: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    differences: dict[str, list[str]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)

    def see(self, trace: Trace) -> None:
        """A world was decided."""
        self.worlds += 1
        self.pods += len(trace.steps)
        self.verdicts.update(step.outcome.verdict for step in trace.steps)
        self.verdicts["with a preemption"] += sum(1 for step in trace.steps if step.outcome.victims)
        self.refused.update(each[each.find('"message":') :][:200] for each in trace.refused)

    def not_compared(self, fields: tuple[str, ...]) -> None:
        """Berth refuses a pod by name."""
        self.incomparable += 1
        self.not_yet.update({re.sub(r"\[\d*\]", "[]", each) for each in fields})

    def differs(self, world: World, difference: Difference) -> None:
        """A difference that nothing explains."""
        self.differences.setdefault(difference.kind, []).append(f"{world.name} {difference.name}")

    def text(self) -> str:
        """All of it."""
        pace = f", {60 * self.worlds / self.seconds:.0f} a minute" if self.seconds else ""
        lines = [
            f"{self.worlds} worlds{pace}; {self.pods} pods, {self.pods - self.incomparable} of them compared",
            "kube-scheduler: " + _listed(self.verdicts),
        ]
        if self.refused:
            lines += ["the API server refused:", *(f"  {count} {text}" for text, count in self.refused.most_common(5))]
        if self.not_yet:
            lines.append("not yet: " + _listed(self.not_yet))
        if self.explained:
            lines.append("explained (docs/parity.md): " + _listed(self.explained))
        for kind, where in sorted(self.differences.items()):
            shown = ", ".join(where[:12]) + (", ..." if len(where) > 12 else "")
            lines.append(f"DIFFERENT {kind}: {len(where)} ({shown})")
        return "\n".join(lines if self.differences else [*lines, "no unexplained difference"])


def _listed(counted: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counted.most_common())


def told(world: World, difference: Difference) -> str:
    """One difference in a few lines."""
    return (
        f"world {world.name} ({', '.join(world.features)}), pod {difference.name}: {difference.kind}\n"
        f"  kube-scheduler: {difference.theirs}\n  Berth:          {difference.ours}"
    )


def manifests(world: World) -> str:
    """What kubectl applies to repeat it: the objects, then the pods to decide."""
    return yaml.safe_dump_all([*world.objects, *world.pending], sort_keys=False)
