import { statfs } from "node:fs/promises"
import { existsSync } from "node:fs"
import * as Effect from "effect/Effect"
import type { Settings } from "../Settings.ts"
import { type Check, graded, type GradedFinding, skipped } from "./Check.ts"
import { localDirectories } from "../settings/localDirectories.ts"

const name = "filesystem"

/** Values of Linux's `f_type` for file systems on other machines. SQLite's locks and shared memory do not reach them. */
const network: Readonly<Record<number, string>> = {
  0x6969: "NFS",
  0xff534d42: "CIFS",
  0xfe534d42: "SMB",
  0x517b: "SMB",
  0x00c36400: "CephFS",
  0x0bd00bd0: "Lustre",
  0x47504653: "GPFS",
  0x5346414f: "AFS",
}
/** May be on another machine or not. */
const uncertain: Readonly<Record<number, string>> = { 0x65735546: "FUSE", 0x01021997: "9p" }
const inMemory: Readonly<Record<number, string>> = { 0x01021994: "tmpfs", 0x858458f6: "ramfs" }
const layered: Readonly<Record<number, string>> = { 0x794c7630: "an overlay file system" }

/** Returns why a directory on a file system of this type is not a place for an installation. */
export const judgeFileSystem = (
  directory: string,
  type: number,
  holdsSqlite: boolean,
): ReadonlyArray<GradedFinding & { readonly remedy: string }> => {
  const found = (message: string, isProblem: boolean, advice: { readonly remedy: string }) => [
    { message: `${directory} is on ${message}`, isProblem, ...advice, details: { directory } },
  ]
  const moveRemedy =
    "stop kiln, copy the directory to a local disk, set KILN_DATA_DIR to it and run kiln adopt --moved; or kiln copy the records to a Postgres server, and set DATABASE_URL"
  if (network[type] !== undefined && holdsSqlite)
    return found(`${network[type]}, which can damage a SQLite database`, true, { remedy: moveRemedy })
  if (uncertain[type] !== undefined && holdsSqlite)
    return found(`${uncertain[type]}, which may not support the locks of a SQLite database`, false, {
      remedy: moveRemedy,
    })
  if (inMemory[type] !== undefined)
    return found(`${inMemory[type]}, so everything is lost at the next restart of the machine`, false, {
      remedy: "stop kiln, copy the directory to a disk, set KILN_DATA_DIR to it, and run kiln adopt --moved",
    })
  if (layered[type] !== undefined)
    return found(`${layered[type]}, so everything is lost with its container`, false, {
      remedy: "mount a volume there, for example with docker run --volume kiln:/data, and set KILN_DATA_DIR=/data",
    })
  return []
}

/** Checks that the database and the files are on file systems that can keep them. */
export const checkFileSystem = (settings: Settings): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    const directories = localDirectories(settings).filter((directory) => existsSync(directory))
    if (process.platform !== "linux" || directories.length === 0)
      return [skipped(name, "there is no local directory to check")]
    const found = yield* Effect.forEach(directories, (directory) =>
      Effect.promise(() =>
        statfs(directory).then(
          ({ type }) =>
            judgeFileSystem(
              directory,
              type >>> 0,
              settings.database._tag === "Sqlite" && directory === settings.dataDirectory,
            ),
          // Reported by the other checks.
          () => [],
        ),
      ),
    )
    return [
      graded(name, found.flat(), {
        well: "the directories are on local disks",
        wrong: "a directory is in a place that may not keep its content",
      }),
    ]
  })
