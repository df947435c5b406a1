"""One file for each module of the package."""
