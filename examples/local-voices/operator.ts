// What an operator does on the command line (`kiln price set`, `kiln switch on`, `kiln billing export`), done on the store.
import type { StoreAdapter } from "@kiln/core"
import { JobStore, type LedgerEntry, Switchboard } from "@kiln/core/ports"
import { Effect } from "effect"

/** Live jobs need a price and switches; a new store has none of them on. */
export const openForBusiness = (store: StoreAdapter): Promise<void> =>
  Switchboard.use((board) =>
    Effect.gen(function* () {
      yield* board.setPrice({
        name: "svc-audio",
        currency: "usd",
        unitAmounts: { input_audio_seconds: "0.0001", input_characters: "0.000015", output_tokens: "0.00002" },
      })
      yield* board.activatePrice("svc-audio", true)
      yield* board.setSwitch("ai", true)
      yield* board.setSwitch("audio", true)
    }),
  ).pipe(Effect.provide(store), Effect.runPromise)

/** What was charged so far, the oldest first. */
export const readLedger = (store: StoreAdapter): Promise<ReadonlyArray<LedgerEntry>> =>
  JobStore.use((jobs) => jobs.listCharges({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 100 })).pipe(
    Effect.provide(store),
    Effect.runPromise,
  )
