import fc from "fast-check"
import { describe, expect, it } from "vitest"
import {
  acceptedMediaTypes,
  acceptsContentType,
  audioFormats,
  containerMatches,
  FirstBytes,
  SNIFF_BYTES,
  sniffContainer,
  type AudioContainer,
  type AudioFormat,
} from "../src/domain/AudioFormat.ts"

const bytes = (...parts: ReadonlyArray<string | ReadonlyArray<number>>): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === "string" ? [...part].map((c) => c.charCodeAt(0)) : part)))
const box = (size: number, type: string): Uint8Array =>
  bytes([size >>> 24, (size >>> 16) & 255, (size >>> 8) & 255, size & 255], type)
const join = (...parts: ReadonlyArray<Uint8Array>): Uint8Array => bytes(...parts.map((part) => [...part]))

const EBML = [0x1a, 0x45, 0xdf, 0xa3]
const docType = (text: string): Uint8Array => bytes([0x42, 0x82, 0x80 | text.length], text)
const ebml = (...elements: ReadonlyArray<Uint8Array>): Uint8Array => {
  const body = join(...elements)
  return join(bytes(EBML, [0x80 | body.length]), body)
}
const ebmlVersions = bytes([0x42, 0x86, 0x81, 1], [0x42, 0xf7, 0x81, 1], [0x42, 0xf2, 0x81, 4], [0x42, 0xf3, 0x81, 8])

const samples: ReadonlyArray<readonly [string, AudioContainer | undefined, Uint8Array]> = [
  ["RIFF/WAVE", "wav", bytes("RIFF", [36, 0, 0, 0], "WAVEfmt ")],
  ["RIFF/WAVE of unknown length", "wav", bytes("RIFF", [255, 255, 255, 255], "WAVE")],
  ["RF64/WAVE", "wav", bytes("RF64", [255, 255, 255, 255], "WAVEds64")],
  ["BW64/WAVE", "wav", bytes("BW64", [255, 255, 255, 255], "WAVEds64")],
  ["RIFF/AVI", undefined, bytes("RIFF", [36, 0, 0, 0], "AVI LIST")],
  ["RIFF/WEBP", undefined, bytes("RIFF", [36, 0, 0, 0], "WEBPVP8 ")],
  ["RIFF cut short", undefined, bytes("RIFF", [36, 0, 0, 0], "WAV")],
  ["ID3v2.3", "mp3", bytes("ID3", [3, 0, 0, 0, 0, 15, 118])],
  ["ID3v2.4", "mp3", bytes("ID3", [4, 0, 0, 0, 0, 0, 35], "TSSE")],
  ["ID3 of version 255", undefined, bytes("ID3", [255, 0, 0, 0, 0, 15, 118])],
  ["ID3 of revision 255", undefined, bytes("ID3", [3, 255, 0, 0, 0, 15, 118])],
  ["ID3 of a malformed length", "mp3", bytes("ID3", [3, 0, 0, 0, 0x80, 15, 118])],
  ["APE tag", "mp3", bytes("APETAGEX", [208, 7, 0, 0])],
  ["ID3 cut short", undefined, bytes("ID3", [3, 0, 0, 0, 0, 15])],
  ["MPEG 1 layer III", "mp3", bytes([0xff, 0xfb, 0x90, 0x64])],
  ["MPEG 1 layer III with CRC", "mp3", bytes([0xff, 0xfa, 0x90, 0x64])],
  ["MPEG 2 layer III", "mp3", bytes([0xff, 0xf3, 0x84, 0xc4])],
  ["MPEG 2.5 layer III", "mp3", bytes([0xff, 0xe3, 0x18, 0xc4])],
  ["MPEG reserved version", undefined, bytes([0xff, 0xeb, 0x90, 0x64])],
  ["MPEG 1 layer II", "mp3", bytes([0xff, 0xfd, 0x90, 0x04])],
  ["AAC (ADTS)", undefined, bytes([0xff, 0xf1, 0x50, 0x80])],
  ["layer III without a bitrate", undefined, bytes([0xff, 0xfb, 0x00, 0x64])],
  ["layer III of an impossible bitrate", undefined, bytes([0xff, 0xfb, 0xf0, 0x64])],
  ["layer III of an impossible sample rate", undefined, bytes([0xff, 0xfb, 0x9c, 0x64])],
  ["layer III of a reserved emphasis", undefined, bytes([0xff, 0xfb, 0x90, 0x66])],
  ["layer III cut short", undefined, bytes([0xff, 0xfb, 0x90])],
  ["UTF-16 text", undefined, bytes([0xff, 0xfe, 0x52, 0x00, 0x49, 0x00])],
  ["JPEG", undefined, bytes([0xff, 0xd8, 0xff, 0xe0])],
  ["mp4", "mp4", join(box(32, "ftyp"), bytes("isom", [0, 0, 2, 0], "isomiso2avc1mp41"))],
  ["m4a", "mp4", join(box(28, "ftyp"), bytes("M4A ", [0, 0, 2, 0]))],
  ["fragment", "mp4", join(box(24, "styp"), bytes("msdh"))],
  ["QuickTime, movie first", "mp4", join(box(4000, "moov"), box(108, "mvhd"))],
  ["QuickTime, media first", "mp4", join(box(8, "wide"), box(100_000, "mdat"))],
  ["media to the end of the file", "mp4", box(0, "mdat")],
  ["media with a 64-bit length", "mp4", box(1, "mdat")],
  ["padding longer than what is looked at", "mp4", box(4096, "free")],
  ["ftyp too short to hold a brand", undefined, join(box(8, "ftyp"), bytes("isom"))],
  ["padding of impossible size", undefined, join(box(0, "free"), box(32, "ftyp"))],
  ["padding, then something else", undefined, join(box(8, "skip"), bytes("hello, world"))],
  ["text that reads like a box", undefined, bytes("The file's mdat is lost")],
  ["WebM as ffmpeg writes it", "webm", ebml(ebmlVersions, docType("webm"), bytes([0x42, 0x87, 0x81, 4]))],
  [
    "WebM with an 8-byte header length",
    "webm",
    join(bytes(EBML, [1, 0, 0, 0, 0, 0, 0, 31]), ebmlVersions, docType("webm")),
  ],
  ["WebM with a header of unknown length", "webm", join(bytes(EBML, [0xff]), docType("webm"))],
  ["WebM with its DocType padded", "webm", ebml(docType("webm\0\0"))],
  ["WebM with padding before its DocType", "webm", ebml(bytes([0xec, 0x8a]), bytes("webm......"), docType("webm"))],
  ["Matroska", undefined, ebml(ebmlVersions, docType("matroska"))],
  [
    "Matroska that names webm elsewhere",
    undefined,
    ebml(bytes([0xec, 0x87, 0x42, 0x82, 0x84]), bytes("webm"), docType("matroska")),
  ],
  ["EBML without DocType", undefined, ebml(ebmlVersions)],
  ["EBML whose DocType lies behind the header", undefined, join(ebml(ebmlVersions), docType("webm"))],
  ["DocType longer than the header it lies in", undefined, join(bytes(EBML, [0x83]), docType("webm"))],
  ["EBML cut short", undefined, bytes(EBML)],
  ["EBML with broken lengths", undefined, bytes(EBML, [0x9f, 0, 0, 0, 0])],
  ["DocType cut short", undefined, bytes(EBML, [0x9f, 0x42, 0x82, 0x84], "web")],
  ["PNG", undefined, bytes([0x89], "PNG\r\n\x1a\n")],
  ["Ogg", undefined, bytes("OggS", [0, 2, 0, 0])],
  ["FLAC", undefined, bytes("fLaC", [0, 0, 0, 34])],
  ["nothing", undefined, bytes()],
]

describe("sniffContainer", () => {
  it.each(samples)("%s is %s", (_, container, file) => expect(sniffContainer(file)).toBe(container))

  it("reads only the first SNIFF_BYTES bytes", () => {
    const any = fc.oneof(fc.uint8Array({ maxLength: 40 }), ...samples.map(([, , file]) => fc.constant(file)))
    fc.assert(
      fc.property(any, fc.uint8Array({ minLength: 200, maxLength: 200 }), (head, tail) => {
        const file = join(head, tail)
        expect(sniffContainer(file)).toBe(sniffContainer(file.slice(0, SNIFF_BYTES)))
      }),
    )
  })

  it("ignores bytes after SNIFF_BYTES", () => {
    const padding = join(box(60, "free"), new Uint8Array(52), bytes("no box here"))
    const farDocType = ebml(bytes([0xec, 0x80 | 70]), new Uint8Array(70), docType("webm"))
    for (const file of [padding, farDocType])
      expect(sniffContainer(file)).toBe(sniffContainer(file.slice(0, SNIFF_BYTES)))
  })

  it("reads the same from a view into a larger buffer", () => {
    for (const [, container, file] of samples) {
      const large = join(bytes("RIFF____WAVE!"), file)
      expect(sniffContainer(large.subarray(13))).toBe(container)
    }
  })

  it("never throws", () => {
    const lead = fc.constantFrom([], EBML, [...box(8, "wide")], [0xff])
    fc.assert(
      fc.property(lead, fc.uint8Array({ maxLength: 100 }), (lead, rest) => {
        expect([undefined, "mp3", "mp4", "wav", "webm"]).toContain(sniffContainer(bytes(lead, [...rest])))
      }),
      { numRuns: 2000 },
    )
  })
})

describe("formats", () => {
  it("treats only mp4 and m4a as one family", () => {
    const pairs = audioFormats.flatMap((format) =>
      (["mp3", "mp4", "wav", "webm"] as const)
        .filter((container) => containerMatches(format, container))
        .map((c) => [format, c]),
    )
    expect(pairs).toEqual([
      ["mp3", "mp3"],
      ["mp4", "mp4"],
      ["wav", "wav"],
      ["webm", "webm"],
      ["m4a", "mp4"],
    ])
    expect(audioFormats.some((format) => containerMatches(format, undefined))).toBe(false)
  })

  const wave = bytes("RIFF____WAVE")
  const frame = bytes([0xff, 0xfb, 0x90, 0x64])
  const tag = (length: number) => bytes("ID3", [4, 0, 0, 0, 0, length >> 7, length & 127], "x".repeat(length))
  it.each<readonly [string, declared: AudioFormat, AudioContainer | undefined, Uint8Array]>([
    ["nothing", "wav", undefined, bytes()],
    ["WAVE", "wav", "wav", wave],
    ["a tagged MP3", "mp3", "mp3", join(tag(35), frame)],
    ["a tagged WAVE file", "mp3", "mp3", join(tag(35), wave)],
    ["a tagged MP3", "wav", "mp3", join(tag(35), frame)],
    ["an MP3 with a long tag", "wav", "mp3", join(tag(9_000), frame, bytes("x".repeat(100)))],
    ["an MP3 with a tag of a wrong length", "wav", "mp3", join(tag(35), bytes("x"), frame)],
    ["a tag alone", "wav", "mp3", tag(35)],
    ["a tag cut short", "wav", "mp3", tag(300).subarray(0, 200)],
    ["a tagged WebM file", "wav", "webm", join(tag(35), ebml(docType("webm")))],
    ["a tagged WAVE file", "wav", "wav", join(tag(35), wave)],
    ["a WAVE file with an empty tag", "wav", "wav", join(tag(0), wave)],
    ["a WAVE file whose tag ends with what is looked at", "wav", "wav", join(tag(54), wave, bytes("x".repeat(100)))],
    ["a WAVE file with long tags", "wav", "wav", join(tag(300), tag(9_000), wave, bytes("x".repeat(100)))],
  ])("of %s, declared as %s, is %s by its first bytes", (_, declared, container, file) => {
    for (const size of [1, 10, 64, 70, 10_000]) {
      const first = new FirstBytes(declared)
      for (let at = 0; at < file.length && !first.add(file.subarray(at, at + size)); at += size);
      expect(first.isEmpty).toBe(file.length === 0)
      expect(first.container(), `in pieces of ${size}`).toBe(container)
    }
  })

  it("accepts the media types of the contract, in any case and with parameters, and audio/<format> always", () => {
    const contract = {
      mp3: "audio/mp3, audio/mpeg, audio/mpeg3, audio/x-mp3, audio/x-mpeg",
      mp4: "audio/mp4, audio/m4a, audio/x-m4a, video/mp4",
      m4a: "audio/mp4, audio/m4a, audio/x-m4a, video/mp4",
      wav: "audio/wav, audio/x-wav, audio/wave, audio/vnd.wave",
      webm: "audio/webm, video/webm",
    }
    for (const format of audioFormats) {
      expect(acceptedMediaTypes[format].join(", ")).toBe(contract[format])
      expect(acceptsContentType(format, `audio/${format}`)).toBe(true)
      for (const type of acceptedMediaTypes[format])
        for (const spelling of [type, type.toUpperCase(), `${type};codecs=opus`, ` ${type} ; a="b"`, `${type};`])
          expect(acceptsContentType(format, spelling)).toBe(true)
    }
  })

  it.each([
    undefined,
    "",
    ";",
    "audio",
    "audio/",
    "application/octet-stream",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "audio/mpeg",
    "audio/wav, audio/wav",
    "audio/wavx",
    "xaudio/wav",
    "audio/wav x",
    "text/plain; audio/wav",
    "audio /wav",
    "audio/wav\u00a0",
  ])("refuses %j for a wav", (header) => expect(acceptsContentType("wav", header)).toBe(false))
})
