import { failure, jobKind } from "@kiln/core"
import { testEngine } from "@kiln/testing"
import { assertDone, assertFailed, assertSubmitted } from "@kiln/testing/assert"
import { z } from "zod"
import { summaryKind } from "../../../../../examples/custom-kind/kind.ts"

// Jest's globals, which need no import.
declare const test: (name: string, run: () => Promise<void>) => void
declare const expect: ((value: unknown) => {
  readonly toBe: (expected: unknown) => void
  readonly toEqual: (expected: unknown) => void
}) & {
  readonly stringContaining: (part: string) => string
}

test("kiln in jest runs a job", async () => {
  await using kiln = await testEngine()
  kiln.providers.speech.fail()
  const job = await kiln.submit("speech_synthesis", { input: "Hello" })
  assertDone(job)
  expect(job.attempts).toBe(2)
  await assertSubmitted(kiln, "speech_synthesis", { input: expect.stringContaining("ell") })
})

const report = jobKind({
  name: "report",
  request: z.strictObject({ lines: z.array(z.strictObject({ text: z.string() })) }),
  output: z.object({ about: z.object({ lines: z.int() }) }),
  files: ["page"],
  run: async ({ attempt, writeFile, request, step }) => {
    const about = await step("count", () => Promise.resolve({ lines: request.lines.length }))
    await writeFile("page", () => Promise.resolve({ data: new TextEncoder().encode("page"), mediaType: "text/plain" }))
    if (attempt === 1) throw failure("provider_unavailable", { message: "once more", retry: true })
    return { output: { about } }
  },
})

test("kiln in jest runs a kind of the program's", async () => {
  await using kiln = await testEngine({ kinds: [report] })
  const job = await kiln.submit("report", { lines: [{ text: "one" }, { text: "two" }] })
  assertDone(job)
  expect(job.attempts).toBe(2)
  expect(job.output?.about).toEqual({ lines: 2 })
  expect(new TextDecoder().decode(await kiln.readFile(job.output?.page ?? { id: "fil_" }))).toBe("page")
})

test("kiln in jest runs the example's kind", async () => {
  const tools = { summarize: () => Promise.resolve("Ovens for clay."), render: () => Promise.resolve("<p>page</p>") }
  await using kiln = await testEngine({ kinds: [summaryKind(tools)] })
  const job = await kiln.submit("summary", { text: "Kilns are ovens for clay.", documentId: "7" })
  assertDone(job)
  expect(job.output?.summary).toBe("Ovens for clay.")
})

test("kiln in jest says what is wrong", async () => {
  await using kiln = await testEngine()
  assertFailed(await kiln.submit("speech_synthesis", { input: "Hello" }), "job_timeout")
})
