"""The errors of a keyed feeder that cannot go on."""

from __future__ import annotations

from evenflow.errors import EvenflowError, FunctionError, StateLost
from evenflow.model.messages import OperatorFailed
from evenflow.runtime.feeder.link import Link

FAILED = "the operator of region"
"""How the reason begins where it is the user's code that has failed."""


def query_unknown(region: str) -> StateLost:
    """A streaming task whose query Spark does not tell."""
    return StateLost(
        f"region {region}: a streaming DataFrame is evaluated in a thread that does not know its query, so it cannot "
        "be told which state it belongs to: in foreachBatch, use pyspark.InheritableThread, or "
        "pyspark.inheritable_thread_target, for threads of your own"
    )


def operator_failed(region: str, partition: int, report: OperatorFailed) -> FunctionError:
    """A worker could not process rows of a partition."""
    where = f" ({report.where})" if report.where else ""
    error = FunctionError(
        f"{FAILED} {region} failed on worker {report.worker}{where}, in partition {partition}: "
        f"{report.error}\n{report.traceback}"
    )
    error.worker = report.worker
    return error


def evaluation_lost(region: str, reason: str) -> EvenflowError:
    """The controller has given up the evaluation."""
    return (FunctionError if reason.startswith(FAILED) else StateLost)(f"region {region}: {reason}")


def worker_lost(region: str, link: Link, reason: str, stored: bool) -> StateLost:
    """A worker is gone; `stored`: what it held can be brought back."""
    return StateLost(f"region {region} lost {link} ({reason}) and the state it held. {_remedy(stored)}")


def worker_unreachable(region: str, worker: int, stored: bool) -> StateLost:
    """Rows are for a worker to which there is no connection."""
    return StateLost(f"region {region} cannot reach worker {worker} and the state it holds. {_remedy(stored)}")


def _remedy(stored: bool) -> str:
    if stored:
        return "The batch has to be run again: start the query again, or have evenflow.supervise do it"
    return "Without a checkpoint that cannot be brought back: start the query again from the beginning"
