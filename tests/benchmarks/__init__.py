"""Tests of the benchmarks: results, document, simulation, metering proxy."""
