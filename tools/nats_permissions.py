"""Write the accounts and users of the bus and what each may do, from the contract and from what each service reads.

Usage: nats_permissions.py [--check]. The results are k8s/components/nats/users.conf and compose.users.conf, to be
included by a NATS server's configuration; each password is a variable of the server's environment
(`NATS_PASSWORD_QUOTA_MANAGER`).

The services and all streams are in one account, node agents in another, readers in a third. The server checks the
subject of a request and not the one that its answer goes to, so a user in an account can have anything written
there that the account's streams keep. Across accounts an answer goes back to the account of the user that asked, where
there is no stream. The subjects that cross are named one by one.

Each node agent has the rights of its node. In a cluster it is no user of this file: the server asks
node-authenticator, which has an account of its own, about every login that the file does not know. With compose there
is one node, and its agent is a user.

Events and commands follow from the catalogue of messages, streams from the topology. What a service reads, owns and
leases stands in the table below; a test compares that table with the code. Nobody may delete or purge a stream.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from berth.bus.topology import COMMAND_SUBJECTS, DEAD_SUBJECTS, EVENT_SUBJECTS, TOPOLOGY
from berth.contracts import buckets
from berth.contracts.catalogue import CHANNELS
from berth.contracts.subjects import PREFIX
from berth.node_authenticator.core import rights as agents

ROOT = Path(__file__).resolve().parent.parent
COMPOSE_NODE = "this-machine"


class Part(NamedTuple):
    """A service's part in the bus beyond what it writes.

    `follows`: buckets it reads. `owns`: the bucket it alone writes, with the keys it may write there. `leases`: keys
    of its leases. `consumes`: it takes commands. `reads_events`: it looks up single past events. `commits`: it writes
    the ledger. `makes_topology`: it creates streams. `on_nodes`: it runs on every node, in the account of the node
    agents, and reads single keys only. `authenticates`: the server asks it about logins, in an account of its own.
    """

    follows: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    owned_keys: tuple[str, ...] = (">",)
    leases: tuple[str, ...] = ()
    consumes: bool = False
    reads_events: bool = False
    commits: bool = False
    makes_topology: bool = False
    on_nodes: bool = False
    authenticates: bool = False


PARTS = {
    "cluster-watcher": Part(owns=(buckets.STATE,), leases=("cluster-watcher",), makes_topology=True),
    "cluster-writer": Part(
        follows=(buckets.STATE, buckets.LEDGER), consumes=True, reads_events=True, commits=True, makes_topology=True
    ),
    "device-inventory": Part(
        follows=(buckets.STATE, buckets.METRICS, buckets.SLO),
        owns=(buckets.INVENTORY,),
        leases=("device-inventory",),
    ),
    "quota-manager": Part(follows=(buckets.STATE, buckets.LEDGER), owns=(buckets.QUOTA,), leases=("quota-manager",)),
    "reservation-manager": Part(
        follows=(buckets.STATE, buckets.LEDGER),
        owns=(buckets.RESERVATION,),
        leases=("reservation-manager",),
    ),
    "slo-manager": Part(follows=(buckets.STATE, buckets.METRICS), owns=(buckets.SLO,), leases=("slo-manager",)),
    "recorder": Part(
        follows=(
            buckets.STATE,
            buckets.INVENTORY,
            buckets.QUOTA,
            buckets.RESERVATION,
            buckets.SLO,
            buckets.LEDGER,
            buckets.METRICS,
        ),
        leases=("recorder",),
    ),
    "yarn-operator": Part(follows=(buckets.STATE, buckets.SLO), leases=("yarn-operator",)),
    "placement-solver": Part(
        follows=(
            buckets.STATE,
            buckets.INVENTORY,
            buckets.QUOTA,
            buckets.RESERVATION,
            buckets.SLO,
            buckets.LEDGER,
            buckets.LEASE,
            buckets.METRICS,
        ),
        owns=(buckets.PRICE,),
        leases=("solver.*",),
        commits=True,
        makes_topology=True,
    ),
    "admission-webhook": Part(follows=(buckets.STATE, buckets.LEASE), leases=("admission-webhook", "certificate.*")),
    "auditor": Part(follows=(buckets.LEDGER, buckets.QUOTA), leases=("auditor",)),
    "node-authenticator": Part(authenticates=True),
    agents.AGENT: Part(
        follows=(buckets.STATE, buckets.SLO, buckets.INVENTORY),
        owns=(buckets.METRICS,),
        owned_keys=tuple(f"{kind}.*" for kind in agents.WRITES),
        on_nodes=True,
    ),
}
READER = "reader"
"""People and programs: the `berth` command, `nats sub`, your own subscribers. Asks and listens, changes nothing."""


SERVICES, NODES, READERS, LOGINS = "BERTH", agents.ACCOUNT, "READERS", "LOGINS"
"""The accounts."""
DOMAIN = agents.DOMAIN
"""What the API of the streams is called in the other accounts, as a JetStream domain: `$JS.berth.API.>`."""
ISSUER = "$NATS_LOGIN_ISSUER"
"""The variable of the server's environment that names the key which node-authenticator signs with."""


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
    """What a service may do; for node agents see `berth.node_authenticator.core.rights`."""
    part = PARTS[service]
    publish, subscribe = _of_a_service(service, part), [f"{PREFIX}.svc.{service}.>", "$SRV.>"]
    if part.authenticates:
        publish.append("$SYS._INBOX.>")  # where the server takes the answer to a question about a login
        subscribe.append("$SYS.REQ.USER.AUTH")
    return Rights(list(dict.fromkeys([*publish, agents.ANSWERS])), [f"_INBOX_{service}.>", *subscribe])


def agent_rights(node: str) -> Rights:
    """What the agent of a node may do."""
    return Rights(*map(list, agents.rights_of(node)))


def home_of(service: str) -> str:
    """The account that a service is in."""
    part = PARTS[service]
    return NODES if part.on_nodes else LOGINS if part.authenticates else SERVICES


def _of_a_service(service: str, part: Part) -> list[str]:
    publish: list[str] = []
    for bucket in dict.fromkeys((*part.follows, *part.owns)):
        publish += _following(bucket)
    for bucket in part.owns:
        publish += [f"$KV.{bucket}.{keys}" for keys in part.owned_keys]
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
            f"$JS.API.CONSUMER.INFO.{buckets.COMMANDS}.{service}",
            f"$JS.API.CONSUMER.DELETE.{buckets.COMMANDS}.{service}",
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
        found.append(Crossing(home_of(service), READERS, "answers", f"{PREFIX}.svc.{service}.>"))
        if part.on_nodes:
            found += [_api(NODES, f"STREAM.MSG.GET.KV_{bucket}") for bucket in (*part.follows, *part.owns)]
            keys = [f"$KV.{bucket}.{keys}" for bucket in part.owns for keys in part.owned_keys]
            found += [Crossing(SERVICES, NODES, "service", subject) for subject in keys]
    found += [Crossing(home, READERS, "answers", "$SRV.>") for home in (SERVICES, NODES, LOGINS)]
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


def render(node_users: Mapping[str, str] | None = None) -> str:
    """The file. `node_users`: users that are node agents, and their nodes; None leaves them to node-authenticator."""
    lines = [
        "# Generated by tools/nats_permissions.py; do not edit: run `make contracts` after a change of the topology or",
        "# of the catalogue.",
        "accounts {",
    ]
    for account, users in _accounts(node_users).items():
        lines.append(f"  {account} {{")
        if account == SERVICES:
            lines.append("    jetstream: enabled")
        lines.append("    users: [")
        for name, rights in users.items():
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
    lines.append("}")
    if node_users is None:
        (service,) = (name for name, part in PARTS.items() if part.authenticates)
        lines += [
            "# Who is none of these users is asked about: node-authenticator knows the agents of nodes.",
            "authorization {",
            f"  auth_callout {{ issuer: {ISSUER}, account: {LOGINS}, auth_users: [{service}], "
            f"allowed_accounts: [{NODES}] }}",
            "}",
        ]
    return "\n".join([*lines, ""])


def _accounts(node_users: Mapping[str, str] | None) -> dict[str, dict[str, Rights]]:
    """Every account with its users."""
    accounts: dict[str, dict[str, Rights]] = {SERVICES: {}, NODES: {}, LOGINS: {}, READERS: {READER: reader_rights()}}
    for name, part in PARTS.items():
        if not part.on_nodes:
            accounts[home_of(name)][name] = rights_of(name)
    for name, node in (node_users or {}).items():
        accounts[NODES][name] = agent_rights(node)
    return accounts


def _block(name: str, entries: list[str]) -> list[str]:
    return [f"    {name}: [", *(f"      {entry}" for entry in entries), "    ]"] if entries else []


def password_variable(user: str) -> str:
    """The variable of the server's environment that holds the password of a user."""
    return f"NATS_PASSWORD_{user.upper().replace('-', '_')}"


def _listed(subjects: list[str]) -> str:
    return "\n" + "".join(f'          "{subject}"\n' for subject in subjects) + "        "


TARGETS = {
    ROOT / "k8s/components/nats/users.conf": None,
    ROOT / "compose.users.conf": {agents.AGENT: COMPOSE_NODE},
}
"""Files, and the users in them that are node agents."""


def main(arguments: list[str]) -> int:
    """Write or check; 0 when all is as it should be."""
    wrong = 0
    for target, node_users in TARGETS.items():
        text = render(node_users)
        if "--check" not in arguments:
            target.write_text(text)
        elif not target.is_file() or target.read_text() != text:
            print(f"{target} is not what the contract says: run tools/nats_permissions.py", file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
