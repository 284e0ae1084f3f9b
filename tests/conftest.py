"""What all tests share: hypothesis without a clock, assertions that explain themselves, a real Kubernetes."""

import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.k8s.fixtures"]
pytest.register_assert_rewrite("tests.builders")

# No test may pass or fail by how fast the machine is; examples are the same in every run.
settings.register_profile(
    "shoal", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shoal")

# Shells let what they start in the background ignore Ctrl-C, and so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
