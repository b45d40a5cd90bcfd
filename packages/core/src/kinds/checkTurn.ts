import { Effect } from "effect"
import type { Turn } from "../ports/index.ts"
import type { AttemptFailed } from "./AttemptContext.ts"
import { checkAudio, checkReply, checkText, checkTranscript } from "./results.ts"

/** A voice turn that one provider made: what is asked of a reply, of a transcript where there is one, and of audio. Fails with `result_invalid`. */
export const checkTurn = (turn: Turn, maxOutputTokens: number): Effect.Effect<Turn, AttemptFailed> =>
  Effect.gen(function* () {
    const reply = yield* checkReply(turn, maxOutputTokens)
    const { transcript } = turn
    if (transcript !== undefined) yield* checkText(transcript)
    const { seconds } = yield* checkTranscript({ text: "", seconds: turn.seconds })
    return { ...reply, transcript, seconds, audio: yield* checkAudio(turn.audio) }
  })
