import { readFileSync, writeFileSync } from "node:fs"

const url = new URL("expected.tsv", import.meta.url)

/** Durations of recipes' files by full decode with ffmpeg, and why some files are left out. */
export interface Expected {
  readonly seconds: ReadonlyMap<string, number>
  readonly excluded: ReadonlyMap<string, string>
}

export const readExpected = (): Expected => {
  const seconds = new Map<string, number>()
  const excluded = new Map<string, string>()
  for (const line of readFileSync(url, "utf8").split("\n")) {
    const [name = "", value = ""] = line.split("\t")
    if (name.startsWith("# ")) {
      if (value !== "") excluded.set(name.slice(2), value)
    } else if (name !== "") seconds.set(name, Number(value))
  }
  return { seconds, excluded }
}

export const writeExpected = ({ excluded, seconds }: Expected): void => {
  const lines = [
    "# Seconds of each file, counted in samples by a full decode with ffmpeg. `pnpm audio:honest --update` writes this file.",
    ...[...seconds].map(([name, value]) => `${name}\t${value.toFixed(4)}`),
    "# Files below are not part of the corpus, for the reason given.",
    ...[...excluded].map(([name, reason]) => `# ${name}\t${reason.replaceAll(/\s+/g, " ").trim()}`),
  ]
  writeFileSync(url, `${lines.join("\n")}\n`)
}
