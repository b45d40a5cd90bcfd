/** The records are not where they were last used: they are a copy, or they were moved by copying them. */
export class StoreCopied extends Error {
  override readonly name = "StoreCopied"
  readonly _tag = "StoreCopied"
  /** The place in which the records were last used. */
  readonly recorded: string
  /** The place in which they are now. */
  readonly found: string

  constructor({ found, recorded }: { readonly recorded: string; readonly found: string }) {
    super(
      `the records in ${found} are a copy: they were last used in ${recorded}. No job is run and nothing is removed, ` +
        "because the original may have done so since. Use the original, or adopt the copy: kiln adopt, or adoptCopy() in a program",
    )
    this.recorded = recorded
    this.found = found
  }
}
