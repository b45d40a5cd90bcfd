// A process of its own, so that bugs can be planted into the modules that it loads: says what the scenario came to.
import { Effect, Logger } from "effect"
import { answerFromBefore } from "./answerFromBefore.ts"

const { job, provider } = await Effect.runPromise(Effect.provide(answerFromBefore, Logger.layer([])))
console.log(`the job is ${job}, the provider is ${provider}`)
