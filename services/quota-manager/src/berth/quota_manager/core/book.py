"""What pods ask for and hold, added up as they come and go.

A pod is booked in a *class*: who paid at its bind, its quota label, or else its namespace. All pods of a class belong
to one group, so when quotas change only classes are mapped anew, never pods. Sums are over every resource of the pods;
a group reduces them to the resources of its max. Per pod the book keeps one small tuple; pods of one shape share it.
"""

from typing import Final, NamedTuple

from berth.resources.amounts import Amounts

SHAPES_MIN: Final = 1024
"""Shapes that no pod has any more are dropped from so many on."""


class ClassKey(NamedTuple):
    """What decides who pays: the quota label, or the namespace of pods without it; and who paid at the bind, if that
    is another."""

    label: str
    namespace: str = ""
    paid: str = ""


class Claim(NamedTuple):
    """What one pod counts for. `amounts` are sorted pairs, so that equal claims are equal and can be shared."""

    amounts: tuple[tuple[str, int], ...]
    is_assigned: bool
    is_non_preemptible: bool


class Sums(NamedTuple):
    """The four figures of a set of pods. The dictionaries are changed in place and hold no zeros."""

    request: Amounts
    used: Amounts
    np_request: Amounts
    np_used: Amounts

    @classmethod
    def empty(cls) -> "Sums":
        """Four times nothing."""
        return cls({}, {}, {}, {})


class PodClass:
    """The sums of one class of pods, and what of them its group has taken over already."""

    __slots__ = ("key", "pods", "sums", "taken", "waiting")

    def __init__(self, key: ClassKey) -> None:
        self.key = key
        self.pods = 0
        self.waiting = 0
        """Of them, those that have no node."""
        self.sums = Sums.empty()
        self.taken = Sums.empty()

    def take(self) -> Sums:
        """The difference to what was taken before; from now on all of it is taken."""
        difference = Sums(*(_difference(now, before) for now, before in zip(self.sums, self.taken, strict=True)))
        self.taken = Sums(*(dict(now) for now in self.sums))
        return difference


class Book:
    """All pods that count. The same news twice changes nothing; `touched` collects the classes whose sums changed."""

    def __init__(self) -> None:
        self.classes: dict[ClassKey, PodClass] = {}
        self.touched: set[ClassKey] = set()
        self._pods: dict[str, tuple[PodClass, Claim]] = {}
        self._shapes: dict[Claim, Claim] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def put(self, pod: str, key: ClassKey, claim: Claim) -> None:
        """Books a pod, replacing what was booked under the same key."""
        old = self._pods.get(pod)
        if old is not None:
            if old[0].key == key and old[1] == claim:
                return
            self._add(old[0], old[1], -1)
        if len(self._shapes) > 2 * len(self._pods) + SHAPES_MIN:
            self._shapes = {claim: claim for _, claim in self._pods.values()}
        claim = self._shapes.setdefault(claim, claim)
        pod_class = self.classes.get(key)
        if pod_class is None:
            pod_class = self.classes[key] = PodClass(key)
        self._pods[pod] = (pod_class, claim)
        self._add(pod_class, claim, 1)

    def remove(self, pod: str) -> None:
        """Takes a pod off, if it was booked."""
        old = self._pods.pop(pod, None)
        if old is not None:
            self._add(old[0], old[1], -1)
            if not self._pods:
                self._shapes.clear()

    def clear(self) -> None:
        """Forgets every pod."""
        self.touched.update(self.classes)
        self.classes.clear()
        self._pods.clear()
        self._shapes.clear()

    def forget_idle(self) -> None:
        """Drops classes without pods; to be called when no group depends on them any more."""
        for key in [key for key, pod_class in self.classes.items() if not pod_class.pods]:
            del self.classes[key]
        if len(self._shapes) > 2 * len(self._pods):
            self._shapes = {claim: claim for _, claim in self._pods.values()}

    def _add(self, pod_class: PodClass, claim: Claim, sign: int) -> None:
        pod_class.pods += sign
        if not claim.is_assigned:
            pod_class.waiting += sign
        self.touched.add(pod_class.key)
        sums = pod_class.sums
        totals = [sums.request]
        if claim.is_assigned:
            totals.append(sums.used)
        if claim.is_non_preemptible:
            totals.append(sums.np_request)
            if claim.is_assigned:
                totals.append(sums.np_used)
        for total in totals:
            for name, amount in claim.amounts:
                left = total.get(name, 0) + sign * amount
                if left:
                    total[name] = left
                else:
                    total.pop(name, None)


def _difference(now: Amounts, before: Amounts) -> Amounts:
    return {
        name: now.get(name, 0) - before.get(name, 0)
        for name in dict.fromkeys((*now, *before))
        if now.get(name, 0) != before.get(name, 0)
    }
