"""Which processes the kernel kills first when memory runs out: the scores that pods ask for by annotation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_OOM_SCORE, ANNOTATION_OOM_SCORES, LABEL_LOW_OOM_SCORES
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.qos import BEST_EFFORT, GUARANTEED

LOWEST: Final = -1000
HIGHEST: Final = 1000
_KUBELET_GUARANTEED: Final = -997
_KUBELET_BURSTABLE_MIN: Final = 3
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,6}")


def score_of(annotations: Mapping[str, str], container: str) -> int | Problem | None:
    """The score that a pod asks for a container: its own, else that of the pod; None: none.

    A text that is none is a problem even where another text says it: whoever wrote it meant something.
    """
    score: int | None = None
    text = annotations.get(ANNOTATION_OOM_SCORE)
    if text:
        if not _INTEGER.fullmatch(text) or not LOWEST <= int(text) <= HIGHEST:
            return _refused(annotation_field(ANNOTATION_OOM_SCORE), text)
        score = int(text)
    scores = read_annotation(annotations, ANNOTATION_OOM_SCORES, dict[str, int])
    if isinstance(scores, Problem):
        return scores
    if scores is None or container not in scores:
        return score
    if not LOWEST <= scores[container] <= HIGHEST:
        return _refused(f"{annotation_field(ANNOTATION_OOM_SCORES)}[{container}]", str(scores[container]))
    return scores[container]


def allowed(score: int, container: str, *, of_kubelet: int, may_lower: bool) -> int | Problem:
    """A score that is asked for, unless it has others die first and the pod's namespace may not do so."""
    if score < of_kubelet and not may_lower:
        return Problem(
            field=f"containers[{container}].oom_score_adj",
            message=f"{score} is below kubelet's {of_kubelet}: its namespace has no label {LABEL_LOW_OOM_SCORES}",
        )
    return min(max(score, LOWEST), HIGHEST)


def score_of_kubelet(kube_qos: str, *, memory_request: int, memory_capacity: int) -> int:
    """The score that kubelet gives a container by itself: by its pod's class, and among Burstable ones the higher, the
    less of the node's memory it asks for."""
    if kube_qos == GUARANTEED:
        return _KUBELET_GUARANTEED
    if kube_qos == BEST_EFFORT or memory_capacity <= 0:
        return HIGHEST
    score = HIGHEST - HIGHEST * memory_request // memory_capacity
    return min(max(score, _KUBELET_BURSTABLE_MIN), HIGHEST - 1)


def _refused(field: str, text: str) -> Problem:
    return Problem(field=field[:300], message=f"is no integer within {LOWEST}..{HIGHEST}: {text[:60]!r}")
