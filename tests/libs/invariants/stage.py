"""Where the small stories begin: two nodes, a tree of quota groups, two pods that wait; and who may join them."""

from __future__ import annotations

from tests.libs.invariants.story import Json, Story


def stage() -> Story:
    story = Story()
    story.node("n1")
    story.node("n2")
    story.quota("company", "5")
    story.quota("blue", "4", "1", parent="company")
    story.quota("red", "4", parent="company")
    story.pod("a")
    story.pod("b")
    return story


def gang(story: Story, size: int) -> None:
    for number in range(1, size + 1):
        story.pod(f"g{number}", gang="g", minimum=size)


def stranger(story: Story, cpu: str) -> None:
    """A pod that another scheduler has bound to n1."""
    requests = {"requests": {"cpu": cpu}}
    spec: Json = {"schedulerName": "other", "nodeName": "n1", "containers": [{"name": "main", "resources": requests}]}
    story.put("pods", "foreign", {"spec": spec, "status": {"phase": "Running"}}, "default")
