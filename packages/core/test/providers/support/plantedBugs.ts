import type { Edit } from "../../../../../tests/planted/Edit.ts"

/** A bug in the handling of a provider's answers. */
export interface PlantedBug {
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
  /** The file next to this one that runs with the bug. */
  readonly scenario: "reportAnswerFromBefore.ts"
  /** The output of that file, with and without the bug. */
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
