"""Write the accounts and users of the bus and what each may do, from the contract and from what each service reads.

Usage: nats_permissions.py [--check]. The result is k8s/components/nats/users.conf, to be included by a NATS server's
configuration; each password is a variable of the server's environment (`NATS_PASSWORD_QUOTA_MANAGER`).

There are three accounts: the services and all streams are in one, node agents in another, readers in a third. The
server checks the subject of a request and not the one that its answer goes to, so whoever is in an account can have
anything written there that the account's streams keep. Across accounts an answer goes back to the account of whoever
asked, where there is no stream. The subjects that cross are named one by one.

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
    of its leases. `consumes`: it takes commands. `reads_events`: it looks up single past events. `commits`: it writes
    the ledger. `makes_topology`: it creates streams. `on_nodes`: it runs on every node, in the account of the node
    agents, and reads single keys only.
    """

    follows: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    owned_keys: str = ">"
    leases: tuple[str, ...] = ()
    consumes: bool = False
    reads_events: bool = False
    commits: bool = False
    makes_topology: bool = False
    on_nodes: bool = False


PARTS = {
    "cluster-watcher": Part(owns=(buckets.STATE,), leases=("cluster-watcher",), makes_topology=True),
    "cluster-writer": Part(
        follows=(buckets.STATE, buckets.LEDGER), consumes=True, reads_events=True, commits=True, makes_topology=True
    ),
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
    "node-qos-enforcer": Part(
        follows=(buckets.STATE, buckets.SLO), owns=(buckets.METRICS,), owned_keys="node.*", on_nodes=True
    ),
}
READER = "reader"
"""People and programs: the `berth` command, `nats sub`, your own subscribers. Asks and listens, changes nothing."""


SERVICES, NODES, READERS = "BERTH", "NODES", "READERS"
"""The accounts."""
DOMAIN = "berth"
"""What the API of the streams is called in the other accounts, as a JetStream domain: `$JS.berth.API.>`."""
ANSWERS = "_R_.>"
"""Where the server takes answers to questions from another account; a token of its own is in each."""


class Rights(NamedTuple):
    """What a user may publish and subscribe to."""

    publish: list[str]
    subscribe: list[str]


class Crossing(NamedTuple):
    """What one account offers to another. `kind`: `service`, `answers` (one with many answers) or `stream`.

    `local`: the subject in the other account, where that is not the same.
    """

    source: str
    target: str
    kind: str
    subject: str
    local: str = ""

    def exported(self) -> str:
        """The line in the account that offers it."""
        if self.kind == "stream":
            return f'{{ stream: "{self.subject}", accounts: [{self.target}] }}'
        response = ", response: stream" if self.kind == "answers" else ""
        return f'{{ service: "{self.subject}"{response}, accounts: [{self.target}] }}'

    def imported(self) -> str:
        """The line in the account that uses it."""
        kind = "stream" if self.kind == "stream" else "service"
        to = f', to: "{self.local}"' if self.local else ""
        return f'{{ {kind}: {{ account: {self.source}, subject: "{self.subject}" }}{to} }}'


def rights_of(service: str) -> Rights:
    """What a service may do."""
    part = PARTS[service]
    if part.on_nodes:
        publish = [each.local or each.subject for each in crossings() if each.target == NODES]
    else:
        publish = _of_a_service(service, part)
    subscribe = [f"_INBOX_{service}.>", f"{PREFIX}.svc.{service}.>", "$SRV.>"]
    return Rights(list(dict.fromkeys([*publish, ANSWERS])), subscribe)


def _of_a_service(service: str, part: Part) -> list[str]:
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
    if part.reads_events:
        publish.append(f"$JS.API.STREAM.MSG.GET.{buckets.EVENTS}")
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
    return publish


def reader_rights() -> Rights:
    """What people and programs may do: ask, listen, read the events that are kept, and look at dead letters."""
    publish = [f"{PREFIX}.svc.>", "$SRV.>"]
    publish += [
        each.local or each.subject
        for each in crossings()
        if each.target == READERS and each.subject.startswith(("$JS.API.", "$JS.ACK."))
    ]
    return Rights(publish, [EVENT_SUBJECTS, "_INBOX.>", "_INBOX_cli.>"])


def crossings() -> list[Crossing]:
    """Everything that crosses from one account to another."""
    found: list[Crossing] = []
    for service, part in PARTS.items():
        home = NODES if part.on_nodes else SERVICES
        found.append(Crossing(home, READERS, "answers", f"{PREFIX}.svc.{service}.>"))
        if part.on_nodes:
            found += [_api(NODES, f"STREAM.MSG.GET.KV_{bucket}") for bucket in (*part.follows, *part.owns)]
            keys = [f"$KV.{bucket}.{part.owned_keys}" for bucket in part.owns]
            found += [Crossing(SERVICES, NODES, "service", subject) for subject in keys]
    found += [Crossing(home, READERS, "answers", "$SRV.>") for home in (SERVICES, NODES)]
    found.append(Crossing(SERVICES, READERS, "stream", EVENT_SUBJECTS))
    for stream in (buckets.EVENTS, buckets.DEAD):
        found += [_api(READERS, f"STREAM.{verb}.{stream}") for verb in ("INFO", "MSG.GET")]
    events = buckets.EVENTS
    found += [_api(READERS, f"CONSUMER.{verb}.{events}.>") for verb in ("CREATE", "INFO", "DELETE", "DURABLE.CREATE")]
    found += [_api(READERS, f"CONSUMER.{verb}.{events}") for verb in ("NAMES", "LIST")]
    found.append(_api(READERS, f"CONSUMER.MSG.NEXT.{events}.>", "answers"))
    found.append(Crossing(SERVICES, READERS, "service", f"$JS.ACK.{events}.>"))
    return list(dict.fromkeys(found))


def _api(target: str, name: str, kind: str = "service") -> Crossing:
    """A request of the API, under the name of the domain: every account has `$JS.API` for streams of its own."""
    return Crossing(SERVICES, target, kind, f"$JS.API.{name}", f"$JS.{DOMAIN}.API.{name}")


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
    lines = [
        "# Generated by tools/nats_permissions.py; do not edit: run `make contracts` after a change of the topology or",
        "# of the catalogue.",
        "accounts {",
    ]
    users = {
        SERVICES: [name for name, part in PARTS.items() if not part.on_nodes],
        NODES: [name for name, part in PARTS.items() if part.on_nodes],
        READERS: [READER],
    }
    for account, names in users.items():
        lines.append(f"  {account} {{")
        if account == SERVICES:
            lines.append("    jetstream: enabled")
        lines.append("    users: [")
        for name in names:
            rights = reader_rights() if name == READER else rights_of(name)
            lines += [
                f'      {{ user: "{name}", password: ${password_variable(name)}, permissions: {{',
                f"        publish: {{ allow: [{_listed(rights.publish)}] }}",
                f"        subscribe: {{ allow: [{_listed(rights.subscribe)}] }}",
                "      } }",
            ]
        lines.append("    ]")
        lines += _block("exports", [each.exported() for each in crossings() if each.source == account])
        lines += _block("imports", [each.imported() for each in crossings() if each.target == account])
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def _block(name: str, entries: list[str]) -> list[str]:
    return [f"    {name}: [", *(f"      {entry}" for entry in entries), "    ]"] if entries else []


def password_variable(user: str) -> str:
    """The variable of the server's environment that holds the password of a user."""
    return f"NATS_PASSWORD_{user.upper().replace('-', '_')}"


def _listed(subjects: list[str]) -> str:
    return "\n" + "".join(f'          "{subject}"\n' for subject in subjects) + "        "


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
