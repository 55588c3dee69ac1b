"""Processes that talk, fail, are killed and come again, for the tests of determinism: prints digest and trail.

With `--bench` instead: microseconds of real time per callback.
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial

from berth.testing.simulation.process import Process
from berth.testing.simulation.world import World


class Post:
    """Mail between processes with seeded delays."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = world.chance("post")
        self.boxes: dict[str, tuple[Process, asyncio.Queue[str]]] = {}

    def send(self, to: str, text: str) -> None:
        if to in self.boxes:
            process, box = self.boxes[to]
            self.world.later(self.chance.uniform(0.001, 0.05), process, box.put_nowait, text)


async def worker(post: Post, process: Process, names: list[str]) -> None:
    box: asyncio.Queue[str] = asyncio.Queue()
    post.boxes[process.name] = (process, box)

    async def answer() -> None:
        while True:
            text = await box.get()
            post.world.note(f"{post.world.now} {process.loop.name} {text}".encode())

    async def ask(to: str) -> None:
        await asyncio.sleep(process.random.random())
        post.send(to, f"{process.name} to {to}")

    answering = asyncio.create_task(answer())
    while process.random.random() > 0.001:
        asking = {asyncio.create_task(ask(to)) for to in names}
        done, pending = await asyncio.wait(asking, timeout=0.7)
        for task in [*done, *pending]:
            post.world.note(task.get_name().encode())
            task.cancel()
    answering.cancel()
    raise RuntimeError("tired")


def start(post: Post, names: list[str], name: str) -> None:
    process = post.world.process(name)
    process.on_end(lambda _: post.world.later(1.0, None, start, post, names, name))
    process.start(worker(post, process, names))


def strike(post: Post) -> None:
    living = [process for process in post.world.processes if process.alive]
    if living:
        victim = post.chance.choice(living)
        if post.chance.random() < 0.5:
            victim.kill_after(post.chance.randrange(50))
        else:
            victim.pause()
            post.world.later(post.chance.uniform(0, 10), None, victim.resume)
    post.world.later(post.chance.uniform(1, 10), None, partial(strike, post))


def run(seed: int, until_s: float) -> World:
    world = World(seed)
    post = Post(world)
    names = [f"worker-{number}" for number in range(8)]
    for name in names:
        start(post, names, name)
    strike(post)
    world.run(until_s)
    return world


def main() -> None:
    if sys.argv[1] == "--bench":
        began = time.perf_counter()
        world = run(1, 1000.0)
        spent_s = time.perf_counter() - began
        print(f"{world.callbacks} callbacks, {spent_s / world.callbacks * 1e6:.2f} us each, {spent_s:.2f} s")
    else:
        world = run(int(sys.argv[1]), 60.0)
        print(world.digest, world.trail, world.callbacks)
    world.close()


if __name__ == "__main__":
    main()
