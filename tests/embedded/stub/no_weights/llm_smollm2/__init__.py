"""Hides the package with the weights, so that they have to be fetched."""
