"""Realistic messages: Spark's own templates where its jar has them, else as they were seen or are documented."""

import json
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from recovery.contracts.diagnosis import ChainedError

OUTER = (
    "[STREAM_FAILED] Query [id = 1d2f5a8c-7f2e-4b55-9a0e-3f4f3d1c2b1a, runId = 0c9d8e7f-1a2b-4c3d-8e9f-0a1b2c3d4e5f] "
    "terminated with exception: {inner} SQLSTATE: XXKST"
)
INCIDENT = (
    "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match with "
    "the operator in state metadata. This likely to happen when user adds/removes/changes stateful operator of "
    "existing streaming query.\n"
    "Stateful operators in the metadata: [(OperatorId: 0 -> OperatorName: dedupe)]; "
    "Stateful operators in current batch: []. SQLSTATE: 42K03"
)

# For each row that has texts: messages without any condition, and the row they belong to.
PLAIN: list[tuple[str, str, str]] = [
    ("query-not-begun", "QueryNotBegun",
     "Application orders (local-2) ended at 22 Nov 2026, 20:41:30 UTC, before this query began."),
    ("PIPELINE_CYCLE", "org.apache.spark.sql.pipelines.graph.CircularDependencyException",
     "The downstream table 'a' is part of a circular dependency with its upstream dataset 'b'."),
    ("PIPELINE_NO_COMPUTE", "PipelineException", "Quota exceeded: no more instances in this region."),
    ("PIPELINE_NO_COMPUTE", "PipelineException", "The cluster could not be launched."),
    ("PIPELINE_NO_COMPUTE", "PipelineException", "The cluster 0123 was terminated by the cloud provider."),
    ("PIPELINE_NO_COMPUTE", "PipelineException", "There is insufficient capacity in this zone."),
    ("PIPELINE_NO_COMPUTE", "PipelineException", "No process could be started for this update: fork failed."),
    ("PIPELINE_NO_COMPUTE", "PipelineException", "Spark's JVM no longer answers. This update ended with it."),
    ("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA", "org.apache.spark.SparkRuntimeException",
     "Streaming stateful operator name does not match with the operator in state metadata. This is likely to happen "
     "when a user adds/removes/changes stateful operators of existing streaming query."),
    ("source-count-changed", "java.lang.AssertionError",
     "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2] sources requested by the "
     "query. Cannot continue."),
    ("source-path-changed", "java.lang.IllegalArgumentException",
     "Wrong basePath file:/in/a for the root path: file:/in/b/1.json"),
    ("source-kind-changed", "java.lang.NumberFormatException", 'For input string: "{"path":"file:///in/1.json"}"'),
    ("source-kind-changed", "org.json4s.MappingException", "No usable value for path\nDid not find value"),
    ("STREAMING_QUERY_EVOLUTION_ERROR", "java.lang.AssertionError",
     "assertion failed: All sources should be named at this point"),
    ("broken-json", "com.fasterxml.jackson.databind.exc.MismatchedInputException",
     'No content to map due to end-of-input\n at [Source: REDACTED; line: 1, column: 0]'),
    ("broken-json", "com.fasterxml.jackson.core.JsonParseException", "Unrecognized token 'garbage'"),
    ("broken-json", "com.fasterxml.jackson.core.io.JsonEOFException",
     "Unexpected end-of-input: expected close marker"),
    ("STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY", "java.lang.AssertionError", "assertion failed"),
    ("STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY", "org.apache.spark.SparkException",
     "The checkpoint location file:/c should be empty on batch 0"),
    ("incomplete-log-file", "java.lang.IllegalStateException",
     "Failed to read log file file:/c/offsets/2. Incomplete log file"),
    ("incomplete-log-file", "java.lang.IllegalStateException", "Incomplete log file in the offset commit log"),
    ("sink-log-gap", "java.io.FileNotFoundException",
     "file:/warehouse/orders/_spark_metadata/0 doesn't exist (latestId: 1, compactInterval: 10)"),
    ("sink-race", "java.lang.IllegalStateException",
     "Race while writing batch 0 to the file sink metadata log file:/t/_spark_metadata; another writer was first"),
    ("source-log-gap", "java.io.FileNotFoundException",
     "file:/c/sources/0/1 doesn't exist (latestId: 2, compactInterval: 10)"),
    ("batch-missing", "java.lang.IllegalStateException", "batch 1 doesn't exist"),
    ("batch-missing", "java.lang.IllegalStateException", "batches (3, 4) don't exist (startId: 1, endId: 4)"),
    ("batch-missing", "java.lang.IllegalArgumentException",
     "requirement failed: Previous batch 9 not found in offset log"),
    ("CONCURRENT_STREAM_LOG_UPDATE", "java.util.ConcurrentModificationException",
     "Multiple streaming queries are concurrently using file:/c/offsets"),
    ("CONCURRENT_STREAM_LOG_UPDATE", "java.lang.AssertionError",
     "assertion failed: Concurrent update to the log. Multiple streaming jobs detected for 3"),
    ("CONCURRENT_STREAM_LOG_UPDATE", "org.apache.spark.SparkException", "[_LEGACY_ERROR_TEMP_2207] x"),
    *(("CANNOT_LOAD_CHECKPOINT_FILE_MANAGER", "org.apache.spark.SparkException", f"[_LEGACY_ERROR_TEMP_{n}] x")
      for n in (1298, 1299, 2200, 2263)),
    ("KAFKA_DATA_LOSS", "java.lang.IllegalStateException",
     "Partition orders-0's offset was changed from 500 to 0, some data may have been lost."),
    ("KAFKA_DATA_LOSS", "java.lang.IllegalStateException", "Partitions Set(orders-1) have been deleted"),
    ("KAFKA_DATA_LOSS", "java.lang.IllegalStateException", "Partitions Set(orders-1) are gone"),
    ("KAFKA_DATA_LOSS", "java.lang.IllegalStateException", "Cannot find earliest offsets of Set(orders-1)"),
    ("KAFKA_DATA_LOSS", "java.util.concurrent.TimeoutException", "Cannot fetch records in interval [3, 9)"),
    ("KAFKA_DATA_LOSS", "java.lang.IllegalStateException", "Cannot fetch offset 7 from Kafka"),
    ("KAFKA_DATA_LOSS", "org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
     "Fetch position is out of range"),
    ("KAFKA_OPTION", "java.lang.AssertionError",
     "assertion failed: If startingOffsets contains specific offsets, you must specify all TopicPartitions.\n"
     "Use -1 for latest, -2 for earliest.\nSpecified: Set(orders-0) Assigned: Set(orders-0, orders-1)"),
    ("DELTA_INVALID_SOURCE_OFFSET", "java.lang.IllegalStateException",
     "Found invalid offsets: 'reservoirVersion' moved back"),
    ("iceberg-snapshot-expired", "java.lang.IllegalStateException",
     "Cannot load current offset at snapshot 42, the snapshot was expired or removed"),
    ("iceberg-snapshot-kind", "java.lang.IllegalStateException",
     "Cannot process delete snapshot: 42, to ignore deletes, set streaming-skip-delete-snapshots=true"),
    ("iceberg-snapshot-kind", "java.lang.IllegalStateException", "Cannot process overwrite snapshot: 42, to ignore"),
    ("pipeline-sources-changed", "org.apache.spark.sql.pipelines.graph.StreamingSourcesChanged",
     "Flow 'a.b.c' had streaming sources added or removed. Please perform a full refresh"),
    ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "StateSchemaNotCompatible",
     "Provided schema doesn't match to the schema for existing state! Please note that Spark allow difference of name"),
    ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "StateStoreKeySchemaNotCompatible",
     "Provided key schema does not match existing state key schema."),
    ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "StateStoreValueSchemaNotCompatible",
     "Provided value schema does not match existing state value schema."),
    ("CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS", "java.lang.IllegalStateException",
     "Error reading delta file file:/c/state/0/7/1.delta of HDFSStateStoreProvider[x]: it does not exist"),
    ("CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS", "org.apache.spark.SparkException",
     "Error reading streaming state file of HDFSStateStoreProvider[x] does not exist. If the stream job is restarted"),
    ("CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS", "java.io.FileNotFoundException",
     "No such file or directory: s3a://b/c/state/0/7/1.delta"),
    ("CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS", "java.io.FileNotFoundException",
     "File does not exist: /c/state/0/7/1.delta"),
    ("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", "java.io.IOException",
     "Error reading delta file file:/c/state/0/7/1.delta of x: key size cannot be -2"),
    ("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", "java.io.IOException",
     "Error reading snapshot file file:/c/state/0/7/1.snapshot of x: value size cannot be -2"),
    ("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", "java.lang.IllegalStateException",
     "Copied file a.zip does not match with the expected size 9 of the state, got 3"),
    ("CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR", "java.lang.IllegalStateException",
     "StateStoreId(opId=0,partId=7,name=default): RocksDB instance could not be acquired by [ThreadId: Some(50)]"),
    ("KAFKA_DATA_LOSS", "java.lang.IllegalStateException",
     "Partition orders-0's offset was changed from 500 to 0, some data may have been missed."),
    ("DELTA_SOURCE_CLEANED", "java.lang.IllegalStateException",
     "but the earliest available version in the _delta_log directory is 40."),
    ("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", "java.lang.IllegalStateException",
     "The streaming query was reading from an unexpected Delta table (id = 'a')."),
    ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "java.lang.UnsupportedOperationException",
     "Detected a data update (for example part-0.parquet) in the source table at version 3."),
    ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "java.lang.UnsupportedOperationException",
     "Detected deleted data (for example part-0.parquet) from streaming source at version 3."),
    ("input-file-gone", "java.io.FileNotFoundException", "It is possible the underlying files have been updated."),
    ("kafka-away", "org.apache.kafka.common.errors.TimeoutException",
     "Timed out waiting for a node assignment. Call: describeTopics"),
    ("kafka-away", "org.apache.kafka.common.errors.TimeoutException",
     "Timeout of 60000ms expired before the position for partition a-0 could be determined"),
    ("kafka-away", "org.apache.kafka.common.errors.TimeoutException", "Timeout expired while fetching topic metadata"),
    ("kafka-away", "org.apache.kafka.common.config.ConfigException",
     "No resolvable bootstrap urls given in bootstrap.servers"),
    ("kafka-away", "org.apache.kafka.common.errors.UnknownTopicOrPartitionException",
     "This server does not host this topic-partition."),
    ("kafka-away", "org.apache.kafka.common.errors.SaslAuthenticationException", "Authentication failed"),
    ("kafka-away", "org.apache.kafka.common.errors.TopicAuthorizationException", "Not authorized to access: [a]"),
    ("kafka-away", "org.apache.kafka.common.errors.GroupAuthorizationException", "Not authorized to access group: a"),
    ("DATA_SOURCE_NOT_FOUND", "org.apache.spark.sql.AnalysisException", "Failed to find data source: kafka."),
    ("UNKNOWN_FIELD_EXCEPTION", "com.databricks.sql.transaction.tahoe.UnknownFieldException", "New columns: a"),
    ("out-of-memory", "java.lang.OutOfMemoryError", "Java heap space"),
    ("out-of-memory", "java.lang.Error", "GC overhead limit exceeded"),
    ("out-of-memory", "org.apache.spark.SparkException",
     "ExecutorLostFailure (executor 2 exited) Reason: Container killed by YARN for exceeding memory limits."),
    ("out-of-memory", "org.apache.spark.SparkException",
     "ExecutorLostFailure (executor 2 exited) Reason: The executor exited with exit code 137"),
    ("out-of-memory", "org.apache.spark.SparkException",
     "ExecutorLostFailure (executor 2 exited) Reason: Container from a bad node. Exit status: 137"),
    ("TABLE_NOT_RESETTABLE", "org.apache.spark.SparkException",
     "[INTERNAL_ERROR] Cannot find main error class 'TABLE_NOT_RESETTABLE' SQLSTATE: XX000"),
]  # fmt: skip

# One member of each family that the table names by a pattern and Spark's own list does not hold.
BY_PATTERN = {
    "KAFKA_DATA_LOSS.*": "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
    "MISMATCHED_TOPIC_PARTITIONS_*": "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
    "END_OFFSET_HAS_GREATER_*": "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED",
    "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_*": "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
    "DELTA_STREAMING_SCHEMA_LOG_*": "DELTA_STREAMING_SCHEMA_LOG_PARSE_SCHEMA_FAILED",
    "DELTA_STREAMING_SCHEMA_LOCATION_*": "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT",
    "DELTA_CONCURRENT_TRANSACTION.*": "DELTA_CONCURRENT_TRANSACTION.WITH_TABLE",
    "UNKNOWN_FIELD_EXCEPTION.*": "UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_RECORD_WITH_FILE_PATH",
    "STREAMING_SHUFFLE_*": "STREAMING_SHUFFLE_INITIALIZATION_FAILED",
    "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.*": "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.OFFSET_LOG",
}


@cache
def templates() -> dict[str, str]:
    """Condition -> message template of the Spark that is installed, read from its jar without a JVM."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jar = next((Path(spec.origin).parent / "jars").glob("spark-common-utils_*.jar"))
    with zipfile.ZipFile(jar) as archive:
        raw: dict[str, Any] = json.loads(archive.read("error/error-conditions.json"))
    found: dict[str, str] = {}
    for name, body in raw.items():
        found[name] = " ".join(body["message"])
        for sub, inner in body.get("subClass", {}).items():
            found[f"{name}.{sub}"] = " ".join([*body["message"], *inner["message"]])
    return found


def message_of(condition: str) -> str:
    return f"[{condition}] {templates().get(condition, 'As its documentation words it.')} SQLSTATE: 42000"


def wrapped(message: str, class_name: str = "org.apache.spark.SparkException") -> list[ChainedError]:
    """As a failing flow's event carries it: the wrapper outside, the reason innermost."""
    return [
        ChainedError(
            class_name="org.apache.spark.sql.streaming.StreamingQueryException",
            message=OUTER.format(inner=message),
        ),
        ChainedError(
            class_name="org.apache.spark.SparkException",
            message="Job aborted due to stage failure: Task 0 in stage 4.0 failed 1 times",
        ),
        ChainedError(class_name=class_name, message=message),
    ]
