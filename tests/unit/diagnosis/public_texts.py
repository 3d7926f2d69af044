"""Texts of failed streams as people post them, shortened to the wording that tells the reason; ids, hosts and paths are
made up. One a version and a way to get at the text: a driver's log, a traceback, an error of py4j, a line of JSON."""

from dataclasses import dataclass
from typing import Final

QUERY: Final = "5b2f0a1c-9d3e-4f7a-8b6c-1e2d3c4b5a69"
RUN: Final = "c0ffee00-1111-4222-8333-444455556666"
IDS: Final = f"[id = {QUERY}, runId = {RUN}]"
STREAM: Final = "org.apache.spark.sql.execution.streaming"


@dataclass(frozen=True)
class Public:
    """`version`: of Spark (or its connector) whose wording it is. `strategies`: of the advice, in its order."""

    version: str
    text: str
    condition: str
    strategies: tuple[str, ...] = ()
    names_query: bool = True


OLD_TASK = """\
21/03/04 05:06:07 ERROR MicroBatchExecution: Query prices {ids} terminated with error
org.apache.spark.SparkException: Writing job aborted.
\tat org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec.doExecute(WriteToDataSourceV2Exec.scala:92)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 9.0 failed 4 times, \
most recent failure: Lost task 3.3 in stage 9.0 (TID 71, node-7, executor 2): {reason}
\tat org.apache.spark.scheduler.Task.run(Task.scala:121)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1925)
Caused by: {reason}
\tat org.apache.spark.scheduler.Task.run(Task.scala:121)
\t... 1 more
21/03/04 05:06:08 INFO SparkContext: Invoking stop() from shutdown hook
21/03/04 05:06:08 ERROR Utils: Uncaught exception in thread shutdown-hook-0
java.util.concurrent.RejectedExecutionException: Task rejected
\tat java.util.concurrent.ThreadPoolExecutor.execute(ThreadPoolExecutor.java:1379)
"""
CAPTURED = """\
Traceback (most recent call last):
  File "/opt/app/job.py", line 44, in <module>
    query.awaitTermination()
  File "/opt/spark/python/pyspark/sql/streaming/query.py", line 219, in awaitTermination
pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query {ids} terminated with exception: \
{reason}
"""

TEXTS: Final = {
    "two runs on one checkpoint": Public(
        "2.4",
        f"""\
org.apache.spark.sql.streaming.StreamingQueryException: assertion failed: Concurrent update to the log. Multiple \
streaming jobs detected for 1470
=== Streaming Query ===
Identifier: {IDS}
Current State: ACTIVE
\tat {STREAM}.StreamExecution.runStream(StreamExecution.scala:295)
Caused by: java.lang.AssertionError: assertion failed: Concurrent update to the log. Multiple streaming jobs detected \
for 1470
\tat scala.Predef$.assert(Predef.scala:170)
""",
        "CONCURRENT_STREAM_LOG_UPDATE",
    ),
    "two runs, as it is worded since 3.0": Public(
        "3.0",
        f"""\
py4j.protocol.Py4JJavaError: An error occurred while calling o55.awaitTermination.
: org.apache.spark.sql.streaming.StreamingQueryException: Multiple streaming queries are concurrently using \
hdfs://nn/ck/clicks/offsets
=== Streaming Query ===
Identifier: clicks {IDS}
\tat {STREAM}.StreamExecution.runStream(StreamExecution.scala:356)
""",
        "CONCURRENT_STREAM_LOG_UPDATE",
    ),
    "a topic that was made again": Public(
        "2.4",
        f"""\
19/08/01 10:11:12 ERROR MicroBatchExecution: Query {IDS} terminated with error
java.lang.IllegalStateException: Partition readings-0's offset was changed from 500 to 300, some data may have been \
missed.
Some data may have been lost because they are not available in Kafka any more; either the
 data was aged out by Kafka or the topic may have been deleted before all the data in the
 topic was processed.
\tat org.apache.spark.sql.kafka010.KafkaMicroBatchReader.reportDataLoss(KafkaMicroBatchReader.scala:281)
""",
        "KAFKA_DATA_LOSS",
    ),
    "the same, first line only": Public(
        "3.5",
        CAPTURED.format(
            ids=IDS,
            reason="Partition readings-0's offset was changed from 500 to 300, some data may have been missed.",
        ),
        "KAFKA_DATA_LOSS",
    ),
    "records that aged out": Public(
        "2.4",
        OLD_TASK.format(
            ids=IDS,
            reason="org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Offsets out of range with no "
            "configured reset policy for partitions: {wind-2=161803385}",
        ),
        "KAFKA_DATA_LOSS",
    ),
    "brokers that do not answer": Public(
        "3.5",
        CAPTURED.format(
            ids=IDS,
            reason="org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: "
            "describeTopics",
        ),
        "kafka-away",
    ),
    "a state file that is gone": Public(
        "3.3",
        OLD_TASK.format(
            ids=IDS,
            reason="java.lang.IllegalStateException: Error reading delta file s3a://b/ck/state/0/7/1.delta of "
            "HDFSStateStoreProvider[id = (op=0,part=7),dir = s3a://b/ck/state/0/7]: s3a://b/ck/state/0/7/1.delta does "
            "not exist",
        ),
        "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS",
    ),
    "RocksDB held by an earlier task": Public(
        "3.3",
        OLD_TASK.format(
            ids=IDS,
            reason="java.lang.IllegalStateException: StateStoreId(opId=0,partId=7,name=default): RocksDB instance "
            "could not be acquired by [ThreadId: Some(50), task: partition 7.1 in stage 133.1, TID 700] as it was not "
            "released by [ThreadId: Some(49)] after 60009 ms.",
        ),
        "CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR",
    ),
    "a distinct over columns that evolve": Public(
        "3.4",
        CAPTURED.format(
            ids=IDS,
            reason="Provided schema doesn't match to the schema for existing state! Please note that Spark allow "
            "difference of field name: check count of fields and data type of each field.",
        ),
        "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        ("revert", "rewind", "prime", "full-refresh"),
    ),
    "a key of dropDuplicates that was widened": Public(
        "4.0",
        f"""\
{{"ts":"2026-02-03T04:05:06.789Z","level":"ERROR","msg":"Query {IDS} terminated with error","logger":\
"MicroBatchExecution","exception":{{"class":"{STREAM}.state.StateStoreKeySchemaNotCompatible","msg":\
"[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema. SQLSTATE: \
42K06","stacktrace":[{{"class":"X","method":"y","file":"X.scala","line":1}}]}}}}
""",
        "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        ("revert", "rewind", "prime", "full-refresh"),
    ),
    "a step that was taken out": Public(
        "4.2",
        CAPTURED.format(
            ids=IDS,
            reason="[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does "
            "not match with the operator in state metadata.\nStateful operators in the metadata: [(OperatorId: 0 -> "
            "OperatorName: dedupe)]; Stateful operators in current batch: []. SQLSTATE: 42K03",
        ),
        "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        ("continue", "revert", "full-refresh"),
    ),
    "a source that was added": Public(
        "3.1",
        f"""\
Exception in thread "main" org.apache.spark.sql.streaming.StreamingQueryException: There are [1] sources in the \
checkpoint offsets and now there are [2] sources requested by the query. Cannot continue.
=== Streaming Query ===
Identifier: joined {IDS}
\tat {STREAM}.StreamExecution.runStream(StreamExecution.scala:325)
Caused by: java.lang.AssertionError: assertion failed: There are [1] sources in the checkpoint offsets and now there \
are [2] sources requested by the query. Cannot continue.
\tat scala.Predef$.assert(Predef.scala:223)
""",
        "source-count-changed",
        ("revert", "continue"),
    ),
    "a table's log of batches that was deleted": Public(
        "2.4",
        f"""\
21/03/07 08:09:10 ERROR MicroBatchExecution: Query {IDS} terminated with error
org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.execution.datasources.FileFormatWriter$.write(FileFormatWriter.scala:231)
Caused by: java.lang.IllegalStateException: /tmp/destination/_spark_metadata/0 doesn't exist when compacting batch 9 \
(compactInterval: 10)
\tat {STREAM}.CompactibleFileStreamLog.compact(CompactibleFileStreamLog.scala:187)
""",
        "sink-log-gap",
    ),
    "a Delta source whose rows were changed": Public(
        "Delta 2.4",
        CAPTURED.format(
            ids=IDS,
            reason="[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update (for example part-00000.parquet) in the "
            "source table at version 1. This is currently not supported.",
        ),
        "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    ),
    "the same, before it had a name": Public(
        "Delta 0.8",
        OLD_TASK.format(
            ids=IDS,
            reason="java.lang.UnsupportedOperationException: Detected a data update (for example part-0.parquet) in "
            "the source table at version 3. This is currently not supported.",
        ),
        "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    ),
    "a Delta source that is another table now": Public(
        "Delta 3.2",
        CAPTURED.format(
            ids=IDS,
            reason="[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading from an "
            "unexpected Delta table (id = 'a'). It used to read from another Delta table (id = 'b') according to "
            "checkpoint.",
        ),
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    ),
    "a Delta log that was cleaned": Public(
        "Delta 1.0",
        "java.lang.IllegalStateException: The stream from your Delta table was expecting process data from version 12, "
        "\nbut the earliest available version in the _delta_log directory is 40. The files\nin the transaction log may "
        "have been deleted due to log cleanup.\n\tat org.apache.spark.sql.delta.DeltaSource.x(DeltaSource.scala:1)\n",
        "DELTA_SOURCE_CLEANED",
        names_query=False,
    ),
    "an input file that is gone": Public(
        "3.3",
        OLD_TASK.format(
            ids=IDS,
            reason="java.io.FileNotFoundException: \nFile file:/in/a.json does not exist\n\nIt is possible the "
            "underlying files have been updated. You can explicitly invalidate the cache in Spark",
        ),
        "input-file-gone",
    ),
    "a batch that is not in the log": Public(
        "3.2",
        f"""\
22/01/02 03:04:05 ERROR MicroBatchExecution: Query {IDS} terminated with error
java.lang.IllegalStateException: batch 9 doesn't exist
\tat {STREAM}.HDFSMetadataLog.verifyBatchIds(HDFSMetadataLog.scala:325)
""",
        "batch-missing",
    ),
    "a function over rows that divides by zero": Public(
        "3.5",
        f"""\
24/05/06 07:08:09 ERROR MicroBatchExecution: Query {IDS} terminated with error
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 0.0 (TID 0) (host executor driver): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "/opt/app/job.py", line 12, in ratio
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:559)
""",
        "PROGRAM_CODE_FAILED",
    ),
    "a connector that was not given": Public(
        "3.4",
        "pyspark.sql.utils.AnalysisException: Failed to find data source: kafka. Please deploy the application as per "
        'the deployment section of "Structured Streaming + Kafka Integration Guide".',
        "DATA_SOURCE_NOT_FOUND",
        names_query=False,
    ),
    "executors that were killed for their memory": Public(
        "2.4",
        OLD_TASK.format(
            ids=IDS,
            reason="ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Container "
            "killed by YARN for exceeding memory limits. 5.6 GB of 5.5 GB physical memory used.",
        ),
        "out-of-memory",
    ),
}
