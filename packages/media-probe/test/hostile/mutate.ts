import { createHash } from "node:crypto"
import { addMissingMedia, type Edit, generalEdits, type Workshop } from "./edits.ts"
import type { HostileFormat, Material, Materials } from "./materials.ts"
import { mp3Edits } from "./mp3Edits.ts"
import { mp4Edits } from "./mp4Edits.ts"
import { cloned, render } from "./nodes.ts"
import { Random } from "./random.ts"
import { wavEdits } from "./wavEdits.ts"
import { webmEdits } from "./webmEdits.ts"

/** A file with errors, decoys or tricks in it. */
export interface Variant {
  readonly format: HostileFormat
  readonly index: number
  readonly base: string
  readonly edits: ReadonlyArray<string>
  readonly bytes: Buffer
  /** Hexadecimal digest of the bytes. */
  readonly sha256: string
}

const COMMON = /^(fragmented )?(AAC|Opus|Vorbis|MP3|s16|u8|mu-law|ALAC|two|8 kHz|16 kHz|variable)/

/** Larger files cost time and show nothing more. */
const MAX_BYTES = 700_000

const ownEdits: Readonly<Record<HostileFormat, ReadonlyArray<Edit>>> = {
  wav: wavEdits,
  mp3: mp3Edits,
  mp4: mp4Edits,
  webm: webmEdits,
}

/** Makes a variant: one to three edits of a small valid file. The same arguments and materials give the same bytes. */
export const makeVariant = (materials: Materials, format: HostileFormat, seed: number, index: number): Variant => {
  const random = new Random(seed, format, index)
  const files = materials.files[format]
  const isShort = ({ name }: Material): boolean => name.endsWith("short")
  const isLong = ({ name }: Material): boolean => name.endsWith("long")
  // Encodings that browsers and telephones write are the ones that a probe accepts, and only those can be measured short.
  const bases = random.chance(0.6) ? files.filter(({ name }) => COMMON.test(name)) : files
  const isMixed = (file: Material): boolean => !isShort(file) && !isLong(file)
  // A short base with a long donor shows most: if a reader follows the wrong one, it is off by a factor of ten.
  const kind = random.below(10)
  const base = random.pick(bases.filter(kind < 4 ? isShort : kind < 7 ? isLong : isMixed).concat(kind < 7 ? [] : files))
  const likeBase = files.filter(({ name }) => name === base.name.replace("short", "long"))
  const long = likeBase.length > 0 && random.chance(0.5) ? random.pick(likeBase) : random.pick(files.filter(isLong))
  const short = random.pick(files.filter(isShort))
  const workshop: Workshop = {
    random,
    format,
    root: cloned(base.root),
    donors: random.chance(0.8) ? [long, short] : [long],
    foreign: materials.foreign,
  }
  const edits: Array<string> = []
  const count = random.between(1, 3)
  for (let tries = 0; edits.length < count && tries < 12; tries++) {
    const edit = random.pick(random.chance(0.55) ? generalEdits : ownEdits[format])
    const done = attempt(edit, workshop)
    if (done !== undefined) edits.push(done)
  }
  if (random.chance(0.95)) addMissingMedia(workshop.root, workshop.donors)
  const bytes = render(workshop.root).subarray(0, MAX_BYTES)
  return { format, index, base: base.name, edits, bytes, sha256: createHash("sha256").update(bytes).digest("hex") }
}

/** Runs an edit. An earlier edit may have left a table too short for it; then it does not apply. */
const attempt = (edit: Edit, workshop: Workshop): string | undefined => {
  try {
    return edit(workshop)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}
