import { existsSync, realpathSync } from "node:fs"
import { basename, dirname, join, relative, resolve } from "node:path"
import { markerRoot } from "./markers.ts"

/** Files and directories that only an installation has. A backup contains none of them under these names. */
const signs = ["kiln.db", "kiln.db.copied", "kiln.db.restoring", `blobs/${markerRoot}`, "blobs/lineage"]

/** Returns what shows that a directory belongs to an installation: a database, or files with a marker. */
export const findInstallation = (directory: string): string | undefined =>
  signs.find((sign) => existsSync(join(directory, sign)))

/** Resolves symbolic links, also in the path of a directory that does not exist yet. */
export const realPathOf = (path: string): string => {
  const absolute = resolve(path)
  if (existsSync(absolute)) return realpathSync(absolute)
  const parent = dirname(absolute)
  return parent === absolute ? absolute : join(realPathOf(parent), basename(absolute))
}

/** Returns whether a path is a directory or lies inside of it. Both without symbolic links. */
export const isWithin = (directory: string, path: string): boolean => {
  const [first = ""] = relative(directory, path).split(/[\\/]/)
  return first !== ".."
}

/** Lists the directories around a path, the nearest first. */
export const directoriesAround = (path: string): ReadonlyArray<string> => {
  const parent = dirname(path)
  return parent === path ? [] : [parent, ...directoriesAround(parent)]
}
