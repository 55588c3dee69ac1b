"""A simulated Kubernetes API over HTTP with kubelets, clusters, workloads and trace replays."""
