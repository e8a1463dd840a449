"""Adapters: implementations of the ports in `services.ports`."""
