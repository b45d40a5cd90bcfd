// The same kind with Effect: an Effect Schema struct, and a run that is an Effect.
import { AttemptFailed, JobKind } from "@kiln/core/kinds"
import { Effect, Schema } from "effect"
import type { Tools } from "./kind.ts"

const wordsOf = (text: string): number => text.split(/\s+/).filter((word) => word !== "").length

const failed = (detail: string) => () => new AttemptFailed({ errorCode: "provider_unavailable", retry: true, detail })

export const summaryKindWithEffect = (tools: Tools) =>
  JobKind({
    name: "summary",
    request: Schema.Struct({
      text: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(20_000)),
      sentences: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 5 })).pipe(
        Schema.withDecodingDefaultKey(Effect.succeed(1)),
      ),
      documentId: Schema.String.check(Schema.isMaxLength(100)),
    }),
    output: Schema.Struct({ summary: Schema.String, wordCount: Schema.Int }),
    files: ["page"],
    metadata: ["documentId"],
    price: "svc-summary",
    meters: ["input_words"],
    limits: { runLimitMs: 300_000, maxFailures: 2, concurrency: 8 },
    run: Effect.fnUntraced(function* ({ writeFile, request, step }) {
      const { sentences, text } = request
      const summarized = Effect.tryPromise({
        try: (signal) => tools.summarize(text, sentences, signal),
        catch: failed("the text could not be summarized"),
      })
      const summary = yield* step("summary", summarized)
      const rendered = Effect.tryPromise({
        try: (signal) => tools.render(summary, signal),
        catch: failed("the page could not be rendered"),
      })
      const page = yield* writeFile(
        "page",
        Effect.map(rendered, (html) => ({ data: new TextEncoder().encode(html), mediaType: "text/html" })),
      )
      const output = { summary, wordCount: wordsOf(summary) }
      return { output, files: [page], usage: { input_words: wordsOf(text) } }
    }),
  })
