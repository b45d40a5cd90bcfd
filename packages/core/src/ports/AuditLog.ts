import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { JsonObject, StoreUnavailable } from "../domain/index.ts"

/** An administrative change. Never contains a secret or the data of a caller. */
export interface AuditChange {
  /** The person or program that changed it: `user alice`. */
  readonly actor: string
  /** The machine: `host build-7`, with the address of an SSH session. */
  readonly origin: string
  /** The kind of change: `key.revoke`. */
  readonly action: string
  /** The identifier or name of what was changed; `null` for the installation. */
  readonly subject: string | null
  /** Particulars, such as the mode of a new key. */
  readonly details: JsonObject
}

export interface AuditEntry extends AuditChange {
  /** Grows with each entry. */
  readonly number: number
  /** Unix milliseconds, store time. */
  readonly at: number
}

/** Selects a page of entries. */
export interface AuditPage {
  /** Unix milliseconds, inclusive. */
  readonly from: number
  /** Unix milliseconds, exclusive. */
  readonly to: number
  /** The number of the previous page's last entry; `null` for the first page. */
  readonly after: number | null
  /** At most this many. */
  readonly limit: number
}

/** Records administrative changes. Only stores with a database have it. */
export class AuditLog extends Context.Service<
  AuditLog,
  {
    readonly append: (change: AuditChange) => Effect.Effect<void, StoreUnavailable>
    /** Lists entries, newest first. */
    readonly list: (page: AuditPage) => Effect.Effect<ReadonlyArray<AuditEntry>, StoreUnavailable>
    /** Removes entries that are at least `olderThanMs` old. Returns how many. */
    readonly prune: (olderThanMs: number) => Effect.Effect<number, StoreUnavailable>
  }
>()("@kiln/core/ports/AuditLog") {}

/** A change that a verb makes for an operator. */
export interface AuditedVerb {
  readonly change: AuditChange
  /** Whether the verb's answer means that it changed something. */
  readonly changed: (answer: unknown) => boolean
  /** Particulars that only the answer tells, added to those of the change. */
  readonly detailsOf?: ((answer: unknown) => JsonObject) | undefined
}

/** Returns the change that a verb with this answer has made, for the store to record; `undefined` if it has made none. */
export const changeMade = (verb: AuditedVerb | undefined, answer: unknown): AuditChange | undefined => {
  if (verb?.changed(answer) !== true) return undefined
  return { ...verb.change, details: { ...verb.change.details, ...verb.detailsOf?.(answer) } }
}

/**
 * The change that the running verb makes. A store with an `AuditLog` records it in the transaction of the verb, so that there is
 * no change without an entry and no entry without a change.
 */
export const Audited = Context.Reference<AuditedVerb | undefined>("@kiln/core/ports/Audited", {
  defaultValue: () => undefined,
})

/**
 * Records the change that a verb makes. It works for the verbs of `KeyDirectory`, `Switchboard`, `SecretStore` and `ScheduleStore`, and for
 * `cancelJobs`, `rescheduleJobs`, `eraseJobs`, `redeliver` and retries and manual jobs of schedules by `createJobs`, also inside of an operation. By default, every answer but `undefined` and
 * `false` is a change.
 */
export const audited = <A, E, R>(
  change: AuditChange,
  operation: Effect.Effect<A, E, R>,
  changed: AuditedVerb["changed"] = (answer) => answer !== undefined && answer !== false,
  detailsOf?: AuditedVerb["detailsOf"],
): Effect.Effect<A, E, R> => Effect.provideService(operation, Audited, { change, changed, detailsOf })

/** Runs a step that belongs to a change which an earlier step has recorded. */
export const recordedBefore = <A, E, R>(step: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.provideService(step, Audited, undefined)
