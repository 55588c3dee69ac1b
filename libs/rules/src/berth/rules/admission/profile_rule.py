"""Pods as they are created: profiles, and the resources that follow from the class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts import state
from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_PROFILES
from berth.rules.admission import gates
from berth.rules.admission.classes import class_with_default
from berth.rules.admission.conversion import LENT_AS, convert
from berth.rules.admission.draft import Draft, mapping_in
from berth.rules.admission.profile_mark import Mark, original, read_mark, written
from berth.rules.admission.profile_steps import ANNOTATIONS, LABELS, Failed, apply, applying
from berth.rules.admission.profiles import Profile, Profiles
from berth.rules.admission.seam import Case

_MARK: Final = (*ANNOTATIONS, ANNOTATION_PROFILES)


class Outcome(NamedTuple):
    """What the step came to."""

    matched: list[Profile]
    applied: list[Profile]
    failed: Failed | None = None
    counts: Mapping[str, int] = {}
    problems: Iterable[Problem] = ()


def mutate_by_profiles(
    draft: Draft,
    profiles: Profiles,
    *,
    namespace: Mapping[str, str],
    priority_classes: Mapping[str, state.PriorityClass],
    draw: int,
    keeps_resources: bool = False,
    is_again: bool = False,
    converts_overhead: bool = False,
) -> Outcome:
    """Changes a pod as profiles say. Where none matches nothing is changed, resources neither.

    Args:
        draft: the pod, with its labels as they were before any profile.
        profiles: all of them.
        namespace: labels of the pod's namespace.
        priority_classes: by name.
        draw: from 1 to 100.
        keeps_resources: the gate that leaves cpu and memory as they are.
        is_again: its resources were converted before (`convert`).
        converts_overhead: see `convert`.
    """
    matched = profiles.of_pod(draft.labels, namespace)
    if not matched:
        return Outcome([], [])
    applied = applying(matched, draw)
    failed = apply(draft, applied, priority_classes)
    if failed is not None:
        return Outcome(matched, applied, failed)
    if keeps_resources or any(profile.keeps_resources for profile in matched):
        return Outcome(matched, applied)
    lent_as = LENT_AS.get(class_with_default(draft.now))
    if lent_as is None:
        return Outcome(matched, applied)
    counts, problems = convert(draft, lent_as, is_again=is_again, converts_overhead=converts_overhead)
    return Outcome(matched, applied, None, counts, problems)


def run(case: Case) -> None:
    """The rule. See `profile_mark` for why a pod that comes again is first what it was."""
    draft, views = case.draft, case.views
    namespace = case.request.namespace
    mark = read_mark(draft.annotations, views.seal, namespace)
    if isinstance(mark, Problem):
        case.note(mark)
        case.counts["foreign marks"] += 1
        draft.drop(_MARK)
        mark = None
    labels: Mapping[str, str] = draft.labels
    annotations: Mapping[str, str] = {k: v for k, v in draft.annotations.items() if k != ANNOTATION_PROFILES}
    if mark is not None:
        labels, annotations = original(draft.labels, draft.annotations, mark)
        if views.profiles.of_pod(labels, views.namespaces.get(namespace, {})):
            draft.put(LABELS, dict(labels))
            draft.put(ANNOTATIONS, dict(annotations))
    draw = case.draw if mark is None else mark.draw
    outcome = mutate_by_profiles(
        draft,
        views.profiles,
        namespace=views.namespaces.get(namespace, {}),
        priority_classes=views.priority_classes,
        draw=draw,
        keeps_resources=gates.KEEPS_RESOURCES in case.gates,
        is_again=mark is not None,
    )
    if outcome.failed is not None:
        case.refuse(outcome.failed.rule, "", outcome.failed.message)
        return
    if not outcome.matched:
        return
    for problem in outcome.problems:
        case.note(problem)
    case.counts.update(outcome.counts)
    case.counts["profiles"] += len(outcome.applied)
    case.counts["passed over"] += len(outcome.matched) - len(outcome.applied)
    if outcome.counts.get("converted") and mapping_in(draft.now, "spec", "resources"):
        case.warn("spec.resources: amounts of the whole pod stay native, nodes lend to containers alone")
    left = Mark(
        profiles=[profile.name for profile in outcome.applied],
        draw=draw,
        labels=written(labels, draft.labels),
        annotations=written(annotations, draft.annotations),
    )
    draft.put(_MARK, left.text(views.seal, namespace))
