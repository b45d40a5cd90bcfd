/** Names of the problems in the doctor's document, apart from the test server's own: it does not sync its files. */
export const doctorProblems = (document: string): ReadonlyArray<string> =>
  (
    JSON.parse(document) as { readonly checks: ReadonlyArray<{ readonly name: string; readonly status: string }> }
  ).checks
    .filter(({ name, status }) => status === "problem" && name !== "upkeep")
    .map(({ name }) => name)
