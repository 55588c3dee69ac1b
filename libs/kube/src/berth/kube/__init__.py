"""List and watch, bind, evict, patch and leases against a Kubernetes API server."""
