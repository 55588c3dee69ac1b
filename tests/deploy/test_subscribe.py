"""The program in docs/subscribe.md, run as a reader would: on a bus with users, with a reader's rights."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from pathlib import Path

from tests.deploy.manifests import users_conf

from berth.bus import Bus, BusSettings
from berth.contracts import event, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import DeviceGrant
from berth.testing.nats_server import NatsServer

ROOT = Path(__file__).parents[2]
PASSWORD = "pw"


async def test_the_sample_prints_what_was_placed(tmp_path: Path) -> None:
    (sample,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/subscribe.md").read_text(), re.DOTALL)
    assert "timeout=5" in sample
    (tmp_path / "sample.py").write_text(sample.replace("timeout=5", "timeout=0.01"))  # many quiet waits in a short test
    (tmp_path / "password").write_text(PASSWORD)
    users = users_conf(PASSWORD)
    bound = event.PlacementBound(
        namespace="ns", name="web.v2", uid="u", node="n1", plan="p", devices=[DeviceGrant(kind="gpu", minor=3)]
    )
    with NatsServer(config=users) as server:
        settings = BusSettings(url=server.url, user="cluster-writer", password_file=str(tmp_path / "password"))
        bus = await Bus.connect(settings, service="cluster-writer")
        await bus.ensure()
        subject = subjects.event_subject("placement", "bound", bound.namespace, bound.name)
        events = bus.events()
        await events.publish(subject, encode(bound), id="one", type="placement.bound.v1")
        reader = server.url.replace("nats://", f"nats://reader:{PASSWORD}@")
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(tmp_path / "sample.py"), reader, "berth", stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            line = await asyncio.wait_for(process.stdout.readline(), 30)
            assert line == b"ns/web.v2 -> n1 gpu 3\n"
            with contextlib.suppress(TimeoutError):  # quiet for many of its waits: it stays
                await asyncio.wait_for(process.wait(), 2)
            await events.publish(subject, encode(bound), id="two", type="placement.bound.v1")
            assert await asyncio.wait_for(process.stdout.readline(), 30) == line
        finally:
            process.kill()
            await process.wait()
            await bus.close()
