import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { Board, FileId, JobMode, StoreUnavailable, UploadId } from "../domain/index.ts"
import type { AuditEntry } from "./AuditLog.ts"
import type { DeliveryStore } from "./DeliveryStore.ts"
import type { JobStore } from "./JobStore.ts"
import type { ApiKeyRecord } from "./KeyDirectory.ts"
import type { RetentionPeriods } from "./Retention.ts"
import type { ScheduleStore } from "./ScheduleStore.ts"
import type { PublishedWorker } from "./Switchboard.ts"
import type { UploadStore } from "./UploadStore.ts"

/** The place of a store's records, by facts that a copy does not share. */
export interface PlaceFacts {
  /** Names the place in a message, without secrets: `/srv/kiln/kiln.db`. */
  readonly description: string
  /** The facts as text, which the store keeps. */
  readonly document: string
  /** Whether a kept document describes this place, although it may have been renamed since. */
  readonly isSame: (document: string) => boolean
}

/** The name of the secret that holds the place of the records. It is copied along with them, and then names another place. */
export const placeSecret = "place"

/** Tells where the records are. Only stores whose records can be copied without their knowledge have it. */
export class StorePlace extends Context.Service<
  StorePlace,
  {
    /** Returns `undefined` if the records may be used in any place. */
    readonly read: Effect.Effect<PlaceFacts | undefined, StoreUnavailable>
  }
>()("@kiln/core/ports/StorePlace") {}

/** One step of a schema's history. Once it is released, neither its name nor its text changes. */
export interface Migration {
  /** Recorded once it is applied, with the digest of the text. */
  readonly name: string
  /** Runs in the same transaction as the record that it was applied. */
  readonly sql: string
}

/** Which migrations of a store were applied. */
export interface MigrationStatus {
  /** Applied migrations of this version, in order. */
  readonly applied: ReadonlyArray<{
    readonly name: string
    /** Unix milliseconds of store time. */ readonly appliedAt: number
  }>
  /** Migrations of this version that are not applied yet, in order. */
  readonly pending: ReadonlyArray<Migration>
  /** Migrations applied by a newer version. This version may still run beside it. */
  readonly unknown: ReadonlyArray<string>
  /**
   * Migrations of this version that were applied with another text; and, while some are pending, applied ones that neither this
   * version nor a newer one has. The schema is another one, and opening the store fails.
   */
  readonly changed: ReadonlyArray<string>
}

/** A part of the schema that differs from the result of the migrations. */
export interface SchemaDrift {
  /** Its type and name: `table jobs`, `column jobs.token`, `index jobs_ready`, `trigger jobs_legal_moves`. */
  readonly object: string
  readonly problem: "missing" | "changed" | "extra"
}

/** A blob that a committed record names. */
export interface NamedBlob {
  /** The id of the generated file or of the upload. */
  readonly id: FileId | UploadId
  readonly blobKey: string
  readonly bytes: number
  /** Lower-case hex. */
  readonly sha256: string
}

/** Unconfirmed purges. */
export interface DuePurges {
  readonly count: number
  /** Milliseconds of store time since the oldest was recorded; 0 without any. */
  readonly oldestAgeMs: number
}

/** The data that retention would remove now. */
export interface DueRetention {
  /** Finished jobs whose data is past its retention, with or without their record. */
  readonly expiredData: number
  /** Finished jobs whose record is past its retention, and whose data goes too if it is still kept. */
  readonly deletedJobs: number
  /** Uploads that no job used in time. */
  readonly expiredUploads: number
  /** Records of such uploads that were erased before. */
  readonly deletedUploads: number
  /** Size of the files of all these jobs and uploads. */
  readonly bytes: number
}

/** The unfinished jobs of one kind and mode that are in the same state. */
export interface QueueGroup {
  readonly kind: string
  readonly mode: JobMode
  /** A `ready` job can be claimed now, a `delayed` one later. A worker holds a `running` job; the lease of a `lapsed` one has ended. */
  readonly state: "ready" | "delayed" | "running" | "lapsed"
  /** More than 0. */
  readonly count: number
  /** Milliseconds since the first of them became ready or its lease ended; 0 in the other states. */
  readonly oldestMs: number
}

/** A condition that wastes space, slows the store down or endangers its content, and that the store cannot mend itself. */
export interface UpkeepProblem {
  readonly problem: string
  /** A command, a statement or a setting. */
  readonly remedy: string
  /** True if committed data may be lost or jobs cannot go on, so that it must not wait. */
  readonly isUrgent: boolean
}

/**
 * Read-only checks for operators that no other port offers. Everything after `damage` needs a schema with at least one applied
 * migration.
 */
export interface StoreInspection {
  readonly migrations: Effect.Effect<MigrationStatus, StoreUnavailable>
  /** Lists parts of the schema that differ from the result of the migrations. */
  readonly schemaDrift: Effect.Effect<ReadonlyArray<SchemaDrift>, StoreUnavailable>
  /** Lists damage to the database itself, in the database's own words. */
  readonly damage: Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
  /** Streams every blob that a record names, page by page. */
  readonly namedBlobs: Stream.Stream<NamedBlob, StoreUnavailable>
  /** Returns whether the record that named a blob still names it. */
  readonly isNamed: (blob: NamedBlob) => Effect.Effect<boolean, StoreUnavailable>
  /** Counts what retention would remove now. Needs all migrations. */
  readonly dueRetention: (periods: RetentionPeriods) => Effect.Effect<DueRetention, StoreUnavailable>
  /** As in `JobStore`. Needs all migrations. */
  readonly readRetention: JobStore["Service"]["readRetention"]
  readonly duePurges: Effect.Effect<DuePurges, StoreUnavailable>
  /** Returns a secret by name, if it exists. */
  readonly findSecret: (name: string) => Effect.Effect<Uint8Array | undefined, StoreUnavailable>
  /** Lists what an operator should do about the store's files, settings and sessions. */
  readonly upkeep: Effect.Effect<ReadonlyArray<UpkeepProblem>, StoreUnavailable>
  /** Counts unfinished jobs. Needs all migrations. */
  readonly countQueue: Effect.Effect<ReadonlyArray<QueueGroup>, StoreUnavailable>
  /** Reads the board as in `Switchboard`. Needs all migrations. */
  readonly readBoard: Effect.Effect<Board, StoreUnavailable>
  /** Lists the keys as in `KeyDirectory`. Needs all migrations. */
  readonly listKeys: Effect.Effect<ReadonlyArray<ApiKeyRecord>, StoreUnavailable>
  /** Returns the latest audit entry with this action. Needs all migrations. */
  readonly findLastChange: (action: string) => Effect.Effect<AuditEntry | undefined, StoreUnavailable>
  /** The place of the records, as in `StorePlace`. */
  readonly readPlace: StorePlace["Service"]["read"]
  /** As in `ScheduleStore` and in `DeliveryStore`. Need all migrations. */
  readonly listSchedules: ScheduleStore["Service"]["listSchedules"]
  readonly countDeliveries: DeliveryStore["Service"]["countDeliveries"]
  /** Lists the workers as in `Switchboard`. Needs all migrations. */
  readonly listWorkers: Effect.Effect<ReadonlyArray<PublishedWorker>, StoreUnavailable>
  /** As in `JobStore`. Needs all migrations. */
  readonly readLineage: JobStore["Service"]["readLineage"]
  readonly findOrphans: JobStore["Service"]["findOrphans"]
  /** As in `UploadStore`. */
  readonly findUploadOrphans: UploadStore["Service"]["findUploadOrphans"]
}
