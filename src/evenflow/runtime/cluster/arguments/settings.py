"""The arguments of `Cluster`, checked, as the settings that every process of the cluster gets."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext

from evenflow.model.capacity import Emulate
from evenflow.model.qos import Qos
from evenflow.runtime.cluster.arguments import amounts
from evenflow.runtime.cluster.arguments.tuning import Tuning
from evenflow.runtime.cluster.arguments.verbs import check_emulated, checkpoint_of, weights_of
from evenflow.runtime.cluster.spark.session import driver_host
from evenflow.runtime.wire.settings import Settings
from evenflow.state.store.sealed import Place


def settings_of(
    context: SparkContext,
    workers: int,
    *,
    period: float,
    stall_timeout: float,
    emulate: Emulate | None,
    checkpoint: str | Path | Place | None,
    checkpoint_key: bytes | str | None,
    qos: Mapping[str, float | Qos] | None,
    memory: str | int | None,
    tuning: Tuning,
) -> Settings:
    """The settings of a new cluster; the controller thread chooses the port."""
    check_emulated(emulate, workers)
    place, budget = checkpoint_of(checkpoint, checkpoint_key), amounts.bytes_of(memory)
    return Settings(
        cluster=uuid.uuid4().hex[:8],
        host=driver_host(context)[1],
        port=0,
        secret=secrets.token_bytes(32),
        period=amounts.period_of(period),
        stall_timeout=amounts.seconds_of(stall_timeout=stall_timeout),
        emulate=emulate,
        checkpoint=str(place.where),
        checkpoint_key=place.key,
        opener=place.opener,
        qos=weights_of(qos),
        targets={name: each for name, each in (qos or {}).items() if isinstance(each, Qos)},
        memory=budget,
        t_gap=amounts.gap_of(tuning.t_gap, budget > 0),
    )
