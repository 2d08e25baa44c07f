"""The providers that come with any_agent; importing one of these packages registers it."""
