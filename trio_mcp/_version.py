"""The version of the package, for both sides to say who they are."""

__all__ = ["__version__"]

__version__ = "0.1.0"
