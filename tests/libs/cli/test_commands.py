from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from berth.cli.__main__ import main
from berth.cli.commands.status import problems_of, table
from berth.cli.commands.watch import subject_of
from berth.cli.commands.why import _rank, explained, question_of
from berth.cli.errors import EXIT_DISK_FULL, EXIT_USAGE, CliError
from berth.cli.facts import fact_texts
from berth.cli.options import command_first
from berth.cli.output import PIPED_WIDTH, WIDTH_MAX
from berth.cli.past import Past
from berth.cli.runfile import Run, RunFile, folder
from berth.contracts import event
from berth.contracts.base import Problem, Reason
from berth.contracts.codec import encode
from berth.contracts.question import StatusAnswer, WhyAnswer


@pytest.fixture(autouse=True)
def _nothing_is_running(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    monkeypatch.delenv("BERTH_NATS_URL", raising=False)
    monkeypatch.delenv("BERTH_TRACE_DIR", raising=False)


# --- usage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["up", "status", "why", "gang", "node", "reservation", "watch", "demo", "replay"])
def test_help_of_every_command_names_the_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    told = capsys.readouterr().out
    assert f"berth {command}" in told
    assert "Exit codes" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["why"],
        ["why", "a/b/c"],
        ["why", "a/b", "-n", "c"],
        ["gang", "a/b/c"],
        ["gang", "a/b", "-n", "c"],
        ["node"],
        ["node", "a/b"],
        ["node", "node/"],
        ["watch", "two words"],
        ["up", "--nodes", "3"],
        ["up", "--solvers", "0"],
        ["demo", "--nodes", "3"],
        ["up", "--kube-url", "x", "--kubeconfig", "y"],
        ["up", "--kube-url", "ftp://x"],
        ["up", "--kubeconfig", "/nowhere/config"],
        ["replay"],
        ["replay", "/nowhere"],
        ["replay", ".", "--timed", "-1"],
        ["replay", ".", "--fill", "--timed", "10"],
        ["replay", ".", "--generated", "mixed"],
        ["replay", "--generated", "mixed", "--timed", "10"],
        ["replay", "--generated", "other"],
        ["replay", "--generated", "mixed", "--nodes", "0"],
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.err + captured.out


@pytest.mark.parametrize("arguments", [["status"], ["why", "a"], ["node", "a"], ["reservation"], ["watch"]])
def test_with_nothing_running_they_say_what_to_do(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == EXIT_USAGE
    assert "berth up" in capsys.readouterr().err


def test_a_bus_that_does_not_answer_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.cli.connect.CONNECT_TIMEOUT_S", 0.3)
    assert main(["status", "--nats", "nats://127.0.0.1:1"]) == EXIT_USAGE
    assert "nats://127.0.0.1:1" in capsys.readouterr().err


def test_where_nobody_listens_nothing_is_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.cli.connect.CONNECT_TIMEOUT_S", 600.0)
    monkeypatch.setattr("berth.cli.connect.SHOW_AFTER_S", 0.01)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, not listening: refused, and nobody else can take it
        url = f"nats://user:hunter2@127.0.0.1:{nobody.getsockname()[1]}"
        assert main(["status", "--nats", url]) == EXIT_USAGE
    (told,) = capsys.readouterr().err.splitlines()
    assert "Connect call failed" in told
    assert "hunter2" not in told


def test_a_slow_bus_is_spoken_of_while_it_is_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.cli.connect.CONNECT_TIMEOUT_S", 1.0)
    monkeypatch.setattr("berth.cli.connect.SHOW_AFTER_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"nats://127.0.0.1:{silent.getsockname()[1]}"
        assert main(["status", "--nats", url]) == EXIT_USAGE
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"connecting to {url} ..."
    assert "cannot connect" in second


# --- watch -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "subject"),
    [
        ("", "berth.v1.evt.>"),
        ("placement", "berth.v1.evt.placement.>"),
        ("placement.bound", "berth.v1.evt.placement.bound.>"),
        ("*.refused.>", "berth.v1.evt.*.refused.>"),
        ("reservation.changed.available", "berth.v1.evt.reservation.changed.available.>"),
        ("berth.v1.evt.quota.>", "berth.v1.evt.quota.>"),
        ("berth.v1.cmd.>", "berth.v1.cmd.>"),
    ],
)
def test_patterns_become_subjects(pattern: str, subject: str) -> None:
    assert subject_of(pattern) == subject


@pytest.mark.parametrize("pattern", ["a b", "a..b", ".a", "a."])
def test_what_is_no_subject_is_refused(pattern: str) -> None:
    with pytest.raises(CliError):
        subject_of(pattern)


@pytest.mark.parametrize("pattern", ["placment", "placement.boud", "*.nothing", "berth.v1.evt.bindings.>"])
def test_an_event_that_never_comes_ends_with_the_list_of_those_that_do(
    pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", pattern]) == EXIT_USAGE
    told = capsys.readouterr().err
    assert repr(pattern) in told
    for family in ("placement", "quota", "reservation", "node"):
        assert f"\n  {family}" in told
    assert "unschedulable" in told


# --- why -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "namespace", "expected"),
    [
        ("p", None, ("pod", "default", "p")),
        ("p", "ml", ("pod", "ml", "p")),
        ("ml/p", None, ("pod", "ml", "p")),
        ("ml/p", "ml", ("pod", "ml", "p")),
        ("pod/p", None, ("pod", "default", "p")),
        ("gang/train", None, ("gang", "default", "train")),
        ("gang/ml/train", None, ("gang", "ml", "train")),
        ("gang/train", "ml", ("gang", "ml", "train")),
        ("quota/ml", None, ("quota", "", "ml")),
        ("quota/tree/ml", None, ("quota", "tree", "ml")),
        ("reservation/r", None, ("pod", "", "r")),
        ("node/n1.example", None, ("node", "", "n1.example")),
        ("p", "node", ("pod", "node", "p")),
    ],
)
def test_what_is_asked_about(about: str, namespace: str | None, expected: tuple[str, str, str]) -> None:
    question = question_of(about, namespace)
    assert (question.kind, question.namespace, question.name) == expected


@pytest.mark.parametrize(("about", "namespace"), [("node/a/b", None), ("node/n", "x"), ("gang/", None), ("/p", None)])
def test_what_is_no_question(about: str, namespace: str | None) -> None:
    with pytest.raises(CliError):
        question_of(about, namespace)


def test_an_answer_about_a_gang_lists_its_members() -> None:
    answer = WhyAnswer(
        kind="gang",
        namespace="ml",
        name="train",
        outcome="waiting",
        facts={"members": "2, at least 4 start together"},
        pods={"ml/train-0": "waiting"},
    )
    assert explained(answer) == [
        "gang/ml/train  waiting",
        "  members  2, at least 4 start together",
        "  members",
        "    ml/train-0  waiting",
    ]


def test_a_pod_that_is_gone_has_a_past() -> None:
    ended = event.PlacementEnded(namespace="a", name="b", uid="u", node="n", plan="p", reason="deleted")
    answer = WhyAnswer(namespace="a", name="b", outcome="unknown", message="no such object is known")
    told = explained(answer, [Past(1_795_000_000.0, 1, encode(ended))])
    assert told[0] == "a/b  gone"
    assert told[-1].endswith("ended       a/b  n  deleted")
    many = explained(answer, [Past(1_795_000_000.0, number, encode(ended)) for number in range(30)])
    assert "    (20 earlier events)" in many


def test_the_solver_that_decides_the_pod_is_heard_first() -> None:
    def answer(outcome: str, mine: bool) -> WhyAnswer:
        return WhyAnswer(namespace="a", name="b", outcome=outcome, mine=mine)

    answers = [answer("waiting", False), answer("refused", True), answer("bound", False)]
    assert min(answers, key=_rank) == answers[1]
    others = [answer("unknown", False), answer("waiting", False), answer("new outcome", False)]
    assert min(others, key=_rank) == others[1]


def test_an_answer_shows_reasons_with_counts_problems_and_each_repair_once() -> None:
    answer = WhyAnswer(
        namespace="ml",
        name="p",
        outcome="refused",
        gang="ml/train",
        reasons=[
            Reason(code="NodeResourcesFit", message="Insufficient cpu", nodes=12, repair="ask for less"),
            Reason(code="quota", message="quota ml: over", repair="ask for less"),
        ],
        problems=[Problem(field="spec.x", message="is odd")],
    )
    told = "\n".join(explained(answer))
    assert "ml/p  refused" in told
    assert "on 12 nodes: Insufficient cpu" in told
    assert "gang        ml/train" in told
    assert "spec.x: is odd" in told
    assert told.count("ask for less") == 1


# --- status ----------------------------------------------------------------------------------------------------------


def status(service: str, *, active: bool = True, ready: bool = True, instance: str = "i") -> StatusAnswer:
    return StatusAnswer(service=service, instance=instance, active=active, ready=ready, facts={"pods": 3})


def test_a_standby_is_fine_while_another_instance_is_active() -> None:
    assert problems_of({"quota-manager": [status("quota-manager"), status("quota-manager", active=False)]}) == []


def test_missing_inactive_and_unready_services_are_problems() -> None:
    found = problems_of(
        {
            "cluster-watcher": [],
            "quota-manager": [status("quota-manager", active=False)],
            "placement-solver": [status("placement-solver", ready=False)],
        }
    )
    assert [text.partition(":")[0] for text in found] == ["cluster-watcher", "quota-manager", "placement-solver"]


def test_the_table_has_a_line_for_every_instance_and_for_who_is_missing() -> None:
    one, two = status("a", instance="a-one"), status("a", instance="host-2", active=False)
    lines = table({"a": [one, two], "b": []}, 0.0)
    assert [line.split()[:4] for line in lines] == [
        ["INSTANCE", "ROLE", "READY", "FACTS"],
        ["a-one", "active", "yes", "pods"],
        ["a", "host-2", "standby", "yes"],
        ["b", "-", "no", "no"],
    ]
    assert "pods 3" in lines[1]


def test_what_only_some_installations_have_is_not_missing() -> None:
    services = {"node-authenticator": [], "node-qos-enforcer": []}
    assert problems_of(services) == []
    assert [line.split()[0] for line in table(services, 0.0)] == ["INSTANCE", "node-qos-enforcer"]
    assert problems_of({"node-authenticator": [status("node-authenticator", ready=False)]}) != []


def test_a_long_name_does_not_push_the_figures_away() -> None:
    lines = table({"a": [status("a", instance="a-" + "x" * 60)]}, 0.0)
    assert lines[-1].strip() == "pods 3"
    assert all(len(line) <= WIDTH_MAX for line in lines)


def test_figures_have_words_units_and_ages() -> None:
    facts: dict[str, str | int | float] = {
        "open_binds": 0,
        "memory_used_bytes": 3 << 30,
        "cpu_used_milli": 1500,
        "measured_at": 1_795_273_310.5,
        "interval_s": 1.0021,
        "pods": 4,
        "pods are": "synced",
        "devices": 0,
        "devices are": "not installed",
        "view": "",
    }
    assert fact_texts(facts, 1_795_273_314.0) == [
        "open binds 0",
        "memory used 3 GiB",
        "cpu used 1.5 cores",
        "measured 4 s ago",
        "interval 1 s",
        "pods 4",
        "devices not installed",
    ]


# --- which run, and where the answer goes -----------------------------------------------------------------------------


@pytest.fixture
def two_runs() -> Iterator[tuple[int, int]]:
    """This process and a child of it pose as runs."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with RunFile(nats_url="nats://127.0.0.1:1", kube_url="", command="up"):
            started = psutil.Process(child.pid).create_time()
            other = Run(
                nats_url="nats://127.0.0.1:2", kube_url="", pid=child.pid, process_started=started, command="demo"
            )
            (folder() / f"{child.pid}.json").write_bytes(msgspec.json.encode(other))
            yield os.getpid(), child.pid
    finally:
        child.kill()
        child.wait()


def test_of_several_runs_one_has_to_be_chosen(
    two_runs: tuple[int, int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.cli.connect.CONNECT_TIMEOUT_S", 0.3)
    assert main(["status"]) == EXIT_USAGE
    told = capsys.readouterr().err
    assert "choose one with --run" in told
    assert [f"--run {pid}" in told for pid in two_runs] == [True, True]
    assert main(["status", "--run", str(two_runs[1])]) == EXIT_USAGE
    assert "nats://127.0.0.1:2" in capsys.readouterr().err
    assert main(["--run", str(two_runs[0]), "status"]) == EXIT_USAGE
    assert "nats://127.0.0.1:1" in capsys.readouterr().err
    assert main(["status", "--run", "1"]) == EXIT_USAGE
    assert "--run 1: no run has this number" in capsys.readouterr().err


def test_options_of_the_bus_stand_on_either_side_of_the_command() -> None:
    behind = ["status", "--server", "nats://x", "--nats-user=u", "--json"]
    assert command_first(["--server", "nats://x", "--nats-user=u", "status", "--json"]) == behind
    assert command_first(behind) == behind
    assert command_first(["--help"]) == ["--help"]
    assert command_first(["--nats", "x"]) == ["--nats", "x"]


@pytest.mark.parametrize(
    "arguments", [["status", "--server", "nats://127.0.0.1:1"], ["--server", "nats://127.0.0.1:1", "status"]]
)
def test_the_server_that_is_asked_is_the_one_named(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.cli.connect.CONNECT_TIMEOUT_S", 0.3)
    assert main(arguments) == EXIT_USAGE
    assert "nats://127.0.0.1:1" in capsys.readouterr().err


def test_an_answer_that_cannot_be_written_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "berth.cli", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (ran.returncode, ran.stderr) == (EXIT_DISK_FULL, "berth: cannot write the answer: No space left on device\n")


def test_a_reader_that_has_gone_is_no_error() -> None:
    ran = subprocess.run(
        f"{sys.executable} -m berth.cli --help | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_pipe_gets_one_line_for_an_instance_with_every_figure() -> None:
    facts: dict[str, str | int | float] = {f"figure_{number}": number for number in range(60)}
    answer = StatusAnswer(service="a", instance="a-1", active=True, ready=True, facts=facts)
    _, line = table({"a": [answer]}, 0.0, PIPED_WIDTH)
    assert line.endswith("figure 59 59")
    assert max(map(len, table({"a": [answer]}, 0.0, 80))) <= 80
