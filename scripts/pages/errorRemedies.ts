import { readFileSync } from "node:fs"
import { join } from "node:path"

const errors = join(import.meta.dirname, "../../docs/errors.md")

/** Reads the section "What to do" of docs/errors.md: a remedy by error code. */
export const readErrorRemedies = (): Readonly<Record<string, string>> => {
  const [, section = ""] = readFileSync(errors, "utf8").split(/^## What to do$/m)
  const rows = (section.split(/^## /m)[0] ?? "").matchAll(/^\| (`[^|]+) \| ([^|]+) \|$/gm)
  return Object.fromEntries(
    [...rows].flatMap(([, codes = "", remedy = ""]) =>
      // The pages show it as plain text.
      [...codes.matchAll(/`(\w+)`/g)].map(([, code = ""]) => [code, remedy.replaceAll("`", "").trim()]),
    ),
  )
}
