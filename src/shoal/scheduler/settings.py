"""The running scheduler's configuration, published in a ConfigMap: commands that plan use the same.

The scheduler writes it at start. It is for information: editing it configures nothing.
"""

import logging
from typing import Final

import msgspec

from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError
from shoal.cluster.errors import ClusterError, NotFoundError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import CONFIG_MAPS
from shoal.engine.config import SchedulerConfig, config_errors

NAMESPACE: Final = "kube-system"
NAME: Final = "shoal-scheduler"
_KEY: Final = "scheduler.yaml"
_LOG: Final = logging.getLogger(__name__)


async def publish(cluster: Cluster, config: SchedulerConfig) -> None:
    """Publish the configuration; a scheduler without the right to do so logs a warning."""
    data = {_KEY: msgspec.json.format(msgspec.json.encode(config)).decode()}
    try:
        try:
            await cluster.patch(CONFIG_MAPS, NAME, NAMESPACE, patch={"data": data})
        except NotFoundError:
            body = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": data}
            await cluster.create(CONFIG_MAPS, body)
    except ClusterError as problem:
        _LOG.warning("cannot publish the scheduler configuration: %s", problem.message)


async def published(cluster: Cluster) -> SchedulerConfig | None:
    """The published configuration of a cluster's scheduler; None if there is none.

    InvalidObjectError if the ConfigMap has other content.
    """
    try:
        found = await cluster.get(CONFIG_MAPS, NAME, NAMESPACE)
    except ClusterError:
        return None
    try:
        fields = msgspec.json.decode(found.get("data", {}).get(_KEY, "{}"))
    except msgspec.DecodeError as problem:
        raise InvalidObjectError([FieldError(f"data.{_KEY}", str(problem))]) from None
    return decode(SchedulerConfig, fields, check=config_errors)
