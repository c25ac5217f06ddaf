package headgate.spark.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.{CatalogPlugin, Identifier, Table}

/** Leaves that only streaming plans have. Their classes move between versions: they are known by their members. */
final class Streams(v2: V2) {

  def of(leaf: LogicalPlan): Read = Reflect.simpleName(leaf) match {
    case "StreamingDataSourceV2ScanRelation" => Reflect.member(leaf, "relation").map(relation).getOrElse(Read())
    case "StreamingDataSourceV2Relation" => relation(leaf)
    case _ => Read()
  }

  private def relation(node: Any): Read =
    Reflect.member(node, "table").collect { case table: Table =>
      val catalog = Reflect.walk(node, "catalog").collect { case one: CatalogPlugin => one }
      val name = Reflect.walk(node, "identifier").collect { case one: Identifier => one }
      val options = Reflect.firstMember(node, "options", "extraOptions").flatMap(Connectors.asOptions)
      v2.of(table, catalog, name, options.getOrElse(Map.empty))
    }.getOrElse(Read())
}
