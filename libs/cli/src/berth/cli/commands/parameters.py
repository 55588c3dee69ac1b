"""Options that several commands have."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from berth.cli.bus_options import BusOptions
from berth.cli.limits import NODES_MAX, NODES_MIN


@Parameter(name="*", group="Bus", show_default=False)
@dataclass(frozen=True, kw_only=True)
class BusFlags:
    """How to reach the bus; what is not given is taken from the variables that the services know."""

    nats: Annotated[
        str, Parameter(name=["--nats", "--server"], help="URL of a bus that runs; else BERTH_NATS_URL.")
    ] = ""
    nats_user: Annotated[str, Parameter(help="User; else BERTH_NATS_USER.")] = ""
    nats_password_file: Annotated[str, Parameter(help="File with its password; else BERTH_NATS_PASSWORD_FILE.")] = ""
    nats_domain: Annotated[
        str, Parameter(help="JetStream domain, `berth` where the bus has users; else BERTH_NATS_DOMAIN.")
    ] = ""
    nats_creds_file: Annotated[str, Parameter(help="Credentials file; else BERTH_NATS_CREDS_FILE.")] = ""
    nats_ca_file: Annotated[str, Parameter(help="Certificates to trust (TLS); else BERTH_NATS_CA_FILE.")] = ""
    run: Annotated[str, Parameter(help="Which `berth up` or `demo` of this machine, by its number.")] = ""

    def given(self) -> BusOptions:
        """Only what was given, by option."""
        return {f"--{name.replace('_', '-')}": value for name, value in asdict(self).items() if value}


BUS = BusFlags()
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]
Folder = Annotated[
    Path,
    Parameter(name="--from", env_var="BERTH_RECORD_FOLDER", help="Folder of recorder's segments, or a copy of it."),
]
Files = Annotated[tuple[Path, ...], Parameter(name=["--file", "-f"], negative="", allow_leading_hyphen=True)]
Namespace = Annotated[str | None, Parameter(name=["--namespace", "-n"])]
RunNumber = Annotated[str, Parameter(name="--run")]
Keep = Annotated[bool, Parameter(negative="")]
Nodes = Annotated[int, Parameter(validator=Number(gte=NODES_MIN, lte=NODES_MAX))]
Seed = Annotated[int, Parameter(validator=Number(gte=0))]
