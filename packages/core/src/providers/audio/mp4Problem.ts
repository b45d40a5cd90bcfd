import { fourCharacters, MAX_PIECES, viewOf } from "./bytes.ts"

const Type = {
  moov: fourCharacters("moov"),
  trak: fourCharacters("trak"),
  mdia: fourCharacters("mdia"),
  hdlr: fourCharacters("hdlr"),
  moof: fourCharacters("moof"),
  mdat: fourCharacters("mdat"),
} as const
const sound = fourCharacters("soun")

/** Boxes whose children are checked: the path to a track's type. */
const entered = new Set<number>([Type.moov, Type.trak, Type.mdia])

/**
 * Returns what is wrong with an MP4; `undefined` if all boxes are complete and include a movie with an audio track, and its
 * media.
 */
export const mp4Problem = (data: Uint8Array): string | undefined => {
  const view = viewOf(data)
  const seen = { movie: false, sound: false, media: false, fragment: false }
  let at = 0
  for (let boxes = 0; at < data.length; boxes++) {
    if (boxes === MAX_PIECES) return `it has more than ${MAX_PIECES} boxes`
    const size = sizeAt(view, at)
    if (size === undefined) return "its last box is cut short"
    const type = view.getUint32(at + 4)
    const headBytes = view.getUint32(at) === 1 ? 16 : 8
    if (type === Type.moov) seen.movie = true
    if (type === Type.hdlr && seen.movie && size >= 20) seen.sound ||= view.getUint32(at + headBytes + 8) === sound
    // The description of a fragment: its media follow.
    if (type === Type.moof) seen.fragment = true
    if (type === Type.mdat) {
      seen.media ||= size > headBytes
      seen.fragment = false
    }
    at += entered.has(type) ? headBytes : size
  }
  if (!seen.sound) return "it has no audio track"
  return seen.media && !seen.fragment ? undefined : "its media data is missing"
}

/**
 * Returns the length of the box at `at`, if it is complete. A size of 0 means to the end of the file, 1 means that the size
 * follows.
 */
const sizeAt = (view: DataView, at: number): number | undefined => {
  const present = view.byteLength - at
  const short = present < 8 ? -1 : view.getUint32(at)
  if (short === 0) return present
  if (short === 1) {
    // Above 2^53 it is rounded, which is past any end.
    const long = present < 16 ? 0 : view.getUint32(at + 8) * 2 ** 32 + view.getUint32(at + 12)
    return long >= 16 && long <= present ? long : undefined
  }
  return short >= 8 && short <= present ? short : undefined
}
