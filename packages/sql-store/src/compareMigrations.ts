import * as Effect from "effect/Effect"
import { SchemaMismatch, StoreUnavailable } from "@kiln/core/domain"
import type { Migration, MigrationStatus, SchemaDrift } from "@kiln/core/ports"

/** A row of a store's table of migrations. */
export interface AppliedMigration {
  readonly name: string
  /** Unix milliseconds of store time. */
  readonly appliedAt: number
  /** SHA-256 of the migration's text in lower-case hex; `null` if the version that applied it kept none. */
  readonly digest: string | null
}

/** The comparison of a store's table of migrations with the migrations of this version. */
export interface ComparedMigrations extends MigrationStatus {
  /** Applied migrations of this version whose digest was not kept: only the schema itself shows whether their text is the same. */
  readonly withoutDigest: ReadonlyArray<Migration>
}

/** Compares applied migrations with those of this version, by name and by the digest of their text. */
export const compareMigrations = (
  rows: ReadonlyArray<AppliedMigration>,
  migrations: ReadonlyArray<Migration>,
  digestOf: (migration: Migration) => string,
): ComparedMigrations => {
  const byName = new Map(rows.map((row) => [row.name, row]))
  const known = new Set(migrations.map(({ name }) => name))
  const pending = migrations.filter(({ name }) => !byName.has(name))
  const unknown = rows.flatMap(({ name }) => (known.has(name) ? [] : [name]))
  const last = migrations.at(-1)?.name ?? ""
  return {
    applied: migrations.flatMap(({ name }) => {
      const row = byName.get(name)
      return row === undefined ? [] : [{ name, appliedAt: row.appliedAt }]
    }),
    pending,
    unknown,
    changed: [
      ...migrations.flatMap((migration) => {
        const digest = byName.get(migration.name)?.digest ?? null
        return digest === null || digest === digestOf(migration) ? [] : [migration.name]
      }),
      // A newer version adds migrations after all of this one's. Others come from another line of development, which may have
      // applied the pending ones under these names.
      ...unknown.filter((name) => pending.length > 0 && name < last),
    ],
    withoutDigest: migrations.filter(({ name }) => byName.get(name)?.digest === null),
  }
}

/**
 * Whether a difference shows that a migration was applied with another text. An operator may add an index or a trigger, but what is
 * missing or changed, and what was added to a table itself, comes from another text.
 */
export const isOtherText = ({ object, problem }: SchemaDrift): boolean =>
  problem !== "extra" || !/^(index|trigger) /.test(object)

/** The state of the migrations, told by their digests, and by the schema itself where no digest was kept. */
export interface FoundMigrations extends ComparedMigrations {
  /** Parts of the schema by which a migration without digest has another text. */
  readonly differences: ReadonlyArray<SchemaDrift>
}

/** Fails for a schema of another text. */
export const acceptMigrations = <Found extends FoundMigrations>(
  found: Effect.Effect<Found, StoreUnavailable>,
): Effect.Effect<Found, StoreUnavailable> =>
  Effect.flatMap(found, (all) =>
    all.changed.length === 0
      ? Effect.succeed(all)
      : Effect.fail(new StoreUnavailable({ operation: "migrate", cause: new SchemaMismatch(all) })),
  )

export const statusOf = ({ applied, changed, pending, unknown }: ComparedMigrations): MigrationStatus => ({
  applied,
  pending,
  unknown,
  changed,
})
