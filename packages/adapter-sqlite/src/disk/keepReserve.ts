import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Database } from "../Database.ts"
import { shrinkDatabase } from "./returnFreeSpace.ts"
import { fullDisk } from "./diskErrors.ts"

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
