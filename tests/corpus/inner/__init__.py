"""Modules that are copied beside their data and run by a pytest of their own; none is collected from here."""
