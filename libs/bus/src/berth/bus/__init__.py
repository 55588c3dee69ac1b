"""NATS JetStream behind one small interface: topology, followers, ledger batches, commands, questions."""
