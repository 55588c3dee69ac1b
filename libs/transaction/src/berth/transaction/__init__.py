"""The placement transaction: views of pods and ledger, settled, gone, capacity, batches."""
