import type { ScheduleBug } from "./scheduleBugs.ts"

const edit = (file: string, from: string, to: string) => [{ file: `packages/core/src/${file}`, from, to }]

/** Bugs planted into the code of jobs that wait for others, which the simulation of flows must report. */
export const flowBugs: ReadonlyArray<ScheduleBug> = [
  {
    bug: "each attempt submits children of its own",
    edits: edit("domain/Child.ts", "${encodeURIComponent(step)} ${index}`", "${Math.random()} ${index}`"),
  },
  {
    bug: "a parent does not wait for its last children",
    edits: edit("worker/children.ts", "if (before.unfinished > 0)", "if (before.unfinished > 1)"),
  },
  {
    bug: "children are handed over in the order in which they were found",
    edits: edit("worker/children.ts", "children[index] = childOf(job)", "children.push(childOf(job))"),
  },
  {
    bug: "a parent that waits keeps its slot",
    edits: edit(
      "worker/children.ts",
      "if (before.unfinished > 0) return yield* new ChildrenUnfinished({})",
      "while ((yield* countChildren(directory, parent)).unfinished > 0) yield* Effect.sleep(500)",
    ),
  },
]
