"""Groups below those of pods: listed when there is news, and now and then."""

from berth.node_qos_enforcer.core.inside.running import ContainerNow, PodNow
from berth.node_qos_enforcer.core.inside.seen import PodSeen
from berth.node_qos_enforcer.snapshots import LIST_ROUNDS, GroupsBelow
from berth.rules.cpus.resource_status import read_resource_status


class Tree:
    """Counts how often somebody lists."""

    def __init__(self) -> None:
        self.names = ["sandbox"]
        self.listed = 0

    def directories(self, path):
        self.listed += 1
        return list(self.names)


def test_groups_are_listed_when_there_is_news():
    tree, groups = Tree(), GroupsBelow()
    pod = PodSeen("s", "u", "d", "p", {}, {}, "", read_resource_status({}))

    def look(*containers: str) -> tuple[str, ...]:
        groups.begin(["u"])
        return groups.of(
            tree, "g", "u", PodNow(pod, tuple(ContainerNow(each, each, None, True) for each in containers))
        )

    assert look("a") == look("a") == ("sandbox",)
    assert tree.listed == 2, "the group of the container is not there yet"
    tree.names.append("a")
    assert look("a") == ("sandbox", "a")
    listed = tree.listed
    for _ in range(3 * LIST_ROUNDS):
        look("a")
    assert listed + 3 <= tree.listed <= listed + 4
    tree.names[1] = "b"
    assert look("b") == ("sandbox", "b")
    groups.begin([])
    assert groups._known == {}
