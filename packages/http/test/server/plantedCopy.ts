import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { expect } from "vitest"

/** Loads from a copy of the sources with a bug in one file. It is next to them, so that its imports resolve the same way. */
export const withBug = async <A>(
  { file, from, to }: { readonly file: string; readonly from: string; readonly to: string },
  load: (directory: string) => Promise<A>,
): Promise<A> => {
  const root = await mkdtemp(join(import.meta.dirname, "../../.planted-"))
  try {
    await cp(join(import.meta.dirname, "../../src"), root, { recursive: true })
    const path = join(root, file)
    const text = await readFile(path, "utf8")
    expect(text.split(from), `${file} must contain this text exactly once: ${from}`).toHaveLength(2)
    await writeFile(
      path,
      text.replace(from, () => to),
    )
    return await load(root)
  } finally {
    await rm(root, { recursive: true })
  }
}
