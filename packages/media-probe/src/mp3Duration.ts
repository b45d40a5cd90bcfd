import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { secondsFound, tallyFrames } from "./frameTally.ts"
import { type Measurement, unreadable } from "./Measurement.ts"

/** Maximum number of bytes before the first frame, without tags. */
const MAX_LEADING_GARBAGE = 65_536

/** Bytes without frames that a file may hold beyond its bytes of frames, such as pictures in tags at its end. */
const MAX_GARBAGE = 262_144

/**
 * Measures an MP3 by counting its complete frames. The Xing header is ignored: it does not change when the file is
 * truncated, and it can be forged. AAC frames count too, because decoders differ in which of the two they play.
 */
export function* mp3Duration(cursor: ByteCursor): Scan<Measurement> {
  yield* skipTags(cursor)
  const tally = yield* tallyFrames(cursor, Infinity, MAX_LEADING_GARBAGE)
  if (tally.mpeg.frames === 0) return unreadable("mp3: no frames")
  const frameBytes = tally.mpeg.frameBytes + tally.adts.frameBytes
  // A file of another format that contains a few frames.
  if (tally.bytes - frameBytes > frameBytes + MAX_GARBAGE) return unreadable("mp3: too few frames")
  return { seconds: secondsFound(tally, "mpeg") + secondsFound(tally, "adts") }
}

/** Skips the consecutive ID3v2 tags before the audio. Malformed tags are not skipped; decoders do not skip them either. */
function* skipTags(cursor: ByteCursor): Scan<void> {
  while ((yield* cursor.need(10)) && cursor.ascii(0, 3) === "ID3" && cursor.u8(3) !== 0xff && cursor.u8(4) !== 0xff) {
    const hasFooter = (cursor.u8(5) & 0x10) !== 0
    let bytes = 0
    for (let i = 6; i < 10; i++) {
      if (cursor.u8(i) > 0x7f) return
      bytes = bytes * 128 + cursor.u8(i)
    }
    yield* cursor.skip(10 + bytes + (hasFooter ? 10 : 0))
  }
}
