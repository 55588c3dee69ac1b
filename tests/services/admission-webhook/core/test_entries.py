from __future__ import annotations

from typing import Any

from berth.admission_webhook.core.entries import PROFILES_MAX, entries_of, open_doors
from berth.contracts import names
from berth.contracts.command import WebhookEntry
from berth.contracts.state import ClusterColocationProfile
from berth.rules.admission.gates import DEFAULT, Gates, read_gates
from berth.rules.webhooks import DOORS, MUTATING, SPARED, VALIDATING, rendered, with_bundle
from berth.simcluster.admission.conditions import holds

OURS = ('a"b', "berth-scheduler")
SPARING = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(SPARED)}


def profile(name: str, **spec: Any) -> ClusterColocationProfile:
    return ClusterColocationProfile(name=name, uid=name, version=1, spec=spec)


def entries(
    kind: str, *profiles: ClusterColocationProfile, gates: Gates = DEFAULT, unusable: tuple[str, ...] = ()
) -> Any:
    wanted = entries_of(kind, profiles, unusable, schedulers=OURS, doors=open_doors(gates))
    return {entry.name.removesuffix(".admission.berth.sh"): rendered(entry) for entry in wanted.entries}


def test_a_profile_is_called_for_by_its_own_selectors() -> None:
    batch = profile(
        "batch.jobs",
        selector={"matchLabels": {"app": "etl"}},
        namespaceSelector={"matchExpressions": [{"key": "x", "operator": "Exists"}]},
    )
    found = entries(MUTATING, batch, profile("all"), profile("broken"), unusable=("broken",))
    assert set(found) == {
        "mutate-pod",
        "mutate-pod-update",
        "mutate-elasticquota",
        "batch.jobs.profiles",
        "all.profiles",
    }
    entry = found["batch.jobs.profiles"]
    assert entry["objectSelector"] == {"matchLabels": {"app": "etl"}}
    assert entry["namespaceSelector"] == {"matchExpressions": [{"key": "x", "operator": "Exists"}, SPARING]}
    assert found["all.profiles"]["namespaceSelector"] == {"matchExpressions": [SPARING]}
    assert entry["clientConfig"]["service"]["path"] == "/mutate-pod"


def test_pods_of_our_schedulers_are_called_for_by_a_condition() -> None:
    for kind, name in ((MUTATING, "mutate-pod"), (VALIDATING, "validate-pod")):
        (condition,) = entries(kind)[name]["matchConditions"]
        for scheduler, expected in (("berth-scheduler", True), ('a"b', True), ("other", False)):
            assert holds(condition["expression"], {"object": {"spec": {"schedulerName": scheduler}}}) is expected


def test_every_entry_may_fail_and_spares_what_the_cluster_needs() -> None:
    on, _ = read_gates(
        ",".join(
            f"{gate}=true"
            for gate in (
                "NodeMutatingWebhook",
                "NodeValidatingWebhook",
                "ConfigMapValidatingWebhook",
                "ReservationMutatingWebhook",
            )
        )
    )
    every = [*entries(MUTATING, profile("p"), gates=on).values(), *entries(VALIDATING, gates=on).values()]
    assert {each["clientConfig"]["service"]["path"] for each in every} == {DOORS[name].path for name in open_doors(on)}
    for each in every:
        assert (each["failurePolicy"], each["timeoutSeconds"], each["sideEffects"]) == ("Ignore", 2, "None")
        namespaced = each["rules"][0]["scope"] == "Namespaced"
        expressions = each["namespaceSelector"].get("matchExpressions", ())
        if each["rules"][0]["resources"] == ["configmaps"]:
            assert expressions == [{**SPARING, "values": ["kube-system"]}], "the one that is checked lies in ours"
            assert each["objectSelector"] == {"matchLabels": {names.LABEL_CONFIG_MAP_TYPE: names.SLO_CONFIG_MAP_TYPE}}
        else:
            assert (SPARING in expressions) is namespaced
        assert each.get("reinvocationPolicy") in (None, "IfNeeded")
        assert all(each["name"].split("."))
        assert len(each["name"].split(".")) >= 3


def test_nodes_that_are_not_amplified_report_without_waiting() -> None:
    on, _ = read_gates("NodeMutatingWebhook=true")
    (condition,) = entries(MUTATING, gates=on)["mutate-node-status"]["matchConditions"]
    amplified = {"metadata": {"annotations": {names.ANNOTATION_AMPLIFICATION_RATIO: "{}"}}}
    assert holds(condition["expression"], {"object": amplified})
    assert not holds(condition["expression"], {"object": {"metadata": {"annotations": {"a": "b"}}}})
    assert not holds(condition["expression"], {"object": {"metadata": {}}})


def test_nodes_are_looked_at_when_their_labels_change() -> None:
    on, _ = read_gates("NodeValidatingWebhook=true")
    (condition,) = entries(VALIDATING, gates=on)["validate-node"]["matchConditions"]

    def asks(operation: str, old: Any, new: Any) -> bool:
        nodes = {"oldObject": old and {"metadata": old}, "object": {"metadata": new}}
        return holds(condition["expression"], {"request": {"operation": operation}, **nodes})

    labels = {"labels": {"pool": "a"}}
    assert asks("UPDATE", labels, {"labels": {"pool": "b"}})
    assert asks("UPDATE", {}, labels)
    assert not asks("UPDATE", labels, {**labels, "annotations": {"a": "b"}})
    assert not asks("UPDATE", labels, {})
    assert not asks("CREATE", None, labels)


def test_the_writer_labels_what_is_looked_at_in_our_namespaces() -> None:
    asked = WebhookEntry(name="a.b.c", door="validate-configmap", object_selector={"matchLabels": {"x": "y"}})
    wanted = {"x": "y", names.LABEL_CONFIG_MAP_TYPE: names.SLO_CONFIG_MAP_TYPE}
    assert rendered(asked)["objectSelector"] == {"matchLabels": wanted}


def test_there_is_a_limit_of_profiles_and_of_the_length_of_names() -> None:
    many = [profile(f"p{number:03}") for number in range(PROFILES_MAX + 2)]
    wanted = entries_of(MUTATING, many, (), schedulers=OURS, doors=open_doors(DEFAULT))
    assert wanted.beyond == ("p100", "p101")
    (name,) = [each for each in entries(MUTATING, profile("x" * 250)) if "profiles" in each]
    assert len(name) < 60


def test_a_closed_door_has_no_entry() -> None:
    off, _ = read_gates("PodMutatingWebhook=false,PodValidatingWebhook=false")
    assert set(entries(MUTATING, profile("p"), gates=off)) == {"mutate-elasticquota"}
    assert set(entries(VALIDATING, gates=off)) == {"validate-elasticquota"}


def test_by_url_there_is_no_service() -> None:
    (entry, *_) = entries_of(MUTATING, [], (), schedulers=OURS, doors=open_doors(DEFAULT)).entries
    written = with_bundle(rendered(entry, "https://example.org:9443/"), "pem")
    assert written["clientConfig"] == {"url": "https://example.org:9443/mutate-pod", "caBundle": "cGVt"}
