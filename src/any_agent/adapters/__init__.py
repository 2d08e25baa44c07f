"""Adapters: a codec, a transport and a profile, made `invoke()` and `stream()`; one class for each protocol."""
