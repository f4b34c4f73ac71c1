"""The command line: `evenflow demo | bench | plot | state | torture`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from evenflow._version import __version__
from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from evenflow.bench.keyed import Outcome as KeyedOutcome
    from evenflow.bench.keyed import Setting as KeyedSetting
    from evenflow.bench.ordered import Outcome, Setting

app = typer.Typer(help="Keeps streaming pipelines on Apache Spark balanced while they run.", no_args_is_help=True)
bench = typer.Typer(help="Measured runs against the ideal, plain Spark and peers.", no_args_is_help=True)
app.add_typer(bench, name="bench")
state = typer.Typer(help="What a checkpoint holds, and whether it is sound.", no_args_is_help=True)
app.add_typer(state, name="state")
console = Console()
errors = Console(stderr=True)


@app.command()
def version() -> None:
    """Print the version."""
    console.print(__version__)


@app.command()
def demo(
    part: Annotated[str, typer.Option(help="ordered, stories, or all.")] = "all",
    seconds: Annotated[float, typer.Option(help="How long to show each balance.", min=3)] = 12.0,
    workers: Annotated[int, typer.Option(help="Workers; in the first part, the first is the slow one.", min=2)] = 4,
    factor: Annotated[float, typer.Option(help="How many times slower the slow worker is.", min=1)] = 10.0,
    balance: Annotated[str, typer.Option(help="Balances of the ordered region.")] = "round-robin,credits",
    keyed_balance: Annotated[str, typer.Option(help="Balances of First Story Detection.")] = "kg,dlb-h",
) -> None:
    """Show streams going through an ordered region with one slow worker, and through First Story Detection, live."""

    def work() -> None:
        from evenflow.demo import run_demo

        if part not in ("ordered", "stories", "all"):
            raise typer.BadParameter(f"{part!r}: choose ordered, stories or all", param_hint="--part")
        ordered = balance.split(",") if part != "stories" else []
        keyed = keyed_balance.split(",") if part != "ordered" else []
        run_demo(console, seconds, workers, factor, ordered, keyed)

    _guard(work)


@app.command()
def plot(
    log: Annotated[Path, typer.Argument(help="An event log, as written by Cluster(event_log=...).")],
    out: Annotated[Path | None, typer.Option(help="The picture to write; beside the log if not given.")] = None,
    region: Annotated[str | None, typer.Option(help="The region to draw; the first if not given.")] = None,
) -> None:
    """Draw weights, blocking rates, clusters and throughput over time."""

    def work() -> None:
        from evenflow import plot as figures

        target = out or log.with_suffix(".png")
        figures.draw(figures.read(log, region)).savefig(target, dpi=110)
        console.print(f"written: {target}")

    _guard(work)


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
    period: Annotated[float, typer.Option(help="Seconds between samples and decisions.", min=0.01)] = 1.0,
    balance: Annotated[str, typer.Option(help="Balances to compare, separated by commas.")] = "round-robin,credits",
    event_log: Annotated[Path | None, typer.Option(help="Directory for one event log a balance.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for the figures.")] = None,
) -> None:
    """An ordered region on emulated workers: rows a second over the ideal capacity, order checked in the same run."""

    def work() -> None:
        from evenflow.bench import ordered
        from evenflow.runtime.session import local_session

        classes = tuple(_class(text) for text in also.split(",") if text)
        if (slowed := slow + sum(count for count, _ in classes)) > workers:
            raise typer.BadParameter(f"{slowed} slow workers of {workers}", param_hint="--slow and --also")
        setting = ordered.Setting(workers, slow, factor, cost_us, seconds, until, period, since, classes)
        balances = [name.strip() for name in balance.split(",")]
        setting.emulate()
        for name in balances:
            setting.balance(name)
        _touch(json_file)
        with console.status("starting Spark"):
            spark = local_session(workers, slots=1, conf=ordered.FINE)
        outcomes = []
        try:
            ordered.warm_up(spark)
            with _progress() as progress:
                for chosen in balances:
                    watch = _bar(progress, chosen, setting.ideal(0, seconds) * seconds)
                    outcomes.append(ordered.run(spark, setting, chosen, _log(event_log, chosen), watch))
        finally:
            spark.stop()
        _show(setting, outcomes)
        if json_file is not None:
            json_file.write_text(json.dumps(ordered.report(setting, outcomes), indent=2) + "\n")
            console.print(f"written: {json_file}")

    _guard(work)


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
    balance: Annotated[str, typer.Option(help="Balances to compare, separated by commas.")] = "hash,flux,flux-auto",
    event_log: Annotated[Path | None, typer.Option(help="Directory for one event log a balance.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for the figures.")] = None,
) -> None:
    """A rolling mean by key: rows a second over plain Spark, or over the bound if capacities are emulated."""

    def work() -> None:
        from evenflow.bench import keyed
        from evenflow.policy import keyed_balance_named
        from evenflow.runtime.session import local_session

        if slow > workers or ((slow or since or until) and not cost_us):
            raise typer.BadParameter("slow workers need --cost-us, and be no more than --workers", param_hint="--slow")
        setting = keyed.Setting(workers, keys, zipf, rows, units, cost_us, slow, factor, since, until)
        balances = [name.strip() for name in balance.split(",")]
        for name in balances:
            keyed_balance_named(name)
        _touch(json_file)
        with console.status("starting Spark"):
            spark = local_session(workers, slots=2)
        outcomes = []
        try:
            keyed.warm_up(spark)
            with keyed.data(spark, setting) as made, _progress() as progress:
                against = keyed.baselines(spark, setting, made.path) if not cost_us else None
                for chosen in balances:
                    watch = _bar(progress, chosen, rows)
                    log = _log(event_log, chosen)
                    outcomes.append(keyed.run(spark, setting, chosen, made, against, log, watch))
        finally:
            spark.stop()
        _show_keyed(setting, outcomes)
        if json_file is not None:
            json_file.write_text(json.dumps(keyed.report(setting, outcomes, against), indent=2) + "\n")
            console.print(f"written: {json_file}")

    _guard(work)


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
    json_file: Annotated[Path | None, typer.Option("--json", help="File for the figures.")] = None,
) -> None:
    """First Story Detection on emulated engines, balance by balance; key grouping also on one engine more."""

    def work() -> None:
        from evenflow.bench import cep, cep_view
        from evenflow.policy import keyed_balance_named
        from evenflow.runtime.session import local_session

        powers = tuple(_number(text, "--exponents") for text in exponents.split(","))
        setting = cep.Setting(engines, rows, workload, cost_us, window=window, exponents=powers, seed=seed)
        runs = [(name.strip(), setting) for name in balance.split(",")]
        runs += [(name, replace(setting, engines=engines + 1)) for name, _ in runs if name == "kg"]
        for name, _ in runs:
            keyed_balance_named(name)
        _touch(json_file, picture)
        with console.status("starting Spark"):
            spark = local_session(engines + 1, slots=2)
        try:
            with console.status("making texts"):
                cep.warm_up(spark)
            with cep.data(setting) as made, _progress() as progress:
                outcomes = cep.compared(
                    [
                        cep.run(spark, one, name, made, _log(event_log, name), _bar(progress, name, rows))
                        for name, one in runs
                    ]
                )
        finally:
            spark.stop()
        console.print(cep_view.table(setting, outcomes))
        if json_file is not None:
            json_file.write_text(json.dumps(cep.report(setting, outcomes), indent=2) + "\n")
            console.print(f"written: {json_file}")
        if picture is not None:
            cep_view.figure(setting, outcomes).savefig(picture, dpi=110)
            console.print(f"written: {picture}")

    _guard(work)


@app.command()
def torture(
    seed: Annotated[int, typer.Option(help="The first schedule; the next one is seed + 1, and so on.")] = 1,
    minutes: Annotated[float, typer.Option(help="How long to begin new schedules.", min=0)] = 5.0,
    schedules: Annotated[int, typer.Option(help="How many schedules, however long they take; 0: see --minutes.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Directory for all that is left of runs that went wrong.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for the figures.")] = None,
) -> None:
    """Run a keyed streaming job under schedules of faults, and compare its output and state with a plain run."""

    def work() -> None:
        from evenflow.torture import run, view

        _touch(json_file)

        def watch(report: run.Report) -> None:
            view.show_outcome(console, report.outcomes[-1])
            if json_file is not None:  # each time: a run of hours that is ended early has its figures
                json_file.write_text(json.dumps(report.to_json(), indent=2) + "\n")

        report = run.torture(seed, minutes, schedules, watch, keep)
        view.show_report(console, report)
        if json_file is not None:
            json_file.write_text(json.dumps(report.to_json(), indent=2) + "\n")
            console.print(f"written: {json_file}")
        if not report.good:
            raise typer.Exit(1)

    _guard(work)


@state.command("ls")
def state_ls(
    where: Annotated[str, typer.Argument(metavar="DIR", help="A checkpoint: a path or a URI.")],
) -> None:
    """List the operators and queries that have state here."""
    from evenflow import state_view

    _guard(lambda: state_view.show_queries(console, where))


@state.command("show")
def state_show(
    where: Annotated[str, typer.Argument(metavar="DIR", help="A checkpoint: a path or a URI.")],
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The operator; its query, if it has several.")],
) -> None:
    """Show the latest manifest of an operator and query, its snapshots and its log."""
    from evenflow import state_view

    _guard(lambda: state_view.show_query(console, where, names))


@state.command("verify")
def state_verify(
    where: Annotated[str, typer.Argument(metavar="DIR", help="A checkpoint: a path or a URI.")],
) -> None:
    """Read everything and check every checksum; exit code 1 if a blob is bad."""

    def work() -> None:
        from evenflow import state_view

        if not state_view.verify_all(console, where):
            raise typer.Exit(1)

    _guard(work)


def _touch(*files: Path | None) -> None:
    """Find out before a long run whether its results can be written."""
    for file in files:
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rows]}"), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _bar(progress: Progress, name: str, total: float) -> Callable[[float], None]:
    """A bar for one run in place of the last one's; tell it how many rows are through."""
    for old in progress.task_ids:
        progress.remove_task(old)
    goal = progress.add_task(name, total=total, rows="")

    def watch(rows: float) -> None:
        progress.update(goal, completed=rows, rows=f"{rows:,.0f} rows")

    return watch


def _log(directory: Path | None, name: str) -> Path | None:
    """The event log of one run, started afresh."""
    log = directory / f"{name}.jsonl" if directory else None
    if log is not None:
        log.unlink(missing_ok=True)
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


def _show(setting: Setting, outcomes: list[Outcome]) -> None:
    load = f"{setting.slow} of {setting.workers} workers {setting.factor:g}x slower"
    load += "".join(f", {count} {factor:g}x" for count, factor in setting.also)
    if setting.since:
        load += f" from second {setting.since:g}"
    if setting.until:
        load += f" until second {setting.until:g}"
    ideal = setting.ideal(0, setting.seconds)
    table = Table(title=f"{load}, {setting.cost_us:g} us a row: ideal {ideal:,.0f} rows/s (emulated)")
    for heading in ("balance", "rows/s", "of ideal", "steady", "reaction", "delay p50/p99", "in order"):
        table.add_column(heading, justify="left" if heading == "balance" else "right")
    for outcome in outcomes:
        table.add_row(
            outcome.balance,
            f"{outcome.rows_per_s:,.0f}",
            f"{outcome.of_ideal:.3f}",
            f"{outcome.steady_of_ideal:.3f}",
            "-" if outcome.reaction_s is None else f"{outcome.reaction_s:.1f} s",
            f"{outcome.delay_ms['p50']:,.0f} / {outcome.delay_ms['p99']:,.0f} ms",
            "yes" if outcome.in_order else "[red]NO[/red]",
        )
    console.print(table)


def _show_keyed(setting: KeyedSetting, outcomes: list[KeyedOutcome]) -> None:
    data = f"{setting.rows:,} rows of {setting.keys:,} keys, " + (
        f"Zipf {setting.zipf:g}" if setting.zipf else "uniform"
    )
    load = f", {setting.cost_us:g} us a row (emulated)" if setting.cost_us else ""
    if setting.slow:
        load += f", {setting.slow} of {setting.workers} workers {setting.factor:g}x slower"
    table = Table(title=f"{data} on {setting.workers} workers{load}")
    against = ["of bound", "steady"] if setting.cost_us else ["of identity", "of shuffle"]
    for heading in ("balance", "rows/s", *against, "rstd", "moves", "pause p50/p99", "correct"):
        table.add_column(heading, justify="left" if heading == "balance" else "right")
    for outcome in outcomes:
        pair = (
            (outcome.of_bound, outcome.steady_of_bound)
            if setting.cost_us
            else (outcome.of_identity, outcome.of_shuffle)
        )
        pause = outcome.pause_ms
        table.add_row(
            outcome.balance,
            f"{outcome.rows_per_s:,.0f}",
            *("-" if value is None else f"{value:.3f}" for value in pair),
            f"{outcome.rstd:.1f} %",
            f"{outcome.moves:,}",
            f"{pause['p50']:.0f} / {pause['p99']:.0f} ms" if pause else "-",
            "yes" if outcome.correct else "[red]NO[/red]",
        )
    console.print(table)


def _guard(work: Callable[[], None]) -> None:
    """One clear line for what we raise on purpose, and for Ctrl-C; a traceback is for bugs."""
    try:
        work()
    except (EvenflowError, OSError) as error:
        errors.print(f"[red]error:[/red] {error}", highlight=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print("interrupted")
        raise typer.Exit(130) from None
