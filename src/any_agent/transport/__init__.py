"""Bytes over HTTP: connections, clocks, the retry policy, and tapes of what went over the wire."""
