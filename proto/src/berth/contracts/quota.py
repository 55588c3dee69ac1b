"""QUOTA: how much each quota group may use now, written by quota-manager alone. Limits and mappings, never use."""

from __future__ import annotations

from berth.contracts.base import Message, Problem


class QuotaGroup(Message, frozen=True, kw_only=True, tag="quota.set.v1"):
    """The limits of one group.

    `ancestors` lists the groups above it, nearest first, without the root. `runtime` is what it may use now, `limits`
    the names of resources that it limits at all (the keys of its `max`); a resource not in `limits` is free.
    `revision` rises with every change of `runtime`, `min` or `max` and never falls, also over restarts: an account
    stamp names the newest revision used on it. `namespaces` are mapped to this group when their pods name none.
    `borrows` says that it may go above `min` up to `runtime`; non-preemptible pods may use `min` alone.
    """

    tree: str
    name: str
    revision: int
    parent: str = ""
    ancestors: list[str] = []
    is_parent: bool = False
    limits: list[str] = []
    min: dict[str, int] = {}
    max: dict[str, int] = {}
    runtime: dict[str, int] = {}
    request: dict[str, int] = {}
    lends: bool = True
    namespaces: list[str] = []
    problems: list[Problem] = []
