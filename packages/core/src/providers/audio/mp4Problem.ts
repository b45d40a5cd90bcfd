import { boxAt, startsWith } from "../../media/index.ts"
import { MAX_PIECES } from "./pieces.ts"

/** Boxes whose children are checked: the path to a track's type. */
const entered = new Set(["moov", "trak", "mdia"])

/**
 * Returns what is wrong with an MP4; `undefined` if all boxes are complete and include a movie with an audio track, and its
 * media.
 */
export const mp4Problem = (data: Uint8Array): string | undefined => {
  const seen = { movie: false, sound: false, media: false, fragment: false }
  let at = 0
  for (let boxes = 0; at < data.length; boxes++) {
    if (boxes === MAX_PIECES) return `it has more than ${MAX_PIECES} boxes`
    const box = boxAt(data, at, data.length)
    if (box === undefined || box.end > data.length) return "its last box is cut short"
    if (box.type === "moov") seen.movie = true
    if (box.type === "hdlr" && seen.movie) seen.sound ||= startsWith(data, box.body + 8, "soun")
    // The description of a fragment: its media follow.
    if (box.type === "moof") seen.fragment = true
    if (box.type === "mdat") {
      seen.media ||= box.end > box.body
      seen.fragment = false
    }
    at = entered.has(box.type) ? box.body : box.end
  }
  if (!seen.sound) return "it has no audio track"
  return seen.media && !seen.fragment ? undefined : "its media data is missing"
}
