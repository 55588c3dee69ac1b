"""The trace loader: what rows mean, and errors that name file, line and column."""

import os
from pathlib import Path

import pytest

from berth.simcluster.generate.shares import NODE_CLASSES, POD_CLASSES
from berth.simcluster.openb import TraceError, read_nodes, read_pods

NODES = "sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,64000,262144,2,P100\nopenb-node-0001,8000,1024,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p0,12000,16384,1,1000,,LS,Running,0,12537496,0\n"
    "p1,6000,12288,1,460,G2|P100,Burstable,Running,427061,12902960,427061\n"
    "p2,88000,327680,8,1000,,Guaranteed,Failed,1,2,\n"
    "p3,1000,2048,0,0,,BE,Pending,1,2,\n"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS)
    (tmp_path / "openb_pod_list_multigpu20.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,2,2,1000\n"
    )
    return tmp_path


def test_nodes(folder):
    first, second = read_nodes(folder)
    node, device = first.manifests()
    assert node["status"]["allocatable"] == {"cpu": "64000m", "memory": "262144Mi", "pods": "512"}
    assert node["metadata"]["labels"]["node.koordinator.sh/gpu-model"] == "P100"
    assert (device["kind"], device["metadata"]["name"], len(device["spec"]["devices"])) == (
        "Device",
        "openb-node-0000",
        2,
    )
    assert device["spec"]["devices"][1]["resources"]["koordinator.sh/gpu-memory"] == "16Gi"
    assert [each["kind"] for each in second.manifests()] == ["Node"]


def test_pods(folder):
    whole, share, eight, none = (pod.manifest() for pod in read_pods(folder))

    def requests(pod):
        return pod["spec"]["containers"][0]["resources"]["requests"]

    assert requests(whole) == {
        "cpu": "12000m",
        "memory": "16384Mi",
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory-ratio": "100",
    }
    assert requests(share)["koordinator.sh/gpu-core"] == requests(share)["koordinator.sh/gpu-memory-ratio"] == "46"
    assert requests(eight)["koordinator.sh/gpu-core"] == "800"
    assert set(requests(none)) == {"cpu", "memory"}
    terms = share["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = terms["nodeSelectorTerms"][0]["matchExpressions"]
    assert expression == {"key": "node.koordinator.sh/gpu-model", "operator": "In", "values": ["G2", "P100"]}
    qos = [pod["metadata"]["labels"]["koordinator.sh/qosClass"] for pod in (whole, share, eight, none)]
    assert qos == ["LS", "LS", "LS", "BE"]
    assert {pod["spec"]["schedulerName"] for pod in (whole, share, eight, none)} == {"berth-scheduler"}
    assert read_pods(folder)[0].deleted_s == 12537496


def test_lists_of_five_columns(folder):
    (pod,) = read_pods(folder, "multigpu20")
    assert (pod.request.gpus, pod.qos, pod.created_s) == (2, "", None)
    assert "koordinator.sh/qosClass" not in pod.manifest()["metadata"]["labels"]


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("p0,12000", "p0,-12000", "default.csv:2: column cpu_milli"),
        ("p0,12000", "p0,NaN", "default.csv:2: column cpu_milli"),
        ("p0,12000", "p0,12.5", "default.csv:2: column cpu_milli"),
        ("p0,12000", "p0,99999999999999999999", "default.csv:2: column cpu_milli"),
        ("1,460", "1,465", "default.csv:3: column gpu_milli"),
        ("1,460", "1,0", "default.csv:3: column gpu_milli"),
        ("1,460", "1,4600", "default.csv:3: column gpu_milli"),
        ("327680,8,", "327680,800,", "default.csv:4: column num_gpu"),
        ("Burstable", "Best", "default.csv:3: column qos"),
        ("p3,", ",", "default.csv:5: column name"),
        (",Pending,1,2,", ",Pending,1,2", "default.csv:5: 10 columns, expected 11"),
        ("gpu_milli,", "milli,", "default.csv:1: column gpu_milli is missing"),
        ("427061,1290", "x,1290", "default.csv:3: column creation_time"),
        ("p2,", '"p2,', "default.csv:"),
    ],
)
def test_errors_say_where(folder, old, new, where):
    file = folder / "openb_pod_list_default.csv"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(TraceError) as caught:
        read_pods(folder)
    assert where in str(caught.value)


def test_missing_and_empty_files(folder):
    with pytest.raises(TraceError, match=r"openb_pod_list_none\.csv: no such file"):
        read_pods(folder, "none")
    with pytest.raises(TraceError, match=r"openb_node_list_all_node\.csv: no such file"):
        read_nodes(folder, "all_node")
    (folder / "openb_pod_list_empty.csv").write_text("")
    with pytest.raises(TraceError, match="column name is missing; found nothing"):
        read_pods(folder, "empty")


@pytest.mark.skipif("BERTH_TRACE_DIR" not in os.environ, reason="BERTH_TRACE_DIR does not name the trace")
def test_the_real_trace():
    trace = Path(os.environ["BERTH_TRACE_DIR"])
    nodes, pods = read_nodes(trace), read_pods(trace)
    assert (len(nodes), sum(node.gpus for node in nodes), len(pods)) == (1213, 6212, 8152)
    assert round(sum(pod.request.gpus * pod.request.gpu_milli / 1000 for pod in pods)) == 6087
    found = {(node.model, node.gpus, node.cpu_milli, node.memory_mib) for node in nodes}
    assert found == {each[:4] for each in NODE_CLASSES}
    assert {(p.request.gpus, p.request.gpu_milli if p.request.gpus else 0) for p in pods} == {
        (each.gpus, each.gpu_milli) for each in POD_CLASSES
    }
    for name in ("cpu100", "gpushare40", "gpuspec10", "multigpu20"):
        assert read_pods(trace, name)
