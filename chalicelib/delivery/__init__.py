"""How observers are told: templates, and one module for each way out."""
