from __future__ import annotations

import base64
from typing import Any

import msgspec

from berth.cluster_watcher.core.colocation_profiles import SPEC_BYTES_MAX
from berth.cluster_watcher.kinds import KINDS, WEBHOOKS, scopes
from berth.contracts import names

PEM = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"


def seen(kind: Any, **item: Any) -> Any:
    meta = {"name": "x", "uid": "u", **item.pop("metadata", {})}
    return kind.convert(msgspec.convert({"metadata": meta, **item}, kind.item), 7)


def test_a_profile_is_carried_as_it_stands() -> None:
    (kind,) = [each for each in KINDS if each.prefix == "clustercolocationprofile"]
    notes = {
        "config.koordinator.sh/skip-update-resources": "",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    profile = seen(kind, metadata={"annotations": notes, "labels": {"a": "b"}}, spec={"qosClass": "BE"})
    assert (profile.version, profile.spec, profile.labels) == (7, {"qosClass": "BE"}, {"a": "b"})
    assert profile.annotations == {"config.koordinator.sh/skip-update-resources": ""}
    large = seen(kind, spec={"labels": {"a": "x" * SPEC_BYTES_MAX}})
    assert (large.spec, large.problems[0].field) == ({}, "spec")
    assert seen(kind).spec == {}


def entry(name: str, bundle: Any) -> dict[str, Any]:
    return {"name": name, "clientConfig": {"url": "https://h", "caBundle": bundle}}


def test_a_configuration_says_its_bundle_once() -> None:
    bundle = base64.b64encode(PEM.encode()).decode()
    for kind in WEBHOOKS:
        found = seen(kind, webhooks=[entry("a", bundle), entry("b", bundle)])
        assert found.ca_bundle == PEM
        assert [each["clientConfig"] for each in found.webhooks] == [{"url": "https://h"}] * 2
        for webhooks in ([], [entry("a", bundle), entry("b", "")], [entry("a", "?")], [entry("a", 7)], [{"name": "a"}]):
            assert seen(kind, webhooks=webhooks).ca_bundle == ""


def test_only_our_own_configurations_are_followed() -> None:
    ours = [scope for scope in scopes(()) if scope.kind in WEBHOOKS]
    assert [scope.selection.field_selector for scope in ours] == [f"metadata.name={names.WEBHOOKS}"] * 2
    assert {scope.marker for scope in ours} == {f"{kind.prefix}.{names.WEBHOOKS}" for kind in WEBHOOKS}
