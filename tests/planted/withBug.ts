import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Edit } from "./Edit.ts"

/**
 * Runs `use` with a copy of a package's sources that has a bug in one file, then removes the copy. It is next to the sources, so
 * that its imports resolve the same way. Rejects unless the edit's `from` occurs exactly once in `file`, a path below `src`.
 */
export const withBug = async <A>(
  packageDirectory: string,
  { file, from, to }: Edit,
  use: (sources: string) => Promise<A>,
): Promise<A> => {
  const sources = await mkdtemp(join(packageDirectory, ".planted-"))
  try {
    await cp(join(packageDirectory, "src"), sources, { recursive: true })
    const path = join(sources, file)
    const text = await readFile(path, "utf8")
    const found = text.split(from).length - 1
    if (found !== 1) throw new Error(`${file} contains this text ${found} times: ${from}`)
    await writeFile(
      path,
      text.replace(from, () => to),
    )
    return await use(sources)
  } finally {
    await rm(sources, { recursive: true, force: true })
  }
}
