// A separate process, so that bugs can be planted into the modules it loads. Prints the outcome of the scenario.
import { Effect, Logger } from "effect"
import { answerFromBefore } from "./answerFromBefore.ts"

const { job, provider } = await Effect.runPromise(Effect.provide(answerFromBefore, Logger.layer([])))
console.log(`the job is ${job}, the provider is ${provider}`)
