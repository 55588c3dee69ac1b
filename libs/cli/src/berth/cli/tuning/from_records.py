"""A site from what recorder has kept: nodes as they were last, pods of one scheduler name, and how long they stayed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from msgspec.structs import replace

from berth.cli.errors import CliError
from berth.cli.recorded.moment import Moment, moment_of
from berth.cli.recorded.segments import Segment, heads
from berth.cli.recorded.tape import entry_of
from berth.cli.tuning.site import Arrival, Message, Site
from berth.contracts import buckets, names, subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.state import ConfigMap, Node, Pod, PodTemplate
from berth.placement_solver.core.estimates.lifetimes import Lifetimes
from berth.placement_solver.core.estimates.stays import kind_of
from berth.placement_solver.core.profiles import text_in
from berth.recording.records import Entered
from berth.rules.times import unix_of
from berth.transaction.book import FINISHED_PHASES

OF_A_NODE: Final = ("node", "device", "noderesourcetopology")
COMMON: Final = ("namespace",)


class _Life:
    """What was recorded of one pod."""

    def __init__(self, pod: Pod, created_s: float) -> None:
        self.pod = pod
        self.created_s = created_s
        self.began_s: float | None = None
        self.ended_s: float | None = None


def from_records(folder: Path, scheduler: str, configuration: str | None, seed: int) -> tuple[Site, list[Arrival]]:
    """What the folder of recorder's segments has. Raises CliError."""
    listed = heads(folder)
    lives, newest_s = _lives(record for head in listed for record in Segment(head.path).records())
    moment = moment_of(listed, newest_s)
    scheduler = scheduler or min(moment.ground.ground.schedulers, default=names.SCHEDULER_NAME)
    configuration = _configuration(moment) if configuration is None else configuration
    mine = [life for life in lives if life.pod.template.scheduler == scheduler and not _is_of_a_node(life.pod)]
    came = [life for life in mine if life.created_s >= listed[0].began.at_s]
    arrivals, about = _arrivals(came, newest_s, seed)
    if len(mine) > len(came):
        about.append(f"{len(mine) - len(came)} pods had come before anything was recorded, and do not count")
    nodes, shapes, common = _nodes(moment)
    return Site(nodes, shapes, common, scheduler, configuration, about), arrivals


# --- pods ------------------------------------------------------------------------------------------------------------


def _lives(records: Iterable[object]) -> tuple[list[_Life], float]:
    """Every pod that was recorded, in the order of their names, and when the newest message was stored."""
    found: dict[str, _Life] = {}
    by_key: dict[str, _Life] = {}
    newest_s = 0.0
    for record in records:
        if not isinstance(record, Entered):
            continue
        newest_s = max(newest_s, record.stored_s)
        if record.bucket != buckets.STATE or not record.key.startswith("pod."):
            continue
        if record.deleted:
            _end(by_key.pop(record.key, None), record.stored_s)
            continue
        try:
            pod = decode(record.value, Pod)
        except InvalidMessage:
            continue
        life = by_key.get(record.key)
        if life is None or life.pod.uid != pod.uid:
            _end(life, record.stored_s)
            life = found.setdefault(pod.uid, _Life(pod, unix_of(pod.created) or record.stored_s))
            by_key[record.key] = life
        if pod.node and life.began_s is None:
            life.began_s = unix_of(pod.scheduled) or record.stored_s
        if pod.phase in FINISHED_PHASES:
            _end(life, record.stored_s)
    return [found[uid] for uid in sorted(found, key=lambda uid: (found[uid].created_s, uid))], newest_s


def _end(life: _Life | None, at_s: float) -> None:
    if life is not None and life.ended_s is None:
        life.ended_s = at_s


def _is_of_a_node(pod: Pod) -> bool:
    return pod.mirror or any(owner.controller and owner.kind == "DaemonSet" for owner in pod.owners)


def _arrivals(lives: Sequence[_Life], now_s: float, seed: int) -> tuple[list[Arrival], list[str]]:
    """Who still runs, or never ran, stays as long as pods of its kind do, given how long it has stayed."""
    lifetimes = Lifetimes()
    stayed = {id(life): stay for life in lives if (stay := _stay(life)) is not None}
    for life in lives:
        if id(life) in stayed:
            lifetimes.ended(kind_of(life.pod, None), stayed[id(life)])
    if not stayed:
        raise CliError("no pod was recorded from its node to its end: nobody can say how long pods stay")
    ages = {id(each): now_s - each.began_s for each in lives if each.began_s is not None and id(each) not in stayed}
    others = [life for life in lives if id(life) not in stayed]
    kinds = [kind_of(life.pod, None) for life in others]
    running = ((kind, ages[id(life)]) for kind, life in zip(kinds, others, strict=True) if id(life) in ages)
    curves = lifetimes.curves(running, kinds)
    rows = np.array([curves.row(kind) for kind in kinds], np.intp)
    reached = np.array([ages.get(id(life), 0.0) for life in others])
    left = curves.drawn(np.random.default_rng(seed)).left_s(rows, reached)
    longest = max([*stayed.values(), *ages.values()])
    for life, age, more in zip(others, reached.tolist(), left.tolist(), strict=True):
        stayed[id(life)] = age + more if math.isfinite(more) else max(longest, age)
    arrivals = [Arrival(life.created_s, alone(life.pod.template), max(stayed[id(life)], 1.0)) for life in lives]
    assumed = len(others)
    about = [f"{assumed} of {len(lives)} pods had not ended: how long they stay is drawn from pods of their kind"]
    return arrivals, about if assumed else []


def _stay(life: _Life) -> float | None:
    if life.began_s is None or life.ended_s is None:
        return None
    return max(0.0, life.ended_s - life.began_s)


def alone(template: PodTemplate) -> PodTemplate:
    """What counts of a pod that is placed by itself: amounts, devices, and what it says of nodes."""
    affinity = template.affinity
    if affinity is not None:
        affinity = replace(affinity, pod_affinity=None, pod_anti_affinity=None)
    return replace(template, affinity=affinity, topology_spread=[], volumes=[], host_ports=[], gates=[])


# --- nodes -----------------------------------------------------------------------------------------------------------


def _nodes(moment: Moment) -> tuple[dict[str, list[Message]], dict[str, str], list[Message]]:
    nodes: dict[str, list[Message]] = {}
    shapes: dict[str, str] = {}
    common: list[Message] = []
    found = [*moment.values.of(buckets.STATE), *moment.values.of(buckets.INVENTORY), *moment.values.of(buckets.SLO)]
    for each in found:
        if each.deleted:
            continue
        kind, _, rest = each.key.partition(".")
        message = (each.bucket, entry_of(each))
        if kind == "pod":
            if (node := _node_of(each)) is not None:
                nodes.setdefault(node, []).append(message)
        elif each.bucket != buckets.STATE or kind in OF_A_NODE:
            nodes.setdefault(subjects.unescape(rest), []).append(message)
            if each.bucket == buckets.STATE and kind == "node":
                shapes[subjects.unescape(rest)] = _shape(each)
        elif kind in COMMON:
            common.append(message)
    return {name: nodes[name] for name in sorted(shapes)}, shapes, common


def _node_of(entered: Entered) -> str | None:
    """The node of a pod that belongs to it, which every node like it would have; None for all others."""
    try:
        pod = decode(entered.value, Pod)
    except InvalidMessage:
        return None
    return pod.node or None if _is_of_a_node(pod) and pod.phase not in FINISHED_PHASES else None


def _shape(entered: Entered) -> str:
    try:
        node = decode(entered.value, Node)
    except InvalidMessage:
        return ""
    amounts = ", ".join(f"{name} {amount}" for name, amount in sorted(node.allocatable.items()))
    return f"{node.labels.get(names.LABEL_GPU_MODEL, '')}: {amounts}"


def _configuration(moment: Moment) -> str | None:
    """The text that solvers went by: told with their plans, or in a ConfigMap."""
    ground = moment.ground.ground
    if ground.configuration is not None or not ground.config_map:
        return ground.configuration
    namespace, _, name = ground.config_map.partition("/")
    key = subjects.namespaced_key("configmap", namespace, name)
    for each in moment.values.of(buckets.STATE):
        if each.key == key and not each.deleted:
            return text_in(decode(each.value, ConfigMap).data)
    return None
