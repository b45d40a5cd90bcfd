import type { Edit } from "../../../tests/planted/Edit.ts"

/** A bug in how callers share calls, and the line in which `support/sharedCalls.ts` shows it. */
export interface GroupCommitBug {
  readonly bug: string
  readonly edit: Edit
  readonly noticed: string
}

const single = "settled: 1 2; 2 4; 3 6; 10 20; 4 8; 13 failed; 5 10; 6 12; 8 16; 7 14; 50 100; 60 failed; 70 failed"
const overlapping = "few callers 1; many 2; answered 751; closed false; left 0"

/** The line without a bug. */
export const unharmed = `${single}; ${overlapping}`

const edit = (from: string, to: string): Edit => ({ file: "packages/core/src/engine/GroupCommit.ts", from, to })

export const groupCommitBugs: ReadonlyArray<GroupCommitBug> = [
  {
    bug: "a batch is settled before it is detached, so items pushed meanwhile are dropped",
    edit: edit(
      "commit(detachBatch(waiting))",
      "Effect.map(commit(detachBatch([...waiting])), () => void waiting.splice(0))",
    ),
    noticed: `settled: 1 2; 2 4; 3 6; 4 8; 13 failed; 5 10; 6 12; 8 16; 7 14; 50 100; 70 failed; few callers 1; many 2; answered 501; closed false; left 0`,
  },
  {
    bug: "an item is lost when its batch is retried one by one",
    edit: edit("Effect.forEach(batch, (entry) => commit(", "Effect.forEach(batch.slice(1), (entry) => commit("),
    noticed: `settled: 1 2; 2 4; 3 6; 10 20; 13 failed; 5 10; 6 12; 8 16; 7 14; 50 100; 60 failed; 70 failed; ${overlapping}`,
  },
  {
    bug: "a defect of one caller fails its batch",
    edit: edit("if (batch.length > 1 && error === undefined)", "if (batch.length > 9 && error === undefined)"),
    noticed: `settled: 1 2; 2 4; 3 6; 10 20; 4 failed; 13 failed; 5 failed; 6 12; 8 16; 7 14; 50 100; 60 failed; 70 failed; ${overlapping}`,
  },
  {
    bug: "an exception in a callback reaches the batch",
    edit: edit("    report(error)\n", "    throw error\n"),
    noticed: `settled: 1 2; 2 4; 10 failed; 4 failed; 13 failed; 5 failed; 6 failed; 7 failed; 8 failed; 50 failed; 60 failed; 70 failed; ${overlapping}`,
  },
  {
    bug: "callers without a conflict get one reported",
    edit: edit("if (briefly && error?.contended === true)", "if (!briefly && error?.contended === true)"),
    noticed: `settled: 1 2; 2 4; 3 6; 10 20; 4 8; 13 failed; 5 10; 6 failed; 7 failed; 8 failed; 50 100; 60 failed; 70 failed; ${overlapping}`,
  },
  {
    bug: "callers that wait when the engine closes are forgotten",
    edit: edit(
      "for (const entry of waiting.splice(0)) settleEntry",
      "for (const entry of waiting.splice(0, 0)) settleEntry",
    ),
    noticed: `settled: 1 2; 2 4; 3 6; 10 20; 4 8; 13 failed; 5 10; 6 12; 8 16; 7 14; 50 100; 70 failed; ${overlapping}`,
  },
  {
    bug: "few callers get a call of their own beside the one in progress",
    edit: edit("waiting.length >= minParallelBatch", "waiting.length > 0"),
    noticed: `${single}; few callers 2; many 2; answered 751; closed false; left 0`,
  },
  {
    bug: "more calls are made at the same time than allowed",
    edit: edit("others < parallelCalls", "others <= parallelCalls"),
    noticed: `${single}; few callers 1; many 3; answered 751; closed false; left 0`,
  },
  {
    bug: "closing does not wait for the second call",
    edit: edit("Fiber.interruptAll(drains)", "Fiber.interruptAll([...drains].slice(0, 1))"),
    noticed: `${single}; few callers 1; many 2; answered 751; closed true; left 0`,
  },
]
