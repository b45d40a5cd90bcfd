import { elementAt, startsWith } from "../../media/index.ts"
import { MAX_PIECES } from "./pieces.ts"

const Id = {
  ebml: 0x1a45dfa3,
  docType: 0x4282,
  segment: 0x18538067,
  tracks: 0x1654ae6b,
  trackEntry: 0xae,
  trackType: 0x83,
  cluster: 0x1f43b675,
  simpleBlock: 0xa3,
  blockGroup: 0xa0,
} as const

/**
 * Elements whose children are checked. The walk enters them, so the end that a live recording states for them does not matter.
 */
const entered = new Set<number>([Id.ebml, Id.segment, Id.tracks, Id.trackEntry, Id.cluster])

/**
 * Returns what is wrong with a WebM; `undefined` if all elements are complete and include an audio track and a block in a
 * cluster.
 */
export const webmProblem = (data: Uint8Array): string | undefined => {
  const seen = { webm: false, sound: false, cluster: false, block: false }
  let at = 0
  for (let elements = 0; at < data.length; elements++) {
    if (elements === MAX_PIECES) return `it has more than ${MAX_PIECES} elements`
    const element = elementAt(data, at, Infinity)
    if (element === undefined) return `no whole element begins at ${at}`
    const { body, id, isUnknown } = element
    const end = isUnknown ? body : element.end
    if (end > data.length) return "its last element is cut short"
    if (isUnknown && !entered.has(id)) return `the element at ${at} has no size`
    if (id === Id.docType) seen.webm = startsWith(data, body, "webm")
    if (id === Id.trackType) seen.sound ||= data[end - 1] === 2
    if (id === Id.cluster) seen.cluster = true
    if (id === Id.simpleBlock || id === Id.blockGroup) seen.block ||= seen.cluster && end > body
    at = entered.has(id) ? body : end
  }
  if (!seen.webm) return "it is Matroska, but not WebM"
  if (!seen.sound) return "it has no audio track"
  return seen.block ? undefined : "it has no audio block"
}
