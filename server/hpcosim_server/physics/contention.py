"""The platforms for which the model of memory contention holds."""

from __future__ import annotations

import math

from msgspec.structs import astuple

from hpcosim_protocol import Processor


def check_contention(processor: Processor) -> None:
    """Refuse a processor for whose number of cores the model breaks down.

    With every further task a task's limit falls by `dd_mbps`; once it is 0 or less, contention
    would vanish where it should be worst.

    Raises:
        ValueError: it does.
    """
    model = processor.contention
    if model is None:
        return
    if not all(map(math.isfinite, astuple(model))):
        raise ValueError("contention can't be modelled with constants that are not finite")
    for others in (0, processor.cores - 1):
        width_mbps = model.dc_mbps - others * model.dd_mbps
        if width_mbps <= 0.0:
            raise ValueError(
                f"contention can't be modelled for a processor of {processor.cores} cores: "
                f"dc_mbps - k * dd_mbps must be above 0 for every number k of other tasks, "
                f"and is {width_mbps:g} for k = {others}"
            )
