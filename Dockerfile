# One image per service: docker build --build-arg SERVICE=quota-manager -t berth/quota-manager:dev .
#
# SERVICE is a folder of services/, or `simulated-api` (a Kubernetes API for trying things out), or `cli` (the `berth`
# command). An image holds that program, the libraries it depends on, and nothing else of this repository. Plain
# Dockerfile syntax: no BuildKit needed. On a machine without the public registry, PYTHON_IMAGE names another base
# (Debian with python3 >= 3.11 and its venv module).
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
ARG SERVICE
ARG UV_VERSION=0.13.9
ENV UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_NO_CACHE=1
WORKDIR /src
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check "uv==${UV_VERSION}"
COPY pyproject.toml uv.lock ./
COPY proto proto
COPY libs libs
COPY services services
# --no-editable: what is installed is a copy, so that the sources stay behind in this stage.
RUN set -eu; \
    case "${SERVICE:?--build-arg SERVICE=... says which service to build}" in \
      simulated-api) package=berth-simcluster; module=berth.simcluster ;; \
      cli) package=berth-cli; module=berth.cli ;; \
      *) test -d "services/$SERVICE" || { echo "no folder services/$SERVICE" >&2; exit 1; }; \
         package="berth-$SERVICE"; module="berth.$(echo "$SERVICE" | tr - _)" ;; \
    esac; \
    UV_PROJECT_ENVIRONMENT=/app/venv UV_PYTHON="$(command -v python3)" \
      /opt/uv/bin/uv sync --frozen --no-dev --no-editable --package "$package"; \
    printf '#!/bin/sh\nexec /app/venv/bin/python -m %s "$@"\n' "$module" > /app/start; \
    if [ "$SERVICE" = cli ]; then path=; else path=/readyz; fi; \
    printf '%s\n' \
      'import os, sys, urllib.request' \
      "path = '$path'" \
      'url = "http://127.0.0.1:" + os.environ["BERTH_HTTP_PORT"] + path' \
      'sys.exit(0 if not path or urllib.request.urlopen(url, timeout=3).status == 200 else 1)' > /app/healthy.py; \
    chmod 0755 /app/start

FROM ${PYTHON_IMAGE}
ARG SERVICE
LABEL org.opencontainers.image.title="berth-${SERVICE}" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /app /app
# Health and metrics are served on this port; in a container they must be reachable from outside of it.
ENV PATH=/app/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    BERTH_HTTP_HOST=0.0.0.0 BERTH_HTTP_PORT=8080
EXPOSE 8080
USER 65532:65532
HEALTHCHECK --interval=5s --timeout=4s --start-period=60s --retries=3 CMD ["/app/venv/bin/python", "/app/healthy.py"]
ENTRYPOINT ["/app/start"]
