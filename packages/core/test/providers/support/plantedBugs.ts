import type { Edit } from "../../../../../tests/planted/Edit.ts"

/** A bug in what is made of a provider's answers. */
export interface PlantedBug {
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
  /** The file beside this one that is run with it. */
  readonly scenario: "reportAnswerFromBefore.ts"
  /** What that says, and what it says without the bug. */
  readonly noticed: string
  readonly unharmed: string
}

export const plantedBugs: ReadonlyArray<PlantedBug> = [
  {
    bug: "an answer to a call from before the pause ends the pause",
    edits: [
      {
        file: "packages/core/src/providers/circuitBreaker.ts",
        from: '(isProbe || circuit.state === "closed")',
        to: "(isProbe || true)",
      },
    ],
    scenario: "reportAnswerFromBefore.ts",
    noticed: "the job is done, the provider is ready",
    unharmed: "the job is done, the provider is paused",
  },
]
