// A complete custom kind: request, output, price, and the code that runs it.
import { failure, jobKind } from "@kiln/core"
import { z } from "zod"

/** The tools that do the work, for example a model and a renderer. */
export interface Tools {
  readonly summarize: (text: string, sentences: number, signal: AbortSignal) => Promise<string>
  /** May throw; the attempt is then retried. */
  readonly render: (summary: string, signal: AbortSignal) => Promise<string>
}

const wordsOf = (text: string): number => text.split(/\s+/).filter((word) => word !== "").length

/** Turns a text into a summary, a word count and a page. */
export const summaryKind = (tools: Tools) =>
  jobKind({
    name: "summary",
    request: z.strictObject({
      text: z.string().min(1).max(20_000),
      sentences: z.int().min(1).max(5).default(1),
      /** The caller's name for the document. */
      documentId: z.string().max(100),
    }),
    output: z.object({ summary: z.string(), wordCount: z.int() }),
    files: ["page"],
    // Survives when the rest of the request is erased.
    metadata: ["documentId"],
    price: "svc-summary",
    meters: ["input_words"],
    limits: { runLimitMs: 300_000, maxFailures: 2, concurrency: 8 },
    run: async ({ writeFile, request, step }) => {
      const { sentences, text } = request
      // Stored as soon as it is done: a retry reuses it without paying again.
      const summary = await step("summary", (signal) => tools.summarize(text, sentences, signal))
      await writeFile("page", async (signal) => {
        const html = await tools.render(summary, signal).catch(() => {
          throw failure("provider_unavailable", { message: "the page could not be rendered", retry: true })
        })
        return { data: new TextEncoder().encode(html), mediaType: "text/html" }
      })
      return { output: { summary, wordCount: wordsOf(summary) }, usage: { input_words: wordsOf(text) } }
    },
  })
