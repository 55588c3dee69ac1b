"""What the agent has written last, for people."""

import pytest

from berth.contracts.codec import decode, encode
from berth.contracts.node_audit import TrailAnswer, TrailQuestion
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.trail import FILES_MAX, Trail
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.trail_question import answering


def test_each_file_once_the_newest_first():
    times = iter(range(100))
    trail = Trail(lambda: float(next(times)))
    for path, text in (("a", "1"), ("b", "2"), ("a", "3")):
        trail.wrote(path, text)
    assert [(each.path, each.text, each.at, each.times) for each in trail.newest_first] == [
        ("a", "3", 2.0, 2),
        ("b", "2", 1.0, 1),
    ]


def test_it_stays_small():
    trail = Trail(lambda: 0.0)
    for number in range(2 * FILES_MAX):
        trail.wrote(f"{number}", "x" * 10_000)
    assert len(trail.newest_first) == FILES_MAX
    assert len(encode(TrailAnswer(node="n", entries=trail.newest_first))) < 200_000


async def test_writes_and_what_is_given_back_are_answered_to_who_asks_about_this_node(tmp_path):
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / "knob").write_text("max\n")
    executor = Executor(DiskTree(str(tmp_path)), now=lambda: 5.0)
    executor.write("group/knob", "10")
    with pytest.raises(FileNotFoundError):
        executor.put("absent/knob", "10")
    executor.undo()
    answer = answering("n", executor.trail, lambda: 7.0)
    found = decode(await answer(encode(TrailQuestion(name="n"))) or b"", TrailAnswer)
    assert [(each.path, each.text, each.undone, each.times) for each in found.entries] == [
        ("group/knob", "max", True, 2)
    ]
    assert await answer(encode(TrailQuestion(name="other"))) is None
