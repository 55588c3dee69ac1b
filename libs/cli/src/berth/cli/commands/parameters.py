"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]
Folder = Annotated[
    Path,
    Parameter(name="--from", env_var="BERTH_RECORD_FOLDER", help="Folder of recorder's segments, or a copy of it."),
]
