"""Plug-ins of others: finding those that are installed, and calling them within a limit of time."""
