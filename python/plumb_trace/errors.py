"""The one exception of this package."""


class TraceError(Exception):
    """One sentence: what is wrong, where, and what to do."""
