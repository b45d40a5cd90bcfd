import { fixture, patched } from "../support/files.ts"
import { adtsFrame, fastFrame, id3, layer2Frame, otherFrame, slowFrame } from "./frames.ts"
import { family, type HostileFile, LARGEST, largest, noise, times } from "./HostileFile.ts"

const second = times(14, slowFrame)
/** Frames that decoders find although they are not consecutive. */
const apart = (...frames: ReadonlyArray<Buffer>): Buffer =>
  Buffer.concat(frames.flatMap((frame) => [frame, Buffer.from([0x2a])]))
const honest = () => fixture("cbr.mp3")
const xingOfOne = (): Buffer => {
  const info = patched(fastFrame, 21, 0x58, 0x69, 0x6e, 0x67, 0, 0, 0, 1, 0, 0, 0, 1)
  return Buffer.concat([info, times(60_000, fastFrame)]).subarray(0, LARGEST)
}

export const mp3Files: ReadonlyArray<HostileFile> = family("mp3", {
  "20 minutes": ["audio_too_long", () => times(17_400, slowFrame)],
  "an encoder's table says one frame, eleven minutes follow": [656, xingOfOne],
  "20 minutes with a byte between the frames": [
    "audio_unreadable",
    () => Buffer.concat([second, times(17_400, apart(slowFrame))]),
  ],
  "20 minutes of two kinds in turns, a byte between": [
    "audio_unreadable",
    () => Buffer.concat([second, times(10_100, apart(slowFrame, otherFrame))]),
  ],
  "four minutes with a byte between the frames": [
    "audio_unreadable",
    () => Buffer.concat([second, times(3400, apart(slowFrame))]),
  ],
  "20 minutes hidden in the payload of half a minute": [
    33,
    () => times(1350, Buffer.concat([fastFrame.subarray(0, 5), times(13, apart(slowFrame)), Buffer.alloc(6)])),
  ],
  "20 minutes of layer II behind a second": ["audio_too_long", () => Buffer.concat([second, times(8700, layer2Frame)])],
  "20 minutes of AAC behind a second": [
    "audio_unreadable",
    () => Buffer.concat([id3(0), second, times(9800, adtsFrame)]),
  ],
  "20 minutes of AAC alone": ["audio_unreadable", () => Buffer.concat([id3(0), times(9800, adtsFrame)])],
  "20 minutes behind a malformed tag": [
    "audio_too_long",
    () => Buffer.concat([id3(0), patched(id3(0), 8, 0xff, 0xff), times(17_400, slowFrame), second]),
  ],
  "a tag over the whole file": ["audio_unreadable", () => largest(id3(LARGEST - 10), slowFrame)],
  "a tag over more than the file": ["audio_unreadable", () => Buffer.concat([id3(0x0fff_ffff), second])],
  "25 MiB of tags without bytes": ["audio_unreadable", () => largest(id3(0), id3(0))],
  "25 MiB of 0xff": ["audio_unreadable", () => largest(id3(0), Buffer.from([0xff]))],
  "25 MiB of 0xff behind a second": ["audio_unreadable", () => largest(second, Buffer.from([0xff]))],
  "25 MiB of headers, none where it should be": [
    "audio_unreadable",
    () => largest(second, Buffer.from([0xff, 0xfb, 0x90, 0x64, 0])),
  ],
  "25 MiB of the beginnings of headers": ["audio_unreadable", () => largest(id3(0), Buffer.from([0xff, 0xe3]))],
  "25 MiB of noise behind a second": ["audio_unreadable", () => Buffer.concat([second, noise(LARGEST - 2000)])],
  "25 MiB of zeros behind a second": [2, () => largest(second, Buffer.alloc(1))],
  "another kind of file behind a few frames": [
    "audio_unreadable",
    () => Buffer.concat([id3(0), second, Buffer.from("fLaC"), noise(900_000)]),
  ],
  "three seconds and a tag at the end": [3, () => Buffer.concat([honest(), Buffer.from("APETAGEX"), noise(100_000)])],
  "cut within a frame": [2, () => honest().subarray(0, 5000)],
  "a byte short": [3, () => honest().subarray(0, -1)],
  "a byte long": [3, () => Buffer.concat([honest(), Buffer.from([0])])],
  "two recordings in one": [6, () => Buffer.concat([honest(), fixture("vbr-tagged.mp3")])],
  "a single frame": ["audio_unreadable", () => slowFrame],
  "a header": ["audio_unreadable", () => slowFrame.subarray(0, 4)],
})
