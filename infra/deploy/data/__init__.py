"""Maintenance of deployed data: restore, retire, rebuild."""
