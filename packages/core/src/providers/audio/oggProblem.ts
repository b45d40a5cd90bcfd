import { startsWith } from "../../media/index.ts"

const PAGE_HEADER = 27

/** The beginning of each codec's first packet, and the number of packets before the audio. */
const codecs = [
  { begins: "OpusHead", headers: 2 },
  { begins: "\x01vorbis", headers: 3 },
  { begins: "\x7fFLAC", headers: 2 },
]

/** Returns what is wrong with an Ogg file; `undefined` if it has complete pages of Opus, Vorbis or FLAC with an audio packet. */
export const oggProblem = (data: Uint8Array): string | undefined => {
  const codec = codecs.find(({ begins }) => startsWith(data, PAGE_HEADER + (data[26] ?? 0), begins))
  if (codec === undefined) return "its codec is neither Opus nor Vorbis nor FLAC"
  let packets = 0
  let lastSegment = 0
  let at = 0
  while (at < data.length) {
    if (data.length - at >= 5 && !(startsWith(data, at, "OggS") && data[at + 4] === 0)) return `no page begins at ${at}`
    const segments = data[at + 26] ?? 0
    const body = at + PAGE_HEADER + segments
    let end = body
    for (let index = at + PAGE_HEADER; index < body; index++) {
      lastSegment = data[index] ?? 0
      end += lastSegment
      if (lastSegment < 255) packets++
    }
    if (body > data.length || end > data.length) return "its last page is cut short"
    at = end
  }
  // A segment of 255 bytes means that its packet continues.
  if (lastSegment === 255) return "its last packet is cut short"
  return packets > codec.headers ? undefined : "it has no audio packet"
}
