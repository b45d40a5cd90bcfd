import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { fixtures } from "@kiln/conformance"
import { openDatabase } from "../src/openDatabase.ts"
import { storesOf } from "./support/arrangeJobs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { jobId, newJob } = fixtures

it.effect("a page reads 2,000 jobs at most: rare matches come in short pages, and all of them come", () =>
  Effect.gen(function* () {
    const { directory, jobs } = storesOf(yield* openDatabase({ path: yield* temporaryFile }))
    yield* jobs.createJobs(Array.from({ length: 4_500 }, (_, n) => newJob(n + 1)))
    yield* jobs.cancelJobs([jobId(1), jobId(2_600), jobId(2_601)])
    const pages: Array<ReadonlyArray<string>> = []
    let after: string | undefined
    do {
      const page = yield* directory.listJobs({ status: "failed", limit: 5, after })
      pages.push(page.jobs.map(({ id }) => id))
      after = page.next
    } while (after !== undefined)
    // By id, since they have the same creation time: 4,500 to 2,501, to 501, to 1.
    expect(pages).toEqual([[jobId(2_601), jobId(2_600)], [], [jobId(1)]])
  }),
)
