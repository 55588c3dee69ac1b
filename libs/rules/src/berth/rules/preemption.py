"""Which pods have to leave a node so that one of higher priority can run there, and on which node that costs least.

This is Kubernetes' DefaultPreemption. Whether the pod fits once some are gone is asked of a callable, so that every
filter takes part and none is known here. Times are compared as RFC 3339 texts are written by the API server; a pod
that has not started counts as started last.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from berth.contracts.names import LABEL_DISABLE_PREEMPTIBLE, LABEL_QUOTA_PREEMPTIBLE
from berth.contracts.state import Pod, PodDisruptionBudget
from berth.rules.eviction_notes import Mark, noted_mark
from berth.rules.selectors import LabelTest, compile_selector
from berth.rules.times import unix_of

NEVER: Final = "Never"
"""The preemption policy of a pod for which nobody leaves."""
BY_SCHEDULER: Final = "PreemptionByScheduler"
"""Reason of the condition DisruptionTarget of a victim that leaves for a pod or gang of higher priority."""
BY_QUOTA: Final = "QuotaReclaim"
"""The same, of one whose quota group gives back what it has borrowed."""
BY_OWNER: Final = "ReservationOwner"
"""The same, of one on capacity that a Reservation keeps for others."""
BY_HAND_OVER: Final = "ReservationHandOver"
"""The same, of a placeholder that hands its place over to one of its owners."""
REASONS: Final = frozenset({BY_SCHEDULER, BY_QUOTA, BY_OWNER, BY_HAND_OVER})
"""Those for which Berth has pods leave."""
THROUGH_API: Final = frozenset({BY_QUOTA})
"""Of those the ones for which pods leave through the API server's eviction, which disruption budgets may stop."""
BY_API: Final = "EvictionByEvictionAPI"
"""What the API server writes in the place of the reason when a pod leaves in that way."""
PATIENCE_S: Final = 60.0
"""How long after its grace period a victim may still be there; how long a place that is free may stay unused."""

NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
POLICY_FORBIDS: Final = "not eligible due to preemptionPolicy=Never."
NOBODY_MAY_GO: Final = "the API server lets nobody be deleted for it."
STILL_LEAVING: Final = "not eligible due to a terminating pod on the nominated node."

PROTECTING: Final = ((LABEL_QUOTA_PREEMPTIBLE, "false"), (LABEL_DISABLE_PREEMPTIBLE, "true"))
_PRIORITY_OFFSET: Final = 2**31
_LAST: Final = "\uffff"
"""Behind every time."""


class Candidate(NamedTuple):
    """A node, the pods that would have to leave it (most important first), and how many of them a budget protects."""

    node: str
    victims: tuple[Pod, ...]
    violations: int = 0


def why_not_eligible(pod: Pod, on_nominated: Iterable[Pod] = (), *, is_nominated_unresolvable: bool = False) -> str:
    """Why nobody may be made to leave for the pod now; empty: somebody may.

    `on_nominated` are the pods of the node that it is nominated to, if that is there; `is_nominated_unresolvable` that
    this node refuses the pod for a reason that no eviction helps against. A pod that leaves for another reason than
    preemption is not waited for.
    """
    if pod.template.preemption_policy == NEVER:
        return POLICY_FORBIDS
    if not pod.nominated or is_nominated_unresolvable:
        return ""
    leaving = (other for other in on_nominated if other.deleting and not leaves_by_itself(other))
    is_waiting = any(other.template.priority < pod.template.priority for other in leaving)
    return STILL_LEAVING if is_waiting else ""


def leaves_by_itself(pod: Pod) -> bool:
    """It is leaving, and Berth is not why, whatever mark it carries: its owner may write marks, no conditions."""
    return pod.deleting and not is_by_berth(pod.disruption, noted_mark(pod.template.annotations))


def is_by_berth(disruption: str, mark: Mark | None) -> bool:
    """Whether Berth has a pod leave with this reason of its condition DisruptionTarget and this mark."""
    return disruption in REASONS or (disruption == BY_API and mark is not None and mark.reason in THROUGH_API)


def candidates_wanted(count: int, percentage: int = 10, at_least: int = 100) -> int:
    """How many nodes with victims are enough, of so many that eviction may help with."""
    return min(count, max(count * percentage // 100, at_least))


def importance(pod: Pod) -> tuple[int, str, str, str]:
    """Smaller is more important: the higher priority, then the longer running, then by name."""
    return (-pod.template.priority, pod.started or _LAST, pod.namespace, pod.name)


def why_protected(pod: Pod) -> str:
    """Why a pod is nobody's victim, whatever its priority: a label with its value, or that it is a mirror pod; empty:
    nothing protects it.

    A label protects by one value each (Koordinator's protocol), any other counts as absent. To delete a mirror pod ends
    nothing: its kubelet goes on running it, and makes the copy anew.
    """
    if pod.mirror:
        return "mirror pod"
    labels = pod.template.labels
    for label, value in PROTECTING:
        if labels.get(label) == value:
            return f"label {label}={value}"
    return ""


def never_leaves(pod: Pod, now_s: float) -> str:
    """Why a terminating pod is not waited for: it is past its grace period by more than patience allows, whoever began
    its deletion (a finalizer, a dead kubelet); empty: it is not terminating, or may still end. `now_s` is unix time."""
    ends_at = unix_of(pod.deletes_at) if pod.deleting else None
    if ends_at is None or now_s < ends_at + PATIENCE_S:
        return ""
    return f"{pod.namespace}/{pod.name} does not end"


def lower_than(priority: int, pods: Iterable[Pod]) -> list[Pod]:
    """Those that might have to leave, most important first: of strictly lower priority, and not protected."""
    lower = (pod for pod in pods if pod.template.priority < priority and not why_protected(pod))
    return sorted(lower, key=importance)


class Budget(NamedTuple):
    """A PodDisruptionBudget that selects somebody, compiled. `version` is its resource version, `allowed` how many
    disruptions it still allows, `disrupted` names the pods that it has counted already."""

    namespace: str
    name: str
    version: int
    matches: LabelTest
    allowed: int
    disrupted: frozenset[str]


def compile_budget(budget: PodDisruptionBudget) -> Budget | None:
    """None for one that protects nobody: without a selector, or with one that selects everything."""
    selector = budget.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    return Budget(
        budget.namespace,
        budget.name,
        budget.version,
        compile_selector(selector).matches,
        budget.disruptions_allowed,
        frozenset(budget.disrupted),
    )


class Budgets:
    """Disruption budgets once they have counted pods that are about to leave.

    They are counted as the API server counts whom it lets be evicted until they are gone: each spends a disruption of
    every budget that selects it, and none when it is asked about again. A pod whose deletion has begun is no longer
    healthy, so a budget that was written after that has counted it: where versions of the two kinds cannot be compared,
    it may be counted twice, or not at all, until it is gone.
    """

    def __init__(self, budgets: Iterable[Budget] = (), leaving: Iterable[Pod] = ()) -> None:
        self._in: dict[str, dict[str, Budget]] = {}
        for each in budgets:
            self._in.setdefault(each.namespace, {})[each.name] = each
        for pod in leaving:
            for each in self.of(pod):
                if pod.name not in each.disrupted and not (pod.deleting and each.version > pod.version):
                    self._in[each.namespace][each.name] = each._replace(
                        allowed=each.allowed - 1, disrupted=each.disrupted | {pod.name}
                    )

    def once_about_to_leave(self, pods: Iterable[Pod]) -> "Budgets":
        """The same once these are about to leave, too."""
        return Budgets((each for named in self._in.values() for each in named.values()), pods)

    def of(self, pod: Pod) -> list[Budget]:
        """Those that select the pod; none does without labels."""
        labels = pod.template.labels
        return [each for each in self._in.get(pod.namespace, {}).values() if each.matches(labels)] if labels else []

    def split(self, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
        """The pods that a budget protects, and the others; both in the order given.

        Each pod in turn spends one disruption of every budget that selects it and has not counted it before, be it
        evicted in the end or not; it is protected if one of them had none left.
        """
        left: dict[tuple[str, str], int] = {}
        protected: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            is_protected = False
            for each in self.of(pod):
                if pod.name not in each.disrupted:
                    key = (each.namespace, each.name)
                    left[key] = left.get(key, each.allowed) - 1
                    is_protected = is_protected or left[key] < 0
            (protected if is_protected else others).append(pod)
        return protected, others


def victims_on(
    node: str,
    lower: Sequence[Pod],
    budgets: Budgets,
    fits: Callable[[Collection[Pod]], bool],
) -> Candidate | None:
    """Who of `lower` (as `lower_than` gives them) has to leave the node; None: it does not help that all of them leave.

    `fits(gone)`: whether the pod fits once those have left. As many as possible stay: those that a budget protects are
    put back first, then the others, the more important first.
    """
    gone = {(pod.namespace, pod.name): pod for pod in lower}
    if not fits(gone.values()):
        return None
    violations = 0
    protected, others = budgets.split(lower)
    for group, cost in ((protected, 1), (others, 0)):
        for pod in group:
            key = (pod.namespace, pod.name)
            del gone[key]
            if not fits(gone.values()):
                gone[key] = pod
                violations += cost
    return Candidate(node, tuple(sorted(gone.values(), key=importance)), violations)


def best_candidate(candidates: Iterable[Candidate]) -> Candidate | None:
    """The cheapest; of equals the first. None without any.

    In turn: fewest protected victims; least important "most important victim"; smallest sum of priorities, each raised
    by 2^31 so that it counts for more to have fewer; fewest victims; latest start among the earliest starts of each
    node's victims of the highest priority.
    """
    best: Candidate | None = None
    for each in candidates:
        if best is None or _is_cheaper(each, best):
            best = each
    return best


def explanation(node_count: int, counts: dict[str, int]) -> str:
    """What is added to a refusal when preemption found nobody: reasons, and on how many nodes each holds.

    A node that was not tried counts for `NOT_HELPFUL`.
    """
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items() if count))
    return f"preemption: 0/{node_count} nodes are available: {listed}."


def _is_cheaper(one: Candidate, other: Candidate) -> bool:
    mine, theirs = _cost(one), _cost(other)
    return mine < theirs or (mine == theirs and _earliest(one) > _earliest(other))


def _cost(candidate: Candidate) -> tuple[int, int, int, int]:
    priorities = [pod.template.priority + _PRIORITY_OFFSET for pod in candidate.victims]
    return (candidate.violations, max(priorities, default=0), sum(priorities), len(priorities))


def _earliest(candidate: Candidate) -> str:
    highest = max((pod.template.priority for pod in candidate.victims), default=0)
    starts = (pod.started or _LAST for pod in candidate.victims if pod.template.priority == highest)
    return min(starts, default=_LAST)
