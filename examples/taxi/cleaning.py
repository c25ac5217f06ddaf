"""Steps that are easier to say in Python. Each takes a DataFrame and gives one."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


def with_minutes(df: DataFrame) -> DataFrame:
    """With how long each trip took."""
    seconds = F.unix_timestamp("tpep_dropoff_datetime") - F.unix_timestamp("tpep_pickup_datetime")
    return df.withColumn("minutes", F.round(seconds / 60, 1))
