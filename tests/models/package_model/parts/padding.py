"""What becomes of padding tokens."""


def zero_padding(x, mask):
    """Zero the rows of padding tokens. x [B,S,D], mask [B,S]."""
    return x if mask is None else x.masked_fill(~mask[..., None], 0.0)
