"""`make smoke`: checks of a deployed stage that only AWS itself can answer, and those that an emulator can, too."""
