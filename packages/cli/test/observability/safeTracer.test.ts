import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import { describe, expect, it } from "vitest"
import { safeTracer } from "../../src/telemetry/safeTracer.ts"
import type { Sampler } from "../../src/telemetry/sampler.ts"

const canary = "canary-4e1d"
const always: Sampler = { followsCaller: true, ratio: 1 }

/** Runs an effect with a tracer, and returns its spans. */
const spansOf = async (effect: Effect.Effect<unknown, unknown>, sampler = always) => {
  const spans: Array<Tracer.NativeSpan> = []
  const inner = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    },
  })
  await Effect.runPromiseExit(Effect.provideService(effect, Tracer.Tracer, safeTracer(inner, sampler)))
  return spans
}

const endOf = ([span]: ReadonlyArray<Tracer.NativeSpan>): string => {
  if (span?.status._tag !== "Ended") throw new Error("the span has not ended")
  const { exit } = span.status
  if (exit._tag === "Success") return "success"
  if (Cause.hasInterruptsOnly(exit.cause)) return "interrupted"
  const error = Cause.squash(exit.cause) as Error
  return `${error.name}: ${error.message}\n${error.stack}`
}

class Quoting extends Data.TaggedError("Quoting")<{ readonly errorCode: string; readonly detail: string }> {}

describe("spans of failures", () => {
  it("have the name and code of an error, and no text of a caller", async () => {
    const failing = Effect.withSpan(Effect.fail(new Quoting({ errorCode: "content_rejected", detail: canary })), "s")
    const end = endOf(await spansOf(failing))
    expect(end).toMatch(/^Quoting: content_rejected\n/)
    expect(end).not.toContain(canary)
  })

  it("have the class and the stack of a defect, and not its message", async () => {
    const end = endOf(await spansOf(Effect.withSpan(Effect.die(new RangeError(`${canary}\nsecond line`)), "s")))
    expect(end).toMatch(/^RangeError: RangeError\n/)
    expect(end).toContain("    at ")
    expect(end).not.toContain(canary)
    expect(endOf(await spansOf(Effect.withSpan(Effect.die({ [canary]: canary }), "s")))).not.toContain(canary)
  })

  it("tell of a response that reports a fault of the server", async () => {
    const answering = (status: number) =>
      Effect.useSpan("GET /x", { kind: "server" }, (span) =>
        Effect.sync(() => span.attribute("http.response.status_code", status)),
      )
    expect(endOf(await spansOf(answering(503)))).toMatch(/^HttpError: HTTP 503/)
    expect(endOf(await spansOf(answering(404)))).toBe("success")
  })

  it("leave an interruption as it is", async () => {
    expect(endOf(await spansOf(Effect.withSpan(Effect.interrupt, "s")))).toBe("interrupted")
  })
})

describe("which spans are recorded", () => {
  const nested = (kind: Tracer.SpanKind, parent?: Tracer.ExternalSpan) =>
    Effect.withSpan(Effect.withSpan(Effect.void, "inner"), "outer", { kind, ...(parent && { parent }) })
  const sampled = async (effect: Effect.Effect<unknown>, sampler?: Sampler) =>
    (await spansOf(effect, sampler)).map((span) => span.sampled)
  const caller = (isSampled: boolean) =>
    Tracer.externalSpan({ traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7", sampled: isSampled })

  it("requests, new jobs and attempts with all that they call, and no polls and sweeps", async () => {
    expect(await sampled(nested("server"))).toEqual([true, true])
    expect(await sampled(nested("consumer"))).toEqual([true, true])
    expect(await sampled(nested("producer"))).toEqual([true, true])
    expect(await sampled(nested("internal"))).toEqual([false, false])
  })

  it("as the caller decided, unless the sampler decides by itself", async () => {
    expect(await sampled(nested("server", caller(true)))).toEqual([true, true])
    expect(await sampled(nested("server", caller(false)))).toEqual([false, false])
    expect(await sampled(nested("server", caller(false)), { followsCaller: false, ratio: 1 })).toEqual([true, true])
    expect(await sampled(nested("server"), { followsCaller: true, ratio: 0 })).toEqual([false, false])
  })
})
