import { existsSync, readFileSync } from "node:fs"

/** Returns why a committed file differs from the generated text; `undefined` if it does not. */
export const difference = (generated: string, path: string): string | undefined => {
  if (!existsSync(path)) return "is not there"
  const written = readFileSync(path, "utf8")
  if (written === generated) return undefined
  const lines = written.split("\n")
  const at = generated.split("\n").findIndex((line, index) => line !== lines[index])
  return `is out of date from line ${at + 1}`
}
