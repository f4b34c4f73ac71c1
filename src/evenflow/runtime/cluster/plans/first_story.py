"""First Story Detection over a DataFrame of texts (cep §4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StringType

from evenflow.errors import InvalidArgument
from evenflow.model.given import check_flag, number_of
from evenflow.policy import KEYED_BALANCES, KeyedBalance
from evenflow.runtime.cluster.arguments.tuning import KEYED, Tuning, tuning_of, with_tuning
from evenflow.runtime.cluster.arguments.verbs import check_dataframe, check_options
from evenflow.stories.operator import HISTORY, FirstStory

if TYPE_CHECKING:
    from evenflow.runtime.cluster.cluster import Cluster
    from evenflow.stories.lsh import Fingerprints
    from evenflow.stories.vectors import Vectors

FINGERPRINT, SIMILARITY = "fingerprint", "similarity"
STORY, VECTOR = "__evenflow_story", "__evenflow_vector"
FEATURES = 1 << 18
TEXTS = -1
"""A word that stands for all texts: its count is the number of texts."""


@with_tuning("first_story", KEYED)
def first_story(
    df: DataFrame,
    text: str = "text",
    *,
    cluster: Cluster,
    history: int = HISTORY,
    tau: float = 0.2,
    bits: int = 12,
    features: int = FEATURES,
    seed: int = 2016,
    corpus: DataFrame | Iterable[str] | Vectors | None = None,
    all: bool = False,
    balance: str | KeyedBalance = "dlb-h",
    name: str = "first-story",
    tuning: Tuning | None = None,
    **options: Any,
) -> DataFrame:
    """The rows of `df` whose texts tell something new: batch or streaming, as `df` is.

    Texts become vectors of words, and vectors fingerprints of `bits` bits, which are the same for most texts that are
    alike. A row is a first story if none of the last `history` rows with its fingerprint has a cosine with it above
    `tau`. The result has the columns of `df`, `fingerprint`, and `similarity`, the greatest of those cosines to six
    digits, which is 0 for the first row of a fingerprint; with `all=True`, it has all rows. A text without words, or
    null, is no story: its similarity is null.

    Rare words count more, by their number in `corpus`: a batch DataFrame with a column `text`, texts, or `Vectors` that
    have been fitted. Without one, all words count the same.

    Rows of one Spark partition are compared in their order, rows of several in the order of arrival. `balance`, `name`,
    `tuning` (by default a unit for each fingerprint) and further options are those of `Cluster.keyed`.
    """
    _check_cluster(cluster)
    check_options(options, KEYED_BALANCES, balance, first_story, cluster.keyed)
    _check_texts(df, text)
    _check_free(df, FINGERPRINT, SIMILARITY)
    if not 0 <= number_of(tau) <= 1:
        raise InvalidArgument(f"tau={tau!r}: give a cosine, from 0 to 1")
    vectors, prints = _makers(text, bits, features, seed, corpus)
    check_flag("all", all)
    # stored state is found again only if these are the same
    made = f"{vectors}, {prints.bits} bits, seed {prints.seed}"
    operator = FirstStory(VECTOR, history=history, into=SIMILARITY, made=made)
    story = F.col(STORY)
    rows = df.select("*", _stories(vectors, prints)(_column(text)).alias(STORY))
    rows = rows.select("*", story[FINGERPRINT].alias(FINGERPRINT), story["vector"].alias(VECTOR)).drop(STORY)
    tuned = tuning_of("first_story", tuning, {**KEYED, "spread": "modulo", "units": 1 << prints.bits})
    compared = cluster.keyed(rows, FINGERPRINT, operator, balance=balance, name=name, tuning=tuned, **options)
    compared = compared.drop(VECTOR)
    return compared if all else compared.where(F.col(SIMILARITY) <= float(tau))


def fingerprints(
    df: DataFrame,
    text: str = "text",
    *,
    bits: int = 12,
    features: int = FEATURES,
    seed: int = 2016,
    corpus: DataFrame | Iterable[str] | Vectors | None = None,
) -> DataFrame:
    """`df` with the column `fingerprint` that `first_story` uses as its key, for rules of your own."""
    _check_texts(df, text)
    _check_free(df, FINGERPRINT)
    vectors, prints = _makers(text, bits, features, seed, corpus)
    return df.select("*", _stories(vectors, prints)(_column(text))[FINGERPRINT].alias(FINGERPRINT))


def fit_vectors(corpus: DataFrame, text: str = "text", features: int = FEATURES) -> Vectors:
    """Vectors fitted to the texts of a batch DataFrame: they know how rare each word is. Spark does the counting."""
    from evenflow.stories.vectors import Vectors

    _check_texts(corpus, text, "corpus")
    if corpus.isStreaming:
        raise InvalidArgument("corpus is a stream, which has no end: give a batch DataFrame or texts")
    plain = Vectors(features)

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        texts, counts = 0, np.zeros(plain.features, np.int64)
        for batch in batches:
            some, which = plain.frequencies(batch.column(0))
            texts, counts = texts + some, counts + which
        words = np.flatnonzero(counts)
        columns = [np.append(words, TEXTS).astype(np.int32), np.append(counts[words], texts)]
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=["word", "texts"])

    parts = corpus.select(_column(text)).mapInArrow(count, "word int, texts long")
    table = parts.groupBy("word").agg(F.sum("texts").alias("texts")).toArrow()
    words, texts = table["word"].to_numpy(), table["texts"].to_numpy()
    counts = np.zeros(plain.features, np.int64)
    counts[words[words != TEXTS]] = texts[words != TEXTS]
    return Vectors(features, documents=int(texts[words == TEXTS].sum()), counts=counts)


def _makers(text: str, bits: int, features: int, seed: int, corpus: Any) -> tuple[Vectors, Fingerprints]:
    from evenflow.stories.lsh import Fingerprints
    from evenflow.stories.vectors import Vectors

    if corpus is None:
        vectors = Vectors(features)
    elif isinstance(corpus, Vectors):
        vectors = corpus
    elif hasattr(corpus, "mapInArrow"):
        vectors = fit_vectors(corpus, text, features)
    elif isinstance(corpus, Iterable) and not isinstance(corpus, Mapping | bytes):
        vectors = Vectors.fit(corpus, features)
    else:
        raise InvalidArgument(f"corpus={corpus!r}: give a batch DataFrame with the texts, texts, or Vectors")
    return vectors, Fingerprints(bits, vectors.features, seed)


def _stories(vectors: Vectors, prints: Fingerprints) -> Any:
    """A function for Spark: the fingerprint and the vector of each text in a column."""

    def stories(texts: pa.Array) -> pa.Array:
        found = vectors.of(texts)
        columns = [pa.array(prints.of(found)), found.to_arrow()]
        return pa.StructArray.from_arrays(columns, names=[FINGERPRINT, "vector"])

    # Spark warns if the kind of function is given, but its type hints require it.
    return arrow_udf(stories, f"{FINGERPRINT} int, vector binary")  # type: ignore[call-overload]


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _check_cluster(cluster: object) -> None:
    from evenflow.runtime.cluster.cluster import Cluster

    if not isinstance(cluster, Cluster):
        raise InvalidArgument(f"cluster={cluster!r}: give a Cluster")


def _check_free(df: DataFrame, *added: str) -> None:
    """Refuse a df that already has a column that is to be added, in upper or lower case: to Spark they are one."""
    for column in df.columns:
        if column.lower() in added:
            raise InvalidArgument(f"column '{column.lower()}' is added, and df has '{column}' already: rename that")


def _check_texts(df: DataFrame, text: str, what: str = "df") -> None:
    check_dataframe(df)
    if not isinstance(text, str):
        raise InvalidArgument(f"text={text!r}: give the name of a column")
    if df.columns.count(text) != 1:
        wrong = "more than one column" if df.columns.count(text) > 1 else "no column"
        raise InvalidArgument(f"{what} has {wrong} {text!r}; there are: {', '.join(df.columns)}")
    kind = df.schema[text].dataType
    if not isinstance(kind, StringType):
        raise InvalidArgument(f"column '{text}' of {what} is {kind.simpleString()}: give texts, or cast it to string")
