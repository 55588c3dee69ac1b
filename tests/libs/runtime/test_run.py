import contextlib
import json
import os
import signal
import socket
import time

import pytest

from berth.testing.nats_server import NatsServer

IDLE = """
    async def main(ctx):
        ctx.log.info("main runs", instance_seen=ctx.instance)
        try:
            await asyncio.sleep(3600)
        finally:
            ctx.log.info("main cleans up")

    sys.exit(run("quota-manager", ServiceSettings, main, with_bus=False))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_lets_main_finish_and_exits_with_0(start_service, number):
    service = start_service(IDLE)
    line = service.wait_for_message("main runs")
    assert line["service"] == "quota-manager"
    assert line["instance"] == "one"
    assert line["instance_seen"] == "one"
    service.signal(number)
    assert service.code() == 0
    messages = service.messages()
    assert messages.index("stopping") < messages.index("main cleans up") < messages.index("stopped")
    assert "Traceback" not in service.text()


def test_health_and_metrics_are_served_on_a_free_port(start_service):
    service = start_service(IDLE)
    service.wait_for_message("main runs")
    status, body = service.get("/readyz")
    assert status == 200
    assert json.loads(body)["checks"]["running"] == {"ok": True, "text": "running"}
    assert service.get("/livez")[0] == 200
    status, body = service.get("/metrics")
    assert status == 200
    assert "process_cpu_seconds_total" in body
    assert "process_resident_memory_bytes" in body
    service.wait_for(
        lambda: "berth_runtime_event_loop_lag_seconds_count 0.0" not in service.get("/metrics")[1], "a first heartbeat"
    )
    port = int(service.port_file.read_text())
    assert service.wait_for_message("started")["http_port"] == port


def test_tasks_serve_main_until_it_has_finished(start_service):
    service = start_service("""
        async def main(ctx):
            asked, answered = asyncio.Event(), asyncio.Event()
            async def server():
                try:
                    await asked.wait()
                    answered.set()
                    await asyncio.sleep(3600)
                finally:
                    ctx.log.info("server ends")
            ctx.spawn(server(), name="server")
            ctx.log.info("main runs")
            try:
                await asyncio.sleep(3600)
            finally:
                asked.set()
                await answered.wait()
                ctx.log.info("main was served")
        sys.exit(run("s", ServiceSettings, main, with_bus=False))
    """)
    service.wait_for_message("main runs")
    service.signal()
    assert service.code() == 0
    messages = service.messages()
    assert messages.index("main was served") < messages.index("server ends")


def test_a_failing_task_is_logged_once_and_ends_the_process(start_service):
    service = start_service("""
        async def broken():
            await asyncio.sleep(0.01)
            raise ValueError("cannot go on")
        async def main(ctx):
            ctx.spawn(broken(), name="follower")
            try:
                await asyncio.sleep(3600)
            finally:
                ctx.log.info("main cleans up")
        sys.exit(run("s", ServiceSettings, main, with_bus=False))
    """)
    assert service.code() == 1
    failures = [line for line in service.lines() if line["level"] == "error"]
    assert [line["task"] for line in failures] == ["follower"]
    assert "ValueError: cannot go on" in failures[0]["exception"]
    assert "in broken" in failures[0]["exception"]
    assert service.text().count("cannot go on") == 2  # the line of source in the traceback, and the error
    assert "main cleans up" in service.messages()


def test_a_failing_main_ends_the_process(start_service):
    service = start_service("""
        async def main(ctx):
            raise RuntimeError("no")
        sys.exit(run("s", ServiceSettings, main, with_bus=False))
    """)
    assert service.code() == 1
    assert [line["task"] for line in service.lines() if line["level"] == "error"] == ["main"]


def test_a_failure_while_stopping_is_not_success(start_service):
    service = start_service("""
        async def main(ctx):
            ctx.log.info("main runs")
            try:
                await asyncio.sleep(3600)
            finally:
                raise RuntimeError("lost something")
        sys.exit(run("s", ServiceSettings, main, with_bus=False))
    """)
    service.wait_for_message("main runs")
    service.signal()
    assert service.code() == 1


def test_main_may_spawn_and_return(start_service):
    service = start_service("""
        async def work(ctx):
            ctx.log.info("work runs")
            await asyncio.sleep(3600)
        async def main(ctx):
            ctx.spawn(work(ctx), name="work")
        sys.exit(run("s", ServiceSettings, main, with_bus=False))
    """)
    service.wait_for_message("work runs")
    assert service.get("/readyz")[0] == 200
    service.signal()
    assert service.code() == 0


def test_a_process_without_work_ends(start_service):
    service = start_service("""
        async def main(ctx):
            pass
        sys.exit(run("s", ServiceSettings, main, with_bus=False))
    """)
    assert service.code() == 0
    assert service.wait_for_message("stopping")["reason"] == "all work is done"


HANGS = """
    async def main(ctx):
        while True:
            try:
                ctx.log.info("main runs")
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                ctx.log.info("main will not end")
    sys.exit(run("s", ServiceSettings, main, with_bus=False))
"""


def test_a_task_that_will_not_end_is_left_behind_after_the_drain_time(start_service):
    service = start_service(HANGS, BERTH_DRAIN_S="0.2")
    service.wait_for_message("main runs")
    service.signal()
    assert service.code() == 0
    assert service.wait_for_message("tasks did not end in time")["tasks"] == ["main"]


def test_a_second_signal_ends_at_once(start_service):
    service = start_service(HANGS, BERTH_DRAIN_S="3600")
    service.wait_for_message("main runs")
    service.signal()
    service.wait_for_message("main will not end")
    service.signal()
    assert service.code() == 1


def test_a_thread_that_will_not_end_is_left_behind(start_service):
    service = start_service("""
        import time
        async def main(ctx):
            task = asyncio.ensure_future(asyncio.to_thread(time.sleep, 3600))
            ctx.log.info("main runs")
            await task
        sys.exit(run("s", ServiceSettings, main, with_bus=False))
    """)
    service.wait_for_message("main runs")
    service.signal()
    assert service.code() == 0
    assert "left behind at exit" in service.messages()


def test_bad_settings_are_named_on_a_line_each_and_exit_with_2(start_service):
    service = start_service(IDLE, BERTH_HTTP_PORT="eighty", BERTH_LOG_LEVEL="loud", BERTH_OTHER_SERVICES_THING="x")
    assert service.code() == 2
    lines = service.text().splitlines()
    assert len(lines) == 2
    assert any(line.startswith("quota-manager: BERTH_HTTP_PORT='eighty'") for line in lines)
    assert any("BERTH_LOG_LEVEL='loud'" in line for line in lines)


@pytest.mark.parametrize(
    "url", ["http://nats:4222", "nats://", "nats://nats:port", "nats://a b:4222", "nats://user:hunter2@nats:99999"]
)
def test_an_address_of_the_bus_that_cannot_be_one_exits_with_2(start_service, url):
    service = start_service(IDLE.replace(", with_bus=False", ""), BERTH_NATS_URL=url)
    assert service.code() == 2
    (line,) = service.text().splitlines()
    assert line.startswith("quota-manager: BERTH_NATS_URL: ")
    assert "hunter2" not in line


def test_a_password_file_that_comes_later_is_waited_for(start_service, nats_server, tmp_path):
    file = tmp_path / "password"
    service = start_service(
        IDLE.replace(", with_bus=False", ""),
        BERTH_NATS_URL=nats_server.url,
        BERTH_NATS_USER="quota-manager",
        BERTH_NATS_PASSWORD_FILE=str(file),
    )
    service.wait_for(lambda: str(file) in service.text(), "the missing file is named")
    assert service.get("/readyz")[0] == 503
    file.write_text("secret")
    service.wait_for_message("main runs")
    service.signal()
    assert service.code() == 0


def test_a_bus_that_cannot_carry_it_exits_with_3_and_says_why(start_service, nats_server):
    service = start_service(
        """
        from berth.bus.errors import TopologyError
        async def main(ctx):
            raise TopologyError("no space for stream X")
        sys.exit(run("s", ServiceSettings, main))
        """,
        BERTH_NATS_URL=nats_server.url,
    )
    assert service.code() == 3
    assert service.wait_for_message("the bus cannot be used as it is")["reason"] == "no space for stream X"
    assert len([line for line in service.lines() if line["level"] == "error"]) == 1
    assert "Traceback" not in service.text()


USERS = """
authorization {
  users: [
    {user: solver, password: secret, permissions: {publish: ["$JS.API.INFO"], subscribe: ["_INBOX_solver.>"]}}
  ]
}
"""


@pytest.mark.parametrize(
    ("service", "denied"),
    [("solver", "$JS.API.STREAM.INFO.KV_berth_state"), ("quota-manager", "_INBOX_quota-manager.")],
)
def test_a_user_of_the_bus_without_the_rights_exits_with_3_and_says_what_to_do(
    start_service, tmp_path, service, denied
):
    """The rights of an older version, and the user of another service."""
    password = tmp_path / "password"
    password.write_text("secret")
    with NatsServer(config=USERS) as server:
        started = start_service(
            f"""
            async def main(ctx):
                await ctx.bus.ensure()
            sys.exit(run({service!r}, ServiceSettings, main))
            """,
            BERTH_NATS_URL=server.url,
            BERTH_NATS_USER="solver",
            BERTH_NATS_PASSWORD_FILE=str(password),
        )
        assert started.code() == 3
    reason = started.wait_for_message("the bus cannot be used as it is")["reason"]
    assert reason.startswith(f"user 'solver' (BERTH_NATS_USER) may not use {denied}")
    assert "users.conf" in reason
    assert "Traceback" not in started.text()


def test_a_taken_port_exits_with_2_and_says_what_to_change(start_service):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        service = start_service(IDLE, BERTH_HTTP_PORT=str(taken.getsockname()[1]))
        assert service.code() == 2
    (line,) = [line for line in service.lines() if line["level"] == "error"]
    assert "BERTH_HTTP_PORT" in line["message"]
    assert "Traceback" not in service.text()


def test_an_unwritable_port_file_exits_with_2(start_service, tmp_path):
    service = start_service(IDLE, BERTH_PORT_FILE=str(tmp_path / "missing" / "port"))
    assert service.code() == 2
    assert "BERTH_PORT_FILE" in service.text()


def test_a_blocked_event_loop_shows_as_lag(start_service):
    service = start_service("""
        import time
        async def main(ctx):
            await asyncio.sleep(0.05)
            time.sleep(1.2)
            ctx.log.info("blocked")
            await asyncio.sleep(3600)
        sys.exit(run("s", ServiceSettings, main, with_bus=False))
    """)
    service.wait_for_message("blocked")

    def slow_wake_ups():
        metrics = dict(line.rsplit(" ", 1) for line in service.get("/metrics")[1].splitlines() if line[0] != "#")
        name = "berth_runtime_event_loop_lag_seconds"
        return float(metrics[f"{name}_count"]) - float(metrics[name + '_bucket{le="0.25"}'])

    service.wait_for(lambda: slow_wake_ups() >= 1, "a slow wake-up")


def test_waiting_for_the_bus_is_alive_but_not_ready_and_can_be_stopped(start_service):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, not listening: refused, and nobody else can take it
        url = f"nats://user:hunter2@127.0.0.1:{nobody.getsockname()[1]}"
        service = start_service(IDLE.replace(", with_bus=False", ""), BERTH_NATS_URL=url)
        status, body = service.get("/readyz")
        assert service.get("/livez")[0] == 200
        assert status == 503
        assert json.loads(body)["checks"]["bus"]["text"].startswith("connecting to nats://[redacted]@127.0.0.1")
        service.signal()
        assert service.code() == 0
    assert "hunter2" not in service.text()
    assert "main runs" not in service.messages()


def test_with_a_bus(start_service, nats_server):
    service = start_service(IDLE.replace(", with_bus=False", ""), BERTH_NATS_URL=nats_server.url)
    service.wait_for_message("main runs")
    status, body = service.get("/readyz")
    assert (status, json.loads(body)["checks"]["bus"]) == (200, {"ok": True, "text": "connected"})
    nats_server.kill()
    service.wait_for(lambda: service.get("/readyz")[0] == 503, "not ready without the bus")
    nats_server.start()
    service.wait_for(lambda: service.get("/readyz")[0] == 200, "ready again")
    service.signal()
    assert service.code() == 0
    assert "did not close cleanly" not in service.messages()


CHILD = """
import asyncio, sys
from berth.runtime import *
async def main(ctx):
    ctx.log.info("child runs")
    await asyncio.sleep(3600)
sys.exit(run("s", ServiceSettings, main, with_bus=False))
"""

PARENT = f"""
    import pathlib, subprocess, time
    child = pathlib.Path(sys.argv[0]).with_name("child.py")
    child.write_text({CHILD!r})
    print(subprocess.Popen([sys.executable, str(child)]).pid, flush=True)
    time.sleep(3600)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_exit_with_parent(start_service):
    service = start_service(PARENT, BERTH_EXIT_WITH_PARENT="1")
    service.wait_for_message("child runs")
    child = int(next(line for line in service.text().splitlines() if line.isdigit()))
    service.process.kill()
    service.process.wait()
    deadline = time.monotonic() + 30
    try:
        while _running(child):
            assert time.monotonic() < deadline, service.text()
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    assert "stopped" in service.messages()


def _running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
