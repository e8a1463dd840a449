"""LocalStack, an AWS emulator, without Docker."""
