"""A window of a ReservationSchedule: its Reservation is made, used, and has a price; a bad one says why not."""

from __future__ import annotations

import pytest
from tests.e2e.corner import Corner
from tests.e2e.objects import PODS, RESERVATIONS, Json
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

SCHEDULES = "/apis/scheduling.berth.sh/v1alpha1/reservationschedules"
ALWAYS = "0 0 * * *"
LENT = {names.LABEL_RESERVATION_IGNORED: "true"}


def schedule(corner: Corner, name: str, priority: int | None = None, **spec: str) -> Json:
    """One whose window is open the whole day, for pods labelled `owner: <name>`."""
    template = corner.manifest("template", {"cpu": "2"})
    if priority is not None:
        template["spec"]["priority"] = priority
    reservation = {
        "template": {"metadata": {"namespace": corner.namespace}, "spec": template["spec"]},
        "owners": [{"labelSelector": {"matchLabels": {"owner": name}}}],
        "allocateOnce": False,
    }
    return {
        "apiVersion": "scheduling.berth.sh/v1alpha1",
        "kind": "ReservationSchedule",
        "metadata": {"name": f"{corner.namespace}-{name}"},
        "spec": {
            "cron": ALWAYS,
            "timeZone": "UTC",
            "duration": "24h",
            **spec,
            "template": {"metadata": {"labels": {"made": "by-schedule"}}, "spec": reservation},
        },
    }


async def shown(whole: Whole, name: str, used_percent: int | None = None) -> Json:
    """The status of a schedule, once it has a window of which so much is used, or problems."""

    async def look() -> Json | None:
        status: Json = (await whole.call("GET", f"{SCHEDULES}/{name}")).get("status", {})
        windows = status.get("windows") or []
        is_so = used_percent is None or (bool(windows) and windows[0].get("usedPercent", {}).get("cpu") == used_percent)
        return status if (windows and is_so) or status.get("problems") else None

    return await until(look, f"the status of {name}")


async def leaving_or_gone(corner: Corner, name: str) -> bool:
    """Whether the pod is being deleted, or was."""
    status, pod = await corner.whole.try_call("GET", f"{PODS.format(corner.namespace)}/{name}")
    return status == 404 or "deletionTimestamp" in pod["metadata"]


async def test_a_window_has_its_reservation_and_a_price(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="4")
    made = schedule(corner, "w")
    name = made["metadata"]["name"]
    await corner.create(SCHEDULES, made)
    try:
        (window,) = (await shown(whole, name))["windows"]
        path = f"{RESERVATIONS}/{window['reservation']}"

        async def is_there() -> bool:
            return (await whole.try_call("GET", path))[0] == 200

        await until(is_there, "the Reservation of the window")
        reservation = await corner.phase(window["reservation"], "Available")
        await corner.bound(await corner.pod("owner", {"cpu": "1"}, labels={"owner": "w"}))
        status = await shown(whole, name, used_percent=50)
        (window,) = status["windows"]
        assert reservation["metadata"]["labels"]["made"] == "by-schedule"
        (owner,) = reservation["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("ReservationSchedule", name)
        assert reservation["spec"]["expires"] == window["end"]
        assert window["amountHours"]["cpu"] == "48"
        assert status["lastMade"] == window["start"]
    finally:
        await whole.call("DELETE", f"{SCHEDULES}/{name}")


@pytest.mark.parametrize(("displaces", "priority", "labels"), [("Borrowers", None, LENT), ("LowerPriority", 1_000, {})])
async def test_who_has_to_leave_when_a_window_begins(
    whole: Whole, corner: Corner, displaces: str, priority: int | None, labels: dict[str, str]
) -> None:
    await corner.node("n", cpu="4")
    await corner.bound(await corner.pod("in-the-way", {"cpu": "4"}, labels=labels))
    made = schedule(corner, "w", priority, displaces=displaces)
    name = made["metadata"]["name"]
    await corner.create(SCHEDULES, made)
    try:
        (window,) = (await shown(whole, name))["windows"]

        await until(lambda: leaving_or_gone(corner, "in-the-way"), "the pod leaves for the window")
        # Where no kubelet says that it has ended.
        now = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        await whole.try_call("DELETE", f"{PODS.format(corner.namespace)}/in-the-way", now)
        await corner.phase(window["reservation"], "Available")
        assert "cpu" in (await whole.why("", window["reservation"])).facts["holds"]
    finally:
        await whole.call("DELETE", f"{SCHEDULES}/{name}")


async def test_what_is_wrong_with_a_schedule_is_in_its_status(whole: Whole, corner: Corner) -> None:
    made = schedule(corner, "bad", cron="61 * * * *", timeZone="Europe/Nowhere")
    name = made["metadata"]["name"]
    await corner.create(SCHEDULES, made)
    try:
        status = await shown(whole, name)
        assert [problem["field"] for problem in status["problems"]] == ["spec.cron", "spec.timeZone"]
    finally:
        await whole.call("DELETE", f"{SCHEDULES}/{name}")
