"""The AWS stack on this machine, on an emulator."""
