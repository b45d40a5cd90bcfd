import type { Edit } from "../../../../../tests/planted/Edit.ts"

/** A bug in how the store handles a lost answer, or creates jobs in one round trip. */
export interface PlantedBug {
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
  /** The script that runs the scenario, and its arguments. */
  readonly scenario: "reportLostCommits.ts" | "reportForgottenCommit.ts" | "reportCreations.ts"
  readonly arguments: ReadonlyArray<string>
  /** What the script reports. */
  readonly noticed: RegExp
}

const inDatabase = (from: string, to: string): Edit => ({ file: "adapter-postgres/src/Database.ts", from, to })

const inCreation = (from: string, to: string): Edit => ({ file: "adapter-postgres/src/jobs/createAtOnce.ts", from, to })

const committed = 'if (fate === "committed") return { _tag: "Done", value: lost.value }'

const justRetry = [inDatabase(committed, 'if (fate === "committed") return { _tag: "Undone", error: lost.error }')]

/** Most are harmless as long as every answer arrives. */
export const plantedBugs: ReadonlyArray<PlantedBug> = [
  {
    bug: "a claim whose COMMIT got no answer is made again",
    edits: justRetry,
    scenario: "reportLostCommits.ts",
    arguments: ["answer lost", "claimJobs, of lost workers"],
    noticed: /^claimJobs, of lost workers: answered /,
  },
  {
    bug: "a claim in one statement that got no answer is made again",
    edits: [
      {
        file: "adapter-postgres/src/migrations/initial/claims.ts",
        from: "is_claimed := is_repeated AND EXISTS",
        to: "is_claimed := false AND EXISTS",
      },
    ],
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
    arguments: ["answer lost", "claimJobs, of lost workers"],
    noticed: /^claimJobs, of lost workers: answered \{"failedWith":".*StoreUnavailable/,
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
  {
    bug: "a creation whose answer was lost takes its own job for another's",
    edits: [inCreation('ours && outcome._tag === "Replayed"', 'outcome._tag !== "Replayed"')],
    scenario: "reportCreations.ts",
    arguments: ["lost answer"],
    noticed: /^lost answer: Replayed, not Created/,
  },
  {
    bug: "a remembered lane is used without checking it",
    edits: [
      {
        file: "adapter-postgres/src/migrations/initial/functions.ts",
        from: "IF coalesce(cardinality(found_lanes), 0) < json_array_length(wanted) THEN",
        to: "IF false THEN",
      },
    ],
    scenario: "reportCreations.ts",
    arguments: ["lane gone"],
    noticed: /^lane gone: another, not short_lived/,
  },
  {
    bug: "a creation in one round trip answers a replay as created",
    edits: [inCreation("if (unbound === null) return", "if (unbound !== undefined) return")],
    scenario: "reportCreations.ts",
    arguments: ["replay"],
    noticed: /^replay: Created, Created, not/,
  },
  {
    bug: "a creation in one round trip does not check the queue cap",
    edits: [inCreation("const caps = capsOf(items)", "const caps = capsOf([])")],
    scenario: "reportCreations.ts",
    arguments: ["cap"],
    noticed: /^cap: Created, not QueueFull/,
  },
]
