"""What amplified nodes cost: reports of kubelets, with and without the webhook that amplifies them.

A kubelet's report is a patch of its node's status, here with the 50 images that kubelets list. It is sent to the
simulated API, one after the other: without an entry for it, with one whose condition leaves the node out (it has no
ratio), and with one that is called over TLS (it has). All in one process, so that CPU time is that of everybody.
Patches a second and milliseconds of CPU for each, medians of rounds in turns, and the ratio to the first; asserts
nothing.

    python tests/bench/bench_heartbeats.py [--patches 400] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any

import aiohttp
from told import tell

from berth.admission_webhook import keys
from berth.admission_webhook.core.entries import entries_of, open_doors
from berth.admission_webhook.server import Server
from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.errors import InvalidMessage
from berth.rules.admission.gates import NODE_MUTATING
from berth.rules.admission.review import review
from berth.rules.admission.views import Views
from berth.rules.admission.wire import read_review, write_answer
from berth.rules.webhooks import MUTATING, rendered, with_bundle
from berth.simcluster import SimSettings, serve
from berth.simcluster.generate.build import node_manifest

GATES = frozenset({NODE_MUTATING})
NODE = "/api/v1/nodes/n"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
IMAGES = [{"names": [f"registry.example/image-{number}@sha256:{'0' * 64}"], "sizeBytes": 10**8} for number in range(50)]


def answer(path: str, body: bytes) -> tuple[bytes, str]:
    """What the service answers."""
    request = read_review(body)
    if isinstance(request, Problem):
        raise InvalidMessage(request.field, request.message)
    found = review(path, request, Views(), gates=GATES)
    return write_answer(request.uid, found), "changed" if found.patch else "admitted"


def report(number: int, kind: str) -> dict[str, Any]:
    """As a kubelet sends it: cpu differs now and then, so that amounts are amplified anew."""
    allocatable = {"cpu": f"{31_000 + number // 10 % 2}m", "memory": "126Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": f"{kind} {number}"}
    return {"status": {"allocatable": allocatable, "capacity": allocatable, "conditions": [ready], "images": IMAGES}}


async def measured(session: aiohttp.ClientSession, url: str, kind: str, patches: int) -> tuple[float, float]:
    """Patches a second, and milliseconds of CPU for each."""
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    began, used = time.perf_counter(), time.process_time()
    for number in range(patches):
        async with session.patch(f"{url}{NODE}/status", json=report(number, kind), headers=headers) as response:
            shown = await response.json()
            assert response.status == 200, shown
    assert (names.ANNOTATION_RAW_ALLOCATABLE in shown["metadata"]["annotations"]) is (kind == "amplified")
    return patches / (time.perf_counter() - began), (time.process_time() - used) * 1e3 / patches


async def run(patches: int, rounds: int) -> None:
    """All kinds in turns."""
    server, context, shown = Server(answer), keys.server_context(), keys.make("127.0.0.1", time.time(), 3600)
    keys.serve_with(context, shown)
    await server.start("127.0.0.1", 0, context)
    wanted = entries_of(MUTATING, [], (), schedulers=("berth-scheduler",), doors=open_doors(GATES)).entries
    entries = [with_bundle(rendered(each, f"https://127.0.0.1:{server.port}"), shown.pem) for each in wanted]
    found: dict[str, list[tuple[float, float]]] = {"without": [], "left out": [], "amplified": []}
    async with serve(SimSettings(kubelet=None)) as api, aiohttp.ClientSession() as session:
        node = node_manifest("n", cpu_milli=32_000, memory_mib=131_072)
        configuration = {"metadata": {"name": names.WEBHOOKS}, "webhooks": []}
        for path, body in (("/api/v1/nodes", node), (CONFIGURATIONS, configuration)):
            async with session.post(api.url + path, json=body) as response:
                assert response.status == 201, await response.text()
        merge = {"Content-Type": "application/merge-patch+json"}
        for kind in list(found) * rounds:
            notes = {
                names.ANNOTATION_AMPLIFICATION_RATIO: '{"cpu":1.5}' if kind == "amplified" else None,
                names.ANNOTATION_RAW_ALLOCATABLE: None,
                "kind": kind,
            }
            called = {"webhooks": [] if kind == "without" else entries}
            changes = ((NODE, {"metadata": {"annotations": notes}}), (f"{CONFIGURATIONS}/{names.WEBHOOKS}", called))
            for path, change in changes:
                async with session.patch(api.url + path, json=change, headers=merge) as response:
                    assert response.status == 200, await response.text()
            found[kind].append(await measured(session, api.url, kind, patches))
    await server.close()
    base = statistics.median(cpu for _, cpu in found["without"])
    for kind, each in found.items():
        rate, cpu = (statistics.median(values) for values in zip(*each, strict=True))
        print(f"{kind:10s} {rate:7.0f} patches/s   {cpu:6.2f} ms of CPU each   ratio {cpu / base:4.2f}")
        tell("patches", kind=kind, rate=rate, cpu_ms=cpu, ratio=cpu / base)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patches", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    asyncio.run(run(options.patches, options.rounds))


if __name__ == "__main__":
    main()
