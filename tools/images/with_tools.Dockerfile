# The node agent with the programs that some of its strategies call: tc and nft (network), lsblk, findmnt, vgs and lvs
# (block-io). The agent says in its standings which of them its image lacks. From Debian's packages, on the agent's own
# image, so that nobody else carries them: `make images ARGS="node-qos-enforcer node-qos-enforcer-tools"`.
ARG AGENT=berth/node-qos-enforcer:dev
FROM ${AGENT}
USER 0:0
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends iproute2 nftables lvm2 util-linux mount >/dev/null && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /usr/share/doc /usr/share/man
LABEL org.opencontainers.image.title="berth-node-qos-enforcer-tools"
USER 65532:65532
