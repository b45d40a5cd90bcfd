import { closeSync, openSync, rmSync, statfsSync, writeSync } from "node:fs"
import { dirname } from "node:path"
import * as Effect from "effect/Effect"
import { describeDiskProblem, DiskProblem, isError, type StoreUnavailable } from "@kiln/core/domain"
import type { PruneResult } from "@kiln/core/ports"
import { sqliteCode } from "../SqliteDatabase.ts"

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

/** Sizes of parts to try. Deleting overwrites what it deletes, so its log is as large as that. */
const partSizes = [10, 1]

/**
 * Runs a step for up to `limit` records. If the disk has no room for the log of all of them, runs it in smaller parts. A part that fails
 * after others succeeded ends the step with their result, because they are committed.
 */
const inParts = <A>(
  limit: number,
  step: (limit: number) => Effect.Effect<A, StoreUnavailable>,
  { countOf, join, none }: { readonly countOf: (a: A) => number; readonly join: (a: A, b: A) => A; readonly none: A },
): Effect.Effect<A, StoreUnavailable> => {
  const withParts = (size: number, smaller: ReadonlyArray<number>): Effect.Effect<A, StoreUnavailable> =>
    Effect.gen(function* () {
      let total = none
      while (countOf(total) < limit) {
        const asked = Math.min(size, limit - countOf(total))
        const part = step(asked)
        const done = yield* countOf(total) === 0 ? part : Effect.catchIf(part, isFull, () => Effect.succeed(none))
        total = join(total, done)
        if (countOf(done) < asked) break
        yield* Effect.yieldNow
      }
      return total
    }).pipe(
      Effect.catchIf(
        (error) => isFull(error) && smaller.length > 0,
        () => withParts(Math.min(limit, smaller[0] ?? 1), smaller.slice(1)),
      ),
    )
  return Effect.catchIf(
    step(limit),
    (error) => limit > 1 && isFull(error),
    () => withParts(Math.min(limit, partSizes[0] ?? 1), partSizes.slice(1)),
  )
}

const isFull = ({ cause }: StoreUnavailable): boolean => isFullDisk(cause)

/** `inParts` for a step that returns the number of records. */
export const countedInParts = (limit: number, step: (limit: number) => Effect.Effect<number, StoreUnavailable>) =>
  inParts(limit, step, { countOf: (count) => count, join: (a, b) => a + b, none: 0 })

/** `inParts` for a step that also returns what it leaves to be removed. */
export const prunedInParts = (limit: number, step: (limit: number) => Effect.Effect<PruneResult, StoreUnavailable>) =>
  inParts(limit, step, {
    countOf: ({ count }) => count,
    join: (a, b): PruneResult => ({ count: a.count + b.count, purges: [...a.purges, ...b.purges] }),
    none: { count: 0, purges: [] },
  })

/**
 * An operation's effect on a full disk. `frees`: it deletes, or an operator asked for it, so the reserve is given up for
 * it. `grows`: it accepts or begins work, so it fails while the reserve is given up, because it would use up the room that others need
 * to delete. `undefined`: it keeps or ends work that was begun, with the room that there is, of which the log has some.
 */
export type Room = "frees" | "grows" | undefined

const growing: ReadonlySet<string> = new Set([
  "JobStore.createJobs",
  "JobStore.createAndClaimJobs",
  "JobStore.claimJobs",
  // The caller then completes without a claim.
  "JobStore.completeAndClaimJobs",
  "UploadStore.createUploads",
  "UploadStore.claimUpload",
  "Switchboard.publishWorker",
])

const freeing: ReadonlySet<string> = new Set([
  "migrate",
  "openDatabase",
  "returnFreeSpace",
  "JobStore.cancelJobs",
  "JobStore.confirmPurges",
  "JobStore.deleteJobs",
  "JobStore.eraseJobs",
  "JobStore.expireData",
  // `kiln retention run` begins with it.
  "JobStore.publishRetention",
  "JobStore.writeLineage",
  "UploadStore.deleteUploads",
  "UploadStore.expireUploads",
])

/** Ports that only operators and starts write to. */
const operated = /^(AuditLog|KeyDirectory|SecretStore|Switchboard)\./

const background: ReadonlySet<string> = new Set(["KeyDirectory.touchKeys"])

export const roomOf = (operation: string): Room => {
  if (growing.has(operation)) return "grows"
  if (background.has(operation)) return undefined
  return freeing.has(operation) || operated.test(operation) ? "frees" : undefined
}
