"""Of a pair the active one is asked, and what it answers is told apart."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from aiohttp import web

from berth.contracts.base import Problem
from berth.yarn_operator import rest
from berth.yarn_operator.core.listing import Listing
from berth.yarn_operator.core.units import Share
from berth.yarn_operator.resource_manager import RefusedError, ResourceManager, UnreachableError
from berth.yarn_operator.rest import Answer, NoAnswerError, by_http

pytestmark = pytest.mark.asyncio
PAGE = Answer(200, b"<html>log in</html>")
STANDBY = Answer(200, b'{"clusterInfo": {"haState": "STANDBY"}}')
ACTIVE = Answer(200, b'{"clusterInfo": {"haState": "ACTIVE"}}')
NOBODY = Answer(200, b'{"nodes": null}')


class Scripted:
    """Answers by the ends of URLs; None: no answer."""

    def __init__(self, answers: Mapping[str, Answer | None]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []
        self.body = b""

    async def get(self, url: str, params: Mapping[str, str]) -> Answer:
        self.asked.append(url)
        answer = next(each for end, each in self.answers.items() if url.endswith(end))
        if answer is None:
            raise NoAnswerError("no answer")
        return answer

    async def post(self, url: str, params: Mapping[str, str], body: bytes) -> Answer:
        self.body = body
        return await self.get(url, params)


def pair(answers: Mapping[str, Answer | None]) -> tuple[Scripted, ResourceManager]:
    scripted = Scripted(answers)
    return scripted, ResourceManager(scripted, ["http://a/", "http://b"], user="yarn")


async def test_the_active_one_is_asked_until_it_fails() -> None:
    scripted, manager = pair({"a/ws/v1/cluster/info": PAGE, "b/ws/v1/cluster/info": ACTIVE, "nodes": NOBODY})
    assert await manager.listing() == Listing({})
    await manager.listing()
    assert [url[7] for url in scripted.asked] == ["a", "b", "b", "b"]
    scripted.answers["nodes"] = Answer(307, b"")
    with pytest.raises(UnreachableError, match="307"):
        await manager.listing()
    scripted.answers |= {"a/ws/v1/cluster/info": ACTIVE, "nodes": PAGE}
    assert isinstance(await manager.listing(), Problem)
    assert scripted.asked[-1].startswith("http://a/")


async def test_nobody_is_active() -> None:
    _, manager = pair({"a/ws/v1/cluster/info": None, "b/ws/v1/cluster/info": STANDBY})
    with pytest.raises(UnreachableError, match=r"http://a/.*: no answer; http://b is not active"):
        await manager.listing()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(404, b"<html>no such node"), RefusedError),
        (Answer(403, b"not an administrator"), RefusedError),
        (Answer(307, b""), UnreachableError),
        (Answer(500, b""), UnreachableError),
        (None, UnreachableError),
    ],
)
async def test_a_grant_that_is_refused_is_not_one_without_an_answer(
    answer: Answer | None, error: type[Exception]
) -> None:
    scripted, manager = pair({"info": ACTIVE, "nodes/n%3A1/resource": answer})
    with pytest.raises(error):
        await manager.grant("n:1", Share(2, 300), over_commit_timeout_s=4)
    assert json.loads(scripted.body) == {"resource": {"memory": 300, "vCores": 2}, "overCommitTimeout": 4000}


async def test_answers_are_of_bounded_size_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    app = web.Application()
    app.router.add_get("/{length}", _said)
    monkeypatch.setattr(rest, "BODY_BYTES_MAX", 1_000)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with by_http(5.0) as http:
            assert await http.get(f"{url}/20", {}) == Answer(200, b"x" * 20)
            with pytest.raises(NoAnswerError, match="1000 bytes"):
                await http.get(f"{url}/2000", {})
    finally:
        await runner.cleanup()
    async with by_http(5.0) as http:
        with pytest.raises(NoAnswerError):
            await http.get(url, {})


async def _said(request: web.Request) -> web.Response:
    return web.Response(text="x" * int(request.match_info["length"]))
