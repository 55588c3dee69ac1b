"""Is a kind not installed, or could the question just not be answered?

A 404 to a list proves nothing by itself: a proxy says it, and an API server that is starting. Discovery distinguishes
the two apart. The kinds of Kubernetes itself are always there.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from berth.kube.answer import NOT_INSTALLED, Answer
from berth.kube.api import KubeApi
from berth.kube.resources import Resource

T = TypeVar("T")


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Resources(msgspec.Struct, frozen=True):
    resources: list[_Named]


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, frozen=True):
    versions: list[_Version] = []


class _Groups(msgspec.Struct, frozen=True):
    groups: list[_Group]


async def proven(api: KubeApi, resource: Resource, answer: Answer) -> Answer:
    """The answer to a list; a 404 that discovery confirms has the reason `NOT_INSTALLED`, and `not_installed` is true.

    Asks the server at most twice, and only for a 404 of a kind with a group of its own.
    """
    if answer.missing and resource.group and await _is_absent(api, resource):
        return answer._replace(reason=NOT_INSTALLED)
    return answer


async def _is_absent(api: KubeApi, resource: Resource) -> bool:
    found = await api.discover(f"/apis/{resource.api_version}")
    if found.ok:
        listed = _read(found.body, _Resources)
        return listed is not None and all(each.name != resource.plural for each in listed.resources)
    if not found.missing:
        return False
    groups = await api.discover("/apis")
    served = _read(groups.body, _Groups) if groups.ok else None
    if served is None:
        return False
    return all(each.group_version != resource.api_version for group in served.groups for each in group.versions)


def _read(body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
