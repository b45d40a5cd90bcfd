import { Effect } from "effect"
import { Engine, Operator } from "../engine/index.ts"
import type { Kind } from "../kinds/index.ts"
import type { JobSummary } from "../ports/index.ts"
import { projectAskedFor } from "./callers.ts"
import { idOf, shown } from "./jobVerbs.ts"
import { listedCharges } from "./listedCharges.ts"
import type { ListedJob, ListQuery, OperatorVerbs } from "./OperatorVerbs.ts"
import type { Running } from "./Running.ts"

export const operatorVerbs = <K extends Kind>({ run }: Running): OperatorVerbs<K> => {
  const verbs: OperatorVerbs<K> = {
    list: (query = {}) =>
      run(
        Effect.flatMap(Operator, (operator) =>
          Effect.map(operator.listJobs(pageOf(query)), ({ jobs, next }) => ({ jobs: jobs.map(listed), next })),
        ),
      ),
    async *listAll(query = {}) {
      let after: string | undefined
      do {
        const page = await verbs.list({ ...query, ...(after !== undefined && { after }) })
        yield* page.jobs
        after = page.next
      } while (after !== undefined)
    },
    count: ({ finishedWithinMs, project } = {}) =>
      run(
        Effect.flatMap(Operator, (operator) =>
          operator.countJobs({
            finishedWithinMs,
            projectId: project === undefined ? undefined : projectAskedFor(project),
          }),
        ),
      ),
    cancel: (job) => run(Effect.flatMap(Operator, (operator) => operator.cancelJob(idOf(job)))),
    retry: (job) =>
      run(
        Effect.flatMap(Operator, (operator) =>
          Effect.flatMap(operator.retryJob(idOf(job)), (accepted) => shown(accepted.job)),
        ),
      ),
    pause: (kind) => run(Effect.flatMap(Operator, (operator) => operator.pauseKind(kind))),
    resume: (kind) => run(Effect.flatMap(Operator, (operator) => operator.resumeKind(kind))),
    board: () => run(Effect.flatMap(Engine, (engine) => engine.readBoard)),
    setSwitch: (name, on) => run(Effect.flatMap(Operator, (operator) => operator.setSwitch(name, on))),
    setPrice: ({ active = true, ...price }) =>
      run(
        Effect.flatMap(Operator, (operator) =>
          Effect.andThen(operator.setPrice(price), Effect.asVoid(operator.activatePrice(price.name, active))),
        ),
      ),
    charges: ({ from, to }) =>
      listedCharges({ from: from.getTime(), to: to.getTime() }, (page) =>
        run(Effect.flatMap(Operator, (operator) => operator.listCharges(page))),
      ),
  }
  return verbs
}

const pageOf = ({ createdFrom, createdTo, project, ...query }: ListQuery) => ({
  ...query,
  projectId: project === undefined ? undefined : projectAskedFor(project),
  createdFrom: createdFrom?.getTime(),
  createdTo: createdTo?.getTime(),
})

const listed = ({ claimableAt, createdAt, finishedAt, ...job }: JobSummary): ListedJob => ({
  ...job,
  createdAt: new Date(createdAt),
  claimableAt: claimableAt === null ? null : new Date(claimableAt),
  finishedAt: finishedAt === null ? null : new Date(finishedAt),
})
