"""Lists of pods of the openb trace. One whose file is not there is made from the default list as its name says.

`cpu250`: 25.0 % of the pods ask for no GPU. `gpushare60`: 60 % of the GPUs are asked for in shares. `multigpu50`: 50 %
by pods of several GPUs. `gpuspec33`: 33 % of the pods with GPUs are bound to models, as those of `gpuspec10` are. The
lists that are there are made so as well, from other pods drawn: figures of one that is made are near those of the
published one of its name, and are not the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from berth.simcluster.generate.build import PodRequest
from berth.simcluster.openb import TracePod, read_nodes, read_pods

SEED: Final = 1
TRACES: Final = (
    *("default", "cpu050", "cpu100", "cpu200", "cpu250"),
    *("gpushare40", "gpushare60", "gpushare80", "gpushare100"),
    *("multigpu20", "multigpu30", "multigpu40", "multigpu50"),
    *("gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33"),
)
"""Those of the publication."""


def is_there(folder: Path, trace: str) -> bool:
    """Whether the list is a file; else it is made."""
    return (folder / f"openb_pod_list_{trace}.csv").exists()


def pods_of(folder: Path, trace: str) -> list[TracePod]:
    """The pods of a list."""
    if is_there(folder, trace):
        return read_pods(folder, trace)
    found = re.fullmatch(r"(cpu|gpushare|multigpu|gpuspec)(\d+)", trace)
    if found is None:
        return read_pods(folder, trace)  # which says what is missing
    kind, part = found[1], int(found[2]) / (1000.0 if found[1] == "cpu" else 100.0)
    rng = np.random.default_rng([SEED, *trace.encode()])
    pods = read_pods(folder, "default")
    if kind == "cpu":
        made = _share(pods, lambda pod: not pod.request.gpus, lambda pod: 1.0, part, rng)
    elif kind == "gpushare":
        made = _share(pods, _is_share, _gpus, part, rng)
        made = _as_many(made, len(pods), rng)
    elif kind == "multigpu":
        made = _share(pods, lambda pod: pod.request.gpus > 1, _gpus, part, rng)
    else:
        made = _bound(folder, pods, part, rng)
    order = rng.permutation(len(made)).tolist()
    return [made[at]._replace(name=f"openb-pod-{place:04}") for place, at in enumerate(order)]


def _is_share(pod: TracePod) -> bool:
    return pod.request.gpus == 1 and pod.request.gpu_milli < 1000


def _gpus(pod: TracePod) -> float:
    return pod.request.gpus * pod.request.gpu_milli / 1000.0


def _share(
    pods: Sequence[TracePod],
    is_of: Callable[[TracePod], bool],
    weight: Callable[[TracePod], float],
    part: float,
    rng: np.random.Generator,
) -> list[TracePod]:
    """As many of some pods, drawn, that they are this part of the weight of all; the others stay as they are."""
    some, others = [pod for pod in pods if is_of(pod)], [pod for pod in pods if not is_of(pod)]
    if part >= 1.0:
        return [pod for pod in pods if is_of(pod) or not weight(pod)]
    wanted = part / (1.0 - part) * sum(map(weight, others))
    drawn: list[TracePod] = []
    has = 0.0
    for at in rng.permutation(len(some)).tolist():
        if has >= wanted:
            break
        drawn.append(some[at])
        has += weight(some[at])
    while has < wanted:
        drawn.append(some[int(rng.integers(len(some)))])
        has += weight(drawn[-1])
    return [*drawn, *others]


def _as_many(pods: Sequence[TracePod], count: int, rng: np.random.Generator) -> list[TracePod]:
    """At most so many, in the same proportions, without touching those that ask for no GPU."""
    plain, others = [pod for pod in pods if not pod.request.gpus], [pod for pod in pods if pod.request.gpus]
    most = max(0, count - len(plain))
    if len(others) <= most:
        return [*plain, *others]
    return [*plain, *(others[at] for at in rng.permutation(len(others))[:most].tolist())]


def _bound(folder: Path, pods: Sequence[TracePod], part: float, rng: np.random.Generator) -> list[TracePod]:
    cards: dict[str, int] = {}
    for node in read_nodes(folder):
        cards[node.model] = max(node.gpus, cards.get(node.model, 0))
    sets = [pod.request.models for pod in read_pods(folder, "gpuspec10") if pod.request.models]
    with_gpus = [at for at, pod in enumerate(pods) if pod.request.gpus]
    bound = set(rng.permutation(with_gpus)[: round(part * len(with_gpus))].tolist())
    return [
        pod._replace(request=_drawn(pod.request, sets, cards, rng)) if at in bound else pod
        for at, pod in enumerate(pods)
    ]


def _drawn(
    request: PodRequest, sets: Sequence[tuple[str, ...]], cards: dict[str, int], rng: np.random.Generator
) -> PodRequest:
    """Bound to models of which one has nodes with so many cards; as it is where none has."""
    fit = [models for models in sets if any(cards.get(model, 0) >= request.gpus for model in models)]
    return request._replace(models=fit[int(rng.integers(len(fit)))]) if fit else request
