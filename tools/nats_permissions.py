"""Write the users of the bus and what each may do, from the contract and from what each service reads.

Usage: nats_permissions.py [--check]. The result is k8s/components/nats/users.conf, to be included by a NATS server's
configuration; each password is a variable of the server's environment (`NATS_PASSWORD_QUOTA_MANAGER`).

Events and commands follow from the catalogue of messages, streams from the topology. What a service reads, owns and
leases stands in the table below; a test compares that table with the code. Nobody may delete or purge a stream.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from berth.bus.topology import COMMAND_SUBJECTS, DEAD_SUBJECTS, EVENT_SUBJECTS, TOPOLOGY
from berth.contracts import buckets
from berth.contracts.catalogue import CHANNELS
from berth.contracts.subjects import PREFIX

TARGET = Path(__file__).resolve().parent.parent / "k8s/components/nats/users.conf"


class Part(NamedTuple):
    """A service's part in the bus beyond what it writes.

    `follows`: buckets it reads. `owns`: the bucket it alone writes, with the keys it may write there. `leases`: keys
    of its leases. `consumes`: it takes commands. `commits`: it writes the ledger. `makes_topology`: it creates streams.
    """

    follows: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    owned_keys: str = ">"
    leases: tuple[str, ...] = ()
    consumes: bool = False
    commits: bool = False
    makes_topology: bool = False


PARTS = {
    "cluster-watcher": Part(owns=(buckets.STATE,), leases=("cluster-watcher",), makes_topology=True),
    "cluster-writer": Part(follows=(buckets.STATE, buckets.LEDGER), consumes=True, commits=True, makes_topology=True),
    "device-inventory": Part(follows=(buckets.STATE,), owns=(buckets.INVENTORY,), leases=("device-inventory",)),
    "quota-manager": Part(follows=(buckets.STATE, buckets.LEDGER), owns=(buckets.QUOTA,), leases=("quota-manager",)),
    "reservation-manager": Part(
        follows=(buckets.STATE,),
        owns=(buckets.RESERVATION,),
        leases=("reservation-manager",),
    ),
    "slo-manager": Part(follows=(buckets.STATE,), owns=(buckets.SLO,), leases=("slo-manager",)),
    "placement-solver": Part(
        follows=(
            buckets.STATE,
            buckets.INVENTORY,
            buckets.QUOTA,
            buckets.RESERVATION,
            buckets.LEDGER,
            buckets.LEASE,
        ),
        leases=("solver.*",),
        commits=True,
        makes_topology=True,
    ),
    "auditor": Part(follows=(buckets.LEDGER,), leases=("auditor",)),
    "node-qos-enforcer": Part(follows=(buckets.STATE, buckets.SLO), owns=(buckets.METRICS,), owned_keys="node.*"),
}
READER = "reader"
"""People and programs: the `berth` command, `nats sub`, your own subscribers. Asks and listens, changes nothing."""


class Rights(NamedTuple):
    """What a user may publish and subscribe to."""

    publish: list[str]
    subscribe: list[str]
    answers: bool


def rights_of(service: str) -> Rights:
    """What a service may do."""
    part = PARTS[service]
    publish: list[str] = []
    for bucket in dict.fromkeys((*part.follows, *part.owns)):
        publish += _following(bucket)
    for bucket in part.owns:
        publish.append(f"$KV.{bucket}.{part.owned_keys}")
    for lease in part.leases:
        publish += [f"$KV.{buckets.LEASE}.{lease}", f"$JS.API.STREAM.MSG.GET.KV_{buckets.LEASE}"]
    if part.commits:
        publish += [f"$KV.{buckets.LEDGER}.>", f"$JS.API.STREAM.MSG.GET.KV_{buckets.LEDGER}"]
    publish += [*fronts(service, buckets.COMMANDS), *fronts(service, buckets.EVENTS)]
    if part.consumes:
        publish += [
            f"$JS.API.CONSUMER.CREATE.{buckets.COMMANDS}.{service}.{COMMAND_SUBJECTS}",
            f"$JS.API.CONSUMER.MSG.NEXT.{buckets.COMMANDS}.{service}",
            f"$JS.ACK.{buckets.COMMANDS}.{service}.>",
            DEAD_SUBJECTS.replace(">", f"{service}.>"),
        ]
    if part.makes_topology:
        for item in TOPOLOGY:
            publish += [f"$JS.API.STREAM.{verb}.{item.stream}" for verb in ("INFO", "CREATE", "UPDATE")]
    subscribe = [f"_INBOX_{service}.>", f"{PREFIX}.svc.{service}.>", "$SRV.>"]
    return Rights(list(dict.fromkeys(publish)), subscribe, answers=True)


def reader_rights() -> Rights:
    """What people and programs may do: ask, listen, read the events that are kept, and look at dead letters."""
    publish = [
        f"{PREFIX}.svc.>",
        "$SRV.>",
        *(f"$JS.API.STREAM.INFO.{stream}" for stream in (buckets.EVENTS, buckets.DEAD)),
        *(f"$JS.API.STREAM.MSG.GET.{stream}" for stream in (buckets.EVENTS, buckets.DEAD)),
        *(f"$JS.API.CONSUMER.{verb}.{buckets.EVENTS}.>" for verb in ("CREATE", "INFO", "DELETE")),
        *(f"$JS.API.CONSUMER.{verb}.{buckets.EVENTS}" for verb in ("NAMES", "LIST")),
        f"$JS.API.CONSUMER.DURABLE.CREATE.{buckets.EVENTS}.>",
        f"$JS.API.CONSUMER.MSG.NEXT.{buckets.EVENTS}.>",
        f"$JS.ACK.{buckets.EVENTS}.>",
    ]
    return Rights(publish, [EVENT_SUBJECTS, "_INBOX.>", "_INBOX_cli.>"], answers=False)


def _following(bucket: str) -> list[str]:
    stream = f"KV_{bucket}"
    return [
        f"$JS.API.STREAM.INFO.{stream}",
        f"$JS.API.STREAM.MSG.GET.{stream}",
        f"$JS.API.CONSUMER.CREATE.{stream}.>",
        f"$JS.API.CONSUMER.DELETE.{stream}.>",
        f"$JS.FC.{stream}.>",
    ]


def fronts(service: str, place: str) -> list[str]:
    """What a service publishes into a stream: the fixed front of each pattern that the catalogue gives it."""
    patterns = [channel.pattern for channel in CHANNELS if channel.place == place and channel.writer == service]
    return list(dict.fromkeys(pattern.partition("<")[0] + ">" for pattern in patterns))


def render() -> str:
    """The file."""
    users = [*((name, rights_of(name)) for name in PARTS), (READER, reader_rights())]
    lines = [
        "# Generated by tools/nats_permissions.py; do not edit: run `make contracts` after a change of the topology or",
        "# of the catalogue.",
        "authorization {",
        "  users: [",
    ]
    for name, rights in users:
        lines += [
            f'    {{ user: "{name}", password: ${password_variable(name)}, permissions: {{',
            f"      publish: {{ allow: [{_listed(rights.publish)}] }}",
            f"      subscribe: {{ allow: [{_listed(rights.subscribe)}] }}",
        ]
        if rights.answers:
            lines.append('      allow_responses: { max: 1, expires: "1m" }')
        lines.append("    } }")
    return "\n".join([*lines, "  ]", "}", ""])


def password_variable(user: str) -> str:
    """The variable of the server's environment that holds the password of a user."""
    return f"NATS_PASSWORD_{user.upper().replace('-', '_')}"


def _listed(subjects: list[str]) -> str:
    return "\n" + "".join(f'        "{subject}"\n' for subject in subjects) + "      "


def main(arguments: list[str]) -> int:
    """Write or check; 0 when all is as it should be."""
    text = render()
    if "--check" in arguments:
        if TARGET.is_file() and TARGET.read_text() == text:
            return 0
        print(f"{TARGET} is not what the contract says: run tools/nats_permissions.py", file=sys.stderr)
        return 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
