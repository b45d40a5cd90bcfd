/** A document of `docs`. */
export interface Guide {
  readonly name: string
  readonly title: string
  /** Rendered when the page is compiled, from Markdown of this repository. */
  readonly html: string
  readonly headings: ReadonlyArray<{ readonly id: string; readonly text: string }>
}

// Put in place by scripts/pages.ts.
declare const REMEDIES: Readonly<Record<string, string | undefined>>
declare const GUIDES: ReadonlyArray<Guide>

/** What to do, by error code: the table "What to do" of docs/errors.md. */
export const remedies = REMEDIES

export const guides = GUIDES
