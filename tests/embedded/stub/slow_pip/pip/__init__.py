"""Stands in for pip: gets a part of something, and no further."""
