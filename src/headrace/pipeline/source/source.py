"""`format("headrace")`: the door through which Spark meets the journal."""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from headrace.model.errors import BadConfig
from headrace.pipeline.source.options import Options
from headrace.pipeline.source.reader import JournalReader
from headrace.pipeline.source.schema import SPARK_SCHEMA


class HeadraceSource(DataSource):
    """Reads the journal of a store; the options are those of docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> StructType:
        self._options()
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> JournalReader:
        if schema != SPARK_SCHEMA:
            raise BadConfig("format headrace has columns of its own; leave out .schema(…) and select from them")
        return JournalReader(self._options())

    def _options(self) -> Options:
        # A copy keeps the options' own lookup; dict(…) would not.
        return Options.parse(self.options.copy())  # type: ignore[attr-defined]
