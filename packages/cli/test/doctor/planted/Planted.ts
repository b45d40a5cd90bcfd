import type { Installation } from "../../support/installations.ts"

export type Environment = Readonly<Record<string, string>>

/** Variables to set; `undefined` unsets one. */
export type Changes = Readonly<Record<string, string | undefined>>

/** An installation in which the doctor has printed a remedy. */
export interface Scene {
  readonly installation: Installation
  /** With which the doctor reported the problem. */
  readonly env: Environment
  /** The remedies, as printed. */
  readonly printed: string
  /** What the remedy started. It runs until the doctor has looked again. */
  readonly started: AsyncDisposableStack
  /** Says that a process does the rest, which takes a while. */
  readonly wait: () => void
}

/** Does what a remedy says, and returns the variables that it changes. */
export type Act = (scene: Scene) => Promise<Changes | void>

interface Described {
  readonly what: string
  /** Changes the installation, and returns variables to run the doctor with. */
  readonly plant: (installation: Installation) => Environment | void | Promise<Environment | void>
  readonly check: string
  readonly status: "warning" | "problem"
  readonly seen: RegExp
  readonly remedy: RegExp
  /** Only root can give a file to another user. */
  readonly needsRoot?: boolean
  /** Flags of the doctor's first look. */
  readonly flags?: ReadonlyArray<string>
}

/** A planted problem, whose remedy a test carries out, or for which there is a reason not to. */
export type Planted = Described &
  (
    | {
        /** Each way that the remedy offers; each begins with the planted problem. */
        readonly carryOut: Act | ReadonlyArray<Act>
        /** Another finding of the same check that remains. */
        readonly leaves?: RegExp
      }
    | { readonly notCarriedOut: string }
  )
