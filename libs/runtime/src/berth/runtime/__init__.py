"""The one shape of a Berth service process: settings, start, supervision, stop."""
