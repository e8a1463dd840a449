"""DynamoDB Local, the emulator that AWS makes."""
