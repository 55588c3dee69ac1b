"""The whole control plane under attack: nothing that stands is changed, and the next pod is placed.

What is tried through the bus is here. What is tried through the Kubernetes API (forged notes on pods) is one more
function in `AT_THE_API`, and runs beside it on the same pods.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from tests.attack.bus import OUTSIDERS, connect, publishes, server
from tests.attack.notes import forge_notes
from tests.attack.targets import LEASES, wanted
from tests.deploy.control_plane import bound, cluster_file, environment, get, running

from berth.bus.topology import TOPOLOGY
from berth.contracts import buckets, subjects
from berth.contracts.codec import encode
from berth.contracts.command import EvictPod
from berth.simcluster import SimSettings, serve
from berth.testing.nats_server import NatsServer

PASSWORD = "pw"
GARBAGE = (b"", b"garbage", b"{}", b'{"type":"pod.evict.v1"}', b"\xff" * 64)


AT_THE_API: tuple[Callable[[str], Awaitable[None]], ...] = (forge_notes,)
"""Attacks by somebody who may write pods; each is given the URL of the pods of the namespace `default`."""


async def ask_with_foreign_replies(outsider: Client, user: str) -> None:
    for subject in publishes(user):
        for reply in wanted():
            await outsider.publish(subject, b"", reply=reply)
    await outsider.flush(timeout=30)


async def garble_leases(admin: Client) -> None:
    """Over every lease, with and without a time to live."""
    for name in (*LEASES, "solver.ghost"):
        for value in GARBAGE:
            await admin.publish(f"$KV.{buckets.LEASE}.{name}", value)
            await admin.publish(f"$KV.{buckets.LEASE}.{name}", value, headers={"Nats-TTL": "1h"})
    await admin.flush()


async def send_commands_of_others(writer: Client, pod: dict[str, Any], front: str) -> None:
    """With the rights of a service: garbage, and the eviction of a pod, on its own subjects."""
    meta = pod["metadata"]
    eviction = EvictPod(namespace=meta["namespace"], name=meta["name"], uid=meta["uid"], reason="because")
    for payload in (*GARBAGE, encode(eviction)):
        for tail in ("x", meta["name"], f"{meta['namespace']}.{meta['name']}"):
            await writer.publish(front + tail, payload)
    await writer.flush()


async def stream_ages(admin: Client) -> dict[str, str]:
    """When each stream was made: another time is another stream."""
    found = {}
    for item in TOPOLOGY:
        answer = json.loads((await admin.request(f"$JS.API.STREAM.INFO.{item.stream}", timeout=5)).data)
        found[item.stream] = answer["created"]
    return found


async def epoch(admin: Client) -> bytes:
    body = json.dumps({"last_by_subj": f"$KV.{buckets.LEDGER}.{subjects.EPOCH_KEY}"}).encode()
    answer = json.loads((await admin.request(f"$JS.API.STREAM.MSG.GET.KV_{buckets.LEDGER}", body, timeout=5)).data)
    return str(answer["message"]).encode()


async def decisions(admin: Client) -> dict[str, bytes]:
    """Every decision that stands in LEDGER, by key."""
    stream, found = f"KV_{buckets.LEDGER}", {}
    pattern = f"$KV.{buckets.LEDGER}.*.decision.>"
    sequence = 1
    while True:
        body = json.dumps({"seq": sequence, "next_by_subj": pattern}).encode()
        answer = json.loads((await admin.request(f"$JS.API.STREAM.MSG.GET.{stream}", body, timeout=5)).data)
        if "error" in answer:
            assert answer["error"]["code"] == 404, answer
            return found
        message = answer["message"]
        if "hdrs" not in message or b"KV-Operation" not in base64.b64decode(message["hdrs"]):
            found[message["subject"]] = base64.b64decode(message["data"])
        sequence = message["seq"] + 1


async def bindings_of(pods: str) -> dict[str, tuple[str, str]]:
    """Uid and node of every pod that has one."""
    listed = (await asyncio.to_thread(get, pods))["items"]
    return {
        each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]["nodeName"])
        for each in listed
        if each["spec"].get("nodeName")
    }


async def attack(bus: NatsServer, pods: str, pod: dict[str, Any]) -> None:
    clients = {user: await connect(bus, user) for user in (*OUTSIDERS, "slo-manager", "admin")}
    for user in OUTSIDERS:
        await ask_with_foreign_replies(clients[user], user)
    await garble_leases(clients["admin"])
    await send_commands_of_others(clients["slo-manager"], pod, f"{subjects.PREFIX}.cmd.apply.nodeslos.")
    await send_commands_of_others(clients["admin"], pod, f"{subjects.PREFIX}.cmd.refuse.")
    for forge in AT_THE_API:
        await forge(pods)
    await asyncio.sleep(1)
    for client in clients.values():
        await client.close()


@pytest.mark.e2e
async def test_an_attack_changes_nothing_and_the_control_plane_lives(house: Any, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    settings = SimSettings(manifests=(cluster_file(tmp_path),))
    with server() as bus:
        async with serve(settings) as api:
            common = environment(bus.url, tmp_path / "password", api.url)
            with running(house.services, common, tmp_path):
                pods = f"{api.url}/api/v1/namespaces/default/pods"
                await bound(pods, "before")
                admin = await connect(bus, "admin")
                ages, stands, decided = await stream_ages(admin), await epoch(admin), await decisions(admin)
                bindings = await bindings_of(pods)
                placed = await asyncio.to_thread(get, f"{pods}/before")
                await attack(bus, pods, placed)
                await bound(pods, "after")
                now = await asyncio.to_thread(get, f"{pods}/before")
                assert (now["metadata"]["uid"], now["spec"]) == (placed["metadata"]["uid"], placed["spec"])
                assert "deletionTimestamp" not in now["metadata"]
                assert (await stream_ages(admin), await epoch(admin)) == (ages, stands)
                assert decided.items() <= (await decisions(admin)).items()
                assert bindings.items() <= (await bindings_of(pods)).items()
                await _leases_are_held(admin)
                reader = [
                    "--nats",
                    bus.url,
                    "--nats-user",
                    "reader",
                    "--nats-password-file",
                    str(tmp_path / "password"),
                ]
                await _every_service_answers_the_reader(reader, house.services)
                await _the_reader_sees_what_was(reader)
                await admin.close()


async def _every_service_answers_the_reader(reader: list[str], services: list[str]) -> None:
    done = await _berth("status", *reader)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(service in done.stdout for service in services), done.stdout


async def _the_reader_sees_what_was(reader: list[str]) -> None:
    """The past of a pod, once the domain of the streams is named; without it the command says what is missing."""
    done = await _berth("why", "before", *reader)
    assert "--nats-domain berth" in done.stderr
    done = await _berth("why", "before", *reader, "--nats-domain", "berth")
    assert "  past\n" in done.stdout, done.stdout + done.stderr
    assert not done.stderr.count("not shown")


async def _berth(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "berth.cli", *words]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)


async def _leases_are_held(admin: Client) -> None:
    """Each has a holder again."""
    async with asyncio.timeout(60):
        for name in LEASES:
            while not await _is_held(admin, name):
                await asyncio.sleep(0.5)


async def _is_held(admin: Client, name: str) -> bool:
    body = json.dumps({"last_by_subj": f"$KV.{buckets.LEASE}.{name}"}).encode()
    answer = json.loads((await admin.request(f"$JS.API.STREAM.MSG.GET.KV_{buckets.LEASE}", body, timeout=5)).data)
    value = base64.b64decode(answer.get("message", {}).get("data", ""))
    return b'"incarnation"' in value
