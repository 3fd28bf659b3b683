"""What gpuferry itself costs. `make bench` runs every `bench_*.py` here; each has a `measure`."""
