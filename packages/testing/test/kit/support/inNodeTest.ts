// oxlint-disable typescript/no-floating-promises -- node:test waits for its tests by itself
import assert from "node:assert/strict"
import { describe, it } from "node:test"
import { testEngine } from "@kiln/testing"
import { assertDone, assertFailed, assertSubmitted } from "@kiln/testing/assert"

describe("kiln in node:test", () => {
  it("runs a job", async () => {
    await using kiln = await testEngine()
    kiln.providers.speech.fail()
    const job = await kiln.submit("speech_synthesis", { input: "Hello" })
    assertDone(job)
    assert.equal(job.attempts, 2)
    await assertSubmitted(kiln, "speech_synthesis", { input: "Hello" })
  })

  it("says what is wrong", async () => {
    await using kiln = await testEngine()
    assertFailed(await kiln.submit("speech_synthesis", { input: "Hello" }), "job_timeout")
  })
  it("ends its process after a failed test that stopped no engine", async () => {
    const kiln = await testEngine()
    assertFailed(await kiln.submit("speech_synthesis", { input: "Hello" }), "job_timeout")
    await kiln.stop()
  })
})
