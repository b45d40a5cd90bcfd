import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { join, relative } from "node:path"
import type { Layer } from "effect"
import type { Stores } from "../../src/index.ts"
import type { MemoryStores } from "@kiln/testing"
import type { PlantedBug } from "./PlantedBug.ts"

const memory = join(import.meta.dirname, "../../../testing/src/memory")
const domain = join(import.meta.dirname, "../../../core/src/domain")

/** Copies of the memory stores, each with one bug in it. */
export interface BuggyStores {
  /** A copy for this bug; the same one whenever it is asked for. */
  readonly withBug: (planted: PlantedBug) => Promise<Layer.Layer<Stores>>
  readonly remove: () => Promise<void>
}

/** Beside the sources, so that the copies' imports resolve as theirs do. */
export const makeBuggyStores = async (): Promise<BuggyStores> => {
  const directory = await mkdtemp(join(import.meta.dirname, "../../../testing/test/.planted-"))
  const copies = new Map<PlantedBug, Promise<Layer.Layer<Stores>>>()
  return {
    withBug: (planted) => {
      const copy = copies.get(planted) ?? copyWith(planted, join(directory, `${copies.size}`))
      copies.set(planted, copy)
      return copy
    },
    remove: () => rm(directory, { recursive: true, force: true }),
  }
}

const copyWith = async ({ file, edits }: PlantedBug, copy: string): Promise<Layer.Layer<Stores>> => {
  await cp(memory, copy, { recursive: true })
  if (file.startsWith("domain/")) await copyDomain(copy)
  let text = await readFile(join(copy, file), "utf8")
  for (const [from, to] of edits) {
    const count = text.split(from).length - 1
    if (count !== 1) throw new Error(`${file} has ${count} occurrences of ${from}`)
    text = text.replace(from, () => to)
  }
  await writeFile(join(copy, file), text)
  const module = (await import(join(copy, "MemoryStores.ts"))) as { readonly MemoryStores: typeof MemoryStores }
  return module.MemoryStores.layer
}

/** Gives a copy of the memory stores a domain of their own. */
const copyDomain = async (copy: string): Promise<void> => {
  const files = (await readdir(copy, { recursive: true })).filter((name) => name.endsWith(".ts"))
  for (const name of files) {
    const text = await readFile(join(copy, name), "utf8")
    const up = relative(join(copy, name, ".."), copy) || "."
    await writeFile(join(copy, name), text.replaceAll('"@kiln/core/domain"', `"${up}/domain/index.ts"`))
  }
  await cp(domain, join(copy, "domain"), { recursive: true })
}
