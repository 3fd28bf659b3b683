"""Operations on tensor cores, one file each; Triton is imported when one of them first runs."""
