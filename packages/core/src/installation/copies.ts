import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { StoreUnavailable } from "../domain/index.ts"
import { StoreCopied } from "../domain/PortErrors.ts"
import { skipDueTicks } from "../engine/schedules.ts"
import {
  JobDirectory,
  JobStore,
  type PlaceFacts,
  placeSecret,
  ScheduleStore,
  SecretStore,
  StorePlace,
} from "../ports/index.ts"
import { adoptBlobs, foreignEntries } from "./lineage.ts"

/** The kept text: the facts, and how to name the place. */
const encode = ({ description, document }: PlaceFacts): Uint8Array =>
  new TextEncoder().encode(JSON.stringify({ description, document }))

type Kept = Pick<PlaceFacts, "description" | "document">

const isKept = (value: unknown): value is Kept =>
  typeof value === "object" &&
  value !== null &&
  "description" in value &&
  typeof value.description === "string" &&
  "document" in value &&
  typeof value.document === "string"

/** Decodes a kept place; `undefined` for anything else, which is then not this place. */
const decode = (bytes: Uint8Array): Kept | undefined => {
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))
    return isKept(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** The place where the records were last used, and their place now. */
export interface StoreWhereabouts {
  /** `undefined` before their first use. */
  readonly recorded: string | undefined
  readonly found: string
  readonly isSame: boolean
}

/** Compares a kept place with the present one. */
export const comparePlaces = (kept: Uint8Array | undefined, found: PlaceFacts): StoreWhereabouts => {
  if (kept === undefined) return { recorded: undefined, found: found.description, isSame: true }
  const place = decode(kept)
  return {
    recorded: place?.description ?? "an unknown place",
    found: found.description,
    isSame: place !== undefined && found.isSame(place.document),
  }
}

/** Keeps the present place, unless another process has changed the kept one in the meantime. */
const keep = (secrets: SecretStore["Service"], before: Uint8Array | undefined, found: PlaceFacts) => {
  const known = before && decode(before)
  return known?.document === found.document && known.description === found.description
    ? Effect.void
    : secrets.replace(placeSecret, before, encode(found))
}

/**
 * Fails with `StoreCopied` if the records are not where they were last used; otherwise keeps where they are. A copy must neither
 * run jobs, which the original runs too, nor remove blobs. Stores without a `StorePlace` always pass.
 */
export const requireOriginal: Effect.Effect<void, StoreCopied | StoreUnavailable> = Effect.gen(function* () {
  const place = yield* Effect.serviceOption(StorePlace)
  const stored = yield* Effect.serviceOption(SecretStore)
  if (Option.isNone(place) || Option.isNone(stored)) return
  const secrets = stored.value
  // A second look, because a process that starts at the same time may have kept another place first.
  for (const look of ["first", "second"] as const) {
    const found = yield* place.value.read
    if (found === undefined) return
    const kept = yield* secrets.find(placeSecret)
    const { isSame, recorded = "" } = comparePlaces(kept, found)
    if (!isSame) return yield* Effect.fail(new StoreCopied({ recorded, found: found.description }))
    if (look === "first") yield* keep(secrets, kept, found)
  }
})

/** The treatment of the unfinished live jobs of an adopted copy: the original may have run and charged them since. */
export type UnfinishedJobs = "cancel" | "keep"

/** The result of `adoptCopy`. */
export interface CopyAdoption {
  /** False if the records are not a copy and not behind their blobs. Nothing was changed then. */
  readonly adopted: boolean
  /** Number of live jobs that were canceled. */
  readonly canceled: number
  /** Number of schedules whose due ticks were skipped. */
  readonly skipped: number
  /** The entries of other copies in the blob store. */
  readonly entries: ReadonlyArray<string>
}

const batchSize = 100

/** Cancels all unfinished live jobs, page by page. Returns how many. */
const cancelLiveJobs = Effect.gen(function* () {
  const directory = yield* JobDirectory
  const store = yield* JobStore
  let canceled = 0
  for (const status of ["queued", "processing"] as const) {
    let after: string | undefined
    do {
      const { jobs, next } = yield* directory.listJobs({ mode: "live", status, limit: batchSize, after })
      const outcomes = jobs.length === 0 ? [] : yield* store.cancelJobs(jobs.map(({ id }) => id))
      canceled += outcomes.filter((outcome) => outcome === "Canceled").length
      after = next
    } while (after !== undefined)
  }
  return canceled
})

/** The original may have submitted the jobs of these ticks. Stores without schedules have none. */
const skipTicks = Effect.flatMap(Effect.serviceOption(ScheduleStore), (store) =>
  Option.isNone(store) ? Effect.succeed(0) : Effect.provideService(skipDueTicks, ScheduleStore, store.value),
)

/** The result of looking for copies: the records' own state, and the entries of other copies in the blob store. */
export const copyStanding = Effect.gen(function* () {
  const place = yield* Effect.serviceOption(StorePlace)
  const found = Option.isSome(place) ? yield* place.value.read : undefined
  const kept = yield* (yield* SecretStore).find(placeSecret)
  const isCopy = found !== undefined && !comparePlaces(kept, found).isSame
  return { isCopy, found, kept, entries: (yield* foreignEntries).entries }
})

/**
 * Makes these records the ones to continue with, although they are a copy, or behind their blobs. No process may be running on
 * any copy. With `cancel`, every unfinished live job fails (`canceled_by_operator`) and is not charged here, and due ticks of schedules
 * get no job here, because the original may have run and charged them since. What makes the records
 * usable comes last, so an adoption that was interrupted can be repeated. `last` wraps the write that keeps the place.
 */
export const adoptCopy = Effect.fnUntraced(function* <E = never, R = never>(
  unfinished: UnfinishedJobs,
  last: (
    step: Effect.Effect<boolean, StoreUnavailable>,
    adoption: CopyAdoption,
  ) => Effect.Effect<unknown, StoreUnavailable | E, R> = (step) => step,
) {
  const secrets = yield* SecretStore
  const { entries, found, isCopy, kept } = yield* copyStanding
  if (!isCopy && entries.length === 0)
    return { adopted: false, canceled: 0, skipped: 0, entries } satisfies CopyAdoption
  const canceled = unfinished === "cancel" ? yield* cancelLiveJobs : 0
  const skipped = unfinished === "cancel" ? yield* skipTicks : 0
  const adoption: CopyAdoption = { adopted: true, canceled, skipped, entries }
  if (entries.length > 0 || unfinished === "cancel") yield* adoptBlobs
  if (found !== undefined) yield* last(secrets.replace(placeSecret, kept, encode(found)), adoption)
  return adoption
})
