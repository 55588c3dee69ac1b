"""What is wrong with a question, by the path of the field. Nothing that somebody asks costs more than its limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.what_if import WhatIfQuestion
from berth.placement_solver.cluster_view import ClusterView
from berth.rules.scheduler_config import DEFAULT

PODS_MAX: Final = 1000
"""Pods that may be supposed, copies counted."""
NODES_MAX: Final = 200
NAME_LENGTH_MAX: Final = 253
TIME_MAX_S: Final = 30.0
SHOWN: Final = 40
PROBLEMS_MAX: Final = 32


def problems_of(cluster: ClusterView, question: WhatIfQuestion) -> list[Problem]:
    """The first of them; none: it can be answered."""
    found: list[Problem] = []
    for field, message in _wrong(cluster, question):
        found.append(Problem(field=field, message=message))
        if len(found) == PROBLEMS_MAX:
            break
    return found


def _wrong(cluster: ClusterView, question: WhatIfQuestion) -> Iterator[tuple[str, str]]:
    if not 0 < question.time_limit_s <= TIME_MAX_S:
        yield "time_limit_s", f"is not between 0 and {TIME_MAX_S:g}"
    yield from _of_pods(cluster, question)
    for index, group in enumerate(question.gangs):
        yield from _of_name(f"gangs[{index}]", group.namespace, group.name)
    if len(question.without_nodes) > NODES_MAX:
        yield "without_nodes", f"names {len(question.without_nodes)} nodes, at most {NODES_MAX} are taken"
    for index, node in enumerate(question.without_nodes[:NODES_MAX]):
        row = cluster.nodes.rows.get(node)
        if row is None or not cluster.nodes.alive[row]:
            yield f"without_nodes[{index}]", f"there is no node {_shown(node)}"
    known = set(cluster.schedulers)
    if question.profile and question.profile not in known:
        listed = ", ".join(sorted(known))
        yield "profile", f"{_shown(question.profile)} is none of the scheduler names {listed} ({DEFAULT.decides})"
    if not (question.pods or question.gangs or question.without_nodes or question.groups):
        yield "pods", "nothing is supposed"


def _of_pods(cluster: ClusterView, question: WhatIfQuestion) -> Iterator[tuple[str, str]]:
    total = 0
    for index, each in enumerate(question.pods):
        path = f"pods[{index}]"
        if each.count < 1:
            yield f"{path}.count", f"{each.count} is less than 1"
        total += max(0, each.count)
        yield from _of_name(f"{path}.pod", each.pod.namespace, each.pod.name)
    if total > PODS_MAX:
        yield "pods", f"{total} pods are supposed, at most {PODS_MAX} are taken"
        return
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(question.pods):
        for name in names_of(each.pod.name, each.count):
            key = (each.pod.namespace, name)
            if key in seen or key in cluster.book.pods:
                yield f"pods[{index}].pod.name", f"there is a pod {_shown(each.pod.namespace)}/{_shown(name)} already"
                break
            seen.add(key)


def _of_name(path: str, namespace: str, name: str) -> Iterator[tuple[str, str]]:
    for field, text in (("namespace", namespace), ("name", name)):
        if not text:
            yield f"{path}.{field}", "is empty"
        elif len(text) > NAME_LENGTH_MAX:
            yield f"{path}.{field}", f"has {len(text)} characters, at most {NAME_LENGTH_MAX} are accepted"


def names_of(name: str, count: int) -> Iterator[str]:
    """The names of so many pods."""
    return iter((name,)) if count == 1 else (f"{name}-{index}" for index in range(count))


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
