import { Effect, type Layer, ManagedRuntime } from "effect"
import { JobStore } from "@kiln/core/ports"

const request = {
  runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }],
  limits: { perKind: {}, perProject: 0 },
  limit: 10,
  leaseDurationMs: 30_000,
  maxLostWorkers: 3,
}

/** A store that claims ten jobs and completes them, again and again. */
export const claimingStore = (stores: Layer.Layer<JobStore, unknown>) => {
  const runtime = ManagedRuntime.make(stores)
  const run = <A>(use: (store: JobStore["Service"]) => Effect.Effect<A, unknown>): Promise<A> =>
    runtime.runPromise(Effect.flatMap(JobStore, use))
  return {
    /** Milliseconds of one claim. What it got is completed, outside the time. */
    claim: async (): Promise<number> => {
      const startedAt = performance.now()
      const { claims } = await run((store) => store.claimJobs(request))
      const tookMs = performance.now() - startedAt
      if (claims.length !== request.limit) throw new Error(`claimed ${claims.length} jobs of ${request.limit}`)
      const output = { text: "done" }
      await run((store) =>
        store.completeJobs(
          claims.map(({ job, token }) => ({
            jobId: job.id,
            token,
            output,
            files: [],
            warningCode: null,
            charge: null,
          })),
        ),
      )
      return tookMs
    },
    dispose: () => runtime.dispose(),
  }
}

/** The lower quartile: on a busy machine, half of the claims wait for the processor. */
const lowerQuartile = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[values.length >> 2] ?? 0

/** By what factor the claims of one store take longer than those of another. They take turns, so that the noise of the machine meets both. */
export const costRatio = async (
  dear: { readonly claim: () => Promise<number> },
  cheap: { readonly claim: () => Promise<number> },
  rounds: number,
): Promise<{ readonly ratio: number; readonly dearMs: number; readonly cheapMs: number }> => {
  const times: Record<"dear" | "cheap", Array<number>> = { dear: [], cheap: [] }
  for (let round = 0; round < rounds; round += 1) {
    times.dear.push(await dear.claim())
    times.cheap.push(await cheap.claim())
  }
  const dearMs = lowerQuartile(times.dear)
  const cheapMs = lowerQuartile(times.cheap)
  return { ratio: dearMs / cheapMs, dearMs, cheapMs }
}
