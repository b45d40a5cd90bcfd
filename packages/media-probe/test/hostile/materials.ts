import { execFile, execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdirSync, readFileSync, renameSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import type { Node } from "./nodes.ts"
import { opaque, parseMp3, parseMp4, parseWav, parseWebm } from "./parse.ts"

/** The program that encodes and plays; set `KILN_FFMPEG` to compare with another version. */
export const ffmpegPath = process.env["KILN_FFMPEG"] ?? "ffmpeg"

/** The containers that are mutated. */
export const hostileFormats = ["wav", "mp3", "mp4", "webm"] as const
export type HostileFormat = (typeof hostileFormats)[number]

/** The names of the encodings that every format has as a short and as a long file. */
interface Recipe {
  readonly name: string
  /** Arguments of ffmpeg after the inputs. */
  readonly output: ReadonlyArray<string>
  /** File name extension, which selects the muxer. */
  readonly extension: string
  /** Duration of each input in seconds. */
  readonly seconds: ReadonlyArray<number>
  readonly rate?: number
  readonly channels?: number
  readonly hasVideo?: boolean
}

const SHORT = 1
const LONG = 20

/** Returns a recipe for a short file and one for a long file. */
const both = (
  extension: string,
  name: string,
  output: string,
  more: Partial<Pick<Recipe, "rate" | "channels" | "hasVideo">> & { readonly long?: number } = {},
): ReadonlyArray<Recipe> => {
  const { long = LONG, ...shape } = more
  return [SHORT, long].map((seconds) => ({
    name: `${name} ${seconds === SHORT ? "short" : "long"}`,
    extension,
    output: output.split(" "),
    seconds: [seconds],
    ...shape,
  }))
}

/** Returns a recipe for a file of two tracks whose durations differ. */
const pair = (extension: string, name: string, output: string, seconds: readonly [number, number]): Recipe => ({
  name: `${name} ${seconds[0]} s and ${seconds[1]} s`,
  extension,
  output: ["-map", "0", "-map", "1", ...output.split(" ")],
  seconds,
})

const fragmented = "-movflags +frag_keyframe+empty_moov+default_base_moof -frag_duration 500000"

const recipes: Readonly<Record<HostileFormat, ReadonlyArray<Recipe>>> = {
  wav: [
    ...both("wav", "u8", "-c:a pcm_u8"),
    ...both("wav", "s16", "-c:a pcm_s16le", { long: 10 }),
    ...both("wav", "s16 stereo", "-c:a pcm_s16le", { long: 5, channels: 2, rate: 16_000 }),
    ...both("wav", "s24", "-c:a pcm_s24le", { long: 8 }),
    ...both("wav", "float", "-c:a pcm_f32le", { long: 6 }),
    ...both("wav", "A-law", "-c:a pcm_alaw"),
    ...both("wav", "mu-law", "-c:a pcm_mulaw"),
    ...both("wav", "Microsoft ADPCM", "-c:a adpcm_ms"),
    ...both("wav", "IMA ADPCM", "-c:a adpcm_ima_wav"),
    ...both("wav", "GSM", "-c:a libgsm_ms"),
    ...both("wav", "MP3", "-c:a libmp3lame -b:a 8k"),
    ...both("wav", "MP2", "-c:a mp2 -b:a 8k", { rate: 16_000 }),
    ...both("wav", "AC-3", "-c:a ac3 -b:a 32k", { rate: 48_000, long: 10 }),
    ...both("wav", "RF64", "-c:a pcm_u8 -rf64 always"),
  ],
  mp3: [
    ...both("mp3", "8 kHz", "-b:a 8k -write_xing 0 -id3v2_version 0"),
    ...both("mp3", "16 kHz with tags", "-b:a 16k -id3v2_version 4 -write_id3v1 1 -metadata title=kiln", {
      rate: 16_000,
    }),
    ...both("mp3", "variable bitrate", "-q:a 9 -id3v2_version 3 -metadata title=kiln", { rate: 16_000 }),
    ...both("mp3", "stereo", "-b:a 32k -id3v2_version 3", { rate: 44_100, channels: 2, long: 10 }),
  ],
  mp4: [
    ...both("mp4", "AAC", "-c:a aac -b:a 8k"),
    ...both("m4a", "AAC, description first", "-c:a aac -b:a 8k -movflags +faststart"),
    ...both("mp4", "AAC stereo", "-c:a aac -b:a 16k", { rate: 16_000, channels: 2 }),
    ...both("mov", "AAC in QuickTime", "-c:a aac -b:a 8k"),
    ...both("mp4", "fragmented AAC", `-c:a aac -b:a 8k ${fragmented}`),
    ...both(
      "mp4",
      "fragmented AAC with base offsets",
      "-c:a aac -b:a 8k -movflags +frag_keyframe -frag_duration 700000",
    ),
    ...both("mp4", "Opus", "-c:a libopus -b:a 6k", { rate: 48_000 }),
    ...both("mp4", "fragmented Opus", `-c:a libopus -b:a 6k ${fragmented}`, { rate: 48_000 }),
    ...both("mp4", "MP3", "-c:a libmp3lame -b:a 16k", { rate: 16_000 }),
    ...both("mov", "MP3 in QuickTime", "-c:a libmp3lame -b:a 16k", { rate: 16_000 }),
    ...both("mp4", "MP2", "-c:a mp2 -b:a 16k", { rate: 16_000 }),
    ...both("m4a", "ALAC", "-c:a alac", { long: 8 }),
    ...both("mp4", "AC-3", "-c:a ac3 -b:a 32k", { rate: 48_000, long: 10 }),
    ...both("mp4", "E-AC-3", "-c:a eac3 -b:a 32k", { rate: 48_000, long: 10 }),
    ...both("mp4", "FLAC", "-c:a flac -strict -2", { long: 8 }),
    ...both("mp4", "Vorbis", "-c:a libvorbis -q:a -1", { rate: 8000 }),
    ...both("mp4", "DTS", "-c:a dca -b:a 320k -strict -2", { rate: 48_000, long: 4 }),
    ...both("mov", "IMA ADPCM", "-c:a adpcm_ima_qt"),
    ...both("mov", "mu-law", "-c:a pcm_mulaw"),
    ...both("mov", "s16 in QuickTime", "-c:a pcm_s16le", { long: 10 }),
    ...both("mov", "float in QuickTime", "-c:a pcm_f32le", { long: 5 }),
    ...both("mp4", "AAC and video", "-map 0 -map 1 -c:a aac -b:a 8k -c:v libx264 -preset ultrafast", {
      hasVideo: true,
    }),
    pair("mp4", "two AAC tracks", "-c:a aac -b:a 8k", [1, 20]),
    pair("mp4", "two AAC tracks", "-c:a aac -b:a 8k", [20, 1]),
    pair("mp4", "AAC and Opus tracks", "-c:a:0 aac -b:a 8k -c:a:1 libopus -ar:a:1 48000", [1, 20]),
    pair("mov", "AAC and AC-3 tracks", "-c:a:0 aac -b:a:0 8k -c:a:1 ac3 -ar:a:1 48000 -b:a:1 32k", [1, 10]),
    pair("mov", "AAC and MP2 tracks", "-c:a:0 aac -b:a:0 8k -c:a:1 mp2 -ar:a:1 16000 -b:a:1 16k", [1, 20]),
    pair("mov", "AAC and IMA ADPCM tracks", "-c:a:0 aac -b:a:0 8k -c:a:1 adpcm_ima_qt", [1, 20]),
    pair("mp4", "AAC tracks, the second in stereo", "-c:a aac -b:a 8k -ac:a:1 2", [1, 20]),
    pair(
      "mp4",
      "AAC and Opus tracks, the second in stereo",
      "-c:a:0 aac -b:a 8k -c:a:1 libopus -ar:a:1 48000 -ac:a:1 2",
      [1, 20],
    ),
    pair("mp4", "AAC and ALAC tracks, the second in stereo", "-c:a:0 aac -b:a 8k -c:a:1 alac -ac:a:1 2", [1, 5]),
    pair(
      "mov",
      "AAC and mu-law tracks, the second in stereo",
      "-c:a:0 aac -b:a:0 8k -c:a:1 pcm_mulaw -ac:a:1 2",
      [1, 10],
    ),
    pair("mp4", "fragmented tracks, the second in stereo", `-c:a aac -b:a 8k -ac:a:1 2 ${fragmented}`, [1, 20]),
    pair("mp4", "fragmented tracks", `-c:a aac -b:a 8k ${fragmented}`, [1, 20]),
  ],
  webm: [
    ...both("webm", "Opus", "-c:a libopus -b:a 6k -cluster_time_limit 1500", { rate: 48_000 }),
    ...both("webm", "Opus stereo, 60 ms", "-c:a libopus -b:a 8k -frame_duration 60 -cluster_time_limit 1500", {
      rate: 48_000,
      channels: 2,
    }),
    ...both("webm", "Opus live", "-c:a libopus -b:a 6k -live 1 -cluster_time_limit 1500", { rate: 48_000 }),
    ...both("webm", "Vorbis", "-c:a libvorbis -q:a -1 -cluster_time_limit 1500", { rate: 8000 }),
    ...both("mkv", "s16", "-c:a pcm_s16le -cluster_time_limit 1500", { long: 10 }),
    ...both("mkv", "AAC", "-c:a aac -b:a 8k -cluster_time_limit 1500"),
    ...both("mkv", "MP3", "-c:a libmp3lame -b:a 8k -cluster_time_limit 1500"),
    ...both("mkv", "AC-3", "-c:a ac3 -b:a 32k -cluster_time_limit 1500", { rate: 48_000, long: 10 }),
    ...both("mkv", "FLAC", "-c:a flac -cluster_time_limit 1500", { long: 8 }),
    ...both("mkv", "mu-law", "-c:a pcm_mulaw -cluster_time_limit 1500"),
    ...both(
      "webm",
      "Opus and video",
      "-map 0 -map 1 -c:a libopus -b:a 6k -c:v libvpx -b:v 4k -cluster_time_limit 1500",
      {
        hasVideo: true,
        rate: 48_000,
      },
    ),
    pair("webm", "two Opus tracks", "-c:a libopus -b:a 6k -ar 48000 -cluster_time_limit 1500", [1, 20]),
    pair("webm", "two Opus tracks", "-c:a libopus -b:a 6k -ar 48000 -cluster_time_limit 1500", [20, 1]),
    pair(
      "webm",
      "Opus tracks, the second in stereo",
      "-c:a libopus -b:a 8k -ar 48000 -ac:a:1 2 -cluster_time_limit 1500",
      [1, 20],
    ),
    pair(
      "mkv",
      "Opus and AAC tracks, the second in stereo",
      "-c:a:0 libopus -b:a:0 6k -ar:a:0 48000 -c:a:1 aac -b:a:1 8k -ac:a:1 2 -cluster_time_limit 1500",
      [1, 20],
    ),
    pair(
      "webm",
      "Vorbis and Opus tracks",
      "-c:a:0 libvorbis -q:a -1 -c:a:1 libopus -b:a:1 6k -ar:a:1 48000 -cluster_time_limit 1500",
      [1, 20],
    ),
    pair(
      "mkv",
      "Opus and AC-3 tracks",
      "-c:a:0 libopus -b:a:0 6k -c:a:1 ac3 -b:a:1 32k -ar 48000 -cluster_time_limit 1500",
      [1, 10],
    ),
  ],
}

const mono = (name: string, extension: string, output: string, rate = 8000, seconds = LONG): Recipe => ({
  name,
  extension,
  output: output.split(" "),
  seconds: [seconds],
  rate,
})

/** Other formats, to be put before, behind, between or into the parts of a file. */
const foreignRecipes: ReadonlyArray<Recipe> = [
  mono("Ogg Opus", "ogg", "-c:a libopus -b:a 6k", 48_000),
  mono("Ogg Vorbis", "ogg", "-c:a libvorbis -q:a -1"),
  mono("Ogg FLAC", "ogg", "-c:a flac", 8000, 8),
  mono("Ogg Speex", "ogg", "-c:a libspeex -b:a 4k"),
  mono("ADTS", "aac", "-c:a aac -b:a 8k"),
  mono("LATM", "latm", "-c:a aac -b:a 8k"),
  mono("AC-3", "ac3", "-c:a ac3 -b:a 32k", 48_000, 10),
  mono("E-AC-3", "eac3", "-c:a eac3 -b:a 32k", 48_000, 10),
  mono("DTS", "dts", "-c:a dca -b:a 320k -strict -2", 48_000, 5),
  mono("TrueHD", "thd", "-c:a truehd -strict -2", 48_000, 2),
  mono("S/PDIF of AC-3", "spdif", "-c:a ac3 -b:a 192k -f spdif", 48_000, 2),
  mono("S/PDIF of MPEG", "spdif", "-c:a mp2 -b:a 64k -f spdif", 48_000, 2),
  mono("MPEG-TS", "ts", "-c:a mp2 -b:a 16k -mpegts_flags +resend_headers", 16_000),
  mono("MPEG-PS", "mpg", "-c:a mp2 -b:a 32k", 32_000, 10),
  mono("FLAC", "flac", "-c:a flac", 8000, 8),
  mono("MP3", "mp3", "-b:a 8k -write_xing 0 -id3v2_version 0"),
  mono("MP2", "mp2", "-b:a 8k", 16_000),
  mono("AIFF", "aiff", "-c:a pcm_s16be", 8000, 10),
  mono("AU", "au", "-c:a pcm_mulaw"),
  mono("CAF", "caf", "-c:a pcm_mulaw"),
  mono("Wave64", "w64", "-c:a pcm_u8"),
  mono("WAV", "wav", "-c:a pcm_mulaw"),
  mono("AVI", "avi", "-c:a libmp3lame -b:a 8k"),
  mono("ASF", "asf", "-c:a wmav2 -b:a 32k", 16_000),
  mono("FLV", "flv", "-c:a nellymoser"),
  mono("NUT", "nut", "-c:a libopus -b:a 6k", 48_000),
  mono("True Audio", "tta", "-c:a tta", 8000, 8),
  mono("WavPack", "wv", "-c:a wavpack", 8000, 6),
  mono("GSM", "gsm", "-c:a libgsm"),
  mono("RealMedia", "rm", "-c:a real_144"),
  mono("VOC", "voc", "-c:a pcm_u8"),
  mono("MP4", "mp4", "-c:a aac -b:a 8k"),
  mono("fragmented MP4", "mp4", `-c:a aac -b:a 8k ${fragmented}`),
  mono("WebM", "webm", "-c:a libopus -b:a 6k", 48_000),
]

/** A file to be mutated. */
export interface Material {
  readonly name: string
  readonly root: Node
}

export interface Materials {
  readonly files: Readonly<Record<HostileFormat, ReadonlyArray<Material>>>
  readonly foreign: ReadonlyArray<{ readonly name: string; readonly bytes: Buffer }>
}

/** Returns the first line of ffmpeg's version; `undefined` if ffmpeg is not installed. */
export const ffmpegVersion = (): string | undefined => {
  try {
    return execFileSync(ffmpegPath, ["-version"], { encoding: "utf8" }).split("\n")[0]
  } catch {
    return undefined
  }
}

/** Returns a directory for this version of ffmpeg and of the recipes, which later runs reuse. */
export const cacheDirectory = (version: string): string => {
  const hash = createHash("sha256").update(JSON.stringify([version, recipes, foreignRecipes, signal(1)]))
  const path = join(tmpdir(), `kiln-hostile-${hash.digest("hex").slice(0, 12)}`)
  mkdirSync(path, { recursive: true })
  return path
}

/** A tone that changes and pauses, with a little noise, so that encoders write frames of many sizes. */
const signal = (seconds: number, rate = 8000, channels = 1): ReadonlyArray<string> => {
  const wave = "0.3*sin(2*PI*(200+90*sin(t))*t)*lt(mod(t\\,0.7)\\,0.5)+0.01*(random(0)-0.5)"
  const channel = Array.from({ length: channels }, () => wave).join("|")
  return ["-f", "lavfi", "-i", `aevalsrc=exprs='${channel}':s=${rate}:d=${seconds}`]
}

const fileOf = (directory: string, format: string, { extension, name }: Recipe): string =>
  join(directory, `${format} ${name.replaceAll("/", "")}.${extension}`)

/** Encodes the files that are missing from the directory, two at a time. */
export const encodeMaterials = async (directory: string): Promise<void> => {
  const jobs = [
    ...hostileFormats.flatMap((format) => recipes[format].map((recipe) => [format, recipe] as const)),
    ...foreignRecipes.map((recipe) => ["foreign", recipe] as const),
  ]
  const encode = async (): Promise<void> => {
    for (let job = jobs.pop(); job !== undefined; job = jobs.pop()) {
      const [format, recipe] = job
      const path = fileOf(directory, format, recipe)
      if (isThere(path)) continue
      const inputs = recipe.seconds.flatMap((seconds) => signal(seconds, recipe.rate, recipe.channels))
      const video = ["-f", "lavfi", "-i", `testsrc=size=32x32:rate=2:d=${recipe.seconds[0] ?? 1}`]
      const plain = ["-map_metadata", "-1", "-fflags", "+bitexact", "-flags:a", "+bitexact", "-threads", "1"]
      const partial = `${path}.partial.${process.pid}.${recipe.extension}`
      await promisify(execFile)(ffmpegPath, [
        "-v",
        "error",
        "-nostdin",
        "-y",
        ...inputs,
        ...(recipe.hasVideo === true ? video : []),
        ...plain,
        ...recipe.output,
        partial,
      ])
      renameSync(partial, path)
    }
  }
  await Promise.all([encode(), encode()])
}

const isThere = (path: string): boolean => {
  try {
    return readFileSync(path).length > 0
  } catch {
    return false
  }
}

/** Reads the encoded files as trees. */
export const loadMaterials = (directory: string): Materials => {
  const read = (format: HostileFormat, recipe: Recipe): Node => {
    const file = readFileSync(fileOf(directory, format, recipe))
    switch (format) {
      case "wav":
        return parseWav(file)
      case "mp3":
        return parseMp3(file)
      case "mp4":
        return parseMp4(file, recipe.name)
      case "webm":
        return parseWebm(file)
    }
  }
  const filesOf = (format: HostileFormat): ReadonlyArray<Material> =>
    recipes[format].map((recipe) => ({ name: recipe.name, root: read(format, recipe) }))
  const foreign = foreignRecipes.map((recipe) => ({
    name: recipe.name,
    bytes: readFileSync(fileOf(directory, "foreign", recipe)),
  }))
  return {
    files: { wav: filesOf("wav"), mp3: filesOf("mp3"), mp4: filesOf("mp4"), webm: filesOf("webm") },
    foreign: [...foreign, ...foreign.flatMap(withoutStuffing), ...handmade],
  }
}

/** Returns S/PDIF bursts without the zeros between them, which no decoder needs. */
const withoutStuffing = ({ bytes, name }: { readonly name: string; readonly bytes: Buffer }) => {
  if (!name.startsWith("S/PDIF")) return []
  const bursts: Array<Buffer> = []
  for (let at = 0; at + 8 <= bytes.length;) {
    const payload = Math.ceil(bytes.readUInt16LE(at + 6) / 16) * 2
    if (bytes.readUInt16LE(at) !== 0xf872 || payload === 0) {
      at += 2
      continue
    }
    bursts.push(bytes.subarray(at, at + 8 + payload))
    at += 8 + payload
  }
  return [{ name: `${name}, without stuffing`, bytes: Buffer.concat(bursts) }]
}

const repeated = (count: number, frame: ReadonlyArray<number>): Buffer =>
  Buffer.alloc(count * frame.length, Buffer.from(frame))

/** Returns 20 s of 8-bit samples in chunks of NSV, which ffmpeg finds anywhere in the first 2 KiB. */
const nsv = (): Buffer => {
  const sound = Buffer.concat([Buffer.from([8, 1, 0x00, 0x7d]), Buffer.alloc(1000, 0x80)])
  const chunk = (head: string): Buffer =>
    Buffer.concat([Buffer.from(head, "latin1"), Buffer.from([0, 0, 0, sound.length & 255, sound.length >> 8]), sound])
  return Buffer.concat([
    chunk("NSVsNONEPCM \0\0\0\0\x19\0\0"),
    ...Array.from({ length: 8 * LONG }, () => chunk("\xef\xbe")),
  ])
}

/** Formats that ffmpeg decodes and does not encode: NSV, and those of telephones with 20 ms a frame. */
const handmade = [
  { name: "NSV", bytes: nsv() },
  {
    name: "AMR",
    bytes: Buffer.concat([Buffer.from("#!AMR\n"), repeated(1000, [0x04, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])]),
  },
  { name: "EVRC", bytes: repeated(1000, [0x04, ...Array.from({ length: 22 }, (_, i) => i * 7)]) },
]

/** Returns a foreign format as a node. */
export const foreignNode = ({ bytes, name }: { readonly name: string; readonly bytes: Buffer }): Node =>
  opaque(name, bytes)
