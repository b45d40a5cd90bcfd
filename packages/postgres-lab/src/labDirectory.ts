import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync, statfsSync } from "node:fs"
import { hostname, tmpdir } from "node:os"
import { join } from "node:path"
import type { RunAs } from "./binaries.ts"

/** Includes the host name, because containers may share a temporary directory, and process ids are only valid on one host. */
const prefix = `kiln-postgres-${hostname().replaceAll(/\W/g, "_")}-`

/** Linux's in-memory file system. Containers often have only 64 MB of it, which is too small for Postgres. */
const memory = "/dev/shm"
const plentyOfBytes = 4 * 1024 ** 3

/** Creates a directory in the system's temporary directory, named after this process and owned by `user`. */
export const labDirectory = (user: RunAs): string => directoryIn(tmpdir(), user)

/** Creates such a directory in memory; undefined if too little is free. */
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
 * Removes directories of dead processes. Normally a cluster's watchdog does that when its process dies; this covers the case
 * that both died. A server that is still running in such a directory stops within a minute of its removal, because Postgres
 * checks its pid file.
 */
export const removeStaleDirectories = (): void => {
  for (const base of [tmpdir(), memory].filter(existsSync)) {
    for (const name of readdirSync(base)) {
      const pid = name.startsWith(prefix) ? Number.parseInt(name.slice(prefix.length), 10) : Number.NaN
      if (Number.isNaN(pid) || isAlive(pid)) continue
      try {
        rmSync(join(base, name), { recursive: true, force: true })
      } catch {
        // Owned by another user, who must remove it.
      }
    }
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: the process is alive and belongs to another user.
    return error instanceof Error && "code" in error && error.code !== "ESRCH"
  }
}
