import { sandboxProviders } from "@kiln/provider-sandbox"
import { fakeMp3, fakePng } from "@kiln/testing"
import { Effect } from "effect"
import * as fc from "fast-check"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { generatedAudio } from "../../src/providers/speech.ts"

const here = join(import.meta.dirname, "fixtures")
const ofProbe = join(import.meta.dirname, "../../../media-probe/test/fixtures")
const recordings = (directory: string) => readdirSync(directory).filter((name) => /^[^.]+\.(?!md$)\w+$/.test(name))
const recording = (name: string) => Uint8Array.from(readFileSync(join(here, name)))
const ofProbeRecording = (name: string) => Uint8Array.from(readFileSync(join(ofProbe, name)))

const mediaTypes: Readonly<Record<string, string>> = {
  aac: "audio/aac",
  flac: "audio/flac",
  m4a: "audio/mp4",
  mp3: "audio/mpeg",
  mp4: "audio/mp4",
  ogg: "audio/ogg",
  wav: "audio/wav",
  webm: "audio/webm",
}

const bytes = (...parts: ReadonlyArray<string | ReadonlyArray<number> | Uint8Array>): Uint8Array =>
  Uint8Array.from(
    parts.flatMap((part) => (typeof part === "string" ? [...part].map((c) => c.charCodeAt(0)) : [...part])),
  )
const big = (value: number) => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255]
const little = (value: number) => big(value).toReversed()
const zeros = (count: number) => Array.from({ length: count }, () => 0)
const patched = (data: Uint8Array, at: number, ...values: ReadonlyArray<number>) => {
  const copy = data.slice()
  copy.set(values, at)
  return copy
}
const typeOf = (data: Uint8Array) => {
  const found = generatedAudio(data)
  return found.problem === undefined ? found.mediaType : undefined
}
const problemOf = (data: Uint8Array) => generatedAudio(data).problem

describe("valid audio", () => {
  it.each([
    ...recordings(here).map((name) => [name, recording(name)] as const),
    ...recordings(ofProbe)
      .filter((name) => !name.startsWith("video-only"))
      .map((name) => [name, ofProbeRecording(name)] as const),
  ])("%s, by its bytes", (name, data) => {
    expect(generatedAudio(data)).toEqual({ mediaType: mediaTypes[name.replace(/.*\./, "")] })
  })

  it.each(["alloy", "echo", "fable", "nova", "onyx", "shimmer"])(
    "the sandbox's speech in the voice %s",
    async (voice) => {
      const call = { jobId: "job_00000000000000000000000000", attempt: 1, failures: 0, deferrals: 0 } as const
      const { data } = await Effect.runPromise(sandboxProviders().speech({ text: "hi", voice }, call))
      expect(typeOf(data)).toBe("audio/mpeg")
    },
  )

  it("a part of a larger buffer", () => {
    const data = recording("plain.m4a")
    const within = bytes("ID3", data, "</html>").subarray(3, 3 + data.length)
    expect(typeOf(within)).toBe("audio/mp4")
  })
})

const mp3 = fakeMp3("", 4)
const id3v2 = (length: number, flags = 0) => bytes("ID3", [4, 0, flags, 0, 0, length >> 7, length & 127], zeros(length))
const id3v1 = bytes("TAG", zeros(125))
const ape = bytes("APETAGEX", little(2000), little(32 + 9), little(1), little(0xa0000000), zeros(8), zeros(9)) // header, item
const apeTag = bytes(ape, "APETAGEX", little(2000), little(32 + 9), little(1), little(0x80000000), zeros(8))

const riff = (form: string, ...chunks: ReadonlyArray<Uint8Array>) => {
  const body = bytes(...chunks)
  return bytes(form, little(body.length + 4), "WAVE", body)
}
const chunk = (id: string, data: ReadonlyArray<number> | Uint8Array, length = data.length) =>
  bytes(id, little(length), data, zeros(data.length % 2))
const fmt = chunk("fmt ", [1, 0, 1, 0, ...little(8000), ...little(16000), 2, 0, 16, 0])
const samples = Array.from({ length: 10 }, (_, index) => index)

const page = (flags: number, packets: ReadonlyArray<Uint8Array>, last?: number) => {
  const lacing = packets.map((packet) => packet.length)
  if (last !== undefined) lacing.push(last)
  return bytes("OggS", [0, flags], zeros(20), [lacing.length, ...lacing], ...packets, zeros(last ?? 0))
}
const opusHead = page(2, [bytes("OpusHead", zeros(11))])
const opusTags = page(0, [bytes("OpusTags", zeros(8))])

const box = (type: string, ...parts: ReadonlyArray<Uint8Array>) => {
  const body = bytes(...parts)
  return bytes(big(body.length + 8), type, body)
}
const ftyp = box("ftyp", bytes("M4A ", zeros(4)))
const handler = (kind: string) => box("hdlr", bytes(zeros(8), kind, zeros(12)))
const moov = (kind = "soun") => box("moov", box("mvhd", bytes(zeros(8))), box("trak", box("mdia", handler(kind))))
const mdat = box("mdat", bytes([1, 2, 3]))

const element = (id: ReadonlyArray<number>, ...parts: ReadonlyArray<Uint8Array>) => {
  const body = bytes(...parts)
  return bytes(id, [0x40 | (body.length >> 8), body.length & 255], body)
}
const unsized = (id: ReadonlyArray<number>, ...parts: ReadonlyArray<Uint8Array>) => bytes(id, [0xff], ...parts)
const ebml = (docType = "webm") => element([0x1a, 0x45, 0xdf, 0xa3], element([0x42, 0x82], bytes(docType)))
const SEGMENT = [0x18, 0x53, 0x80, 0x67]
const CLUSTER = [0x1f, 0x43, 0xb6, 0x75]
const tracks = (kind = 2) => element([0x16, 0x54, 0xae, 0x6b], element([0xae], element([0x83], bytes([kind]))))
const block = element([0xa3], bytes([0x81, 0, 0, 0x80, 9, 9]))

describe("containers in their valid variants", () => {
  it.each<[name: string, mediaType: string, data: Uint8Array]>([
    ["mp3 of one frame", "audio/mpeg", fakeMp3("", 1)],
    ["mp3 behind an ID3v2 tag", "audio/mpeg", bytes(id3v2(300), mp3)],
    [
      "mp3 behind an ID3v2 tag with a footer",
      "audio/mpeg",
      bytes(id3v2(300, 0x10), "3DI", [4, 0, 0x10, 0, 0, 2, 44], mp3),
    ],
    ["mp3 behind two tags and padding", "audio/mpeg", bytes(id3v2(0), id3v2(5), zeros(100), mp3)],
    ["mp3 before an ID3v1 tag", "audio/mpeg", bytes(mp3, id3v1)],
    ["mp3 before an APE and an ID3v1 tag", "audio/mpeg", bytes(mp3, apeTag, id3v1)],
    ["mp3 before an APE tag", "audio/mpeg", bytes(mp3, apeTag)],
    [
      "mp3 of MPEG 2.5, 8 kHz",
      "audio/mpeg",
      bytes(
        [0xff, 0xe3, 0x18, 0xc4],
        Array.from({ length: 68 }, () => 85),
      ),
    ],
    ["mp3 before zeros", "audio/mpeg", bytes(mp3, zeros(1000))],
    ["mp3 put together from two files", "audio/mpeg", bytes(fakeMp3("one"), fakeMp3("two"))],
    [
      "mp3 of MPEG 1, 128 kbit/s, with padding",
      "audio/mpeg",
      bytes(
        [0xff, 0xfb, 0x92, 0x64],
        Array.from({ length: 414 }, () => 85),
      ),
    ],
    ["wav", "audio/wav", riff("RIFF", fmt, chunk("data", samples))],
    [
      "wav with other chunks, odd ones padded",
      "audio/wav",
      riff("RIFF", chunk("LIST", [1, 2, 3]), fmt, chunk("data", samples)),
    ],
    [
      "wav with something behind its samples",
      "audio/wav",
      riff("RIFF", fmt, chunk("data", samples), chunk("LIST", [1, 2])),
    ],
    ["wav whose writer never knew: 0", "audio/wav", bytes(riff("RIFF", fmt, chunk("data", samples, 0)), samples)],
    ["wav whose writer never knew: 0xFFFFFFFF", "audio/wav", riff("RIFF", fmt, chunk("data", samples, 0xffff_ffff))],
    ["wav whose writer never knew: 2,000,000,000", "audio/wav", riff("RIFF", fmt, chunk("data", samples, 2e9))],
    ["wav whose writer never knew: 0x7FFFF000", "audio/wav", riff("RIFF", fmt, chunk("data", samples, 0x7fff_f000))],
    [
      "wav with a length of 64 bits",
      "audio/wav",
      riff("RF64", chunk("ds64", [...zeros(8), ...little(10), ...zeros(12)]), fmt, chunk("data", samples, 0xffff_ffff)),
    ],
    ["ogg with one audio packet", "audio/ogg", bytes(opusHead, opusTags, page(4, [bytes([1, 2])]))],
    ["ogg with a packet of 255 bytes", "audio/ogg", bytes(opusHead, opusTags, page(4, [bytes(zeros(255)), bytes([])]))],
    ["mp4, movie first", "audio/mp4", bytes(ftyp, moov(), mdat)],
    ["mp4, media first", "audio/mp4", bytes(ftyp, box("free"), mdat, moov())],
    ["mp4 whose last box reaches to the end", "audio/mp4", bytes(ftyp, moov(), [0, 0, 0, 0], "mdat", [1])],
    ["mp4 with a long box", "audio/mp4", bytes(ftyp, moov(), [0, 0, 0, 1], "mdat", big(0), big(17), [1])],
    ["mp4 in fragments", "audio/mp4", bytes(ftyp, moov(), box("moof"), mdat, box("moof"), mdat)],
    ["webm", "audio/webm", bytes(ebml(), element(SEGMENT, tracks(), element(CLUSTER, block, block)))],
    [
      "webm that was streamed",
      "audio/webm",
      bytes(ebml(), unsized(SEGMENT, tracks(), unsized(CLUSTER, block), unsized(CLUSTER, block))),
    ],
  ])("%s", (_name, mediaType, data) => {
    expect(generatedAudio(data)).toEqual({ mediaType })
  })
})

const notAudio: ReadonlyArray<[name: string, data: Uint8Array, why: RegExp]> = [
  ["nothing", bytes(), /no known audio format/],
  ["HTML", bytes("<!doctype html><html><body>502 Bad Gateway</body></html>"), /no known audio format/],
  ["JSON", bytes('{"error":{"code":"rate_limit_exceeded"}}'), /no known audio format/],
  ["text", bytes("ID3 is a tag, but this is ordinary text, which goes on and on"), /no known audio format/],
  ["a PNG", fakePng(), /no known audio format/],
  ["samples without a container", bytes(zeros(100), samples, samples), /no known audio format/],
  ["samples of silence, then an mp3", bytes(zeros(100), mp3), /no known audio format/],
  ["UTF-16", bytes([0xff, 0xfe], "<\0h\0t\0m\0l\0>\0"), /no known audio format/],
  ["mp3: a tag alone", id3v2(300), /no known audio format/],
  ["mp3: a tag cut short", id3v2(300).subarray(0, 200), /no known audio format/],
  ["mp3: HTML behind a tag", bytes(id3v2(300), "<!doctype html><html>"), /no known audio format/],
  ["mp3: a frame cut short", mp3.subarray(0, 30), /cut short/],
  ["mp3: its only frame cut short", mp3.subarray(0, 23), /cut short/],
  ["mp3: a header cut short", mp3.subarray(0, 26), /neither/],
  ["mp3: text behind its frames", bytes(mp3, "</html>"), /neither/],
  ["mp3: an ID3v1 tag cut short", bytes(mp3, id3v1.subarray(0, 100)), /cut short/],
  ["mp3: an APE tag cut short", bytes(mp3, apeTag.subarray(0, 60)), /cut short/],
  ["mp3: an ID3v2 tag behind it cut short", bytes(mp3, id3v2(9).subarray(0, 15)), /cut short/],
  ["mp3: an invalid bitrate", patched(mp3, 2, 0xf4), /neither/],
  ["mp3: the free format", patched(mp3, 2, 0x04), /neither/],
  ["mp3: an invalid sample rate", patched(mp3, 2, 0x1c), /neither/],
  ["mp3: an invalid version", patched(mp3, 1, 0xeb), /neither/],
  ["aac: a frame cut short", recording("plain.aac").subarray(0, 300), /cut short/],
  ["aac: an invalid sample rate", patched(recording("plain.aac"), 2, 0x74), /neither/],
  ["aac: frames that are only headers", bytes([0xff, 0xf1, 0x60, 0x40, 0x00, 0xff, 0xfc]), /neither/],
  ["wav: fewer samples than it states", riff("RIFF", fmt, chunk("data", samples, 11)), /cut short after 10 bytes/],
  ["wav: no samples", riff("RIFF", fmt, chunk("data", [])), /no samples/],
  [
    "wav: no samples, but a chunk behind them",
    riff("RIFF", fmt, chunk("data", []), chunk("LIST", samples)),
    /no samples/,
  ],
  ["wav: less than a sample", riff("RIFF", fmt, chunk("data", [1])), /no samples/],
  ["wav: streamed, nothing came", riff("RIFF", fmt, chunk("data", [], 0xffff_ffff)), /no samples/],
  ["wav: no data chunk", riff("RIFF", fmt), /no samples/],
  ["wav: no description", riff("RIFF", chunk("data", samples)), /format chunk is missing/],
  [
    "wav: a description of nothing",
    riff("RIFF", chunk("fmt ", zeros(16)), chunk("data", samples)),
    /format chunk is missing/,
  ],
  ["wav: a description cut short", riff("RIFF", fmt).subarray(0, 30), /cut short/],
  [
    "wav: fewer samples than 64 bits say",
    riff("RF64", chunk("ds64", [...zeros(8), ...little(11), ...zeros(12)]), fmt, chunk("data", samples, 0xffff_ffff)),
    /cut short after 10 bytes/,
  ],
  ["ogg: video", page(2, [bytes([0x80], "theora", zeros(11))]), /codec/],
  ["ogg: headers alone", bytes(opusHead, opusTags), /no audio packet/],
  ["ogg: a page cut short", bytes(opusHead, opusTags, page(4, [bytes([1, 2])]).subarray(0, 29)), /cut short/],
  ["ogg: a page's header cut short", bytes(opusHead, opusTags, "OggS", [0, 0]), /cut short/],
  [
    "ogg: a packet whose continuation is missing",
    bytes(opusHead, opusTags, page(0, [bytes([1, 2])], 255)),
    /last packet/,
  ],
  ["ogg: something between pages", bytes(opusHead, "<html>", opusTags, page(4, [bytes([1, 2])])), /no page begins at/],
  ["flac: no frame", patched(recording("plain.flac").subarray(0, 42), 4, 0x80), /no frame/],
  ["flac: metadata cut short", recording("plain.flac").subarray(0, 44), /metadata/],
  ["flac: metadata longer than the file", recording("plain.flac").subarray(0, 4_000), /metadata|no frame/],
  ["flac: a frame cut short", recording("plain.flac").subarray(0, -1), /cut short or damaged/],
  [
    "flac: a bit flipped",
    patched(recording("plain.flac"), 9_000, (recording("plain.flac")[9_000] ?? 0) ^ 4),
    /damaged/,
  ],
  ["flac: no description", patched(recording("plain.flac"), 4, 4), /stream information/],
  ["mp4: no movie", bytes(ftyp, mdat), /track/],
  ["mp4: video alone", bytes(ftyp, moov("vide"), mdat), /track/],
  ["mp4: a handler outside of a movie", bytes(ftyp, handler("soun"), mdat), /track/],
  ["mp4: no media", bytes(ftyp, moov()), /media/],
  ["mp4: empty media", bytes(ftyp, moov(), box("mdat")), /media/],
  ["mp4: a fragment without its media", bytes(ftyp, moov(), box("moof"), mdat, box("moof")), /media/],
  ["mp4: media cut short", bytes(ftyp, moov(), mdat).subarray(0, -1), /cut short/],
  ["mp4: a box smaller than its head", bytes(ftyp, [0, 0, 0, 7], "free", moov(), mdat), /cut short/],
  [
    "mp4: a box of more bytes than a number holds",
    bytes(ftyp, [0, 0, 0, 1], "mdat", big(-1), big(-1), moov()),
    /cut short/,
  ],
  ["video-only.mp4", ofProbeRecording("video-only.mp4"), /track/],
  ["webm: another Matroska", bytes(ebml("matroska"), element(SEGMENT, tracks(), element(CLUSTER, block))), /Matroska/],
  ["webm: video alone", bytes(ebml(), element(SEGMENT, tracks(1), element(CLUSTER, block))), /track/],
  ["webm: no cluster", bytes(ebml(), element(SEGMENT, tracks())), /block/],
  ["webm: an empty cluster", bytes(ebml(), element(SEGMENT, tracks(), element(CLUSTER))), /block/],
  [
    "webm: a block cut short",
    bytes(ebml(), unsized(SEGMENT, tracks(), unsized(CLUSTER, block))).subarray(0, -1),
    /cut short/,
  ],
  [
    "webm: a block without a size",
    bytes(ebml(), unsized(SEGMENT, tracks(), unsized(CLUSTER, block, unsized([0xa3])))),
    /no size/,
  ],
  [
    "webm: zeros behind it",
    bytes(ebml(), element(SEGMENT, tracks(), element(CLUSTER, block)), zeros(4)),
    /no whole element/,
  ],
  ["video-only.webm", ofProbeRecording("video-only.webm"), /track/],
]

describe("invalid audio", () => {
  it.each(notAudio)("%s", (_name, data, why) => {
    expect(problemOf(data)).toMatch(why)
  })

  it("is reported without any of its content", () => {
    for (const [, data] of notAudio)
      expect(problemOf(data)).not.toMatch(/doctype|html|Gateway|error|rate_limit|none, which/)
  })
})

/**
 * Beginnings of a file that pass for a whole one, by where they end: between two frames, where nothing says that more
 * follow. A streamed wav says nothing at all.
 */
const wholeBeginnings: Readonly<Record<string, ReadonlyArray<number>>> = {
  "plain.aac": [11, 373, 788, 1172, 1520],
  "plain.flac": [8580, 9429, 10385, 11301],
  "streamed.mp3": [123, 202, 280, 359, 437, 515, 594, 672, 750, 829, 907, 986, 1064],
}

describe("a truncated file", () => {
  it.each(recordings(here).filter((name) => !["streamed.wav", "espeak-stdout.wav"].includes(name)))(
    "%s: is refused, but between two frames",
    (name) => {
      const data = recording(name)
      const accepted = Array.from({ length: data.length }, (_, end) => end).filter(
        (end) => typeOf(data.subarray(0, end)) !== undefined,
      )
      expect(accepted).toEqual(wholeBeginnings[name] ?? [])
    },
  )

  it.each(["streamed.wav", "espeak-stdout.wav"])("%s: is refused up to its first sample", (name) => {
    const data = recording(name)
    for (let end = 0; end < 46; end++) expect(typeOf(data.subarray(0, end))).toBeUndefined()
    expect(typeOf(data.subarray(0, 46))).toBe("audio/wav")
  })
})

const starts = [
  mp3.subarray(0, 24),
  recording("plain.aac").subarray(0, 11),
  riff("RIFF", fmt),
  opusHead,
  recording("plain.flac").subarray(0, 42),
  ftyp,
  bytes(ftyp, moov()),
  ebml(),
  bytes(ebml(), unsized(SEGMENT, tracks(), unsized(CLUSTER))),
  id3v2(3),
]

describe("any bytes", () => {
  it("are not audio", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 3_000 }), (data) => {
        expect(typeOf(data)).toBeUndefined()
      }),
      { numRuns: 5_000 },
    )
  })

  it("after the start of a container get a verdict", () => {
    fc.assert(
      fc.property(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 300 }), (start, rest) => {
        const found = generatedAudio(bytes(start, rest))
        expect(found.problem ?? Object.values(mediaTypes).includes(found.mediaType)).toBeTruthy()
      }),
      { numRuns: 5_000 },
    )
  })

  it("in any position of a file get a verdict", () => {
    const files = recordings(here).map(recording)
    fc.assert(
      fc.property(
        fc.constantFrom(...files),
        fc.nat(),
        fc.uint8Array({ minLength: 1, maxLength: 8 }),
        (file, at, other) => {
          const found = generatedAudio(patched(file, at % (file.length - 8), ...other))
          expect(found.problem ?? Object.values(mediaTypes).includes(found.mediaType)).toBeTruthy()
        },
      ),
      { numRuns: 2_000 },
    )
  })
})

/** As large as a file may be, and of as many pieces as fit in. */
const crowd = (start: Uint8Array, piece: Uint8Array): Uint8Array => {
  const data = new Uint8Array(32 * 1_024 * 1_024)
  data.set(start)
  for (let at = start.length; at + piece.length <= data.length; at += piece.length) data.set(piece, at)
  return data
}

describe("the largest files", () => {
  it.each<[name: string, data: () => Uint8Array]>([
    ["frames of 24 bytes", () => crowd(mp3, mp3.subarray(0, 24))],
    ["frames of 8 bytes", () => crowd(bytes(), bytes([0xff, 0xf1, 0x60, 0x40, 0x01, 0x1f, 0xfc, 0]))],
    ["tags of 10 bytes", () => crowd(mp3, id3v2(0))],
    ["zeros", () => bytes(mp3, new Uint8Array(1_000_000))],
    ["chunks of 8 bytes", () => crowd(riff("RIFF"), chunk("LIST", []))],
    ["pages of 27 bytes", () => crowd(bytes(opusHead, opusTags), page(0, []))],
    [
      "metadata of 4 bytes",
      () =>
        crowd(
          recording("plain.flac")
            .subarray(0, 42)
            .map((byte, index) => (index === 4 ? 0 : byte)),
          bytes([4, 0, 0, 0]),
        ),
    ],
    ["boxes of 8 bytes", () => crowd(ftyp, box("moov"))],
    ["elements of 2 bytes", () => crowd(bytes(ebml()), bytes([0xec, 0x80]))],
  ])("%s: are checked quickly", (_name, make) => {
    const data = make()
    const before = process.cpuUsage()
    generatedAudio(data)
    // Some tens of milliseconds of processor time; the bound is for work that grows faster than the file does.
    const { system, user } = process.cpuUsage(before)
    expect((system + user) / 1_000).toBeLessThan(2_000)
  })
})
