"""No test fails for being slow: a busy machine is not a bug."""

from hypothesis import settings

settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")
