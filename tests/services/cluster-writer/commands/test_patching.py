"""Annotations, labels and status of an object that is there."""

from __future__ import annotations

import pytest
from tests.services.worlds.writer.command_bench import RESERVATION_API

from berth.bus.port import Message
from berth.cluster_writer.commands.outcomes import RetryLaterError
from berth.contracts.codec import encode
from berth.contracts.command import PatchObject
from berth.contracts.errors import InvalidMessage
from berth.simcluster.store import Path


async def test_annotations_and_status_of_an_object(desk, api):
    seen = api.reservation("r")
    status = {"phase": "Available", "nodeName": "n"}
    command = PatchObject(
        api=RESERVATION_API,
        name="r",
        uid=seen.uid,
        version=str(seen.version),
        annotations={"koordinator.sh/x": "y"},
        status=status,
    )
    await desk.send(command)
    after = api.seen_reservation("r")
    assert (after.phase, after.node, after.annotations["koordinator.sh/x"]) == ("Available", "n", "y")
    await desk.send(command)
    assert api.seen_reservation("r").version == after.version, "its version is past"


async def test_the_second_half_of_a_patch_is_guarded_too(desk, api):
    seen = api.reservation("r")
    path = Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", "r")
    api.on("patch status", lambda name, body: api.store.patch(path, {"metadata": {"labels": {"a": "b"}}}) and None)
    await desk.send(
        PatchObject(
            api=RESERVATION_API,
            name="r",
            uid=seen.uid,
            version=str(seen.version),
            annotations={"koordinator.sh/x": "y"},
            status={"phase": "Failed"},
        )
    )
    assert api.seen_reservation("r").phase != "Failed"


async def test_a_status_without_a_version_is_written_to_the_object_that_is_meant(desk, api):
    seen = api.reservation("r")
    path = Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", "r")
    command = PatchObject(api=RESERVATION_API, name="r", uid=seen.uid, status={"phase": "Failed"})
    api.on("patch status", lambda name, body: api.store.patch(path, {"metadata": {"labels": {"a": "b"}}}) and None)
    with pytest.raises(RetryLaterError):
        await desk.send(command)
    assert api.seen_reservation("r").phase != "Failed"
    await desk.send(command)
    assert api.seen_reservation("r").phase == "Failed"


async def test_another_objects_uid_is_overtaken(desk, api):
    api.reservation("r")
    await desk.send(PatchObject(api=RESERVATION_API, name="r", uid="former", status={"phase": "Failed"}))
    await desk.send(PatchObject(api=RESERVATION_API, name="r", uid="former", labels={"a": "b"}))
    assert api.seen_reservation("r").phase != "Failed"


async def test_other_kinds_may_not_be_patched(desk):
    for command in (
        PatchObject(api="v1/secrets", name="r", uid="u", status={}),
        PatchObject(api="other/v1/reservations", name="r", uid="u", status={}),
    ):
        with pytest.raises(InvalidMessage, match=command.api):
            await desk.commands.handle(Message(subject="berth.v1.cmd.patch.reservations.r", data=encode(command)))
