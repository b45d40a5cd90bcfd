import type { Edit } from "../../../../../tests/planted/Edit.ts"

/** A bug in the handling of a provider's answers. */
export interface PlantedBug {
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
  /** The file next to this one that runs with the bug. */
  readonly scenario: "reportAnswerFromBefore.ts" | "reportTwoWorkers.ts"
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
  {
    bug: "each process grants itself the rate of a provider",
    edits: [
      {
        file: "packages/core/src/worker/SharedRate.ts",
        from: "{ bucket: this.#bucket, policy",
        to: "{ bucket: this.#bucket + process, policy",
      },
    ],
    scenario: "reportTwoWorkers.ts",
    noticed: "too many calls, is used, no job failed",
    unharmed: "the rate holds, is used, no job failed",
  },
  {
    bug: "a token of a rate is used twice",
    edits: [
      {
        file: "packages/core/src/worker/SharedRate.ts",
        from: "this.#tokens -= 1\n",
        to: "this.#tokens -= 0.5\n",
      },
    ],
    scenario: "reportTwoWorkers.ts",
    noticed: "too many calls, is used, no job failed",
    unharmed: "the rate holds, is used, no job failed",
  },
]
