import {
  answer,
  answerLate,
  badRequest,
  contentPolicyViolation,
  malformed,
  overloaded,
  type OpenAiBehavior,
  type OpenAiStandIn,
  reset,
  serverError,
  truncated,
} from "@kiln/testing/openai"

/** What the seed makes of a call: most are answered, some later than others, and a few in every wrong way. */
const behaviorFrom = (random: () => number): OpenAiBehavior<never> => {
  const faults = [serverError, overloaded, reset("before"), reset("middle"), truncated("file"), malformed("otherShape")]
  const refusals = [contentPolicyViolation, badRequest("input")]
  const pick = <A>(list: ReadonlyArray<A>): A | undefined => list[Math.floor(random() * list.length)]
  const chance = random()
  if (chance < 0.03) return pick(faults) ?? serverError
  if (chance < 0.05) return pick(refusals) ?? serverError
  return chance < 0.5 ? answerLate(Math.floor(60 * random())) : answer()
}

/** The provider says that the recording is longer than it is, which changes no charge. */
const reportedSeconds = 2.5

/** Scripts the first calls of every endpoint; those after them are answered. */
export const scriptFaults = (standIn: OpenAiStandIn, random: () => number, jobs: number): void => {
  standIn.usually("transcription", answer({ seconds: reportedSeconds }))
  const plain = { transcription: answer({ seconds: reportedSeconds }) }
  for (const [endpoint, share] of [
    ["speech", 1],
    ["image", 0.06],
    ["chat", 0.06],
    ["transcription", 0.14],
  ] as const) {
    const count = Math.ceil(jobs * share)
    const behaviors = Array.from({ length: count }, () => behaviorFrom(random))
    if (endpoint === "transcription") {
      // An answer of its own would say the file's own seconds.
      const said = behaviors.map((one) =>
        one._tag === "Answer" || one._tag === "AnswerLate" ? plain.transcription : one,
      )
      standIn.script(endpoint, ...said)
    } else standIn.script(endpoint, ...behaviors)
  }
}
