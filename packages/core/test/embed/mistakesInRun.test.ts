import { failure, jobKind } from "@kiln/core"
import { limits } from "@kiln/core/domain"
import { testEngine } from "@kiln/testing"
import { expect, it } from "vitest"
import { z } from "zod"

/** Mistakes in `run`, and the whole message in the record of the attempt. All of them fail the job at once. */

const request = z.object({ n: z.number().optional() })
const mail = jobKind({ name: "mail", request, run: async () => ({ output: {} }) })
const done = { output: {} }

type Parts = Record<
  "step" | "failure" | "writeFile" | "children" | "sleep" | "waitFor" | "progress" | "audio",
  (...given: ReadonlyArray<unknown>) => Promise<unknown>
>
type Mistake = readonly [mistake: string, run: (parts: Parts) => unknown, message: string, kind?: object]

const counted = { output: z.object({ n: z.number() }) }
const filed = { files: ["pdf"] }
const late = async () =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

it.each<Mistake>([
  [
    "nothing returned, and an output declared",
    async () => undefined,
    "the result of hasty has no output, and the kind declares one: return { output: { … } } from run",
    counted,
  ],
  [
    "the output itself",
    async () => ({ n: 1 }),
    'run returned an object with "n" and without "output": return { output: { n, … } }',
  ],
  ["a number", async () => 5, "run returned a number: return { output: { … } }, or nothing"],
  [
    "an output of another type",
    async () => ({ output: { n: "1" } }),
    "the output does not match its schema: output.n",
    { ...counted, limits: { maxFailures: 1 } },
  ],
  [
    "a date",
    async () => ({ output: { at: new Date(0) } }),
    "the result of hasty has an output that is not JSON. output.at: Date is not JSON; use text (toISOString()), in schemas too",
  ],
  [
    "a cycle",
    async () => {
      const output: Record<string, unknown> = {}
      output["self"] = output
      return { output }
    },
    "the result of hasty has an output that is not JSON. output.self: the value contains itself, which JSON cannot represent; use ids",
  ],
  [
    "null as the output",
    async () => ({ output: null }),
    "the result of hasty has an output that is not JSON. output: null is not an object, such as { value }",
  ],
  [
    "a list as the output",
    async () => ({ output: [1] }),
    "the result of hasty has an output that is not JSON. output: a list is not an object, such as { value }",
  ],
  [
    "a text as the output",
    async () => ({ output: "done" }),
    "the result of hasty has an output that is not JSON. output: a string is not an object, such as { value }",
  ],
  [
    "a long output",
    async () => ({ output: { text: "x".repeat(limits.kindJsonLength - 10) } }),
    "the result of hasty has an output that is too long",
  ],
  [
    "a promise in a step",
    async ({ step }) => step("load", async () => ({ user: late() })),
    'step("load") returned a value that is not JSON. value.user: Promise is not JSON; await it',
  ],
  [
    "a step without await",
    async ({ step }) => {
      void step("mail", late)
      return done
    },
    'run returned before step("mail") had finished: await it',
  ],
  [
    "a step twice",
    async ({ step }) => {
      for (const n of [1, 2]) await step("mail", async () => n)
      return done
    },
    'step "mail" was used twice in this attempt; give each step a unique name, e.g. "mail-1"',
  ],
  [
    "a step without a name",
    async ({ step }) => step(async () => 1),
    "the name of a step must be text of up to 200 characters, without U+0000 or unpaired surrogates",
  ],
  [
    "a value instead of a function",
    async ({ step }) => step("mail", 5),
    'step("mail") expects a function as its second argument',
  ],
  [
    "a failure that nothing throws",
    async ({ failure: made }) => {
      void made("content_rejected")
      return done
    },
    'failure("content_rejected") has no effect unless its error ends run: write throw failure("content_rejected"); where run catches it, throw an error of your own',
  ],
  [
    "a failure that is returned",
    async () => failure("content_rejected"),
    'run returned failure("content_rejected"): write throw failure("content_rejected")',
  ],
  [
    "a code that the kind does not declare",
    async ({ failure: made }) => {
      throw made("card_declined") as object as Error
    },
    'unknown error code "card_declined" of hasty: declare it in errorCodes; none is defined',
  ],
  [
    "a text instead of a code",
    async ({ failure: made }) => {
      throw made("No such card") as object as Error
    },
    'the error code passed to failure() must be up to 64 lower-case letters, digits and "_"; pass text as failure(code, { message })',
    { limits: { maxFailures: 1 } },
  ],
  [
    "a file that the kind does not declare",
    async ({ writeFile }) => writeFile("pfd", async () => ({ data: Uint8Array.of(1), mediaType: "application/pdf" })),
    'unknown file "pfd" of hasty: declare it in files; did you mean "pdf"?',
    filed,
  ],
  [
    "a file that is not written",
    async () => done,
    'the result of hasty lacks the file "pdf", which the kind declares: write it with writeFile("pdf", …)',
    filed,
  ],
  [
    "one of two files that is not written",
    async ({ writeFile }) => {
      await writeFile("pdf", async () => ({ data: Uint8Array.of(1), mediaType: "application/pdf" }))
      return done
    },
    'the result of hasty lacks the file "cover", which the kind declares: write it with writeFile("cover", …)',
    { files: ["pdf", "cover"] },
  ],
  [
    "a file with the name of a field",
    async ({ writeFile }) => {
      await writeFile("pdf", async () => ({ data: Uint8Array.of(1), mediaType: "application/pdf" }))
      return { output: { pdf: "lost" } }
    },
    'the result of hasty has "pdf" both as a field of its output and as a file',
    filed,
  ],
  [
    "a file without a media type",
    async ({ writeFile }) => writeFile("pdf", async () => Uint8Array.of(1)),
    'writeFile("pdf") expects { data, mediaType }, and mediaType must be text without U+0000 or unpaired surrogates',
    filed,
  ],
  [
    "a file that is written in a step",
    async ({ step, writeFile }) => {
      await step("paint", async () => {
        await late()
        const file = { data: Uint8Array.of(1), mediaType: "application/pdf" }
        await writeFile("pdf", async () => file).catch(() => undefined)
        return true
      })
      return done
    },
    'writeFile("pdf") must not be called in step("paint"): a later attempt skips the step and lacks the file. Return the bytes from the step as text (base64) and write the file after it, or write it in a child job',
    filed,
  ],
  [
    "one child without a list",
    async ({ children }) => children("mails", "mail", {}),
    'children("mails") expects an array of requests as its third argument',
  ],
  [
    "children of a misspelled kind",
    async ({ children }) => children("mails", "mial", [{}]),
    'children("mails"): unknown job kind "mial"; did you mean "mail"?',
  ],
  [
    "a wrong request of a child",
    async ({ children }) => children("mails", "mail", [{ n: "1" }]),
    'child 0 of children("mails") was refused: InvalidRequest: n (type)',
  ],
  [
    "percent",
    async ({ progress }) => {
      void progress(50)
      return done
    },
    "the value of progress() must be a share from 0 to 1, not 50; for percent, divide by 100",
  ],
  [
    "a wait without a name",
    async ({ sleep }) => sleep("5 seconds"),
    'sleep("5 seconds"): the time must be milliseconds, text such as "90 seconds" or "1 hour", or a Date, at most 366 days from now',
  ],
  [
    "a wait without an end",
    async ({ waitFor }) => waitFor("approved"),
    'waitFor("approved"): timeout must be milliseconds, text such as "90 seconds" or "1 hour", or a Date, at most 366 days from now',
  ],
  [
    "the upload of a kind without one",
    async ({ audio }) => audio(),
    "a job of hasty has no uploaded file: name the field of its request in upload, and give it an upload",
  ],
  [
    "an unknown meter",
    async () => ({ output: {}, usage: { pages: 1 } }),
    'the result of hasty uses a meter that the kind does not declare; declared: "sheets"',
    { price: "p", meters: ["sheets"] },
  ],
  ["no usage", async () => ({ output: {}, usage: null }), "the result of hasty has a usage that is not an object"],
  [
    "a number as the usage",
    async () => ({ output: {}, usage: 5 }),
    "the result of hasty has a usage that is not an object",
  ],
  [
    "an unknown warning",
    async () => ({ output: {}, warningCode: "odd" }),
    expect.stringMatching(/^the result of hasty has an unknown warning code; known: \w+/) as never,
  ],
])("%s", async (_, run, message, kind = {}) => {
  const hasty = jobKind({ name: "hasty", request, ...(kind as { readonly output?: never }), run: run as never })
  await using kiln = await testEngine({ kinds: [hasty, mail] })
  const job = await kiln.submit("hasty", {})
  expect(job).toMatchObject({ status: "failed", attempts: 1 })
  const [attempt] = await kiln.operator.listAttempts(job)
  expect(attempt?.message).toEqual(message)
})

it("accepts files in any order, an unused meter and the longest output, and tries again after an invalid one", async () => {
  let runs = 0
  const write = async () => ({ data: Uint8Array.of(1), mediaType: "image/png" })
  const text = "x".repeat(limits.kindJsonLength - 11)
  const careful = jobKind({
    name: "careful",
    request,
    output: z.object({ text: z.string() }),
    files: ["b", "a"],
    price: "p",
    meters: ["sheets"],
    run: async ({ writeFile }) => {
      await writeFile("b", write)
      await writeFile("a", write)
      return { output: { text: runs++ === 0 ? (5 as never) : text }, usage: { sheets: 0 } }
    },
  })
  await using kiln = await testEngine({ kinds: [careful] })
  expect(await kiln.submit("careful", {})).toMatchObject({ status: "done", attempts: 2, output: { text } })
})
