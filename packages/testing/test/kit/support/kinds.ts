import { builtIn, jobFailed, jobKind } from "@kiln/core"
import { Schema } from "effect"

/** A custom kind whose attempts do what the test says. */
export const greeting = (run: (name: string, attempt: number) => Promise<string>) =>
  jobKind({
    name: "greeting",
    request: Schema.Struct({ name: Schema.String, polite: Schema.optionalKey(Schema.Boolean) }),
    output: Schema.Struct({ text: Schema.String }),
    run: async ({ attempt, request }) => ({ output: { text: await run(request.name, attempt) } }),
  })

export const speech = builtIn.speechSynthesis()

/** To be thrown by an attempt: it may go better later. */
export const busy = () => jobFailed("provider_unavailable", "busy", { retry: true })
