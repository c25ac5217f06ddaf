package headgate.spark.transport

import java.io.{ByteArrayOutputStream, IOException, InputStream, OutputStream}
import java.net.{HttpURLConnection, SocketTimeoutException, URL, UnknownHostException}
import java.nio.charset.StandardCharsets.US_ASCII
import java.util.zip.GZIPOutputStream
import scala.util.control.NonFatal

import headgate.spark.Config

/** Posts batches to one server. Java's own client and no other: whatever TLS and proxies the JVM has, hold here too. */
private[transport] final class Http(val base: String, config: Config) {
  import Http._

  private val target = new URL(s"$base/api/v1/lineage/batch")
  @volatile private var current: HttpURLConnection = _

  def post(events: Seq[Array[Byte]]): Answer =
    try exchange(packed(events))
    catch {
      case e: SocketTimeoutException => Answer.Failed(s"gave no answer in time (${told(e)})", 0L, isTimeout = true)
      case e: UnknownHostException => Answer.Failed(s"has a name that is not known (${told(e)})", 0L, isTimeout = false)
      case NonFatal(e) => Answer.Failed(s"could not be reached (${told(e)})", 0L, isTimeout = false)
    }

  /** End an exchange from another thread; it then fails there. */
  def abort(): Unit =
    try Option(current).foreach(_.disconnect())
    catch { case NonFatal(_) => }

  private def exchange(body: Array[Byte]): Answer = {
    val connection = target.openConnection().asInstanceOf[HttpURLConnection]
    current = connection
    try {
      prepare(connection, body.length)
      write(connection.getOutputStream, body)
      val status = connection.getResponseCode
      Answer.of(status, connection.getHeaderField("Retry-After"), content(connection, status))
    } catch {
      case e: Throwable =>
        connection.disconnect()
        throw e
    } finally current = null
  }

  private def prepare(connection: HttpURLConnection, length: Int): Unit = {
    connection.setRequestMethod("POST")
    connection.setConnectTimeout(config.connectTimeoutMs)
    connection.setReadTimeout(config.readTimeoutMs)
    connection.setInstanceFollowRedirects(false) // the key is for this server alone
    connection.setUseCaches(false)
    connection.setDoOutput(true)
    connection.setFixedLengthStreamingMode(length) // otherwise Java itself sends a failed POST again
    connection.setRequestProperty("Content-Type", "application/json")
    connection.setRequestProperty("Content-Encoding", "gzip")
    connection.setRequestProperty("Accept", "application/json")
    connection.setRequestProperty("User-Agent", "headgate-spark")
    config.apiKey.foreach(key => connection.setRequestProperty("Authorization", s"Bearer $key"))
  }

  private def write(out: OutputStream, body: Array[Byte]): Unit =
    try out.write(body)
    finally out.close()

  /** All of the answer, so that the connection can be used again; none of it if it is endless. */
  private def content(connection: HttpURLConnection, status: Int): Array[Byte] = {
    val stream = if (status >= 400) connection.getErrorStream else connection.getInputStream
    if (stream == null) Array.emptyByteArray
    else
      try whole(read(stream, System.nanoTime + config.readTimeoutMs * 1000000L), connection)
      finally stream.close()
  }

  // Java takes an answer that breaks off for one that ends.
  private def whole(body: Array[Byte], connection: HttpURLConnection): Array[Byte] = {
    if (body.length < connection.getContentLengthLong) throw new IOException("the answer breaks off")
    body
  }

  private def read(stream: InputStream, deadline: Long): Array[Byte] = {
    val all = new ByteArrayOutputStream
    val chunk = new Array[Byte](8192)
    var count = stream.read(chunk)
    while (count >= 0) {
      all.write(chunk, 0, count)
      if (all.size > LongestAnswer) throw new IOException("the answer is too long")
      if (System.nanoTime - deadline > 0) throw new SocketTimeoutException("the answer does not end")
      count = stream.read(chunk)
    }
    all.toByteArray
  }

  // One line, and whatever Java says of a header, never the key.
  private def told(e: Throwable): String = {
    val text = s"${e.getClass.getSimpleName}: ${e.getMessage}".takeWhile(c => c != '\n' && c != '\r').take(200)
    config.apiKey.fold(text)(text.replace(_, "***"))
  }
}

private[transport] object Http {
  private val LongestAnswer = 8 * 1024 * 1024

  def packed(events: Seq[Array[Byte]]): Array[Byte] = {
    val bytes = new ByteArrayOutputStream(events.map(_.length).sum / 4 + 256)
    val gzip = new FastGzip(bytes)
    var separator = '['
    events.foreach { event =>
      gzip.write(separator)
      gzip.write(event)
      separator = ','
    }
    gzip.write("]".getBytes(US_ASCII))
    gzip.close()
    bytes.toByteArray
  }

  /** Events repeat themselves so much that more effort saves little. */
  private final class FastGzip(out: OutputStream) extends GZIPOutputStream(out, 8192) {
    `def`.setLevel(java.util.zip.Deflater.BEST_SPEED)
  }
}
