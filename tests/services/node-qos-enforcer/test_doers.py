"""What is done and is no file: cookies, the device's classes, marks; on kernels and commands that only pretend."""

import errno
from pathlib import Path

from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.disk_reading import DiskReader
from berth.node_qos_enforcer.doers import Doers
from berth.node_qos_enforcer.doers.cookies import CookieDoer
from berth.node_qos_enforcer.doers.network import NetworkDoer, Output
from berth.node_qos_enforcer.store import JournalFile

# --- cookies ---


class Kernel:
    """Cookies by process; what is not in it is gone."""

    def __init__(self, **cookies):
        self.cookies = {int(process[1:]): cookie for process, cookie in cookies.items()}
        self.calls = []

    def of(self, process):
        return self.cookies.get(process, 0 if process > 1000 else None)

    def create(self, process):
        self.calls.append(("create", process))
        self.cookies[process] = max(self.cookies.values()) + 1

    def share(self, source, targets):
        targets = list(targets)
        self.calls.append(("share", source, *targets))
        self.cookies.update(dict.fromkeys(targets, self.cookies[source]))

    def clear(self, targets):
        targets = list(targets)
        self.calls.append(("clear", *targets))
        self.cookies.update(dict.fromkeys(targets, 0))


def cookies_of(kernel, groups):
    return CookieDoer(kernel, lambda group: groups.get(group, ()), lambda: groups)


def names(**groups):
    return {Ref(group, "core_sched.cookie"): name for group, name in groups.items()}


def test_a_group_has_one_cookie_and_others_another():
    kernel = Kernel(p1=0, p2=0, p3=0, p4=0)
    doer = cookies_of(kernel, {"a": [1, 2], "b": [3], "c": [4]})
    doer.bring(names(a="g", b="g", c="h"))
    assert kernel.cookies == {1: 1, 2: 1, 3: 1, 4: 2}
    assert kernel.calls == [("create", 1), ("share", 1, 2, 3), ("create", 4)]


def test_a_cookie_that_is_there_is_taken_up():
    kernel = Kernel(p1=0, p2=7)
    assert cookies_of(kernel, {"a": [1, 2]}).bring(names(a="g")).changed == 1
    assert kernel.calls == [("share", 2, 1)]


def test_a_process_that_came_from_outside_gets_the_cookie_soon():
    kernel, groups = Kernel(p1=0), {"a": [1]}
    doer = cookies_of(kernel, groups)
    doer.bring(names(a="g"))
    groups["a"] = [1, 5, 6]
    kernel.cookies[5] = 0  # 6 is gone before it is asked
    for _ in range(5):
        doer.bring(names(a="g"))
    assert kernel.cookies[5] == kernel.cookies[1]


def test_who_changes_the_group_gets_another_cookie():
    kernel = Kernel(p1=0, p2=0)
    doer = cookies_of(kernel, {"a": [1], "b": [2]})
    doer.bring(names(a="g", b="g"))
    doer.bring(names(a="g", b="h"))
    assert kernel.cookies[1] != kernel.cookies[2] != 0


def test_nobody_keeps_a_cookie_that_nobody_wants_not_even_of_a_process_before(tmp_path: Path):
    kernel, file = Kernel(p1=0, p2=0), JournalFile(str(tmp_path / "done"))

    def process(boot="this"):
        doers = Doers([cookies_of(kernel, {"a": [1], "b": [2]})], file, boot=boot)
        doers.load()
        return doers

    process().bring(names(a="g"))
    assert not process("another").has_done
    after = process()
    assert after.has_done
    after.bring({}, undecided=frozenset({"core_sched.cookie"}))
    assert kernel.cookies[1]
    after.bring({})
    after.bring({})
    assert kernel.calls == [("create", 1), ("clear", 1)]
    assert not process().has_done


def test_what_others_have_given_stays():
    kernel = Kernel(p1=9)
    Doers([cookies_of(kernel, {"a": [1]})]).bring({})
    assert kernel.calls == []


def test_a_kernel_without_core_scheduling_says_so():
    kernel = Kernel()
    kernel.of = lambda _: (_ for _ in ()).throw(OSError(errno.EINVAL, "no"))
    done = Doers([cookies_of(kernel, {"a": [1]})]).bring(names(a="g"))
    assert done.lacks
    assert not done.problems


# --- the network ---

TREE = "qdisc add dev eth0 root handle 1: htb default 2\nclass add dev eth0 parent 1: classid 1:1 htb rate 9bit\n"
OURS = "qdisc htb 1: dev eth0 root refcnt 2 r2q 10 default 0x2\nqdisc noqueue 0: dev lo root refcnt 2\n"


class Commands:
    """Answers by the beginning of a command; all others succeed."""

    def __init__(self, **answers):
        self.answers = answers
        self.ran = []

    def __call__(self, command, text):
        said = " ".join(command)
        answer = next((out for key, out in self.answers.items() if said.startswith(key.replace("_", " "))), "")
        if not any(word in said for word in ("show", "list")):
            self.ran.append((said, text))
        return answer if isinstance(answer, Output) else Output(0, answer)


def wanted(tree=TREE, classes="table"):
    return {Ref("eth0", "net.tree"): tree, Ref("eth0", "net.classes"): classes}


def test_a_tree_is_made_and_left_alone():
    commands = Commands(tc_qdisc_show="qdisc fq_codel 0: root refcnt 2 limit 10240p\n")
    doer = NetworkDoer(commands)
    assert doer.bring(wanted()).changed == 3
    assert doer.bring(wanted()).changed == 0
    assert commands.ran == [("tc -batch -", TREE), ("nft -f -", "table")]


def test_a_tree_of_a_process_before_is_brought_up_to_date():
    shown = "class htb 1:1 root rate 9bit\nclass htb 1:a parent 1:1 prio 3\n"
    commands = Commands(tc_qdisc_show=OURS.replace(" dev eth0", ""), tc_class_show=shown)
    NetworkDoer(commands).bring(wanted())
    assert commands.ran[0][1].splitlines() == [
        "class del dev eth0 classid 1:a",
        "class replace dev eth0 parent 1: classid 1:1 htb rate 9bit",
    ]


def test_what_somebody_else_has_put_there_is_left_alone():
    commands = Commands(tc_qdisc_show="qdisc cake 8001: root refcnt 2\n")
    done = NetworkDoer(commands).bring(wanted())
    assert "somebody else" in done.problems[0].message
    assert commands.ran == []


def test_what_is_ours_is_taken_away_and_nothing_else():
    commands = Commands(tc_qdisc_show=OURS)
    assert NetworkDoer(commands).bring({}).changed == 2
    assert [said for said, _ in commands.ran] == ["tc qdisc del dev eth0 root", "nft delete table inet berth_qos"]
    commands = Commands(tc_qdisc_show=OURS, nft_list=Output(1))
    assert NetworkDoer(commands).bring({}).changed == 0
    assert commands.ran == []


def test_a_missing_tool_is_named():
    done = Doers([NetworkDoer(lambda *_: Output(127, error="tc is not installed"))]).bring(wanted())
    assert done.lacks == "tc is not installed"


# --- disks ---


def test_disks_are_read_seldom(tmp_path: Path):
    device = tmp_path / "devices" / "nvme0n1" / "nvme0n1p17"
    device.mkdir(parents=True)
    (device / "partition").write_text("17")
    block = tmp_path / "class" / "block"
    block.mkdir(parents=True)
    (block / "nvme0n1p17").symlink_to(device)
    ran = []

    def commands(command, _):
        ran.append(command[0])
        if command[0] == "lsblk":
            return Output(
                0, 'NAME="nvme0n1p17" TYPE="part" MAJ:MIN="259:17"\nNAME="nvme0n1" TYPE="disk" MAJ:MIN="259:0"'
            )
        if command[0] == "findmnt":
            return Output(0, 'TARGET="/data\\x20x" SOURCE="/dev/nvme0n1p17"\n')
        return Output(127) if command[0] == "vgs" else Output(0, "torn")

    reader = DiskReader(tmp_path, commands)
    disks = reader.disks(0.0)
    assert disks.number_of_device("/dev/nvme0n1p17") == "259:0"
    assert disks.mount_device == {"/data x": "/dev/nvme0n1p17"}
    assert [each.field for each in reader.problems] == ["lvs"]
    reader.disks(29.0)
    assert len(ran) == 4
