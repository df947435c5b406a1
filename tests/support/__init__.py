"""What several tests share: a local server that answers as told, and the corpus of real traffic."""
