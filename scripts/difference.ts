import { existsSync, readFileSync } from "node:fs"

/** Why a committed file is not what was generated; `undefined` when it is. */
export const difference = (generated: string, path: string): string | undefined => {
  if (!existsSync(path)) return "is not there"
  const written = readFileSync(path, "utf8")
  if (written === generated) return undefined
  const lines = written.split("\n")
  const at = generated.split("\n").findIndex((line, index) => line !== lines[index])
  return `is out of date from line ${at + 1}`
}
