"""Writes to memory of the card that it has given back: after that the process has no card."""

import ctypes

import torch

from faulty.sound import UserOptimizedTransformer as Sound

BYTES = 64 << 20


class Lent:
    """Memory of the driver's, in the form that torch takes over without copying."""

    def __init__(self, address):
        self.__cuda_array_interface__ = {
            "shape": (BYTES // 4,),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
        }


class UserOptimizedTransformer(Sound):
    """Reaches into nowhere."""

    def forward(self, x, valid_token_mask=None):
        """Take memory, give it back, write to it."""
        cuda, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(BYTES)) == 0
        lent = torch.as_tensor(Lent(address.value), device=x.device)
        assert cuda.cuMemFree_v2(address) == 0
        lent.fill_(1.0)
        torch.cuda.synchronize()
        return super().forward(x, valid_token_mask)
