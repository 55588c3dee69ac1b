"""Tables: what `kubectl get` shows of each kind, as the API server makes them."""
