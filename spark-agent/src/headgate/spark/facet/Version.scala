package headgate.spark.facet

import java.util.Properties

import scala.util.Try

/** The agent's own version, which the build leaves in the jar. */
object Version {
  val agent: String = Try {
    val stream = getClass.getResourceAsStream("/headgate/spark/version.properties")
    try {
      val properties = new Properties
      properties.load(stream)
      properties.getProperty("version")
    } finally stream.close()
  }.toOption.filter(_ != null).getOrElse("0.0.0")
}
