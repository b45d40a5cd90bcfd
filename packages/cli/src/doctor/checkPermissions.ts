import { type Stats, statSync } from "node:fs"
import { dirname } from "node:path"
import * as Effect from "effect/Effect"
import type { GivenSetting } from "../settings/settingFiles.ts"
import { quoted } from "../programCommand.ts"
import type { Settings } from "../Settings.ts"
import { type Check, graded, type GradedFinding, skipped } from "./Check.ts"

const name = "permissions"

type Found = ReadonlyArray<GradedFinding & { readonly remedy: string }>

const statOf = (path: string): Stats | undefined => {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

const others = 0o007
const groupAndOthers = 0o077
const writable = 0o022

const octal = (mode: number): string => (mode & 0o777).toString(8).padStart(3, "0")

/** A file with secrets or requests of callers. Its group may be meant to read it. `all`: what the remedy changes. */
const judgePrivate = (path: string, mode: string, all = quoted(path)): Found => {
  const stat = statOf(path)
  if (stat === undefined || (stat.mode & groupAndOthers) === 0) return []
  const isProblem = (stat.mode & others) !== 0
  return [
    {
      message: `${path} has mode ${octal(stat.mode)}: ${isProblem ? "other users" : "members of its group"} can read it`,
      remedy: `chmod ${mode} ${all}`,
      isProblem,
      details: { path },
    },
  ]
}

/** A secret of its own file. Containers mount secrets readable by everyone in them, so this alone is no problem. */
const judgeSecret = ([setting, { origin }]: readonly [string, GivenSetting]): Found => {
  if (origin._tag !== "File") return []
  return judgePrivate(origin.path, "600").map((finding) => ({
    ...finding,
    message: `${finding.message}, and it contains ${setting}`,
    isProblem: false,
  }))
}

/** A user who can write to the config file can run code in the service. */
const judgeProgram = (path: string): Found => {
  const stat = statOf(path)
  return stat === undefined || (stat.mode & writable) === 0
    ? []
    : [
        {
          message: `${path} has mode ${octal(stat.mode)}: other users can change the code that the service runs`,
          remedy: `chmod go-w ${quoted(path)}`,
          isProblem: true,
          details: { path },
        },
      ]
}

/** The files of a database in a shell. SQLite creates the next ones with the mode and the owner of the first. */
const withSiblings = ([path = ""]: ReadonlyArray<string>): string => `${quoted(path)}*`

/** A command of another user, such as root, leaves files that the service cannot write to. */
const judgeOwner = (directory: string, paths: ReadonlyArray<string>): Found => {
  const owner = statOf(directory)?.uid
  const foreign = paths.filter((path) => ![undefined, owner].includes(statOf(path)?.uid))
  return foreign.length === 0
    ? []
    : [
        {
          message: `${foreign.join(", ")} belong to another user than ${directory}: a process of either user may fail to write`,
          remedy: `chown --reference=${quoted(directory)} ${withSiblings(paths)}, and run commands as that user: sudo -u '#${owner}' kiln …`,
          isProblem: true,
          details: { directory },
        },
      ]
}

/** Checks who can read and change the files of the installation. */
export const checkPermissions = (
  settings: Settings,
  given: Readonly<Record<string, GivenSetting | undefined>>,
): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.sync(() => {
    if (process.platform === "win32") return [skipped(name, "this system has no file modes")]
    const { blobs, configPath, dataDirectory, database } = settings
    const databaseFiles = database._tag === "Sqlite" ? ["", "-wal", "-shm"].map((end) => database.path + end) : []
    const findings: Found = [
      ...databaseFiles.flatMap((path) => judgePrivate(path, "600", withSiblings(databaseFiles))),
      ...(blobs._tag === "Directory" ? judgePrivate(`${blobs.path ?? dataDirectory}/blobs`, "700") : []),
      ...Object.entries(given).flatMap(([setting, found]) =>
        found === undefined ? [] : judgeSecret([setting, found]),
      ),
      ...(configPath === undefined ? [] : judgeProgram(configPath)),
      ...(database._tag === "Sqlite" ? judgeOwner(dirname(database.path), databaseFiles) : []),
    ]
    return [
      graded(name, findings, {
        well: "only the owner can use the files of the installation",
        wrong: "other users can use files of the installation, or it cannot use its own",
      }),
    ]
  })
