/** One step of the schema, written for the schema `"kiln"`. */
export interface Migration {
  /** Says that it was applied; never changes. */
  readonly name: string
  /** Runs in one transaction, together with the note that it ran. */
  readonly sql: string
}
