"""What is filled in and refused when pods are created."""

from __future__ import annotations

from typing import Any

from berth.contracts.base import Integer, Message, Problem


class ClusterColocationProfile(Message, frozen=True, kw_only=True, tag="clustercolocationprofile.seen.v1"):
    """A ClusterColocationProfile: how pods that it selects are changed when they are created. `spec` is kept as read,
    and empty where it is larger than 64 KiB (a problem then)."""

    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: dict[str, Any] = {}
    deleting: bool = False
    problems: list[Problem] = []


class MutatingWebhookConfiguration(Message, frozen=True, kw_only=True, tag="mutatingwebhookconfiguration.seen.v1"):
    """Berth's MutatingWebhookConfiguration, as the API server has it.

    `webhooks` are its entries without their `caBundle`. `ca_bundle` is that of all entries as text (PEM), empty where
    they differ, where one cannot be read, or where there are none.
    """

    name: str
    uid: str
    version: Integer
    webhooks: list[dict[str, Any]] = []
    ca_bundle: str = ""


class ValidatingWebhookConfiguration(Message, frozen=True, kw_only=True, tag="validatingwebhookconfiguration.seen.v1"):
    """Berth's ValidatingWebhookConfiguration, as `MutatingWebhookConfiguration`."""

    name: str
    uid: str
    version: Integer
    webhooks: list[dict[str, Any]] = []
    ca_bundle: str = ""
