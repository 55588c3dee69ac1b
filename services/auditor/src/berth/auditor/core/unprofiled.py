"""Pods that a ClusterColocationProfile selects, and that were created without it: the webhook was away.

Told apart from pods that are older than the profile by what the API server says of both times. A profile that was
changed, and not only made, is judged by pods that came after it was first seen as it is, since no object says when that
was. A pod with the webhook's mark was asked about; whether the mark is genuine only replicas of the webhook can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from berth.auditor.core.objects import Lists
from berth.contracts import kube, names
from berth.contracts.base import Problem
from berth.invariants import Finding
from berth.rules.admission.profiles import ALWAYS, Profile, read_profile
from berth.rules.webhooks import SPARED, entry_of_profile

NAMED_MAX = 5
_Label = tuple[str, str]


class _Judged(NamedTuple):
    profile: Profile
    since: str
    """Of pods that were created later, by the API server's clock."""


class Unprofiled:
    """Looks again and again; remembers since when each profile says what it says."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, str | None]] = {}
        """Of profiles that were changed: which generation, and of which pods on it is judged."""

    def look(self, lists: Lists) -> list[Finding]:
        """One finding for each profile and namespace."""
        judged = list(self._judged(lists))
        namespaces = {each.metadata.name: each.metadata.labels or {} for each in lists.namespaces}
        by_label: defaultdict[_Label, list[_Judged]] = defaultdict(list)
        others: list[_Judged] = []
        for each, label in judged:
            (others if label is None else by_label[label]).append(each)
        missed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for pod in lists.pods if judged else ():
            meta = pod.metadata
            if not _is_concerned(meta):
                continue
            labels = meta.labels or {}
            found = chain(others, *(by_label[label] for label in labels.items() if label in by_label))
            for profile, since in found:
                if (
                    (meta.creation_timestamp or "") > since
                    and profile.matches(labels)
                    and profile.matches_namespace(namespaces.get(meta.namespace, {}))
                ):
                    missed[profile.name, meta.namespace].append(meta.name)
        return [_finding(profile, namespace, pods) for (profile, namespace), pods in sorted(missed.items())]

    def _judged(self, lists: Lists) -> Iterator[tuple[_Judged, _Label | None]]:
        """Profiles that every pod which they select has to have, and a label that such a pod has.

        Without an entry the webhook is not called for a profile: another one may be.
        """
        before, self._since = self._since, {}
        for configuration in lists.webhooks:
            entries = {entry.get("name") for entry in configuration.webhooks or ()}
            for item in lists.profiles:
                meta = item.metadata
                profile = read_profile(meta.name, meta.annotations or {}, item.spec or {})
                since = self._asked_since(item, before.get(meta.uid), lists.pods)
                if (
                    isinstance(profile, Problem)
                    or profile.probability < ALWAYS
                    or entry_of_profile(meta.name) not in entries
                    or since is None
                ):
                    continue
                since = max(since, configuration.metadata.creation_timestamp or "")
                yield _Judged(profile, since), _label_of(item.spec or {})

    def _asked_since(
        self, item: kube.ClusterColocationProfile, before: tuple[int, str | None] | None, pods: list[kube.Pod]
    ) -> str | None:
        """None: not known yet."""
        meta = item.metadata
        if meta.generation <= 1:
            return meta.creation_timestamp or ""
        since = None
        if before is not None and before[0] == meta.generation:
            newest = max((pod.metadata.creation_timestamp or "" for pod in pods), default="")
            since = newest if before[1] is None else before[1]
        self._since[meta.uid] = meta.generation, since
        return since


def _is_concerned(meta: kube.Meta) -> bool:
    notes = meta.annotations or {}
    return (
        meta.namespace not in SPARED
        and not meta.deletion_timestamp
        and names.ANNOTATION_PROFILES not in notes
        and names.ANNOTATION_MIRROR not in notes
    )


def _label_of(spec: Mapping[str, object]) -> _Label | None:
    """A label that whatever the profile selects has; None: it asks for none by name and value."""
    selector = spec.get("selector")
    labels = selector.get("matchLabels") if isinstance(selector, dict) else None
    return next(iter(labels.items()), None) if labels else None


def _finding(profile: str, namespace: str, pods: list[str]) -> Finding:
    named = ", ".join(sorted(pods)[:NAMED_MAX]) + (", ..." if len(pods) > NAMED_MAX else "")
    text = f"profile {profile} selects pods of {namespace} that were created without it, {len(pods)} of them: {named}"
    return Finding(f"profile {profile}, namespace {namespace}", text)
