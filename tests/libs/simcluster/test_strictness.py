"""Bodies that the API server refuses, or changes, for their types: what a real kube-apiserver 1.34 answered to each."""

from collections.abc import Callable
from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


def container(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "i", **more}]}


def port(**more: Any) -> dict[str, Any]:
    return container(ports=[more])


@pytest.mark.parametrize(
    ("spec", "status", "field"),
    [
        (port(containerPort=80, hostPort="80"), 400, "hostPort"),
        (port(containerPort=80.0), 400, "containerPort"),
        (port(containerPort=80, hostPort=2**31), 400, "hostPort"),
        (port(containerPort=80, hostPort=70000), 422, "spec.containers[0].ports[0].hostPort"),
        (port(containerPort=None), 422, "spec.containers[0].ports[0].containerPort"),
        (port(hostPort=8), 422, "spec.containers[0].ports[0].containerPort"),
        (port(containerPort=80, protocol="tcp"), 422, "spec.containers[0].ports[0].protocol"),
        (container(ports=[None]), 422, "spec.containers[0].ports[0].containerPort"),
        ({"containers": [None]}, 422, "spec.containers[0].name"),
        ({**container(), "initContainers": [None]}, 422, "spec.initContainers[0].name"),
        (container(env=[{"name": "A", "value": 1}]), 400, "value"),
        (container(command="sleep"), 400, "command"),
        (container(resources={"limits": {"cpu": True}}), 400, "limits"),
        (container(livenessProbe={"httpGet": {"port": 80.5}}), 400, "port"),
        ({**container(), "priority": 1.0}, 400, "priority"),
        ({**container(), "hostNetwork": "true"}, 400, "hostNetwork"),
        ({**container(), "terminationGracePeriodSeconds": "3"}, 400, "terminationGracePeriodSeconds"),
        (
            {**container(), "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": "3"}]},
            400,
            "tolerationSeconds",
        ),
        ({**container(), "tolerations": [{"key": "a", "operator": "Foo"}]}, 422, "spec.tolerations[0].operator"),
        ({**container(), "tolerations": [None]}, 422, "spec.tolerations[0].operator"),
        ({**container(), "restartPolicy": "Foo"}, 422, "spec.restartPolicy"),
        (
            {
                **container(),
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": "x"}}
                },
            },
            400,
            "nodeSelectorTerms",
        ),
    ],
)
async def test_a_pod_is_refused_with_its_field(client: Any, spec: Any, status: int, field: str) -> None:
    found, answer = await client.call("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert (found, answer["kind"]) == (status, "Status"), answer
    assert field in answer["message"]


async def test_a_null_is_an_absent_field_or_the_empty_value(client: Any) -> None:
    spec = {
        "containers": [
            {
                "name": "main",
                "image": "i",
                "command": [None],
                "env": None,
                "ports": [{"containerPort": 80, "hostPort": None, "protocol": None}],
                "resources": {"limits": {"cpu": None}},
            }
        ],
        "nodeSelector": {"a": None},
        "tolerations": None,
        "schedulerName": None,
    }
    body = {"metadata": {"name": "p", "labels": {"a": None}, "creationTimestamp": None}, "spec": spec}
    pod = await client.ok("POST", PODS, body)
    assert pod["metadata"]["labels"] == {"a": ""}
    assert pod["metadata"]["creationTimestamp"]
    [main] = pod["spec"]["containers"]
    assert main["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert main["resources"] == {"limits": {"cpu": "0"}, "requests": {"cpu": "0"}}
    assert main["command"] == [""]
    assert "env" not in main
    assert pod["spec"]["nodeSelector"] == {"a": ""}
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert "tolerations" not in pod["spec"]


async def test_the_host_port_of_a_pod_on_the_host_network_is_its_port(client: Any) -> None:
    spec = {**port(containerPort=80), "hostNetwork": True}
    pod = await client.ok("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert pod["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    spec = {**port(containerPort=80, hostPort=81), "hostNetwork": True}
    status, answer = await client.call("POST", PODS, {"metadata": {"name": "q"}, "spec": spec})
    assert status == 422
    assert "spec.containers[0].ports[0].hostPort" in answer["message"]


async def test_a_node_has_types_too(client: Any) -> None:
    status, answer = await client.call("POST", NODES, {"metadata": {"name": "n"}, "spec": {"unschedulable": "yes"}})
    assert (status, "unschedulable" in answer["message"]) == (400, True)


async def test_an_unknown_field_is_refused_when_that_is_asked_for(
    client: Any, new_pod: Callable[..., dict[str, Any]]
) -> None:
    """What kubectl asks for by default."""
    body = new_pod("p", spec={"nodeNam": "x"})
    status, answer = await client.call("POST", f"{PODS}?fieldValidation=Strict", body)
    assert status == 400
    assert answer["message"].endswith('strict decoding error: unknown field "spec.nodeNam"')
    assert (await client.call("POST", PODS, body))[0] == 201
    patch = {"spec": {"toleration": []}}
    status, answer = await client.call(
        "PATCH", f"{PODS}/p?fieldValidation=Strict", patch, Content_Type="application/strategic-merge-patch+json"
    )
    assert (status, 'unknown field "spec.toleration"' in answer["message"]) == (422, True)


async def test_an_unknown_field_of_a_custom_resource(client: Any) -> None:
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 2, "minMembers": 2}}
    path = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
    status, answer = await client.call("POST", f"{path}?fieldValidation=Strict", group)
    assert (status, 'unknown field "spec.minMembers"' in answer["message"]) == (400, True)
    assert (await client.call("POST", path, group))[0] == 201
