import { type Box, viewOf } from "@kiln/core/media"
import { type AacConfig, readAacConfig } from "../codecs/aacConfig.ts"
import { unreadable } from "../Measurement.ts"
import { elementaryStream } from "./elementaryStream.ts"
import { ambiguous, field } from "./fields.ts"

/** The codec of a track, as far as it determines the duration of samples. */
export type SoundCodec =
  | { readonly type: "aac"; readonly config: AacConfig }
  | { readonly type: "alac"; readonly maxSamples: number; readonly sampleRate: number }
  /** Raw samples, or blocks of a fixed length. */
  | {
      readonly type: "blocks"
      readonly bytes: number
      readonly samples: number
      readonly sampleRate: number
      /** The one kind of table by which decoders agree about the samples. */
      readonly only?: "ticks" | "sizes" | undefined
    }
  | { readonly type: "flac"; readonly sampleRate: number }
  | { readonly type: "opus"; readonly preSkip: number }
  | { readonly type: "mpeg" | "ac3" }

/** The highest rate of any hardware. */
const MAX_SAMPLE_RATE = 768_000
const MAX_BLOCK_BYTES = 64 * 34

const soundFormats = new Set(
  (
    "mp4a,ac-3,sac3,ima4,alac,samr,sawb,dtsc,dtsh,dtsl,dtse,DTS ,ec-3,vdva,dvca,agsm,ilbc,MAC3,MAC6,.mp1,.mp2,.mp3,mp3 ,nmos,NELL,alaw," +
    "fl32,fl64,ulaw,twos,sowt,lpcm,ipcm,fpcm,in24,in32,raw ,NONE,Qclp,Qclq,sqcp,QDM2,QDMC,spex,SPXN,sevc,ssmv,fLaC,mlpa,Opus,mhm1,mha1," +
    "mhm2,mha2,ac-4,sawp,GSM ,alas,wma ,owma,OPUS,WMA2,enca,dtsx,dtsy,Vrbs,m4ae,aac "
  )
    .toUpperCase()
    .split(","),
)

/** Returns whether decoders take a sample entry for sound, whatever the handler of its track. They ignore the case of most names. */
export const isSoundFormat = (format: string): boolean =>
  soundFormats.has(format.toUpperCase()) || format.startsWith("ms") || format.startsWith("TS")

/** Returns the offset of the boxes in a sound entry, of which QuickTime has two longer versions. */
export const soundBoxesAt = (file: Uint8Array, entry: Box, descriptionVersion: number): number => {
  field(file, entry, 24)
  const version = viewOf(file).getUint16(entry.body + 8)
  // The other standard numbers its entries differently, so their length is uncertain.
  if (version > 2 || (version > 0 && descriptionVersion !== 0)) throw ambiguous("a sound entry of an unknown version")
  if (version === 2 && field(file, entry, 28) !== 72) throw ambiguous("a sound entry of an unknown length")
  const at = entry.body + (version === 0 ? 28 : version === 1 ? 44 : 64)
  if (at > entry.end) throw ambiguous("a sound entry that is cut short")
  return at
}

/** Reads a sound entry, given with the boxes in it. Throws if the codec is not measured. */
export const soundCodec = (
  file: Uint8Array,
  entry: Box,
  boxes: ReadonlyMap<string, Box>,
  ticksPerSecond: number,
): SoundCodec => {
  const format = entry.type
  for (const [type, owners] of Object.entries(details))
    if (boxes.has(type) && !owners.includes(format)) throw ambiguous(`${type} in ${format}`)
  const frma = boxes.get("frma")
  if (frma !== undefined && formatOf(file, frma) !== format) throw ambiguous("two formats of one track")
  const { channels, sampleRate } = formatFields(file, entry, ticksPerSecond)
  switch (format) {
    case "mp4a":
      return mpeg4(file, boxes.get("esds"))
    case ".mp3":
    case ".mp2":
    case "mp3 ":
    case "ms\0U":
    case "ms\0P":
      return { type: "mpeg" }
    case "Opus": {
      const dOps = boxes.get("dOps")
      return { type: "opus", preSkip: dOps === undefined ? 0 : field(file, dOps, 0) & 0xffff }
    }
    case "ac-3":
    case "ec-3":
      return { type: "ac3" }
    case "alac":
      return alac(file, boxes, sampleRate)
    case "fLaC":
      return flac(file, boxes.get("dfLa"))
    case "ima4":
      return blocks(34 * channels, 64, sampleRate)
    case "agsm":
      return blocks(33, 160, sampleRate)
    default:
      return pcm(file, entry, boxes.get("pcmC"), channels, sampleRate)
  }
}

/** The only formats in which these boxes may stand; decoders take them as the configuration of any codec. */
const details: Readonly<Record<string, ReadonlyArray<string>>> = {
  esds: ["mp4a"],
  alac: ["alac"],
  dOps: ["Opus"],
  dfLa: ["fLaC"],
  dac3: ["ac-3"],
  dec3: ["ec-3"],
  pcmC: ["ipcm", "fpcm"],
}

const formatOf = (file: Uint8Array, box: Box): string => {
  field(file, box, 0)
  return String.fromCharCode(...file.subarray(box.body, box.body + 4))
}

const unsupported = (format: string) => unreadable(`mp4: unsupported codec ${format.replaceAll(/[^ -~]/g, "?")}`)

const isRate = (rate: number): boolean => rate >= 1 && rate <= MAX_SAMPLE_RATE

const mpeg4 = (file: Uint8Array, esds: Box | undefined): SoundCodec => {
  const stream = esds && elementaryStream(file, esds)
  if (stream === undefined) throw unsupported("mp4a")
  const { from, objectType, to } = stream
  if (objectType === 0x69 || objectType === 0x6b) return { type: "mpeg" }
  const isAac = objectType === 0x40 || (objectType >= 0x66 && objectType <= 0x68)
  const config = isAac ? readAacConfig(file.subarray(from, to)) : undefined
  if (config === undefined) throw unsupported("mp4a")
  return { type: "aac", config }
}

/** Reads the magic cookie. */
const alac = (file: Uint8Array, boxes: ReadonlyMap<string, Box>, entryRate: number): SoundCodec => {
  const cookie = boxes.get("alac")
  // Some decoders take the content of a wave that begins with anything else for the cookie.
  if (cookie === undefined || (boxes.has("wave") && !boxes.has("frma"))) throw ambiguous("ALAC without its cookie")
  const maxSamples = field(file, cookie, 4)
  const cookieRate = field(file, cookie, 24)
  const sampleRate = cookie.end - cookie.body === 28 ? cookieRate : entryRate
  if (maxSamples === 0 || maxSamples > 65_536 || !isRate(sampleRate)) throw unsupported("alac")
  return { type: "alac", maxSamples, sampleRate }
}

const flac = (file: Uint8Array, box: Box | undefined): SoundCodec => {
  if (box === undefined || ((field(file, box, 4) >>> 24) & 0x7f) !== 0) throw unsupported("fLaC")
  const sampleRate = field(file, box, 18) >>> 12
  if (!isRate(sampleRate)) throw unsupported("fLaC")
  return { type: "flac", sampleRate }
}

const blocks = (bytes: number, samples: number, sampleRate: number, only?: "ticks" | "sizes"): SoundCodec => {
  if (bytes < 1 || bytes > MAX_BLOCK_BYTES || !isRate(sampleRate)) throw unreadable("mp4: invalid format of samples")
  return { type: "blocks", bytes, samples, sampleRate, only }
}

/** Returns the channels and the rate that a sound entry states; the time scale stands for a rate that does not fit. */
const formatFields = (file: Uint8Array, entry: Box, ticksPerSecond: number) => {
  const view = viewOf(file)
  return view.getUint16(entry.body + 8) === 2
    ? { channels: view.getUint32(entry.body + 40), sampleRate: Math.trunc(view.getFloat64(entry.body + 32)) }
    : { channels: view.getUint16(entry.body + 16), sampleRate: view.getUint16(entry.body + 24) || ticksPerSecond }
}

const pcm = (file: Uint8Array, entry: Box, pcmC: Box | undefined, channels: number, sampleRate: number): SoundCodec => {
  const view = viewOf(file)
  const version = view.getUint16(entry.body + 8)
  const bits = version === 2 ? view.getUint32(entry.body + 48) : view.getUint16(entry.body + 18)
  const packetSamples = version === 0 ? 1 : view.getUint32(entry.body + (version === 1 ? 28 : 60))
  const ownBits = pcmC === undefined ? bits : field(file, pcmC, 2) % 256
  // Where raw samples are counted in ticks, some decoders read packets of that many; elsewhere, some go by the entry's width.
  const only = packetSamples > 1 ? "sizes" : ownBits === bits ? undefined : "ticks"
  if (packetSamples > 1 && ownBits !== bits) throw ambiguous("a format of raw samples")
  return blocks(channels * pcmBytes(entry.type, ownBits, version === 2), 1, sampleRate, only)
}

/** Returns the bytes per sample that decoders read for a format, with the stated number of bits. */
const pcmBytes = (format: string, bits: number, isLong: boolean): number => {
  switch (format) {
    case "ulaw":
    case "alaw":
      return 1
    case "raw ":
    case "NONE":
      return bits === 16 ? 2 : 1
    case "in24":
      return 3
    case "in32":
    case "fl32":
      return 4
    case "fl64":
      return 8
    case "fpcm":
      return bits === 64 ? 8 : 4
    case "lpcm":
      return isLong ? Math.ceil(bits / 8) : integerBytes(bits)
    case "twos":
    case "sowt":
    case "ipcm":
      return integerBytes(bits)
    default:
      throw unsupported(format)
  }
}

const integerBytes = (bits: number): number => (bits === 8 || bits === 24 || bits === 32 ? bits / 8 : 2)
