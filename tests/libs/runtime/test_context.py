"""What a service is given: a client of the API server from whoever runs it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from berth.kube import Kube, KubeConfigError, KubeSettings
from berth.runtime import Context, SystemClock


def context(**given: Any) -> Context[None]:
    return Context(service="toy", settings=None, bus=cast(Any, None), **given)


async def test_the_client_comes_from_who_runs_the_service() -> None:
    asked: list[Any] = []
    clock = SystemClock()
    made = cast(Kube, object())

    async def connect(settings: KubeSettings, clock: Any) -> Kube:
        asked.append((settings, clock))
        return made

    settings = KubeSettings(url="http://somewhere")
    assert await context(clock=clock, connect_kube=connect).kube(settings) is made
    assert asked == [(settings, clock)]


async def test_by_itself_it_is_the_real_one() -> None:
    async with await context().kube(KubeSettings(url="http://127.0.0.1:1")) as kube:
        assert kube.server == "http://127.0.0.1:1"
    with pytest.raises(KubeConfigError, match="url"):
        await context().kube(KubeSettings(url="nowhere"))
