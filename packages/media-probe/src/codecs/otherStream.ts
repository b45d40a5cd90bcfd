import { adtsFrameAt, crc16, id3End, startsWith, viewOf } from "@kiln/core/media"
import type { Walk, Work } from "../Work.ts"
import { sureFrame } from "./mpegFrames.ts"

// Decoders choose a format by the bytes, not by what a file claims to be, and an hour of compressed frames fits into seconds of
// samples or of larger frames. The conditions here are those of ffmpeg's probes: with fewer frames it does not switch either.

/** Returns the length of the frame at an offset; 0 without one. */
type LengthAt = (data: Uint8Array, at: number) => number

/** As probes recognize AAC in ADTS frames, by less than a decoder needs. */
const adtsBytes: LengthAt = (data, at) => {
  if (data[at] !== 0xff || ((data[at + 1] ?? 0) & 0xf6) !== 0xf0 || at + 7 > data.length) return 0
  const bytes = (((data[at + 3] ?? 0) & 3) << 11) | ((data[at + 4] ?? 0) << 3) | ((data[at + 5] ?? 0) >> 5)
  return bytes < 7 ? 0 : bytes
}

/** AAC in LOAS frames. */
const loasBytes: LengthAt = (data, at) => {
  if (data[at] !== 0x56 || ((data[at + 1] ?? 0) & 0xe0) !== 0xe0 || at + 3 > data.length) return 0
  const bytes = (((data[at + 1] ?? 0) & 0x1f) << 8) + (data[at + 2] ?? 0) + 3
  return bytes < 7 ? 0 : bytes
}

const ac3Kbps = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640]

/** AC-3 and E-AC-3 in either byte order; an extra header of 16 bytes may precede a frame. */
const ac3Bytes: LengthAt = (data, at) => {
  const extra = data[at] === 1 && data[at + 1] === 0x10 ? 16 : 0
  const start = at + extra
  const swapped = data[start] === 0x77 ? 1 : 0
  const byte = (offset: number): number => data[start + (offset ^ swapped)] ?? 0
  if (byte(0) !== 0x0b || byte(1) !== 0x77) return 0
  const streamId = byte(5) >> 3
  const rate = byte(4) >> 6
  const code = byte(4) & 0x3f
  const kbps = ac3Kbps[code >> 1] ?? 0
  const isEnhanced = streamId > 10 && streamId <= 16 && byte(2) < 0xc0
  const ofRate = [kbps * 4, (Math.floor((320 * kbps) / 147) + (code & 1)) * 2, kbps * 6, 0]
  const bytes = isEnhanced ? (((byte(2) & 7) << 8) + byte(3) + 1) * 2 : streamId <= 10 ? (ofRate[rate] ?? 0) : 0
  return bytes < 7 || start + bytes > data.length ? 0 : extra + bytes
}

/** The same, with the checksum. */
const checkedAc3Bytes: LengthAt = (data, at) => {
  const bytes = ac3Bytes(data, at)
  const start = data[at] === 1 ? at + 16 : at
  let frame = data.subarray(start, at + bytes)
  if (frame[0] === 0x77) {
    frame = frame.slice()
    for (let index = 0; index + 1 < frame.length; index += 2)
      [frame[index], frame[index + 1]] = [frame[index + 1] ?? 0, frame[index] ?? 0]
  }
  return crc16(frame, 2, frame.length) === 0 ? bytes : 0
}

/** Steps of work for the checksum of a frame. */
const CHECKSUM_STEPS = 600

const framesFrom = (data: Uint8Array, from: number, lengthAt: LengthAt, enough: number): boolean => {
  let at = from
  for (let frames = 0; frames < enough; frames++) {
    const bytes = lengthAt(data, at)
    if (bytes === 0) return false
    at += bytes
  }
  return true
}

/** A 32-bit word that begins each frame, and what must follow it there; `data[at]` is its first byte. */
interface SyncWord {
  readonly name: string
  readonly word: number
  /** Number of occurrences that rules out coincidence. */
  readonly enough: number
  readonly isHeader: (data: Uint8Array, at: number) => boolean
}

/** Returns whether the header of a DTS frame is possible, in either byte order. */
const isDts =
  (swapped: 0 | 1) =>
  (data: Uint8Array, at: number): boolean => {
    const byte = (offset: number): number => data[at + (offset ^ swapped)] ?? 0
    const blocks = ((byte(4) & 1) << 6) | (byte(5) >> 2)
    const frameBytes = (((byte(5) & 3) << 12) | (byte(6) << 4) | (byte(7) >> 4)) + 1
    const mode = ((byte(7) & 15) << 2) | (byte(8) >> 6)
    return byte(4) >= 0xfc && (blocks & 7) === 7 && frameBytes >= 96 && mode < 10
  }

/** Distances between bursts of IEC 61937, by data type. The one of type 7 follows from the frame inside. */
const burstBytes = [0, 6144, 0, 0, 1536, 1536, 4608, 0, 3072, 9216, 4608, 2048, 4096, 8192]

const isBurst = (data: Uint8Array, at: number): boolean => {
  const type = data[at + 4] ?? 0
  const distance = type === 7 ? 4 * (adtsFrameAt(data, at + 8)?.samples ?? 0) : (burstBytes[type] ?? 0)
  return distance > 0 && startsWith(data, at + distance, "\x72\xf8\x1f\x4e")
}

const syncWords: ReadonlyArray<SyncWord> = [
  { name: "DTS", word: 0x7ffe8001, enough: 4, isHeader: isDts(0) },
  { name: "DTS", word: 0xfe7f0180, enough: 4, isHeader: isDts(1) },
  {
    name: "DTS",
    word: 0x1fffe800,
    enough: 4,
    isHeader: (data, at) => data[at + 4] === 7 && (data[at + 5] ?? 0) >= 0xf0,
  },
  {
    name: "DTS",
    word: 0xff1f00e8,
    enough: 4,
    isHeader: (data, at) => data[at + 5] === 7 && (data[at + 4] ?? 0) >= 0xf0,
  },
  { name: "DTS", word: 0x64582025, enough: 4, isHeader: () => true },
  { name: "TrueHD", word: 0xf8726fba, enough: 8, isHeader: () => true },
  { name: "IEC 61937", word: 0x72f81f4e, enough: 1, isHeader: isBurst },
]

const bursts = syncWords.filter(({ isHeader }) => isHeader === isBurst)

const programStream: SyncWord = {
  name: "MPEG-PS",
  word: 0x000001ba,
  enough: 3,
  isHeader: (data, at) => ((data[at + 4] ?? 0) & 0xc4) === 0x44 || ((data[at + 4] ?? 0) & 0xf1) === 0x21,
}

/** Returns the name of a stream whose sync word occurs often enough. */
function* wordsFound(
  data: Uint8Array,
  from: number,
  to: number,
  words: ReadonlyArray<SyncWord>,
  work: Work,
): Walk<string | undefined> {
  const known = new Map(words.map((word) => [word.word | 0, word]))
  const firsts = Uint8Array.from({ length: 256 }, (_, byte) => (words.some(({ word }) => word >>> 24 === byte) ? 1 : 0))
  const counts = new Map<SyncWord, number>()
  for (let at = from; at + 4 <= to; at++) {
    if ((at & 0xfff) === 0 && work.spend(40)) yield
    if (firsts[data[at] ?? 0] === 0) continue
    const bytes =
      ((data[at] ?? 0) << 24) | ((data[at + 1] ?? 0) << 16) | ((data[at + 2] ?? 0) << 8) | (data[at + 3] ?? 0)
    const word = known.get(bytes)
    if (word === undefined || !word.isHeader(data, at)) continue
    const count = (counts.get(word) ?? 0) + 1
    if (count >= word.enough) return word.name
    counts.set(word, count)
  }
  return undefined
}

/**
 * Finds compressed frames in a window from the beginning of samples of 16 bits, which decoders then play instead of the samples.
 * Returns the name of the format.
 */
export function* streamInSamples(window: Uint8Array, file: Uint8Array, work: Work): Walk<string | undefined> {
  // A steady signal can begin like ADTS; its headers are impossible then, and no frames follow.
  if (framesFrom(window, 0, adtsBytes, 3) && (yield* hasAdtsFrames(file, work))) return "AAC"
  if (framesFrom(window, 0, loasBytes, 3)) return "AAC"
  if (framesFrom(window, 0, checkedAc3Bytes, 7)) return "AC-3"
  if (sureFrame(window, 0) !== undefined) return "MPEG audio"
  return yield* wordsFound(window, 0, window.length, syncWords, work)
}

/** Finds the bursts of a digital link in samples of any width. */
export function* burstsInSamples(window: Uint8Array, work: Work): Walk<string | undefined> {
  return yield* wordsFound(window, 0, window.length, bursts, work)
}

function* hasAdtsFrames(file: Uint8Array, work: Work): Walk<boolean> {
  for (let at = 0; at < file.length; at++) {
    if ((at & 0x3fff) === 0 && work.spend(16)) yield
    if (file[at] === 0xff && framesFrom(file, at, (data, next) => adtsFrameAt(data, next)?.bytes ?? 0, 3)) return true
  }
  return false
}

/**
 * The beginnings of other files that hold sound and that ffmpeg recognizes, as far as they are text. A file that begins in another
 * way than an MP3 is refused by `isLead`, so this list matters only for a beginning that could be the rest of a tag.
 */
const beginnings = (
  "OggS,fLaC,RIFF,RIFX,RF64,BW64,riff,FORM,FRM8,.snd,caff,wvpk,MAC ,TTA1,tBaK,MPCK,MP+,#!AMR,#!SILK,#!iLBC,ADIF,FLV,.RMF,.ra,.R1M," +
  ".REC,Creative,DSD ,MThd,NIST,ajkg,ea3,EA3,DTSHDHDR,2BIT,SOUND,VQF,TWIN,PVF1,.SoX,XoS.,VAGp,1bit,RSTM,FSTM,CSTM,STRM,FSB,XVAG,MSF," +
  "SShd,Svag,SVS,GENH,KVAG,@UTF,AAC ,AIXF,ALP ,CRYO_APC,ASF,BRPP,1FCB,DERF,DAHUA,DHAV,DEXA,1SNh,SCHl,SEAD,SHEN,kVGT,MADk,MPCh,MVhd," +
  "MVIh,AVP6,fap , paf,KDK,FWSE,HCA,#EXTM3U,ffconcat,<,IMA_ADPCM_Sound,JV,LVFF,luo ,MADP,MUSX,MOVI,AMV,NSV,NuppelVideo,MythTVVideo," +
  "Packed Animation,pmpm,ARMovie,RSD,SEDB,SRA,SDX:,FILM,SIFF,SMK,SANM,ANIM,THP,TMAV,vividas03,VPK ,ALawSoundFile,XA,BIK,KB2,SMUS,BF&I," +
  "VID,YO,CWS,FWS,AV,RED,NESM,GBS,ZXAY,HESM,KSCC,KSSX,SAP,SNES,Vgm,GYMX,Extended Module:,IMPM,MTM,PSM,MAS_UTrack,OKTA,MMD,DDMF"
).split(",")

/** Texts at an offset by which other formats are recognized, whatever their first bytes are. */
const markers: ReadonlyArray<readonly [offset: number, text: string]> = [
  ..."ftyp,moov,mdat,free,skip,wide,pnot,styp,moof,sidx,udta,ediw,junk,pict,uuid,prfl,\x82\x82\x7f\x7d,RED1,\x57\x90\x75\x36"
    .split(",")
    .map((text) => [4, text] as const),
  [12, "xobX"],
  [16, "\xaf\xde\0\0"],
  [44, "SCRM"],
  [65, "FSSD"],
  [213, "Sega Stream"],
  ...["M.K.", "M!K!", "FLT4", "FLT8", "4CHN", "6CHN", "8CHN", "CD81", "OKTA"].map((text) => [1080, text] as const),
]

/** Bytes that identify another format anywhere in the part by which decoders choose. */
const signatures = [
  { name: "NUT", bytes: Buffer.from("4e4d7a561f5f04ad", "hex") },
  { name: "MXF", bytes: Buffer.from("060e2b34020501010d010201", "hex") },
  { name: "NSV", bytes: Buffer.from("NSVs") },
  { name: "Interplay MVE", bytes: Buffer.from("Interplay MVE File\x1a\0\x1a") },
  { name: "TiVo", bytes: Buffer.from("f5467abd0000000200020000", "hex") },
]

/** Decoders look at this many bytes first, and at twice as many each time that they are unsure. */
export const MIN_PROBE = 2_048

/** Returns the name of a format that decoders recognize anywhere in these bytes. */
export const signatureIn = (window: Uint8Array): string | undefined => {
  const buffer = Buffer.from(window.buffer, window.byteOffset, window.length)
  return signatures.find(({ bytes }) => buffer.includes(bytes))?.name
}

/**
 * Returns the parts of the file by which decoders choose its format, until they are sure at the offset `sure`. ffmpeg skips only the
 * first tag, and doubles its buffer from 2,048 bytes on, at least until some bytes follow the tag. The last part is the longest.
 */
export const probedWindows = (file: Uint8Array, sure = 0): readonly [...Array<Uint8Array>, Uint8Array] => {
  const start = Math.min(file.length, id3End(file, 0))
  const windows: Array<Uint8Array> = []
  for (let end = MIN_PROBE; ; end *= 2) {
    const window = file.subarray(start, end)
    if (end >= file.length || end > Math.max(sure, start + 32)) return [...windows, window]
    if (end > start + 16) windows.push(window)
  }
}

/** Returns whether probes take one of these windows for packets of MPEG-TS. */
export function* isPacketStream(windows: ReadonlyArray<Uint8Array>, work: Work): Walk<boolean> {
  for (const window of windows) {
    if (work.spend(window.length / 20)) yield
    if (isTransportStream(window)) return true
  }
  return false
}

/** Finds a format that decoders prefer to MP3, in the bytes by which they choose. Returns its name. */
export function* otherStream(
  windows: readonly [...Array<Uint8Array>, Uint8Array],
  work: Work,
): Walk<string | undefined> {
  const window = windows[windows.length - 1] ?? windows[0]
  if (isOtherFile(window)) return "another kind of file"
  if (yield* isPacketStream(windows, work)) return "MPEG-TS"
  const speech = yield* headlessSpeech(windows, work)
  if (speech !== undefined) return speech
  const signature = signatureIn(window)
  if (signature !== undefined) return signature
  for (let at = 0; at < window.length; at++) {
    if ((at & 0xfff) === 0 && work.spend(40)) yield
    const byte = window[at]
    if (byte === 0xff ? framesFrom(window, at, adtsBytes, 4) : byte === 0x56 && framesFrom(window, at, loasBytes, 6))
      return "AAC"
    if ((byte === 0x0b || byte === 0x77) && framesFrom(window, at, ac3Bytes, 4)) {
      if (work.spend(CHECKSUM_STEPS)) yield
      if (framesFrom(window, at, checkedAc3Bytes, 4)) return "AC-3"
    }
  }
  return yield* wordsFound(window, 0, window.length, [...syncWords, programStream], work)
}

/** Returns whether a file begins like one of another format that holds sound. */
export const isOtherFile = (file: Uint8Array): boolean =>
  beginnings.some((text) => startsWith(file, 0, text)) ||
  markers.some(([offset, text]) => startsWith(file, offset, text)) ||
  isRedSpark(file) ||
  isBank(file)

/** Returns whether the second word is the one that RedSpark derives from the first, which is arbitrary. */
const isRedSpark = (data: Uint8Array): boolean => {
  if (data.length < 8) return false
  const rotated = (value: number, count: number): number => (value << count) | (value >>> (32 - count))
  const key = rotated(viewOf(data).getUint32(0) ^ 0x52656453, 11)
  return ((viewOf(data).getUint32(4) ^ ((key + rotated(key, 3)) | 0)) | 0) === 0x7061726b
}

/** Returns whether the rates of a bank of sounds and of its first sound agree; the rest of such a file is hardly checked. */
const isBank = (data: Uint8Array): boolean => {
  if (data.length < 32) return false
  const rate = viewOf(data).getUint32(4, true)
  return [5512, 11_025, 22_050, 44_100].includes(rate) && rate === viewOf(data).getUint32(28, true)
}

const amrBytes = [
  [13, 14, 16, 18, 20, 21, 27, 32, 6],
  [18, 24, 33, 37, 41, 47, 51, 59, 61, 6],
]

/** Finds GSM and AMR without a header, which decoders recognize by a few bits of each frame, in each window. */
function* headlessSpeech(windows: ReadonlyArray<Uint8Array>, work: Work): Walk<string | undefined> {
  for (const window of windows) {
    if (work.spend(window.length / 200)) yield
    if (isGsm(window)) return "GSM"
    if (amrBytes.some((sizes) => isAmr(window, sizes))) return "AMR"
  }
  return undefined
}

const isGsm = (data: Uint8Array): boolean => {
  let [valid, invalid] = [0, 0]
  for (let at = 0; at < data.length - 32; at += 33) {
    if (((data[at] ?? 0) & 0xf0) === 0xd0) valid++
    else invalid++
  }
  return valid >> 5 > invalid
}

const isAmr = (data: Uint8Array, sizes: ReadonlyArray<number>): boolean => {
  let [valid, invalid] = [0, 0]
  for (let at = 0; at < data.length;) {
    const byte = data[at] ?? 0
    let size = sizes[(byte >> 3) & 15] ?? 0
    if (size === 0 || (byte & 4) === 0) {
      valid = 0
      invalid++
      at++
      continue
    }
    // Probes do not count frames of one repeated byte.
    while (size-- > 0) if (data[++at] !== byte) break
    if (size > 0) {
      valid++
      at += size
    }
  }
  return valid > 100 && valid >> 4 > invalid
}

/** Returns whether most packets of a block begin with the sync byte, as probes count them. */
const isTransportStream = (data: Uint8Array): boolean => {
  const packets = Math.floor(data.length / 204)
  if (packets <= 10) return false
  return [188, 192, 204].some((packetBytes) => {
    for (let first = 0; first < packets; first += 100) {
      const left = Math.min(packets - first, 100)
      const counts = new Uint8Array(packetBytes)
      for (let at = 0; at < packetBytes * left; at++) {
        const packet = packetBytes * first + at
        if (data[packet] === 0x47 && ((data[packet + 3] ?? 0) & 0x30) !== 0)
          counts[at % packetBytes] = (counts[at % packetBytes] ?? 0) + 1
      }
      if (left > 10 && Math.max(...counts) > 0.6 * left) return true
    }
    return false
  })
}
