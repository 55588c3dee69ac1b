"""The simulated API gives the answers of the real one: the same requests to both, status, reason and fields compared.

What a server makes up itself (uids, versions, times) is made equal before the comparison; of objects only what the
scenario is about is compared, since the simulated server fills in fewer defaults.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import NamedTuple

import aiohttp
import pytest
import pytest_asyncio
from tests.e2e.api_scenarios import SCENARIOS
from tests.e2e.api_steps import NOBODY, Json, Step, post
from tests.e2e.clusters import K8S
from yarl import URL

from berth.simcluster import SimSettings, serve
from berth.testing.kube_server import KubeServer

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

READ_BY_PROGRAMS = (404, 409, 429)


class Server(NamedTuple):
    """One of the two."""

    session: aiohttp.ClientSession
    url: str

    async def ask(self, step: Step, known: dict[str, str]) -> tuple[int, Json]:
        url = URL(self.url + fill(step.path, known), encoded=True)
        data = None if step.body is None else fill(json.dumps(step.body), known).encode()
        async with self.session.request(step.method, url, data=data, headers={"Content-Type": step.kind}) as response:
            text = await response.read()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(real_kind: str) -> AsyncIterator[tuple[Server, Server]]:
    with KubeServer() as kube:
        kube.install(K8S / "crds")
        kube.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        headers = {"Authorization": f"Bearer {kube.admin_token}"}
        connector = aiohttp.TCPConnector(ssl=kube.tls)
        async with (
            serve(SimSettings(kubelet=None)) as simulated,
            aiohttp.ClientSession() as plain,
            aiohttp.ClientSession(connector=connector, headers=headers) as secure,
        ):
            yield Server(plain, simulated.url), Server(secure, kube.url)


def fill(text: str, known: dict[str, str]) -> str:
    for name, value in known.items():
        text = text.replace(name, value)
    return text


def field(answer: Json, path: str) -> Json:
    """A dotted field; of lists of objects their names."""
    for part in path.split("."):
        answer = answer.get(part) if isinstance(answer, dict) else None
    if path == "items" and isinstance(answer, list):
        return [each["metadata"]["name"] for each in answer]
    if path.endswith("conditions") and isinstance(answer, list):
        return sorted((each["type"], each["status"], each.get("reason", "")) for each in answer)
    return answer


def told(answer: tuple[int, Json], step: Step, known: dict[str, str]) -> Json:
    """What is compared of an answer: of a refusal the words where programs read them, else the refused fields."""
    status, body = answer
    if not isinstance(body, dict):
        return status, body
    if body.get("kind") != "Status":
        return status, body.get("kind"), {path: field(body, path) or None for path in step.fields}
    text = str(body.get("message", ""))
    for name in ("$uid", "$ns", "$version"):
        text = text.replace(known[name], name)
    causes = sorted({(each.get("field"), each.get("reason")) for each in body.get("details", {}).get("causes", [])})
    words = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "#", text) if status in READ_BY_PROGRAMS else ""
    return status, body.get("status"), body.get("reason"), causes, words


@pytest.mark.parametrize("what", SCENARIOS)
async def test_both_servers_say_the_same(servers: tuple[Server, Server], what: str) -> None:
    name = "same-" + re.sub(r"\W+", "-", what)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    known = [{"$ns": name, "$uid": NOBODY, "$version": "1"} for _ in servers]
    for server, mine in zip(servers, known, strict=True):
        await server.ask(post("/api/v1/namespaces", space), mine)
    differences = []
    for number, step in enumerate(SCENARIOS[what]):
        said = []
        for server, mine in zip(servers, known, strict=True):
            answer = await server.ask(step, mine)
            said.append(told(answer, step, mine))
            if isinstance(answer[1], dict) and answer[1].get("metadata", {}).get("uid"):
                mine["$uid"] = answer[1]["metadata"]["uid"]
                mine["$version"] = answer[1]["metadata"]["resourceVersion"]
        if said[0] != said[1]:
            differences.append(
                f"{number}: {step.method} {step.path} {step.body}\n   simulated {said[0]}\n   real      {said[1]}"
            )
    assert not differences, "\n".join(differences)
