"""The verbs below `bench`: `evenflow-lab bench ordered | keyed | cep | placement`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from evenflow.cli.polling import Watch
from evenflow.cli.terminal import JsonFile, check_writable, console, embedded_spark, guard, write_figures
from evenflow.cli.verbs import Verbs
from evenflow.eventlog.rotation import delete

if TYPE_CHECKING:
    from evenflow_lab.bench.keyed import KeyedSetting

bench = Verbs(help="Measured runs against the ideal, plain Spark and peers.")
Result = TypeVar("Result")

Workers = Annotated[int, typer.Option(help="Workers.", min=1)]
Rows = Annotated[int, typer.Option(help="Rows.", min=1)]
Slow = Annotated[int, typer.Option(help="How many of the workers are slow (emulated).", min=0)]
Factor = Annotated[float, typer.Option(help="How many times slower.", min=1)]
Since = Annotated[float, typer.Option(help="Second at which the slow workers become slow.", min=0)]
Until = Annotated[float, typer.Option(help="Second at which the slow workers recover; 0: never.", min=0)]
Seconds = Annotated[float, typer.Option(help="How long rows arrive.", min=1)]
Balances = Annotated[str, typer.Option(help="Balances to compare, with parameters: hash,flux:delta_min=0.01.")]
Seed = Annotated[int, typer.Option(help="Of everything that is drawn at random.", min=0)]
EventLogs = Annotated[Path | None, typer.Option(help="Directory for one event log a run.")]


@bench.command("ordered")
def bench_ordered(
    workers: Workers = 8,
    slow: Slow = 4,
    factor: Factor = 10.0,
    cost_us: Annotated[float, typer.Option(help="Emulated microseconds a row costs a worker that is not slow.")] = 20.0,
    seconds: Seconds = 15.0,
    also: Annotated[str, typer.Option(help="Further classes, workers:factor, such as 20:5,4:2.")] = "",
    until: Until = 0.0,
    since: Since = 0.0,
    change: Annotated[float, typer.Option(help="Seconds after which all speeds change, up to --factor.", min=0)] = 0.0,
    period: Annotated[float, typer.Option(help="Seconds between samples.", min=0.01)] = 1.0,
    balance: Balances = "round-robin,credits",
    event_log: EventLogs = None,
    json_file: JsonFile = None,
) -> None:
    """An ordered region on emulated workers: rows a second over the ideal capacity, order checked in the same run."""
    given = {"workers": workers, "slow": slow, "factor": factor, "cost_us": cost_us, "seconds": seconds}
    given |= {"until": until, "since": since, "change": change, "period": period}

    def work() -> None:
        from evenflow_lab.bench import ordered, views

        classes = tuple(_class(text) for text in also.split(",") if text)
        if (slowed := slow + sum(count for count, _ in classes)) > workers:
            raise typer.BadParameter(f"{slowed} slow workers of {workers}", param_hint="--slow and --also")
        setting = ordered.OrderedSetting(also=classes, **given)  # type: ignore[arg-type]
        for name in _names(balance):
            setting.balance(name)
        check_writable(json_file)
        with embedded_spark(workers, 1, conf=ordered.FINE) as spark:
            ordered.warm_up(spark)

            def run(name: str, log: Path | None, watch: Watch) -> ordered.OrderedResult:
                return ordered.run(spark, setting, name, log, watch)

            results = _compared(_names(balance), run, setting.ideal(0, seconds) * seconds, event_log)
        console.print(views.ordered(setting, results))
        write_figures(json_file, ordered.report(setting, results))

    guard(work)


@bench.command("keyed")
def bench_keyed(
    workers: Workers = 4,
    keys: Annotated[int, typer.Option(help="Distinct keys.", min=1)] = 16_384,
    zipf: Annotated[float, typer.Option(help="Exponent of Zipf's law for the keys; 0: uniform.", min=0)] = 0.0,
    rows: Rows = 5_000_000,
    units: Annotated[int, typer.Option(help="Units the keys are hashed into.", min=1)] = 1024,
    cost_us: Annotated[float, typer.Option(help="Emulated microseconds a row; 0: none.", min=0)] = 0.0,
    slow: Slow = 0,
    factor: Factor = 1.0,
    since: Since = 0.0,
    until: Until = 0.0,
    memory: Annotated[str, typer.Option(help="State that --short workers keep in memory: 64m; empty: no limit.")] = "",
    short: Annotated[int, typer.Option(help="How many workers are short of memory; 0: all.", min=0)] = 0,
    memory_since: Annotated[float, typer.Option(help="Second at which they lose memory.", min=0)] = 0.0,
    memory_until: Annotated[float, typer.Option(help="Second at which they have it again; 0: never.", min=0)] = 0.0,
    rotate: Annotated[float, typer.Option(help="Seconds for which one worker after the other is slow.", min=0)] = 0.0,
    skew_bytes: Annotated[str, typer.Option(help="Room for rows that wait; several: 0,64k,2m.")] = "2m",
    balance: Balances = "hash,flux,flux-auto",
    event_log: EventLogs = None,
    json_file: JsonFile = None,
) -> None:
    """A rolling mean by key: rows a second over plain Spark, or over the bound if capacities are emulated."""
    given = {"workers": workers, "keys": keys, "zipf": zipf, "rows": rows, "units": units, "cost_us": cost_us}
    given |= {"slow": slow, "factor": factor, "since": since, "until": until, "rotate": rotate}

    def work() -> None:
        from evenflow_lab.bench import keyed

        if slow > workers or ((slow or since or until or rotate) and not cost_us):
            raise typer.BadParameter("slow workers need --cost-us, and be no more than --workers", param_hint="--slow")
        lack = _lack(memory, short, memory_since, memory_until, workers)
        setting = keyed.KeyedSetting(**given, **lack)  # type: ignore[arg-type]
        _compare_keyed(setting, _names(balance), _names(skew_bytes), event_log, json_file)

    guard(work)


def _compare_keyed(
    setting: KeyedSetting, balances: list[str], rooms: list[str], event_log: Path | None, json_file: Path | None
) -> None:
    """Run each balance with each room for rows that wait; show the figures, and write them."""
    from evenflow.runtime.cluster.arguments.amounts import room_of
    from evenflow_lab.bench import keyed, views
    from evenflow_lab.bench.choices import keyed_choice

    for name in balances:
        keyed_choice(name)
    for room in rooms:
        room_of(room)
    check_writable(json_file)
    runs = {name if len(rooms) == 1 else f"{name}-{room}": (name, room) for name, room in product(balances, rooms)}
    with embedded_spark(setting.workers, 2) as spark:
        keyed.warm_up(spark)
        with keyed.data(spark, setting) as made:
            against = keyed.baselines(spark, setting, made.path) if not setting.cost_us else None

            def run(which: str, log: Path | None, watch: Watch) -> keyed.KeyedResult:
                name, room = runs[which]
                return keyed.run(spark, replace(setting, skew_bytes=room), name, made, against, log, watch)

            results = _compared(list(runs), run, setting.rows, event_log)
    console.print(views.keyed(setting, results))
    write_figures(json_file, keyed.report(setting, results, against))


@bench.command("cep")
def bench_cep(
    engines: Annotated[int, typer.Option(help="Engines, that is workers.", min=1)] = 5,
    rows: Rows = 300_000,
    workload: Annotated[str, typer.Option(help="default: keys as texts have them; zipf: by Zipf's law.")] = "default",
    exponents: Annotated[str, typer.Option(help="Of Zipf's law, one after the other, twice.")] = "0.2,1.5",
    cost_us: Annotated[float, typer.Option(help="Emulated microseconds a row.", min=1)] = 400.0,
    window: Annotated[float, typer.Option(help="Seconds that loads are counted over.", min=0.1)] = 2.0,
    seed: Seed = 1,
    balance: Balances = "dlb-l,dlb-h,lptf,pkg,kg",
    event_log: EventLogs = None,
    picture: Annotated[Path | None, typer.Option("--plot", help="Picture of throughput over time.")] = None,
    json_file: JsonFile = None,
) -> None:
    """First Story Detection on emulated engines, balance by balance; key grouping also on one engine more."""
    given = {"engines": engines, "rows": rows, "workload": workload, "cost_us": cost_us, "window": window, "seed": seed}

    def work() -> None:
        from evenflow_lab.bench import cep, views
        from evenflow_lab.bench.choices import keyed_choice

        powers = tuple(_number(text, "--exponents") for text in exponents.split(","))
        setting = cep.CepSetting(exponents=powers, **given)  # type: ignore[arg-type]
        for name in _names(balance):
            keyed_choice(name)
        check_writable(json_file, picture)
        with embedded_spark(engines + 1, 2) as spark:
            with console.status("making texts"):
                cep.warm_up(spark)
            with cep.data(setting) as made:

                def run(name: str, log: Path | None, watch: Watch) -> cep.CepResult:
                    return cep.run(spark, setting, name, made, log, watch)

                def run_more(name: str, log: Path | None, watch: Watch) -> cep.CepResult:
                    return cep.run(spark, replace(setting, engines=engines + 1), name, made, log, watch)

                results = _compared(_names(balance), run, rows, event_log)
                results += _compared(["kg"] * _names(balance).count("kg"), run_more, rows, event_log)
        results = cep.compared(results)
        console.print(views.stories(setting, results))
        console.print(views.engines(results))
        write_figures(json_file, cep.report(setting, results))
        if picture is not None:
            views.stories_figure(setting, results).savefig(picture, dpi=110)
            console.print(f"written: {picture}")

    guard(work)


@bench.command("placement")
def bench_placement(
    workers: Workers = 6,
    operators: Annotated[int, typer.Option(help="Operators of the graph.", min=1)] = 40,
    placement: Annotated[str, typer.Option(help="Placements to compare.")] = "random,xzh,caps,greedy,dp,potential",
    scheme: Annotated[int, typer.Option(help="1-3, 6: chains of filters; 4, 5: also joins.", min=1, max=6)] = 3,
    seconds: Seconds = 60.0,
    load: Annotated[float, typer.Option(help="Load of each worker if shared evenly.", min=0.01)] = 0.6,
    slow_at: Annotated[float, typer.Option(help="Second at which one worker turns slow; 0: never.", min=0)] = 0.0,
    factor: Factor = 5.0,
    seed: Seed = 1,
    event_log: EventLogs = None,
    json_file: JsonFile = None,
) -> None:
    """A graph of filters and joins on emulated workers and links: latency of results, placement by placement."""
    given = {"workers": workers, "operators": operators, "scheme": scheme, "seconds": seconds, "load": load}
    given |= {"slow_at": slow_at, "factor": factor, "seed": seed}

    def work() -> None:
        from evenflow.cli.demo.graph_run import data
        from evenflow_lab.bench import placement as placing
        from evenflow_lab.bench import views

        setting = placing.PlacementSetting(**given)  # type: ignore[arg-type]
        placing.check_placements(_names(placement))
        drawn = setting.drawn()
        check_writable(json_file)
        with embedded_spark(workers, len(drawn.rows)) as spark, data(drawn) as paths:

            def run(name: str, log: Path | None, watch: Watch) -> placing.PlacementResult:
                return placing.run(spark, setting, name, drawn, paths, log, watch)

            results = _compared(_names(placement), run, sum(drawn.taken.values()) * seconds, event_log)
        console.print(views.placement(setting, results))
        write_figures(json_file, placing.report(setting, drawn, results))

    guard(work)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _lack(memory: str, short: int, since: float, until: float, workers: int) -> dict[str, Any]:
    """The fields of a `KeyedSetting` for workers that lack memory for a while."""
    from evenflow.runtime.cluster.arguments.amounts import bytes_of

    if short > workers or ((short or since or until) and not memory) or (until and until <= since):
        what = "needs --memory, no more workers than --workers, and an end after its beginning"
        raise typer.BadParameter(what, param_hint="--short, --memory-since and --memory-until")
    size = bytes_of(memory) if memory else 0
    return {"memory": size, "short": (short or workers) if memory else 0, "memory_since": since, "memory_until": until}


def _compared(
    names: Sequence[str], run: Callable[[str, Path | None, Watch], Result], rows: float, event_logs: Path | None
) -> list[Result]:
    """The results of runs of so many rows each: a bar for each one, and a new event log if there is a directory."""
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rows]}"), TimeElapsedColumn()
    results = []
    for name in names:
        log = event_logs / f"{name}.jsonl" if event_logs else None
        if log is not None:
            delete(log)
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task(name, total=rows, rows="")

            def watch(done: float, progress: Progress = progress, bar: Any = bar) -> None:
                progress.update(bar, completed=done, rows=f"{done:,.0f} rows")

            results.append(run(name, log, watch))
    return results


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number", param_hint=option) from None


def _class(text: str) -> tuple[int, float]:
    count, _, factor = text.partition(":")
    try:
        return int(count), float(factor)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not workers:factor, such as 20:5", param_hint="--also") from None
