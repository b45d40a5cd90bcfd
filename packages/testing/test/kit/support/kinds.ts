import { builtIn, failure, jobKind } from "@kiln/core"
import { Schema } from "effect"

/** A custom kind whose attempts are controlled by the test. */
export const greeting = (run: (name: string, attempt: number) => Promise<string>) =>
  jobKind({
    name: "greeting",
    request: Schema.Struct({ name: Schema.String, polite: Schema.optionalKey(Schema.Boolean) }),
    output: Schema.Struct({ text: Schema.String }),
    run: async ({ attempt, request }) => ({ output: { text: await run(request.name, attempt) } }),
  })

export const speech = builtIn.speechSynthesis()

/** Thrown by an attempt that may succeed later. */
export const busy = () => failure("provider_unavailable", { message: "busy", retry: true })
