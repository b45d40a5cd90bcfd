import { Cause, Clock, Deferred, Effect, Exit, Scope } from "effect"
import type * as fc from "fast-check"
import { type Adapters, memoryAdapters, traveling } from "./Adapters.ts"
import { makeProcess, type Process, type ProcessOptions, surely } from "./Process.ts"
import { makeVirtualClock, type VirtualClock } from "./VirtualClock.ts"
import { makeWitness, type Witness } from "./Witness.ts"

/** What a bug is planted with: the ports before anybody sees them, and a wait in which others get their turn. */
export type Plant = (adapters: Adapters, wait: (label: string) => Effect.Effect<void>) => Adapters

/** A call of a provider. */
export interface ProviderCalled {
  readonly by: string
  readonly jobId: string
  readonly live: boolean
  /** By the clock of the process. */
  readonly at: number
  /** How often the process had read the board by then. */
  readonly boardsRead: number
}

/** Some processes around one set of stores, for one run of a race. */
export interface World extends Witness {
  /** The stores without a way to go: for looking, not for racing. */
  readonly stores: Adapters
  /** The stores' time. */
  readonly time: VirtualClock
  readonly calls: Array<ProviderCalled>
  readonly process: (name: string, options?: ProcessOptions) => Effect.Effect<Process>
  /** Waits for its turn. Outside the race it is always one's turn. */
  readonly turn: (label: string) => Effect.Effect<void>
  /** Waits until the race begins, for participants that must be in the middle of an operation at that point. */
  readonly hasBegun: Effect.Effect<void>
  /** Starts all participants at the same time, and waits until each has ended and every message has arrived. */
  readonly race: (participants: ReadonlyArray<Effect.Effect<unknown, unknown>>) => Effect.Effect<void, unknown>
}

/** Waits until nothing can happen without a turn: started work continues in microtasks only. */
const atRest = () => new Promise<void>((resolve) => void setImmediate(resolve))

/**
 * Runs one program in a world where `scheduler` says whose turn it is: which request arrives next, which answer, which
 * provider's, which client's bytes, which second.
 */
export const runInWorld = async (
  scheduler: fc.Scheduler,
  plant: Plant,
  program: (world: World) => Effect.Effect<void, unknown>,
): Promise<void> => {
  const scope = Scope.makeUnsafe()
  const root = surely(makeVirtualClock())
  const world = Effect.flatMap(makeWorld(scheduler, plant, scope), program)
  const end: { exit?: Exit.Exit<void, unknown> } = {}
  void Effect.runPromiseExit(Effect.provide(world, root)).then((exit) => (end.exit = exit))
  for (await atRest(); end.exit === undefined; await atRest()) {
    if (scheduler.count() === 0) throw new Error("nobody can go on")
    await scheduler.waitNext(1)
  }
  if (Exit.isFailure(end.exit)) throw Cause.squash(end.exit.cause)
  await Effect.runPromise(Effect.provide(Scope.close(scope, end.exit), root))
}

const makeWorld = Effect.fnUntraced(function* (scheduler: fc.Scheduler, plant: Plant, scope: Scope.Scope) {
  const time = makeVirtualClock()
  const atStores = surely(time)
  const truth = yield* memoryAdapters
  const witness = makeWitness(truth, time)
  const calls: Array<ProviderCalled> = []
  const begun = Deferred.makeUnsafe<void>()
  const onTheWay = new Set<Promise<unknown>>()
  let racing = false
  let ids = 0

  const turn = (label: string) =>
    Effect.suspend(() => (racing ? Effect.promise(() => scheduler.schedule(Promise.resolve(), label)) : Effect.void))
  const sent = <A, E>(label: string, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      if (!racing) return Effect.provideService(effect, Clock.Clock, time.clock)
      const answer = scheduler
        .schedule(Promise.resolve(), label)
        .then(() => Effect.runPromiseExit(Effect.provide(effect, atStores)))
        .then(async (exit) => {
          await scheduler.schedule(Promise.resolve(), `${label} answered`)
          return exit
        })
      onTheWay.add(answer)
      void answer.then(() => onTheWay.delete(answer))
      return Effect.flatten(Effect.promise(() => answer))
    })

  const stores = plant(truth, turn)
  const begin = Effect.suspend(() => {
    racing = true
    return Deferred.succeed(begun, undefined)
  })
  const allArrived = Effect.promise(async () => {
    while (onTheWay.size > 0) await Promise.all(onTheWay)
  })
  return {
    ...witness,
    stores,
    time,
    calls,
    turn,
    hasBegun: Deferred.await(begun),
    process: (name, options = {}) =>
      Effect.suspend(() => {
        const time = makeVirtualClock()
        return makeProcess(name, options, {
          scope,
          adapters: traveling(witness.watch(name, stores), {
            call: (verb, effect) => sent(`${name}: ${verb}`, effect),
            turn: (label) => turn(`${name}: ${label}`),
          }),
          time,
          nextId: () => (ids += 1),
          called: (jobId, live) => {
            const boardsRead = witness.boardReads.filter(({ by }) => by === name).length
            calls.push({ by: name, jobId, live, at: time.clock.currentTimeMillisUnsafe(), boardsRead })
          },
          begun,
          turn,
        })
      }),
    race: (participants) =>
      begin.pipe(
        Effect.andThen(Effect.all(participants, { concurrency: "unbounded", discard: true })),
        Effect.andThen(allArrived),
        Effect.andThen(Effect.sync(() => (racing = false))),
        Effect.asVoid,
      ),
  } satisfies World
})
