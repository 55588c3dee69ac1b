#!/bin/sh
# Print the start script of an image: `start.sh --for SERVICE`.
set -eu
case "${2:?--for SERVICE}" in
    simulated-api) module=berth.simcluster ;;
    *) module="berth.$(echo "$2" | tr - _)" ;;
esac
printf '#!/bin/sh\nexec /app/venv/bin/python -m %s "$@"\n' "$module"
