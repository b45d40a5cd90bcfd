/** A part of the schema and how it differs. */
interface Difference {
  readonly object: string
  readonly problem: "missing" | "changed" | "extra"
}

/** A database has kiln's tables, but other ones than this version's migrations of the same names create. */
export class SchemaMismatch extends Error {
  override readonly name = "SchemaMismatch"
  readonly _tag = "SchemaMismatch"
  /** The migrations that were applied with another text. */
  readonly changed: ReadonlyArray<string>
  /** The parts of the schema that show it; empty if the recorded digest does. */
  readonly differences: ReadonlyArray<Difference>

  constructor({
    changed,
    differences = [],
  }: {
    readonly changed: ReadonlyArray<string>
    readonly differences?: ReadonlyArray<Difference>
  }) {
    super(
      `its schema is that of another development version of kiln, or was changed by hand: ${changed.join(", ")} ` +
        `had another text${listed(differences)}. Nothing was changed. Run the version of kiln that created it to finish ` +
        "its jobs and to export its records (kiln job list --json, kiln billing export), and begin with an empty database",
    )
    this.changed = changed
    this.differences = differences
  }
}

/** Maximum number of differences in the message. */
const mostListed = 3

const listed = (differences: ReadonlyArray<Difference>): string => {
  if (differences.length === 0) return ""
  const first = differences.slice(0, mostListed).map(({ object, problem }) => `${object} is ${problem}`)
  const more = differences.length - first.length
  return ` (${first.join(", ")}${more > 0 ? `, and ${more} more` : ""})`
}
