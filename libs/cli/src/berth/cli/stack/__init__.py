"""The whole control plane as processes of this machine: nats-server, API, services. Nothing is left behind."""
