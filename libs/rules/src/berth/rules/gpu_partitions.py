"""Nodes whose GPUs are given out in partitions only: groups that share a fast link, or that nothing else may be cut to.

A node says so by a label. Pods that take a part of a card are not concerned. Choosing a partition is not done here.
"""

from collections.abc import Mapping
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.names import LABEL_GPU_PARTITION_POLICY
from berth.rules.gpu_request import normalise_gpu, per_card

HONOR: Final = "Honor"
REASON: Final = f"node(s) give out whole GPUs in partitions only, unsupported: {LABEL_GPU_PARTITION_POLICY}={HONOR}"


def only_partitions(node_labels: Mapping[str, str]) -> bool:
    """Whether whole GPUs of the node must be taken as a partition; every other value of the label is a preference."""
    return node_labels.get(LABEL_GPU_PARTITION_POLICY) == HONOR


def takes_whole_gpus(requests: Mapping[str, int]) -> bool:
    """Whether a pod of these requests takes whole cards; a request that is refused anyway does not."""
    normalised = normalise_gpu(requests)
    return bool(normalised) and not isinstance(normalised, Problem) and not per_card(normalised).shared
