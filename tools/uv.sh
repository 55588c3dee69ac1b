#!/bin/sh
# Print the path of a uv that can be used: the one on PATH, else one fetched into .tools/ from its wheel with Python's
# standard library alone. UV_VERSION pins what is fetched.
set -eu
UV_VERSION="${UV_VERSION:-0.13.9}"
if command -v uv >/dev/null 2>&1; then
    command -v uv
    exit 0
fi
root=$(cd "$(dirname "$0")/.." && pwd)
uv="$root/.tools/uv-$UV_VERSION/uv"
if [ ! -x "$uv" ]; then
    python3 "$root/tools/fetch_uv.py" "$UV_VERSION" "$(dirname "$uv")" >&2
fi
echo "$uv"
