import type { Edit } from "../../../../../tests/planted/Edit.ts"

/** A bug in what is made of a COMMIT without an answer. */
export interface PlantedBug {
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
  readonly fault: "answer lost" | "cut before"
  /** The verb it is tried with. */
  readonly verb: string
  /** What is said of it. */
  readonly noticed: RegExp
}

const inDatabase = (from: string, to: string): Edit => ({ file: "adapter-postgres/src/Database.ts", from, to })

const committed = 'if (fate === "committed") return { _tag: "Done", value: lost.value }'

const justRetry = [inDatabase(committed, 'if (fate === "committed") return { _tag: "Undone", error: lost.error }')]

/** Each of them is harmless as long as every answer arrives. */
export const plantedBugs: ReadonlyArray<PlantedBug> = [
  {
    bug: "a claim whose COMMIT got no answer is made again",
    edits: justRetry,
    fault: "answer lost",
    verb: "claimJobs",
    noticed: /^claimJobs: answered .*\n(.*\n)*claimJobs: queue is /,
  },
  {
    bug: "a transfer whose COMMIT got no answer is begun again",
    edits: justRetry,
    fault: "answer lost",
    verb: "claimUpload",
    noticed: /^claimUpload: answered \{"_tag":"Refused"/,
  },
  {
    bug: "a COMMIT without an answer counts as failed, without a look at what became of it",
    edits: [inDatabase(committed, 'if (fate === "committed") return lost')],
    fault: "answer lost",
    verb: "claimJobs",
    noticed: /^claimJobs: answered \{"failedWith":".*StoreUnavailable/,
  },
  {
    bug: "a COMMIT without an answer counts as done, without a look at what became of it",
    edits: [inDatabase('if (meaningOf(error) !== "connection") throw error', 'return { _tag: "Done", value }')],
    fault: "cut before",
    verb: "createJobs",
    noticed: /^createJobs: jobs is /m,
  },
]
