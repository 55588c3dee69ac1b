"""A site from files like those of the openb trace: a list of nodes and a list of pods, as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from berth.bus.port import Entry
from berth.cli.errors import CliError
from berth.cli.tuning.site import Arrival, Message, Site
from berth.cluster_watcher.core.devices import device_of
from berth.cluster_watcher.core.nodes import node_of
from berth.contracts import buckets, kube, names, subjects
from berth.contracts.base import Message as Contract
from berth.contracts.codec import encode
from berth.device_inventory.core.count import inventory_of
from berth.rules.pod_reading import PodItem
from berth.rules.reading.pods import pod_of
from berth.simcluster.openb import TraceError, TraceNode, TracePod, read_nodes, read_pods

STAY_S = 3600.0
"""On average, where the list has no times: only ratios of stays matter."""
T = TypeVar("T")


def from_trace(
    folder: Path, trace: str, scheduler: str, configuration: str | None, seed: int
) -> tuple[Site, list[Arrival]]:
    """The nodes of `openb_node_list_gpu_node.csv`, and the pods of `openb_pod_list_<trace>.csv`. Raises CliError."""
    try:
        nodes, pods = read_nodes(folder), read_pods(folder, trace)
    except TraceError as error:
        raise CliError(str(error)) from error
    scheduler = scheduler or names.SCHEDULER_NAME
    arrivals, about = _arrivals(pods, scheduler, seed)
    site = Site(
        nodes={each.name: list(_messages(each, at)) for at, each in enumerate(sorted(nodes, key=lambda n: n.name), 1)},
        shapes={each.name: f"{each.gpus} {each.model}, {each.cpu_milli} m, {each.memory_mib} MiB" for each in nodes},
        common=(),
        scheduler=scheduler,
        configuration=configuration,
        about=about,
    )
    return site, arrivals


def _messages(node: TraceNode, version: int) -> Iterator[Message]:
    manifests = node.manifests(index=version)
    yield _state(subjects.named_key("node", node.name), node_of(_read(manifests[0], kube.Node), version))
    if node.gpus:
        device = device_of(_read(manifests[1], kube.Device), version)
        yield _state(subjects.named_key("device", node.name), device)
        value = encode(inventory_of(device))
        yield buckets.INVENTORY, entry(subjects.named_key("node", node.name), value)


def _read(manifest: dict[str, Any], kind: type[T]) -> T:
    return msgspec.json.decode(msgspec.json.encode(manifest), type=kind)


def _state(key: str, message: Contract) -> Message:
    return buckets.STATE, entry(key, encode(message))


def entry(key: str, value: bytes) -> Entry:
    """A message of which nothing matters but what it says."""
    return Entry(key, value, False, 0, 0, False, None, 0.0)


def _arrivals(pods: Sequence[TracePod], scheduler: str, seed: int) -> tuple[list[Arrival], list[str]]:
    """Pods whose times are not known arrive in the order of the list, and stay for times that are drawn."""
    rng = np.random.default_rng(seed)
    is_timed = all(pod.created_s is not None and pod.deleted_s is not None for pod in pods)
    drawn = rng.exponential(STAY_S, len(pods)).tolist()
    found = []
    for at, pod in enumerate(pods):
        created, deleted = pod.created_s, pod.deleted_s
        times = (float(created), float(deleted - created)) if created is not None and deleted is not None else None
        at_s, stay_s = times if is_timed and times is not None else (float(at), drawn[at])
        item = _read({**pod.manifest(), "apiVersion": "v1", "kind": "Pod"}, PodItem)
        template = replace(pod_of(item, 1).template, scheduler=scheduler)
        found.append(Arrival(at_s, template, max(stay_s, 1.0)))
    return found, [] if is_timed else ["the list has no times: pods arrive in its order, and stays are drawn"]
