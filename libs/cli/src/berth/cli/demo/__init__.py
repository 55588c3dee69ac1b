"""The demonstration: real services on a simulated GPU cluster, and a story that is checked as it is told."""
