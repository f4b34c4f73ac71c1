"""The verbs below `bench`: `evenflow-lab bench ordered | keyed | cep | placement`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from evenflow.cli.terminal import JsonFile, check_writable, console, embedded_spark, guard, write_figures
from evenflow.cli.verbs import Verbs
from evenflow.eventlog.rotation import delete

bench = Verbs(help="Measured runs against the ideal, plain Spark and peers.")


@bench.command("ordered")
def bench_ordered(
    workers: Annotated[int, typer.Option(help="Workers.", min=1)] = 8,
    slow: Annotated[int, typer.Option(help="How many of them are slow.", min=0)] = 4,
    factor: Annotated[float, typer.Option(help="How many times slower.", min=1)] = 10.0,
    cost_us: Annotated[float, typer.Option(help="Emulated microseconds a row costs a worker that is not slow.")] = 20.0,
    seconds: Annotated[float, typer.Option(help="How long rows are fed.", min=1)] = 15.0,
    also: Annotated[str, typer.Option(help="Further classes, workers:factor, such as 20:5,4:2.")] = "",
    until: Annotated[float, typer.Option(help="Second at which the slow workers recover; 0: never.", min=0)] = 0.0,
    since: Annotated[float, typer.Option(help="Second at which the slow workers become slow.", min=0)] = 0.0,
    change: Annotated[
        float, typer.Option(help="Seconds after which all speeds change, up to --factor; 0: --slow are slow.", min=0)
    ] = 0.0,
    period: Annotated[float, typer.Option(help="Seconds between samples.", min=0.01)] = 1.0,
    balance: Annotated[str, typer.Option(help="Balances to compare, separated by commas.")] = "round-robin,credits",
    event_log: Annotated[Path | None, typer.Option(help="Directory for one event log a balance.")] = None,
    json_file: JsonFile = None,
) -> None:
    """An ordered region on emulated workers: rows a second over the ideal capacity, order checked in the same run."""

    def work() -> None:
        from evenflow_lab.bench import ordered, views

        classes = tuple(_class(text) for text in also.split(",") if text)
        if (slowed := slow + sum(count for count, _ in classes)) > workers:
            raise typer.BadParameter(f"{slowed} slow workers of {workers}", param_hint="--slow and --also")
        setting = ordered.OrderedSetting(workers, slow, factor, cost_us, seconds, until, period, since, classes, change)
        balances = [name.strip() for name in balance.split(",")]
        setting.emulate()
        for name in balances:
            setting.balance(name)
        check_writable(json_file)
        results = []
        with embedded_spark(workers, 1, conf=ordered.FINE) as spark, _progress() as progress:
            ordered.warm_up(spark)
            for chosen in balances:
                watch = _bar(progress, chosen, setting.ideal(0, seconds) * seconds)
                results.append(ordered.run(spark, setting, chosen, _log(event_log, chosen), watch))
        console.print(views.ordered(setting, results))
        write_figures(json_file, ordered.report(setting, results))

    guard(work)


@bench.command("keyed")
def bench_keyed(
    workers: Annotated[int, typer.Option(help="Workers.", min=1)] = 4,
    keys: Annotated[int, typer.Option(help="Distinct keys.", min=1)] = 16_384,
    zipf: Annotated[float, typer.Option(help="Exponent of Zipf's law for the keys; 0: uniform.", min=0)] = 0.0,
    rows: Annotated[int, typer.Option(help="Rows.", min=1)] = 5_000_000,
    units: Annotated[int, typer.Option(help="Units the keys are hashed into.", min=1)] = 1024,
    cost_us: Annotated[float, typer.Option(help="Emulated microseconds a row; 0: none.", min=0)] = 0.0,
    slow: Annotated[int, typer.Option(help="How many workers are slow (emulated).", min=0)] = 0,
    factor: Annotated[float, typer.Option(help="How many times slower.", min=1)] = 1.0,
    since: Annotated[float, typer.Option(help="Second at which the slow workers become slow.", min=0)] = 0.0,
    until: Annotated[float, typer.Option(help="Second at which they recover; 0: never.", min=0)] = 0.0,
    memory: Annotated[
        str, typer.Option(help="State that workers short of memory may keep in it, such as 64m; empty: no limit.")
    ] = "",
    short: Annotated[int, typer.Option(help="How many workers are short of memory; 0: all.", min=0)] = 0,
    memory_since: Annotated[float, typer.Option(help="Second at which they lose memory.", min=0)] = 0.0,
    memory_until: Annotated[
        float, typer.Option(help="Second at which they have room for all state again; 0: never.", min=0)
    ] = 0.0,
    rotate: Annotated[
        float, typer.Option(help="Seconds for which one worker after the other is slow; 0: --slow of them.", min=0)
    ] = 0.0,
    skew_bytes: Annotated[str, typer.Option(help="Room for rows that wait; several: 0,64k,2m.")] = "2m",
    balance: Annotated[
        str, typer.Option(help="Balances to compare, with parameters if any: hash,flux:delta_min=0.01.")
    ] = "hash,flux,flux-auto",
    event_log: Annotated[Path | None, typer.Option(help="Directory for one event log a balance.")] = None,
    json_file: JsonFile = None,
) -> None:
    """A rolling mean by key: rows a second over plain Spark, or over the bound if capacities are emulated."""

    def work() -> None:
        from evenflow.runtime.cluster.arguments.amounts import room_of
        from evenflow_lab.bench import keyed, views
        from evenflow_lab.bench.choices import keyed_choice

        if slow > workers or ((slow or since or until or rotate) and not cost_us):
            raise typer.BadParameter("slow workers need --cost-us, and be no more than --workers", param_hint="--slow")
        lack = _lack(memory, short, memory_since, memory_until, workers)
        setting = keyed.KeyedSetting(workers, keys, zipf, rows, units, cost_us, slow, factor, since, until, **lack)
        setting = replace(setting, rotate=rotate)
        balances = [name.strip() for name in balance.split(",")]
        for name in balances:
            keyed_choice(name)
        rooms = [room.strip() for room in skew_bytes.split(",")]
        for room in rooms:
            room_of(room)
        check_writable(json_file)
        results = []
        with embedded_spark(workers, 2) as spark:
            keyed.warm_up(spark)
            with keyed.data(spark, setting) as made, _progress() as progress:
                against = keyed.baselines(spark, setting, made.path) if not cost_us else None
                for chosen, room in product(balances, rooms):
                    watch = _bar(progress, chosen, rows)
                    log = _log(event_log, chosen if len(rooms) == 1 else f"{chosen}-{room}")
                    this = replace(setting, skew_bytes=room)
                    results.append(keyed.run(spark, this, chosen, made, against, log, watch))
        console.print(views.keyed(setting, results))
        write_figures(json_file, keyed.report(setting, results, against))

    guard(work)


@bench.command("cep")
def bench_cep(
    engines: Annotated[int, typer.Option(help="Engines, that is workers.", min=1)] = 5,
    rows: Annotated[int, typer.Option(help="Texts.", min=1)] = 300_000,
    workload: Annotated[
        str, typer.Option(help="default: keys as the texts have them; zipf: by Zipf's law.")
    ] = "default",
    exponents: Annotated[str, typer.Option(help="Of Zipf's law, one after the other, twice.")] = "0.2,1.5",
    cost_us: Annotated[float, typer.Option(help="Emulated microseconds a row.", min=1)] = 400.0,
    window: Annotated[float, typer.Option(help="Seconds that loads are counted over.", min=0.1)] = 2.0,
    seed: Annotated[int, typer.Option(help="Of the texts and keys.", min=0)] = 1,
    balance: Annotated[str, typer.Option(help="Balances to compare.")] = "dlb-l,dlb-h,lptf,pkg,kg",
    event_log: Annotated[Path | None, typer.Option(help="Directory for one event log a balance.")] = None,
    picture: Annotated[Path | None, typer.Option("--plot", help="Picture of throughput over time.")] = None,
    json_file: JsonFile = None,
) -> None:
    """First Story Detection on emulated engines, balance by balance; key grouping also on one engine more."""

    def work() -> None:
        from evenflow_lab.bench import cep, views
        from evenflow_lab.bench.choices import keyed_choice

        powers = tuple(_number(text, "--exponents") for text in exponents.split(","))
        setting = cep.CepSetting(engines, rows, workload, cost_us, window=window, exponents=powers, seed=seed)
        runs = [(name.strip(), setting) for name in balance.split(",")]
        runs += [(name, replace(setting, engines=engines + 1)) for name, _ in runs if name == "kg"]
        for name, _ in runs:
            keyed_choice(name)
        check_writable(json_file, picture)
        with embedded_spark(engines + 1, 2) as spark:
            with console.status("making texts"):
                cep.warm_up(spark)
            with cep.data(setting) as made, _progress() as progress:
                results = [
                    cep.run(spark, one, name, made, _log(event_log, name), _bar(progress, name, rows))
                    for name, one in runs
                ]
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
    workers: Annotated[int, typer.Option(help="Workers.", min=1)] = 6,
    operators: Annotated[int, typer.Option(help="Operators of the graph.", min=1)] = 40,
    placement: Annotated[str, typer.Option(help="Placements to compare.")] = "random,xzh,caps,greedy,dp,potential",
    scheme: Annotated[int, typer.Option(help="1-3, 6: chains of filters; 4, 5: also joins.", min=1, max=6)] = 3,
    seconds: Annotated[float, typer.Option(help="How long rows arrive.", min=1)] = 60.0,
    load: Annotated[float, typer.Option(help="Load of each worker if shared evenly.", min=0.01)] = 0.6,
    slow_at: Annotated[float, typer.Option(help="Second at which one worker turns slow; 0: never.", min=0)] = 0.0,
    factor: Annotated[float, typer.Option(help="How many times slower.", min=1)] = 5.0,
    seed: Annotated[int, typer.Option(help="Of graph, workers, links and rows.", min=0)] = 1,
    event_log: Annotated[Path | None, typer.Option(help="Directory for one event log a placement.")] = None,
    json_file: JsonFile = None,
) -> None:
    """A graph of filters and joins on emulated workers and links: latency of results, placement by placement."""

    def work() -> None:
        from evenflow.cli.demo.graph_run import data
        from evenflow_lab.bench import placement as placing
        from evenflow_lab.bench import views

        setting = placing.PlacementSetting(workers, operators, scheme, seconds, load, slow_at, factor, seed)
        names = [name.strip() for name in placement.split(",")]
        placing.check_placements(names)
        drawn = setting.drawn()
        check_writable(json_file)
        results = []
        rows = sum(drawn.taken.values()) * seconds
        with embedded_spark(workers, len(drawn.rows)) as spark, data(drawn) as paths, _progress() as progress:
            for name in names:
                watch = _bar(progress, name, rows)
                results.append(placing.run(spark, setting, name, drawn, paths, _log(event_log, name), watch))
        console.print(views.placement(setting, results))
        write_figures(json_file, placing.report(setting, drawn, results))

    guard(work)


def _lack(memory: str, short: int, since: float, until: float, workers: int) -> dict[str, Any]:
    """The fields of a `KeyedSetting` for workers that lack memory for a while."""
    from evenflow.runtime.cluster.arguments.amounts import bytes_of

    if short > workers or ((short or since or until) and not memory) or (until and until <= since):
        what = "needs --memory, no more workers than --workers, and an end after its beginning"
        raise typer.BadParameter(what, param_hint="--short, --memory-since and --memory-until")
    size = bytes_of(memory) if memory else 0
    return {"memory": size, "short": (short or workers) if memory else 0, "memory_since": since, "memory_until": until}


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rows]}"), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _bar(progress: Progress, name: str, total: float) -> Callable[[float], None]:
    """A bar for one run, in place of the last run's; call the result with the number of rows that are through."""
    for old in progress.task_ids:
        progress.remove_task(old)
    goal = progress.add_task(name, total=total, rows="")

    def watch(rows: float) -> None:
        progress.update(goal, completed=rows, rows=f"{rows:,.0f} rows")

    return watch


def _log(directory: Path | None, name: str) -> Path | None:
    """The file for the event log of one run; an old file is deleted."""
    log = directory / f"{name}.jsonl" if directory else None
    if log is not None:
        delete(log)
    return log


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
