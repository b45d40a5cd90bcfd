import { readEbmlNumber } from "../../domain/ebmlNumber.ts"
import { MAX_PIECES, startsWith } from "./bytes.ts"

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
    const id = readEbmlNumber(data, at, 4)
    const size = id && readEbmlNumber(data, at + id.bytes)
    if (id === undefined || size === undefined) return `no whole element begins at ${at}`
    const content = at + id.bytes + size.bytes
    const end = size.isUnknown ? content : content + size.value
    if (end > data.length) return "its last element is cut short"
    if (size.isUnknown && !entered.has(id.raw)) return `the element at ${at} has no size`
    if (id.raw === Id.docType) seen.webm = startsWith(data, content, "webm")
    if (id.raw === Id.trackType) seen.sound ||= data[end - 1] === 2
    if (id.raw === Id.cluster) seen.cluster = true
    if (id.raw === Id.simpleBlock || id.raw === Id.blockGroup) seen.block ||= seen.cluster && size.value > 0
    at = entered.has(id.raw) ? content : end
  }
  if (!seen.webm) return "it is Matroska, but not WebM"
  if (!seen.sound) return "it has no audio track"
  return seen.block ? undefined : "it has no audio block"
}
