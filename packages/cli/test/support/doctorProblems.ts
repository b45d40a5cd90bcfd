interface Check {
  readonly name: string
  readonly status: string
  readonly findings: ReadonlyArray<{ readonly message: string }>
}

/** Names of the problems in the doctor's document, apart from the test server's own: it does not sync its files. */
export const doctorProblems = (document: string): ReadonlyArray<string> =>
  (JSON.parse(document) as { readonly checks: ReadonlyArray<Check> }).checks
    .filter(
      ({ findings, name, status }) =>
        status === "problem" && !(name === "upkeep" && findings.every(({ message }) => isUnsynced(message))),
    )
    .map(({ name }) => name)

const isUnsynced = (message: string): boolean => /^(fsync|full_page_writes) is off/.test(message)
