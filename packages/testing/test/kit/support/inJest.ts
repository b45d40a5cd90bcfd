import { testEngine } from "@kiln/testing"
import { assertDone, assertFailed, assertSubmitted } from "@kiln/testing/assert"

// Jest's own, which are there without an import.
declare const test: (name: string, run: () => Promise<void>) => void
declare const expect: ((value: unknown) => { readonly toBe: (expected: unknown) => void }) & {
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

test("kiln in jest says what is wrong", async () => {
  await using kiln = await testEngine()
  assertFailed(await kiln.submit("speech_synthesis", { input: "Hello" }), "job_timeout")
})
