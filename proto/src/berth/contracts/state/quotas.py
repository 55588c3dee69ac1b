"""Quota groups, and the pools of nodes that they are for."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Problem
from berth.contracts.kube import LabelSelector
from berth.contracts.state.amounts import Amounts


class ElasticQuota(Message, frozen=True, kw_only=True, tag="elasticquota.seen.v1"):
    """An ElasticQuota: a group of the quota tree; labels and annotations carry its place and settings.

    An amount of `min` or `max` that cannot be read is 0, since without it the resource would be free.
    """

    namespace: str
    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    min: Amounts = {}
    max: Amounts = {}
    used: Amounts = {}
    created: str = ""
    deleting: bool = False
    problems: list[Problem] = []


class ElasticQuotaProfile(Message, frozen=True, kw_only=True, tag="elasticquotaprofile.seen.v1"):
    """An ElasticQuotaProfile: the root quota of a tree, and the nodes of that tree. `ratio` is as it is written."""

    namespace: str
    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    quota_name: str = ""
    quota_labels: dict[str, str] = {}
    ratio: str = ""
    selector: LabelSelector | None = None
    deleting: bool = False
    problems: list[Problem] = []
