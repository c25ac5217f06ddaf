package headgate.spark.transport

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import scala.util.Try

/** What became of a request with a batch of events. */
private[transport] sealed trait Answer

private[transport] object Answer {

  /** The server has dealt with each event; those named here it did not take. */
  final case class Dealt(refused: Seq[Refused]) extends Answer

  final case class Refused(index: Int, reason: String, isRetriable: Boolean)

  /** The batch as a whole cannot be taken; one of its events, or its size, is the cause. */
  final case class Unfit(reason: String, isTooLarge: Boolean) extends Answer

  /** Nobody there, or it is broken at the moment. */
  final case class Failed(reason: String, retryAfterMs: Long, isTimeout: Boolean) extends Answer

  final case class Held(retryAfterMs: Long) extends Answer

  /** Asking again helps only after somebody changed a setting; `wayOut` says which. */
  final case class Turned(kind: String, wayOut: String) extends Answer

  private val LongestRetryAfterMs = 60000L
  private val json = new ObjectMapper

  def of(status: Int, retryAfter: String, body: Array[Byte]): Answer = status match {
    case 200 | 207 => dealt(body).getOrElse(foreign(s"answered $status without saying what became of the events"))
    case 413 => Unfit(detail(body).getOrElse("it is too large"), isTooLarge = true)
    case 400 | 415 | 422 =>
      dealt(body)
        .orElse(detail(body).map(Unfit(_, isTooLarge = false)))
        .getOrElse(foreign(s"answered $status without a reason"))
    case 401 => Turned("key", "does not know the key; set spark.headgate.apiKey or HEADGATE_API_KEY to a valid one")
    case 403 => Turned("key", "does not let this key send events; give it the scope ingest, or set another key")
    case 429 => Held(pauseMs(retryAfter))
    case _ if status >= 500 => Failed(s"answered $status", pauseMs(retryAfter), isTimeout = false)
    case -1 => foreign("does not speak HTTP")
    case _ => foreign(s"answered $status")
  }

  private def foreign(what: String): Answer =
    Turned("address", s"$what; set spark.headgate.url to the address of a Headgate server")

  private def dealt(body: Array[Byte]): Option[Answer] =
    parsed(body).filter(_.path("summary").isObject).map { answer =>
      val failed = answer.path("failed_events")
      Dealt((0 until failed.size).map(failed.get).map { event =>
        val isRetriable = event.path("retriable").asBoolean(false)
        Refused(event.path("index").asInt(-1), event.path("reason").asText(""), isRetriable)
      })
    }

  private def detail(body: Array[Byte]): Option[String] =
    parsed(body).map(_.path("detail").asText("")).filter(_.nonEmpty)

  private def parsed(body: Array[Byte]): Option[JsonNode] = Try(json.readTree(body)).toOption.filter(_ != null)

  private def pauseMs(retryAfter: String): Long =
    Try(retryAfter.trim.toLong).toOption.map(s => math.min(math.max(s, 0L) * 1000, LongestRetryAfterMs)).getOrElse(0L)
}
