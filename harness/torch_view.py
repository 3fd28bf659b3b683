"""What torch says of the GPUs that it sees: `python -m harness.torch_view` prints it as one line of JSON.

A process of its own: CUDA may hang, crash, or take a driver's word for what then does not work.
"""

from __future__ import annotations

import json
from dataclasses import replace

import torch

from harness.drawing import describe, take_device
from harness.events import to_plain
from harness.senses import TorchView


def look() -> TorchView:
    """Run one small operation on every GPU in sight; the first that fails is the problem."""
    found = describe(torch.device("cpu"))
    view = TorchView(found.torch, found.triton, found.cuda)
    if not torch.cuda.is_available():
        return replace(view, problem="CUDA: no")
    try:
        view = replace(view, arches=tuple(torch.cuda.get_arch_list()))
        for index in range(torch.cuda.device_count()):
            device = torch.device("cuda", index)
            view = replace(view, cards=(*view.cards, replace(describe(device), index=index)))
            take_device(str(device))
    except Exception as error:  # noqa: BLE001 (whatever it is, this GPU cannot be used)
        return replace(
            view, problem=str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        )
    return view


if __name__ == "__main__":
    print(json.dumps(to_plain(look())), flush=True)
