"""Writes plumb's trace (schema plumb-trace/1) from a PyTorch training loop, and checks a model before it is trained.

    trace = plumb_trace.attach(model, out="trace.jsonl", every=25)
    trace.step(loss, optimizer)            # after loss.backward(), before clipping and optimizer.step()

    print(plumb_trace.preflight(model, batch))

Needs nothing but PyTorch, 1.13 or newer.
"""
from .errors import TraceError
from .preflight import Check, Report, preflight
from .tracer import Trace, attach
from .version import VERSION

__all__ = ["Check", "Report", "Trace", "TraceError", "attach", "preflight"]
__version__ = VERSION
