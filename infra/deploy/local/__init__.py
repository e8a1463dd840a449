"""Runs the AWS deployment on this machine, on an emulator."""
