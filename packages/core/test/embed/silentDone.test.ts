import { createEngine, failure as importedFail, jobKind, type LogEntry } from "@kiln/core"
import type { JsonObject } from "@kiln/core/domain"
import { JobKind } from "@kiln/core/kinds"
import { effectProvider } from "@kiln/core/providers"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { Effect, Schema } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

/** Code that forgets `await` or `throw` does not end its job as done. */

const request = z.object({})
const quick = jobKind({ name: "quick", request, run: async () => ({ output: {} }) })

type Run = Parameters<typeof jobKind<"hasty", typeof request, JsonObject, "page", "speech">>[0]["run"]

/** The end of a job, what its last attempt threw, and the errors in the log. */
const endOf = async (run: Run, files: ReadonlyArray<"page"> = []) => {
  const thrown: Array<unknown> = []
  const log: Array<LogEntry> = []
  const hasty = jobKind({ name: "hasty", request, files, providers: ["speech"], limits: { maxFailures: 2 }, run })
  await using engine = await openWith([hasty, quick], {
    onAttemptFailed: (error) => void thrown.push(error),
    log: (entry) => log.push(entry),
  })
  const job = await engine.submitAndWait("hasty", {}, { timeoutMs: 60_000 })
  const attempts = await engine.operator.listAttempts(job)
  const errors = log.filter(({ level }) => level === "error").map(({ message }) => message)
  return { job, message: attempts.at(-1)?.message, thrown: thrown.at(-1), errors: errors.join("\n") }
}

const done = { output: {} }
const later = async () => {
  await new Promise((resolve) => {
    setImmediate(() => setImmediate(resolve))
  })
  return 1
}
const page = { data: Uint8Array.of(1), mediaType: "text/plain" }
const broken = async (): Promise<never> => {
  throw new RangeError("no connection")
}

describe("a job whose handler is wrong fails at once, and its operator reads why:", () => {
  it.each<[string, Run, string]>([
    [
      "a step without await",
      async ({ step }) => {
        void step("mail", later)
        return done
      },
      'run returned before step("mail") had finished: await it',
    ],
    [
      "a function with a step without await",
      async ({ step }) => {
        for (const n of [1, 2]) void (async () => step(`item-${n}`, later))()
        return done
      },
      'run returned before step("item-1") had finished: await it',
    ],
    [
      "a step that is raced and lost",
      async ({ step }) => {
        await Promise.race([step("slow", later), Promise.resolve()])
        return done
      },
      'run returned before step("slow") had finished: await it',
    ],
    [
      "a step that has failed without await",
      async ({ step }) => {
        void step("mail", broken)
        await later()
        return done
      },
      'step("mail") failed, and run did not await it',
    ],
    [
      "children without await",
      async ({ children }) => {
        void children("clips", quick, [{}])
        return done
      },
      'run returned before children("clips") had finished: await it',
    ],
    [
      "a file without await",
      async ({ writeFile }) => {
        void writeFile("page", async () => {
          await later()
          return page
        })
        return done
      },
      'run returned before writeFile("page") had finished: await it',
    ],
    [
      "failure() without throw",
      async ({ failure }) => {
        failure("content_rejected")
        return done
      },
      'failure("content_rejected") has no effect unless its error ends run: write throw failure("content_rejected"); where run catches it, throw an error of your own',
    ],
    [
      "failure() that the handler throws and catches itself",
      async ({ failure }) => {
        const results = await Promise.allSettled([broken(), Promise.reject(failure("content_rejected"))])
        return { output: { failed: results.length } }
      },
      'failure("content_rejected") has no effect unless its error ends run: write throw failure("content_rejected"); where run catches it, throw an error of your own',
    ],
    [
      "failure() that is returned",
      async () => importedFail("content_rejected") as never,
      'run returned failure("content_rejected"): write throw failure("content_rejected")',
    ],
    [
      "a step without a function",
      async ({ step }) => {
        await step("mail", later() as never)
        return done
      },
      'step("mail") expects a function as its second argument',
    ],
    [
      "progress beyond its range",
      async ({ progress }) => {
        progress(50)
        return done
      },
      "the value of progress() must be a share from 0 to 1, not 50",
    ],
  ])("%s", async (_, run, message) => {
    const files = message.includes("page") ? (["page"] as const) : []
    const { errors, job, message: recorded } = await endOf(run, files)
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
    expect(recorded).toContain(message)
    expect(errors).toContain(message)
  })

  it("a call of a provider without await; one that is raced may lose", async () => {
    const hangs = effectProvider("speech", () => Effect.never)
    const asking = (name: string, run: Run) => jobKind({ name, request, providers: ["speech"], run: run as never })
    const errors: Array<string> = []
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [
        asking("forgetful", async ({ ask }) => {
          void ask.speech({ text: "hello", voice: "alloy" })
          return done
        }),
        asking("racing", async ({ ask }) => {
          await Promise.race([ask.speech({ text: "hello", voice: "alloy" }), later()])
          return done
        }),
      ],
      providers: { sandbox: { speech: hangs } },
      log: false,
      onAttemptFailed: (error) => void errors.push((error as Error).message),
    })
    expect(await engine.submitAndWait("forgetful", {} as never)).toMatchObject({ status: "failed", attempts: 1 })
    expect(errors).toEqual(["run returned before ask.speech() had finished: await it"])
    expect(await engine.submitAndWait("racing", {} as never)).toMatchObject({ status: "done" })
  })

  it("with what a step that nobody awaited threw as the cause, which the log does not quote", async () => {
    const { errors, thrown } = await endOf(async ({ step }) => {
      void step("mail", broken)
      await later()
      return done
    })
    expect(thrown).toMatchObject({ name: "KindBug", cause: { message: "no connection" } })
    expect(errors).not.toContain("no connection")
  })
})

describe("a job is done", () => {
  it.each<[string, Run]>([
    [
      "whose steps are awaited together",
      async ({ step }) => ({ output: { sum: (await Promise.all([step("a", later), step("b", later)])).length } }),
    ],
    [
      "that awaits a step later",
      async ({ step }) => {
        const first = step("a", broken)
        await step("b", later)
        await later()
        await first.catch(() => undefined)
        return done
      },
    ],
    [
      "that catches a failed step",
      async ({ step }) => {
        await step("a", broken).catch(() => undefined)
        const [settled] = await Promise.allSettled([step("b", broken)])
        return { output: { status: settled.status } }
      },
    ],
    [
      "that catches what a step threw with failure()",
      async ({ failure, step }) => {
        const refused = async (): Promise<never> => {
          throw failure("content_rejected")
        }
        await step("a", refused).catch(() => undefined)
        return done
      },
    ],
    [
      "that does not await a step which has ended well",
      async ({ step }) => {
        void step("a", async () => 1)
        await later()
        await later()
        return done
      },
    ],
    [
      "that reports a share which is not exact",
      async ({ progress }) => {
        progress(1 + 1e-12)
        progress(Number.NaN)
        progress(-1e-12)
        return done
      },
    ],
  ])("%s", async (_, run) => {
    expect((await endOf(run)).job).toMatchObject({ status: "done", attempts: 1 })
  })

  it("if one of its steps is asked by a library that wants real promises", async () => {
    const { job } = await endOf(async ({ step }) => {
      const promise = step("a", later)
      return {
        output: { isPromise: promise instanceof Promise, derived: promise.then(() => 1).constructor === Promise },
      }
    })
    // Its derived promise was not awaited, and neither was the step.
    expect(job).toMatchObject({ status: "failed" })
  })
})

it("in kinds written with Effect, a step in a fiber that the work leaves fails the job", async () => {
  const kind = JobKind({
    name: "forking",
    request: Schema.Struct({}),
    run: ({ step }) =>
      Effect.gen(function* () {
        yield* Effect.forkChild(step("mail", Effect.sleep("1 hours") as never), { startImmediately: true })
        return { output: {}, files: [], usage: {} }
      }),
  })
  const log: Array<LogEntry> = []
  await using engine = await openWith([kind as never], { log: (entry) => log.push(entry) })
  const job = (await engine.submitAndWait("forking" as never, {} as never)) as object
  expect(job).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
  expect(log.map(({ message }) => message).join("\n")).toContain('run returned before step("mail") had finished')
})
