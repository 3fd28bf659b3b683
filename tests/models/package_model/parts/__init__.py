"""The parts that the package's model is made of."""
