import { Effect } from "effect"
import * as fc from "fast-check"
import { type Plant, runInWorld, type World } from "./World.ts"

/** Participants that start at the same time, and the invariants that must hold in every order. */
export interface Race<Given> {
  readonly name: string
  /** What varies besides the order. */
  readonly given: fc.Arbitrary<Given>
  readonly run: (world: World, given: Given) => Effect.Effect<void, unknown>
  /** Events of which each must come about in some run, or the race is not one. */
  readonly reaches: ReadonlyArray<string>
}

/** A race, whatever it is given. */
export interface AnyRace {
  readonly name: string
  readonly reaches: ReadonlyArray<string>
  readonly property: (plant: Plant, met: Met) => fc.IAsyncPropertyWithHooks<unknown>
}

/** What the runs of a race met. */
export interface Met {
  /** In how many runs each event came about. */
  readonly events: Map<string, number>
  /** The different orders of turns. */
  readonly orders: Set<string>
}

export const race = <Given>(definition: Race<Given>): AnyRace => ({
  name: definition.name,
  reaches: definition.reaches,
  property: (plant, met) =>
    fc.asyncProperty(fc.scheduler(), definition.given, async (scheduler, given) => {
      await runInWorld(scheduler, plant, (world) =>
        Effect.gen(function* () {
          yield* definition.run(world, given)
          if (world.violations.length > 0) throw new Error(world.violations.join("\n"))
          for (const event of world.events) met.events.set(event, (met.events.get(event) ?? 0) + 1)
        }),
      )
      met.orders.add(
        scheduler
          .report()
          .map((turn) => turn.label)
          .join("\n"),
      )
    }) as fc.IAsyncPropertyWithHooks<unknown>,
})

const noBug: Plant = (adapters) => adapters

/** Runs a race in many orders; what fails prints its seed, its path and the order of the turns. */
export const explore = async (
  one: AnyRace,
  numRuns: number,
  options: { readonly plant?: Plant; readonly seed?: number } = {},
) => {
  const met: Met = { events: new Map(), orders: new Set() }
  const parameters = options.seed === undefined ? { numRuns } : { numRuns, seed: options.seed }
  const property = one.property(options.plant ?? noBug, met)
  return { met, details: await fc.check(property, { ...parameters, endOnFailure: true }) }
}
