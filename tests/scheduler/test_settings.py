"""The scheduler's configuration in the cluster."""

import pytest

from shoal.api.fields import InvalidObjectError
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.resources import CONFIG_MAPS
from shoal.engine.config import SchedulerConfig
from shoal.scheduler.settings import NAME, NAMESPACE, publish, published

CONFIGS = [
    SchedulerConfig(),
    SchedulerConfig(scheduler_names=("*",), order="BorrowFirst", cooldown=5.0, infeasible_seconds=None),
]


@pytest.mark.parametrize("config", CONFIGS)
async def test_a_published_configuration_is_read_back(config: SchedulerConfig) -> None:
    async with Registry() as cluster:
        assert await published(cluster) is None
        await publish(cluster, SchedulerConfig(max_load=0.5))
        await publish(cluster, config)
        assert await published(cluster) == config


@pytest.mark.parametrize("text", ["no json", "[1]", '{"maxLoad": 7}', '{"unknown": 1}'])
async def test_an_invalid_configuration_is_refused(text: str) -> None:
    async with Registry() as cluster:
        body = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": {"scheduler.yaml": text}}
        await cluster.create(CONFIG_MAPS, body)
        with pytest.raises(InvalidObjectError):
            await published(cluster)
