"""The version of this package, said once: the build and every tape that is recorded take it from here."""

__all__ = ["__version__"]

__version__ = "0.1.0"
