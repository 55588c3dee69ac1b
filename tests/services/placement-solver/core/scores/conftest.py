"""A cluster for scores alone: nodes as columns, pods charged to them, without a book."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from berth.contracts import names
from berth.contracts.kube import Affinity, PodSpec, Taint, Toleration
from berth.contracts.state import Node, Pod, PodTemplate
from berth.placement_solver.core.images import Images
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import RowArray, Score, Spec
from berth.placement_solver.core.tallies.charges import Charges
from berth.placement_solver.core.tallies.scored import ScoredTally
from berth.resources.amounts import Amounts, parse_amounts
from berth.resources.pod_request import request_of, scored_of
from berth.transaction.claims import Claim, Name, of_pod


class Scoring:
    """Nodes, images and what is charged."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.images = Images()
        self.pods: dict[Name, Pod] = {}
        self.tally = ScoredTally(self.nodes)
        self.charges = Charges(self.pods.get)
        self.charges.tell(self.tally)

    def node(self, name: str, allocatable: Amounts | None = None, **fields: Any) -> int:
        """A node; its row."""
        node = Node(name=name, uid=name, version=1, allocatable=allocatable or {}, **fields)
        self.nodes.see_node(name, node)
        row = self.nodes.row(name)
        self.images.see(row, node.images)
        return row

    def api_node(self, given: Mapping[str, Any]) -> None:
        """A node as the API has it."""
        status = given.get("status", {})
        self.node(
            given["metadata"]["name"],
            parse_amounts(status.get("allocatable"), "allocatable")[0],
            labels=given["metadata"].get("labels", {}),
            taints=msgspec.convert(given.get("spec", {}).get("taints", []), list[Taint]),
            images={name: image["sizeBytes"] for image in status.get("images", []) for name in image["names"]},
        )

    def charge(self, pod: Pod, sign: int = 1) -> Claim:
        """Charge a bound pod, or give it back."""
        self.pods[pod.namespace, pod.name] = pod
        claim = of_pod(pod)
        self.nodes.take(self.nodes.row(claim.node), claim.amounts, sign)
        self.apply(claim, sign)
        return claim

    def apply(self, claim: Claim, sign: int) -> None:
        """Charge a claim in the tally alone, or give it back."""
        self.charges.apply(claim, self.nodes.row(claim.node), sign)

    def scores(
        self, score: Score[Any], template: PodTemplate, rows: RowArray | None = None
    ) -> list[tuple[int, int]] | None:
        """Rating and score of each row; None where the pod is not rated."""
        query = score.prescore(Spec(("default", "p"), "default", "p", template))
        if query is None:
            return None
        rows = np.arange(len(self.nodes)) if rows is None else rows
        raw = score.raw(query, rows)
        normalised = score.normalise(query, raw, rows)
        return [(int(a), int(b)) for a, b in zip(raw, normalised, strict=True)]


def template_of(given: Mapping[str, Any]) -> PodTemplate:
    """What of a pod of the API scores read."""
    spec = msgspec.convert(given["spec"], PodSpec)
    requests, problems = request_of(spec)
    assert problems == []
    containers = [*given["spec"].get("containers", []), *given["spec"].get("initContainers", [])]
    return PodTemplate(
        requests=requests,
        scored=scored_of(spec, requests),
        affinity=msgspec.convert(given["spec"].get("affinity", {}), Affinity),
        tolerations=msgspec.convert(given["spec"].get("tolerations", []), list[Toleration]),
        images=[each["image"] for each in containers if "image" in each],
        scheduler=names.SCHEDULER_NAME,
    )


def world_of(case: Mapping[str, Any]) -> tuple[Scoring, PodTemplate]:
    """The cluster of a case, and the pod that waits."""
    world = Scoring()
    for node in case["given"]["nodes"]:
        world.api_node(node)
    for each in case["given"].get("pods", []):
        name = each["metadata"]["name"]
        world.charge(
            Pod(
                namespace="default",
                name=name,
                uid=name,
                version=1,
                node=each["spec"]["nodeName"],
                template=template_of(each),
            )
        )
    return world, template_of(case["given"]["pod"])


@pytest.fixture(scope="session")
def scoring() -> type[Scoring]:
    """The type, so that property tests make one per example."""
    return Scoring


@pytest.fixture(scope="session")
def world() -> Any:
    """Reads a case."""
    return world_of
