"""What every implementation of an interface must do; each runs the whole suite."""
