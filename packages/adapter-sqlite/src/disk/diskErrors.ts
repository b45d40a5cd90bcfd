import { describeDiskProblem, DiskProblem, isError } from "@kiln/core/domain"
import { closeSync, openSync, rmSync, statfsSync, writeSync } from "node:fs"
import { dirname } from "node:path"
import { sqliteCode } from "../sqliteErrors.ts"

/** Returns an error that explains SQLite's, if that concerns the disk; otherwise the error itself. */
export const explained = (error: unknown, path: string): unknown => {
  const code = diskCodeOf(sqliteCode(error), path)
  const message = describeDiskProblem(code, { path, freeBytes: freeBytesOf(path) })
  return message === undefined
    ? error
    : new DiskProblem(message, { cause: error, code: sqliteCode(error), isFull: isFullCode(code) })
}

/** The error of an operation that needs room, while the reserve is given up. */
export const fullDisk = (path: string): DiskProblem =>
  new DiskProblem(describeDiskProblem("ENOSPC", { path, freeBytes: freeBytesOf(path) }) ?? "", { isFull: true })

export const isFullDisk = (error: unknown): boolean => error instanceof DiskProblem && error.isFull

/** The code of an error of the operating system, such as `ENOSPC`. */
export const systemCode = (error: unknown): string | undefined =>
  isError(error) && "code" in error && typeof error.code === "string" ? error.code : undefined

/** Whether a disk or a quota is used up. */
export const isFullCode = (code: string | undefined): boolean => code === "ENOSPC" || code === "EDQUOT"

/** Free bytes of a path's file system; `undefined` if they cannot be read. */
const freeBytesOf = (path: string): number | undefined => {
  try {
    const { bavail, bsize } = statfsSync(dirname(path))
    return bavail * bsize
  } catch {
    return undefined
  }
}

const probeBytes = 4_096

/** Writes a page beside a file, and returns the code of the error that the system reports; `undefined` if it succeeds. */
const probe = (path: string): string | undefined => {
  const beside = `${path}-probe-${process.pid}`
  try {
    const file = openSync(beside, "w", 0o600)
    try {
      writeSync(file, Buffer.alloc(probeBytes, 1))
    } finally {
      closeSync(file)
      rmSync(beside, { force: true })
    }
    return undefined
  } catch (error) {
    return systemCode(error)
  }
}

/**
 * Returns the error of the operating system behind a SQLite error, where it concerns the disk. SQLite reports most of them as an I/O
 * error, and a full disk as one too where it cannot make the file of its shared memory.
 */
const diskCodeOf = (reported: string | undefined, path: string): string | undefined => {
  if (reported === "SQLITE_FULL") return "ENOSPC"
  if (reported === undefined || !/^SQLITE_(IOERR|CANTOPEN|READONLY)/.test(reported)) return undefined
  const found = probe(path)
  return found === undefined && reported.startsWith("SQLITE_IOERR") ? "EIO" : found
}
