/** The snippets marked `ts no-run`, in the order of their file, each with what keeps it from being run by a test. */
export const notRun: Readonly<Record<string, ReadonlyArray<string>>> = {
  "docs/guides/adapters.md": [],
}
