"""Objects of kinds that other agents write as well, and who may have what deleted."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.services.worlds.writer.command_bench import RESERVATION_API, SLO_API

from berth.cluster_writer.commands.outcomes import RetryLaterError
from berth.contracts import names
from berth.contracts.command import MANAGER, ApplyObject, DeleteObject
from berth.contracts.errors import InvalidMessage
from berth.contracts.kube import OwnerReference
from berth.simcluster.store import Path

DEVICE_API = "scheduling.koordinator.sh/v1alpha1/devices"
DEVICE = Path("scheduling.koordinator.sh", "v1alpha1", "devices", "", "n")


def devices(uid, *, revision=1, health=True, **more):
    entry = {"type": "gpu", "minor": 0, "health": health, "resources": {"koordinator.sh/gpu-core": "100"}}
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid=uid, controller=True)
    spec = {"devices": [entry]}
    return ApplyObject(api=DEVICE_API, name="n", spec=spec, owner=owner, revision=revision, **more)


def device(api):
    answer = api.store.get(DEVICE)
    return json.loads(answer.body) if answer.status == 200 else None


def another_agents(api, **labels):
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n", "labels": labels},
        "spec": {"devices": []},
    }
    assert api.store.create(Path("scheduling.koordinator.sh", "v1alpha1", "devices", ""), body).status == 201
    return device(api)


async def test_a_device_is_made_as_ours_and_what_others_noted_on_it_stays(desk, api, uid):
    await desk.send(devices(uid, labels={"a": "1"}, annotations={"x": "1", "y": "1"}))
    made = device(api)
    assert made["metadata"]["labels"] == {"a": "1", names.LABEL_MANAGED_BY: MANAGER}
    api.store.patch(DEVICE, {"metadata": {"labels": {"by-hand": "true"}}})
    await desk.send(devices(uid, revision=2, health=False, labels={"a": "2"}, annotations={"x": "2"}))
    again = device(api)
    assert again["spec"]["devices"][0]["health"] is False
    assert again["metadata"]["labels"] == {"a": "2", names.LABEL_MANAGED_BY: MANAGER, "by-hand": "true"}
    assert again["metadata"]["annotations"] == {"x": "2", names.ANNOTATION_REVISION: "2"}


@pytest.mark.parametrize("labels", [{}, {names.LABEL_MANAGED_BY: "Koordinator"}], ids=["no label", "another's"])
async def test_the_device_of_another_agent_is_never_touched(desk, api, uid, labels):
    before = another_agents(api, **labels)
    await desk.send(devices(uid))
    await desk.send(DeleteObject(api=DEVICE_API, name="n", uid=before["metadata"]["uid"]))
    assert device(api) == before


async def test_a_device_that_another_agent_takes_over_is_its_own(desk, api, uid):
    await desk.send(devices(uid))
    api.store.patch(DEVICE, {"metadata": {"labels": {names.LABEL_MANAGED_BY: None}}})
    before = device(api)
    await desk.send(devices(uid, revision=2, health=False))
    assert device(api) == before


async def test_a_device_that_appears_while_ours_is_made_stays(desk, api, uid):
    patch = api.patch

    async def late(*args, **options):
        another_agents(api)
        return await patch(*args, **options)

    api.patch = late
    with pytest.raises(RetryLaterError):
        await desk.send(devices(uid))
    api.patch = patch
    await desk.send(devices(uid))
    assert device(api)["spec"]["devices"] == []


async def test_only_the_object_that_is_meant_is_deleted(desk, api, uid):
    await desk.send(devices(uid))
    made = device(api)
    await desk.send(DeleteObject(api=DEVICE_API, name="n", uid="another"))
    assert device(api) == made
    await desk.send(DeleteObject(api=DEVICE_API, name="n", uid=made["metadata"]["uid"]))
    assert device(api) is None
    await desk.send(DeleteObject(api=DEVICE_API, name="n", uid=made["metadata"]["uid"]))


async def test_a_device_that_is_taken_over_while_it_is_deleted_stays(desk, api, uid):
    await desk.send(devices(uid))
    made, delete = device(api), api.delete

    async def late(*args, **options):
        api.store.patch(DEVICE, {"metadata": {"labels": {names.LABEL_MANAGED_BY: "Koordinator"}}})
        return await delete(*args, **options)

    api.delete = late
    await desk.send(DeleteObject(api=DEVICE_API, name="n", uid=made["metadata"]["uid"]))
    assert device(api)["metadata"]["uid"] == made["metadata"]["uid"]


RESERVATION = Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", "r")


async def test_a_reservation_is_deleted_as_it_was_judged(desk, api):
    template = {"spec": {"containers": []}}
    spec = {"template": template, "owners": [{"object": {"name": "p"}}], "ttl": "1h"}
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r"},
        "spec": spec,
    }
    assert api.store.create(RESERVATION._replace(name=""), body).status == 201
    made = json.loads(api.store.get(RESERVATION).body)["metadata"]
    ask = DeleteObject(api=RESERVATION_API, name="r", uid=made["uid"], version=made["resourceVersion"])
    for other in (msgspec.structs.replace(ask, uid="another"), msgspec.structs.replace(ask, version="1")):
        await desk.send(other)
        assert api.store.get(RESERVATION).status == 200
    with pytest.raises(InvalidMessage, match="is missing"):
        await desk.send(msgspec.structs.replace(ask, version=""))
    await desk.send(ask)
    assert api.store.get(RESERVATION).status == 404


async def test_kinds_that_nobody_else_writes_may_not_be_deleted(desk):
    with pytest.raises(InvalidMessage, match="is none of"):
        await desk.objects.delete(DeleteObject(api=SLO_API, name="n", uid="u"))
