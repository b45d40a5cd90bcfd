import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { secondsFound, tallyFrames } from "./frameTally.ts"
import { type Measurement, unreadable } from "./Measurement.ts"

/** Bytes that may lie before the first frame, tags not counted. */
const MAX_LEADING_GARBAGE = 65_536

/** Bytes that are no frames and may lie in a file besides as many bytes of frames: pictures in tags at its end. */
const MAX_GARBAGE = 262_144

/**
 * Length of an MP3: its whole frames, counted. What a Xing header says is not asked: it stays the same when the file is
 * cut, and anybody can write it. AAC frames among them count too: which of both a decoder takes is its guess.
 */
export function* mp3Duration(cursor: ByteCursor): Scan<Measurement> {
  yield* skipTags(cursor)
  const tally = yield* tallyFrames(cursor, Infinity, MAX_LEADING_GARBAGE)
  if (tally.mpeg.frames === 0) return unreadable("mp3: no frames")
  const frameBytes = tally.mpeg.frameBytes + tally.adts.frameBytes
  // A file of another kind, with a few frames in it for us to find.
  if (tally.bytes - frameBytes > frameBytes + MAX_GARBAGE) return unreadable("mp3: hardly any frames")
  return { seconds: secondsFound(tally, "mpeg") + secondsFound(tally, "adts") }
}

/** ID3v2 tags lie before the audio, one after the other. What is not quite a tag is none for a decoder either, and not skipped. */
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
