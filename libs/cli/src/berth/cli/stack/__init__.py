"""The whole control plane as processes of this machine: nats-server, simulated API, services. Nothing is left behind."""
