"""Folds over a tape: pure functions that run no model, no tool and no provider."""
