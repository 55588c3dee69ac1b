"""Where the small stories begin: two nodes, a tree of quota groups, two pods that wait; and how a gang joins them."""

from __future__ import annotations

from tests.libs.invariants.story import Story


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
