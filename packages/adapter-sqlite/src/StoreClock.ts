import type * as Clock from "effect/Clock"
import { sql } from "kysely"
import { type ClockReading, readClocks, StoreTime } from "@kiln/core/domain"
import type { Values } from "./columns.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"

/**
 * The latest store time of a committed write of any process. The newest job counts, because its creation does not write
 * `store_time`: a commit of a single job writes about six pages, and this saves one.
 */
export const storedTime = statement(() =>
  query
    .selectFrom("store_time")
    .select((of) =>
      sql<number>`max(latest, coalesce(${of.selectFrom("jobs").select("created_at").where("seq", ">", 0).orderBy("seq", "desc").limit(1)}, 0))`.as(
        "latest",
      ),
    ),
)

/** Runs in the transaction that had this time, and only if that wrote something, so it never causes a commit of its own. */
export const storeTime = statement((given: Given<Values<"store_time", "latest">>) =>
  query.updateTable("store_time").set({ latest: given.latest }).where("latest", "<", given.latest),
)

export type StoredTime = RowOf<typeof storedTime>

/** Store time as this process reads it; see `StoreTime`. */
export class StoreClock {
  readonly #time = new StoreTime()

  /** Returns the store time, which is never before the stored time. */
  now(clock: Clock.Clock, stored: StoredTime | undefined): number {
    return this.at(readClocks(clock), stored)
  }

  at(reading: ClockReading, stored: StoredTime | undefined): number {
    return this.#time.now(reading, stored?.latest)
  }

  takeJump(): number | undefined {
    return this.#time.takeJump()
  }
}
