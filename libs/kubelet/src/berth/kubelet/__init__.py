"""What a node's kubelet says, and HAMi-core of shared GPUs: readings in `core`, sockets and files outside it."""
