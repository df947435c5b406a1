"""Where live calls are caught and handed to the player of the test that makes them."""
