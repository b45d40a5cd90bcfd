import { jobKind } from "@kiln/core"
import { z } from "zod"

/** A custom job kind: the first words of a text. Yours would call a model. */
export const headline = jobKind({
  name: "headline",
  request: z.strictObject({ articleText: z.string().min(1).max(20_000), maxWords: z.int().min(1).default(5) }),
  output: z.object({ headline: z.string(), wordCount: z.int() }),
  run: async ({ request, step }) => {
    const words = await step("words", async () => request.articleText.trim().split(/\s+/).slice(0, request.maxWords))
    return { output: { headline: words.join(" "), wordCount: words.length } }
  },
})
