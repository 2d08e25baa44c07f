"""Codecs without I/O: bytes in, events out; messages in, a request body out."""
