"""Benchmarks: `make bench` writes build/bench.json and prints each figure beside its aim. Nothing here is a test."""
