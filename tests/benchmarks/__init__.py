"""The benchmarks: what they keep of a run, and the page they write from it."""
