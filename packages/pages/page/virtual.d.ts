declare module "virtual:remedies" {
  /** What to do, by error code: the table "What to do" of docs/errors.md. */
  export const remedies: Readonly<Record<string, string | undefined>>
}
declare module "virtual:guides" {
  export interface Guide {
    readonly name: string
    readonly title: string
    /** Rendered when the page was compiled, from Markdown of this repository. */
    readonly html: string
    readonly headings: ReadonlyArray<{ readonly id: string; readonly text: string }>
  }
  export const guides: ReadonlyArray<Guide>
}
