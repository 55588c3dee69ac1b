"""admissionregistration.k8s.io webhook configurations: from the API server's object to what STATE says of it."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from berth.contracts import state
from berth.contracts.kube import WebhookConfiguration
from berth.rules.reading.metadata import identity_of


def mutating_webhooks_of(item: WebhookConfiguration, version: int) -> state.MutatingWebhookConfiguration:
    """The entries, and what all of them are checked by: said once, since it is most of the object."""
    return state.MutatingWebhookConfiguration(
        name=identity_of(item.metadata, []).name,
        uid=item.metadata.uid,
        version=version,
        webhooks=[_without_bundle(each) for each in item.webhooks or ()],
        ca_bundle=_bundle_of_all(item),
    )


def validating_webhooks_of(item: WebhookConfiguration, version: int) -> state.ValidatingWebhookConfiguration:
    """The same of the other kind."""
    return state.ValidatingWebhookConfiguration(
        name=identity_of(item.metadata, []).name,
        uid=item.metadata.uid,
        version=version,
        webhooks=[_without_bundle(each) for each in item.webhooks or ()],
        ca_bundle=_bundle_of_all(item),
    )


def _bundle_of_all(item: WebhookConfiguration) -> str:
    bundles = {_bundle(each) for each in item.webhooks or ()}
    return bundles.pop() if len(bundles) == 1 else ""


def _client(entry: dict[str, Any]) -> dict[str, Any]:
    client = entry.get("clientConfig")
    return client if isinstance(client, dict) else {}


def _bundle(entry: dict[str, Any]) -> str:
    try:
        return base64.b64decode(str(_client(entry).get("caBundle", "")), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def _without_bundle(entry: dict[str, Any]) -> dict[str, Any]:
    client = {name: value for name, value in _client(entry).items() if name != "caBundle"}
    return {**entry, "clientConfig": client}
