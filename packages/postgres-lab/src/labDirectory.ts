import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync, statfsSync } from "node:fs"
import { hostname, tmpdir } from "node:os"
import { join } from "node:path"
import type { RunAs } from "./binaries.ts"

/** A container may share its directory for temporary files with others, but not its name: pids only mean something on one. */
const prefix = `kiln-postgres-${hostname().replaceAll(/\W/g, "_")}-`

/** Linux' file system in memory. Containers often get 64 MB of it, in which no Postgres fits. */
const memory = "/dev/shm"
const plentyOfBytes = 4 * 1024 ** 3

/** A new directory below the system's for temporary files, named after this process, that `user` owns. */
export const labDirectory = (user: RunAs): string => directoryIn(tmpdir(), user)

/** The same in memory; undefined where there is not plenty of it. */
export const memoryDirectory = (user: RunAs): string | undefined => {
  if (!existsSync(memory)) return undefined
  const { bavail, bsize } = statfsSync(memory)
  return bavail * bsize < plentyOfBytes ? undefined : directoryIn(memory, user)
}

const directoryIn = (base: string, user: RunAs): string => {
  const directory = mkdtempSync(join(base, `${prefix}${process.pid}-`))
  if (user.uid !== undefined && user.gid !== undefined) chownSync(directory, user.uid, user.gid)
  return directory
}

/**
 * Removes the directories whose process is gone. A cluster's watchdog does that by itself when its process dies; this
 * is for the day both died. A server that should still run in such a directory stops within a minute of its removal:
 * Postgres looks after its own pid file.
 */
export const removeStaleDirectories = (): void => {
  for (const base of [tmpdir(), memory].filter(existsSync)) {
    for (const name of readdirSync(base)) {
      const pid = name.startsWith(prefix) ? Number.parseInt(name.slice(prefix.length), 10) : Number.NaN
      if (Number.isNaN(pid) || isAlive(pid)) continue
      try {
        rmSync(join(base, name), { recursive: true, force: true })
      } catch {
        // Somebody else's, and theirs to remove.
      }
    }
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it lives, as somebody else.
    return error instanceof Error && "code" in error && error.code !== "ESRCH"
  }
}
