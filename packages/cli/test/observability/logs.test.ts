import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Tracer from "effect/Tracer"
import { stripVTControlCharacters } from "node:util"
import { describe, expect, it } from "vitest"
import { formatLog, logFormatOf } from "../../src/logs/formatLog.ts"
import { type LogRecord, toLogRecord } from "../../src/logs/LogRecord.ts"

/** What an effect logs. */
const logged = (effect: Effect.Effect<unknown>): ReadonlyArray<LogRecord> => {
  const records: Array<LogRecord> = []
  const keep = Logger.make((options) => void records.push(toLogRecord(options)))
  Effect.runSync(Effect.provide(effect, Logger.layer([keep])))
  return records
}

const only = (effect: Effect.Effect<unknown>): LogRecord => {
  const [record] = logged(effect)
  if (record === undefined) throw new Error("nothing was logged")
  return record
}

describe("a record of the log", () => {
  it("has texts as its message, and objects and annotations as fields in snake case", () => {
    const effect = Effect.annotateLogs(
      Effect.logWarning("attempt ended", "without a result", { requestId: "req_1", route: undefined }),
      { jobId: "job_1", attempt: 2 },
    )
    expect(only(effect)).toEqual({
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      level: "warn",
      message: "attempt ended without a result",
      fields: { job_id: "job_1", attempt: 2, request_id: "req_1" },
    })
  })

  it("has causes as its error, and lists in its message", () => {
    const { fields, message } = only(Effect.logError("failed", ["job_1", "job_2"], Cause.die(new Error("why"))))
    expect(message).toBe("failed job_1, job_2")
    expect(fields["error"]).toMatch(/^Error: why\n/)
  })

  it("keeps a field from taking the place of its own", () => {
    const { fields, level, message } = only(Effect.logInfo("text", { level: "x", message: "y", time: 0, error: 1 }))
    expect({ level, message, fields }).toEqual({
      level: "info",
      message: "text",
      fields: { level_: "x", message_: "y", time_: 0, error_: 1 },
    })
  })

  it("names the span that is recorded", () => {
    const tracer = Tracer.make({ span: (options) => new Tracer.NativeSpan(options) })
    const traced = Effect.withSpan(Effect.logInfo("in a span"), "work").pipe(
      Effect.provideService(Tracer.Tracer, tracer),
    )
    expect(only(traced).fields).toEqual({
      trace_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      span_id: expect.stringMatching(/^[0-9a-f]{16}$/),
    })
    expect(only(Effect.logInfo("outside")).fields).toEqual({})
  })
})

describe("the format of the log", () => {
  const circular: Record<string, unknown> = {}
  circular["self"] = circular
  const record: LogRecord = {
    time: "2026-11-23T06:00:00.000Z",
    level: "error",
    message: 'a "message"\nof\u2028lines',
    fields: { job_id: "job_1", attempt: 2, note: "two words", error: "Error: x\n    at y" },
  }

  it("json: one object, in one line", () => {
    const line = formatLog(record, "json", true)
    expect(line).not.toMatch(/[\n\r\u2028\u2029]/)
    expect(JSON.parse(line)).toEqual({
      time: record.time,
      level: "error",
      message: record.message,
      ...record.fields,
    })
  })

  it("text, not on a terminal: key=value, in one line", () => {
    expect(formatLog(record, "text", false)).toBe(
      'timestamp=2026-11-23T06:00:00.000Z level=ERROR message="a \\"message\\"\\nof\\u2028lines" job_id=job_1 attempt=2 ' +
        'note="two words" error="Error: x\\n    at y"',
    )
  })

  it("text, on a terminal: a short line, and the error below", () => {
    const text = stripVTControlCharacters(formatLog({ ...record, message: "failed" }, "text", true))
    expect(text).toBe('06:00:00.000 ERROR failed job_id=job_1 attempt=2 note="two words"\n    Error: x\n        at y')
  })

  it("never fails because of a value", () => {
    const odd = { big: 1n, circular, nothing: null, list: [1, { a: 2n }] }
    for (const format of ["json", "text"] as const)
      for (const isTerminal of [true, false])
        expect(formatLog({ ...record, fields: odd }, format, isTerminal)).toContain("not printable")
    expect(JSON.parse(formatLog({ ...record, fields: { big: 1n } }, "json", false))).toMatchObject({ big: "1" })
  })

  it("is text unless the environment says json", () => {
    expect(
      ["json", " json ", "text", "JSON", "", undefined].map((text) => logFormatOf({ KILN_LOG_FORMAT: text })),
    ).toEqual(["json", "json", "text", "text", "text", "text"])
  })
})
