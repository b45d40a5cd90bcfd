import { describeDiskProblem, DiskProblem } from "@kiln/core/domain"
import { sqliteCode } from "../sqliteErrors.ts"
import { diskCodeOf, freeBytesOf, isFullCode } from "./systemCode.ts"

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
