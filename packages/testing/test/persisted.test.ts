import { expect, it } from "@effect/vitest"
import { Context, Effect } from "effect"
import { TestClock } from "effect/testing"
import {
  DeliveryStore,
  JobDirectory,
  JobStore,
  KeyDirectory,
  natureOf,
  ScheduleStore,
  SecretStore,
  type StoreVerbs,
  storeVerbs,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"
import { arrangeEveryState, callEveryVerb, compareWithMemory, fixtures, storeConformance } from "@kiln/conformance"
import { type AroundVerb, mapVerbs } from "../src/memory/mapVerbs.ts"
import { encodeState } from "../src/memory/encodeState.ts"
import { emptyState } from "../src/memory/MemoryState.ts"
import { portsOf } from "../src/memory/MemoryStores.ts"
import { persistedInMemory } from "./persistedInMemory.ts"

storeConformance(persistedInMemory)
compareWithMemory({ ...persistedInMemory, runs: 30 })
// A history that lost a checkpoint once.
compareWithMemory({
  ...persistedInMemory,
  name: `${persistedInMemory.name}, from a known seed,`,
  runs: 5,
  seed: -543_474_540,
})

it.effect("a verb declared as reading leaves the state unchanged, and a writing one changes it at least once", () =>
  Effect.gen(function* () {
    const state = emptyState()
    const changed = new Set<string>()
    const called = new Set<string>()
    const watching: AroundVerb = ({ operation }, verb) =>
      Effect.suspend(() => {
        const before = encodeState(state)
        called.add(operation)
        return Effect.tap(verb, () => Effect.sync(() => encodeState(state) !== before && changed.add(operation)))
      })
    const ports = portsOf(state)
    const watched = Context.make(JobStore, mapVerbs("JobStore", Context.get(ports, JobStore), watching)).pipe(
      Context.add(JobDirectory, mapVerbs("JobDirectory", Context.get(ports, JobDirectory), watching)),
      Context.add(DeliveryStore, mapVerbs("DeliveryStore", Context.get(ports, DeliveryStore), watching)),
      Context.add(ScheduleStore, mapVerbs("ScheduleStore", Context.get(ports, ScheduleStore), watching)),
      Context.add(UploadStore, mapVerbs("UploadStore", Context.get(ports, UploadStore), watching)),
      Context.add(KeyDirectory, mapVerbs("KeyDirectory", Context.get(ports, KeyDirectory), watching)),
      Context.add(Switchboard, mapVerbs("Switchboard", Context.get(ports, Switchboard), watching)),
      Context.add(SecretStore, mapVerbs("SecretStore", Context.get(ports, SecretStore), watching)),
    )
    // On an empty store: elsewhere there is a key already.
    const keys = Context.get(watched, KeyDirectory)
    yield* keys.createFirstKey(
      { id: fixtures.projectId(7), name: "first" },
      fixtures.newApiKey(7, { projectId: fixtures.projectId(7) }),
    )
    yield* Effect.provideContext(Effect.andThen(arrangeEveryState, callEveryVerb), watched)
    const jobs = Context.get(watched, JobStore)
    yield* jobs.createJobs([fixtures.newJob(200, { limits: { queueLimitMs: 1, runLimitMs: 1 } })])
    yield* TestClock.adjust(1)
    yield* jobs.expireJobs(1)
    const declared = Object.entries(storeVerbs).flatMap(([port, verbs]) =>
      Object.entries<string>(verbs).map(([verb, nature]) => ({ operation: `${port}.${verb}`, nature })),
    )
    expect(called).toEqual(new Set(declared.map(({ operation }) => operation)))
    const writing = declared.filter(({ nature }) => nature === "write")
    expect(changed).toEqual(new Set(writing.map(({ operation }) => operation)))
  }),
)

it("a verb without a declaration does not compile", () => {
  const { checkpointJobs, ...others } = storeVerbs.JobStore
  // @ts-expect-error checkpointJobs is missing
  const incomplete: StoreVerbs = { ...storeVerbs, JobStore: others }
  // @ts-expect-error no port has such a verb
  const excessive: StoreVerbs["JobDirectory"] = { ...storeVerbs.JobDirectory, dropJobs: "write" }
  expect([checkpointJobs, Object.keys(incomplete).length, excessive.listJobs]).toEqual(["write", 8, "read"])
})

it("a verb that no port declares is refused", () => {
  expect(() => natureOf("JobStore", "checkpoint")).toThrow("JobStore.checkpoint is not declared in storeVerbs")
  expect(() => natureOf("JobStore", "toString")).toThrow(TypeError)
})
