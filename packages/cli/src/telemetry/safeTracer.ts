import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Tracer from "effect/Tracer"
import { publicError, startsTrace } from "@kiln/core/effect"
import { type Sampler, samplesCaller, samplesNew } from "./sampler.ts"

type NewSpan = Parameters<Tracer.Tracer["span"]>[0]

/** A span without a parent that is neither a request, a new job nor an attempt belongs to a poll or a sweep, which nobody asks about. */
const isBackground = ({ kind }: NewSpan): boolean => !startsTrace(kind)

const isSampled = (options: NewSpan, sampler: Sampler): boolean => {
  const parent = Option.getOrUndefined(options.parent)
  if (parent === undefined) return !isBackground(options) && samplesNew(sampler)
  // The decision for a trace was made by the span that began it in this process.
  return parent._tag === "Span" ? parent.sampled : samplesCaller(sampler, parent)
}

const publicExit = (span: Tracer.Span, exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> => {
  const status = span.attributes.get("http.response.status_code")
  if (Exit.isSuccess(exit)) {
    if (typeof status !== "number" || status < 500) return exit
    const failed = new Error(`HTTP ${status}`)
    failed.name = "HttpError"
    failed.stack = `${failed.name}: ${failed.message}`
    return Exit.fail(failed)
  }
  return Cause.hasInterruptsOnly(exit.cause) ? exit : Exit.fail(publicError(exit.cause))
}

/** Records requests, attempts and what they call, as the sampler decides, and lets no text of a caller into the spans of failures. */
export const safeTracer = (inner: Tracer.Tracer, sampler: Sampler): Tracer.Tracer => ({
  ...(inner.context !== undefined && { context: inner.context }),
  span: (options) => {
    const span = inner.span({ ...options, sampled: isSampled(options, sampler) })
    const end = span.end.bind(span)
    span.end = (endTime, exit) => end(endTime, publicExit(span, exit))
    return span
  },
})
