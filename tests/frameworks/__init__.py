"""The tools of real frameworks, recorded by their adapters."""
