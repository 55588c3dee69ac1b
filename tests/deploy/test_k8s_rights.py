"""What services may do in Kubernetes, against what their code calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml
from tests.deploy.manifests import K8S, OBJECTS, ROOT, WORKLOADS, Json, name_of, of_kind, pod_of, resolve

from berth.cluster_watcher.kinds import CONFIG_MAPS, KINDS
from berth.cluster_watcher.kinds import WEBHOOKS as WATCHED_WEBHOOKS
from berth.cluster_writer.core.writable import APPLICABLE, WEBHOOKS, WRITABLE
from berth.cluster_writer.eviction_requests import RIGHTS_FROM
from berth.contracts import names
from berth.contracts.inventory import NPU_TEMPLATES
from berth.contracts.slo import CONFIG_MAP
from berth.kube import resources
from berth.kube.resources import Resource

READS = {"get", "list", "watch"}
USERS = ("auditor", "cluster-watcher", "cluster-writer", "node-authenticator")


def rules_of(service: str, objects: Sequence[Json] = OBJECTS) -> dict[tuple[str, str], set[str]]:
    """(group, resource) -> verbs, over every role that a service is bound to."""
    found: dict[tuple[str, str], set[str]] = {}
    for binding in (each for each in objects if each["kind"] in ("ClusterRoleBinding", "RoleBinding")):
        if any(subject["name"] == service for subject in binding["subjects"]):
            wanted = (binding["roleRef"]["kind"], binding["roleRef"]["name"])
            role = next(each for each in objects if (each["kind"], name_of(each)) == wanted)
            for rule in role["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def key(resource: Resource, subresource: str = "") -> tuple[str, str]:
    return resource.group, f"{resource.plural}/{subresource}" if subresource else resource.plural


def test_the_watcher_reads_what_state_shows_and_nothing_else() -> None:
    wanted = {key(kind.resource): {"list", "watch"} for kind in (*KINDS, CONFIG_MAPS, *WATCHED_WEBHOOKS)}
    assert rules_of("cluster-watcher") == wanted
    rules = [rule for role in of_kind("ClusterRole") for rule in role["rules"] if "configmaps" in rule["resources"]]
    assert [rule["resourceNames"] for rule in rules] == [
        [CONFIG_MAP.partition("/")[2], "scheduler-config", NPU_TEMPLATES.partition("/")[2]]
    ]  # others of the cluster are none of our business


def test_nobody_touches_webhooks_of_others() -> None:
    rules = [
        (name_of(role), rule)
        for role in of_kind("ClusterRole")
        for rule in role["rules"]
        if "admissionregistration.k8s.io" in rule["apiGroups"]
    ]
    assert {name: set(rule["verbs"]) for name, rule in rules} == {
        "berth-cluster-watcher": {"list", "watch"},
        "berth-cluster-writer": {"patch"},
        "berth-auditor": {"list"},
    }
    assert all(rule["resourceNames"] == [names.WEBHOOKS] for _, rule in rules)
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    made = [each for each in OBJECTS if each["kind"] in kinds]
    assert [name_of(each) for each in made] == [names.WEBHOOKS] * 2
    assert not any(each.get("webhooks") for each in made), "they ship with no entries: cluster-writer writes them"


def test_the_webhook_has_no_right_and_no_token() -> None:
    """It answers the API server, and asks it for nothing."""
    bound = [
        subject["name"]
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for binding in of_kind(kind)
        for subject in binding["subjects"]
    ]
    assert "admission-webhook" not in bound
    (account,) = [each for each in of_kind("ServiceAccount") if name_of(each) == "admission-webhook"]
    (deployment,) = [each for each in of_kind("Deployment") if name_of(each) == "admission-webhook"]
    pod = deployment["spec"]["template"]["spec"]
    assert account["automountServiceAccountToken"] is pod["automountServiceAccountToken"] is False
    sources = [source for volume in pod["volumes"] for source in volume.get("projected", {}).get("sources", ())]
    assert not any("serviceAccountToken" in source for source in sources)


def test_the_writer_has_the_rights_for_what_it_calls() -> None:
    wanted = {
        key(resources.PODS): {"get", "list", "patch"},
        key(resources.PODS, "binding"): {"create"},
        key(resources.PODS, "eviction"): {"create"},
        key(resources.PODS, "status"): {"patch"},
        key(resources.NODES): {"get", "patch"},
        key(resources.NODES, "status"): {"patch"},
        key(resources.EVENTS): {"create"},
        key(resources.PERSISTENT_VOLUMES): {"patch"},
        key(resources.PERSISTENT_VOLUME_CLAIMS): {"patch"},
        key(resources.LEASES): {"create", "get", "patch"},
        key(resources.RESERVATIONS, "status"): {"patch"},
        **{key(resource): {"patch"} for resource in WEBHOOKS.values()},
    }
    for resource in WRITABLE.values():
        if resource != resources.RESERVATION_SCHEDULES:  # of which the status alone is written
            wanted.setdefault(key(resource), {"patch"})
    for each in APPLICABLE.values():  # by server-side apply, guarded by a version; deleted where others write such, too
        wanted[key(each.resource)] = {"get", "create", "patch"} | ({"delete"} if each.is_deletable else set())
    wanted[key(resources.RESERVATIONS)] |= {"list", "delete"}  # deleted as it was judged, guarded by its version
    for resource in WRITABLE.values():
        if resource == resources.ELASTIC_QUOTA_PROFILES:
            continue  # it has no status
        wanted.setdefault(key(resource, "status"), {"patch"})
    assert rules_of("cluster-writer", list(resolve(K8S / "base"))) == wanted


def test_to_delete_pods_is_a_right_of_its_own() -> None:
    preemption = list(resolve(K8S / "components/preemption"))
    assert rules_of("cluster-writer", preemption) == {key(resources.PODS): {"delete"}}
    bound = [subject["name"] for each in preemption for subject in each.get("subjects", [])]
    assert bound == ["cluster-writer"]
    assert RIGHTS_FROM == "k8s/components/preemption"


def test_the_setting_comes_with_the_right() -> None:
    (settings,) = yaml.safe_load_all((K8S / "components/preemption/settings.yaml").read_text())
    (shared,) = (each for each in of_kind("ConfigMap") if name_of(each) == name_of(settings))
    assert settings["metadata"] == shared["metadata"]
    assert settings["data"] == {"BERTH_PREEMPTION": "true"}


def test_without_the_component_nobody_is_made_to_leave() -> None:
    (shared,) = (each for each in of_kind("ConfigMap") if name_of(each) == "berth")
    assert shared["data"]["BERTH_PREEMPTION"] == "false"


@pytest.mark.parametrize("overlay", ["single-node", "production"])
def test_an_overlay_has_the_component(overlay: str) -> None:
    chosen = yaml.safe_load((K8S / "overlays" / overlay / "kustomization.yaml").read_text())
    assert "../../components/preemption" in chosen["components"]


def test_the_writer_calls_nothing_else() -> None:
    """The kinds and calls that appear in its source are those that the table above covers."""
    text = "\n".join(path.read_text() for path in (ROOT / "services/cluster-writer/src").rglob("*.py"))
    used = {getattr(resources, name) for name in set(re.findall(r"resources\.([A-Z_]+)\b", text))}
    granted = {(group, resource.partition("/")[0]) for group, resource in rules_of("cluster-writer")}
    assert {key(resource) for resource in used} | {key(resources.LEASES)} == granted
    assert set(re.findall(r"_api\.(\w+)\(", text)) == {"bind", "create", "delete", "evict", "get", "patch"}


def test_the_auditor_lists_what_it_compares_and_nothing_else() -> None:
    text = (ROOT / "services/auditor/src/berth/auditor/lists.py").read_text()
    used = {getattr(resources, name) for name in set(re.findall(r"resources\.([A-Z_]+)\b", text))}
    assert len(used) > 5
    assert rules_of("auditor") == {key(resource): {"list"} for resource in used}


def test_the_authenticator_asks_about_tokens_and_nothing_else() -> None:
    assert rules_of("node-authenticator") == {key(resources.TOKEN_REVIEWS): {"create"}}


def test_nobody_else_has_any_right(house: Any) -> None:
    for service in house.services:
        if service not in USERS:
            assert rules_of(service) == {}
    bound = [subject["name"] for each in of_kind("ClusterRoleBinding") for subject in each["subjects"]]
    assert sorted(set(bound)) == sorted(USERS)


def test_only_the_writer_writes_and_nobody_reads_secrets() -> None:
    for role in [*of_kind("ClusterRole"), *of_kind("Role")]:
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "secrets" not in rule["resources"]
            if "cluster-writer" not in name_of(role) and rule["resources"] != ["tokenreviews"]:
                assert set(rule["verbs"]) <= READS


def test_tokens_are_mounted_where_they_are_used() -> None:
    for workload in WORKLOADS:
        uses = name_of(workload) in USERS
        assert pod_of(workload)["automountServiceAccountToken"] is uses
        account = pod_of(workload)["serviceAccountName"]
        assert any(name_of(each) == account for each in of_kind("ServiceAccount"))


def the_guard() -> Json:
    return next(each for each in of_kind("ValidatingAdmissionPolicy") if name_of(each) == "berth-notes")


def test_the_guard_names_the_writer_and_every_key_of_ours() -> None:
    from berth.rules.records.binds import names_of_records

    policy = the_guard()
    (condition,) = policy["spec"]["matchConditions"]
    assert "'system:serviceaccount:berth-system:cluster-writer'" in condition["expression"]
    ours = [names.ANNOTATION_ATTEMPT, names.ANNOTATION_PLAN, names.ANNOTATION_QUOTA]
    (prefix,) = {name.partition("/")[0] for name in ours}
    notes, allocations, sizes, _, _, labels = (each["expression"] for each in policy["spec"]["validations"])
    assert all(f"startsWith('{prefix}/')" in each for each in (notes, labels))
    assert "variables.allocations.all(" in allocations
    (listed,) = (each["expression"] for each in policy["spec"]["variables"] if each["name"] == "allocations")
    # A webhook writes that one at creation, in the name of whoever creates the pod; the bind writes over it.
    at_creation = {names.ANNOTATION_EXTENDED_RESOURCE_SPEC}
    theirs = [each for each in names_of_records() if not each.startswith(f"{prefix}/") and each not in at_creation]
    assert all(f"'{each}'" in listed for each in theirs), "every annotation that a bind writes"
    (told,) = (each["expression"] for each in policy["spec"]["variables"] if each["name"] == "sizes")
    assert "variables.wasBound" in sizes
    assert all(f"'{each}'" in told for each in at_creation)
    assert policy["spec"]["failurePolicy"] == "Fail"


def test_the_guard_names_what_device_plugins_are_told() -> None:
    from berth.vendors.handing_off import hand_off
    from berth.vendors.registry import REGISTRY
    from berth.vendors.vendor import Bind, Given, HandOff

    policy = the_guard()
    variables = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
    amounts = {names.GPU_CORE: 100, names.GPU_MEMORY: 1 << 30}
    given = (Given(kind="gpu", minor=0, id="card-0", amounts=amounts),)
    labels = {names.LABEL_GPU_ISOLATION: "HAMi-core"}
    bind = Bind(node="n", namespace="a", pod="p", time_ns=1, given=given, pod_labels=labels)
    found, found_labels = set(), set()
    for vendor in REGISTRY:
        for model in ("", "Ascend-310P3-300I-DUO"):
            told = hand_off(replace(bind, model=model), vendor.name)
            assert isinstance(told, HandOff)
            found |= told.annotations.keys()
            found_labels |= told.labels.keys()
    assert len(found) == 8
    assert found == {each.strip(" '\n[]") for each in variables["handed"].split(",")}
    assert found_labels == {each.strip(" '\n[]") for each in variables["handedLabels"].split(",")}


def test_the_guard_lets_nobody_prepare_pods_for_being_of_a_namespace() -> None:
    """Controllers that make pods of users' templates have their accounts in kube-system."""
    policy = the_guard()
    (prepares,) = (each["expression"] for each in policy["spec"]["variables"] if each["name"] == "prepares")
    assert re.findall(r"startsWith\('([^']*)'\)", prepares) == ["system:node:"]
