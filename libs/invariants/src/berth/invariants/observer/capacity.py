"""Capacity at every moment: sums of what is held, kept up to date claim by claim, compared when something is taken.

Capacity can be lowered after a decision was taken in good faith; so a limit counts with the largest value that it had
within the last `lag_s` in which everybody could see it. Pods of other schedulers count once they are there for so long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.grants import ZONE
from berth.contracts.quota import QuotaRules
from berth.invariants.amounts import SHRINKING
from berth.invariants.counts import Excuse
from berth.invariants.facts import BY_MINOR
from berth.invariants.numa_nodes import subject_of
from berth.invariants.observer.doubt import Doubt
from berth.invariants.observer.holds import Hold, Minor
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.observer.verdicts import Verdicts
from berth.invariants.things import WHOLE, promise_of
from berth.resources.amounts import Amounts
from berth.rules.quota_of_pod import QuotaMap
from berth.rules.quota_payer import charged, payer_of, pays_for, uncharged

NOT_OF_NODES = BY_MINOR | SHRINKING


class Limit:
    """A limit that changes. Former values count until everybody can have seen their successor."""

    __slots__ = ("amounts", "former")

    def __init__(self, amounts: Amounts) -> None:
        self.amounts = amounts
        self.former: list[tuple[float, Amounts]] = []

    def change(self, amounts: Amounts, sight: Sight) -> None:
        """Another value from now on."""
        if amounts != self.amounts:
            self.former = [each for each in self.former if not sight.have_all_seen(each[0])]
            self.former.append((sight.now_s, self.amounts))
            self.amounts = amounts

    def begins(self, now_s: float) -> None:
        """It holds for others than before: until now there was no limit for them."""
        self.former.append((now_s, {}))

    def most(self, name: str, is_seen: Callable[[float], bool]) -> int | None:
        """The largest value that somebody may go by; None: no limit.

        `is_seen`: whether what has replaced a value at a moment is.
        """
        values = [self.amounts.get(name)]
        values += [amounts.get(name) for replaced_s, amounts in self.former if not is_seen(replaced_s)]
        known = [value for value in values if value is not None]
        return max(known) if len(known) == len(values) else None


NOTHING: Final = Limit({})


class Group(NamedTuple):
    """A quota group: its parent and what it may hold; `since_s`: when it came."""

    parent: str
    most: Limit
    non_preemptible: Limit
    since_s: float = 0.0


class Capacity:
    """Who holds what, summed."""

    def __init__(self, verdicts: Verdicts, doubt: Doubt, sight: Sight) -> None:
        self.doubt = doubt
        self.rules = QuotaRules()
        """As quota-manager is set."""
        self.holds: dict[str, Hold] = {}
        self.nodes: dict[str, Limit] = {}
        self.reported: dict[Minor, int] = {}
        """The most that a device ever had of what is not the same for all devices."""
        self._cuts: dict[str, int] = {}
        self.numa_nodes: dict[str, Limit] = {}
        """By node: what its NUMA nodes have, by `id/resource`."""
        self.groups: dict[str, Group] = {}
        self.claims = QuotaMap()
        """Which group pays for a pod whose payer has been deleted."""
        self.on_node: dict[str, dict[str, Hold]] = {}
        self.left: dict[str, list[tuple[float, Hold]]] = {}
        """By node: who held capacity there until a moment ago, and until when."""
        self.says_which: Callable[[Hold], bool] = lambda _: False
        """Whether kubelet has said which cards one has that holds a number."""
        self._left_over: dict[tuple[str, str], int] = {}
        """By promise and subject: what was held beyond a limit when that came, and what was excused since."""
        self._subjects: dict[str, Minor] = {}
        """The resources of NUMA nodes of which something was left over."""
        self._verdicts = verdicts
        self.sight = sight
        self._minors: dict[Minor, int] = {}
        self._amounts: dict[tuple[str, str], int] = {}
        self._charged: dict[tuple[str, str], int] = {}
        self._non_preemptible: dict[tuple[str, str], int] = {}

    def put(self, uid: str, hold: Hold | None) -> None:
        """What this uid holds from now on. A pod that newly holds something is compared with what there is."""
        if hold is not None:
            hold = self._paid(hold)
        old = self.holds.get(uid)
        if old == hold:
            return
        if old is not None:
            self._sum(old, -1)
            del self.on_node[old.node][uid]
            del self.holds[uid]
            if hold is None or hold.node != old.node:
                left = [each for each in self.left.get(old.node, ()) if not self.sight.has_seen(Reader.WRITER, each[0])]
                self.left[old.node] = [*left, (self.sight.now_s, old)]
        if hold is not None:
            self.holds[uid] = hold
            self.on_node.setdefault(hold.node, {})[uid] = hold
            self._sum(hold, 1)
            if old is not None and hold.is_non_preemptible and not old.is_non_preemptible and old.is_bound:
                self._note_protected(hold)
            if self._is_moved(old, hold):
                self._begins(hold.groups)
                self.quotas_changed()
            if hold.is_ours:
                self._compare(hold, is_charged=old is not None and self._was_charged(old, hold))

    def is_known(self, hold: Hold, reader: Reader) -> bool:
        """Whether it must know of this: a pod of ours, or a stranger that has been there for a while."""
        return hold.is_ours or self.sight.has_seen(reader, hold.since_s)

    def _was_charged(self, old: Hold, new: Hold) -> bool:
        """Whether one that is bound now was charged for the same before: nobody looks at its quota again."""
        is_same = (old.groups, old.charged) == (new.groups, new.charged) or self._is_moved(old, new)
        return is_same and new.is_bound and (old.is_bound or not self.doubt.covers((new.uid,)))

    @staticmethod
    def _is_moved(old: Hold | None, new: Hold) -> bool:
        """Whether a bound pod is paid for by another group, since its payer has been deleted: nobody has taken it."""
        return old is not None and old.is_bound and new.is_bound and old.quota == new.quota and old.groups != new.groups

    def _begins(self, groups: tuple[str, ...]) -> None:
        """Groups have come to be charged more: they may go by what they were charged until all have seen that."""
        for group in groups:
            self.groups[group].most.begins(self.sight.now_s)
            self.groups[group].non_preemptible.begins(self.sight.now_s)

    def regroup(self) -> None:
        """Quota groups have come, gone, or moved, or quota-manager is set otherwise: work out anew who is charged what.
        Nobody has taken anything by that."""
        for uid, hold in list(self.holds.items()):
            paid = self._paid(hold)
            if paid != hold:
                self._sum(hold, -1)
                self.holds[uid] = self.on_node[hold.node][uid] = paid
                self._sum(paid, 1)
                if paid.groups[:1] not in (hold.groups[:1], (hold.quota,)):
                    self._begins(paid.groups)

    def _payer(self, hold: Hold) -> str:
        """Who pays for it: who paid at the bind, while that group is there. What nobody paid for, nobody pays for."""
        if not hold.quota or hold.quota in self.groups:
            return hold.quota
        return payer_of(self.claims, hold.quota, hold.named, hold.namespace) or ""

    def _paid(self, hold: Hold) -> Hold:
        """With whom it is charged to, and how much of it."""
        if not pays_for(self.rules, is_deleting=hold.is_deleting):
            return hold._replace(groups=(), charged={})
        paid = charged(hold.amounts, uncharged(self.rules, hold.overhead), hold.surcharge)
        return hold._replace(groups=self.line_of(self._payer(hold)), charged=paid)

    def quotas_changed(self) -> None:
        """Limits have come or sunk, or groups have moved: what is held beyond them now, nobody has taken by mistake."""
        for group, known in self.groups.items():
            for name, most in known.most.amounts.items():
                self._note_left_over("I2", group, name, self._charged.get((group, name), 0), most)
                least = known.non_preemptible.amounts.get(name, most)
                self._note_left_over("I2b", group, name, self._non_preemptible.get((group, name), 0), least)

    def _note_protected(self, hold: Hold) -> None:
        """A bound pod was labelled: what its group's pods of that kind hold now, nobody has taken by mistake."""
        known = self.groups.get(hold.groups[0]) if hold.groups else None
        for name, least in known.non_preemptible.amounts.items() if known is not None else ():
            if hold.charged.get(name):
                group = hold.groups[0]
                self._note_left_over("I2b", group, name, self._non_preemptible.get((group, name), 0), least)

    def is_left_over(self, promise: str, subject: str) -> bool:
        """Whether a group, or the pods of a NUMA node, hold no more beyond its limit than they did when that came."""
        most = self._left_over.get((promise, subject))
        if promise == "I25":
            return most is not None and self._minors.get(self._subjects[subject], 0) <= most
        group, _, name = subject.removeprefix("quota ").partition(", ")
        held = self._charged if promise == "I2" else self._non_preemptible
        return most is not None and held.get((group, name), 0) <= most

    def numa_nodes_changed(self, node: str) -> None:
        """What is held beyond what a NUMA node has now, nobody has taken by mistake."""
        for minor in [each for each in self._minors if each[0] == node and each[1] == ZONE]:
            self._note_numa_node(minor)

    def _note_numa_node(self, minor: Minor) -> None:
        most = self.numa_nodes.get(minor[0], NOTHING).amounts.get(f"{minor[2]}/{minor[3]}", 0)
        subject = subject_of(minor[0], (minor[2], minor[3]))
        self._subjects[subject] = minor
        self._note_left_over_of("I25", subject, self._minors.get(minor, 0), most)

    def _note_left_over(self, promise: str, group: str, name: str, held: int, most: int) -> None:
        self._note_left_over_of(promise, f"quota {group}, {name}", held, most)

    def _note_left_over_of(self, promise: str, subject: str, held: int, most: int) -> None:
        if held > most:
            self._left_over[promise, subject] = held
        else:
            self._left_over.pop((promise, subject), None)

    def unmarked(self, node: str, kinds: frozenset[str], promise: str) -> Iterator[str]:
        """Who is known to hold things of these kinds on a node of which nobody can say which they are."""
        for hold in self.on_node.get(node, {}).values():
            if hold.unknown.isdisjoint(kinds) or self.says_which(hold):
                continue
            if self.is_known(hold, Reader.SOLVER):
                yield hold.text
            else:
                self._verdicts.excused(promise, Excuse.STRANGER)

    def line_of(self, group: str) -> tuple[str, ...]:
        """A group and those above it, as far as they are known."""
        line: list[str] = []
        while group in self.groups and group not in line:
            line.append(group)
            group = self.groups[group].parent
        return tuple(line)

    def _sum(self, hold: Hold, sign: int) -> None:
        for minor, amount in hold.devices:
            _add(self._minors, minor, sign * amount)
        node = hold.node
        if hold.cut:
            self._cuts[node] = self._cuts.get(node, 0) + sign
        for name, amount in hold.amounts.items():
            if name not in NOT_OF_NODES:
                _add(self._amounts, (node, name), sign * amount)
        _add(self._amounts, (node, names.PODS), sign)
        for group in hold.groups:
            for name, amount in hold.charged.items():
                _add(self._charged, (group, name), sign * amount)
        if hold.is_non_preemptible and hold.groups:
            for name, amount in hold.charged.items():
                _add(self._non_preemptible, (hold.groups[0], name), sign * amount)

    # --- comparing: sums first, holders only when a sum is too large ------------------------------------------------

    def _compare(self, hold: Hold, *, is_charged: bool) -> None:
        reader = Reader.WRITER if hold.is_bound else Reader.SOLVER
        for promise in {promise_of(minor[1]) for minor, _ in hold.devices if minor[1] != ZONE}:
            self._verdicts.judged(promise)
        for minor, amount in hold.devices:
            if minor[1] == ZONE:
                continue
            most = WHOLE.get(minor[3], 0) or self.reported.get(minor, 0)
            if amount and most and self._minors[minor] > most:
                subject = f"node {minor[0]}, {minor[1]} {minor[2]}"
                self.beyond(promise_of(minor[1]), subject, minor[3], most, self._of_minor(minor), reader)
        if self._cuts.get(hold.node):
            self._compare_cuts(hold, reader)
        if not hold.is_bound:
            self._compare_numa_nodes(hold)
        limit = self.nodes.get(hold.node)
        if limit is not None:
            self._compare_node(hold, limit, reader)
        if is_charged:
            return
        for position, group in enumerate(hold.groups):
            self._compare_group(hold, group, is_own=position == 0)

    def _compare_cuts(self, hold: Hold, reader: Reader) -> None:
        """Whoever has a part of the same chip has it in the same way."""
        for which in hold.chips:
            self._verdicts.judged("I27")
            for other in self.on_node[hold.node].values():
                if which not in other.chips or (which in hold.cut) == (which in other.cut):
                    continue
                if not self.is_known(other, reader):
                    self._verdicts.excused("I27", Excuse.STRANGER)
                elif self.doubt.covers((hold.uid, other.uid)) and not (hold.is_bound and other.is_bound):
                    self._verdicts.excused("I27", Excuse.LOSS)
                else:
                    subject = f"node {hold.node}, gpu {which}"
                    text = f"{subject}: is cut into sizes, and {hold.text} and {other.text} have it in different ways"
                    self._verdicts.add("I27", subject, text)

    def _compare_numa_nodes(self, hold: Hold) -> None:
        """By decisions: a bind takes nothing anew."""
        limit = self.numa_nodes.get(hold.node, NOTHING)
        for minor, amount in hold.devices:
            if minor[1] != ZONE or not amount:
                continue
            self._verdicts.judged("I25")
            share, total = f"{minor[2]}/{minor[3]}", self._minors[minor]
            if total <= limit.amounts.get(share, 0):
                continue
            most = max(_every(limit, share, self._seen_by(Reader.INVENTORY)))
            if total <= most:
                self._verdicts.excused("I25", self._why(total, max(_every(limit, share, self._is_old))))
                self._note_numa_node(minor)
            else:
                subject = f"node {minor[0]}, NUMA node {minor[2]}"
                self.beyond("I25", subject, minor[3], most, self._of_minor(minor), Reader.SOLVER)

    def _compare_node(self, hold: Hold, limit: Limit, reader: Reader) -> None:
        node = hold.node
        self._verdicts.judged("I1b")
        for name, amount in (*hold.amounts.items(), (names.PODS, 1)):
            if amount <= 0 or name in NOT_OF_NODES:
                continue
            total = self._amounts[node, name]
            if total > limit.amounts.get(name, 0):
                most = self._most_of_node(limit, name, total, self._seen_by(reader))
                if total <= most:
                    self._verdicts.excused(
                        "I1b", self._why(total, self._most_of_node(limit, name, total, self._is_old))
                    )
                else:
                    self.beyond("I1b", f"node {node}", name, most, self._of_node(node, name), reader)

    @staticmethod
    def _most_of_node(limit: Limit, name: str, total: int, is_seen: Callable[[float], bool]) -> int:
        most = limit.most(name, is_seen)
        if most is None:
            # A node that does not say how many pods it takes takes any number, but nothing of what it lacks.
            most = total if name == names.PODS else max(_every(limit, name, is_seen))
        return most

    def _seen_by(self, reader: Reader) -> Callable[[float], bool]:
        return lambda at_s: self.sight.has_seen(reader, at_s)

    def _is_old(self, at_s: float) -> bool:
        """Whether everybody would have seen it, were it not for faults."""
        return self.sight.now_s - at_s > self.sight.lag_s

    @staticmethod
    def _why(total: int, most: int | None) -> Excuse:
        """Why so much is no mistake. `most`: all that would be allowed, were it not for faults."""
        return Excuse.UNSEEN if most is None or total <= most else Excuse.HIDDEN

    def _compare_group(self, hold: Hold, group: str, *, is_own: bool) -> None:
        known = self.groups.get(group)
        if known is None:
            return
        is_seen = self._seen_by(Reader.QUOTA)
        for name, amount in hold.charged.items():
            if amount <= 0 or name not in known.most.amounts:
                continue
            self._verdicts.judged("I2")
            if self._charged[group, name] > known.most.amounts[name]:
                most, total = known.most.most(name, is_seen), self._charged[group, name]
                if most is None or total <= most:
                    self._verdicts.excused("I2", self._why(total, known.most.most(name, self._is_old)))
                    self._note_left_over("I2", group, name, total, known.most.amounts[name])
                else:
                    holders = self._of_group(group, name, non_preemptible=False)
                    self.beyond("I2", f"quota {group}", name, most, holders, Reader.QUOTA)
            if is_own and hold.is_non_preemptible and name in known.non_preemptible.amounts:
                self._verdicts.judged("I2b")
                total = self._non_preemptible[group, name]
                if total <= known.non_preemptible.amounts[name]:
                    continue
                most = known.non_preemptible.most(name, is_seen)
                if most is None or total <= most:
                    self._verdicts.excused("I2b", self._why(total, known.non_preemptible.most(name, self._is_old)))
                    self._note_left_over("I2b", group, name, total, known.non_preemptible.amounts[name])
                else:
                    holders = self._of_group(group, name, non_preemptible=True)
                    self.beyond("I2b", f"quota {group}", name, most, holders, Reader.QUOTA)

    def beyond(
        self,
        promise: str,
        subject: str,
        resource: str,
        most: int,
        holders: Callable[[], Iterator[tuple[Hold, int]]],
        reader: Reader,
    ) -> None:
        """More is held than there is: a mistake, unless strangers that are not seen yet, or a loss, explain it."""
        held = [(hold, amount) for hold, amount in holders() if amount and self.is_known(hold, reader)]
        if sum(amount for _, amount in held) <= most:
            self._verdicts.excused(promise, Excuse.STRANGER)
            return
        # A decision that is in doubt may overlap with others, before and after it is bound; bound pods may not.
        for counted in (
            [each for each in held if not self.doubt.covers((each[0].uid,))],
            [each for each in held if each[0].is_bound],
        ):
            total = sum(amount for _, amount in counted)
            if total > most:
                listed = ", ".join(
                    f"{hold.text}{'' if hold.is_bound else ' (decided)'} {amount}" for hold, amount in counted[:20]
                )
                text = f"{subject}: {total} of {most} {resource}: {listed}"
                self._verdicts.add(promise, f"{subject}, {resource}", text)
                return
        self._verdicts.excused(promise, Excuse.LOSS)

    def _of_minor(self, minor: Minor) -> Callable[[], Iterator[tuple[Hold, int]]]:
        def holders() -> Iterator[tuple[Hold, int]]:
            for hold in self.on_node.get(minor[0], {}).values():
                yield hold, sum(amount for each, amount in hold.devices if each == minor)

        return holders

    def _of_node(self, node: str, name: str) -> Callable[[], Iterator[tuple[Hold, int]]]:
        def holders() -> Iterator[tuple[Hold, int]]:
            for hold in self.on_node.get(node, {}).values():
                yield hold, 1 if name == names.PODS else hold.amounts.get(name, 0)

        return holders

    def _of_group(self, group: str, name: str, *, non_preemptible: bool) -> Callable[[], Iterator[tuple[Hold, int]]]:
        def holders() -> Iterator[tuple[Hold, int]]:
            for hold in self.holds.values():
                if group in hold.groups and (
                    not non_preemptible or (hold.is_non_preemptible and hold.groups[0] == group)
                ):
                    yield hold, hold.charged.get(name, 0)

        return holders


def _every(limit: Limit, name: str, is_seen: Callable[[float], bool]) -> list[int]:
    former = [amounts.get(name, 0) for replaced_s, amounts in limit.former if not is_seen(replaced_s)]
    return [limit.amounts.get(name, 0), *former]


def _add(sums: dict[Minor, int] | dict[tuple[str, str], int], key: object, amount: int) -> None:
    total = sums.get(key, 0) + amount  # type: ignore[call-overload]
    if total:
        sums[key] = total  # type: ignore[index]
    else:
        sums.pop(key, None)  # type: ignore[call-overload]
