"""A real Slurm on this machine: two nodes with two declared GPUs each."""
