/** Files made for the occasion: as small as their length allows. */

/** PCM, 8 bits, mono: `seconds` is exact to one sample. The low default rate keeps a quarter of an hour under 100 KB. */
export const wav = (seconds: number, rate = 100): Buffer => {
  const samples = Math.round(seconds * rate)
  const header = Buffer.alloc(44)
  header.write("RIFF", 0)
  header.writeUInt32LE(36 + samples, 4)
  header.write("WAVEfmt ", 8)
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(rate, 24)
  header.writeUInt32LE(rate, 28)
  header.writeUInt16LE(1, 32)
  header.writeUInt16LE(8, 34)
  header.write("data", 36)
  header.writeUInt32LE(samples, 40)
  return Buffer.concat([header, Buffer.alloc(samples, 128)])
}

/** Looks like a WAV by its first bytes, but is not one. */
export const brokenWav = (): Buffer =>
  Buffer.concat([Buffer.from("RIFF\x40\0\0\0WAVE", "latin1"), Buffer.alloc(64, 0xab)])

/** MPEG-1 layer III, 128 kbit/s, 44.1 kHz: silent frames of 417 bytes and 26 ms. */
export const mp3 = (frames = 40): Buffer =>
  Buffer.concat(
    Array.from({ length: frames }, () => Buffer.concat([Buffer.from("fffb9000", "hex"), Buffer.alloc(413)])),
  )

const EBML = "1a45dfa39f4286810142f7810142f2810442f381084282847765626d42878104428581 02".replaceAll(" ", "")

/** An EBML header whose DocType is webm, and nothing a decoder could use. */
export const webmStart = (): Buffer => Buffer.concat([Buffer.from(EBML, "hex"), Buffer.alloc(64)])

/** The same header of a Matroska file that is not WebM. */
export const matroskaStart = (): Buffer =>
  Buffer.concat([Buffer.from("1a45dfa38b4282886d6174726f736b61", "hex"), Buffer.alloc(64)])

/** An ISO base media file type box of this brand, and nothing a decoder could use. */
export const mp4Start = (brand: "isom" | "M4A " = "isom"): Buffer =>
  Buffer.concat([
    Buffer.from([0, 0, 0, 24]),
    Buffer.from(`ftyp${brand}\0\0\x02\0${brand}mp42`, "latin1"),
    Buffer.alloc(64),
  ])

/** The first bytes of a file of each format. */
export const sampleOf: Readonly<Record<string, () => Buffer>> = {
  mp3: () => mp3(),
  mp4: () => mp4Start(),
  m4a: () => mp4Start("M4A "),
  wav: () => wav(1),
  webm: webmStart,
}

/** The media types the contract accepts for each format. */
export const acceptedTypes: Readonly<Record<string, ReadonlyArray<string>>> = {
  mp3: ["audio/mp3", "audio/mpeg", "audio/mpeg3", "audio/x-mp3", "audio/x-mpeg"],
  mp4: ["audio/mp4", "audio/m4a", "audio/x-m4a", "video/mp4"],
  m4a: ["audio/mp4", "audio/m4a", "audio/x-m4a", "video/mp4"],
  wav: ["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"],
  webm: ["audio/webm", "video/webm"],
}
