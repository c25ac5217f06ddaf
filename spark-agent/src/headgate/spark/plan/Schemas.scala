package headgate.spark.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.types._

/** Spark's types as the fields of a schema facet. */
object Schemas {

  def of(schema: StructType): Seq[SchemaField] = schema.fields.toSeq.map(field)

  /** The schema of rows written under the names of their target. */
  def of(attributes: Seq[Attribute], names: Seq[String]): Seq[SchemaField] =
    attributes.zip(names).map { case (attribute, name) =>
      field(StructField(name, attribute.dataType, attribute.nullable, attribute.metadata))
    }

  def of(attributes: Seq[Attribute]): Seq[SchemaField] = of(attributes, attributes.map(_.name))

  private def field(column: StructField): SchemaField =
    SchemaField(column.name, typeName(column), column.nullable, column.getComment(), nested(column.dataType))

  // A table keeps char(n) and varchar(n) as strings with a note beside them.
  private def typeName(column: StructField): String =
    if (column.metadata.contains(DeclaredType)) column.metadata.getString(DeclaredType)
    else column.dataType.catalogString

  private val DeclaredType = "__CHAR_VARCHAR_TYPE_STRING"

  private def nested(dataType: DataType): Seq[SchemaField] = dataType match {
    case struct: StructType => of(struct)
    case array: ArrayType if isNested(array.elementType) => Seq(part("_element", array.elementType, array.containsNull))
    case map: MapType if isNested(map.keyType) || isNested(map.valueType) =>
      Seq(part("key", map.keyType, nullable = false), part("value", map.valueType, map.valueContainsNull))
    case _ => Nil
  }

  private def part(name: String, dataType: DataType, nullable: Boolean): SchemaField =
    SchemaField(name, dataType.catalogString, nullable, None, nested(dataType))

  private def isNested(dataType: DataType): Boolean = dataType match {
    case _: StructType | _: ArrayType | _: MapType => true
    case _ => false
  }
}
