import type * as Clock from "effect/Clock"
import { type ClockReading, readClocks, StoreTime } from "@kiln/core/domain"
import { type Given, query, type Statement, statement } from "./Statement.ts"

/** The latest store time that a committed write had, by whichever process. */
export const keptTime = statement(() => query.selectFrom("store_time").select("latest"))

/** In the transaction that had this time, and only if it wrote something: then it costs no commit of its own. */
export const keepTime = statement((given: Given<{ now: number }>) =>
  query.updateTable("store_time").set({ latest: given.now }).where("latest", "<", given.now),
)

export type KeptTime = typeof keptTime extends Statement<infer _P, infer Row> ? Row : never

/** Store time as this process reads it; see `StoreTime`. */
export class StoreClock {
  readonly #time = new StoreTime()

  /** Store time now, not before what the file keeps: the row that `keptTime` finds, if there is one. */
  now(clock: Clock.Clock, kept: KeptTime | undefined): number {
    return this.at(readClocks(clock), kept)
  }

  at(reading: ClockReading, kept: KeptTime | undefined): number {
    return this.#time.now(reading, kept?.latest)
  }

  takeJump(): number | undefined {
    return this.#time.takeJump()
  }
}
