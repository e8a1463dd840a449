"""AWS as our functions need it: services that take JSON, called with little more than what their protocol asks for.

The SDK takes longer to import than a cold function may take to answer, and five times the CPU for each call.
"""
