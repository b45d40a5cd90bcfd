import { assert, describe, it } from "@effect/vitest"
import { layerCrypto, layerEngine } from "@kiln/core/effect"
import { MediaProbe } from "@kiln/core/ports"
import { Providers } from "@kiln/core/providers"
import { Worker } from "@kiln/core/worker"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Effect, Layer, Option, Tracer } from "effect"
import { vi } from "vitest"
import { plainProviders, principal } from "./support/harness.ts"
import { readJob, submitSpeech } from "./support/jobs.ts"

const layer = Worker.layer.pipe(
  Layer.provideMerge(layerEngine),
  Layer.provideMerge(
    Layer.mergeAll(
      Layer.fresh(MemoryStores.layer),
      MemoryBlobStore.layer,
      Layer.succeed(Providers, { sandbox: plainProviders, live: {} }),
      Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: 3 }) }),
      layerCrypto,
    ),
  ),
)

/** Creates two jobs concurrently, runs them and reads one. */
const journey = Effect.gen(function* () {
  const [job] = yield* Effect.all([submitSpeech("one"), submitSpeech("two")], { concurrency: 2 })
  yield* Effect.flatMap(Worker, (worker) => worker.tick)
  assert.strictEqual((yield* readJob(job.id)).status, "done")
  assert.strictEqual(job.projectId, principal().projectId)
})

describe("spans", () => {
  it.effect("have the name of each operation and verb, under the operation that called them", () => {
    const spans: Array<Tracer.NativeSpan> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      },
    })
    return Effect.gen(function* () {
      yield* Effect.provide(journey, layer)
      const shown = spans.map(({ name, parent }) => {
        const above = Option.getOrUndefined(parent)
        if (above === undefined) return name
        if (above._tag === "Span") return `${above.name} > ${name}`
        const origin = spans.find(({ spanId, traceId }) => spanId === above.spanId && traceId === above.traceId)
        return `${name} < ${origin?.name}`
      })
      assert.deepStrictEqual(shown.sort(), [
        "Engine.createJob",
        "Engine.createJob",
        // Two calls that share a commit have a span each, under their own caller.
        "Engine.createJob > JobStore.createJobs",
        "Engine.createJob > JobStore.createJobs",
        "Engine.getJob",
        "Engine.getJob > JobStore.findJobs",
        "JobStore.claimJobs",
        "SecretStore.getOrCreate",
        "Switchboard.readBoard",
        // Each attempt belongs to the trace of the request that created its job, which may have come to another process.
        "Worker.attempt < Engine.createJob",
        "Worker.attempt < Engine.createJob",
        "Worker.attempt > JobStore.completeJobs",
        "Worker.attempt > JobStore.completeJobs",
        // Before the first file of a process.
        "Worker.attempt > JobStore.readLineage",
        "Worker.attempt > JobStore.writeLineage",
        "Worker.attempt > Provider.speech",
        "Worker.attempt > Provider.speech",
      ])
      assert.isTrue(spans.every(({ status }) => status._tag === "Ended"))
      const attempt = spans.find(({ name }) => name === "Worker.attempt")
      assert.strictEqual(attempt?.attributes.get("kiln.job.kind"), "speech_synthesis")
    }).pipe(Effect.provideService(Tracer.Tracer, tracer))
  })

  it.effect("are not allocated without a tracer", () => {
    const allocated = vi.spyOn(Tracer.nativeTracer, "span")
    return Effect.gen(function* () {
      yield* Effect.provide(journey, layer)
      assert.strictEqual(allocated.mock.calls.length, 0)
      // The spy sees spans where there are some.
      yield* Effect.withSpan(Effect.void, "seen")
      assert.strictEqual(allocated.mock.calls.length, 1)
    }).pipe(Effect.ensuring(Effect.sync(() => allocated.mockRestore())))
  })
})
