/** A database has kiln's tables, but other ones than this version's migrations of the same names create. */
export class SchemaMismatch extends Error {
  override readonly name = "SchemaMismatch"
  readonly _tag = "SchemaMismatch"
  /** The migrations that were applied with another text. */
  readonly changed: ReadonlyArray<string>
  /** Parts of the schema that differ, such as `column jobs.token is missing`; empty if only the digests were compared. */
  readonly differences: ReadonlyArray<string>

  constructor({
    changed,
    differences = [],
  }: {
    readonly changed: ReadonlyArray<string>
    readonly differences?: ReadonlyArray<string>
  }) {
    super(
      `this database was created by a development version of kiln whose schema this version cannot migrate ` +
        `(${changed.join(", ")} had another text${listed(differences)}). Nothing was changed. Export its records with the ` +
        "version that created it (kiln job list --json, kiln billing export), or begin with an empty database",
    )
    this.changed = changed
    this.differences = differences
  }
}

/** Maximum number of differences in the message. */
const mostListed = 3

const listed = (differences: ReadonlyArray<string>): string => {
  if (differences.length === 0) return ""
  const more = differences.length - mostListed
  return `: ${differences.slice(0, mostListed).join(", ")}${more > 0 ? ` and ${more} more differences` : ""}`
}
