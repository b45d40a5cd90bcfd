import type { Edit } from "../../../../../tests/planted/Edit.ts"

/** A bug in what is made of a COMMIT without an answer. */
export interface PlantedBug {
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
  /** What it is tried with, and how that process is told. */
  readonly scenario: "reportLostCommits.ts" | "reportForgottenCommit.ts"
  readonly arguments: ReadonlyArray<string>
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
    scenario: "reportLostCommits.ts",
    arguments: ["answer lost", "claimJobs"],
    noticed: /^claimJobs: answered .*\n(.*\n)*claimJobs: queue is /,
  },
  {
    bug: "a transfer whose COMMIT got no answer is begun again",
    edits: justRetry,
    scenario: "reportLostCommits.ts",
    arguments: ["answer lost", "claimUpload"],
    noticed: /^claimUpload: answered \{"_tag":"Refused"/,
  },
  {
    bug: "a COMMIT without an answer counts as failed, without checking whether it happened",
    edits: [inDatabase(committed, 'if (fate === "committed") return lost')],
    scenario: "reportLostCommits.ts",
    arguments: ["answer lost", "claimJobs"],
    noticed: /^claimJobs: answered \{"failedWith":".*StoreUnavailable/,
  },
  {
    bug: "a COMMIT without an answer counts as done, without checking whether it happened",
    edits: [inDatabase('if (meaningOf(error) !== "connection") throw error', 'return { _tag: "Done", value }')],
    scenario: "reportLostCommits.ts",
    arguments: ["cut before", "completeJobs"],
    noticed: /^completeJobs: jobs is /m,
  },
  {
    bug: "the number of a transaction is taken for its own after a crash, when it may be another's",
    edits: [
      {
        file: "adapter-postgres/src/Session.ts",
        from: "if (told.now === began) return",
        to: "if (told.now !== null) return",
      },
    ],
    scenario: "reportForgottenCommit.ts",
    arguments: [],
    noticed: /^createJobs: answered Created, 0 stored/,
  },
]
