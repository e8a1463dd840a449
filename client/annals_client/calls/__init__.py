"""What can be called: one function a method of the clients, each a row of steps."""
