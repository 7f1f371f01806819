"""Settings of the property tests."""

from hypothesis import HealthCheck, settings

# A busy machine is no failure.
# The same examples every time, so that a failure can be repeated by anyone.
settings.register_profile(
    "patient", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
