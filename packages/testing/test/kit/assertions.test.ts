import {
  AssertionError,
  assertCharged,
  assertDone,
  assertFailed,
  assertOutput,
  assertSubmitted,
} from "@kiln/testing/assert"
import { testEngine } from "@kiln/testing"
import "@kiln/testing/vitest"
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from "vitest"
import { matches } from "../../src/assertions/matches.ts"
import { greeting } from "./support/kinds.ts"

const kinds = [
  greeting(async (name) => {
    if (name === "nobody") throw new Error("nobody to greet")
    return `Hello ${name}`
  }),
]

type Kiln = Awaited<ReturnType<typeof testEngine<(typeof kinds)[number]>>>
let kiln: Kiln
let done: Awaited<ReturnType<Kiln["submit"]>>
let failed: typeof done
let charged: Awaited<ReturnType<Awaited<ReturnType<typeof testEngine>>["submit"]>>

beforeAll(async () => {
  kiln = await testEngine({ kinds })
  done = await kiln.submit("greeting", { name: "Ada", polite: true })
  failed = await kiln.submit("greeting", { name: "nobody" })
  await using shop = await testEngine({ jobMode: "live" })
  charged = await shop.submit("speech_synthesis", { input: "Hello" })
})
afterAll(() => kiln.stop())

/** What an assertion throws. */
const thrownBy = async (assertion: () => unknown): Promise<unknown> => {
  try {
    await assertion()
  } catch (error) {
    return error
  }
  throw new Error("it did not throw")
}

it.each([
  [{ a: 1, b: 2 }, { a: 1 }, true],
  [{ a: 1 }, { a: 1, b: undefined }, false],
  [{ a: { b: [{ c: 1, d: 2 }] } }, { a: { b: [{ c: 1 }] } }, true],
  [[1, 2], [1], false],
  [[1], [1, 2], false],
  [{ 0: 1, length: 1 }, [1], false],
  [new Date(1), new Date(1), true],
  [new Date(1), new Date(2), false],
  [Number.NaN, Number.NaN, true],
  ["1", 1, false],
  [null, {}, false],
])("%j is as described by %j: %s", (actual, expected, answer) => {
  expect(matches(actual, expected)).toBe(answer)
})

describe("plain asserts", () => {
  it("pass, and narrow the type", async () => {
    const job = done
    assertDone(job)
    expectTypeOf(job.output).toEqualTypeOf<{ readonly text: string } | null>()
    const other = failed
    assertFailed(other)
    expectTypeOf(other.errorCode).toBeString()
    assertFailed(failed, "internal_error")
    assertOutput(done, { text: "Hello Ada" })
    assertCharged(charged)
    assertCharged(charged, "0.05")
    assertCharged(charged, { amount: "0.05", currency: "usd" })
    const [submitted] = await assertSubmitted(kiln, "greeting", { name: "Ada" })
    expectTypeOf(submitted!.request).toEqualTypeOf<{ readonly name: string; readonly polite?: boolean } | null>()
    expect(submitted?.id).toBe(done.id)
    await assertSubmitted(kiln, "greeting", {}, { times: 2 })
    await assertSubmitted(kiln, "greeting", { name: "Bob" }, { times: 0 })
    await assertSubmitted(kiln, "greeting", { name: expect.stringMatching(/^A/) })
  })

  it.each([
    [() => assertDone(failed), /the greeting job job_\w+ to be done: it failed with internal_error after 3 attempts$/],
    [() => assertFailed(done), /to have failed: it is done after 1 attempt/],
    [() => assertFailed(failed, "job_timeout"), /to have failed with job_timeout: it failed with internal_error/],
    [() => assertOutput(done, { text: "Hi" }), /to have the output \{"text":"Hi"\}, but it has \{"text":"Hello Ada"\}/],
    [() => assertOutput(failed, { text: "Hi" }), /to be done: it failed/],
    [() => assertCharged(done), /to have been charged: the kind greeting has no price/],
    [() => assertCharged(charged, "0.06"), /to have been charged \{"amount":"0.06"\}: it is charged, 0.05 usd/],
    [() => assertCharged(charged, { amount: "0.05", currency: "eur" }), /it is charged, 0.05 usd/],
    [
      () => assertSubmitted(kiln, "greeting", { name: "Bob" }),
      /expected greeting \{"name":"Bob"\} to have been submitted at least once, but it was submitted 0 times\. Submitted:\n {2}greeting \{"name":"Ada","polite":true\}\n {2}greeting \{"name":"nobody"\}$/,
    ],
    [() => assertSubmitted(kiln, "greeting", {}, { times: 1 }), /submitted 1 times, but it was submitted 2 times/],
  ])("fail with a message: %#", async (assertion, words) => {
    const error = await thrownBy(assertion)
    expect(error).toBeInstanceOf(AssertionError)
    expect(error).toMatchObject({
      name: "AssertionError",
      code: "ERR_ASSERTION",
      message: expect.stringMatching(words),
    })
  })

  it("state actual and expected values", async () => {
    expect(await thrownBy(() => assertOutput(done, { text: "Hi" }))).toMatchObject({
      actual: { text: "Hello Ada" },
      expected: { text: "Hi" },
      operator: "assertOutput",
    })
  })

  it("state that nothing was submitted", async () => {
    await using idle = await testEngine()
    await expect(assertSubmitted(idle, "image_generation")).rejects.toThrow("Nothing was submitted")
  })
})

describe("matchers", () => {
  it("pass", async () => {
    expect(done).toBeDone()
    expect(failed).not.toBeDone()
    expect(failed).toHaveFailedWith("internal_error")
    expect(failed).toHaveFailedWith()
    expect(failed).not.toHaveFailedWith("job_timeout")
    expect(done).not.toHaveFailedWith()
    expect(done).toHaveOutput({ text: expect.stringContaining("Ada") })
    expect(done).not.toHaveOutput({ text: "Hi" })
    expect(charged).toHaveBeenCharged("0.05")
    expect(done).not.toHaveBeenCharged()
    await expect(kiln).toHaveSubmitted("greeting", { name: "Ada" })
    await expect(kiln).not.toHaveSubmitted("greeting", { name: "Bob" })
    await expect(kiln).toHaveSubmitted("greeting", {}, { times: 2 })
  })

  it.each([
    [() => expect(failed).toBeDone(), "to be done: it failed with internal_error"],
    [() => expect(done).not.toBeDone(), "not to be done: it is done"],
    [() => expect(done).toHaveFailedWith("job_timeout"), "to have failed with job_timeout: it is done"],
    [() => expect(failed).not.toHaveFailedWith(), "not to have failed: it failed"],
    [() => expect(done).toHaveOutput({ text: "Hi" }), "to have the output"],
    [() => expect(done).not.toHaveOutput({ text: "Hello Ada" }), "not to have the output"],
    [() => expect(charged).toHaveBeenCharged("1"), "it is charged, 0.05 usd"],
    [() => expect(charged).not.toHaveBeenCharged("0.05"), "not to have been charged"],
    [() => expect(kiln).toHaveSubmitted("greeting", { name: "Bob" }), "to have been submitted"],
    [() => expect(kiln).not.toHaveSubmitted("greeting", { name: "Ada" }), "not to have been submitted"],
    [() => expect(Promise.resolve(done)).toBeDone(), "expected a job"],
    [() => assertDone(Promise.resolve(done) as never), "expected a job: await its promise"],
    [() => assertFailed(undefined as never), "expected a job: await its promise"],
    [() => assertOutput(Promise.resolve(done) as never, {}), "expected a job: await its promise"],
    [() => assertCharged(Promise.resolve(done) as never), "expected a job: await its promise"],
    [() => expect(done).toHaveSubmitted("greeting" as never), "expected an engine returned by testEngine()"],
  ])("fail with a message: %#", async (assertion, words) => {
    expect(await thrownBy(assertion)).toMatchObject({ message: expect.stringContaining(words) })
  })

  it("know the types of their arguments", async () => {
    // @ts-expect-error the output of a greeting has no number
    expect(() => expect(done).toHaveOutput({ number: 1 })).toThrow("to have the output")
    // @ts-expect-error a code is a string
    expect(() => expect(done).toHaveFailedWith(404)).toThrow("404")
    // @ts-expect-error the engine knows no such kind
    await expect(kiln).not.toHaveSubmitted("speech_synthesis")
    // @ts-expect-error a greeting is asked for by name
    await expect(kiln).not.toHaveSubmitted("greeting", { input: "Ada" })
  })
})
