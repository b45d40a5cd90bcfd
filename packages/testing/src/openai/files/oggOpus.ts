import { checksum } from "./checksum.ts"
import { framesIn } from "./frames.ts"

const PACKET_MS = 20
const PACKET_SAMPLES = 960
const PACKETS_PER_PAGE = 50
const pageCheck = checksum(32, 0x04c1_1db7)

/** 20 ms of silence in CELT, full band. */
const silence = Buffer.of(0xf8, 0xff, 0xfe)

/** Creates silent Opus in Ogg, mono. `seed` is stored in a comment and determines the serial number of the stream. */
export const oggOpus = (seed: Buffer, seconds: number): Buffer => {
  const serial = seed.readUInt32LE(0)
  const packets = framesIn(seconds, PACKET_MS)
  const pages = [page({ serial, flags: 2, samples: 0, packets: [head()] }, 0)]
  pages.push(page({ serial, flags: 0, samples: 0, packets: [tags(seed)] }, 1))
  for (let done = 0; done < packets; done += PACKETS_PER_PAGE) {
    const some = Math.min(PACKETS_PER_PAGE, packets - done)
    const samples = (done + some) * PACKET_SAMPLES
    const flags = done + some === packets ? 4 : 0
    pages.push(page({ serial, flags, samples, packets: Array.from({ length: some }, () => silence) }, pages.length))
  }
  return Buffer.concat(pages)
}

const head = (): Buffer => {
  const bytes = Buffer.alloc(19)
  bytes.write("OpusHead")
  bytes.set([1, 1], 8)
  bytes.writeUInt32LE(24_000, 12)
  return bytes
}

const tags = (seed: Buffer): Buffer => {
  const sized = (text: string): ReadonlyArray<Buffer> => {
    const size = Buffer.alloc(4)
    size.writeUInt32LE(text.length)
    return [size, Buffer.from(text)]
  }
  const count = Buffer.of(1, 0, 0, 0)
  return Buffer.concat([
    Buffer.from("OpusTags"),
    ...sized("stand-in"),
    count,
    ...sized(`DESCRIPTION=${seed.toString("hex")}`),
  ])
}

interface Page {
  readonly serial: number
  readonly flags: number
  /** Samples from the beginning up to the end of this page. */
  readonly samples: number
  /** Packets, each shorter than 255 bytes. */
  readonly packets: ReadonlyArray<Buffer>
}

const page = ({ serial, flags, samples, packets }: Page, number: number): Buffer => {
  const header = Buffer.alloc(27)
  header.write("OggS")
  header[5] = flags
  header.writeBigUInt64LE(BigInt(samples), 6)
  header.writeUInt32LE(serial, 14)
  header.writeUInt32LE(number, 18)
  header[26] = packets.length
  const whole = Buffer.concat([header, Buffer.from(packets.map(({ length }) => length)), ...packets])
  whole.writeUInt32LE(pageCheck(whole), 22)
  return whole
}
