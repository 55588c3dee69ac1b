from __future__ import annotations

from typing import Any

import pytest

from berth.cluster_writer.core.webhooks import BUNDLE_LENGTH_MAX, ENTRIES_MAX, patch_of
from berth.contracts.command import ConfigureWebhooks, WebhookEntry
from berth.contracts.errors import InvalidMessage
from berth.rules.webhooks import SPARED

ENTRY = WebhookEntry(name="a.b.c", door="mutate-pod", conditions={"x": "true"})


def asked(**changes: Any) -> ConfigureWebhooks:
    return ConfigureWebhooks(
        **{"kind": "mutating", "uid": "u", "version": "7", "entries": [ENTRY], "ca_bundle": "pem", **changes}
    )


def test_entries_lead_where_the_writer_says_and_may_fail() -> None:
    patch = patch_of(asked(), "")
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "7"}
    (written,) = patch["webhooks"]
    assert written["clientConfig"] == {
        "service": {"namespace": "berth-system", "name": "admission-webhook", "path": "/mutate-pod", "port": 443},
        "caBundle": "cGVt",
    }
    assert (written["failurePolicy"], written["timeoutSeconds"]) == ("Ignore", 2)
    assert written["namespaceSelector"]["matchExpressions"][0]["values"] == list(SPARED)
    assert written["matchConditions"] == [{"name": "x", "expression": "true"}]
    (written,) = patch_of(asked(), "https://h:1")["webhooks"]
    assert written["clientConfig"]["url"] == "https://h:1/mutate-pod"
    assert patch_of(asked(entries=[]), "")["webhooks"] == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "other"}, "kind"),
        ({"ca_bundle": ""}, "ca_bundle"),
        ({"ca_bundle": "x" * (BUNDLE_LENGTH_MAX + 1)}, "ca_bundle"),
        ({"entries": [ENTRY] * (ENTRIES_MAX + 1)}, "entries"),
        ({"kind": "validating"}, "entries[0].door"),
        ({"entries": [WebhookEntry(name="a.b.c", door="mutate-secret")]}, "entries[0].door"),
    ],
)
def test_what_cannot_be_written_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        patch_of(asked(**changes), "")
    assert caught.value.field == field
