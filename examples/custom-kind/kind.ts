// A fifth kind of job, whole: what is asked for, what comes out, what it costs, and how it is done.
import { jobFailed, jobKind } from "@kiln/core"
import { z } from "zod"

/** The services that do the work, for example a model and a renderer. */
export interface Tools {
  readonly summarize: (text: string, sentences: number, signal: AbortSignal) => Promise<string>
  /** May throw: then the attempt is made again. */
  readonly render: (summary: string, signal: AbortSignal) => Promise<string>
}

const wordsOf = (text: string): number => text.split(/\s+/).filter((word) => word !== "").length

/** A text in; its summary, a count of words and a page out. */
export const summaryKind = (tools: Tools) =>
  jobKind({
    name: "summary",
    request: z.strictObject({
      text: z.string().min(1).max(20_000),
      sentences: z.int().min(1).max(5).default(1),
      /** What the caller calls it. */
      documentId: z.string().max(100),
    }),
    output: z.object({ summary: z.string(), wordCount: z.int() }),
    files: ["page"],
    // Not the caller's data: it is still there when the rest is erased.
    keeps: ["documentId"],
    price: "svc-summary",
    meters: ["input_words"],
    limits: { runLimitMs: 300_000, maxFailures: 2, concurrency: 8 },
    run: async ({ file, request, step }) => {
      const { sentences, text } = request
      // Kept as soon as it is made: an attempt after this one gets it without paying for it again.
      const summary = await step("summary", (signal) => tools.summarize(text, sentences, signal))
      await file("page", async (signal) => {
        const html = await tools.render(summary, signal).catch(() => {
          throw jobFailed("provider_unavailable", "the page could not be rendered", { retry: true })
        })
        return { data: new TextEncoder().encode(html), mediaType: "text/html" }
      })
      return { output: { summary, wordCount: wordsOf(summary) }, usage: { input_words: wordsOf(text) } }
    },
  })
