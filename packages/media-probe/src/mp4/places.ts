import type { Box } from "@kiln/core/media"
import { ambiguous } from "./fields.ts"

/**
 * The places of all boxes that decoders act on, by the box that contains them. Decoders act on some of them anywhere, and disagree
 * about those that are elsewhere. Such a box makes the file unreadable; other boxes are skipped.
 */
export const contents: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries({
    file: "ftyp moov moof mdat sidx udta meta",
    moov: "mvhd trak mvex udta meta",
    trak: "tkhd mdia edts tref udta meta",
    mdia: "mdhd hdlr minf udta meta",
    minf: "hdlr dinf stbl",
    dinf: "dref",
    stbl: "stsd stts stsc stsz stz2 stco co64 ctts stss stps sdtp sgpd sbgp saiz saio senc",
    edts: "elst",
    mvex: "trex",
    moof: "traf pssh",
    traf: "tfhd tfdt trun sdtp sgpd sbgp saiz saio senc",
    tref: "chap tmcd",
    udta: "meta chpl",
    meta: "hdlr ilst",
    ilst: "----",
    sound: "esds alac wave chan enda dOps dfLa dac3 dec3 pcmC SA3D SAND",
    wave: "esds alac chan enda frma dOps dfLa dac3 dec3",
    picture: "esds sinf avcC hvcC av1C vpcC glbl jp2h strf fiel colr pasp dvc1 dvcC dvvC dvwC",
    sinf: "frma schm schi",
    schi: "tenc",
    nothing: "cmov hoov wfex adrm ddts dmlp ACLR APRG AALP ARES avss iloc pitm",
  }).map(([parent, types]) => [parent, new Set(types.split(" "))] as const),
)
export const known = new Set([...contents.values()].flatMap((types) => [...types]))

/** Boxes that may stand several times in the same box. */
const repeated = new Set(
  "ftyp trak trex moof mdat sidx traf trun pssh udta meta tref sgpd sbgp saiz saio senc chap tmcd colr ----".split(" "),
)

/** Boxes of which one stands for the other. */
export const same: Readonly<Record<string, string>> = { stz2: "stsz", co64: "stco" }

/** Boxes that have to come first, because decoders read in order. */
const first: Readonly<Record<string, ReadonlyArray<string>>> = {
  moof: ["moov"],
  trak: ["mvhd"],
  minf: ["mdhd", "hdlr"],
  trun: ["tfhd"],
}

/** Boxes whose content has to be boxes up to the end. */
export const strict = new Set("moov trak mdia minf dinf stbl edts mvex moof traf".split(" "))

/** Boxes beside the media data that decoders skip, or that describe the file as a whole. */
export const structure = new Set("free skip wide styp emsg mfra prft pdin ssix".split(" "))

/** Returns whether decoders act on a box in a box of the type `parent`. Throws if they do, and it is not in its place. */
export const isPlaced = (parent: string, { type }: Box, seen: Set<string>): boolean => {
  if (!known.has(type)) return false
  const name = same[type] ?? type
  if (!contents.get(parent)?.has(type)) throw ambiguous(`${type} in ${parent}`)
  if (seen.has(name) && !repeated.has(name)) throw ambiguous(`a second ${name} in ${parent}`)
  for (const before of first[name] ?? []) if (!seen.has(before)) throw ambiguous(`${name} without ${before}`)
  seen.add(name)
  return true
}
