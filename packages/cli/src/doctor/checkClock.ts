import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { StoreInspection } from "@kiln/core/ports"
import type { DatabasePlace } from "../database/DatabasePlace.ts"
import { ageText, type Check, ok, problem, warning } from "./Check.ts"

const name = "clock"
/** Retries and deadlines take seconds; signed URLs are valid for minutes. */
const warnMs = 5_000
const problemMs = 60_000

/** Compares this machine's clock with store time. */
export const checkClock = (store: StoreInspection, database: DatabasePlace): Effect.Effect<Check, StoreUnavailable> =>
  Effect.gen(function* () {
    const before = Date.now()
    const { now } = yield* store.readLineage
    // The response may have taken long, so only what is outside of it counts.
    const ahead = Math.max(0, now - Date.now()) - Math.max(0, before - now)
    const difference = Math.abs(ahead)
    if (difference < warnMs) return ok(name, "this machine's clock agrees with store time")
    const advise = difference < problemMs ? warning : problem
    return advise(
      name,
      database._tag === "Sqlite"
        ? {
            summary: `this machine's clock is ${ageText(difference)} behind the latest time in the database: it was set back, or another machine's clock is wrong`,
            remedy: `let the system set its clock: timedatectl set-ntp true; if it is right, the other clock was ahead, and nothing becomes due before ${new Date(now).toISOString()}`,
          }
        : {
            summary: `this machine's clock is ${ageText(difference)} ${ahead > 0 ? "behind" : "ahead of"} the database server's: signed URLs expire too ${ahead > 0 ? "late" : "early"}`,
            remedy: "let both machines set their clocks: timedatectl set-ntp true",
          },
    )
  })
