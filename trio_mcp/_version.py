"""The version of the package, for both sides to say who they are."""

__version__ = "0.1.0"
