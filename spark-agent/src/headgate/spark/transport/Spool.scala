package headgate.spark.transport

import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{FileAlreadyExistsException, FileSystems, Files, Path, Paths, StandardOpenOption}
import java.nio.file.attribute.{FileAttribute, PosixFilePermissions}
import java.util.{Collections, EnumSet, UUID}
import scala.util.control.NonFatal

/** Files of undelivered events, one on each line, for `headgate replay`. Whole lines reach the file at once, so a
  * process that is killed leaves what it wrote. They hold SQL: nobody but the job's own user may read them.
  */
private[transport] final class Spool(folder: String, warnings: Warnings) {
  import Spool._

  private lazy val name = uniqueName
  private var channel: FileChannel = _
  private var path: Path = _
  private var number = 0
  private var total = 0L

  /** Append events; how many of them are now in a file. */
  def append(events: Seq[Array[Byte]]): Int = synchronized {
    var written = 0
    try {
      if (events.nonEmpty && total >= LongestSpool) full()
      else events.grouped(Lines).foreach { group =>
        write(group)
        written += group.size
      }
    } catch {
      case NonFatal(e) => warnings.once("spool", s"cannot write to the spool $folder ($e); such events are dropped")
    }
    written
  }

  def close(): Unit = synchronized {
    try if (channel != null) {
      val isEmpty = channel.size == 0
      channel.close()
      if (isEmpty) Files.deleteIfExists(path)
    } catch { case NonFatal(_) => }
    channel = null
  }

  private def full(): Unit =
    warnings.once("spool", s"the spool $folder holds 1 GiB of this application; further events are dropped")

  private def write(events: Seq[Array[Byte]]): Unit = {
    if (!isUsable) open()
    val lines = joined(events)
    val start = channel.position()
    try while (lines.hasRemaining) channel.write(lines)
    catch {
      case e: Throwable =>
        // A full disk takes half a line: nobody could read what follows it.
        if (channel.isOpen) channel.truncate(start)
        throw e
    }
    total += lines.capacity
  }

  // Somebody may have sent the file and removed it.
  private def isUsable: Boolean =
    channel != null && channel.isOpen && channel.position() < LongestFile && Files.exists(path)

  private def open(): Unit = {
    close()
    Files.createDirectories(Paths.get(folder), permissions("rwx------"): _*)
    while (channel == null) {
      number += 1
      path = Paths.get(folder, s"headgate-$name-$number.ndjson")
      try channel = FileChannel.open(path, NewFile, permissions("rw-------"): _*)
      catch { case _: FileAlreadyExistsException => }
    }
  }
}

private[transport] object Spool {
  private val Lines = 500
  private val LongestFile = 64L * 1024 * 1024
  private val LongestSpool = 1024L * 1024 * 1024

  private val NewFile =
    Collections.unmodifiableSet(EnumSet.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE))

  /** A name that no other process has, also on a folder that several machines share; sorted, they are in order. */
  private def uniqueName: String =
    s"${java.lang.Long.toString(System.currentTimeMillis, 36)}-${UUID.randomUUID.toString.take(8)}"

  private def permissions(of: String): Seq[FileAttribute[_]] =
    if (!FileSystems.getDefault.supportedFileAttributeViews.contains("posix")) Nil
    else Seq(PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(of)))

  private def joined(events: Seq[Array[Byte]]): ByteBuffer = {
    val lines = ByteBuffer.allocate(events.map(_.length + 1).sum)
    events.foreach(event => lines.put(oneLine(event)).put('\n'.toByte))
    lines.flip()
    lines
  }

  /** JSON never needs a line break. */
  private def oneLine(event: Array[Byte]): Array[Byte] = {
    var at = 0
    while (at < event.length && !isBreak(event(at))) at += 1
    if (at == event.length) event else event.map(b => if (isBreak(b)) ' '.toByte else b)
  }

  private def isBreak(b: Byte): Boolean = b == '\n' || b == '\r'
}
