import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Row, SQLContext, SaveMode}
import org.apache.spark.sql.sources.{BaseRelation, CreatableRelationProvider, RelationProvider, TableScan}
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}

/** Connectors that connect to nothing: they have the class names and keep their options where the real ones do. */
package stubs {
  final case class MergedParameters(parameters: Map[String, String])

  abstract class Relation(context: SQLContext) extends BaseRelation with TableScan {
    override def sqlContext: SQLContext = context
    override def schema: StructType = new StructType().add("id", IntegerType).add("name", StringType)
    override def buildScan(): RDD[Row] = context.sparkContext.emptyRDD[Row]
  }

  abstract class Source extends RelationProvider with CreatableRelationProvider {
    def relation(context: SQLContext, options: Map[String, String]): BaseRelation
    override def createRelation(context: SQLContext, options: Map[String, String]): BaseRelation =
      relation(context, options)
    override def createRelation(
        context: SQLContext, mode: SaveMode, options: Map[String, String], data: DataFrame): BaseRelation = {
      data.foreachPartition((rows: Iterator[Row]) => rows.foreach(_ => ()))
      relation(context, options)
    }
  }
}

package net.snowflake.spark.snowflake {
  final case class SnowflakeRelation(params: stubs.MergedParameters, context: SQLContext) extends stubs.Relation(context)

  class DefaultSource extends stubs.Source {
    override def relation(context: SQLContext, options: Map[String, String]): BaseRelation =
      SnowflakeRelation(stubs.MergedParameters(options), context)
  }
}

package io.github.spark_redshift_community.spark.redshift {
  final case class RedshiftRelation(params: stubs.MergedParameters, context: SQLContext) extends stubs.Relation(context)

  class DefaultSource extends stubs.Source {
    override def relation(context: SQLContext, options: Map[String, String]): BaseRelation =
      RedshiftRelation(stubs.MergedParameters(options), context)
  }
}

package com.google.cloud.spark.bigquery {
  package direct {
    class DirectBigQueryRelation(table: String, context: SQLContext) extends stubs.Relation(context) {
      def getTableName: String = table
    }
  }

  class BigQueryRelationProvider extends stubs.Source {
    override def relation(context: SQLContext, options: Map[String, String]): BaseRelation =
      new direct.DirectBigQueryRelation(options.getOrElse("table", options("path")), context)
  }
}

package broken {
  class DefaultSource extends stubs.Source {
    override def relation(context: SQLContext, options: Map[String, String]): BaseRelation =
      new stubs.Relation(context) { def options: Map[String, String] = sys.error("it cannot say") }
  }
}
