"""Devices, functions, CPUs: none is given out beyond itself, by annotations, ledger, and the nodes' own word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from berth.invariants.facts import Facts, Holder, amounts_of
from berth.invariants.report import Finding
from berth.invariants.things import GPU, WHOLE, promise_of


def given_beyond(promise: str) -> Callable[[Facts], Iterable[Finding]]:
    """What finds things of this promise of which more than a whole is held, Berth being among the holders."""
    return lambda facts: _shared_beyond(facts, promise)


def _shared_beyond(facts: Facts, promise: str) -> Iterator[Finding]:
    reported = {
        (device.metadata.name, info.type, str(info.minor)): amounts_of(info.resources)
        for device in facts.world.devices
        for info in device.spec.devices
    }
    for node, holders in sorted(facts.on_node.items()):
        held: dict[tuple[str, str, str], list[tuple[Holder, int]]] = {}
        for holder in holders:
            for grant in holder.devices:
                if promise_of(grant.kind) != promise:
                    continue
                for name, amount in grant.amounts.items():
                    held.setdefault((grant.kind, grant.id, name), []).append((holder, amount))
        for (kind, which, name), shares in sorted(held.items()):
            total = sum(amount for _, amount in shares)
            most = WHOLE.get(name, 0) or reported.get((node, kind, which), {}).get(name, 0)
            if most and total > most and any(holder.is_ours for holder, _ in shares):
                listed = ", ".join(f"{holder.text} {amount}" for holder, amount in shares)
                subject = f"node {node}, {kind} {which}"
                yield Finding(subject, f"{subject}: {total} of {most} {name}: {listed}")


def cut_and_whole(facts: Facts) -> Iterator[Finding]:
    """Chips that are cut into sizes for some and given out in another way to others, Berth being among the holders."""
    for node, holders in sorted(facts.on_node.items()):
        ways: dict[str, dict[bool, list[Holder]]] = {}
        for holder in holders:
            for grant in holder.devices:
                if grant.kind == GPU:
                    ways.setdefault(grant.id, {}).setdefault(bool(grant.extension), []).append(holder)
        for which, by_way in sorted(ways.items()):
            if len(by_way) > 1 and any(holder.is_ours for some in by_way.values() for holder in some):
                cut, other = (", ".join(each.text for each in by_way[way]) for way in (True, False))
                subject = f"node {node}, gpu {which}"
                yield Finding(subject, f"{subject}: is cut for {cut}, and given to {other} in another way")


def reported_beyond(facts: Facts) -> Iterator[Finding]:
    """Devices that the nodes themselves say are used beyond a whole."""
    sums: dict[tuple[str, str, str], int] = {}
    users: dict[tuple[str, str, str], list[str]] = {}
    for hold in facts.world.holds:
        key = (hold.node, hold.kind, hold.id)
        sums[key] = sums.get(key, 0) + hold.percent
        users.setdefault(key, []).append(hold.pod_uid)
    for (node, kind, which), percent in sorted(sums.items()):
        if percent > 100:
            listed = ", ".join(users[node, kind, which])
            text = f"node {node} reports {kind} {which} used to {percent} % by {listed}"
            yield Finding(f"node {node}, {kind} {which}", text)


def used_otherwise(facts: Facts) -> Iterator[Finding]:
    """Devices that a node says are used by a pod of Berth which is there and was not given them."""
    by_uid = {seen.uid: seen for seen in facts.pods.values()} if facts.world.holds else {}
    for hold in facts.world.holds:
        seen = by_uid.get(hold.pod_uid)
        if seen is None or not (seen.is_ours and seen.is_live and seen.node == hold.node):
            continue
        picked = facts.picked(seen)
        if hold.kind == GPU and seen.holds_number and not picked:
            continue  # kubelet picks its cards, and does not say which
        given = {(grant.kind, grant.id) for grant in (*seen.devices, *picked)}
        if (hold.kind, hold.id) not in given:
            listed = ", ".join(f"{kind} {which}" for kind, which in sorted(given)) or "none"
            text = f"node {hold.node} reports {hold.kind} {hold.id} used by {seen.text}, which was given {listed}"
            yield Finding(f"node {hold.node}, {hold.kind} {hold.id}, {seen.text}", text)
