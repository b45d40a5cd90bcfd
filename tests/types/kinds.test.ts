import { beforeAll, describe, expect, it } from "vitest"
import { type Complaint, compilePrograms } from "./compilePrograms.ts"

const parts = `
import { asyncProviders, builtIn, builtInKinds, createEngine, type EmbeddedEngine, jobKind } from "@kiln/core"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { z } from "zod"

const [store, blobs] = [memoryStore(), memoryBlobs()]
const speech = async () => ({ data: new Uint8Array(), mediaType: "audio/mpeg" })
const image = async () => ({ data: new Uint8Array(), mediaType: "image/png" })
const reply = async () => ({ text: "", outputTokens: 0, truncated: false })
const transcription = async () => ({ text: "" })
const turn = async () => ({ ...(await reply()), audio: await speech() })
const summary = jobKind({
  name: "summary",
  request: z.object({ text: z.string(), orderId: z.string() }),
  output: z.object({ words: z.number() }),
  files: ["audio"],
  metadata: ["orderId"],
  providers: ["reply"],
  run: async ({ ask, writeFile, request }) => {
    const { text } = await ask.reply({ text: request.text, instructions: undefined, maxOutputTokens: 9 })
    await writeFile("audio", speech)
    return { output: { words: text.length } }
  },
})
`
const program = (use: string): string => parts + use
const withSummary = (use: string): string =>
  program(`const engine = await createEngine({ store, blobs, kinds: [summary], providers: { sandbox: { reply } } })
${use}`)
const kind = (fields: string): string =>
  program(
    `jobKind({ name: "k", request: z.object({ text: z.string() }), output: z.object({ n: z.number() }), ${fields} })`,
  )

const right = {
  allKinds: program(
    `await createEngine({ store, blobs, kinds: builtInKinds(), providers: { live: { speech, image, reply, transcription, voiceTurn: turn } } })`,
  ),
  onlyOne: program(
    `await createEngine({ store, blobs, kinds: [builtIn.speechSynthesis()], providers: { sandbox: { speech } } })`,
  ),
  eitherWay: program(`for (const sandbox of [{ reply, transcription, speech }, { voiceTurn: turn }])
  await createEngine({ store, blobs, kinds: [builtIn.voiceTurn()], providers: { sandbox } })`),
  noProviders: program(`
const free = jobKind({ name: "free", request: z.object({}), run: async () => ({ output: {} }) })
await createEngine({ store, blobs, kinds: [free] })`),
  submitsOnly: program(`await createEngine({ store, blobs, kinds: builtInKinds(), worker: false })`),
  customOutput: withSummary(`
const job = await engine.submitAndWait("summary", { text: "a", orderId: "o" })
if (job.status === "done" && job.output !== null) {
  const words: number = job.output.words
  const bytes: Uint8Array = await engine.readFile(job.output.audio)
  console.log(words, bytes)
}
if (job.status === "failed") console.log(job.errorCode satisfies string)`),
  waitKnowsTheKind: withSummary(`
const done = await engine.wait(await engine.submit("summary", { text: "a", orderId: "o" }))
if (done.status === "done") console.log(done.output?.words.toFixed())`),
  anyEngine: withSummary(`
const shared = async (any: EmbeddedEngine) => { await any.wait("job_1"); await any.operator.count() }
await shared(engine)`),
  ownSwitch: program(`
const exporting = jobKind({ name: "e", request: z.object({}), switches: ["exports"], run: async () => ({ output: {} }) })
const engine = await createEngine({ store, blobs, kinds: [exporting], mode: "live" })
await engine.operator.setSwitch("exports", true)`),
  ownMeters: kind(
    `price: "p", meters: ["pages", "images"], maxUsage: () => ({ pages: 9 }), run: async () => ({ output: { n: 1 }, usage: { pages: 1 } })`,
  ),
  batches: kind(`errorCodes: ["refused"], batch: { size: 8, waitMs: 200 }, run: async ({ failure, jobs }) =>
  jobs.map(({ request }) => (request.text === "" ? failure("refused") : { output: { n: request.text.length } }))`),
  builtInMeters: kind(`run: async () => ({ output: { n: 1 }, usage: { images: 1 } })`),
  streamedFile: kind(`files: { video: { maxBytes: 9 } }, run: async ({ upload, writeFile }) => {
  const { stream } = await upload()
  await writeFile("video", async () => ({ data: stream(), mediaType: "video/mp4" }))
  return { output: { n: 1 } }
}`),
  errorMessage: withSummary(`
const job = await engine.submitAndWait("summary", { text: "a", orderId: "o" })
if (job.status === "failed") console.log(job.errorMessage satisfies string | null)`),
  events: withSummary(`
using heard = engine.on("attempt_failed", ({ attempt, errorCode, retryInMs }) => console.log(attempt, errorCode, retryInMs))
heard()`),
}

/** Each with the names that the first two lines of the message must contain. */
const wrong = {
  missingProvider: [
    program(
      `await createEngine({ store, blobs, kinds: [builtIn.speechSynthesis(), builtIn.imageGeneration], providers: { sandbox: { speech } } })`,
    ),
    "'image'",
  ],
  missingProviderOfOwnKind: [
    program(`await createEngine({ store, blobs, kinds: [summary], providers: { live: { speech } } })`),
    "'reply'",
  ],
  noProvidersAtAll: [program(`await createEngine({ store, blobs, kinds: [summary] })`), "'providers'"],
  providerThatAnswersOther: [
    program(`asyncProviders({ image, speech: async () => ({ data: "text", mediaType: "audio/mpeg" }) })`),
    `'AsyncProvider<"speech">'`,
  ],
  wrongRequest: [
    withSummary(`await engine.submit("summary", { text: 1, orderId: "o" })`),
    "'number' is not assignable to type 'string'",
  ],
  missingField: [withSummary(`await engine.submit("summary", { text: "a" })`), "'orderId' is missing"],
  anotherKind: [withSummary(`await engine.submit("speech_synthesis", { input: "a" })`), '"summary"'],
  outputBeforeDone: [
    withSummary(`console.log((await engine.submit("summary", { text: "a", orderId: "o" })).output)`),
    "'output' does not exist",
  ],
  outputMayBeGone: [
    withSummary(
      `const job = await engine.submitAndWait("summary", { text: "a", orderId: "o" }); if (job.status === "done") console.log(job.output.words)`,
    ),
    "'job.output' is possibly 'null'",
  ],
  wrongOutputUse: [
    withSummary(
      `const job = await engine.submitAndWait("summary", { text: "a", orderId: "o" }); if (job.status === "done") job.output?.words.trim()`,
    ),
    "'trim' does not exist on type 'number'",
  ],
  noTransactions: [
    withSummary(`await engine.submit("summary", { text: "a", orderId: "o" }, { transaction: {} })`),
    "'undefined'",
  ],
  wrongOutputOfOwnKind: [
    kind(`run: async () => ({ output: { n: "one" } })`),
    "'AttemptOutcome<NoInfer<{ n: number; }>, never>'",
  ],
  providerThatIsNotAsked: [
    kind(
      `providers: ["reply"], run: async ({ ask }) => { await ask.speech({ text: "", voice: "" }); return { output: { n: 1 } } }`,
    ),
    "'speech' does not exist",
  ],
  stepInABatch: [
    kind(
      `batch: { size: 8, waitMs: 200 }, run: async ({ jobs }) => { await jobs[0]?.step("a", async () => 1); return [] }`,
    ),
    "'step' does not exist",
  ],
  wrongOutputInABatch: [
    kind(`batch: { size: 8, waitMs: 200 }, run: async ({ jobs }) => jobs.map(() => ({ output: { n: "one" } }))`),
    "'readonly BatchOutcome<",
  ],
  noListOfABatch: [
    kind(`batch: { size: 8, waitMs: 200 }, run: async () => ({ output: { n: 1 } })`),
    "'readonly BatchOutcome<",
  ],
  unknownProvider: [kind(`providers: ["speach"], run: async () => ({ output: { n: 1 } })`), '"speach"'],
  metadataThatIsNotThere: [kind(`metadata: ["order"], run: async () => ({ output: { n: 1 } })`), '"order"'],
  notAKind: [
    program(
      `await createEngine({ store, blobs, kinds: [{ name: "k" }], providers: { sandbox: { speech, image, reply, transcription, voiceTurn: turn } } })`,
    ),
    "'\"~kind\"'",
  ],
  unknownSwitch: [
    program(
      `await (await createEngine({ store, blobs, kinds: [builtIn.speechSynthesis()], providers: { sandbox: { speech } } })).operator.setSwitch("adio", true)`,
    ),
    '"adio"',
  ],
  unknownMeter: [
    kind(`price: "p", meters: ["pages"], run: async () => ({ output: { n: 1 }, usage: { pgaes: 1 } })`),
    "'AttemptOutcome<NoInfer<{ n: number; }>, \"pages\">'",
  ],
  unknownMeterOfTheMaximum: [
    kind(`price: "p", meters: ["pages"], maxUsage: () => ({ pgaes: 1 }), run: async () => ({ output: { n: 1 } })`),
    "pgaes",
  ],
  unknownFileOption: [kind(`files: { video: { maxByte: 1 } }, run: async () => ({ output: { n: 1 } })`), "'maxByte'"],
  unknownEvent: [withSummary(`engine.on("finished", () => undefined)`), '"finished"'],
} as const

describe("kinds and providers, to the compiler", () => {
  let complaints: Readonly<Record<string, ReadonlyArray<Complaint>>>
  beforeAll(() => {
    const programs = Object.entries(wrong).map(([name, [code]]) => [name, code])
    complaints = compilePrograms({ ...right, ...Object.fromEntries(programs) })
  })

  it.each(Object.keys(right))("compiles: %s", (name) => expect(complaints[name]).toEqual([]))

  it.each(Object.entries(wrong))("does not compile, and its first lines say why: %s", (name, [code, named]) => {
    const [first, ...others] = complaints[name] ?? []
    expect(others).toEqual([])
    expect(first?.line).toBe(code.split("\n").length)
    expect(first?.whole.split("\n").slice(0, 2).join("\n")).toContain(named)
  })
})
