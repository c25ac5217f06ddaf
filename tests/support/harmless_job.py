"""A PySpark script that does the same work under one configuration after the other, in one JVM.

Its arguments are a folder and a JSON object of situations. Each prints what it found under its own heading, on
stdout; on stderr the heading separates the log, and the time that stopping took follows.
"""

from __future__ import annotations

SOURCE = """
    import json, os, resource, sys, time
    from functools import reduce
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col

    folder, situations = sys.argv[1], json.loads(sys.argv[2])
    afterwards = []

    def attempt(action):
        try:
            print(action())
        except Exception as error:
            print(type(error).__name__)

    def ordinary(spark):
        rows = "(1, 'ann', 2.5D), (2, 'bob', 1.0D), (3, 'ann', 4.0D)"
        orders = spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, who, amount)")
        orders.write.mode("overwrite").parquet(f"{folder}/orders")
        totals = spark.read.parquet(f"{folder}/orders").groupBy("who").sum("amount").orderBy("who")
        attempt(lambda: totals.collect())
        attempt(lambda: spark.table("there_is_none"))
        attempt(lambda: spark.range(2).selectExpr("raise_error('boom')").collect())

    # What a full disk does to a spool, where no small one can be mounted.
    def ordinary_in_small_files(spark):
        limited = (spark._jvm.java.lang.ProcessHandle.current().pid(), resource.RLIMIT_FSIZE)
        before = resource.prlimit(*limited)
        resource.prlimit(*limited, (4096, before[1]))
        afterwards.append(lambda: resource.prlimit(*limited, before))
        ordinary(spark)

    def union(frames):
        # As a tree: Spark itself walks plans by recursion.
        while len(frames) > 1:
            frames = [reduce(lambda a, b: a.unionAll(b), frames[i : i + 2]) for i in range(0, len(frames), 2)]
        return frames[0]

    # A limit of nothing spares Spark the run; the agent gets the whole plan.
    def write_nothing_of(spark, frame, name):
        frame.limit(0).write.mode("overwrite").parquet(f"{folder}/out/{name}")
        return len(spark.read.parquet(f"{folder}/out/{name}").columns)

    def of_new_nodes(spark, frame):
        # Frames share the nodes they were made of; a copy of the whole plan shares none.
        datasets = spark._jvm
        for part in frame._jdf.getClass().getName().split("."):
            datasets = getattr(datasets, part)
        return type(frame)(datasets.ofRows(spark._jsparkSession, frame._jdf.logicalPlan().clone()), spark)

    def many_nodes(spark):
        spark.range(3).write.mode("overwrite").parquet(f"{folder}/three")
        frame = spark.read.parquet(f"{folder}/three")
        for number in range(9):
            frame = frame.filter(col("id") >= number - 9)
        frame = of_new_nodes(spark, union([frame] * 1000))
        attempt(lambda: write_nothing_of(spark, frame, "many_nodes"))

    def many_columns(spark):
        spark.range(3).write.mode("overwrite").parquet(f"{folder}/three")
        wide = spark.read.parquet(f"{folder}/three").select(*[(col("id") + n).alias(f"c{n}") for n in range(5000)])
        attempt(lambda: write_nothing_of(spark, wide, "many_columns"))

    def many_inputs(spark):
        spark.range(3).write.mode("overwrite").parquet(f"{folder}/inputs/0")
        three = spark.read.parquet(f"{folder}/inputs/0")
        names = [f"{folder}/inputs/{number}" for number in range(1000)]
        for name in names:
            os.makedirs(name, exist_ok=True)
        frames = [three] + [spark.read.schema(three.schema).parquet(name) for name in names[1:]]
        attempt(lambda: write_nothing_of(spark, union(frames), "many_inputs"))

    def throwing(spark):
        compile_provider(spark)
        for kind in ("exception", "linkage", "overflow"):
            attempt(lambda: spark.read.format("Throwing").option("kind", kind).load().count())

    def compile_provider(spark):
        thread = spark._jvm.java.lang.Thread.currentThread()
        compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(thread.getContextClassLoader())
        compiler.cook(PROVIDER)
        thread.setContextClassLoader(compiler.getClassLoader())

    PROVIDER = '''
        import org.apache.spark.sql.SQLContext;
        import org.apache.spark.sql.sources.*;
        import org.apache.spark.sql.types.StructType;

        public class Throwing implements RelationProvider {
          public BaseRelation createRelation(SQLContext context, scala.collection.immutable.Map options) {
            return new Relation(context, (String) options.apply("kind"));
          }

          public static class Relation extends BaseRelation implements TableScan {
            private final SQLContext context;
            private final String kind;

            public Relation(SQLContext context, String kind) { this.context = context; this.kind = kind; }

            public SQLContext sqlContext() { return context; }
            public StructType schema() { fail(); return new StructType().add("id", "long"); }
            public long sizeInBytes() { fail(); return 10L; }
            public String toString() { fail(); return "throwing"; }
            public int hashCode() { fail(); return 1; }
            public boolean equals(Object other) { fail(); return this == other; }
            public org.apache.spark.rdd.RDD buildScan() { return context.sparkSession().range(3L).toDF().rdd(); }

            private void fail() {
              if (!Thread.currentThread().getName().startsWith("headgate")) return;
              if (kind.equals("linkage")) throw new NoSuchMethodError("not in this version");
              if (kind.equals("overflow")) throw new StackOverflowError();
              throw new IllegalStateException("no plan for you");
            }
          }
        }
    '''

    for name, (work, conf) in situations.items():
        print(f"== {name}", flush=True)
        print(f"== {name}", file=sys.stderr, flush=True)
        builder = SparkSession.builder.appName("harmless")
        for key, value in conf.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        log4j = spark._jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel("headgate", log4j.Level.INFO)
        globals()[work](spark)
        began = time.monotonic()
        spark.stop()
        while afterwards:
            afterwards.pop()()
        print(f"stopped in {time.monotonic() - began:.3f} s", file=sys.stderr, flush=True)
"""
