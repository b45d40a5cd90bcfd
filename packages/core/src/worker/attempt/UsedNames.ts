import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { isEngineStep } from "../../domain/Child.ts"
import { isStorableText } from "../../domain/index.ts"
import { KindBug } from "../../kinds/KindBug.ts"

/** The functions of a context that use a name. */
type NamedCall =
  | "step"
  | "lastStep"
  | "engine.submit"
  | "engine.submitWith"
  | "children"
  | "sleep"
  | "waitFor"
  | "keepFile"
  | "writeFile"

/** A step whose value is kept, while its work runs. */
export interface RunningStep {
  readonly names: UsedNames
  readonly name: string
  /** The problem of a file that was written in it. */
  problem: string | undefined
}

/** The step in which an effect runs, for attempts whose kind has files. */
export const CurrentStep = Context.Reference<RunningStep | undefined>("@kiln/core/worker/attempt/CurrentStep", {
  defaultValue: () => undefined,
})

/** Maximum length of a name in a message, and therefore in the log. */
const shownLength = 64

/**
 * The names that one attempt has used for steps and files. A step's value is stored under its name, from which a later attempt
 * reads it, so two steps with the same name would both get the first one's value. Files with the same name would overwrite each
 * other.
 */
export class UsedNames {
  readonly #used = { step: new Map<string, NamedCall | undefined>(), file: new Map<string, NamedCall | undefined>() }
  readonly #hasFiles: boolean
  #bug: KindBug | undefined

  /** `hasFiles`: whether the kind has files, which must not be written in steps. */
  constructor(hasFiles: boolean) {
    this.#hasFiles = hasFiles
  }

  /**
   * The bug of an attempt that used a name twice, or wrote a file in a step. Catching its error does not help: no later step starts,
   * and the bug is reported when the attempt ends.
   */
  get bug(): KindBug | undefined {
    return this.#bug
  }

  /** The bug of an attempt whose work returns now, although a step or a file has begun and not ended; `undefined` if all have ended. */
  get unfinishedBug(): KindBug | undefined {
    for (const used of [this.#used.step, this.#used.file])
      for (const [name, running] of used)
        if (running !== undefined)
          return new KindBug(`run returned before ${shownCall(running, name)} had finished: await it`)
    return undefined
  }

  /** Runs an effect under a name. If it fails, the name may be used again, so that the same step can be retried. */
  readonly once =
    (call: NamedCall, name: string) =>
    <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.withFiber((fiber) => {
        const what = call === "keepFile" || call === "writeFile" ? "file" : "step"
        const used = this.#used[what]
        const problem = used.has(name) ? usedTwice(what, name) : what === "step" ? stepProblem(name) : undefined
        if (problem !== undefined) this.#bug ??= new KindBug(problem)
        if (this.#bug !== undefined) return Effect.die(this.#bug)
        used.set(name, call)
        return Effect.onExit(effect, (exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit)) used.delete(name)
            else {
              used.set(name, undefined)
              if (what === "file") this.#noteFile(call, name, fiber.getRef(CurrentStep))
            }
          }),
        )
      })

  /**
   * Runs the work of a step whose value is kept. It is a bug if it has written a file, because a later attempt skips the step, and files
   * belong to their attempt.
   */
  within<A, E, R>(name: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    if (!this.#hasFiles) return effect
    return Effect.suspend(() => {
      const step: RunningStep = { names: this, name, problem: undefined }
      return Effect.tap(Effect.provideService(effect, CurrentStep, step), () => {
        if (step.problem === undefined) return Effect.void
        return Effect.die((this.#bug ??= new KindBug(step.problem)))
      })
    })
  }

  /**
   * Notes a file whose write began and ended in a step of this attempt. One that outlasts the step's work does not count: a queue of the
   * program may have begun it in the context of the step.
   */
  #noteFile(call: NamedCall, file: string, step: RunningStep | undefined): void {
    if (step?.names !== this) return
    step.problem ??= `${shownCall(call, file)} must not be called in ${shownCall("step", step.name)}: a later attempt skips the step and lacks the file. Return the bytes from the step as text (base64) and write the file after it, or write it in a child job`
  }
}

/** A call of a context function, for messages to operators: `children("clips")`. */
export const shownCall = (what: string, name: unknown): string =>
  typeof name === "string" ? `${what}(${JSON.stringify(name.slice(0, shownLength))})` : `${what}()`

/** Maximum length of the name of a step, in UTF-16 code units. Names are keys of stores, and part of the keys of children. */
const maxStepLength = 200

/** Checked before the step runs, because afterwards its work may have been paid for. */
const stepProblem = (name: unknown): string | undefined => {
  if (typeof name !== "string" || name.length > maxStepLength || !isStorableText(name))
    return `the name of a step must be text of up to ${maxStepLength} characters, without U+0000 or unpaired surrogates`
  return isEngineStep(name) ? `a step must not be named "${name.slice(0, shownLength)}"` : undefined
}

const usedTwice = (what: "step" | "file", name: string): string => {
  const shown = name.slice(0, shownLength)
  return what === "step"
    ? `step "${shown}" was used twice in this attempt; give each step a unique name, e.g. "${shown}-1"`
    : `file "${shown}" was written twice in this attempt; declare a separate file for each`
}
