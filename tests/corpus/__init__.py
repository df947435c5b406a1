"""The plugin on real provider traffic and real agent programs, which are read in place and never copied."""
