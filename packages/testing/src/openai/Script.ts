import { answer, type OpenAiBehavior } from "./Behavior.ts"
import type { OpenAiAnswers, OpenAiEndpoint } from "./Endpoint.ts"

/** The scripted behaviors of each endpoint. */
export interface Script {
  readonly add: <E extends OpenAiEndpoint>(
    endpoint: E,
    behaviors: ReadonlyArray<OpenAiBehavior<OpenAiAnswers[E]>>,
  ) => void
  readonly usually: <E extends OpenAiEndpoint>(endpoint: E, behavior: OpenAiBehavior<OpenAiAnswers[E]>) => void
  /** Takes the next scripted behavior, or returns the usual one. */
  readonly next: <E extends OpenAiEndpoint>(endpoint: E) => OpenAiBehavior<OpenAiAnswers[E]>
}

/** Behaviors by endpoint, as given in options. */
export type ScriptedBehaviors = {
  readonly [E in OpenAiEndpoint]?: ReadonlyArray<OpenAiBehavior<OpenAiAnswers[E]>>
}
export type UsualBehaviors = { readonly [E in OpenAiEndpoint]?: OpenAiBehavior<OpenAiAnswers[E]> }

interface Lines<E extends OpenAiEndpoint> {
  usual: OpenAiBehavior<OpenAiAnswers[E]>
  readonly scripted: Array<OpenAiBehavior<OpenAiAnswers[E]>>
}
type AllLines = { readonly [E in OpenAiEndpoint]: Lines<E> }

export const makeScript = (usual: UsualBehaviors = {}, scripted: ScriptedBehaviors = {}): Script => {
  const linesFor = <E extends OpenAiEndpoint>(endpoint: E): Lines<E> => ({
    usual: usual[endpoint] ?? answer(),
    scripted: [...(scripted[endpoint] ?? [])],
  })
  const all: AllLines = {
    transcription: linesFor("transcription"),
    speech: linesFor("speech"),
    chat: linesFor("chat"),
    responses: linesFor("responses"),
    image: linesFor("image"),
    imageFile: linesFor("imageFile"),
    models: linesFor("models"),
  }
  const linesOf = <E extends OpenAiEndpoint>(endpoint: E): Lines<E> => all[endpoint]
  return {
    add: (endpoint, behaviors) => {
      linesOf(endpoint).scripted.push(...behaviors)
    },
    usually: (endpoint, behavior) => {
      linesOf(endpoint).usual = behavior
    },
    next: (endpoint) => {
      const lines = linesOf(endpoint)
      return lines.scripted.shift() ?? lines.usual
    },
  }
}
