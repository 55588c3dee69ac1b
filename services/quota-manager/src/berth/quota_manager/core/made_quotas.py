"""ElasticQuotas that Berth makes: the root quota of each profile, and the built-in groups where there are none.

A root quota follows its profile's nodes as long as it carries the label by which Berth's objects are known; one of
another writer is left alone and reported. Built-in groups are made once, and are their users' from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from berth.contracts import names, state
from berth.contracts.command import MANAGER, ApplyObject, PatchObject
from berth.contracts.subjects import command_subject
from berth.quota_manager.core.group import Problem
from berth.quota_manager.core.objects import read_amounts
from berth.quota_manager.core.profiles import Root
from berth.quota_manager.core.writeback import API
from berth.resources.amounts import Amounts, clamped, format_amounts, without_zeros
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP
from berth.rules.quota_trees import RootQuota

PROFILES_API: Final = "quota.koordinator.sh/v1alpha1/elasticquotaprofiles"
NOBODYS_LIMIT: Final = 2**63 // 5
"""The max of the built-in groups, in base units: of cpu a thousandth of it is as much as can be read."""

_encode = msgspec.json.Encoder(order="sorted").encode
_UNLIMITED: Final[dict[str, Any]] = {"max": {"cpu": str(NOBODYS_LIMIT // 1000), "memory": str(NOBODYS_LIMIT)}}
_ROOT_LABELS: Final = {
    names.LABEL_QUOTA_IS_PARENT: "true",
    names.LABEL_QUOTA_LENDS: "false",
    names.LABEL_QUOTA_PARENT: "",
}
BuiltIn: TypeAlias = Mapping[str, tuple[dict[str, str], dict[str, Any]]]
"""Labels and spec of the groups, by name."""
_BUILT_IN: Final[BuiltIn] = {
    ROOT_GROUP: (_ROOT_LABELS, {}),
    SYSTEM_GROUP: ({}, _UNLIMITED),
    DEFAULT_GROUP: ({}, _UNLIMITED),
}


class QuotaObjects:
    """The ElasticQuotas that are there, by where they are."""

    def __init__(self) -> None:
        self._there: dict[str, dict[str, state.ElasticQuota]] = {}  # name -> namespace -> object

    def put(self, quota: state.ElasticQuota) -> None:
        """An ElasticQuota was seen."""
        self._there.setdefault(quota.name, {})[quota.namespace] = quota

    def remove(self, namespace: str, name: str) -> None:
        """An ElasticQuota is gone."""
        self._there.get(name, {}).pop(namespace, None)

    def reset(self) -> None:
        """Forgets everything that was seen."""
        self._there.clear()

    def get(self, namespace: str, name: str) -> state.ElasticQuota | None:
        """The one of this name there."""
        return self._there.get(name, {}).get(namespace)

    def has(self, name: str) -> bool:
        """Whether there is one of this name anywhere."""
        return bool(self._there.get(name))


class Request(NamedTuple):
    """One thing to ask cluster-writer for."""

    subject: str
    command: ApplyObject | PatchObject


class Maker:
    """What has to be asked for now: of one object the same again after `retry_s`, something else after `interval_s`."""

    def __init__(self, interval_s: float, retry_s: float, maxes: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """`maxes`: with which max built-in groups are made, by group; others have nobody's limit."""
        self._built_in = {
            name: (labels, {"max": dict(maxes[name])} if maxes and name in maxes else spec)
            for name, (labels, spec) in _BUILT_IN.items()
        }
        self._interval_s = interval_s
        self._retry_s = retry_s
        self._asked: dict[str, tuple[ApplyObject | PatchObject, float]] = {}

    def requests(
        self, roots: Iterable[Root], objects: QuotaObjects, home: str, now: float, now_ms: int
    ) -> Iterator[Request]:
        """In no order: each stands for itself. `home`: the namespace of the built-in groups; empty: none are made."""
        wanted = [*_root_requests(roots, objects), *(_built_in_requests(self._built_in, objects, home) if home else ())]
        for request in wanted:
            command = request.command
            asked = self._asked.get(request.subject)
            if asked is not None:
                pause_s = self._retry_s if asked[0] == command else self._interval_s
                if now - asked[1] < pause_s:
                    continue
            self._asked[request.subject] = (command, now)
            if isinstance(command, ApplyObject):
                command = msgspec.structs.replace(command, revision=now_ms)
            yield Request(request.subject, command)
        for subject in self._asked.keys() - {request.subject for request in wanted}:
            if now - self._asked[subject][1] >= self._interval_s:
                del self._asked[subject]


def unmade(roots: Iterable[Root], objects: QuotaObjects) -> Iterator[Problem]:
    """The profiles whose root quota is another writer's."""
    for root in roots:
        profile = root.profile
        there = objects.get(profile.namespace, profile.quota)
        if there is not None and not _is_ours(there) and not _says(there, root.quota):
            message = (
                f"quota {profile.quota!r} is not labelled {names.LABEL_MANAGED_BY}: {MANAGER}; it is left as it is"
            )
            yield Problem(f"{profile.namespace}/{profile.name}", "spec.quotaName", message)


def _root_requests(roots: Iterable[Root], objects: QuotaObjects) -> Iterator[Request]:
    for root in roots:
        profile, quota = root.profile, root.quota
        if not root.names_tree:
            patch = PatchObject(
                api=PROFILES_API,
                namespace=profile.namespace,
                name=profile.name,
                uid=root.uid,
                labels={names.LABEL_QUOTA_TREE: profile.tree},
            )
            yield Request(command_subject("patch", "elasticquotaprofiles", patch.namespace, patch.name), patch)
        there = objects.get(profile.namespace, profile.quota)
        if there is not None and (not _is_ours(there) or _says(there, quota)):
            continue
        apply = ApplyObject(
            api=API,
            namespace=profile.namespace,
            name=profile.quota,
            spec={"min": format_amounts(clamped(quota.min)), "max": format_amounts(quota.max)},
            labels=quota.labels,
            annotations={
                names.ANNOTATION_QUOTA_TOTAL: _shown(quota.total),
                names.ANNOTATION_QUOTA_UNSCHEDULABLE: _shown(quota.unschedulable),
            },
        )
        yield _to_apply(apply)


def _built_in_requests(made: BuiltIn, objects: QuotaObjects, home: str) -> Iterator[Request]:
    for name, (labels, spec) in made.items():
        if not objects.has(name):
            apply = ApplyObject(api=API, namespace=home, name=name, spec=spec, labels=labels)
            yield _to_apply(apply)


def _to_apply(command: ApplyObject) -> Request:
    return Request(command_subject("apply", "elasticquotas", command.namespace, command.name), command)


def _is_ours(quota: state.ElasticQuota) -> bool:
    return quota.labels.get(names.LABEL_MANAGED_BY) == MANAGER


def _says(quota: state.ElasticQuota, wanted: RootQuota) -> bool:
    """Whether the object says so already. Zero and absent are equal, but not among the keys of the max."""
    return (
        quota.max == wanted.max
        and without_zeros(quota.min) == without_zeros(clamped(wanted.min))
        and wanted.labels.items() <= quota.labels.items()
        and _annotated(quota, names.ANNOTATION_QUOTA_TOTAL) == without_zeros(clamped(wanted.total))
        and _annotated(quota, names.ANNOTATION_QUOTA_UNSCHEDULABLE) == without_zeros(clamped(wanted.unschedulable))
    )


def _annotated(quota: state.ElasticQuota, name: str) -> Amounts | None:
    amounts = read_amounts(quota.annotations, name)
    return without_zeros(amounts) if isinstance(amounts, dict) else None


def _shown(amounts: Amounts) -> str:
    return _encode(format_amounts(clamped(amounts))).decode()
