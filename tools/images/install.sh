#!/bin/sh
# Install a list into the virtual environment /app/venv, without what no program of ours runs, and, when a folder is
# named, copy into it what came new: that becomes a layer of its own.
#
# usage: install.sh LIST [FOLDER [OPTION of uv pip install...]]
set -eu
list=${1:?list of requirements}
new=${2:-}
shift "$(($# < 2 ? $# : 2))"

(cd /app && find . ! -type d | sort) > /tmp/before
uv pip install -q --no-deps "$@" -r "$list"

packages=$(/app/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Tests of libraries, what only compilers and type checkers read, and the generated client of kubernetes_asyncio: berth.kube
# uses its loader of kubeconfig files alone, and imports that without the client.
find "$packages" -type d \( -name tests -o -name _tests \) -not -path '*/berth/*' -prune -exec rm -rf {} +
find "$packages" -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.pyx' -o -name '*.a' -o -name '*.h' -o -name '*.c' \) -delete
for part in client dynamic leaderelection stream utils watch; do
    rm -rf "${packages:?}/kubernetes_asyncio/$part"
done

# The root filesystem is read-only, so what is not compiled now is compiled at each start. The hash instead of the time
# of the source is not looked at: nobody changes a source in an image.
/app/venv/bin/python -m compileall -q -j 2 --invalidation-mode unchecked-hash "$packages"

if [ -n "$new" ]; then
    mkdir -p "$new"
    (cd /app && find . ! -type d | sort) > /tmp/after
    comm -13 /tmp/before /tmp/after | tar -C /app -cf - --no-recursion -T - | tar -C "$new" -xf -
fi
rm -f /tmp/before /tmp/after
