from .certificates import authority

__all__ = ["authority"]
