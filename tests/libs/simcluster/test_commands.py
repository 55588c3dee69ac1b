"""The server as a process of its own."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from berth.simcluster.commands import main

COMMAND = [sys.executable, "-m", "berth.simcluster"]


@pytest.fixture
def server(tmp_path):
    """Start a process and wait for its port file."""
    started = []

    def begin(*options):
        port_file = tmp_path / f"port-{len(started)}"
        command = [*COMMAND, "serve", "--port-file", str(port_file), *options]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        started.append(process)
        deadline = time.monotonic() + 30
        while not port_file.exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return process, f"http://127.0.0.1:{port_file.read_text().strip()}"

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        process.stderr.close()


def test_faults_from_a_file(server, tmp_path, capsys):
    file = tmp_path / "faults.json"
    file.write_text('[{"kind": "error", "status": 503, "verbs": ["list"]}]')
    _, url = server("--no-kubelet", "--faults", str(file))
    with pytest.raises(urllib.error.HTTPError, match="503"):
        get(f"{url}/api/v1/pods")
    for text in ("[", '[{"kind": "error", "color": 1}]', "[3]"):
        file.write_text(text)
        assert main(["serve", "--faults", str(file)]) == 2
        assert "faults.json" in capsys.readouterr().err


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)


def test_serves_what_was_generated_and_ends_on_sigterm(server, tmp_path):
    file = tmp_path / "cluster.json"
    assert main(["generate", "--nodes", "5", "--pods", "7", "--output", str(file)]) == 0
    process, url = server("--manifests", str(file), "--sim", "--no-kubelet")
    assert len(get(f"{url}/api/v1/nodes")["items"]) == 5
    assert get(f"{url}/sim/state")["objects"]["pods"] == 7
    with urllib.request.urlopen(f"{url}/api/v1/pods?watch=1", timeout=10) as watch:
        assert json.loads(watch.readline())["type"] == "ADDED"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_killed_server_comes_back_above_its_old_versions(server):
    process, url = server("--no-kubelet")
    before = int(get(f"{url}/api/v1/pods")["metadata"]["resourceVersion"])
    process.kill()
    process.wait(10)
    _, url = server("--no-kubelet")
    assert int(get(f"{url}/api/v1/pods")["metadata"]["resourceVersion"]) > before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["serve", "--port", "70000"], "port"),
        (["serve", "--history", "0"], "history"),
        (["serve", "--speed", "0"], "speed"),
        (["serve", "--bookmark-seconds", "nan"], "bookmark_s"),
        (["serve", "--crds", "/nonexistent/crds"], "crds"),
        (["serve", "--manifests", "/nonexistent.json"], "nonexistent.json"),
        (["serve", "--token-file", "/nonexistent.csv"], "nonexistent.csv"),
        (["generate", "--nodes", "-1", "--output", "/tmp/never"], "nodes"),
        (["openb", "/nonexistent", "--output", "/tmp/never"], "no such file"),
    ],
)
def test_unusable_settings_end_with_2_and_say_why(capsys, arguments, text):
    assert main(arguments) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{", ":1:"),
        ("3", "an object was expected"),
        ('{"kind":"Nope"}', "Nope"),
        ('{"apiVersion":"v1","kind":"Pod"}', "Pod"),
    ],
)
def test_unusable_manifests_are_named(capsys, tmp_path, content, text):
    file = tmp_path / "m.json"
    file.write_text(content)
    assert main(["serve", "--manifests", str(file)]) == 2
    assert text in capsys.readouterr().err
