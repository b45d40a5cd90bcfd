import { audioFormats } from "@kiln/core/domain"
import { fixture } from "../support/files.ts"
import { type HostileFile, LARGEST, noise } from "./HostileFile.ts"

const png = Buffer.from("89504e470d0a1a0a0000000d4948445200000001000000010806", "hex")
const files: Readonly<Record<string, () => Buffer>> = {
  "a byte": () => Buffer.from([0]),
  "a picture": () => Buffer.concat([png, noise(5000)]),
  "a document": () => Buffer.concat([Buffer.from("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "latin1"), noise(5000)]),
  "an archive": () => Buffer.concat([Buffer.from("PK\x03\x04\x14\0\0\0"), noise(5000)]),
  "a web page": () => Buffer.from(`<!doctype html><title>502</title>${" ".repeat(3000)}`),
  "nothing but zeros, 25 MiB of them": () => Buffer.alloc(LARGEST),
  "nothing but 0xff, 25 MiB of them": () => Buffer.alloc(LARGEST, 0xff),
}

const containers = { mp3: "cbr.mp3", mp4: "moov-first.m4a", wav: "pcm16.wav", webm: "opus.webm" } as const

/** Files that are not audio containers, and each container declared as every other one. */
export const otherFiles: ReadonlyArray<HostileFile> = audioFormats.flatMap((format) => [
  ...Object.entries(files).map(([name, file]) => ({
    name: `${format}: ${name}`,
    format,
    file,
    outcome: "refused" as const,
  })),
  ...Object.entries(containers)
    .filter(([container]) => container !== (format === "m4a" ? "mp4" : format))
    .map(([container, name]) => ({
      name: `${format}: really ${container}`,
      format,
      file: () => fixture(name),
      outcome: "refused" as const,
    })),
])
