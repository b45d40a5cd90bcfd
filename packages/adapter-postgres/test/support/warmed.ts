import { Effect, Layer } from "effect"
import { CallerTransactions } from "@kiln/core/ports"
import { type CallerPlace, fixtures } from "@kiln/conformance"

/** Lets the stores see one transaction, which is rolled back: the first call of a process reads where the tables are. */
export const warmed = ({ begin, layer }: CallerPlace): CallerPlace => ({
  begin,
  layer: Layer.effectContext(
    Effect.gen(function* () {
      const context = yield* Layer.build(layer)
      const { rollback, transaction } = yield* Effect.promise(begin)
      const first = fixtures.newJob(900, { projectId: fixtures.projectId(900), kind: "first_of_all" })
      yield* Effect.provideContext(
        Effect.flatMap(CallerTransactions, ({ createJobs }) => createJobs(transaction, [first])),
        context,
      )
      yield* Effect.promise(rollback)
      return context
    }),
  ),
})
