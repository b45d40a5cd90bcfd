import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { Database } from "../Database.ts"
import { fullDisk } from "./fullDisk.ts"

/** Milliseconds after an erasure before space is returned: another sweep may be about to erase more, or jobs to need it. */
const delayMs = 60_000
/** Pages in a transaction, half a megabyte: a few milliseconds of work. */
const pagesPerStep = 128
/** Milliseconds between two of them, so that creating and running jobs does not slow down. */
const pauseMs = 1_000
/** Unused pages that stay in the file, because new jobs will soon need them: 4 MB, or a tenth of the file. */
const leastKeptPages = 1_024
const keptShare = 0.1

/** Value of the pragma `auto_vacuum` that leaves the time to `incremental_vacuum`. */
const incremental = 2

/**
 * Returns the space of erased jobs to the file system, step by step, some time after an erasure. Does nothing to a file that was not
 * created by kiln: it has no map of its pages, and only a VACUUM, which needs the file for itself, could add one.
 */
export const returnFreeSpace = (database: Database): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    if (readPragma(database, "auto_vacuum") !== incremental) return
    while (true) {
      yield* database.freed.await
      database.freed.closeUnsafe()
      yield* Effect.sleep(delayMs)
      let returned = 0
      while (surplusOf(database) > 0) {
        // Best effort: the verbs report problems of the store.
        const stepped = yield* Effect.orElseSucceed(step(database), () => false)
        if (!stepped) break
        returned++
        yield* Effect.sleep(pauseMs)
      }
      // The file becomes shorter when the log is copied into it.
      if (returned > 0) database.erasures.openUnsafe()
    }
  }).pipe(Effect.forkScoped, Effect.asVoid)

const readPragma = ({ connection }: Database, name: string): number => {
  try {
    return Number(connection.pragma(name, { simple: true }))
  } catch {
    return 0
  }
}

/** The number of unused pages beyond those to keep. */
const surplusOf = (database: Database): number => {
  const kept = Math.max(leastKeptPages, keptShare * readPragma(database, "page_count"))
  return Math.floor(readPragma(database, "freelist_count") - kept)
}

/** Pages in a transaction on a full disk: the log of one must fit into the little room that there is. */
const pagesPerSmallStep = 32

/** Returns free space on a full disk, step by step, until there is enough. Returns whether there is. */
const shrinkDatabase = (database: Database, isEnough: () => boolean): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    if (readPragma(database, "auto_vacuum") !== incremental) return false
    while (readPragma(database, "freelist_count") > 0) {
      const stepped = yield* Effect.orElseSucceed(vacuum(database, pagesPerSmallStep), () => false)
      if (!stepped || !truncateLog(database)) return false
      if (isEnough()) return true
      yield* Effect.yieldNow
    }
    return false
  })

const vacuum = (database: Database, pages: number): Effect.Effect<boolean, StoreUnavailable> =>
  database.write("returnFreeSpace", () => {
    // `exec`, because the pragma does a page for each row that is read.
    database.connection.exec(`PRAGMA incremental_vacuum(${pages})`)
    return true
  })

/** Moves pages from the end of the file to unused places. Returns whether there was anything to do. */
const step = (database: Database): Effect.Effect<boolean, StoreUnavailable> =>
  Effect.suspend(() => {
    const pages = Math.min(pagesPerStep, surplusOf(database))
    return pages <= 0 ? Effect.succeed(false) : vacuum(database, pages)
  })

/** Minimum time between two truncations. */
const intervalMs = 2_000

/**
 * `secure_delete` overwrites erased content in the database file, but the write-ahead log still holds earlier versions of the
 * pages. So the log is copied into the database and truncated at startup, in case a crash interrupted this, and after erasures,
 * at most every two seconds. If a reader in another process prevents it, it is retried.
 */
export const truncateLogAfterErasures = (database: Database): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    if (!truncateLog(database)) database.erasures.openUnsafe()
    while (true) {
      yield* database.erasures.await
      database.erasures.closeUnsafe()
      if (!truncateLog(database)) database.erasures.openUnsafe()
      yield* Effect.sleep(intervalMs)
    }
  }).pipe(Effect.forkScoped, Effect.asVoid)

/** Returns whether the log is now empty. */
const truncateLog = ({ connection }: Database): boolean => {
  try {
    const [outcome] = connection.pragma("wal_checkpoint(TRUNCATE)") as ReadonlyArray<{ readonly busy: number }>
    return outcome?.busy === 0
  } catch {
    // Best effort: the verbs report problems of the store.
    return false
  }
}

/** Milliseconds after opening before the reserve is made: short commands leave it to the service. */
const firstMs = 1_000
/** Milliseconds between two attempts to make the reserve again. */
const spentMs = 1_000

/** Waits in real time, also where the clock is a test's: most tests end before the reserve is made. */
const passed = (ms: number): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const timer = setTimeout(() => resume(Effect.void), ms)
    timer.unref()
    return Effect.sync(() => clearTimeout(timer))
  })

/**
 * Makes the reserve, and makes it again once there is room. On a full disk, room may be inside of the database: deleted jobs leave
 * unused pages there, so the file is shortened first.
 */
export const keepReserve = (database: Database): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { file } = database
    const { path, reserve } = file
    // Where the file is gone, nothing is created.
    const make = (): boolean => file.isPresent && reserve.make()
    if (!reserve.isWanted) return
    yield* passed(firstMs)
    while (true) {
      yield* reserve.missing.await
      reserve.missing.closeUnsafe()
      if (make()) {
        database.limitLog("usual")
        continue
      }
      database.limitLog("few")
      yield* Effect.logError(`no work is accepted: ${fullDisk(path).message}`)
      while (!(make() || (yield* shrinkDatabase(database, make)))) yield* Effect.sleep(spentMs)
      reserve.missing.closeUnsafe()
      database.limitLog("usual")
      yield* Effect.logInfo(`the disk of ${path} has room again: work is accepted`)
    }
  }).pipe(Effect.forkScoped, Effect.asVoid)
