import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { FileId, StoreUnavailable, UploadId } from "../domain/index.ts"
import type { JobStore } from "./JobStore.ts"
import type { PublishedWorker } from "./Switchboard.ts"
import type { UploadStore } from "./UploadStore.ts"

/** One step of a schema. */
export interface Migration {
  /** Says that it was applied; never changes. */
  readonly name: string
  /** Runs in one transaction, together with the note that it ran. */
  readonly sql: string
}

/** How far the schema of a store is. */
export interface MigrationStatus {
  /** Those of this version that were applied, in order. */
  readonly applied: ReadonlyArray<{
    readonly name: string
    /** Unix milliseconds of store time. */
    readonly appliedAt: number
  }>
  /** Those of this version that were not, in the order in which they will be. */
  readonly pending: ReadonlyArray<Migration>
  /** What a newer version applied. This one may still run beside it. */
  readonly unknown: ReadonlyArray<string>
}

/** A part of the schema that is not as the migrations leave it. */
export interface SchemaDrift {
  /** What it is and its name: `table jobs`, `column jobs.token`, `index jobs_ready`, `trigger jobs_legal_moves`. */
  readonly object: string
  readonly problem: "missing" | "changed" | "extra"
}

/** A blob that a committed row names. */
export interface NamedBlob {
  /** Of the generated file, or of the upload. */
  readonly id: FileId | UploadId
  readonly blobKey: string
  readonly bytes: number
  /** Lower-case hex. */
  readonly sha256: string
}

/** Purges that were not confirmed yet. */
export interface DuePurges {
  readonly count: number
  /** Milliseconds of store time since the oldest was recorded; 0 where there is none. */
  readonly oldestAgeMs: number
}

/**
 * What an operator asks of a store that no verb answers. Nothing here changes anything. Below `damage` everything needs
 * a schema of which at least one migration was applied.
 */
export interface StoreInspection {
  readonly migrations: Effect.Effect<MigrationStatus, StoreUnavailable>
  /** What of the schema is not as the migrations leave it. */
  readonly schemaDrift: Effect.Effect<ReadonlyArray<SchemaDrift>, StoreUnavailable>
  /** What is broken in the database itself, in its own words. */
  readonly damage: Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
  /** Every blob that a row promises to be there, a page at a time. */
  readonly namedBlobs: Stream.Stream<NamedBlob, StoreUnavailable>
  /** Whether the row that named a blob still does. */
  readonly isNamed: (blob: NamedBlob) => Effect.Effect<boolean, StoreUnavailable>
  readonly duePurges: Effect.Effect<DuePurges, StoreUnavailable>
  /** A secret by its name, if it was made already. */
  readonly findSecret: (name: string) => Effect.Effect<Uint8Array | undefined, StoreUnavailable>
  /** What the running workers publish. Needs all migrations. */
  readonly listWorkers: Effect.Effect<ReadonlyArray<PublishedWorker>, StoreUnavailable>
  /** As of `JobStore`. Needs all migrations. */
  readonly readLineage: JobStore["Service"]["readLineage"]
  readonly findOrphans: JobStore["Service"]["findOrphans"]
  /** As of `UploadStore`. */
  readonly findUploadOrphans: UploadStore["Service"]["findUploadOrphans"]
}
